"""A sign-flip test of paired differences, and Holm's correction."""

import numpy as np

from ..typing import Array

LEAST_CHANGE = 0.1
"""Smaller gains of a probability count as none, and losses of any size as they are: many a legitimate word holds the
right class down a little in most of its texts and up a lot in a few, and of a handful of texts none may be of the
few."""

_EXACT_TO = 15  # changes whose signs are all tried, 32,768 ways; more are drawn
_SIGN_FLIPS = 99_999
_SIGN_FLIPS_AT_ONCE = 4_096


def sign_flip_test(changes: Array) -> float:
    """One-sided randomisation test of paired differences (Fisher): are the changes above 0?

    Under the null hypothesis each change is as likely to lie as far below 0 as above it. So their sum is compared with
    the sums of the same changes under other signs. It sees what McNemar's test does not: how far predictions move that
    do not change. The null hypothesis is one of symmetry. A mean of 0 with rare large losses is another one, which few
    texts cannot tell from a gain.

    Args:
        changes: Changes of the right class's probability, shape (n,); gains below `LEAST_CHANGE` count as 0.

    Returns:
        The p-value, in (0, 1]; at most 15 changes are enumerated, of more 99,999 draws are taken.
    """
    meant = changes[(changes < 0) | (changes >= LEAST_CHANGE)]
    n = len(meant)
    seen = meant.sum() - 1e-9  # sums in another order differ in their last digits
    if n <= _EXACT_TO:
        signs = 1 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float((signs @ meant >= seen).mean())
    rng, at_least = np.random.default_rng(0), 0
    for start in range(0, _SIGN_FLIPS, _SIGN_FLIPS_AT_ONCE):  # of many labels, all at once would be gigabytes
        size = (min(_SIGN_FLIPS_AT_ONCE, _SIGN_FLIPS - start), n)
        at_least += int((rng.choice([-1.0, 1.0], size=size) @ meant >= seen).sum())
    return (1 + at_least) / (1 + _SIGN_FLIPS)


def holm(p_values: list[float], weights: list[float], level: float) -> list[int]:
    """Which hypotheses Holm's weighted procedure rejects (Holm 1979, section 5); of weight 0 none."""
    rejected: list[int] = []
    left = [i for i, weight in enumerate(weights) if weight > 0]
    while left:
        first = min(left, key=lambda i: p_values[i] / weights[i])
        if p_values[first] > level * weights[first] / sum(weights[i] for i in left):
            break
        rejected.append(first)
        left.remove(first)
    return rejected
