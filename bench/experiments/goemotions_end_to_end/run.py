r"""End to end on real data: a biased MiniLM on GoEmotions, repaired on its reversed test texts, three seeds.

    python bench/experiments/goemotions_end_to_end/run.py --data-dir ../shared/data --precision auto \
        --out results/goemotions_end_to_end.json

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_bench.finetuning.config import FinetuneConfig
from shortcut_bench.finetuning.training import finetune_classifier
from shortcut_bench.standalone import grow
from shortcut_guardrail import GuardrailWarning, ShortcutGuardrail
from shortcut_guardrail.data.files import to_json, write_file
from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.demo.pretrained import MINILM_ID, find_minilm
from shortcut_guardrail.models import Precision
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.models.loading import load_model
from shortcut_guardrail.saving.record import library_versions

NAMES = ("neutral", "amusement", "joy", "excitement")
SHORTCUT = "honestly"
LEARNING_RATES = (5e-5, 1e-4, 2e-4)
N_SUPPORT = 40
MAX_LENGTH = 128


Array = np.ndarray[Any, np.dtype[Any]]


def rows_of(path: Path) -> tuple[list[str], Array]:
    """The texts and the class ids of a CSV file."""
    data = read_data(path, require_labels=True)
    return list(map(str, data.texts)), np.array([int(label) for label in data.labels or []])


def biased_classifier(data: Path, work: Path, seed: int, precision: Precision) -> tuple[Path, list[dict[str, float]]]:
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
    """Loss and accuracy on `dev.csv`."""
    texts, labels = rows_of(data / "dev.csv")
    classifier = TextClassifier(model, tokenizer, max_length=MAX_LENGTH)
    logits = torch.from_numpy(classifier.predict_logits(classifier.encode(texts)))
    target = torch.from_numpy(labels)
    return {
        "loss": float(torch.nn.functional.cross_entropy(logits, target)),
        "accuracy": float((logits.argmax(1) == target).float().mean()),
        "n": len(texts),
    }


def score(guard: ShortcutGuardrail, texts: list[str], labels: Array, strength: float | None) -> dict[str, Any]:
    """What `evaluate` finds at a strength; `None` is the one in use."""
    return guard.evaluate(texts, labels.tolist(), shortcuts=[SHORTCUT], sensitivity="all", strength=strength).to_dict()


@dataclass(frozen=True)
class Options:
    """What is run, and where its files are."""

    data: Path
    work: Path
    preset: str
    precision: Precision


class Seed:
    """The classifier of one seed, the rows that are set apart, and guards around it."""

    def __init__(self, seed: int, options: Options) -> None:
        self.seed, self.options = seed, options
        folder, self.selection = biased_classifier(options.data, options.work, seed, options.precision)
        self.model, self.tokenizer = load_model(folder)
        order = np.random.default_rng(seed).permutation(685)
        self.support, self.rest = order[:N_SUPPORT], order[N_SUPPORT:]

    def adapt(self, name: str, texts: list[str]) -> tuple[ShortcutGuardrail, dict[str, Any]]:
        """Fit in the number format asked for; a guard that computes in 32 bit, and the report."""
        options = self.options
        folder = options.work / f"{name}-{options.preset}-{self.seed}"
        guard = ShortcutGuardrail(
            self.model, self.tokenizer, max_length=MAX_LENGTH, precision=options.precision, batch_size=64
        )
        report = guard.fit(texts, config=options.preset, seed=self.seed)
        guard.save_pretrained(folder, overwrite=True)
        return ShortcutGuardrail.from_pretrained(folder, base=self.model, batch_size=64), report.to_dict()

    def guarded(self, name: str, file: str) -> tuple[ShortcutGuardrail, dict[str, Any]]:
        """A guard fitted and calibrated on a file, and how base and guard score on the rows that are not set apart."""
        texts, labels = rows_of(self.options.data / file)
        guard, fitted = self.adapt(name, texts)
        calibration = guard.calibrate([texts[i] for i in self.support], labels[self.support].tolist())
        held_out = [texts[i] for i in self.rest]
        return guard, {
            "fit": fitted,
            "calibration": calibration.to_dict(),
            "base": score(guard, held_out, labels[self.rest], 0.0),
            "guarded": score(guard, held_out, labels[self.rest], None),
        }

    def run(self) -> dict[str, Any]:
        """All that is measured with this seed."""
        started = time.perf_counter()
        guard, in_reverse = self.guarded("reversed", "test_anti-shortcut.csv")
        _, inside = self.guarded("in_distribution", "test.csv")
        texts, labels = rows_of(self.options.data / "test.csv")
        cost = score(guard, [texts[i] for i in self.rest], labels[self.rest], None)
        return {
            "learning_rate_selection": self.selection,
            "reversed": in_reverse,
            "in_distribution": {**inside, "guarded_by_reversed_adapter": cost},
            "seconds": time.perf_counter() - started,
        }


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and run the seeds that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument(
        "--work", type=Path, default=Path("build/goemotions"), help="Folder for classifiers and adapters."
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--precision", default="float32", choices=("auto", "float32", "bfloat16"))
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore", GuardrailWarning)
    args.work.mkdir(parents=True, exist_ok=True)
    options = Options(args.data_dir / "goemotions_shortcuts/single-word1", args.work, args.preset, args.precision)

    def beside(runs: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "command": "python bench/experiments/goemotions_end_to_end/run.py "
            f"--preset {args.preset} --precision {args.precision}",
            "encoder": MINILM_ID,
            "threads": torch.get_num_threads(),
            "versions": library_versions(),
            "summary": summary(runs) if len(runs) > 1 else None,
        }

    def measure(seed: int) -> dict[str, Any]:
        return Seed(seed, options).run()

    asked = {"preset": args.preset, "precision": args.precision}
    cases = [{"seed": seed} for seed in args.seeds]
    for found in grow(args.out, cases, measure, asked=asked, entries="runs", beside=beside):
        for name in ("reversed", "in_distribution"):
            for model in ("base", "guarded"):
                scores = found[name][model]
                shown = ("accuracy", "balanced_accuracy", "worst_group_accuracy", "mstps")
                print(found["seed"], name, model, {key: round(scores[key], 3) for key in shown}, flush=True)


if __name__ == "__main__":
    main()
