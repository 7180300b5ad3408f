"""What the library raises: one base error and five kinds.

Every message says what was expected, what was found and what to do. The first three kinds are the caller's to mend.
docs/reference/exit-statuses.md has what the command line makes of each.
"""


class GuardrailError(Exception):
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
    """Nothing speaks for a repair: no word is named or found, or only on weak evidence, and labels prefer the base.

    Nothing was changed.
    """


class GuardrailWarning(UserWarning):
    """Something the reader of a result has to know; it stops nothing."""
