"""What results say of cards is what the library's rules make of the numbers beside it."""

import json
from pathlib import Path

import pytest

from shortcut_guardrail.decisions.judges import decides
from shortcut_guardrail.stats import fdr_q_values

RESULTS = Path(__file__).parents[2] / "results"


def stored(name):
    """The cards of each opinion."""
    results = json.loads((RESULTS / f"{name}.json").read_text())["results"]
    of_entry = "opinions" if name == "second_opinion" else "judges"
    return [opinion["cards"] for entry in results for opinion in entry[of_entry]]


@pytest.mark.parametrize("name", ["second_opinion", "second_opinion_held_out"])
def test_judges_decide_the_stored_cards_as_stored(name):
    n_decided = 0
    for cards in stored(name):
        tested = [card for card in cards if card["q_value"] is not None]
        if "rules" in cards[0]:
            p_values = [card["rules"]["agreement"]["p_value"] for card in tested]
            assert fdr_q_values(p_values) == pytest.approx([card["q_value"] for card in tested])
        assert [card["outcome"] == "shortcut" for card in tested] == [decides(card["q_value"]) for card in tested]
        assert all(card["outcome"] == "open" for card in cards if card["q_value"] is None)
        n_decided += sum(card["outcome"] == "shortcut" for card in tested)
    assert n_decided > 3, "or nothing was tested"
