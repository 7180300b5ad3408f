"""Draws rows: stratified subsets, rows by group, and splits into training and development rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shortcut_guardrail.errors import DataError

Ids = NDArray[np.int64]
Counts = Mapping[int, int]


def stratified(strata: Ids, n: int, rng: np.random.Generator) -> Ids:
    """Positions of n rows, drawn without replacement so that every stratum keeps its share.

    Args:
        strata: The stratum of each row, shape (N,), not negative.
        n: How many; a stratum gets the nearest whole number of rows, by largest remainders.
        rng: A generator; it is used the same number of times whatever n is, so that a smaller subset is part of a
            larger one up to rounding.

    Returns:
        Positions in [0, N), shape (n,), in ascending order.

    Raises:
        DataError: n is larger than N.
    """
    if n > len(strata):
        raise DataError(f"{n} rows are asked for, but there are {len(strata)}.")
    available = np.bincount(strata)
    exact = available * (n / len(strata)) if len(strata) else available * 0.0
    counts = np.floor(exact + 1e-9).astype(np.int64)
    rest = np.argsort(counts - exact, kind="stable")[: n - counts.sum()]
    counts[rest] += 1
    return np.sort(take_groups(shuffled_groups(strata, rng, len(counts)), dict(enumerate(counts.tolist()))))


def shuffled_groups(groups: Ids, rng: np.random.Generator, n_groups: int) -> list[Ids]:
    """The positions of each group's rows in random order; those of an empty group are none."""
    order = rng.permutation(len(groups))
    return [order[groups[order] == group] for group in range(n_groups)]


def take_groups(members: list[Ids], counts: Counts, *, from_end: bool = False) -> Ids:
    """So many rows of each group: the first ones, or the last ones, which are others as long as both fit.

    Taking from the front for training and from the end for development keeps the two apart, and gives settings that
    differ in the counts as many common rows as can be.
    """
    parts = [
        members[group][len(members[group]) - count :] if from_end else members[group][:count]
        for group, count in counts.items()
    ]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)


def check_available(members: list[Ids], wanted: Counts, names: tuple[str, ...], what: str) -> None:
    """Refuses counts that the data do not have.

    Raises:
        DataError: Names every group that is too small.
    """
    short = [
        f"{count} of '{names[group]}' (there are {len(members[group])})"
        for group, count in wanted.items()
        if count > len(members[group])
    ]
    if short:
        raise DataError(f"{what} needs {', '.join(short)}. Ask for fewer rows.")


def split_sizes(total: int, n_train: int | None) -> tuple[int, int]:
    """How many rows training and development get: ten to one, out of all or for a given number of training rows.

    Raises:
        DataError: There are not enough rows for both.
    """
    if n_train is None:
        n_dev = max(1, total // 11)
        return total - n_dev, n_dev
    n_dev = max(1, n_train // 10)
    if n_train + n_dev > total:
        raise DataError(
            f"n_train is {n_train}, which with {n_dev} development rows beside them is more than the {total} rows "
            f"there are. The most is {total - max(1, total // 11)}."
        )
    return n_train, n_dev


def split_stratified(strata: Ids, n_train: int | None, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Positions of training and development rows, disjoint, each with every stratum's share."""
    n_train, n_dev = split_sizes(len(strata), n_train)
    dev = stratified(strata, n_dev, rng)
    rest = np.setdiff1d(np.arange(len(strata)), dev)
    return rest[stratified(strata[rest], n_train, rng)], dev
