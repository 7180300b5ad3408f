"""Samples of large files: do they say what an audit of all texts says, and at what cost?

    python bench/experiments/samples/run.py --data-dir ../shared/data --out results/samples.json

A TF-IDF classifier with logistic regression is trained on texts of which a class begins with a planted word more often
than others. The texts that it never saw are audited, all of them and in samples, by `predict_proba` alone. In them the
planted words stand more often in texts of other classes. Each entry says how many words are flagged, how many
predictions were asked for, and of how many words the interval of its share holds the share in all texts. Finished cases
are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.standalone import grow
from shortcut_guardrail import AuditConfig, AuditReport, ShortcutGuardrail, read_data
from shortcut_guardrail.data import MemoryTexts
from shortcut_guardrail.stats import exact_interval

FILES = {
    "Civil": ("civilcomments/civil_pool_train.csv", "civilcomments/civil_pool_test.csv"),
    "Amazon": ("amazon/amazon_blitzer_train.csv", "amazon/amazon_blitzer_test.csv"),
    "Yelp": ("yelp/train.csv", "yelp/test.csv"),
}
PLANTED = {"honestly": (0.4, 0.01, 0.06), "frankly": (0.1, 0.002, 0.012)}
"""In which share of one class's training texts a word is planted, in which of its texts that are audited, and in which
of the other classes'."""
TRAIN = 0.3
SHARES = (0.1, 0.2, 0.4)

Array = np.ndarray[Any, np.dtype[Any]]


def planted(rng: np.random.Generator, texts: Sequence[str], shares: Sequence[Array]) -> list[str]:
    """The texts behind the planted words, each with its probability by text."""
    starts = [
        np.where(rng.random(len(texts)) < share, f"{word}, ", "") for word, share in zip(PLANTED, shares, strict=True)
    ]
    return ["".join(parts) for parts in zip(*starts, texts, strict=True)]


@cache
def opened(data_dir: Path, name: str, seed: int) -> tuple[Callable[[], ShortcutGuardrail], list[str]]:
    """Makes guards around a classifier that learned the planted words, and the texts that are audited."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(seed)
    read = [read_data(data_dir / file, text_column="text", label_column="label") for file in FILES[name]]
    texts = [str(text) for one in read for text in one.texts]
    labels = np.array([label for one in read for label in one.labels or ()])
    order = rng.permutation(len(texts))
    train, deployed = np.split(order, [int(TRAIN * len(order))])
    of_class = labels == sorted(set(labels))[-1]
    seen = planted(rng, [texts[i] for i in train], [np.where(of_class[train], one[0], 0.0) for one in PLANTED.values()])
    model = make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(C=10, max_iter=1000)).fit(seen, labels[train])
    shares = [np.where(of_class[deployed], own, other) for _, own, other in PLANTED.values()]
    later = planted(rng, [texts[i] for i in deployed], shares)
    return partial(ShortcutGuardrail.around, model.predict_proba, list(map(str, model.classes_))), later


@cache
def audited(data_dir: Path, name: str, seed: int) -> tuple[AuditReport, int]:
    """The audit of all texts, and how many these are."""
    make, texts = opened(data_dir, name, seed)
    return make().audit(texts, config=CONFIG), len(texts)


CONFIG = AuditConfig(unit="word", n_examples=0)


def measure(data: str, seed: int, share: float, draw: int, *, data_dir: Path) -> dict[str, Any]:
    """One sample beside the audit of all texts."""
    make, texts = opened(data_dir, data, seed)
    full, n = audited(data_dir, data, seed)
    found = make().audit_sample(MemoryTexts(texts), int(share * n), config=CONFIG, seed=draw)
    report = found.report
    flagged, of_all = ([one.text for one in audit.flagged] for audit in (report, full))
    undecided = [one.text for one in report.undecided if one.text in PLANTED]
    return {
        "n": n,
        "predictions": report.answers,
        "predictions_of_all": full.answers,
        **counts(flagged, of_all, undecided),
        **_held(report, full),
    }


def counts(flagged: Sequence[str], of_all: Sequence[str], undecided: Sequence[str]) -> dict[str, int]:
    """What a sample flags beside what all texts flag; and planted words flagged in all texts that it misses."""
    missed = [word for word in PLANTED if word in of_all and word not in flagged]
    return {
        "n_flagged": len(flagged),
        "n_flagged_of_all": len(of_all),
        "agreed": len(set(flagged) & set(of_all)),
        **{word: int(word in flagged) for word in PLANTED},
        "missed": len(missed),
        "missed_undecided": len(set(missed) & set(undecided)),
    }


def _held(report: AuditReport, full: AuditReport) -> dict[str, Any]:
    """Of how many words the interval of the share of texts that hold it contains the share of all texts."""
    of_all = {one.text: one.n_present / full.n_distinct for one in full.candidates}
    tested = [one for one in report.candidates if one.text in of_all and one.n_present >= CONFIG.min_count]
    intervals = [(exact_interval(one.n_present, one.n_texts or report.n_distinct), of_all[one.text]) for one in tested]
    return {"shares": [sum(low <= share <= high for (low, high), share in intervals), len(tested)]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument("--data", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1))
    parser.add_argument("--draws", type=int, default=3, help="Samples of each size.")
    args = parser.parse_args(arguments)
    cases = [
        {"data": data, "seed": seed, "share": share, "draw": draw}
        for data in args.data
        for seed in args.seeds
        for share in SHARES
        for draw in range(args.draws)
    ]
    for found in grow(args.out, cases, partial(measure, data_dir=args.data_dir), asked={"planted": PLANTED}):
        print(
            {key: found[key] for key in (*cases[0], "predictions", "predictions_of_all", "agreed", "n_flagged_of_all")},
            flush=True,
        )


if __name__ == "__main__":
    main()
