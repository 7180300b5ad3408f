"""Intervals and tests over runs: what several seeds and a finite test set allow to be said.

Two sources of chance are kept apart. The *spread* is the standard deviation of a score over seeds: other training rows,
another head, another support set. The *interval* comes from resampling the scored texts and averaging over seeds: other
test texts, the same models. Seeds share most of their test texts, so texts are drawn once for all seeds together: drawn
for each seed apart, the draws would average out, and the interval would be too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from shortcut_guardrail.errors import DataError
from shortcut_guardrail.stats import paired_p_value

Array = np.ndarray[Any, np.dtype[Any]]
Columns = Mapping[str, Array]
"""Aligned arrays by name, one entry a row, such as `right`, `labels`."""
Statistic = Callable[[Columns, Array], Array]
"""From the U distinct rows and R sets of weights, shape (R, U), to R values."""

RESAMPLES = 2000


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (ddof 1); the latter is NaN for a single value, both for none."""
    given = np.asarray(values, dtype=np.float64)
    mean = float(given.mean()) if len(given) else math.nan
    return mean, float(given.std(ddof=1)) if len(given) > 1 else math.nan


@dataclass(frozen=True)
class Paired:
    """Two systems on the same rows.

    Attributes:
        gained: Rows that only the second got right.
        lost: Rows that only the first got right.
        p_value: Two-sided exact McNemar test: how often a difference as large comes about if neither is better.
    """

    gained: int
    lost: int
    p_value: float


def mcnemar(first: Array, second: Array) -> Paired:
    """The exact McNemar test of two systems on the same rows.

    Args:
        first: Which rows the first got right, shape (N,), bool.
        second: The same for the second.

    Raises:
        DataError: They are not on the same number of rows.

    Example:
        >>> import numpy as np
        >>> mcnemar(np.array([True, False, False, False]), np.array([True, True, True, False]))
        Paired(gained=2, lost=0, p_value=0.5)
    """
    if len(first) != len(second):
        raise DataError(f"A paired test needs the same rows, but there are {len(first)} and {len(second)}.")
    gained, lost = int((second & ~first).sum()), int((first & ~second).sum())
    return Paired(gained, lost, paired_p_value(gained, lost))


def weighted_accuracy(column: str) -> Statistic:
    """The share of rows for which a column is true."""

    def statistic(rows: Columns, weights: Array) -> Array:
        return np.asarray(weights @ rows[column] / weights.sum(axis=1))

    return statistic


def weighted_balanced_accuracy(column: str) -> Statistic:
    """The mean over the labels that occur of the share of rows for which a column is true."""

    def statistic(rows: Columns, weights: Array) -> Array:
        shares = []
        for label in np.unique(rows["labels"]):
            mine = rows["labels"] == label
            of_label = weights[:, mine]
            size = of_label.sum(axis=1)
            # A resample may have lost a rare label; it is averaged over the others then.
            shares.append(np.where(size > 0, of_label @ rows[column][mine] / np.maximum(size, 1), np.nan))
        return np.asarray(np.nanmean(np.stack(shares), axis=0))

    return statistic


def resample(
    seeds: Sequence[Columns], statistics: Mapping[str, Statistic], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Array]:
    """Scores on resampled texts, averaged over seeds.

    The texts of all seeds are drawn together, with replacement: a text that is drawn twice counts twice in every seed
    whose rows hold it. All statistics see the same resamples, so that their differences are paired.

    Args:
        seeds: The rows of each seed, with a column `texts` that numbers the text of each row: rows of one number, in
            any seed, are of one text.
        statistics: What is computed of them.
        resamples: How many times the texts are drawn.
        seed: Decides the draws.

    Returns:
        By the names of `statistics`: shape (resamples,). A resample in which a seed has no row is averaged over the
        others; NaN where none has any.
    """
    alike, counts, kinds = _alike(seeds)
    drawn = _drawn(tuple(counts.tolist()), resamples, seed)
    found: dict[str, list[Array]] = {name: [] for name in statistics}
    for rows, holds in zip(kinds, alike, strict=True):
        weights = drawn @ holds
        some = weights.sum(axis=1) > 0
        for name, statistic in statistics.items():
            values = np.full(resamples, np.nan)
            values[some] = statistic(rows, weights[some])
            found[name].append(values)
    return {name: _mean_of_some(np.stack(values)) for name, values in found.items()}


@lru_cache(maxsize=4)  # neighbouring columns of a table are about the same texts
def _drawn(counts: tuple[int, ...], resamples: int, seed: int) -> Array:
    """How often each sort of text is drawn, shape (resamples, P); as floats, which are multiplied many times faster."""
    n = sum(counts)
    drawn = np.random.default_rng(seed).multinomial(n, np.array(counts) / n, size=resamples).astype(np.float64)
    drawn.flags.writeable = False
    return drawn


def _mean_of_some(values: Array) -> Array:
    """The mean over the first axis of what is not NaN; NaN where nothing is left."""
    there = ~np.isnan(values)
    total = np.where(there, values, 0).sum(axis=0)
    return np.where(there.any(axis=0), total / np.maximum(there.sum(axis=0), 1), np.nan)


def _alike(seeds: Sequence[Columns]) -> tuple[list[Array], Array, list[dict[str, Array]]]:
    """Texts whose rows are the same in every seed, taken together: to draw texts is to draw how often each kind comes.

    Returns:
        For each of S seeds how many rows of each of its U kinds a text of each of the P sorts has, shape (P, U); how
        many texts of each sort there are, shape (P,); and the distinct rows of each seed.
    """
    numbers, texts = np.unique(np.concatenate([rows["texts"] for rows in seeds]), return_inverse=True)
    ends = np.cumsum([len(rows["texts"]) for rows in seeds])
    kinds, holds = [], []
    for rows, of_row in zip(seeds, np.split(texts, ends[:-1]), strict=True):
        names = [name for name in rows if name != "texts"]
        table = np.stack([np.asarray(rows[name], dtype=np.float64) for name in names], axis=1)
        distinct, kind, _ = _distinct(table)
        counted = np.zeros((len(numbers), len(distinct)))
        np.add.at(counted, (of_row, kind), 1)
        kinds.append({name: distinct[:, at] for at, name in enumerate(names)})
        holds.append(counted)
    sorts, _, counts = _distinct(np.concatenate(holds, axis=1))
    widths = np.cumsum([part.shape[1] for part in holds])
    return np.split(sorts, widths[:-1], axis=1), counts, kinds


def _distinct(table: Array) -> tuple[Array, Array, Array]:
    """The distinct rows in order, which of them each row is, and how often each occurs.

    As `np.unique` along the first axis, which compares whole rows and takes many times as long.
    """
    order = np.lexsort(table.T[::-1])
    rows = table[order]
    first = np.ones(len(table), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    which = np.empty(len(table), dtype=np.int64)
    which[order] = np.cumsum(first) - 1
    return rows[first], which, np.bincount(which)


def percentile_interval(values: Array, confidence: float = 0.95) -> tuple[float, float]:
    """The middle share of resampled values."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def share_of_gap(system: float, base: float, oracle: float) -> float:
    """How much of the way from the base to the oracle a system went: 0 none of it, 1 all, negative away from it.

    NaN where the oracle is not better than the base, so that there is no gap.
    """
    return (system - base) / (oracle - base) if oracle > base else math.nan
