"""How often the shortcut occurs in each class, as the shortcut strength (the paper's lambda) says.

Every probability is keyed by the name of its label, since which class comes first is not the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from shortcut_guardrail.errors import ConfigError

Reading = Literal["paper", "zhou"]
"""What a strength below 1 means: `paper` scales the base probabilities, `zhou` mixes them with a fair coin."""


def occurrence_probabilities(
    order: Sequence[str], strength: float, reading: Reading, *, reverse: bool = False
) -> dict[str, float]:
    """The probability that a text of each class has the shortcut.

    With b = (c - 1) / (C - 1) for the c-th of C labels, or 1 - b where the order is reversed, it is strength * b in the
    reading `paper`, the formula of the paper's appendix, and strength * b + (1 - strength) / 2 in the reading `zhou`,
    which is how the released data of Zhou et al. (2024) were made. At strength 1 the two agree; at 0 the shortcut is
    absent in one and in half of all texts in the other, and tells nothing about the label in either.

    Args:
        order: The labels from the one that has the shortcut least to the one that has it most.
        strength: Shortcut strength, in [0, 1].
        reading: `paper` or `zhou`.
        reverse: For the reversed test set: the same probabilities in the opposite order of labels.

    Raises:
        ConfigError: The strength is out of range, the reading unknown, or there are fewer than two labels.

    Example:
        >>> occurrence_probabilities(["neutral", "entailment", "contradiction"], 1.0, "paper")
        {'neutral': 0.0, 'entailment': 0.5, 'contradiction': 1.0}
        >>> occurrence_probabilities(["non-toxic", "toxic"], 0.8, "zhou", reverse=True)
        {'non-toxic': 0.9, 'toxic': 0.1}
    """
    check_reading(reading)
    check_share("strength", strength)
    if len(order) < 2:
        raise ConfigError(f"A shortcut goes with a label, so at least two labels are needed, but there is {order!r}.")
    base = [index / (len(order) - 1) for index in range(len(order))]
    if reverse:
        base.reverse()
    coin = (1 - strength) / 2 if reading == "zhou" else 0.0
    return {label: round(strength * share + coin, 12) for label, share in zip(order, base, strict=True)}


def check_reading(reading: str) -> None:
    """Refuses a reading that does not exist."""
    if reading not in get_args(Reading):
        raise ConfigError(f"reading must be 'paper' or 'zhou', but is {reading!r}.")


def check_share(name: str, value: float) -> None:
    """Refuses a number outside [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"{name} must lie between 0 and 1, but is {value!r}.")
