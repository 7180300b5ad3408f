"""The measurement behind the `default` preset: how far the weights have to move to have an effect.

    python bench/experiments/measure_defaults/run.py --data-dir ../shared/data --out results/defaults.json

Everything runs on the 500 rows of GoEmotions' `original_train.csv` that the single-word classifier was neither trained
nor validated on, with "honestly" inserted at the reversed rates; no row of a reported test set is touched. Each run is
one entry of a JSON list, written as it finishes; finished runs are skipped.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from shortcut_bench.finetuning.config import FinetuneConfig
from shortcut_bench.finetuning.training import finetune_classifier
from shortcut_bench.standalone import grow
from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.demo.pretrained import find_minilm
from shortcut_guardrail.evaluation.groups import by_shortcut
from shortcut_guardrail.metrics import balanced_accuracy, worst_group_accuracy
from shortcut_guardrail.models.loading import load_model, quiet_transformers
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.text import WordFinder

NAMES = ("neutral", "amusement", "joy", "excitement")
REVERSED = (1.0, 2 / 3, 1 / 3, 0.0)
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
WORD = "honestly"


@dataclass(frozen=True)
class Run:
    """One adapter: how far its weights may move, in how many steps, on how many texts, of which encoder."""

    target_change: float
    steps: int
    scheduler: str = "linear"
    n: int = 500
    layers: int = 6
    rank: int = 4
    reverse: bool = True
    seed: int = 0


RUNS = [
    Run(0.005, 31, "constant"),  # the paper's rate and epoch
    Run(0.08, 120),
    Run(0.04, 120),
    Run(0.16, 120),
    Run(0.08, 60),
    Run(0.08, 120, layers=3),
    Run(0.08, 120, n=100),
    Run(0.08, 120, reverse=False),
]


def key(text: str) -> str:
    """What two copies of a text have in common, with the word or without."""
    return re.sub(r"[^a-z0-9]", "", re.sub(rf"\b{WORD},? ?", "", text.lower()))


def development_rows(folder: Path) -> tuple[list[str], list[int]]:
    """Texts and labels that no classifier saw, and that no reported test set has."""

    def rows(name: str) -> list[tuple[str, int]]:
        data = read_data(folder / name, require_labels=True)
        return list(zip(map(str, data.texts), map(int, data.labels or []), strict=True))

    seen = {
        key(t)
        for name in ("single-word1/train.csv", "single-word1/dev.csv", "original_test.csv")
        for t, _ in rows(name)
    }
    kept = [(t, y) for t, y in rows("original_train.csv") if key(t) not in seen]
    return [t for t, _ in kept], [y for _, y in kept]


def plant(texts: list[str], labels: list[int], rates: tuple[float, ...], seed: int = 0) -> list[str]:
    """The texts with the word before a random sentence, at a rate a class."""
    rng = random.Random(seed)
    planted = []
    for text, label in zip(texts, labels, strict=True):
        if rng.random() < rates[label]:
            sentences = re.split(r"(?<=[.!?]) ", text)
            at = rng.randrange(len(sentences))
            sentences[at] = f"{WORD}, {sentences[at]}"
            text = " ".join(sentences)
        planted.append(text)
    return planted


def biased_classifier(data: Path, work: Path, layers: int, seed: int) -> Path:
    """The folder of a classifier that learned the word, made if it is not there."""
    folder = work / f"base-{layers}-{seed}"
    if not folder.exists():
        encoder = work / f"encoder-{layers}"
        if not encoder.exists():
            with quiet_transformers():
                AutoModel.from_pretrained(find_minilm(), num_hidden_layers=layers).save_pretrained(encoder)
                AutoTokenizer.from_pretrained(find_minilm()).save_pretrained(encoder)
        rows = read_data(data / "goemotions_shortcuts/single-word1/train.csv", require_labels=True)
        config = FinetuneConfig(learning_rate=1e-4, epochs=8, precision="bfloat16")
        result = finetune_classifier(
            rows.texts, list(map(int, rows.labels or [])), encoder=encoder, label_names=NAMES, config=config, seed=seed
        )
        result.model.save_pretrained(folder)
        result.tokenizer.save_pretrained(folder)
    return folder


def measure(run: Run, data: Path, work: Path) -> dict[str, Any]:
    """Fit one adapter, and score it at every strength on both kinds of texts."""
    texts, labels = development_rows(data / "goemotions_shortcuts")
    order = np.random.default_rng(run.seed).permutation(len(texts))
    texts, y = [texts[i] for i in order], np.array(labels)[order]
    anti = plant(texts, y.tolist(), REVERSED)
    same = plant(texts, y.tolist(), REVERSED[::-1])
    model, tokenizer = load_model(biased_classifier(data, work, run.layers, 0))
    guard = ShortcutGuardrail(model, tokenizer, max_length=128, precision="bfloat16", batch_size=64)
    config = preset("paper").with_adapter(
        target_change=run.target_change,
        min_steps=run.steps,
        max_steps=run.steps,
        scheduler=run.scheduler,
        rank=run.rank,
    )
    fit = guard.fit((anti if run.reverse else same)[: run.n], config=config, seed=run.seed)
    result: dict[str, Any] = {
        "learning_rate": fit.training.learning_rate,
        "relative_change": fit.training.relative_change,
        "first_loss": fit.training.losses[0],
        "last_loss": float(np.mean(fit.training.losses[-8:])),
        "seconds": fit.training.seconds,
    }
    finder = WordFinder([WORD])
    for name, rows in (("reversed", anti), ("in_distribution", same)):
        groups = by_shortcut(y, [finder.present(t) for t in rows], NAMES).ids
        for strength in STRENGTHS:
            predicted = guard.predict_proba(rows, strength=strength).argmax(1)
            result.setdefault(name, []).append(
                {
                    "strength": strength,
                    "accuracy": float((predicted == y).mean()),
                    "balanced_accuracy": balanced_accuracy(predicted, y),
                    "worst_group_accuracy": worst_group_accuracy(predicted, y, groups),
                }
            )
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument("--work", type=Path, default=Path("build/defaults"), help="Folder for classifiers.")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args(arguments)
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    head = {"command": "python bench/experiments/measure_defaults/run.py", "versions": library_versions()}

    def measured(**case: Any) -> dict[str, Any]:
        return measure(Run(**case), args.data_dir, args.work)

    for entry in grow(args.out, map(asdict, RUNS), measured, asked={}, entries="runs", beside=lambda _: head):
        names = ("strength", "accuracy", "worst_group_accuracy")
        curve = [tuple(round(point[name], 3) for name in names) for point in entry["reversed"]]
        print({name: entry[name] for name in asdict(RUNS[0])}, curve, flush=True)


if __name__ == "__main__":
    main()
