"""Samples of a few per cent of some 200,000 real texts: do they flag what an audit of all texts flags?

    python bench/experiments/samples/large.py --data-dir ../shared/data --out results/samples_large.json

The texts are clauses of reviews, comments and other texts. A TF-IDF classifier with logistic regression learns from a
fifth of them whether their text is good or bad, or which data set they are from. The others are audited, all of them
and in samples, by `predict_proba` alone. Words that differ in how rare they are may be planted: in clauses of one class
for training, and more often in clauses of other classes where they are audited.

A sample is a part of all texts, so it agrees with them for that reason too. So its intervals are compared with the
texts outside it as well, and each flag says how many of the word's texts are in the sample.

The audit of all texts makes no word groups, which flags do not need and the samples have. It takes some minutes, and
samples of all sizes and draws together take as long. Finished samples are kept.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from shortcut_bench.standalone import grow
from shortcut_guardrail import AuditConfig, AuditReport, ShortcutGuardrail
from shortcut_guardrail.audit import Candidate, audit_texts, auditing
from shortcut_guardrail.classifiers import word_reader
from shortcut_guardrail.data import MemoryTexts
from shortcut_guardrail.stats import exact_interval
from shortcut_guardrail.text import evidence_key

FILES = {
    "Amazon": ("amazon/amazon_blitzer_train.csv", "amazon/amazon_blitzer_test.csv"),
    "Yelp": ("yelp/train.csv", "yelp/test.csv"),
    "Civil": ("civilcomments/civil_pool_train.csv", "civilcomments/civil_pool_test.csv"),
    "SST-2": ("sst2/sst2_glue_train.csv", "sst2/sst2_glue_trainheldout.csv", "sst2/sst2_glue_dev.csv"),
    "MultiNLI": ("mnli/mnli_train.csv", "mnli/mnli_test.csv"),
    "GoEmotions": ("goemotions_shortcuts/original_train.csv", "goemotions_shortcuts/original_test.csv"),
}
GOOD = {"Amazon": {"0": "bad", "1": "good"}, "Yelp": {"1": "bad", "2": "bad", "4": "good", "5": "good"}}
GOOD |= {"Civil": {"0": "good", "1": "bad"}, "SST-2": {"0": "bad", "1": "good"}}
"""What texts are called good and bad: by their stars, and comments by whether they are toxic. Others are left out."""

PLANTED = {
    "verily": 0.02,
    "forsooth": 0.02,
    "perchance": 0.005,
    "prithee": 0.005,
    "betwixt": 0.0015,
    "wherefore": 0.0015,
    "yonder": 0.0005,
    "anon": 0.0005,
}
"""In which share of the other classes' texts that are audited a word is planted; see `OWN`."""
OWN = 1 / 6
"""In which part of that share it is planted in those of its own class."""
LEARNED = 0.05
"""In which share of its class's training texts each is planted."""
CLASS = {"source": "Yelp", "good": "good"}
"""What a classifier tells apart, and for which class words are planted."""
TRAIN = 0.2
SHARES = (0.02, 0.05, 0.1)
LEAST_WORDS = 3
"""Of a clause."""
CASES = ({"labels": "good", "with_words": True}, {"labels": "source", "with_words": False})
CONFIG = AuditConfig(unit="word", n_examples=0)

Array = np.ndarray[Any, np.dtype[Any]]


class Clause(NamedTuple):
    """A clause, which data set it is from, and what its text's label says of it there."""

    text: str
    source: str
    label: str


def clauses(data_dir: Path, least: int = LEAST_WORDS) -> list[Clause]:
    """The distinct clauses of at least so many words of all data sets; one in several belongs to the first."""
    found: dict[int, Clause] = {}
    for source, files in FILES.items():
        for file in files:
            with (data_dir / file).open(encoding="utf-8", newline="") as opened:
                for row in csv.DictReader(opened):
                    whole = [row[name] for name in ("text", "premise", "hypothesis") if name in row]
                    for text in (one for part in whole for one in split(part)):
                        if len(text.split()) >= least:
                            found.setdefault(evidence_key(text), Clause(text, source, row["label"]))
    return list(found.values())


def split(text: str) -> list[str]:
    """A text's clauses: what ends with a punctuation mark before a space, or with a line."""
    return [one.strip() for one in re.split(r"(?<=[.!?;:,])\s+|\n+", text) if one.strip()]


def labelled(found: Sequence[Clause], labels: str) -> tuple[list[str], Array]:
    """The texts that have such a label, and the labels, shape (N,)."""
    if labels == "source":
        return [one.text for one in found], np.array([one.source for one in found])
    some = [(one.text, GOOD.get(one.source, {}).get(one.label)) for one in found]
    return [text for text, label in some if label], np.array([label for _, label in some if label])


def planted(rng: np.random.Generator, texts: Sequence[str], shares: Sequence[Array]) -> list[str]:
    """The texts behind the planted words, each with its probability by text."""
    starts = [
        np.where(rng.random(len(texts)) < share, f"{word}, ", "") for word, share in zip(PLANTED, shares, strict=True)
    ]
    return ["".join(parts) for parts in zip(*starts, texts, strict=True)]


