"""The interval of a mean of bounded values."""

from __future__ import annotations

import math

from ..typing import Array


def mean_interval(
    values: Array, *, bounds: tuple[float, float] = (0.0, 1.0), confidence: float = 0.95
) -> tuple[float, float]:
    """Student's t interval of the mean of independent values, cut at the values' bounds.

    Approximate: it leans on the mean being near normal, which for values in [0, 1] a few dozen usually suffice for.

    Args:
        values: Shape (n,). Fewer than two have no interval: (NaN, NaN).
        bounds: What every value lies between.
        confidence: With which probability the interval holds the mean.

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
    half = float(t.ppf((1 + confidence) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return (max(bounds[0], mean - half), min(bounds[1], mean + half))
