"""Intervals of shares (exact) and of means, and exact tests of paired answers."""

import math
from collections.abc import Sequence

from ..typing import Array


def exact_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share; (NaN, NaN) when n is 0."""
    if n == 0:
        return (math.nan, math.nan)
    from scipy.special import betaincinv  # by `binomtest`, which searches, it takes hundreds of times as long

    tail, failures = (1 - confidence) / 2, n - successes
    low = float(betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return (low, high)


def mean_interval(values: Array) -> tuple[float, float]:
    """Student's 95 % t interval of the mean of independent values in [0, 1], shape (n,); NaNs for fewer than two.

    Approximate: it relies on the mean being near normal. For skewed values a few dozen do not suffice: where 5 % of the
    values are high and the rest near 0, of 30 values it covers the mean in some 79 % of cases, not in 95 %.

    Example:
        >>> import numpy as np
        >>> [round(end, 3) for end in mean_interval(np.array([0.2, 0.4, 0.6, 0.8]))]
        [0.089, 0.911]
    """
    n = len(values)
    if n < 2:
        return (math.nan, math.nan)
    from scipy.stats import t

    mean = float(values.mean())
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return (max(0.0, mean - half), min(1.0, mean + half))


def binned_mean_interval(mean: float, counts: Sequence[int], n: int) -> tuple[float, float]:
    """The same for values in [0, 1] of which only a histogram of equal bins is known; wider by half a bin's deviation.

    (0, 1) for fewer than two.

    Args:
        n: How many of them are independent, where repeats are counted too.
    """
    total, bins = sum(counts), len(counts)
    if n < 2 or not total:
        return (0.0, 1.0)
    from scipy.stats import t

    places = [(i + 0.5) / bins for i in range(bins)]
    centre = sum(count * place for count, place in zip(counts, places, strict=True)) / total
    squares = sum(count * (place - centre) ** 2 for count, place in zip(counts, places, strict=True)) / total
    half = float(t.ppf(0.975, n - 1)) * (math.sqrt(squares * n / (n - 1)) + 0.5 / bins) / math.sqrt(n)
    return (max(0.0, mean - half), min(1.0, mean + half))


def paired_p_value(gained: int, lost: int) -> float:
    """Two-sided exact McNemar test of two systems on the same rows, from the counts of rows only one got right."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(gained, lost), gained + lost, 0.5)))


def mcnemar_greater(successes: int, failures: int) -> float:
    """Exact one-sided McNemar test: are successes more than chance makes of them?"""
    from scipy.special import bdtrc

    return float(bdtrc(successes - 1, successes + failures, 0.5))
