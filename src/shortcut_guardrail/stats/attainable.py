"""What the audit's test could have found at most: the smallest p-value that a candidate's counts allow.

Where too few texts hold a candidate, or too few do not, not even rests that are all opposed give a small
p-value. Not to be flagged then says nothing, and this module tells when that is so.
"""

import numpy as np

from ..typing import Array
from .brunner_munzel import p_relative_effect

LARGEST_FACTOR = 1000
"""A corpus more than so many times as large is not asked for."""


def p_all_opposed(n: Array, against: Array, without: Array, min_relative_effect: float) -> Array:
    """The p-value of the context's two tests if the rest of each text spoke less for the class than every other text.

    Args:
        n: Texts that hold the candidate, shape (M,).
        against: Texts without it that are given another answer than the candidate's class.
        without: Texts without it. Where there are none, nothing is to be found: 1.
        min_relative_effect: See `AuditConfig`.

    None of the counts has to be whole, so that they can be those of a larger corpus of the same shares.
    """
    from scipy.special import gammaln

    # All n draws without replacement from n + without texts hit one of the n + against that are opposed.
    log = gammaln(n + against + 1) - gammaln(against + 1) + gammaln(without + 1) - gammaln(n + without + 1)
    answers = np.where(without > 0, np.exp(np.minimum(log, 0.0)), 1.0)
    nothing = np.zeros(len(n))
    pairs = p_relative_effect(np.column_stack([n, nothing]), np.column_stack([nothing, without]), min_relative_effect)
    p: Array = np.minimum(1.0, 2 * np.minimum(answers, pairs))
    return p


def p_of_pull(lost: Array, n: Array, min_pull: float) -> Array:
    """The binomial test's p-value of `lost` texts among n against a share of `min_pull`; counts need not be whole."""
    from scipy.special import betainc

    p: Array = np.where(lost > 0, betainc(np.maximum(lost, 1e-9), n - lost + 1, min_pull), 1.0)
    return p


def texts_needed(
    n: Array,
    lost: Array,
    against: Array,
    without: Array,
    levels: Array,
    *,
    min_count: int,
    min_pull: float,
    min_relative_effect: float,
) -> Array:
    """How many texts with the candidate would do, in a corpus that is larger and has the same shares.

    Args:
        n: Texts that hold it, shape (M,).
        lost: Those that lose its class when it is masked.
        against: Texts without it that are given another class.
        levels: The p-value needed.
        min_count: See `AuditConfig`, as for `min_pull` and `min_relative_effect`.

    Returns:
        The number of texts that hold it at which the p-value would reach the level if the rest of all of them were
        opposed, shape (M,); NaN where a corpus `LARGEST_FACTOR` times as large would not do.
    """

    def enough(factor: Array) -> Array:
        context = p_all_opposed(n * factor, against * factor, without * factor, min_relative_effect)
        reached = np.maximum(context, p_of_pull(lost * factor, n * factor, min_pull)) <= levels
        return reached & (n * factor >= min_count)

    low, high = np.ones(len(n)), np.full(len(n), float(LARGEST_FACTOR))
    possible = enough(high)
    for _ in range(40):
        middle = (low + high) / 2
        good = enough(middle)
        high, low = np.where(good, middle, high), np.where(good, low, middle)
    needed: Array = np.where(possible, np.ceil(n * high - 1e-6), np.nan)
    return needed
