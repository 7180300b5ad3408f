"""What the library raises: one base error and five kinds.

Every message is a sentence for the person who can act on it: what was expected, what was found, what to do. The first
three kinds are the caller's to mend and are also `ValueError`s; `RunError` is a run that failed although its input
was fine (a full disk, NaN logits) and is also a `RuntimeError`. The command line turns the first three into exit
status 2, a failed run into 1, and `NothingToRepairError`, which is an answer rather than a fault, into 3.
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
    """The input was fine, but the run could not be finished."""


class NothingToRepairError(GuardrailError):
    """Nothing speaks for a repair: no word is named or found, and labels prefer the base. Nothing was changed."""


class GuardrailWarning(UserWarning):
    """Something the reader of a result has to know; it stops nothing."""
