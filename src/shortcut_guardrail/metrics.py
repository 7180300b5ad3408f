"""Accuracy, group accuracy, MSTPS and shortcut token recall, from plain arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .stats import exact_interval
from .typing import Array

SMALL_GROUP = 30
"""Groups with fewer examples than this are warned about: at 30, a 95 % interval is still some 35 points wide."""


@dataclass(frozen=True)
class GroupAccuracy:
    """Accuracy within one group.

    Attributes:
        accuracy: In [0, 1]; NaN for an empty group.
        interval: Exact (Clopper-Pearson) 95 % interval; NaNs for an empty group.
    """

    name: str
    n: int
    accuracy: float
    interval: tuple[float, float]


MANY_GROUPS = 40
"""More than so many are not shown one by one."""


def fold_groups(models: Sequence[Sequence[GroupAccuracy]]) -> list[tuple[GroupAccuracy, ...]]:
    """The same groups of one or several models, a row each.

    Of more than `MANY_GROUPS` those that are not small come one by one, the worst of the last model first, so many at
    most. One row has the texts of all others together.
    """
    rows = list(zip(*models, strict=True))
    if len(rows) <= MANY_GROUPS:
        return rows
    shown = sorted((row for row in rows if row[0].n >= SMALL_GROUP), key=lambda row: row[-1].accuracy)[:MANY_GROUPS]
    rest = [row for row in rows if row not in shown]
    name, n = f"{len(rest)} other groups together", sum(row[0].n for row in rest)
    right = [sum(round(one.accuracy * one.n) for one in column if one.n) for column in zip(*rest, strict=True)]
    return [*shown, tuple(GroupAccuracy(name, n, k / n, exact_interval(k, n)) for k in right)] if n else shown


def accuracy(predictions: Array, labels: Array) -> float:
    """Share of correct predictions, in [0, 1]; NaN without examples."""
    return float((predictions == labels).mean()) if len(labels) else float("nan")


def balanced_accuracy(predictions: Array, labels: Array) -> float:
    """Mean over the classes that occur of the share predicted rightly; a constant prediction scores 1 / classes."""
    right = predictions == labels
    return float(np.mean([right[labels == c].mean() for c in np.unique(labels)])) if len(labels) else float("nan")


def majority_accuracy(labels: Array) -> float:
    """What always answering the most frequent class would score, in [0, 1]."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels)) if len(labels) else float("nan")


def group_accuracy(
    predictions: Array, labels: Array, groups: Array, names: tuple[str, ...]
) -> tuple[GroupAccuracy, ...]:
    """Accuracy within every group, in the order of `names`."""
    inside = [groups == group for group in range(len(names))]
    return tuple(
        GroupAccuracy(
            name,
            len(labels[rows]),
            accuracy(predictions[rows], labels[rows]),
            exact_interval(int((predictions[rows] == labels[rows]).sum()), len(labels[rows])),
        )
        for name, rows in zip(names, inside, strict=True)
    )


def worst_group(groups: tuple[GroupAccuracy, ...]) -> GroupAccuracy | None:
    """The group with the lowest accuracy, the first of equals; an empty group is never it."""
    filled = [group for group in groups if group.n]
    return min(filled, key=lambda group: group.accuracy) if filled else None


def worst_group_accuracy(predictions: Array, labels: Array, groups: Array) -> float:
    """The lowest accuracy within any group that has examples, in [0, 1]."""
    right = predictions == labels
    return float(min(right[groups == g].mean() for g in np.unique(groups)))


def sensitivity(original: Array, masked: Array) -> Array:
    """The terms of which maximum single-token prediction sensitivity (MSTPS, paper Section 5.2) is the mean.

    For each text the largest absolute change of P(y_hat) when one important token is masked; 0 where none was masked.

    Args:
        original: P(y_hat | x), shape (N,).
        masked: P(y_hat | x with one token masked), shape (N, K), NaN for empty slots.

    Returns:
        Shape (N,), each in [0, 1], lower is less reliance.
    """
    change = np.nan_to_num(np.abs(original[:, None] - masked), nan=0.0)
    largest: Array = change.max(axis=1, initial=0.0)
    return largest


@dataclass(frozen=True)
class TokenRecall:
    """Shortcut Token Recall at one k (paper Section 4.2).

    Attributes:
        recall: Share of shortcut-containing texts with a shortcut token among the k most important; NaN without any.
        chance: What a random choice of k ordinary tokens would reach on the same texts.
    """

    recall: float
    chance: float
    n: int

    @property
    def hits(self) -> int:
        """How many of the n texts have one."""
        return round(self.recall * self.n) if self.n else 0


def token_recall(important: Array, shortcut_tokens: list[set[int]], n_ordinary: Array, k: int) -> TokenRecall:
    """Shortcut Token Recall over the texts that contain a shortcut.

    Args:
        important: Important token positions, highest score first, shape (N, K), -1 where empty.
        shortcut_tokens: For each text the positions of its shortcut tokens; an empty set means it has none.
        n_ordinary: Number of ordinary tokens of each text, shape (N,).
    """
    from scipy.stats import hypergeom

    rows = [i for i, tokens in enumerate(shortcut_tokens) if tokens]
    if not rows:
        return TokenRecall(float("nan"), float("nan"), 0)
    hits = [bool(shortcut_tokens[i] & set(map(int, important[i, :k]))) for i in rows]
    sizes = n_ordinary[rows]
    marked = np.array([len(shortcut_tokens[i]) for i in rows])
    # The chance that none of min(k, L) tokens drawn without replacement from L is one of the m marked ones.
    chance = 1.0 - hypergeom.pmf(0, sizes, marked, np.minimum(k, sizes))
    return TokenRecall(float(np.mean(hits)), float(chance.mean()), len(rows))
