"""A fresh clone repeats nothing: what today's settings plan is what was committed, run by run."""

import functools
import json
from collections import Counter

import pytest

from checkout import ROOT
from harness_fakes import FAKE_ENCODER, fake_record
from shortcut_bench import runner
from shortcut_bench.classifiers import Encoder
from shortcut_bench.experiments import ExperimentConfig, Setting, SystemSpec, read_experiment
from shortcut_bench.guards import recorded_before
from shortcut_bench.registry import make_system
from shortcut_bench.results import has_result, index_path, read_index, run_hash, write_result
from shortcut_bench.runner import plan_runs, run_experiment
from shortcut_bench.store import open_store

RESULTS = ROOT / "results"
COMMITTED = sorted(path.parent.name for path in RESULTS.glob("*/runs.json"))
SEEDS = (0, 1, 2)

ASKED_FOR = {"shifted": ("guardrail-distill-influential", "guardrail-distill-influential-40")}
"""Systems that were added to an experiment with `--systems`: they are listed in it and not planned without that."""

NOT_MADE = {
    "in-distribution": 201,
    "lambda-sweep": 18,
    "mstps": 90,
    "mstps-vs-accuracy": 39,
    "natural-shortcuts": 60,
    "real-world": 27,
    "shifted": 180,
    "source-recipes": 2,
}
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
    return [found for found in run.hashes if has_result(RESULTS, found)]


@pytest.mark.parametrize("name", COMMITTED)
def test_every_listed_run_is_planned(name):
    runs = planned(name)
    if name in ASKED_FOR:
        runs += planned(name, systems=ASKED_FOR[name])
    known = {found for run in runs for found in run.hashes}
    entries = read_index(RESULTS, name)
    assert entries
    assert {entry.scale for entry in entries} == {"small"}
    assert [entry for entry in entries if entry.run not in known] == []


def test_every_planned_run_is_there_or_known_not_to_be():
    missing = {name: sum(not stored(run) for run in planned(name)) for name in COMMITTED}
    assert {name: count for name, count in missing.items() if count} == NOT_MADE


def test_a_seed_that_nobody_ran_is_not_there():
    """The partner of the tests above."""
    assert not any(map(stored, planned("leaderboard", seeds=(77,))))


def test_what_was_recorded_under_two_hashes_was_the_same_computation():
    """Runs that were made before and after a default changed that they do not read answer every row alike."""
    store, pairs = open_store(RESULTS), 0
    for run in {run.hash: run for name in COMMITTED for run in planned(name)}.values():
        found = [store.result(one) for one in stored(run)]
        for other in found[1:]:
            pairs += 1
            assert other["rows"] == found[0]["rows"]
            assert other["system"]["info"]["debias_strength"] == found[0]["system"]["info"]["debias_strength"]
    assert pairs >= 10


def test_only_strategies_that_read_no_teacher_have_an_earlier_hash():
    kinds = ("guardrail", "guardrail-paper", "guardrail-few-shot", "random_maskcl", "simcse_adapter")
    for kind in kinds:
        system = make_system(kind)
        (before,) = recorded_before(system)
        today = system.config()
        assert before["guard"]["distill"] == {**today["guard"]["distill"], "teacher": "both"}
        assert before != today
        before["guard"]["distill"]["teacher"] = today["guard"]["distill"]["teacher"]
        assert before == today
    for kind in ("erm", "jtt", "guardrail-distill", "guardrail-distill-40", "guardrail-mask", "guardrail-per-input"):
        assert recorded_before(make_system(kind)) == []


def test_a_hash_is_that_of_todays_configuration():
    for run in planned("leaderboard", seeds=(0,)):
        assert run.hashes[0] == run.hash == run_hash(run.config())
        assert len(run.hashes) == len(set(run.hashes)) == 1 + len(recorded_before(run.system))


@pytest.fixture
def experiment(monkeypatch):
    """One guard on made-up data; fitting anything fails."""
    monkeypatch.setattr(runner, "find_encoder", lambda source: FAKE_ENCODER)
    monkeypatch.setattr(runner, "setting_data", lambda *_, **__: pytest.fail("built data"))
    setting = Setting("planted", "fake", family="fake")
    return ExperimentConfig("made-up", "", "", ("reversed",), (setting,), (SystemSpec("guardrail", "guardrail"),))


@pytest.mark.parametrize("there", [["earlier"], ["today"], ["today", "earlier"]])
def test_a_result_under_an_earlier_hash_is_taken_and_listed_as_it_lies(experiment, tmp_path, there):
    (run,) = plan_runs(experiment, scale="tiny", encoder=FAKE_ENCODER, seeds=(0,))
    hashes = dict(zip(("today", "earlier"), run.hashes, strict=True))
    for name in there:
        write_result(tmp_path, hashes[name], fake_record(run))
    outcome = run_experiment(experiment, data_dir=None, out=tmp_path, scale="tiny", seeds=(0,))
    assert outcome.skipped == [hashes[there[0]]]
    assert [entry.run for entry in read_index(tmp_path, "made-up")] == outcome.skipped


def test_a_list_of_runs_stays_as_it_is_when_all_are_there(experiment, tmp_path):
    """Also where the same was measured a second time, under today's hash, for another experiment."""
    (run,) = plan_runs(experiment, scale="tiny", encoder=FAKE_ENCODER, seeds=(0,))
    write_result(tmp_path, run.hashes[1], fake_record(run))
    run_experiment(experiment, data_dir=None, out=tmp_path, scale="tiny", seeds=(0,))
    before = index_path(tmp_path, "made-up").read_bytes()
    write_result(tmp_path, run.hash, fake_record(run))
    run_experiment(experiment, data_dir=None, out=tmp_path, scale="tiny", seeds=(0,))
    assert index_path(tmp_path, "made-up").read_bytes() == before
    cells = Counter(entry.cell for entry in read_index(tmp_path, "made-up"))
    assert set(cells.values()) == {1}
