"""The experiment on flips counts as labels say, and its reviewers err as they are said to."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from shortcut_guardrail.cards import Flip
from test_experiment_folders import experiment


@pytest.fixture
def flips(monkeypatch):
    return experiment("flips", monkeypatch)


def test_labels_say_which_answer_is_right(flips):
    drawn = [Flip(row, "positive", "negative") for row in range(3)]
    assert flips.outcomes(drawn, ["negative", "positive", "mixed"]).tolist() == [1, 0, -1]


def test_reviewers_err_as_often_as_they_are_said_to(flips):
    truth = np.array([1] * 20 + [0] * 20)
    rng = np.random.default_rng(0)
    drawn = [flips.sequence(truth, (0.0, 0.2), rng) for _ in range(2000)]
    assert abs(np.mean([one.sum() for one in drawn]) - (20 + 20 * 0.2)) < 0.2
    assert all(len(one) == 40 for one in drawn)
    assert flips.sequence(np.full(5, -1), (1.0, 1.0), rng).tolist() == [-1] * 5


def test_a_card_is_decided_as_soon_as_the_evidence_is_strong(flips):
    assert flips.judged(np.ones(40, dtype=int)) == ("shortcut", 8)
    assert flips.judged(np.zeros(40, dtype=int)) == ("genuine", 8)
    assert flips.judged(np.array([0, 1] * 20))[0] not in ("shortcut", "genuine")


def test_stored_cards_are_decided_as_stored(flips):
    """Of cards whose flips have one outcome their order makes no difference, so that all draws can be made again."""
    stored = json.loads((Path(__file__).parents[2] / "results" / "flips.json").read_text())
    names = {"mended": "negative", "broken": "positive"}
    again = 0
    for entry in stored["results"]:
        for card in entry["cards"]:
            kind = next((kind for kind in names if card[kind] == card["flips"] >= 8), None)
            if kind is not None:
                drawn = [Flip(row, "positive", "negative") for row in range(card["flips"])]
                labels, draws = [names[kind]] * len(drawn), stored["asked"]["draws"]
                made = flips.judged_card(SimpleNamespace(**card), drawn, labels, draws, entry["seed"])
                assert made["reviewers"] == card["reviewers"]
                again += 1
    assert again == 12
