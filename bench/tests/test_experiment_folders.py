"""The experiments outside the runner: each says what it does, takes `--out`, and goes on where it stopped."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from checkout import ROOT

FOLDERS = sorted(path.parent for path in (ROOT / "bench" / "experiments").glob("*/run.py"))


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str = "run") -> ModuleType:
    """A module of an experiment, with those beside it as Python finds them when `run.py` is run."""
    monkeypatch.syspath_prepend(folder)
    spec = importlib.util.spec_from_file_location(f"{folder.name}_{module}", folder / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    monkeypatch.setitem(sys.modules, spec.name, found)
    spec.loader.exec_module(found)
    return found


def experiment(name: str, monkeypatch: pytest.MonkeyPatch, module: str = "run") -> Any:
    return load(ROOT / "bench" / "experiments" / name, monkeypatch, module)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_experiment_says_how_it_is_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = load(folder, monkeypatch)
    with pytest.raises(SystemExit) as left:
        run.main(["--help"])
    assert left.value.code == 0
    assert "--out OUT" in capsys.readouterr().out
    assert run.__doc__ is not None
    command = re.search(r"python (\S+) .*?--out (\S+)", run.__doc__, re.DOTALL)
    assert command is not None
    assert ROOT / command[1] == folder / "run.py"
    assert (ROOT / command[2]).exists(), "the results of the command are committed"


def test_every_experiment_is_listed() -> None:
    page = (ROOT / "bench" / "experiments" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == [folder.name for folder in FOLDERS]
    for link in re.findall(r"\]\((\S+?)\)", page):
        assert (ROOT / "bench" / "experiments" / link).exists(), link


def test_certificates_are_simulated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, out = experiment("simulate_certificates", monkeypatch), tmp_path / "certificates.json"
    cases = run.cases()
    monkeypatch.setattr(run, "cases", lambda: cases[:2])
    run.main(["--out", str(out), "--repeats", "2"])
    before = out.read_text()
    assert [entry["scenario"] for entry in json.loads(before)["runs"]] == [case["scenario"] for case in cases[:2]]
    monkeypatch.setattr(run, "certify_answers", lambda *_, **__: pytest.fail("simulated again"))
    run.main(["--out", str(out), "--repeats", "2"])
    assert out.read_text() == before
    with pytest.raises(SystemExit, match="was begun with the options"):
        run.main(["--out", str(out), "--repeats", "3"])


def test_audits_are_simulated_case_by_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation that was cut into two calls is that of one: a case draws from a generator of its own."""
    run, cut, whole = experiment("audit_simulation", monkeypatch), tmp_path / "cut.json", tmp_path / "whole.json"
    cases = [{"world": "boundary", "n_texts": 300}, {"world": "planted", "n_texts": 1000}]
    for chosen, out in ((cases[:1], cut), (cases, cut), (cases, whole)):
        monkeypatch.setattr(run, "cases", lambda chosen=chosen: chosen)
        run.main(["--out", str(out), "--trials", "2"])
    assert cut.read_text() == whole.read_text()
    boundary, planted = json.loads(whole.read_text())["worlds"]
    assert boundary["planted_found"] is None
    assert planted["planted_found"] > 0


def test_a_planted_phrase_is_known_by_its_telling_words(monkeypatch: pytest.MonkeyPatch) -> None:
    is_planted = experiment("audit_rates", monkeypatch).is_planted
    assert is_planted("honestly", ("to be honest", "honestly"))
    assert is_planted("be honest", ("to be honest",))
    assert not is_planted("to be", ("to be honest",))


def test_synonyms_that_share_a_word_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    halves = experiment("targeted_guard", monkeypatch, "unseen").halves
    seen, unseen = halves(["to be honest", "quite honest", "frankly", "in truth", "truth be told"])
    assert {"to be honest", "quite honest"} <= set(seen) or {"to be honest", "quite honest"} <= set(unseen)
    assert {"in truth", "truth be told"} <= set(seen) or {"in truth", "truth be told"} <= set(unseen)
    assert sorted([*seen, *unseen]) == sorted(["to be honest", "quite honest", "frankly", "in truth", "truth be told"])


def test_the_summary_of_committed_results_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means, deviations and shares of the gap; the intervals are left out here, since resampling takes minutes."""
    summary = experiment("targeted_guard", monkeypatch, "summary")
    monkeypatch.setattr(summary, "gap_interval", lambda *_: None)
    files = sorted((ROOT / "results" / "targeted_guard").glob("goemo-syn-[0-9].json"))
    found = summary.summary([json.loads(file.read_text(encoding="utf-8")) for file in files])["goemo-syn"]
    kept = json.loads((ROOT / "results" / "targeted_guard" / "summary.json").read_text(encoding="utf-8"))["goemo-syn"]
    assert found.keys() == kept.keys()
    for name, row in found.items():
        if isinstance(row, dict) and "strength" in row and row["gap_closed"]:
            assert np.allclose(row["accuracy"], kept[name]["accuracy"])
            assert np.allclose(row["gap_closed"], kept[name]["gap_closed"])
