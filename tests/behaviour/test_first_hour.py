"""The README and the notebooks, on the demo's own model and files: what they say is what happens."""

import ast
import csv
import io
import re
import shlex
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import nbformat
import pytest
import torch
from IPython.lib.pretty import pretty

import notebooks
from checkout import ROOT
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.cli import main
from shortcut_guardrail.demo.corpus import LABEL_NAMES, make_corpus
from shortcut_guardrail.mitigation import guards, strategies
from shortcut_guardrail.saving import open_audit
from shortcut_guardrail.shortcuts import search

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    (body, BLOCKS[i + 1][1])
    for i, (kind, body) in enumerate(BLOCKS[:-1])
    if not kind and body.startswith("shortcut-guardrail ") and not BLOCKS[i + 1][1].startswith("shortcut-guardrail ")
]
(QUESTIONS,) = (body for kind, body in BLOCKS if body.startswith("shortcut-guardrail questions "))
PYTHON, PRINTED = next((body, BLOCKS[i + 1][1]) for i, (kind, body) in enumerate(BLOCKS) if kind == "python")


FAST = ["--precision", "auto"]
"""For the commands that answer texts: the number format of the notebooks and the Python block, which make the same."""

TRAIN = """
import torch
torch.cpu._is_amx_tile_supported = bool
from pathlib import Path
from shortcut_guardrail.demo.corpus import make_corpus
from shortcut_guardrail.demo import find_minilm
from shortcut_guardrail.demo.run import write_inputs
from shortcut_guardrail.demo.training import Recipe, train_classifier
corpus = make_corpus(seed=0)
classifier = train_classifier(corpus.train, encoder=find_minilm(), recipe=Recipe(), seed=0)
write_inputs(Path("demo-output"), corpus, classifier)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder in which `make demo` was run, as far as the README and the notebooks need it.

    The model is trained on one thread, since a second would wait for a core that another test keeps busy, for minutes.
    The README's was trained on two: sums round otherwise, and two epochs later a few answers differ, as they do on
    another processor.
    """
    place = tmp_path_factory.mktemp("first-hour")
    (place / "demo-output").mkdir()
    subprocess.run([sys.executable, "-c", TRAIN], cwd=place, check=True)
    return place


@pytest.fixture(scope="module", autouse=True)
def once():
    """Trains an adapter, and asks it at its strengths, once: the README and two notebooks make the same one."""
    trained, answered = {}, {}
    train, answer = strategies.distill_adapter, guards.AdapterGuard.logits_by_strength

    def distill_adapter(base, encoded, target, finder, config, *, seed, progress=None):
        found = tuple(map(tuple, finder.positions(encoded)))
        about = (base.fingerprint(), base.precision, tuple(encoded.texts), target.logits.tobytes())
        key = (*about, found, repr((config.adapter, config.distill)), seed)
        if key not in trained:
            trained[key] = train(base, encoded, target, finder, config, seed=seed, progress=progress)
        return trained[key]

    def logits_by_strength(self, encoded, strengths, *, progress=None):
        key = (self.adapted.model, tuple(encoded.texts), tuple(strengths))
        if key not in answered:
            answered[key] = answer(self, encoded, strengths, progress=progress)
        return answered[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cpu, "_is_amx_tile_supported", bool, raising=False)  # what is shown was made in float32
        patch.setattr(strategies, "distill_adapter", distill_adapter)
        patch.setattr(guards.AdapterGuard, "logits_by_strength", logits_by_strength)
        yield


