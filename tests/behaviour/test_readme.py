"""The README, on the demo's own model and files: what it says is what happens."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from checkout import ROOT
from shortcut_guardrail.demo.corpus import make_corpus
from shortcut_guardrail.demo.run import train_biased, write_inputs

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    (body, BLOCKS[i + 1][1])
    for i, (kind, body) in enumerate(BLOCKS[:-1])
    if not kind and body.startswith("shortcut-guardrail ") and "demo-output" in body
]
PYTHON, PRINTED = next((body, BLOCKS[i + 1][1]) for i, (kind, body) in enumerate(BLOCKS) if kind == "python")


on_request = pytest.mark.skipif(
    "SHORTCUT_GUARDRAIL_README" not in os.environ,
    reason="ten minutes of a core: a classifier is trained, audited and repaired",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder in which `make demo` was run, as far as the README needs it."""
    folder = tmp_path_factory.mktemp("readme")
    corpus = make_corpus(seed=0)
    (folder / "demo-output").mkdir()
    write_inputs(folder / "demo-output", corpus, train_biased(corpus, seed=0))
    return folder


def words_of(output: str) -> list[str]:
    """What was printed, without rules, widths and durations."""
    plain = re.sub(r"[─━]+|\d+ s\b", " ", output)
    return plain.split()


def alike(said: str, printed: str) -> bool:
    """Whether two words are the same; numbers may differ by what another processor rounds otherwise."""
    if said == printed:
        return True
    numbers = [re.sub(r"[^\d.]", "", word) for word in (said, printed)]
    try:
        a, b = map(float, numbers)
    except ValueError:
        return False
    return abs(a - b) <= 0.05 * max(1.0, abs(a))


def check_output(said: str, printed: str) -> None:
    expected, found = words_of(said), words_of(printed)
    if "..." in expected:  # rows of a table are left out
        cut = expected.index("...")
        assert len(found) > len(expected) - 1
        rest = len(expected) - cut - 1
        expected, found = expected[:cut] + expected[cut + 1 :], found[:cut] + (found[-rest:] if rest else [])
    differing = [(a, b) for a, b in zip(expected, found, strict=True) if not alike(a, b)]
    assert not differing


def test_the_readme_is_read_in_minutes():
    assert len(README.split()) <= 1000


def test_there_are_three_commands_with_output():
    assert [command.split()[1] for command, _ in COMMANDS] == ["audit", "fit", "evaluate"]


@on_request
def test_every_command_prints_what_the_readme_says(place, cli, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")
    for command, said in COMMANDS:
        arguments = shlex.split(command.replace("\\\n", " "))[1:]
        status, out, err = cli(*arguments)
        assert status == 0, err
        check_output(said, out)


@on_request
def test_the_python_block_prints_what_the_readme_says(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    exec(compile(PYTHON, "README.md", "exec"), {})
    check_output(PRINTED, capsys.readouterr().out)


def test_an_output_that_differs_is_seen():
    check_output("accuracy 0.50 ... done", "accuracy 0.51 more rows done")
    with pytest.raises(AssertionError):
        check_output("accuracy 0.50 done", "accuracy 0.90 done")
    with pytest.raises(AssertionError):
        check_output("flagged honestly", "flagged book")
