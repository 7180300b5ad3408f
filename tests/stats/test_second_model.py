"""Bounds on how often a judge that errs and leans calls a flip fixed."""

import numpy as np
import pytest

from shortcut_guardrail.stats import agreement_bound, balanced_cut, fdr_q_values
from shortcut_guardrail.stats.second_model import SLACK, net_fixed, reference_bound


def said(ups: int, downs: int) -> np.ndarray:
    return np.repeat([True, False], [ups, downs])


def test_the_cut_makes_agreement_equal_on_both_sides():
    rng = np.random.default_rng(0)
    up = rng.random(2000) < 0.3
    scores = np.where(up, 1.0, -1.0) + rng.normal(size=2000) + 5.0
    cut = balanced_cut(scores, up)
    assert (scores[up] > cut).mean() == pytest.approx((scores[~up] <= cut).mean(), abs=0.01)
    assert cut == pytest.approx(5.0, abs=0.2)


def test_a_lean_the_other_way_lowers_no_bound():
    bounds = (
        agreement_bound(np.concatenate([said(25, 75), said(50, 50)]), said(100, 100)),
        reference_bound(said(30, 70)),
    )
    assert [bound.value for bound in bounds] == [0.5 + SLACK, 0.5]


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
