"""Whether the rest of a candidate's texts speaks less for its class than texts without it: a test of pairs.

Let R be the log-odds of the class for the rest of a random text that holds the candidate, and S those for a random text
that does not. Their *relative effect* is theta = P(R < S) + P(R = S) / 2, in [0, 1]: a half where the two speak alike,
1 where every rest speaks less for the class than every other text. It compares ranks, so a model that hardly ever
answers the class, or always with certainty, hides nothing: what counts is which texts it finds less likely.

The test of theta <= theta0 is that of Brunner and Munzel (2000, Biometrical Journal 42, 17-25), which takes unequal
variances and ties:

    t = (theta_hat - theta0) / sqrt(s_R^2 / n + s_S^2 / m),

with Satterthwaite's degrees of freedom. s_R^2 is the variance of a rest's share of texts that speak more, and s_S^2
that of a text's share of rests that speak less.

Where the samples do not overlap both variances are 0 and any difference would be certain. So each sample is given one
more member, which speaks against the finding as strongly as can be. That is this library's addition.

Log-odds are counted in steps of a quarter, so that a corpus of any length needs only histograms.
"""

from dataclasses import dataclass

import numpy as np

from ..typing import Array

_STEP = 0.25
_LARGEST = 16.0
LEVELS = int(2 * _LARGEST / _STEP) + 1
"""Number of steps: log-odds from -16 to 16, beyond which 32-bit probabilities do not tell apart."""


def levels(probs: Array) -> Array:
    """Which step the log-odds of probabilities are in, integers in [0, LEVELS)."""
    clipped = np.clip(probs.astype(np.float64), 1e-12, 1 - 1e-12)
    log_odds = np.log(clipped) - np.log1p(-clipped)
    steps: Array = np.rint(np.clip(log_odds, -_LARGEST, _LARGEST) / _STEP).astype(np.int64) + LEVELS // 2
    return steps


def relative_effect(rests: Array, others: Array) -> Array:
    """theta of each of M candidates, shape (M,); NaN where one of the two has no texts.

    Args:
        rests: Rests of texts with the candidate by level, ascending, shape (M, L).
        others: Texts without it by level, shape (M, L).
    """
    n, m = rests.sum(axis=1), others.sum(axis=1)
    above = _share_above(others)
    with np.errstate(invalid="ignore", divide="ignore"):
        theta: Array = np.where((n > 0) & (m > 0), (rests * above).sum(axis=1) / n, np.nan)
    return theta


def p_relative_effect(rests: Array, others: Array, largest: float) -> Array:
    """p-values of the null hypothesis that theta is at most `largest`, shape (M,); 1 where one of the two has no texts.

    Args:
        rests: See `relative_effect`; counts need not be whole.
        largest: theta0, in [0, 1).
    """
    compared = (rests.sum(axis=1) > 0) & (others.sum(axis=1) > 0)
    none, one = np.zeros(compared.sum()), np.ones(compared.sum())
    rests = np.column_stack([none, rests[compared], one])
    others = np.column_stack([one, others[compared], none])
    theta, variance_r = _moments(rests, _share_above(others))
    _, variance_s = _moments(others, 1 - _share_above(rests))
    p = np.ones(len(compared))
    p[compared] = _t_test(theta, variance_r, variance_s, rests.sum(axis=1), others.sum(axis=1), largest)
    return p


@dataclass(frozen=True)
class Placements:
    """What the pairs of each single text of a sample say, as sums.

    Attributes:
        total: Sum over them of the share of their pairs with the other sample in which this text speaks less, ties
            counted half.
    """

    n: int
    total: float
    squares: float

    def with_one_more(self, n_others: int) -> tuple[Array, Array]:
        """Mean and variance, shape (1,), with the member more that each sample is given."""
        scale = n_others / (n_others + 1)
        mean = scale * self.total / (self.n + 1)
        variance = (scale**2 * self.squares - (self.n + 1) * mean**2) / self.n
        return np.array([mean]), np.array([max(variance, 0.0)])


def p_of_placements(rests: Placements, others: Placements, largest: float) -> float:
    """The p-value where the pairs are not of one class (see `audit.sets`), for theta0 = `largest` in [0, 1)."""
    theta, variance_r = rests.with_one_more(others.n)
    _, variance_s = others.with_one_more(rests.n)
    sizes = np.array([rests.n + 1]), np.array([others.n + 1])
    return float(_t_test(theta, variance_r, variance_s, *sizes, largest)[0])


def _t_test(theta: Array, variance_r: Array, variance_s: Array, n: Array, m: Array, largest: float) -> Array:
    """Brunner and Munzel's t-test with Satterthwaite's degrees of freedom, arrays of shape (M,)."""
    from scipy.stats import t

    part_r, part_s = variance_r / n, variance_s / m
    # No variance is left only where every rest speaks more than every other text, the added members included.
    varies = part_r + part_s > 0
    p = np.ones(len(theta))
    part_r, part_s, n, m, theta = (x[varies] for x in (part_r, part_s, n, m, theta))
    freedom = (part_r + part_s) ** 2 / (part_r**2 / (n - 1) + part_s**2 / (m - 1))
    p[varies] = t.sf((theta - largest) / np.sqrt(part_r + part_s), freedom)
    return p


def _share_above(counts: Array) -> Array:
    """For each level the share of a sample that is above it, those on it counted half, shape (M, L)."""
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    above: Array = 1 - (np.cumsum(counts, axis=1) - counts / 2) / total
    return above


def _moments(counts: Array, values: Array) -> tuple[Array, Array]:
    """Mean and unbiased variance of values that occur so often, each of shape (M,)."""
    n = counts.sum(axis=1)
    mean = (counts * values).sum(axis=1) / n
    variance = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / np.maximum(n - 1, 1e-300)
    return mean, variance
