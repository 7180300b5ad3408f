"""Scores a model on labelled texts: accuracies, by group."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..data import counted
from ..display import MOST_ROWS, Shown, Summary, cut, interval, number
from ..errors import GuardrailWarning
from ..metrics import (
    SMALL_GROUP,
    GroupAccuracy,
    TokenRecall,
    accuracy,
    balanced_accuracy,
    group_accuracy,
    majority_accuracy,
    worst_group,
)
from ..models import EncodedTexts
from ..stats import exact_interval
from ..text import WordFinder
from ..typing import Array
from .sensitivity import NOT_MEASURED, Sensitivity, defined

ShortcutIn = Literal["text", "pair", "both"]

EVALUATION_SCHEMA_VERSION = 1
_NAMED = 5


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """Scores of one model on n labelled texts.

    Attributes:
        balanced_accuracy: Mean accuracy over the classes that occur.
        majority_accuracy: The accuracy of always predicting the most frequent class.
        groups: Accuracy by label and, if shortcuts were named, their presence.
        sensitivity: How far the predictions depend on single tokens, on all texts or a random sample of them.
        predicted: How many texts each class is predicted for, in the order of the labels.
        threshold: The least probability of the second of two classes at which it is predicted, if not the model's own.
    """

    n: int
    accuracy: float
    balanced_accuracy: float
    majority_accuracy: float
    groups: tuple[GroupAccuracy, ...]
    sensitivity: Sensitivity
    n_truncated: int
    predicted: tuple[int, ...] = ()
    threshold: float | None = None

    @property
    def worst_group(self) -> GroupAccuracy | None:
        """The group with the lowest accuracy; `None` if every group is empty."""
        return worst_group(self.groups)

    @property
    def worst_group_accuracy(self) -> float:
        """Accuracy of the worst group, in [0, 1]; NaN if every group is empty."""
        worst = self.worst_group
        return worst.accuracy if worst else float("nan")

    @property
    def mstps(self) -> float:
        """See `Sensitivity`; NaN if it was not measured."""
        return self.sensitivity.mstps

    @property
    def mstps_base_tokens(self) -> float:
        """See `Sensitivity`; NaN if it was not measured."""
        return self.sensitivity.mstps_base_tokens

    @property
    def shortcut_token_recall(self) -> dict[int, TokenRecall]:
        """See `Sensitivity`; empty if it was not measured."""
        return self.sensitivity.shortcut_token_recall

    def _summary(self) -> Summary:
        worst, shown = self.worst_group, self.groups
        if len(shown) > MOST_ROWS:  # the worst first
            shown = tuple(sorted(shown, key=lambda group: group.accuracy if group.n else 2.0)[:MOST_ROWS])
        between = exact_interval(round(self.accuracy * self.n), self.n) if self.n else (math.nan, math.nan)
        facts = {
            "accuracy": f"{number(self.accuracy)} ({interval(*between)}), balanced {number(self.balanced_accuracy)}; "
            f"majority class {number(self.majority_accuracy)}",
            "worst group": f"{number(worst.accuracy)} (n = {worst.n:,}): {cut(worst.name, 50)}" if worst else "-",
        }
        if n := self.sensitivity.n:
            sampled = f" ({n:,} texts sampled at random)" if n < self.n else ""
            facts["MSTPS"] = f"{number(self.mstps)} ({interval(*self.sensitivity.interval)}){sampled}"
        if recalls := self.shortcut_token_recall:
            facts["recall"] = ", ".join(f"{number(r.recall)} at {k}" for k, r in recalls.items()) + " (shortcut tokens)"
        return Summary(
            f"Evaluation: {counted(self.n, 'text')}" + (f" ({self.n_truncated:,} cut)" if self.n_truncated else ""),
            facts,
            ("group", ">n", ">accuracy", ">95 %"),
            [(group.name, group.n, group.accuracy, group.interval) for group in shown],
            more=len(self.groups) - len(shown),
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary with stable keys; what is undefined or was not measured is `None`."""
        worst = self.worst_group
        return {
            "schema_version": EVALUATION_SCHEMA_VERSION,
            "n": self.n,
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "majority_accuracy": self.majority_accuracy,
            "worst_group_accuracy": worst.accuracy if worst else None,
            "worst_group": worst.name if worst else None,
            "groups": [
                {
                    **asdict(group),
                    "accuracy": defined(group.accuracy),
                    "interval": list(group.interval) if group.n else None,
                }
                for group in self.groups
            ],
            **self.sensitivity.to_dict(),
            "n_truncated": self.n_truncated,
            "predicted": list(self.predicted),
            "threshold": self.threshold,
        }


