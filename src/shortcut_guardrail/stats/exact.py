"""Exact intervals of shares and exact tests of paired answers."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=65_536)  # scipy searches for each end
def exact_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share; (NaN, NaN) when n is 0."""
    if n == 0:
        return (float("nan"), float("nan"))
    from scipy.stats import binomtest

    interval = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="exact")
    return (float(interval.low), float(interval.high))


@lru_cache(maxsize=65_536)
def paired_p_value(gained: int, lost: int) -> float:
    """Two-sided exact McNemar test of two systems on the same rows, from the counts of rows only one got right."""
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def mcnemar_greater(successes: int, failures: int) -> float:
    """Exact one-sided McNemar test: are successes more than chance makes of them?"""
    from scipy.stats import binom

    return float(binom.sf(successes - 1, successes + failures, 0.5))
