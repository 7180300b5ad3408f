"""`shortcut-guardrail benchmark` with the experiment `theory`, through Typer's runner, on a small world."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from checkout import ROOT
from shortcut_bench.cli import app
from shortcut_bench.theory import World, experiment
from shortcut_bench.theory.record import read_result

SMALL = World(num_tokens=2, train_size=3, shortcut_strength=0.9, step=2.0)


@pytest.fixture
def _small_world(monkeypatch):
    monkeypatch.setattr(experiment.run, "__defaults__", (SMALL,))
    for name, sizes in (("TRAIN_SIZES", (0, 1, 2)), ("STEP_TRAIN_SIZES", (1, 2, 3)), ("DEPLOYMENT_SIZES", (0, 1, 2))):
        monkeypatch.setattr(experiment, name, sizes)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.usefixtures("_small_world")
@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("b.SVG", b"<?xml"), ("c.pdf", b"%PDF")])
def test_run_then_figure(tmp_path, name, magic):
    results = tmp_path / "results"
    ran = invoke("run", "theory", "--out", results)
    assert ran.exit_code == 0, ran.output
    assert "Wrote" in ran.output
    record = json.loads((results / "theory" / "result.json").read_text(encoding="utf-8"))
    assert record["command"] == "shortcut-guardrail benchmark run theory"
    assert record["config"]["train_size"] == 3
    drawn = invoke("figure", "theory", "--results", results, "--out", tmp_path / "new" / name)
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "new" / name).read_bytes().startswith(magic)


@pytest.mark.usefixtures("_small_world")
def test_a_finished_result_is_replaced_only_on_request(tmp_path, cli):
    assert invoke("run", "theory", "--out", tmp_path).exit_code == 0
    path = tmp_path / "theory" / "result.json"
    path.write_text("{}", encoding="utf-8")
    status, _, said = cli("benchmark", "run", "theory", "--out", tmp_path)
    assert (status, "already exists" in said, "--overwrite" in said) == (2, True, True)
    assert path.read_text(encoding="utf-8") == "{}"
    assert invoke("run", "theory", "--out", tmp_path, "--overwrite").exit_code == 0
    assert read_result(tmp_path, "theory")["experiment"] == "theory"


def test_the_committed_result_is_what_the_code_computes():
    """Recomputes one row of every series; the whole takes longer than a test should."""
    path = ROOT / "results"
    record = read_result(path, "theory")
    assert record["config"] == experiment.asdict(experiment.BASE_WORLD)
    for series in ("by_train_size", "by_step", "by_strength"):
        row = record[series][1]
        again = experiment.describe_world(World(**row["world"]))
        for quantity in ("information", "bayes_error", "sharp_bounds", "best_performance"):
            assert again[quantity] == pytest.approx(row[quantity], abs=1e-9)
    assert [row["world"]["train_size"] for row in record["by_train_size"]] == list(experiment.TRAIN_SIZES)


def test_the_command_line_imports_nothing_heavy():
    heavy = "{'torch', 'transformers', 'matplotlib', 'sklearn', 'scipy', 'numpy'}"
    script = f"import sys, shortcut_guardrail.cli.benchmark; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