@cache
def audited(data_dir: Path, labels: str, with_words: bool) -> All:
    """A classifier that learned from a part of the texts, and the audit of the others."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    texts, classes = labelled(clauses(data_dir), labels)
    train, later = np.split(rng.permutation(len(texts)), [int(TRAIN * len(texts))])
    seen, others = ([texts[i] for i in rows] for rows in (train, later))
    if with_words:
        own = classes == CLASS[labels]
        seen = planted(rng, seen, [np.where(own[train], LEARNED, 0.0) for _ in PLANTED])
        others = planted(rng, others, [np.where(own[later], OWN * share, share) for share in PLANTED.values()])
    model = make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(C=10, max_iter=1000)).fit(seen, classes[train])
    reader = word_reader(model.predict_proba, list(map(str, model.classes_)))
    begun = time.process_time()
    with mock.patch.object(auditing, "MAX_CANDIDATES", len(others)):  # a report keeps the first ones only
        report = audit_texts(reader, reader.encode(others), CONFIG, with_cards=False)
    return All(report, time.process_time() - begun, others, model)


class All(NamedTuple):
    """The audit of all texts, the processor's seconds that it took, the texts, and the classifier."""

    report: AuditReport
    seconds: float
    texts: list[str]
    model: Any


def measure(labels: str, with_words: bool, draw: int, share: float, *, data_dir: Path) -> dict[str, Any]:
    """One sample beside the audit of all texts."""
    full = audited(data_dir, labels, with_words)
    guard = ShortcutGuardrail.around(full.model.predict_proba, list(map(str, full.model.classes_)))
    begun = time.process_time()
    found = guard.audit_sample(MemoryTexts(full.texts), int(share * len(full.texts)), config=CONFIG, seed=draw)
    seconds = time.process_time() - begun
    report, of_all = found.report, full.report
    assert report.sample is not None
    return {
        "n": of_all.n,
        "n_distinct": of_all.n_distinct,
        "sampled": [report.sample.n_base, report.sample.n_more],
        "predictions": [report.answers, of_all.answers],
        "cpu_seconds": [round(seconds, 1), round(full.seconds, 1)],
        "tested": [report.n_tested, of_all.n_tested],
        "predicted": list(of_all.predicted),
        "flags": flags(report.candidates, of_all.candidates),
        **held(report.candidates, of_all),
    }


def flags(sample: Sequence[Candidate], of_all: Sequence[Candidate]) -> list[dict[str, Any]]:
    """The words that the sample or all texts flag, and the planted ones: in how many distinct texts they are (`n`), of
    the sample and of all, and what is said of them. It is 0 and `None` where the report does not have the word, which
    is in too few texts then, or in a sample not among the 1,000 that are kept. Only planted words are named."""
    ours, theirs = ({one.text: one for one in some} for some in (sample, of_all))
    wanted = {one.text: None for some in (of_all, sample) for one in some if one.flagged} | dict.fromkeys(PLANTED)
    found = []
    for text in wanted:
        pair = [ours.get(text), theirs.get(text)]
        if any(pair):
            found.append(
                {
                    "word": text if text in PLANTED else None,
                    "n": [one.n_present if one else 0 for one in pair],
                    "status": [one.status if one else None for one in pair],
                    "flip_rate": [round(one.flip_rate, 3) if one else None for one in pair],
                    "relative_effect": [shown(one.relative_effect) if one else None for one in pair],
                }
            )
    return found


def shown(value: float) -> float | None:
    """Three digits; `None` for NaN, which JSON does not have."""
    return None if np.isnan(value) else round(value, 3)


def held(sample: Sequence[Candidate], full: AuditReport) -> dict[str, list[int]]:
    """How many 95 % intervals of the sample hold the value in all texts, and how many there are, for words that the
    tests are about in both: of the share of texts that hold a word, and where both asked about all of these, of the
    flip rate in all texts and in those outside the sample, and of the mean change."""
    of_all = {one.text: one for one in full.candidates}
    counts = {name: [0, 0] for name in ("shares", "flip_rates", "flip_rates_outside", "changes")}

    def count(name: str, interval: tuple[float, float], value: float) -> None:
        counts[name][0] += int(interval[0] <= value <= interval[1])
        counts[name][1] += 1

    for one in sample:
        other = of_all.get(one.text)
        if other is None or one.n_texts is None or one.n_present < CONFIG.min_count:
            continue
        count("shares", exact_interval(one.n_present, one.n_texts), other.n_present / full.n_distinct)
        if one.n_distinct == one.n_present and other.n_distinct == other.n_present:
            count("flip_rates", one.interval.flip_rate, other.flip_rate)
            count("changes", one.interval.mean_change, other.mean_change)
            if outside := other.n_distinct - one.n_distinct:
                changed = round(other.flip_rate * other.n_distinct) - round(one.flip_rate * one.n_distinct)
                count("flip_rates_outside", one.interval.flip_rate, changed / outside)
    return counts


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument("--draws", type=int, default=3, help="Samples of each size.")
    args = parser.parse_args(arguments)
    cases = [{**case, "draw": draw, "share": share} for case in CASES for draw in range(args.draws) for share in SHARES]
    asked = {"planted": PLANTED, "own": OWN, "learned": LEARNED, "train": TRAIN, "least_words": LEAST_WORDS}
    for found in grow(args.out, cases, partial(measure, data_dir=args.data_dir), asked=asked):
        print({key: found[key] for key in (*cases[0], "sampled", "predictions", "cpu_seconds")}, flush=True)


if __name__ == "__main__":
    main()
