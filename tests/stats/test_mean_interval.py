"""The intervals of a mean and of a share, against their formula and by coverage."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from shortcut_guardrail.stats import exact_interval, mean_interval


def test_it_is_cut_at_0_and_1_and_a_single_value_has_none():
    assert mean_interval(np.array([0.0, 0.0, 1.0])) == (0.0, 1.0)
    assert all(math.isnan(end) for end in mean_interval(np.array([0.3])))


@pytest.mark.parametrize("n", [50, 500])
def test_it_covers_the_mean_of_lopsided_values(n):
    """As MSTPS is: most texts hardly change, some change wholly."""
    rng = np.random.default_rng(n)
    covered = sum(low <= 0.2 <= high for low, high in (mean_interval(rng.beta(0.2, 0.8, n)) for _ in range(600)))
    assert 0.90 <= covered / 600 <= 0.98


def test_a_few_dozen_skewed_values_do_not_suffice():
    """Where 5 % of values are high, thirty often hold none of these, and the interval then misses the mean."""
    rng = np.random.default_rng(0)
    drawn = np.where(rng.random((2000, 30)) < 0.05, 0.9, 0.01 * rng.random((2000, 30)))
    mean = 0.05 * 0.9 + 0.95 * 0.005
    covered = np.mean([low <= mean <= high for low, high in map(mean_interval, drawn)])
    assert covered == pytest.approx(0.79, abs=0.03)


def test_the_exact_interval_of_a_share_is_the_one_of_scipy():
    for k, n, level in ((0, 1, 0.95), (1, 1, 0.95), (3, 40, 0.9), (645, 645, 0.999), (57, 10_000, 0.95)):
        found = binomtest(k, n).proportion_ci(level, method="exact")
        assert exact_interval(k, n, level) == pytest.approx((found.low, found.high), abs=1e-9)
    assert np.isnan(exact_interval(0, 0)).all()
