"""The README, on the demo's own model and files: what it says is what happens."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest

from checkout import ROOT
from first_hour import check_output, place_in
from shortcut_guardrail.demo.corpus import LABEL_NAMES, make_corpus

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    (body, BLOCKS[i + 1][1])
    for i, (kind, body) in enumerate(BLOCKS[:-1])
    if not kind and body.startswith("shortcut-guardrail ") and not BLOCKS[i + 1][1].startswith("shortcut-guardrail ")
]
(QUESTIONS,) = (body for kind, body in BLOCKS if body.startswith("shortcut-guardrail flips "))
PYTHON, PRINTED = next((body, BLOCKS[i + 1][1]) for i, (kind, body) in enumerate(BLOCKS) if kind == "python")


@pytest.fixture(scope="module")
def place(tmp_path_factory, shared_folder) -> Path:
    return place_in(tmp_path_factory.mktemp("readme"), shared_folder)


def answer_rightly(file: Path) -> None:
    """Fill in what a reader who does not err says about the demo's texts."""
    truth = make_corpus(seed=0).deployment.labels
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row["answer"] = "a" if row["option_a"] == LABEL_NAMES[truth[int(row["row"])]] else "b"
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_the_readme_is_read_in_minutes():
    assert len(README.split()) <= 1000


def test_the_commands_stand_with_their_output():
    assert [command.split()[1] for command, _ in COMMANDS] == ["audit", "fit", "evaluate", "judge"]


@pytest.mark.slow
def test_every_command_prints_what_the_readme_says(place, cli, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")
    for command, said in COMMANDS:
        if command.split()[1] == "judge":
            assert cli(*shlex.split(QUESTIONS)[1:])[0] == 0
            answer_rightly(Path("flips.csv"))
        status, out, err = cli(*shlex.split(command)[1:])
        assert status == 0, err
        check_output(said, out)


@pytest.mark.slow
def test_the_python_block_prints_what_the_readme_says(place, tmp_path, capsys, monkeypatch):
    # Of the first 150 texts, from which it says the same as from all.
    (tmp_path / "demo-output").mkdir()
    (tmp_path / "demo-output" / "biased-model").symlink_to((place / "demo-output" / "biased-model").resolve())
    rows = (place / "demo-output" / "deployment.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "demo-output" / "deployment.csv").write_text("".join(rows[:151]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON, "README.md", "exec"), {})
    check_output(PRINTED, capsys.readouterr().out)


def test_an_output_that_differs_is_seen():
    check_output("accuracy 0.50 ... done", "accuracy 0.51 more rows done")
    check_output("accuracy ... rows ...", "accuracy 0.51 more rows done")
    for said in ("accuracy ... lines ... done", "rows ...", "... rows", "accuracy 0.51 more rows"):
        with pytest.raises(AssertionError):
            check_output(said, "accuracy 0.51 more rows done")
    with pytest.raises(AssertionError):
        check_output("accuracy 0.50 done", "accuracy 0.90 done")
    with pytest.raises(AssertionError):
        check_output("flagged honestly", "flagged book")
