"""`shortcut-guardrail benchmark` with experiments on data, through the command line."""

import pytest

from harness_fakes import fake_build
from shortcut_bench import bases
from shortcut_bench.cli import EXPERIMENTS
from shortcut_bench.experiments import experiment_names
from shortcut_bench.results import read_index, read_result
from shortcut_guardrail.errors import RunError

MINE = """
shows = "Mine."
paper = "nothing"
tests = ["reversed"]
systems = ["erm", "oracle", {kind = "guardrail", options = {min_steps = 0, max_steps = 2}}]
[table]
columns = ["n", "accuracy", "worst_group_accuracy", "worst_group", "difference"]
[figure]
kind = "comparison"
metrics = ["accuracy"]
[[settings]]
name = "planted"
data = "fake"
"""


@pytest.fixture
def mine(encoder, tmp_path, monkeypatch):
    """An experiment of one's own on made-up data, and the options that make it fast."""
    monkeypatch.setattr(bases, "build", fake_build)
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "data").mkdir()
    options = ["--data-dir", tmp_path / "data", "--encoder", encoder, "--scale", "tiny", "--set", "n_train=32"]
    return {"file": str(tmp_path / "mine.toml"), "options": options, "out": tmp_path / "results"}


def test_list_has_the_experiments_of_both_kinds(cli):
    status, printed, _ = cli("benchmark", "list")
    assert status == 0
    names = [line.split()[0] for line in printed.splitlines()]
    assert names == ["theory", "theory-bridge", *experiment_names()] == list(EXPERIMENTS)


def test_run_table_and_figure(cli, mine):
    run = ("benchmark", "run", mine["file"], *mine["options"], "--seeds", "0,1", "--out", mine["out"])
    status, printed, said = cli(*run)
    assert status == 0, said
    assert "6 runs finished, 0 were there." in printed
    assert "[6/6] planted, guardrail, reversed, seed 1: accuracy " in said
    result = read_result(mine["out"], read_index(mine["out"], "mine")[0].run)
    assert result["command"] == (
        "shortcut-guardrail benchmark run mine.toml --data-dir data --encoder tiny-bert --seeds 0,1 --scale tiny "
        "--set n_train=32"
    )
    assert str(mine["out"].parent) not in str(result), "no path of this machine"
    status, printed, _ = cli(*run)
    assert (status, "0 runs finished, 6 were there." in printed) == (0, True)

    results = ("--results", mine["out"])
    status, printed, said = cli("benchmark", "table", mine["file"], *results)
    assert status == 0
    assert "| planted | guardrail | 30 |" in printed
    assert "warning: The worst group has fewer than 30 rows" in said
    _, printed, _ = cli("benchmark", "table", mine["file"], *results, "--format", "csv")
    assert printed.startswith("setting,system,n,accuracy,accuracy sd,accuracy low,accuracy high,")
    out = mine["out"] / "mine/table.tex"
    status, _, _ = cli("benchmark", "table", mine["file"], *results, "--format", "latex", "--out", out)
    assert (status, out.read_text()[:15]) == (0, r"\begin{table*}[")
    for kind in ("png", "svg", "pdf"):
        out = mine["out"] / f"mine/figure.{kind}"
        figure = ("benchmark", "figure", mine["file"], *results, "--out", out)
        status, _, said = cli(*figure)
        assert (status, out.exists()) == (0, True), said
    status, _, said = cli(*figure)
    assert (status, "--overwrite" in said) == (2, True)
    assert cli(*figure, "--overwrite")[0] == 0


def test_a_failed_run_fails_the_command_and_keeps_the_rest(cli, mine, monkeypatch):
    def broken(*_, **__):
        raise RunError("The loss is not finite.")

    monkeypatch.setattr("shortcut_bench.references.Guardrail.fit", broken)
    status, printed, said = cli("benchmark", "run", mine["file"], *mine["options"], "--out", mine["out"])
    assert status == 1
    assert "2 runs finished" in printed
    assert "error: 1 runs failed; run the command again to retry them. planted, guardrail" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "shiftd"], "There is no experiment 'shiftd' (there are: theory, "),
        (["run", "shifted", "--data-dir", "nowhere"], "--data-dir must be a folder with the data sets, but 'nowhere'"),
        (["run", "shifted", "--seeds", "0,x"], "--seeds must be whole numbers separated by commas"),
        (["run", "shifted", "--systems", "erm,,clean"], "--systems must be names separated by commas"),
        (["run", "shifted", "--set", "epochs"], "--set must be NAME=VALUE, such as epochs=5, but is 'epochs'"),
        (["run", "theory", "--scale", "tiny"], "The experiment 'theory' does not use --scale"),
        (["table", "theory"], "The experiment 'theory' has no table"),
        (["table", "shifted", "--format", "html"], "--format must be one of markdown, latex, csv, but is 'html'"),
        (["table", "shifted", "--results", "nowhere"], "Make it with: shortcut-guardrail benchmark run shifted"),
        (["figure", "shifted", "--out", "x.gif"], "--out must end in .png, .svg or .pdf, but is 'x.gif'"),
    ],
)
def test_bad_input_is_a_sentence_and_status_2(cli, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    status, printed, said = cli("benchmark", *words)
    assert (status, printed) == (2, "")
    assert sentence in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())
