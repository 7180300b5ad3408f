"""The measurement behind the `default` preset: how far the weights have to move to have an effect.

    python scripts/measure_defaults.py --data-dir ../shared/data --work build/defaults --out results/defaults.json

Everything runs on the 500 rows of GoEmotions' `original_train.csv` that the single-word classifier was neither trained
nor validated on, with "honestly" inserted at the reversed rates; no row of a reported test set is touched. Each run is
one line of a JSON list, written as it finishes; finished runs are skipped.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.data.files import to_json, write_file
from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.demo.pretrained import find_minilm
from shortcut_guardrail.evaluation.groups import by_shortcut
from shortcut_guardrail.finetuning.config import FinetuneConfig
from shortcut_guardrail.finetuning.training import finetune_classifier
from shortcut_guardrail.metrics import balanced_accuracy, worst_group_accuracy
from shortcut_guardrail.models.loading import load_model, quiet_transformers
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.text.matcher import ShortcutMatcher

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
    return re.sub(r"[^a-z0-9]", "", re.sub(rf"\b{WORD},? ?", "", text.lower()))


def development_rows(folder: Path) -> tuple[list[str], list[int]]:
    def rows(name: str):
        data = read_data(folder / name, require_labels=True)
        return list(zip(data.texts, map(int, data.labels), strict=True))

    seen = {
        key(t)
        for name in ("single-word1/train.csv", "single-word1/dev.csv", "original_test.csv")
        for t, _ in rows(name)
    }
    kept = [(t, y) for t, y in rows("original_train.csv") if key(t) not in seen]
    return [t for t, _ in kept], [y for _, y in kept]


def plant(texts: list[str], labels: list[int], rates: tuple[float, ...], seed: int = 0) -> list[str]:
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
            rows.texts, list(map(int, rows.labels)), encoder=encoder, label_names=NAMES, config=config, seed=seed
        )
        result.model.save_pretrained(folder)
        result.tokenizer.save_pretrained(folder)
    return folder


def measure(run: Run, data: Path, work: Path) -> dict:
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
    result = {
        **asdict(run),
        "learning_rate": fit.training.learning_rate,
        "relative_change": fit.training.relative_change,
        "first_loss": fit.training.losses[0],
        "last_loss": float(np.mean(fit.training.losses[-8:])),
        "seconds": fit.training.seconds,
    }
    matcher = ShortcutMatcher.from_words([WORD])
    for name, rows in (("reversed", anti), ("in_distribution", same)):
        groups = by_shortcut(y, [matcher.present(t) for t in rows], NAMES).ids
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="Folder for the fine-tuned classifiers.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    done = json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else []
    for run in RUNS:
        if any(replace(run) == Run(**{k: d[k] for k in asdict(run)}) for d in done):
            continue
        started = time.perf_counter()
        done.append(measure(run, arguments.data_dir, arguments.work))
        report = {"command": "python scripts/measure_defaults.py", "versions": library_versions(), "runs": done}
        write_file(arguments.out, to_json(report), overwrite=True)
        curve = [
            (p["strength"], round(p["accuracy"], 3), round(p["worst_group_accuracy"], 3)) for p in done[-1]["reversed"]
        ]
        print(run, curve, f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
