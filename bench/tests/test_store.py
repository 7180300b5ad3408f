"""The compact files: what goes in comes out, what is committed makes every table, and nothing is run twice."""

import contextlib
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from shortcut_bench.collect import collect
from shortcut_bench.experiments import read_experiment
from shortcut_bench.results import has_result, pack, raw_results, read_result, rows_of, write_result
from shortcut_bench.store import PREDICTIONS_FILE, RUNS_FILE, TEST_SETS_FILE, open_store, write_store
from shortcut_bench.tables import make_table, render
from shortcut_guardrail.errors import DataError, GuardrailWarning

RESULTS = Path(__file__).parents[2] / "results"
COMMITTED = sorted(path.parent.name for path in (RESULTS).glob("*/runs.json"))
COMPACT = (RUNS_FILE, PREDICTIONS_FILE, TEST_SETS_FILE)


def record(seed, predictions):
    rows = {"index": [3, 1, 2], "texts": [2**47 + 5, 7, 9], "labels": [0, 1, 1], "groups": [0, 3, 2]}
    rows |= {"predictions": predictions, "probs": [[0.9, 0.1]] * 3, "shortcut_rank": [-1, 0, 12]}
    return {
        "config": {"data": {"name": "goemo-st"}, "test": "reversed", "seed": seed},
        "system": {"name": "erm", "info": {"seconds": {}}},
        "metrics": {"accuracy": 0.5, "worst_group_accuracy": None},
        "rows": {**rows, "sensitivity": [0.123457, -0.000001], "sensitivity_base_tokens": []},
    }


def without_probs(result):
    return {**result, "rows": {name: value for name, value in result["rows"].items() if name != "probs"}}


def test_what_is_packed_is_read_as_it_was_made(tmp_path):
    for run, result in (("aa", record(0, [0, 1, 0])), ("bb", record(1, [1, 1, 1]))):
        write_result(tmp_path, run, result)
    made = {run: read_result(tmp_path, run) for run in ("aa", "bb")}
    assert pack(tmp_path) == ["aa", "bb"]
    for run in made:
        (tmp_path / "runs" / run / "result.json").unlink()
        assert read_result(tmp_path, run) == without_probs(made[run])
        assert has_result(tmp_path, run)
    assert len(open_store(tmp_path).test_sets) == 1  # both have the same rows
    assert rows_of(read_result(tmp_path, "aa")).probs.size == 0
    assert not has_result(tmp_path, "cc")


def test_nothing_is_lost_that_a_run_may_say_with_null(tmp_path):
    odd, plain = record(0, [0, 1, 0]) | {"commit": None}, record(1, [1, 1, 1]) | {"base": {"selection": []}}
    odd["rows"]["sensitivity"] = [0.25, float("nan")]
    for run, result in (("aa", odd), ("bb", plain)):
        write_result(tmp_path, run, result)
    made = raw_results(tmp_path)
    assert made["aa"]["rows"]["sensitivity"] == [0.25, None]
    pack(tmp_path)
    shutil.rmtree(tmp_path / "runs")
    assert {run: read_result(tmp_path, run) for run in made} == {run: without_probs(made[run]) for run in made}
    assert "commit" not in read_result(tmp_path, "bb")  # one that another run has comes from nowhere
    assert np.isnan(rows_of(read_result(tmp_path, "aa")).sensitivity[1])


@pytest.mark.parametrize("others", [[], [0.5, -0.000001]])
def test_sensitivities_to_the_same_tokens_are_stored_once(tmp_path, others):
    same, other = record(0, [0, 1, 0]), record(1, [1, 1, 1])
    same["rows"]["sensitivity_base_tokens"] = same["rows"]["sensitivity"]
    found = {"aa": same} | ({"bb": other} if others else {})
    other["rows"]["sensitivity_base_tokens"] = others
    write_store(tmp_path, found)
    stored = pq.read_table(tmp_path / PREDICTIONS_FILE)["sensitivity_base_tokens"].to_pylist()
    assert [values is None for values in stored] == [run == "aa" for run in found]
    assert {run: open_store(tmp_path).result(run) for run in found} == {
        run: without_probs(result) for run, result in found.items()
    }


def test_answers_to_one_test_set_stand_together(tmp_path):
    for run, first in (("aa", 0), ("bb", 4), ("cc", 0), ("dd", 4)):
        result = record(0, [0, 1, 0])
        write_result(tmp_path, run, result | {"rows": result["rows"] | {"index": [first, 1, 2]}})
    pack(tmp_path)
    runs = pq.read_table(tmp_path / PREDICTIONS_FILE)["run"].to_pylist()
    assert runs in (["aa", "cc", "bb", "dd"], ["bb", "dd", "aa", "cc"])


