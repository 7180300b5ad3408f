"""The test of pairs: against scipy's, against all pairs one by one, at its margin, and where samples do not overlap."""

import numpy as np
import pytest
from scipy.stats import binom, brunnermunzel

from shortcut_guardrail.stats import Placements, p_of_placements, p_relative_effect, relative_effect


def histogram(*samples, size=40):
    return np.stack([np.bincount(sample, minlength=size) for sample in samples])


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    return rng.integers(3, 20, size=23), rng.integers(5, 30, size=41)


def test_the_relative_effect_is_the_share_of_pairs(samples):
    rests, others = samples
    pairs = [(r < s) + 0.5 * (r == s) for r in rests for s in others]
    assert relative_effect(histogram(rests), histogram(others))[0] == pytest.approx(np.mean(pairs), rel=1e-12)
    assert np.isnan(relative_effect(histogram(rests), np.zeros((1, 40)))[0])


def test_without_a_margin_the_test_is_that_of_brunner_and_munzel(samples):
    rests, others = samples
    # With the member that each sample is given: a rest above all, another text below all.
    expected = brunnermunzel([*others, 0], [*rests, 39], alternative="greater").pvalue
    less = np.array([[(r < s) + 0.5 * (r == s) for s in others] for r in rests])
    shares = (Placements(len(mean), mean.sum(), (mean**2).sum()) for mean in (less.mean(axis=1), less.mean(axis=0)))
    assert p_of_placements(*shares, 0.5) == pytest.approx(expected, rel=1e-9)
    several = p_relative_effect(histogram(rests, others), histogram(others, rests), 0.5)
    assert several[0] == pytest.approx(expected, rel=1e-9)
    assert several[1] > 0.5


def test_samples_that_do_not_overlap_are_no_certainty():
    def p(n, m):
        return float(p_relative_effect(np.array([[n, 0]]), np.array([[0, m]]), 0.6)[0])

    assert 0.01 < p(5, 5) < 1
    assert p(5, 5) > p(10, 10) > p(20, 20) > p(20, 200) > p(200, 200) > 0
    assert p(0, 10) == p(10, 0) == 1
    # The partner: rests that all speak more.
    assert p_relative_effect(np.array([[0, 9]]), np.array([[17, 0]]), 0.5).tolist() == [1.0]


@pytest.mark.parametrize(("n", "m"), [(12, 300), (30, 30), (250, 40)])
def test_false_alarms_at_the_margin_stay_below_what_is_promised(n, m):
    """Rests that are below all other texts with probability .6 and above them else: the largest variance there is."""
    rng = np.random.default_rng([n, m])
    below = rng.binomial(n, 0.6, size=4000)
    others = np.broadcast_to([0, m, 0], (4000, 3))
    rests = np.column_stack([below, np.zeros(4000), n - below])
    for alpha in (0.05, 0.01):
        alarms = int((p_relative_effect(rests, others, 0.6) <= alpha).sum())
        assert alarms <= binom.ppf(0.999, 4000, alpha)
    # The partner: with .9 it is found.
    below = rng.binomial(n, 0.9, size=4000)
    rests = np.column_stack([below, np.zeros(4000), n - below])
    assert (p_relative_effect(rests, others, 0.6) <= 0.05).mean() > 0.5
