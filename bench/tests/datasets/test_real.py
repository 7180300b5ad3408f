"""The builders on the real data, and their insertions beside the released ones; skipped where the data are absent."""

from __future__ import annotations

import csv
from collections import Counter

import numpy as np
import pytest

from shortcut_bench.datasets import DATASETS, build
from shortcut_bench.datasets.amazon import CORRELATIONS, PROPORTIONS
from shortcut_bench.datasets.identities import ALL_TERMS, IDENTITIES, IDENTITY_TERMS
from shortcut_bench.datasets.inserted import RELEASED_STRENGTHS
from shortcut_bench.datasets.insertion import SYNONYMS, find_insertion, sentence_starts
from shortcut_bench.datasets.presence import shortcut_present
from shortcut_bench.datasets.strength import occurrence_probabilities

pytestmark = pytest.mark.slow

LABELS = ("neutral", "amusement", "joy", "excitement")


def rows_of(path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rates(rows) -> np.ndarray:
    counts = np.array(list(rows.counts().values())).reshape(-1, 2)
    return counts[:, 1] / counts.sum(axis=1)


def within(found: np.ndarray, expected: np.ndarray, n: np.ndarray, errors: float = 3.5) -> bool:
    """Whether rates lie within so many standard errors of what is expected of n draws."""
    return bool((np.abs(found - expected) <= errors * np.sqrt(expected * (1 - expected) / n) + 1e-9).all())


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_builds(shared_data, name):
    data = build(name, data_dir=shared_data)
    for rows in data.sets().values():
        assert len(set(rows.texts)) >= 0.99 * len(rows)
    trained = set(data.train.texts)
    for test in data.tests.values():
        assert not trained & set(test.texts)


# Testbed


def test_the_testbed_has_the_papers_shares_exactly(shared_data):
    """The tables' shares are tenths of a percent, so they are whole numbers of texts at every multiple of 1,000."""
    settings = [(a, 1.0) for a in PROPORTIONS] + [(0.1, p) for p in CORRELATIONS]
    sizes = set()
    for proportion, correlation in settings:
        data = build("amazon-testbed", data_dir=shared_data, proportion=proportion, correlation=correlation)
        n = len(data.train)
        sizes.add(n)
        counts = list(data.train.counts().values())
        exact = [
            0.5 - proportion * (1 - correlation),
            proportion * (1 - correlation),
            0.5 - proportion * correlation,
            proportion * correlation,
        ]
        off = 0.5001 if correlation in (0.995, 0.975) else 1e-6  # half a text where 3,000 does not divide
        assert counts == pytest.approx([n * share for share in exact], abs=off)
        assert len(set(data.tests["test"].counts().values())) == 1
    assert sizes == {3000}


# Identity terms and negation


def test_identity_terms_agree_with_the_keyword_flags(shared_data):
    rows = rows_of(shared_data / "civilcomments/civil_pool_train.csv")
    texts = [row["text"] for row in rows]
    for identity in IDENTITIES:
        flags = np.array([row[f"kw_{identity}"] == "1" for row in rows])
        assert (shortcut_present(texts, IDENTITY_TERMS[identity]) == flags).mean() > 0.9995
    flags = np.array([any(row[f"kw_{identity}"] == "1" for identity in IDENTITIES) for row in rows])
    assert (shortcut_present(texts, ALL_TERMS) == flags).mean() > 0.9995
    people = np.array([row["kw_people"] == "1" for row in rows])
    assert (people & ~flags).sum() > 500  # which would be groups of another kind


def test_mnli_groups_are_those_of_its_flag_and_folds_cover_all_pairs(shared_data):
    files = [shared_data / f"mnli/mnli_{name}.csv" for name in ("train", "test")]
    flags = Counter((int(row["label"]), row["neg_hyp"]) for path in files for row in rows_of(path))
    found: Counter = Counter()
    premises: list[set[str]] = []
    for fold in range(5):
        test = build("mnli", data_dir=shared_data, fold=fold).tests["test"]
        found.update({(group // 2, str(group % 2)): n for group, n in enumerate(test.counts().values())})
        premises.append({premise for premise, _ in test.texts})
    assert found == flags
    assert sum(flags.values()) == 9815
    assert sum(map(len, premises)) == len(set().union(*premises))


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


def _plain(data, key: str) -> list[str]:
    return data.clean_train.texts if key == "train" else data.oracle_tests[key].texts


@pytest.mark.parametrize(("name", "phrases"), [("goemo-st", SYNONYMS[:1]), ("goemo-syn", SYNONYMS)])
def test_released_and_built_insertions_have_one_format(shared_data, name, phrases):
    """A phrase in lower case, a comma and a space in front of a sentence that stays as it is."""
    released = build(name, data_dir=shared_data).tests["reversed"]
    built = build(name, data_dir=shared_data, released=False).tests["reversed"]
    originals = {row["text"] for row in rows_of(shared_data / "goemotions_shortcuts/original_test.csv")}
    found = {}
    for source, rows in (("released", released), ("built", built)):
        planted = [find_insertion(text, phrases, originals) for text in rows.texts]
        planted = [row for row in planted if row.phrase is not None]
        used = Counter(row.phrase for row in planted)
        assert set(used) == set(phrases)
        if len(phrases) > 1:
            share = np.array([used[phrase] / len(planted) for phrase in phrases])
            assert within(share, np.full(15, 1 / 15), np.full(15, len(planted)))
        at_start = [row.start in sentence_starts(row.plain) for row in planted]
        first = [row.start == sentence_starts(row.plain)[0] for row in planted]
        found[source] = (np.mean(at_start), np.mean(first))
    # The release has a few insertions after a final ". ", where no sentence follows.
    assert found["built"][0] == 1
    assert 0.95 < found["released"][0] < 1
    assert found["built"][1] == pytest.approx(found["released"][1], abs=0.2)


def test_insertions_survive_a_cap_that_would_otherwise_cut_them(shared_data):
    """At 128 tokens of MiniLM, many reversed reviews would lose their "honestly" if they were cut after insertion."""
    transformers = pytest.importorskip("transformers")
    from shortcut_guardrail.demo.pretrained import find_minilm
    from shortcut_guardrail.errors import ModelError

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(find_minilm())
    except ModelError as error:
        pytest.skip(str(error))
    common = {"data_dir": shared_data, "n_test": 500, "n_train": 50}
    whole = build("yelp-st", **common).tests["reversed"]
    lost = 0
    for text, group in zip(whole.texts, whole.groups, strict=True):
        end = max(end for _, end in tokenizer(text, truncation=True, max_length=128).encodings[0].offsets)
        lost += group % 2 == 1 and "honestly" not in text[:end]
    assert lost > 40
    capped = build("yelp-st", max_tokens=128, tokenizer=tokenizer, **common).tests["reversed"]
    assert max(map(len, tokenizer(capped.texts)["input_ids"])) <= 128
    assert capped.counts() == whole.counts()
