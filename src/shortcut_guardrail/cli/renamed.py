"""Options of version 0.1 under their names of today: one table, applied before the command line is parsed.

To be removed with version 0.3.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise

from ..errors import ConfigError, GuardrailWarning

_Rewrite = Callable[[str], list[str]]


def _option(name: str) -> _Rewrite:
    return lambda value: [name, value]


def _setting(*names: str) -> _Rewrite:
    return lambda value: [word for name in names for word in ("--set", f"{name}={value}")]


def _preset(value: str) -> list[str]:
    known = {
        "default": ["--strategy", "maskcl"],
        "paper": ["--strategy", "paper"],
        "paper-flat": ["--strategy", "paper", "--set", "adapter.pairing=flat"],
    }
    if value not in known:
        raise ConfigError(f"--preset is gone. Say --strategy maskcl or --strategy paper instead of {value!r}.")
    return known[value]


RENAMED: dict[str, dict[str, _Rewrite]] = {
    "audit": {"--alpha": _option("--fdr")},
    "certify": {"--report": _option("--html")},
    "fit": {
        "--preset": _preset,
        "--rank": _setting("adapter.rank"),
        "--learning-rate": _setting("adapter.learning_rate"),
        "--epochs": _setting("adapter.epochs"),
        "--train-batch-size": _setting("adapter.batch_size"),
        "--temperature": _setting("adapter.temperature"),
        "--top-k": _setting("saliency.top_k", "shortcuts.top_k"),
    },
}
"""Options with a value, by command: what they are now."""

FLAGS = {"fit": {"--auto-strength": ["--strength", "auto"]}}
"""Options without a value."""

GONE = {
    "fit": {
        "--certify": "Fit first, then run `certify` with rows that fit has not seen.",
        "--confidence": "Fit first, then run `certify --confidence`.",
        "--unlabelled": "Fit first, then run `certify` with that file.",
        "--report": "Run `audit` on the base and on the guard, then `compare --html` on both.",
        "--redact": "It was for --report, which is gone, too.",
    }
}
"""Options that another command has now."""


def current_names(arguments: Sequence[str]) -> list[str]:
    """The arguments with options of version 0.1 rewritten, each with a warning that names the new one.

    Raises:
        ConfigError: An option is gone; the sentence says what to run instead.
    """
    command = next((word for word in arguments if not word.startswith("-")), "")
    renamed, flags, gone = RENAMED.get(command, {}), FLAGS.get(command, {}), GONE.get(command, {})
    left, now = list(arguments), list[str]()
    while left:
        word = left.pop(0)
        if word == "--":
            return [*now, word, *left]
        name, equals, value = word.partition("=")
        if name in gone:
            raise ConfigError(f"`{command} {name}` is gone. {gone[name]}")
        if name in flags and not equals:
            now += _told(command, name, flags[name])
        elif name in renamed and (equals or left):
            if not equals:
                value = left.pop(0)
            if name == "--temperature" and _distills(arguments):
                now += _told(command, name, ["--set", f"distill.temperature={value}"])
            else:
                now += _told(command, name, renamed[name](value))
        else:
            now.append(word)
    return now


def _distills(arguments: Sequence[str]) -> bool:
    """Whether a loss other than the contrastive one is meant: each has its own temperature."""
    return "--strategy=distill" in arguments or ("--strategy", "distill") in pairwise(arguments)


def _told(command: str, old: str, new: list[str]) -> list[str]:
    warnings.warn(
        f"`{command} {old}` is now {' '.join(new)}; the old name goes with version 0.3.", GuardrailWarning, stacklevel=3
    )
    return new
