"""E-values: the formula, Ville's inequality by simulation, and e-BH against a slow loop."""

import itertools

import numpy as np
import pytest

from shortcut_guardrail.stats import THRESHOLD, e_bh, paired_e_value


def test_evidence_is_a_product_of_fair_bets():
    assert (paired_e_value(0, 0), paired_e_value(3, 1)) == (1, 1.5**3 * 0.5)
    # Under the null hypothesis each answer multiplies it by 1 on average.
    assert (paired_e_value(1, 0) + paired_e_value(0, 1)) / 2 == 1


@pytest.mark.parametrize(("share", "least", "most"), [(0.5, 0.02, 0.05), (0.84, 0.97, 1.0)])
def test_how_often_twenty_is_reached_within_forty_answers(share, least, most):
    """At a true share of one half at most 1 in 20 (Ville); at that of "book" nearly always."""
    steps = np.where(np.random.default_rng(0).random((20_000, 40)) < share, np.log(1.5), np.log(0.5))
    reached = float((steps.cumsum(axis=1).max(axis=1) >= np.log(THRESHOLD)).mean())
    assert least <= reached <= most


def test_e_bh_is_the_largest_set_whose_smallest_member_suffices():
    rng = np.random.default_rng(1)
    for _ in range(200):
        values = rng.exponential(30, size=5).tolist()
        best: set[int] = set()
        for size in range(1, 6):
            for chosen in itertools.combinations(range(5), size):
                if min(values[i] for i in chosen) >= 5 / (0.05 * size) and size > len(best):
                    best = set(chosen)
        # The largest such set is that of the largest values.
        assert sum(e_bh(values)) == len(best)
    assert (e_bh([]), e_bh([19.9]), e_bh([20.0])) == ([], [False], [True])
