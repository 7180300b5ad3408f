"""Which of many findings of two parts are discoveries, at a false-discovery rate: AdaFilter.

A finding of two parts is only one if both null hypotheses are false, so its p-value is the larger one of its parts. To
count all tests in Benjamini and Hochberg's procedure is then far too strict: where both nulls hold, which is what most
words are like, both p-values have to be small by chance at once. AdaFilter counts at each threshold only those tests
of which one part passes it. It is due to Wang, Gui, Su, Sabatti and Owen (2022, Annals of Statistics 50, 1890-1909),
here for r = n = 2.
Let F_i be the smaller p-value of finding i and S_i the larger one. The findings with S_i <= g are discoveries for the
largest g with

    g * #{F_j <= g} <= fdr * max(1, #{S_j <= g}).

It never finds less than Benjamini and Hochberg's procedure, which has the number of all tests for #{F_j <= g}. The
proof asks for two parts that are independent of each other. Those of one candidate share its texts, so that the rate
that is kept is simulated (`bench/experiments/audit_simulation`) rather than taken from the theorem.
"""

import numpy as np

from ..typing import Array


def q_values(first: Array, second: Array) -> Array:
    """The smallest false-discovery rate at which each finding is a discovery, shape (M,), in [0, 1].

    Args:
        first: p-values of the findings' first parts, shape (M,).
        second: Those of their second parts.
    """
    smaller, larger = np.sort(np.minimum(first, second)), np.maximum(first, second)
    order = np.argsort(larger, kind="stable")
    thresholds = larger[order]
    tests = np.searchsorted(smaller, thresholds, side="right")
    findings = np.searchsorted(thresholds, thresholds, side="right")
    q = np.ones(len(larger))
    q[order] = np.minimum.accumulate((thresholds * tests / np.maximum(findings, 1))[::-1])[::-1]
    return np.minimum(q, 1.0)


def levels_needed(first: Array, second: Array, tested: Array, fdr: float) -> Array:
    """The p-value at which each candidate would just be a discovery if both its parts reached it, the others staying.

    For candidates that are discoveries the value means nothing.

    Args:
        first: p-values of the first parts, shape (M,).
        second: Those of the second parts.
        tested: Whether each candidate was tested, shape (M,); one that was not would be one test more.
        fdr: The false-discovery rate.
    """
    smaller, larger = np.minimum(first, second), np.maximum(first, second)
    # Between two neighbouring events nothing changes but the threshold itself.
    events = np.unique(np.concatenate([[0.0], smaller[tested], larger[tested]]))
    tests = np.searchsorted(np.sort(smaller[tested]), events, side="right")
    findings = np.searchsorted(np.sort(larger[tested]), events, side="right")
    as_new = _largest_so_far(events, tests + 1, findings + 1, fdr)
    as_counted = _largest_so_far(events, np.maximum(tests, 1), findings + 1, fdr)
    levels = np.full(len(first), as_new[-1])
    # A tested candidate is among the tests from its smaller p-value on, and among the findings from its larger one on,
    # where it is known not to be a discovery.
    from_smaller, from_larger = (np.searchsorted(events, x[tested]) for x in (smaller, larger))
    counted = as_counted[np.maximum(from_larger - 1, 0)]
    new = as_new[np.maximum(from_smaller - 1, 0)]
    levels[tested] = np.where((from_larger > 0) & (counted > smaller[tested]), counted, new)
    return levels


def _largest_so_far(events: Array, tests: Array, findings: Array, fdr: float) -> Array:
    """The largest threshold that keeps the rate, up to the end of each interval between events."""
    largest = fdr * findings / tests
    ends = np.append(events[1:], np.inf)
    keeps: Array = np.where(largest >= events, np.minimum(largest, ends), 0.0)
    so_far: Array = np.maximum.accumulate(keeps)
    return so_far
