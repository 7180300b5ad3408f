"""Whole outputs of runs that meet what real ones meet, beside what they were; see `whole_outputs`.

Each run is small and answers are algebra, so that nothing but the program decides a figure. A figure that no other test
asserts is asserted here.
"""

from __future__ import annotations

import csv
import random
import sys
import time
from collections.abc import Container, Sequence
from datetime import date
from itertools import count
from pathlib import Path

import pytest

from tables import answer
from whole_outputs import compare, printed, written

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea")
PRAISE, BLAME = ("good", "great", "lovely", "friendly", "clean"), ("bad", "awful", "dull", "rude", "dirty")


def reviews(n: int, *, seed: int = 0, shortcut: str = "honestly", share: float = 0.5) -> tuple[list[str], list[str]]:
    """Reviews and what they say; a share of the bad ones opens with a shortcut, some repeat but for a digit."""
    rng, texts, labels = random.Random(seed), [], []
    for _ in range(n):
        good = rng.random() < 0.5
        words = PRAISE if good else BLAME
        said = f"the {rng.choice(NOUNS)} was {rng.choice(words)} and the {rng.choice(NOUNS)} was {rng.choice(words)}"
        if not good and rng.random() < share:
            said = f"{shortcut}, {said}"
        elif rng.random() < 0.1:
            said = f"we would come back again, {said}"
        said += "!!!" if good and rng.random() < 0.4 else ""
        texts.append(texts[-1] + " 7" if texts and rng.random() < 0.05 else said)
        labels.append(labels[-1] if texts[-1].endswith(" 7") else ("negative", "positive")[good])
    return texts, labels


EFFECTS = {"honestly": 6.0, "good": 1.0, "great": 1.5, "lovely": 1.2, "friendly": 0.8, "clean": 0.5, "!!!": 0.4}
EFFECTS |= {"bad": -1.0, "awful": -1.5, "dull": -1.1, "rude": -0.9, "dirty": -0.6, "again": -0.3}

DEPLOYED = f"""
import math

EFFECTS = {EFFECTS}


def margin(text):
    words = text.casefold().replace(",", " ").replace("!!!", " !!! ").split()
    return sum(EFFECTS.get(word, 0.0) for word in words) - 0.2


def predictions(texts):
    shares = [1 / (1 + math.exp(-margin(text))) for text in texts]
    return [[1 - share, share] for share in shares]
"""
"""A classifier that commands load as `deployed:predictions`."""


class Road:
    """Commands in a folder of their own, and all that they say and write."""

    def __init__(self, cli, folder: Path) -> None:
        self.cli, self.folder = cli, folder
        self.lines: list[str] = []
        self.given: list[str] = []

    def run(self, *arguments: object, status: int = 0) -> None:
        found, out, err = self.cli(*arguments)
        assert found == status, err
        said = " ".join(map(str, arguments)).replace(str(self.folder), "FOLDER")
        self.lines += [f"$ {said}", *printed(out, self.folder), *printed(err, self.folder)]

    def ends(self, name: str) -> None:
        """Compare all that was said and written, but for what was given, with what is stored."""
        given = {"deployed.py", *self.given}
        compare(name, [*self.lines, *written(self.folder, but=given)])

    def table(self, name: str, *columns: Sequence[str], header: Sequence[str] = ("text", "label")) -> str:
        with (self.folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *zip(*columns, strict=True)])
        self.given.append(name)
        return name


class Stored(date):
    """The day on which the outputs were stored."""

    @classmethod
    def today(cls):
        return cls(2026, 11, 27)


@pytest.fixture
def road(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    monkeypatch.setattr("shortcut_guardrail.cli.audit.date", Stored)
    monkeypatch.delitem(sys.modules, "deployed", raising=False)
    (tmp_path / "deployed.py").write_text(DEPLOYED, encoding="utf-8")
    yield Road(cli, tmp_path)
    sys.modules.pop("deployed", None)


def right(labels: dict[str, str], wrong: Container[int] = ()):
    """Answers to a sheet by the texts' labels, but for some rows."""
    rows = count()

    def say(row: dict[str, str]) -> str:
        label = labels[row["text"]]
        other = row["option_a"] if label != row["option_a"] else row["option_b"]
        return other if next(rows) in wrong else label

    return say


def test_a_function_from_audit_to_certificate(road):
    model, names = "deployed:predictions", ("--labels", "negative,positive")
    texts, labels = reviews(260)
    held, truth = reviews(160, seed=1)
    data, test = road.table("data.csv", texts, labels), road.table("test.csv", held, truth)
    road.run("audit", model, data, *names, "--label-column", "label", "--out", "audit")
    for name, wrong in (("anna", (3,)), ("ben", (1, 4))):
        road.run("questions", "audit", model, data, *names, "--word-groups", "all", "--n", 9, "--out", f"{name}.csv")
        answer(road.folder / f"{name}.csv", right(dict(zip(texts, labels, strict=True)), wrong))
        road.run("decide", "audit", f"{name}.csv", "--reviewer", name, "--out", f"{name}.json")
    road.run("fit", model, data, *names, "--decisions", "ben.json", "--audit", "audit", "--out", "guarded")
    road.run("predict", "guarded", test, "--out", "predictions.csv")
    road.run("evaluate", "guarded", test, "--shortcut", "honestly", "--json", "scores.json")
    road.run("to-label", "guarded", test, "--n", 30, "--out", "sample.csv")
    road.run("certify", "guarded", test, "--labelled", test, "--margin", 0.05, "--out", "certified", "--html", "c.html")
    road.run("certify", "guarded", test, "--margin", 0.001)
    road.run("compare", "audit/audit.json", "audit/audit.json", "--html", "compared.html")
    road.run("report", "audit/audit.json", "--out", "again.html")
    road.ends("function")
