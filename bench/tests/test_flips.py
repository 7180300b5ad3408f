"""The experiments on flips decide as the library does, and their reviewers err as they say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from shortcut_guardrail.decisions.questions import Flip

ROOT = Path(__file__).parents[2]


def experiment(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / "experiments" / name / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


flips, errors = experiment("flips"), experiment("reviewer_errors")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_many_cards_at_once_are_decided_as_the_library_decides_one(share):
    rng = np.random.default_rng(round(100 * share))
    mended = rng.random((300, 40)) < share
    found = [flips.judged(row.astype(int)) for row in mended]
    rates = errors.rates(mended)
    assert rates["shortcut"] == np.mean([what == "shortcut" for what, _ in found])
    assert rates["genuine"] == np.mean([what == "genuine" for what, _ in found])
    assert rates["shortcut_within_25"] == np.mean([what == "shortcut" and asked <= 25 for what, asked in found])
    assert rates["asked"] == np.mean([asked for _, asked in found])


def test_labels_say_which_answer_is_right():
    labels = np.array([0, 1, 2])
    assert flips.outcomes([Flip(0, 1, 0), Flip(1, 1, 0), Flip(2, 1, 0)], labels).tolist() == [1, 0, -1]


def test_reviewers_err_as_often_as_they_are_said_to():
    truth = np.array([1] * 20 + [0] * 20)
    rng = np.random.default_rng(0)
    drawn = [flips.sequence(truth, (0.0, 0.2), rng) for _ in range(2000)]
    assert abs(np.mean([one.sum() for one in drawn]) - (20 + 20 * 0.2)) < 0.2
    assert all(len(one) == 40 for one in drawn)
    assert flips.sequence(np.full(5, -1), (1.0, 1.0), rng).tolist() == [-1] * 5


def test_the_table_is_what_the_program_gives():
    stored = json.loads((ROOT / "results" / "reviewer_errors.json").read_text())
    asked = SimpleNamespace(**stored["asked"])
    entry = next(
        one for one in stored["results"] if (one["errors"], one["share"]) == ("20 % of broken called mended", 0.5)
    )
    again = errors.measure(entry["errors"], entry["share"], draws=asked.draws, seed=asked.seed)
    assert again == {name: entry[name] for name in again}
    page = (ROOT / "docs" / "howto" / "decide.md").read_text()
    for one in stored["results"]:
        if one["share"] >= 0.5 and one["errors"] == "none":
            assert f" {one['shortcut']:.2f} ".replace(" 0.", " .") in page
