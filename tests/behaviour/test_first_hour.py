"""The README and the notebooks, on the demo's own model and files: what they say is what happens."""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import notebooks
from checkout import ROOT
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


TRAIN = """
import sys
from pathlib import Path
from shortcut_guardrail.demo.corpus import make_corpus
from shortcut_guardrail.demo.pretrained import find_minilm
from shortcut_guardrail.demo.run import write_inputs
from shortcut_guardrail.demo.training import Recipe, train_classifier

corpus = make_corpus(seed=0)
classifier = train_classifier(corpus.train, encoder=find_minilm(), recipe=Recipe(), seed=0)
write_inputs(Path(sys.argv[1]), corpus, classifier)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder in which `make demo` was run, as far as the README and the notebooks need it.

    On two threads, as where the README was written: sums of another number of threads round otherwise, and two epochs
    later a few answers differ. Threads that wait sleep, so that tests beside these are not held up.
    """
    folder = tmp_path_factory.mktemp("first-hour")
    (folder / "demo-output").mkdir()
    environment = os.environ | {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    subprocess.run([sys.executable, "-c", TRAIN, "demo-output"], cwd=folder, env=environment, check=True)
    return folder


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


OTHER_WORD = re.compile(r"^\s*(?!honestly)\w+\s+\d+\s+\d\.\d+\s+\d\.\d+(?:-| to )")
"""A row about a word that nobody planted. Another processor rounds otherwise, and which of them come first differs."""

NEGATIONS = dict.fromkeys(("not", "nothing", "no", "nobody"), "not")
"""They stand on one card, in an order that differs likewise."""


BY_ROUNDING = re.compile(
    r"(?<=^strength) +[\d.]+(?= \(agreement\))|(?<=^chosen) +[\d.]+| of \d+(?= weighed)|^\w+ +(?:cleared|kept) .*\n?"
    r"|^ +[\d.]+(?: +\d+){4} .*\n?|(?<=strengths)(?:,?\s+(?:0\.\d|1)\b)+",
    re.MULTILINE,
)
"""What a few answers decide: the strength that is chosen, as several do as well; whether a word that stays changes
answers enough to be weighed; which strengths are certified."""


def words_of(output: str) -> list[str]:
    """What was printed, without rules, widths, durations, and what rounding decides."""
    lines = [line for line in BY_ROUNDING.sub("", output).splitlines() if not OTHER_WORD.match(line)]
    plain = re.sub(r"[─━]+|[\d.]+ s\b", " ", "\n".join(lines))
    return [NEGATIONS.get(word.rstrip(","), word) for word in plain.split()]


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def alike(said: str, printed: str) -> bool:
    """Whether two words are the same; numbers may differ by what another processor rounds otherwise: after two epochs
    of training a share by a tenth, other numbers by a quarter."""
    if NUMBER.sub("#", said) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(said), NUMBER.findall(printed), strict=True)
    numbers = ((float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs)
    return all(abs(a - b) <= max(0.1, 0.25 * abs(a)) for a, b in numbers)


def check_output(said: str, printed: str) -> None:
    """Compare word by word; "..." stands for any words, where something is left out."""
    found, start = words_of(printed), 0
    parts = [part.split() for part in " ".join(words_of(said)).split("...")]
    for i, part in enumerate(parts):
        places = range(start, len(found) - len(part) + 1)
        if i == 0:
            places = places[:1]
        elif i == len(parts) - 1:
            places = places[-1:]
        fits = (at for at in places if all(map(alike, part, found[at : at + len(part)])))
        at = next(fits, None)
        assert at is not None, f"{' '.join(part)} is not what is printed: {' '.join(found[start:])}"
        start = at + len(part)
    assert "..." in said or start == len(found)


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
def test_the_python_block_prints_what_the_readme_says(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    exec(compile(PYTHON, "README.md", "exec"), {})
    check_output(PRINTED, capsys.readouterr().out)


@pytest.mark.slow
def test_the_notebooks_show_what_they_hold(place, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for file in sorted(notebooks.NOTEBOOKS.glob("*.ipynb")):
        shown = notebooks.run(file, folder=place)
        for said, printed in zip(notebooks.printed(nbformat.read(file, 4)), notebooks.printed(shown), strict=True):
            check_output(said, printed)


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
