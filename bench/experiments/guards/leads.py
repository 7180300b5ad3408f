"""What the audit says of filters and of other classifiers: a default class, or words that lead to a class.

    python bench/experiments/guards/leads.py --data-dir ../shared/data --out results/guards_leads.json

The filters are those of `run.py`, which are trained again or taken from `--cache`, and classifiers of words and pairs
of words of the same rows (`--encoder words`). The other classifiers are of words in any case: GoEmotions, SST-2 and
Civil Comments, where no word was planted and each class has words of its own.

- `default`, `reasons`: the class that is left, and why.
- `bare`: by class the texts that were asked about as their function words alone, those that keep it, and the answers.
- `lead`: what was measured of words that lead to a class.
- `found`: words whose insertion is found, by class.

Finished cases are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from run import LABELS, SETS, joined, parser, rows_of  # type: ignore[import-not-found]  # the script beside it
from shortcut_bench.classifiers import ClassifierStore, find_encoder
from shortcut_bench.finetuning import FinetuneConfig
from shortcut_bench.standalone import grow
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.data import read_data
from shortcut_guardrail.saving.record import library_versions

OTHERS = {
    "GoEmotions": ("goemotions_shortcuts/original_{}.csv", ("train", "test"), 1124),
    "SST-2": ("sst2/sst2_glue_{}.csv", ("train", "dev"), 4000),
    "Civil Comments": ("civilcomments/civil_pool_{}.csv", ("train", "test"), 3000),
}
"""Classifiers without a planted word: files, those to train on and to audit, and rows to train on."""
AUDITED = 500


def measure(name: str, encoder: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One classifier and seed."""
    guard, texts = other(name, seed, args) if name in OTHERS else filter_of(name, encoder, seed, args)
    report = guard.audit(list(texts))
    document = report.to_dict(redact=True)
    found, probe = document["defaults"], document["defaults"]["probes"][0]
    bare = {key: dict(zip(report.label_names, probe[key], strict=True)) for key in ("before", "kept", "given")}
    added = [one for one in document["candidates"] if one["insertion"] and one["insertion"]["found"]]
    return {
        "predicted": dict(zip(report.label_names, report.predicted, strict=True)),
        "default": found["default"],
        "reasons": found["reasons"],
        "bare": bare,
        "lead": document["lead"],
        "found": {label: [c["text"] for c in added if c["pushes_towards"] == label] for label in report.label_names},
    }


def filter_of(name: str, encoder: str, seed: int, args: argparse.Namespace) -> tuple[ShortcutGuardrail, Sequence[Any]]:
    """A filter, and its deployment texts."""
    train, parts = rows_of(name, seed, args)
    texts = joined(parts["deployed"]).texts
    if encoder == "words":
        return of_words(train.texts, train.labels, LABELS), texts
    recipe = FinetuneConfig(learning_rate=5e-5, epochs=args.epochs, batch_size=32, max_length=128)
    trained = ClassifierStore(find_encoder(encoder), args.cache).train(train, recipe, seed)
    model = trained.model, trained.tokenizer
    return ShortcutGuardrail(*model, max_length=trained.max_length, batch_size=64, precision="auto"), texts


def other(name: str, seed: int, args: argparse.Namespace) -> tuple[ShortcutGuardrail, Sequence[Any]]:
    """A classifier of words without a planted one, and texts for its audit."""
    file, splits, most = OTHERS[name]
    rng = np.random.default_rng([seed, 3])
    train, test = (read_data(args.data_dir / file.format(split), label_column="label") for split in splits)
    rows = rng.permutation(len(train.texts))[:most].tolist()
    labels = [str(label) for label in train.labels or ()]
    names = sorted(set(labels))
    guard = of_words([train.texts[i] for i in rows], [names.index(labels[i]) for i in rows], names)
    return guard, [test.texts[i] for i in rng.permutation(len(test.texts))[:AUDITED].tolist()]


def of_words(texts: Sequence[Any], labels: Any, names: Sequence[str]) -> ShortcutGuardrail:
    """A logistic regression on words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10.0, max_iter=1000))
    model.fit(texts, labels)
    return ShortcutGuardrail.around(lambda asked: model.predict_proba(list(asked)), names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    options = parser()
    options.set_defaults(sets=[*SETS, *OTHERS], seeds=(0, 1, 2, 3))
    args = options.parse_args(arguments)
    asked: Mapping[str, Any] = {key: getattr(args, key) for key in ("rows", "epochs", "scale")}
    encoders = {name: "words" if name in OTHERS else args.encoder for name in args.sets}
    cases = [{"name": name, "encoder": of, "seed": seed} for name, of in encoders.items() for seed in args.seeds]
    versions = {"versions": library_versions()}
    for entry in grow(args.out, cases, partial(measure, args=args), asked=asked, beside=lambda _: versions):
        print(entry["name"], entry["encoder"], entry["seed"], entry["default"], entry["lead"], flush=True)


if __name__ == "__main__":
    main()
