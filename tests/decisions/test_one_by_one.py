"""Texts that are asked about one by one: what is still needed, and what people say of a card together."""

from __future__ import annotations

import pytest

from shortcut_guardrail.decisions import agreed_decision
from shortcut_guardrail.decisions.people import fewest
from shortcut_guardrail.stats import paired_e_value


@pytest.mark.parametrize(("mended", "broken"), [(0, 0), (3, 0), (5, 4), (0, 7), (8, 0)])
def test_the_fewest_answers_that_decide(mended, broken):
    def best(more: int) -> float:
        return max(paired_e_value(mended + more, broken), paired_e_value(broken + more, mended))

    more = fewest(mended, broken)
    assert best(more) >= 20
    assert not more or best(more - 1) < 20


@pytest.mark.parametrize(
    ("said", "together"),
    [(["keep"], "keep"), (["keep", "unsure"], "keep"), (["keep", "neutralise"], None), (["unsure"], None), ([], None)],
)
def test_what_people_decide_together(said, together):
    assert agreed_decision(said) == together
