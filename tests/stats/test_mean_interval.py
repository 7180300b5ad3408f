"""The intervals of a mean and of a share, against their formula and by coverage."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from shortcut_guardrail.stats import (
    binned_mean_interval,
    exact_interval,
    mcnemar_greater,
    mean_interval,
    paired_p_value,
)


def test_mcnemars_tests_and_the_interval_of_a_histogram_by_hand():
    for one, other in itertools.product(range(7), repeat=2):
        n = one + other
        assert mcnemar_greater(one, other) == pytest.approx(binom.sf(one - 1, n, 0.5))
        assert paired_p_value(one, other) == pytest.approx(binomtest(one, n).pvalue if n else 1)
    # Deviations of a third in half of 400 values, and half a bin; t of 399 degrees of freedom is 1.9659.
    half = 1.9659 * (math.sqrt(400 / 399 / 18) + 1 / 6) / 20
    assert binned_mean_interval(0.5, (100, 200, 100), 400) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-5)


def test_a_few_dozen_skewed_values_do_not_suffice_and_the_exact_interval_is_that_of_scipy():
    """Where 5 % of values are high, thirty often hold none of these, and the interval then misses the mean."""
    rng = np.random.default_rng(0)
    drawn = np.where(rng.random((2000, 30)) < 0.05, 0.9, 0.01 * rng.random((2000, 30)))
    mean = 0.05 * 0.9 + 0.95 * 0.005
    covered = np.mean([low <= mean <= high for low, high in map(mean_interval, drawn)])
    assert covered == pytest.approx(0.79, abs=0.03)
    for k, n, level in ((0, 1, 0.95), (1, 1, 0.95), (3, 40, 0.9), (645, 645, 0.999), (57, 10_000, 0.95)):
        found = binomtest(k, n).proportion_ci(level, method="exact")
        assert exact_interval(k, n, level) == pytest.approx((found.low, found.high), abs=1e-9)
    assert np.isnan(exact_interval(0, 0)).all()
