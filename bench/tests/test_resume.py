"""A fresh clone repeats nothing: what today's settings plan is what was committed, run by run."""

import functools
import json

import pytest

from checkout import ROOT
from harness_fakes import FAKE_ENCODER, fake_record
from shortcut_bench import runner
from shortcut_bench.classifiers import Encoder
from shortcut_bench.experiments import ExperimentConfig, Setting, SystemSpec, read_experiment
from shortcut_bench.results import has_result, index_path, read_index, run_hash, write_result
from shortcut_bench.runner import plan_runs, run_experiment
from shortcut_bench.store import open_store

RESULTS = ROOT / "results"
COMMITTED = sorted(path.parent.name for path in RESULTS.glob("*/runs.json"))
SEEDS = (0, 1, 2)

ASKED_FOR = {"shifted": ("guardrail-distill-influential", "guardrail-distill-influential-40")}
"""Systems that were added to an experiment with `--systems`: they are listed in it and not planned without that."""

NOT_MADE = {"in-distribution": 201, "lambda-sweep": 18, "mstps": 90, "mstps-vs-accuracy": 39}
NOT_MADE |= {"leaderboard": 63, "leaderboard-in-distribution": 63, "fresh-word": 45, "fresh-phrase": 72}
NOT_MADE |= {"natural-shortcuts": 303, "real-world": 23, "shifted": 180, "source-recipes": 2}
"""Planned runs that nobody has made, by experiment; docs/research/strategies-measured.md names the main ones. The
runner leaves some out: where no shortcut is inserted, there are no texts without it."""


@functools.cache
def planned(name, *, systems=(), seeds=SEEDS):
    """The runs of a committed experiment, with the encoder that they were made with."""
    recorded = json.loads(next(iter(open_store(RESULTS).runs.values()))["config"])["encoder"]
    encoder = Encoder("nowhere", "sentence-transformers/all-MiniLM-L6-v2", recorded["weights"])
    assert encoder.identity() == recorded
    return tuple(plan_runs(read_experiment(name), scale="small", encoder=encoder, seeds=seeds, systems=systems))


def stored(run):
    return has_result(RESULTS, run.hash)


@pytest.mark.parametrize("name", COMMITTED)
def test_every_listed_run_is_planned(name):
    runs = planned(name)
    if name in ASKED_FOR:
        runs += planned(name, systems=ASKED_FOR[name])
    known = {run.hash for run in runs}
    entries = read_index(RESULTS, name)
    assert entries
    assert {entry.scale for entry in entries} == {"small"}
    assert [entry for entry in entries if entry.run not in known] == []


def test_every_planned_run_is_there_or_known_not_to_be():
    missing = {name: sum(not stored(run) for run in planned(name)) for name in COMMITTED}
    assert {name: count for name, count in missing.items() if count} == NOT_MADE
    assert not any(map(stored, planned("leaderboard", seeds=(77,)))), "the partner: a seed that nobody ran"


@pytest.fixture
def experiment(monkeypatch):
    """One guard on made-up data; fitting anything fails."""
    monkeypatch.setattr(runner, "find_encoder", lambda source: FAKE_ENCODER)
    monkeypatch.setattr(runner, "setting_data", lambda *_, **__: pytest.fail("built data"))
    setting = Setting("planted", "fake", family="fake")
    return ExperimentConfig("made-up", "", "", ("reversed",), (setting,), (SystemSpec("guardrail", "guardrail"),))


def test_a_run_whose_result_is_there_is_listed_and_not_made_again(experiment, tmp_path):
    (run,) = plan_runs(experiment, scale="tiny", encoder=FAKE_ENCODER, seeds=(0,))
    assert run.hash == run_hash(run.config())
    write_result(tmp_path, run.hash, fake_record(run))
    lists = []
    for _ in range(2):
        outcome = run_experiment(experiment, data_dir=None, out=tmp_path, scale="tiny", seeds=(0,))
        assert outcome.skipped == [run.hash] == [entry.run for entry in read_index(tmp_path, "made-up")]
        lists.append(index_path(tmp_path, "made-up").read_bytes())
    assert lists[0] == lists[1]
