"""The experiments on second opinions simulate what they say, and their table is what the program gives."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from checkout import ROOT
from test_experiment_folders import experiment


@pytest.fixture
def simulation(monkeypatch):
    return experiment("second_opinion_simulation", monkeypatch)


@pytest.mark.parametrize("accuracy", [0.6, 0.8, 0.95])
def test_a_judge_is_right_as_often_as_it_is_said_to(simulation, accuracy):
    rng = np.random.default_rng(0)
    far = simulation.distance(accuracy)
    ease = simulation.eases("shared", rng, 200_000)[0]
    assert (far * ease + rng.normal(size=len(ease)) > 0).mean() == pytest.approx(accuracy, abs=0.005)


@pytest.mark.parametrize("lean", [0.0, 0.15, 0.3])
def test_a_judge_leans_as_far_as_it_is_said_to(simulation, lean):
    rng = np.random.default_rng(0)
    ease = simulation.eases("shared", rng, 100_000)[0]
    moved = simulation.leaning(lean, 1.0, ease)
    ups = [(sign * ease + rng.normal(size=len(ease)) + moved > 0).mean() for sign in (1, -1)]
    assert np.mean(ups) - 0.5 == pytest.approx(lean, abs=0.005)


def test_a_judge_that_shares_the_habit_mends_less_and_one_that_copies_the_model_more(simulation):
    near = np.repeat([1.0, -1.0], 500), np.ones(1000)

    def mended(**changes: float) -> float:
        rng = np.random.default_rng(0)
        cell = simulation.USUAL | {"n": 20_000} | changes
        return simulation.flips_mended(cell, 0.5, rng, near, (1.0, 0.0)) / 20_000

    assert mended() == pytest.approx(0.5, abs=0.01)
    assert mended(habit=0.5) == pytest.approx(0.25, abs=0.01)
    assert mended(counter=0.5) == pytest.approx(0.5, abs=0.01)
    assert mended(copied=0.5) == pytest.approx(0.75, abs=0.01)


def test_a_person_alone_is_counted_as_the_library_counts(simulation):
    assert simulation.asked_alone(np.ones(8, dtype=bool))
    assert not simulation.asked_alone(np.ones(7, dtype=bool))
    assert not simulation.asked_alone(np.array([False] * 8 + [True] * 17))


def test_the_simulation_is_what_the_program_gives(simulation):
    stored = json.loads((ROOT / "results" / "second_opinion_simulation.json").read_text())
    asked = SimpleNamespace(**stored["asked"])
    entry = next(one for one in stored["results"] if one["cell"] == {"judge": 0.9, "n": 10})
    again = simulation.measure(entry["cell"], draws=asked.draws, seed=asked.seed)
    assert again == {name: entry[name] for name in again}
    assert len(stored["results"]) == len(simulation.CELLS)
