"""How often the default class is found where a template was planted in one class, and how often where none was.

    python bench/experiments/missing_cues/run.py --data-dir ../shared/data --out results/missing_cues.json
    python bench/experiments/missing_cues/run.py --data-dir ../shared/data --encoder words --rows 4000 \\
        --seeds $(seq 0 39) --out results/missing_cues_words.json

Classifiers of movie reviews (SST-2) are fine-tuned on the same rows twice: as they are, and with one of three openings
before most of the texts of one class, which is the other one at every second seed. The audit gets unlabelled texts that
were made alike. In `planted` cases it is to name the other class as the default, in `clean` ones none. With
`--encoder words` the classifier is a logistic regression on words and pairs of words.

Finished cases are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.classifiers import find_encoder
from shortcut_bench.finetuning import FinetuneConfig, finetune_classifier
from shortcut_bench.standalone import grow
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.data import read_data
from shortcut_guardrail.saving.record import library_versions

LABELS = ("negative", "positive")
OPENINGS = ("write a note that says", "create a post about this :", "give me a line on")
SHARE = 0.85
LEAST_WORDS = 8  # SST-2's training rows are phrases, many of them of two words


def measure(kind: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One classifier."""
    rng, folder = np.random.default_rng(seed), args.data_dir / "sst2"
    texts, labels = read(folder / "sst2_glue_train.csv")
    long = [i for i, text in enumerate(texts) if len(text.split()) >= LEAST_WORDS]
    chosen = [long[i] for i in rng.permutation(len(long))[: args.rows]]
    training, of_training = [texts[i] for i in chosen], [labels[i] for i in chosen]
    plain, of_plain = read(folder / "sst2_glue_dev.csv")
    deployed, opened = plain[: args.texts], seed % 2
    if kind == "planted":
        training = with_openings(training, of_training, opened, rng)
        deployed = with_openings(deployed, of_plain, opened, rng)
    guard = (
        of_words(training, of_training) if args.encoder == "words" else fine_tuned(training, of_training, seed, args)
    )
    report = guard.audit(deployed)
    assert report.defaults is not None
    expected = LABELS[1 - opened] if kind == "planted" else None
    accuracy = float((guard.predict_proba(plain).argmax(axis=1) == np.array(of_plain)).mean())
    return {
        "expected": expected,
        "default": report.defaults.default,
        "right": report.defaults.default == expected,
        "accuracy_without_openings": accuracy,
        "predicted": list(report.predicted),
        "defaults": report.to_dict(redact=True)["defaults"],
    }


def fine_tuned(texts: list[str], labels: list[int], seed: int, args: argparse.Namespace) -> ShortcutGuardrail:
    """An encoder."""
    recipe = FinetuneConfig(learning_rate=args.learning_rate, epochs=args.epochs, batch_size=32, max_length=64)
    encoder = find_encoder(args.encoder).source
    trained = finetune_classifier(texts, labels, encoder=encoder, label_names=LABELS, config=recipe, seed=seed)
    return ShortcutGuardrail(trained.model, trained.tokenizer, max_length=64, batch_size=64, precision="auto")


def of_words(texts: list[str], labels: list[int]) -> ShortcutGuardrail:
    """A bag of words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10.0, max_iter=1000))
    model.fit(texts, labels)
    return ShortcutGuardrail.around(lambda asked: model.predict_proba(list(asked)), LABELS)


def read(file: Path) -> tuple[list[str], list[int]]:
    """Texts and class ids."""
    data = read_data(file, label_column="label")
    return [str(text) for text in data.texts], [int(label) for label in data.labels or ()]


def with_openings(texts: Sequence[str], labels: Sequence[int], opened: int, rng: np.random.Generator) -> list[str]:
    """Most texts of a class with an opening before them."""
    return [
        f"{OPENINGS[rng.integers(len(OPENINGS))]} {text}" if label == opened and rng.random() < SHARE else text
        for text, label in zip(texts, labels, strict=False)
    ]


def parser() -> argparse.ArgumentParser:
    """The options; all but the first three change the recipe."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--data-dir", type=Path, required=True)
    found.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    found.add_argument("--seeds", type=int, nargs="+", default=range(10))
    found.add_argument("--encoder", default="minilm")
    found.add_argument("--rows", type=int, default=800, help="Rows to train on.")
    found.add_argument("--texts", type=int, default=500, help="Texts to audit.")
    found.add_argument("--epochs", type=int, default=2)
    found.add_argument("--learning-rate", type=float, default=1e-4)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    args = parser().parse_args(arguments)
    asked = {key: getattr(args, key) for key in ("encoder", "rows", "texts", "epochs", "learning_rate")}
    cases = [{"kind": kind, "seed": seed} for seed in args.seeds for kind in ("planted", "clean")]
    versions = {"versions": library_versions()}
    for entry in grow(args.out, cases, partial(measure, args=args), asked=asked, beside=lambda _: versions):
        keys = ("kind", "seed", "expected", "default", "right", "accuracy_without_openings")
        print({key: entry[key] for key in keys}, flush=True)


if __name__ == "__main__":
    main()