def test_the_raw_run_wins_and_the_same_runs_give_the_same_files(tmp_path):
    write_result(tmp_path, "aa", record(0, [0, 1, 0]))
    pack(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in COMPACT}
    assert pack(tmp_path) == ["aa"]
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    write_result(tmp_path, "aa", record(0, [1, 1, 1]))
    assert read_result(tmp_path, "aa")["rows"]["predictions"] == [1, 1, 1]
    pack(tmp_path)
    assert open_store(tmp_path).result("aa")["rows"]["predictions"] == [1, 1, 1]


def test_files_that_are_missing_damaged_or_of_two_sets_are_refused(tmp_path):
    write_store(tmp_path, {"aa": record(0, [0, 1, 0])})
    (tmp_path / TEST_SETS_FILE).write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        open_store(tmp_path)
    (tmp_path / TEST_SETS_FILE).unlink()
    with pytest.raises(DataError, match=r"There is no '.*test_sets\.parquet', which belongs to"):
        open_store(tmp_path)
    write_store(tmp_path / "a", {"aa": record(0, [0, 1, 0])})
    write_store(tmp_path / "b", {"aa": record(0, [1, 1, 1])})
    for name in COMPACT:
        mixed = tmp_path / f"mixed-{name}"
        shutil.copytree(tmp_path / "a", mixed)
        shutil.copy(tmp_path / "b" / name, mixed)
        with pytest.raises(DataError, match=r"must be of one set, but .* Restore all three .*benchmark pack` again"):
            open_store(mixed)
    foreign = tmp_path / "a" / RUNS_FILE  # the partner of the three: one that says no set
    pq.write_table(pq.read_table(foreign).replace_schema_metadata(None), foreign)
    with pytest.raises(DataError, match=r"runs\.parquet' is of set none"):
        open_store(tmp_path / "a")


@pytest.mark.parametrize("renames", range(8))
def test_a_write_that_is_cut_short_is_never_believed(renames, tmp_path, monkeypatch):
    write_store(tmp_path, {"aa": record(0, [0, 1, 0])})
    rename, left = os.replace, iter(range(renames))

    def until_it_dies(source, target):
        if next(left, None) is None:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr("shortcut_guardrail.data.manifests.PATIENCE", 0)
    with monkeypatch.context() as dying, contextlib.suppress(KeyboardInterrupt):
        dying.setattr(os, "replace", until_it_dies)
        write_store(tmp_path, {"aa": record(0, [1, 1, 1]), "bb": record(1, [1, 1, 1])})
    if renames in (1, 2, 3, 4):  # all are ready, then three take their places, then their manifest
        with pytest.raises(DataError, match="is being replaced, or that was interrupted"):
            open_store(tmp_path)
        with pytest.warns(GuardrailWarning, match="was interrupted; what it wrote was completed first"):
            assert pack(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*COMPACT, "guardrail-manifest.json"])
    assert sorted(open_store(tmp_path).runs) == (["aa", "bb"] if renames else ["aa"])


def test_the_committed_files_are_one_set_as_this_program_writes_it(tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_bench.store.LEVEL", 1)  # what is read is the same
    store = open_store(RESULTS)
    assert len(store.runs) > 900
    write_store(tmp_path, {run: store.result(run) for run in store.runs})
    for name in COMPACT:
        committed, again = pq.read_table(RESULTS / name), pq.read_table(tmp_path / name)
        assert committed.equals(again, check_metadata=True)
        assert (RESULTS / name).stat().st_size < 1_000_000


@pytest.fixture(scope="module")
def compact(tmp_path_factory):
    """The compact files and lists of runs, and nothing else; read once for all tables."""
    folder = tmp_path_factory.mktemp("results")
    for name in COMMITTED:
        (folder / name).mkdir()
    for file in (*COMPACT, *(f"{name}/runs.json" for name in COMMITTED)):
        (folder / file).symlink_to(RESULTS / file)
    return folder


@pytest.mark.parametrize("name", COMMITTED)
def test_every_committed_table_is_made_from_the_compact_files(name, compact):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = render(make_table(collect(compact, read_experiment(name))), "markdown")
    assert made == (RESULTS / name / f"{name}.md").read_text(encoding="utf-8")
    assert not raw_results(compact)
