"""Bounds on how often a judge that errs and leans calls a flip fixed."""

import numpy as np
import pytest
from scipy.stats import binom

from shortcut_guardrail.stats import agreement_bound, agreement_share, balanced_cut, fdr_q_values
from shortcut_guardrail.stats.second_model import SLACK, net_fixed, p_of_bound, reference_bound


def said(ups: int, downs: int) -> np.ndarray:
    return np.repeat([True, False], [ups, downs])


def test_the_cut_makes_agreement_equal_on_both_sides():
    rng = np.random.default_rng(0)
    up = rng.random(2000) < 0.3
    scores = np.where(up, 1.0, -1.0) + rng.normal(size=2000) + 5.0
    cut = balanced_cut(scores, up)
    assert (scores[up] > cut).mean() == pytest.approx((scores[~up] <= cut).mean(), abs=0.01)
    assert cut == pytest.approx(5.0, abs=0.2)
    # A judge of the opposite opinion agrees as rarely on both sides.
    assert agreement_share(-scores > balanced_cut(-scores, up), up)[0] < 0.3


@pytest.mark.parametrize(("ups", "bound"), [(50, 0.5), (75, 0.625), (25, 0.5)])
def test_only_a_lean_towards_the_masked_answer_raises_the_agreement_bound(ups, bound):
    says = np.concatenate([said(ups, 100 - ups), said(50, 50)])
    assert agreement_bound(says, said(100, 100)).value == pytest.approx(bound + SLACK)
    # Its error is that of the mean of two shares, of 120 texts and of 40.
    unequal = agreement_bound(np.concatenate([said(90, 30), said(20, 20)]), said(120, 40))
    variance = (91 * 31 / 122**2 / 120 + 0.25 / 40) / 4
    assert unequal.weights @ (unequal.nodes - unequal.value) ** 2 == pytest.approx(variance, rel=0.01)


def test_the_p_value_is_a_binomial_tail_spread_over_the_error_of_a_bound_that_is_never_below_a_half():
    assert (reference_bound(said(76, 24)).value, reference_bound(said(30, 70)).value) == (0.76, 0.5)
    bound = reference_bound(said(60_000, 40_000))
    assert p_of_bound(72, 88, bound) == pytest.approx(binom.sf(71, 88, 0.6), rel=0.05)
    few = reference_bound(said(60, 40))
    assert p_of_bound(72, 88, few) > 10 * p_of_bound(72, 88, bound)
    assert p_of_bound(0, 88, few) == pytest.approx(1.0)


@pytest.mark.parametrize("lean", [0.0, 0.2])
@pytest.mark.parametrize("fixed", [0.2, 0.5, 0.85])
def test_what_masking_fixes_less_what_it_breaks_lies_between_the_ends(fixed, lean):
    """Judge and model err independently; the model is right in .75 of texts near its boundary on either side."""
    held, found = 0, []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        up = np.repeat([True, False], 100)
        truth = np.where(rng.random(200) < 0.75, up, ~up)
        s, a = 0.75 + lean, 0.25 + lean
        right = rng.random(90) < fixed
        # Its two answers to a flip hang together: half of the second are those of the first.
        first, second = (rng.random(90) < np.where(right, s, a) for _ in range(2))
        second = np.where(rng.random(90) < 0.5, first, second)
        votes = int((first & second).sum()), int((~first & ~second).sum())
        low, high = net_fixed(*votes, 90, rng.random(200) < np.where(truth, s, a), up)
        held += low <= 2 * right.mean() - 1 <= high
        found.append((low, high))
    assert held >= 95
    lows, highs = np.mean(found, axis=0)
    assert (lows > 0, highs < 0) == (fixed == 0.85, fixed == 0.2)


def test_a_judge_that_cannot_tell_leaves_everything_possible_and_one_that_never_errs_only_chance():
    assert net_fixed(45, 45, 90, np.tile([True, False], 50), said(50, 50)) == (-1.0, 1.0)
    never = said(10**6, 10**6)
    half = 1.96 * 2 * np.sqrt(2 / 9 / 9000)  # of 2p - 1 for 6,000 votes of 9,000
    assert net_fixed(6000, 3000, 9000, never, never) == pytest.approx((1 / 3 - half, 1 / 3 + half), abs=half / 20)
    assert fdr_q_values([], []) == []
