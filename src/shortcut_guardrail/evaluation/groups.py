"""Sorts examples into groups by label and presence of a shortcut."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each example.

    Attributes:
        ids: Group ids, shape (N,), int64, in [0, G).
        names: The G readable names. A group may have no examples; its name is here all the same.
    """

    ids: NDArray[np.int64]
    names: tuple[str, ...]


def by_shortcut(labels: ArrayLike, present: ArrayLike, label_names: Sequence[str]) -> Groups:
    """Groups by label and shortcut presence, in the paper's order: C_{2i-1} is label i without a shortcut, C_{2i} with.

    Args:
        labels: Class ids, shape (N,), in [0, C).
        present: Whether each text holds a shortcut, shape (N,), bool.
        label_names: The C label names.

    Returns:
        Ids 2 * label + present, and G = 2 C names.

    Example:
        >>> groups = by_shortcut([0, 1, 1], [True, False, True], ["negative", "positive"])
        >>> groups.ids.tolist(), groups.names[1]
        ([1, 2, 3], 'negative, with shortcut')
    """
    names = (f"{name}, {how} shortcut" for name in label_names for how in ("without", "with"))
    return Groups(2 * np.asarray(labels, dtype=np.int64) + np.asarray(present, dtype=bool), tuple(names))


def by_label(labels: ArrayLike, label_names: Sequence[str]) -> Groups:
    """Groups by label alone, for data whose shortcuts are not known: the labels as ids, and G = C names.

    Args:
        labels: Class ids, shape (N,), in [0, C).
        label_names: The C label names.
    """
    return Groups(np.array(labels, dtype=np.int64), tuple(label_names))
