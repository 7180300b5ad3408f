"""E-values: Ville's inequality by simulation; the formula and e-BH are in tests/golden."""

import numpy as np
import pytest

from shortcut_guardrail.stats import THRESHOLD, paired_e_value

BETS = paired_e_value(1, 0), paired_e_value(0, 1)


@pytest.mark.parametrize(("share", "least", "most"), [(0.5, 0.02, 0.05), (0.84, 0.97, 1.0)])
def test_how_often_twenty_is_reached_within_forty_answers(share, least, most):
    """At a true share of one half at most 1 in 20 (Ville); at that of "book" nearly always."""
    steps = np.where(np.random.default_rng(0).random((20_000, 40)) < share, *np.log(BETS))
    reached = float((steps.cumsum(axis=1).max(axis=1) >= np.log(THRESHOLD)).mean())
    assert least <= reached <= most
