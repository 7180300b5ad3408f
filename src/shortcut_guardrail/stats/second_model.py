"""A test of flips that a second model judges, which may err and lean: arrays in, numbers out.

Flips go from one class to another, here "up". Let s be how often the judge says "up" where that is right, a how often
where it is wrong. Where masking fixes no more than it breaks, it says "up" to (s + a) / 2 of the flips at most, which
is not one half: a judge that leans towards "up" would look like one that finds fixed answers. Flips alone cannot tell
this share. Texts without the words in question, near the deployed model's boundary, bound it:

- `agreement_bound`: both sides of the boundary together. Suppose that judge and model err independently, and that the
  model is right as often on either side. Then the mean share of "up" over the two sides is (s + a) / 2. A slack covers
  small departures.
- `reference_bound`: the side that the model itself calls "up". Suppose that the model is right in at least half of the
  texts there. Then the share of "up" is at least (s + a) / 2, also where judge and model err together.

`p_of_bound` tests the flips against a bound, over the bound's own error. `net_fixed` estimates what masking fixes
less what it breaks.

In all of them `says` and `up` tell, of n texts near the model's boundary, whether the judge and the model say "up":
shape (n,), bool.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..typing import Array

SLACK = 0.05
"""What the agreement rule adds to its bound: the model need not be right quite as often on both sides."""

_NODES = 15  # of Gauss-Hermite quadrature
_DRAWS = 4_000  # of votes and shares; the same ones each time


@dataclass(frozen=True)
class Bound:
    """The largest share of flips that a judge calls fixed where masking fixes no more than it breaks.

    Attributes:
        value: The share, in [1/2, 1].
        nodes: Values that it may have in truth, shape (K,).
        weights: Their probabilities, shape (K,), with the sum 1.
        n: The texts that it rests on.
    """

    value: float
    nodes: Array
    weights: Array
    n: int


def balanced_cut(scores: Array, up: Array) -> float:
    """Where a judge's scores are cut so that it agrees with the model as often on both of the model's answers.

    Args:
        scores: The judge's, shape (n,); above the cut it says "up".
        up: See the head of this module; both answers occur.

    Example:
        >>> balanced_cut(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, False, True, True]))
        1.5
    """
    values = np.unique(scores)
    cuts = np.concatenate([[values[0] - 1.0], (values[1:] + values[:-1]) / 2, [values[-1] + 1.0]])
    above = 1 - np.searchsorted(np.sort(scores[up]), cuts, side="right") / up.sum()
    below = np.searchsorted(np.sort(scores[~up]), cuts, side="right") / (~up).sum()
    gap = np.abs(above - below)
    best = np.flatnonzero(gap <= gap.min() + 1e-12)
    return float(cuts[best[len(best) // 2]])


def agreement_share(says: Array, up: Array) -> tuple[float, float]:
    """How often a judge agrees with the model, the mean of the model's two answers, and its standard error."""
    shares = [float(says[up].mean()), 1 - float(says[~up].mean())]
    error = sum(_variance(share, n) for share, n in zip(shares, (up.sum(), (~up).sum()), strict=True))
    return sum(shares) / 2, 0.5 * math.sqrt(error)


def agreement_bound(says: Array, up: Array) -> Bound:
    """The bound from both sides of the boundary; both of the model's answers occur."""
    shares = [float(says[up].mean()), float(says[~up].mean())]
    error = 0.5 * math.sqrt(_variance(shares[0], up.sum()) + _variance(shares[1], (~up).sum()))
    lean = sum(shares) / 2 - 0.5
    return _normal(0.5 + max(lean, 0.0) + SLACK, error, len(says))


def reference_bound(says: Array) -> Bound:
    """The bound from texts near the boundary that the model itself calls "up"."""
    share = float(says.mean())
    return _normal(max(share, 0.5), math.sqrt(_variance(share, len(says))), len(says))


