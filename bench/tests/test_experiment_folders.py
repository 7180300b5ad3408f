"""The experiments outside the runner: each says what it does, takes `--out`, and goes on where it stopped."""

import importlib.util
import json
import re
import sys

import pytest

from checkout import ROOT

EXPERIMENTS = ROOT / "bench" / "experiments"
FOLDERS = sorted(path.parent.name for path in EXPERIMENTS.glob("*/run.py"))


def experiment(name, monkeypatch):
    """The program of an experiment, imported."""
    spec = importlib.util.spec_from_file_location(f"{name}_run", EXPERIMENTS / name / "run.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    monkeypatch.setitem(sys.modules, spec.name, found)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("name", FOLDERS)
def test_an_experiment_says_how_it_is_run(name, monkeypatch, capsys):
    run = experiment(name, monkeypatch)
    with pytest.raises(SystemExit) as left:
        run.main(["--help"])
    assert left.value.code == 0
    assert "--out OUT" in capsys.readouterr().out
    assert run.__doc__ is not None
    command = re.search(r"python (\S+) .*?--out (\S+)", run.__doc__, re.DOTALL)
    assert command is not None
    assert ROOT / command[1] == EXPERIMENTS / name / "run.py"
    assert (ROOT / command[2]).exists(), "the results of the command are committed"


def test_every_experiment_is_listed():
    page = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == FOLDERS
    for link in re.findall(r"\]\((\S+?)\)", page):
        assert (EXPERIMENTS / link.partition("#")[0]).exists(), link


def test_certificates_are_simulated_once(tmp_path, monkeypatch):
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


def test_audits_are_simulated_case_by_case(tmp_path, monkeypatch):
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
