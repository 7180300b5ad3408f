"""The builders on the real data, and their insertions beside the released ones; skipped where the data are absent."""

import csv
import re

import numpy as np
import pytest

from checkout import ROOT
from shortcut_bench.datasets import DATASETS, build
from shortcut_bench.datasets.inserted import RELEASED_STRENGTHS
from shortcut_bench.datasets.presence import shortcut_present
from shortcut_bench.datasets.strength import occurrence_probabilities

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "research" / "datasets.md").read_text(encoding="utf-8")
SIZES = {
    name: [int(number) for number in numbers.split("|")]
    for name, numbers in re.findall(r"^\| `([\w-]+)` \| ((?:\d+ \| ){3}\d+)", PAGE, re.MULTILINE)
}
LABELS = ("neutral", "amusement", "joy", "excitement")


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rates(rows):
    counts = np.array(list(rows.counts().values())).reshape(-1, 2)
    return counts[:, 1] / counts.sum(axis=1)


def within(found, expected, n, errors=3.5):
    """Whether rates lie within so many standard errors of what is expected of n draws."""
    return bool((np.abs(found - expected) <= errors * np.sqrt(expected * (1 - expected) / n) + 1e-9).all())


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_builds_with_the_sizes_of_its_page(shared_data, name):
    data = build(name, data_dir=shared_data)
    test = data.tests.get("reversed") or data.tests["test"]
    smallest = min(count for count in test.counts().values() if count)
    assert SIZES[name] == [len(data.train), len(data.dev), len(test), smallest]
    for rows in data.sets().values():
        assert len(set(rows.texts)) >= 0.99 * len(rows)
    trained = set(data.train.texts)
    for test in data.tests.values():
        assert not trained & set(test.texts)


# Testbed


# Identity terms and negation


# Released and built GoEmotions


@pytest.mark.parametrize(("name", "kind"), [("goemo-st", "single-word"), ("goemo-syn", "synonym")])
@pytest.mark.parametrize("strength", RELEASED_STRENGTHS)
def test_the_released_sets_load_as_they_are(shared_data, name, kind, strength):
    data = build(name, data_dir=shared_data, strength=strength)
    source = shared_data / "goemotions_shortcuts" / f"{kind}{RELEASED_STRENGTHS[strength]}"
    for rows, file in (
        (data.train, "train.csv"),
        (data.dev, "dev.csv"),
        (data.tests["in_distribution"], "test.csv"),
        (data.tests["reversed"], "test_anti-shortcut.csv"),
    ):
        assert rows.texts == [row["text"] for row in rows_of(source / file)]
        assert rows.labels.tolist() == [int(row["label"]) for row in rows_of(source / file)]
    originals = [row["text"] for row in rows_of(source.parent / "original_test.csv")]
    for oracle in data.oracle_tests.values():
        same = sum(a == b for a, b in zip(oracle.texts, originals, strict=True))
        # From ST the word was taken out of four texts that had it by nature.
        assert same == (685 if kind == "synonym" else 681)
    known = {row["text"] for row in rows_of(source.parent / "original_train.csv")}
    unknown = [text for text in data.clean_train.texts if text not in known]
    assert len(unknown) <= (0 if kind == "synonym" else 11)
    if kind == "single-word":
        assert not shortcut_present(data.clean_train.texts, ["honestly"]).any()


@pytest.mark.parametrize("name", ["goemo-st", "goemo-syn"])
@pytest.mark.parametrize("strength", RELEASED_STRENGTHS)
def test_released_and_built_rates_are_those_of_the_reading_zhou(shared_data, name, strength):
    released = build(name, data_dir=shared_data, strength=strength)
    built = build(name, data_dir=shared_data, strength=strength, released=False)
    for key, reverse in (("train", False), ("in_distribution", False), ("reversed", True)):
        expected = np.array(list(occurrence_probabilities(LABELS, strength, "zhou", reverse=reverse).values()))
        for data in (released, built):
            rows = data.train if key == "train" else data.tests[key]
            planted = np.array([a != b for a, b in zip(rows.texts, _plain(data, key), strict=True)])
            n = np.bincount(rows.labels)
            assert within(np.bincount(rows.labels, planted) / n, expected, n)
            # The other reading is another one: at these sizes it would show.
            if strength < 1:
                other = np.array(list(occurrence_probabilities(LABELS, strength, "paper", reverse=reverse).values()))
                assert not within(np.bincount(rows.labels, planted) / n, other, n)


def _plain(data, key):
    return data.clean_train.texts if key == "train" else data.oracle_tests[key].texts