@pytest.fixture(scope="module")
def audited(place):
    """What the README's first command prints; its folder `audit` serves the other commands and a notebook."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        patch.chdir(place)
        patch.setenv("COLUMNS", "80")
        assert main.call(shlex.split(COMMANDS[0][0])[1:] + FAST) == 0
    return printed.getvalue()


OTHER_WORD = re.compile(r"^\s*(?!honestly)\w+\s+\d+\s+\d\.\d+\s+\d\.\d+(?:-| to )")
"""A row about a word that nobody planted. Another processor rounds otherwise, and which of them come first differs."""

_NEGATION = r"(?:not|nothing|nobody|never|without|no)\b"
NEGATIONS = re.compile(rf"\b{_NEGATION}(?:,\s+{_NEGATION})*,?")
"""They are one word group; in what order, whether all, and on how many lines, differs likewise."""

BY_ROUNDING = re.compile(
    r"(?<=^strength) +[\d.]+(?= \(agreement\))|(?<=^chosen) +[\d.]+| of \d+(?= weighed)|^\w+ +(?:cleared|kept) .*\n?"
    r"|^ +[\d.]+(?: +\d+){4} .*\n?|(?<=\bstrength)s?(?:(?:,| and| to)?\s+(?:0\.\d+|1)\b)+(?= is|\n)",
    re.MULTILINE,
)
"""What a few answers decide: the strength that is chosen, as several do as well; whether a word that stays changes
answers enough to be weighed; which strengths are certified."""

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def words_of(output):
    """What was printed, without rules, widths, durations, and what rounding decides."""
    lines = [line for line in BY_ROUNDING.sub("", output).splitlines() if not OTHER_WORD.match(line)]
    lines = [line for line in NEGATIONS.sub("not", "\n".join(lines)).splitlines() if line.strip() != "not"]
    return re.sub(r"[─━]+|[\d.]+ s\b", " ", "\n".join(lines)).split()


def alike(said, printed):
    """Whether two words are the same; numbers may differ by what another processor, or another number of threads,
    rounds otherwise: after two epochs of training a share by a tenth, other numbers by a quarter."""
    if NUMBER.sub("#", said) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(said), NUMBER.findall(printed), strict=True)
    numbers = ((float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs)
    return all(abs(a - b) <= max(0.1, 0.25 * abs(a)) for a, b in numbers)


def check_output(said, printed):
    """Compare word by word; "..." stands for any words, where something is left out."""
    found, start = words_of(printed), 0
    parts = [part.split() for part in " ".join(words_of(said)).split("...")]
    for i, part in enumerate(parts):
        places = range(start, len(found) - len(part) + 1)
        places = places[:1] if i == 0 else places[-1:] if i == len(parts) - 1 else places
        fits = (at for at in places if all(map(alike, part, found[at : at + len(part)])))
        at = next(fits, None)
        assert at is not None, f"{' '.join(part)} is not what is printed: {' '.join(found[start:])}"
        start = at + len(part)
    assert "..." in said or start == len(found)


def test_an_output_that_differs_is_seen():
    printed = "accuracy 0.51 more rows done"
    check_output("accuracy 0.50 ... done", printed)
    check_output("accuracy ... rows ...", printed)
    for said in ("accuracy ... lines ... done", "rows ...", "... rows", "accuracy 0.51 more rows", "accuracy 0.90 ..."):
        with pytest.raises(AssertionError):
            check_output(said, printed)


def answer_rightly(file):
    """Fill in what a reader who does not err says about the demo's texts."""
    truth = make_corpus(seed=0).deployment.labels
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        for row in rows:
            right = row["option_a"] == LABEL_NAMES[truth[int(row["row"])]]
            writer.writerow(row | {"answer": "a" if right else "b"})


@pytest.mark.slow
def test_every_command_prints_what_the_readme_says(place, audited, ok, monkeypatch):
    assert len(README.split()) <= 1000
    assert [command.split()[1] for command, _ in COMMANDS] == ["audit", "fit", "evaluate", "decide"]
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")
    check_output(COMMANDS[0][1], audited)
    for command, said in COMMANDS[1:]:
        if decides := command.split()[1] == "decide":
            ok(*shlex.split(QUESTIONS)[1:], *FAST)
            answer_rightly(Path("questions.csv"))
        check_output(said, ok(*shlex.split(command)[1:], *([] if decides else FAST))[0])


@pytest.mark.slow
def test_the_python_block_prints_what_the_readme_says(place, audited, capsys, monkeypatch):
    monkeypatch.chdir(place)
    # The README's audit once more; that a stored one is the one in memory is asked in `test_one_audit`.
    monkeypatch.setattr(search, "audit_texts", lambda *_, **__: open_audit(place / "audit"))
    exec(compile(PYTHON, "README.md", "exec"), {})
    check_output(PRINTED, capsys.readouterr().out)


def run_here(book, command):
    """What the cells of a notebook print and show, in this process, but for those tagged `texts`."""
    names, shown = {"command": command}, []
    for cell in book.cells:
        if cell.cell_type != "code":
            continue
        source = re.sub(r"^!shortcut-guardrail (.*)$", r'command(f"\1")', cell.source, flags=re.MULTILINE)
        body = ast.parse(source).body
        asked = body.pop() if isinstance(body[-1], ast.Expr) and not source.endswith(";") else None
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(ast.Module(body, []), "a notebook", "exec"), names)
            value = asked and eval(compile(ast.Expression(asked.value), "a notebook", "eval"), names)
        if "texts" not in cell.metadata.get("tags", ()):
            shown += [text for text in (printed.getvalue(), "" if value is None else pretty(value)) if text]
    return shown


def changes_of(output):
    """How many predictions the first word changes, where a cell says it."""
    return re.findall(r"(\d+) answers change without honestly", output)


@pytest.mark.slow
def test_the_notebooks_show_what_they_hold(place, audited, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("SHORTCUT_GUARDRAIL_DEMO", "demo-output")
    # The README's audit once more; that a stored one is the one in memory is asked in `test_one_audit`.
    monkeypatch.setattr(ShortcutGuardrail, "audit", lambda guard, texts: guard.audited("audit", texts))
    asked = []  # of the command line: the README's audit once more
    as_recorded = True
    for file in sorted(notebooks.NOTEBOOKS.glob("*.ipynb")):
        book = nbformat.read(file, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shown = run_here(book, asked.append)
        for said, printed in zip(notebooks.printed(book), shown, strict=True):
            # A processor that rounds otherwise trains another model, in which the words beside the first one differ.
            as_recorded = as_recorded and changes_of(said) == changes_of(printed)
            if as_recorded:
                check_output(said, printed)
            else:
                assert bool(said.split()) == bool(printed.split())
    assert [f"shortcut-guardrail {line}" for line in asked] == [COMMANDS[0][0].strip() + " --overwrite --quiet"]