def mixed_bound(bounds: list[Bound], shares: list[float]) -> Bound:
    """The bound of flips of several directions, from one bound for each.

    A sum of binomials of unequal shares spreads less than one of their mean, so that the mean may be tested.

    Args:
        shares: How many of the flips go there, with the sum 1.
    """
    if len(bounds) == 1:
        return bounds[0]
    value = sum(share * bound.value for share, bound in zip(shares, bounds, strict=True))
    spread = 0.0
    for share, bound in zip(shares, bounds, strict=True):
        centre = float(bound.weights @ bound.nodes)
        spread += share**2 * float(bound.weights @ (bound.nodes - centre) ** 2)
    return _normal(value, math.sqrt(spread), min(bound.n for bound in bounds))


def p_of_bound(fixed: int, n: int, bound: Bound) -> float:
    """How probable so many fixed flips are where masking fixes no more than it breaks.

    Args:
        bound: The largest share that it would call fixed then.

    Returns:
        The mean of P(Binomial(n, share) >= fixed) over what the bound may be.
    """
    from scipy.stats import binom

    return float(bound.weights @ binom.sf(fixed - 1, n, bound.nodes))


def net_fixed(after: int, before: int, n: int, says: Array, up: Array) -> tuple[float, float]:
    """How much masking fixes less what it breaks, as a share of the flips, by a judge that errs and leans.

    Say p of n flips are fixed. The judge says "up" both with the words and without to `after` of them, and "down" both
    times to `before`. However its two answers depend on each other, (after - before) / n is 2p - 1 times (s - a), plus
    the lean s + a - 1. The lean is read off texts near the boundary, as in `agreement_bound`. The difference s - a is
    at most 1. Since the model errs there too, it is at least the difference of the judge's share of "up" between the
    model's two answers. So the estimate is an interval even from endless texts.

    Returns:
        Both ends, in [-1, 1], with 95 % confidence.
    """
    rng = np.random.default_rng(0)
    votes = rng.multinomial(n, [after / n, before / n, 1 - (after + before) / n], _DRAWS)
    s, a = (rng.beta(says[side].sum() + 0.5, (~says[side]).sum() + 0.5, _DRAWS) for side in (up, ~up))
    least = (votes[:, 0] - votes[:, 1]) / n - (s + a - 1)
    most = np.clip(least / np.clip(s - a, 1e-3, 1.0), -1.0, 1.0)
    low, high = np.quantile(np.minimum(least, most), 0.025), np.quantile(np.maximum(least, most), 0.975)
    return max(float(low), -1.0), min(float(high), 1.0)


def fdr_q_values(p_values: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """The smallest false-discovery rate at which each of several tests is a discovery (Benjamini and Hochberg 1995).

    Weights say beforehand where a discovery is to be expected. Each p-value is divided by its weight; with the mean
    weight 1 the rate still holds (Genovese, Roeder and Wasserman 2006, Biometrika 93, 509-524).

    Args:
        weights: Above 0, of any scale, and known without a look at the p-values; all alike without.

    Example:
        >>> [round(q, 3) for q in fdr_q_values([0.001, 0.04, 0.03])]
        [0.003, 0.04, 0.04]
        >>> [round(q, 3) for q in fdr_q_values([0.02, 0.5], [30, 10])]
        [0.027, 1.0]
    """
    from scipy.stats import false_discovery_control

    if not len(p_values):
        return []
    shares = np.ones(len(p_values)) if weights is None else np.asarray(weights) / np.mean(weights)
    return [float(q) for q in false_discovery_control(np.clip(np.asarray(p_values) / shares, 0.0, 1.0))]


def _variance(share: float, n: int) -> float:
    """Of a share, which is never certain."""
    smoothed = (share * n + 1) / (n + 2)
    return float(smoothed * (1 - smoothed) / n)


def _normal(value: float, error: float, n: int) -> Bound:
    x, w = np.polynomial.hermite_e.hermegauss(_NODES)
    value = min(value, 1.0)
    return Bound(value, np.clip(value + error * x, 0.5, 1.0), w / w.sum(), n)