def by_shortcut(labels: ArrayLike, present: ArrayLike, label_names: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """Groups by label and shortcut presence, in the paper's order: C_{2i-1} is label i without a shortcut, C_{2i} with.

    Args:
        labels: Class ids, shape (N,), in [0, C).
        present: Whether each text contains a shortcut, shape (N,), bool.
        label_names: The C label names.

    Returns:
        Group ids 2 * label + present, shape (N,), int64, and the names of the G = 2 C groups, with examples or without.

    Example:
        >>> groups, names = by_shortcut([0, 1, 1], [True, False, True], ["negative", "positive"])
        >>> groups.tolist(), names[1]
        ([1, 2, 3], 'negative, with shortcut')
    """
    ids = 2 * np.asarray(labels, dtype=np.int64) + np.asarray(present, dtype=bool)
    return ids, tuple(f"{name}, {how} shortcut" for name in label_names for how in ("without", "with"))


def at_threshold_of(logits: Array, predicted: Sequence[int]) -> tuple[Array, float]:
    """Class ids where the threshold between two classes is such that each is predicted as often as asked for.

    Args:
        logits: Shape (N, 2).
        predicted: How many of the N texts are to be given each class. Where margins are equal, fewer are given the
            second.

    Returns:
        Class ids, shape (N,), and the probability of the second class that is the threshold.

    Example:
        >>> ids, threshold = at_threshold_of(np.array([[0.0, 3.0], [0.0, 1.0], [0.0, -1.0]]), predicted=(2, 1))
        >>> ids.tolist(), round(threshold, 2)
        ([1, 0, 0], 0.88)
    """
    margins = logits[:, 1] - logits[:, 0]
    ordered, n = np.sort(margins)[::-1], predicted[1]
    beyond = [ordered[0] + 1, *ordered, ordered[-1] - 1]  # the threshold that lets all or none through is outside
    cut = 0.0 if n == int((margins > 0).sum()) else float(beyond[n] + beyond[n + 1]) / 2
    return (margins > cut).astype(np.int64), 1 / (1 + math.exp(-cut))


def score(
    encoded: EncodedTexts,
    predictions: Array,
    labels: Array,
    label_names: tuple[str, ...],
    *,
    shortcut_tokens: list[set[int]] | None = None,
    sensitivity: Sensitivity = NOT_MEASURED,
    threshold: float | None = None,
) -> Evaluation:
    """Score predictions for n texts, class ids of shape (n,), against their labels, likewise.

    Args:
        shortcut_tokens: See `shortcut_tokens`; groups are by label alone if it is `None` or no text has any.
    """
    groups, names = labels, label_names
    if shortcut_tokens is not None and any(shortcut_tokens):
        groups, names = by_shortcut(labels, [bool(tokens) for tokens in shortcut_tokens], label_names)
    per_group = group_accuracy(predictions, labels, groups, names)
    small = [group for group in per_group if 0 < group.n < SMALL_GROUP]
    if small:
        named = ", ".join(f"'{group.name}' ({counted(group.n, 'example')})" for group in small[:_NAMED])
        more = f" and {len(small) - _NAMED} more" if len(small) > _NAMED else ""
        said = f"Small groups: {named}{more}. Read their accuracies with care."
        warnings.warn(said, GuardrailWarning, stacklevel=3)
    return Evaluation(
        n=len(encoded),
        accuracy=accuracy(predictions, labels),
        balanced_accuracy=balanced_accuracy(predictions, labels),
        majority_accuracy=majority_accuracy(labels),
        groups=per_group,
        sensitivity=sensitivity,
        n_truncated=int(encoded.truncated.sum()),
        predicted=tuple(np.bincount(predictions, minlength=len(label_names)).tolist()),
        threshold=threshold,
    )


SIDES = {"text": (0,), "pair": (1,), "both": (0, 1)}


def shortcut_tokens(encoded: EncodedTexts, finder: WordFinder, shortcut_in: ShortcutIn = "text") -> list[set[int]]:
    """For each text the positions of the tokens that carry a shortcut; an empty set means it has none.

    Shortcuts are looked for in what the model sees after truncation. Of a phrase, only the content-bearing words
    count: a lone "to" is not "to be honest".
    """
    found = (finder.tokens(encoded, i, sides=SIDES[shortcut_in], content_only=True) for i in range(len(encoded)))
    return [set(np.flatnonzero(tokens).tolist()) for tokens in found]
