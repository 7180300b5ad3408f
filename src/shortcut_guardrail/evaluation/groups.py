"""Sorts examples into groups by label and presence of a shortcut."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import DataError


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
        present: Whether each text holds a shortcut, shape (N,), booleans.
        label_names: The C label names.

    Returns:
        Ids 2 * label + present, and G = 2 C names.

    Raises:
        DataError: The two differ in length, a label is out of range, or `present` is not boolean.

    Example:
        >>> groups = by_shortcut([0, 1, 1], [True, False, True], ["negative", "positive"])
        >>> groups.ids.tolist(), groups.names[1]
        ([1, 2, 3], 'negative, with shortcut')
    """
    label_ids = _checked_labels(labels, label_names)
    flags = np.asarray(present)
    if flags.shape != label_ids.shape:
        raise DataError(f"present must have one entry for each of the {len(label_ids)} labels, but has {flags.size}.")
    if flags.size and flags.dtype != bool:
        raise DataError(f"present must be True or False for each text, but is of type {flags.dtype}.")
    names = (f"{name}, {how} shortcut" for name in label_names for how in ("without", "with"))
    return Groups(2 * label_ids + flags.astype(np.int64), tuple(names))


def by_label(labels: ArrayLike, label_names: Sequence[str]) -> Groups:
    """Groups by label alone, for data whose shortcuts are not known.

    Args:
        labels: Class ids, shape (N,), in [0, C).
        label_names: The C label names.

    Returns:
        The labels as ids, and the label names as G = C names.

    Raises:
        DataError: A label is out of range.
    """
    return Groups(_checked_labels(labels, label_names), tuple(label_names))


def _checked_labels(labels: ArrayLike, label_names: Sequence[str]) -> NDArray[np.int64]:
    given = np.asarray(labels)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise DataError(f"labels must be a list of class ids, but have shape {given.shape} and type {given.dtype}.")
    ids = given.astype(np.int64)
    outside = np.flatnonzero((ids < 0) | (ids >= len(label_names)))
    if outside.size:
        first = outside[0]
        raise DataError(
            f"labels must lie in 0 to {len(label_names) - 1}, but {outside.size} do not; "
            f"the first is {ids[first]}, at position {first}."
        )
    return ids
