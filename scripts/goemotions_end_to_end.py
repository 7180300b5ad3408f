"""End to end on real data: a biased MiniLM on GoEmotions, repaired on its reversed test texts, three seeds.

    python scripts/goemotions_end_to_end.py --data-dir ../shared/data --out results/goemotions_end_to_end.json

For each seed: fine-tune an ordinary classifier on `single-word1/train.csv`, at the learning rate among
5e-5, 1e-4 and 2e-4 with the lowest loss on `dev.csv` (100 rows in distribution); adapt on the unlabelled texts of
`test_anti-shortcut.csv` with the preset `default`; choose the strength on 40 labelled rows taken out of them; evaluate
base and guarded on the other 645. In distribution (`test.csv`, the same texts with the training-time rates) twice:
an adapter fitted and calibrated there, and the reversed-test adapter at its own strength, which shows its cost.
Matrix products of fine-tuning and adaptation run in the number format of `--precision`; everything is scored in 32 bit.
Each seed is written as it finishes; finished seeds are skipped.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from resuming import ASKED, finished

from shortcut_guardrail import GuardrailWarning, ShortcutGuardrail
from shortcut_guardrail.data.files import to_json, write_file
from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.demo.pretrained import MINILM_ID, find_minilm
from shortcut_guardrail.finetuning.config import FinetuneConfig
from shortcut_guardrail.finetuning.training import finetune_classifier
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.models.loading import load_model
from shortcut_guardrail.saving.record import library_versions

NAMES = ("neutral", "amusement", "joy", "excitement")
SHORTCUT = "honestly"
LEARNING_RATES = (5e-5, 1e-4, 2e-4)
N_SUPPORT = 40
MAX_LENGTH = 128


def rows_of(path: Path) -> tuple[list[str], np.ndarray]:
    data = read_data(path, require_labels=True)
    return list(data.texts), np.array([int(label) for label in data.labels])


def biased_classifier(data: Path, work: Path, seed: int, precision: str) -> tuple[Path, list[dict[str, float]]]:
    """The classifier with the lowest loss on `dev.csv` among the learning rates, and every rate's figures there.

    Loss rather than accuracy: one row of 100 is a point of accuracy, more than separates the rates.
    """
    folder = work / f"goemotions-base-{seed}-{precision}"
    if not (folder / "selection.json").exists():
        trials, best = [], None
        texts, labels = rows_of(data / "train.csv")
        for rate in LEARNING_RATES:
            config = FinetuneConfig(learning_rate=rate, epochs=8, max_length=MAX_LENGTH, precision=precision)
            result = finetune_classifier(
                texts, labels.tolist(), encoder=find_minilm(), label_names=NAMES, config=config, seed=seed
            )
            trials.append({"learning_rate": rate, **dev_figures(result.model, result.tokenizer, data)})
            if best is None or trials[-1]["loss"] < best[0]:
                best = (trials[-1]["loss"], result)
        assert best is not None
        best[1].model.save_pretrained(folder)
        best[1].tokenizer.save_pretrained(folder)
        write_file(folder / "selection.json", to_json({"trials": trials}), overwrite=True)
    return folder, json.loads((folder / "selection.json").read_text())["trials"]


def dev_figures(model: Any, tokenizer: Any, data: Path) -> dict[str, float]:
    texts, labels = rows_of(data / "dev.csv")
    classifier = TextClassifier(model, tokenizer, max_length=MAX_LENGTH)
    logits = torch.from_numpy(classifier.predict_logits(classifier.encode(texts)))
    target = torch.from_numpy(labels)
    return {
        "loss": float(torch.nn.functional.cross_entropy(logits, target)),
        "accuracy": float((logits.argmax(1) == target).float().mean()),
        "n": len(texts),
    }


def score(guard: ShortcutGuardrail, texts: list[str], labels: np.ndarray, strength: float | None) -> dict[str, Any]:
    return guard.evaluate(texts, labels.tolist(), shortcuts=[SHORTCUT], strength=strength).to_dict()


def adapt(model: Any, tokenizer: Any, folder: Path, texts: list[str], preset: str, seed: int, precision: str):
    """Fit in the given number format; return a guard that computes in 32 bit, and the report."""
    guard = ShortcutGuardrail(model, tokenizer, max_length=MAX_LENGTH, precision=precision, batch_size=64)
    report = guard.fit(texts, config=preset, seed=seed)
    guard.save_pretrained(folder, overwrite=True)
    return ShortcutGuardrail.from_pretrained(folder, base=model, batch_size=64), report


def run_seed(seed: int, data: Path, work: Path, preset: str, precision: str) -> dict[str, Any]:
    folder, selection = biased_classifier(data, work, seed, precision)
    model, tokenizer = load_model(folder)
    order = np.random.default_rng(seed).permutation(685)
    support, rest = order[:N_SUPPORT], order[N_SUPPORT:]
    guards, result = {}, {"seed": seed, "learning_rate_selection": selection}
    for name, file in (("reversed", "test_anti-shortcut.csv"), ("in_distribution", "test.csv")):
        texts, labels = rows_of(data / file)
        guard, report = adapt(model, tokenizer, work / f"{name}-{preset}-{seed}", texts, preset, seed, precision)
        calibration = guard.calibrate([texts[i] for i in support], labels[support].tolist())
        held_out = [texts[i] for i in rest]
        guards[name] = guard
        result[name] = {
            "fit": report.to_dict(),
            "calibration": calibration.to_dict(),
            "base": score(guard, held_out, labels[rest], 0.0),
            "guarded": score(guard, held_out, labels[rest], None),
        }
    texts, labels = rows_of(data / "test.csv")
    result["in_distribution"]["guarded_by_reversed_adapter"] = score(
        guards["reversed"], [texts[i] for i in rest], labels[rest], None
    )
    return result


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds of the headline figures."""
    keys = ("accuracy", "balanced_accuracy", "majority_accuracy", "worst_group_accuracy", "mstps", "mstps_base_tokens")
    table: dict[str, Any] = {}
    for name, models in (
        ("reversed", ("base", "guarded")),
        ("in_distribution", ("base", "guarded", "guarded_by_reversed_adapter")),
    ):
        for model in models:
            values = {k: [run[name][model][k] for run in runs] for k in keys}
            table[f"{name}/{model}"] = {k: [float(np.mean(v)), float(np.std(v, ddof=1))] for k, v in values.items()}
    recalls = [run["reversed"]["base"]["shortcut_token_recall"] for run in runs]
    table["shortcut_token_recall"] = {
        k: {what: float(np.mean([r[k][what] for r in recalls])) for what in ("recall", "chance")} for k in recalls[0]
    }
    table["debias_strength"] = {
        n: [run[n]["calibration"]["strength"] for run in runs] for n in ("reversed", "in_distribution")
    }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--work", type=Path, default=Path("build/goemotions"), help="Folder for classifiers and adapters."
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--precision", default="float32", choices=("auto", "float32", "bfloat16"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", GuardrailWarning)
    arguments.work.mkdir(parents=True, exist_ok=True)
    data = arguments.data_dir / "goemotions_shortcuts/single-word1"
    asked = {"preset": arguments.preset, "precision": arguments.precision}
    runs = finished(arguments.out, asked, "runs")
    for seed in map(int, arguments.seeds.split(",")):
        if any(run["seed"] == seed for run in runs):
            continue
        started = time.perf_counter()
        runs.append(run_seed(seed, data, arguments.work, arguments.preset, arguments.precision))
        runs[-1]["seconds"] = time.perf_counter() - started
        content = {
            ASKED: asked,
            "command": "python scripts/goemotions_end_to_end.py "
            f"--preset {arguments.preset} --precision {arguments.precision}",
            "encoder": MINILM_ID,
            "threads": torch.get_num_threads(),
            "versions": library_versions(),
            "summary": summary(runs) if len(runs) > 1 else None,
            "runs": runs,
        }
        write_file(arguments.out, to_json(content), overwrite=True)
        for name in ("reversed", "in_distribution"):
            for model in ("base", "guarded"):
                scores = runs[-1][name][model]
                print(
                    seed,
                    name,
                    model,
                    {
                        k: round(scores[k], 3)
                        for k in ("accuracy", "balanced_accuracy", "worst_group_accuracy", "mstps")
                    },
                    flush=True,
                )


if __name__ == "__main__":
    main()
