"""The demo's own model and files, as `make demo` writes them, and whether what is printed is what a page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

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


def place_in(folder: Path, shared: Path) -> Path:
    """A folder in which `make demo` was run, as far as the README and the notebooks need it.

    The model is trained once for all processes, on two threads, as where the README was written: sums of another number
    of threads round otherwise, and two epochs later a few answers differ. Threads that wait sleep, so that tests beside
    these are not held up.

    Args:
        folder: The folder, empty.
        shared: The folder of all processes, where the demo's files are kept.
    """
    made, done = shared / "demo-output", shared / "demo-output.done"
    with FileLock(shared / "demo-output.lock"):
        if not done.exists():
            made.mkdir()
            threads = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
            subprocess.run([sys.executable, "-c", TRAIN, made.name], cwd=shared, env=os.environ | threads, check=True)
            done.touch()
    shutil.copytree(made, folder / "demo-output")
    return folder


OTHER_WORD = re.compile(r"^\s*(?!honestly)\w+\s+\d+\s+\d\.\d+\s+\d\.\d+(?:-| to )")
"""A row about a word that nobody planted. Another processor rounds otherwise, and which of them come first differs."""

NEGATIONS = re.compile(r"\b(?:not|nothing|nobody|no)\b(?:,\s+(?:not|nothing|nobody|no)\b)*")
"""They stand on one card; in what order, and whether all, differs likewise."""


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
    return re.sub(r"[─━]+|[\d.]+ s\b", " ", NEGATIONS.sub("not", "\n".join(lines))).split()


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
