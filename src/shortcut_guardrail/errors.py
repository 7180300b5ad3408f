"""What the library raises: one base error and five kinds.

Every message says what was expected, what was found and what to do. The first three kinds are the caller's to fix.
docs/reference/exit-statuses.md has what the command line makes of each.
"""

import re
from typing import Any

# Control characters but line breaks and tabs, what turns the direction of writing, and halves of surrogate pairs.
_OBEYED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, form: str = "[U+{:04X}]") -> str:
    """A text without characters that a terminal would obey, which are spelled out: it may come from anybody's files.

    Whatever comes from outside goes through this on its way to a terminal, an exception or a page.

    Example:
        >>> printable("column '\\x1b[31mred'"), printable("two\\nlines")
        ("column '[U+001B][31mred'", 'two\\nlines')
    """
    return _OBEYED.sub(lambda found: form.format(ord(found[0])), text)


class _Printable(Exception):
    """What is said is printable."""

    def __init__(self, *said: Any) -> None:
        super().__init__(*(printable(one) if isinstance(one, str) else one for one in said))


class GuardrailError(_Printable):
    """Base of everything this library raises on purpose."""


class DataError(GuardrailError, ValueError):
    """A file, a column, a text or a label is not what it has to be."""


class ModelError(GuardrailError, ValueError):
    """A model, a tokenizer or an adapter folder cannot be used for this."""


class ConfigError(GuardrailError, ValueError):
    """An option is out of range, unknown, or contradicts another one."""


class RunError(GuardrailError, RuntimeError):
    """The input was fine, but the run could not be finished, as with a full disk or logits that are NaN."""


class NothingToRepairError(GuardrailError):
    """No word is named or found, except on weak evidence, and labels prefer the original model. Nothing was changed."""


class GuardrailWarning(_Printable, UserWarning):
    """A limit that the reader of a result has to know; the run continues."""
