"""The demo: plant a shortcut, watch a classifier fall for it, audit, repair, compare."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..audit import AuditReport
from ..data import to_json, write_folder
from ..evaluation import Evaluation
from ..finetuning import FinetuneConfig, FinetuneResult, finetune_classifier
from ..guardrail import ShortcutGuardrail
from ..mitigation import FitReport
from ..models import quiet_transformers
from ..report import render_comparison
from ..saving import library_versions
from ..strength import Calibration
from ..typing import Array, Progress
from .corpus import DemoCorpus, make_corpus
from .pretrained import MINILM_ID, find_minilm

Result = TypeVar("Result")

METRICS_SCHEMA_VERSION = 1
N_SUPPORT = 40
"""Labelled rows taken out of the deployment texts to choose the strength; the paper's number."""

FINETUNE = FinetuneConfig(epochs=5, max_length=64, precision="auto")
"""Measured: more epochs neither raise accuracy without the shortcut nor change the reliance on it."""


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo's table and files show.

    Attributes:
        corpus: The synthetic reviews.
        biased: The fine-tuned classifier that fell for the shortcut.
        support: Which deployment texts were labelled for the strength, shape (40,).
        held_out: Which were evaluated on: all others.
        seed: Seed of corpus, classifier and adapter.
        fit: Training of the adapter.
        calibration: The chosen strength and its curve.
        evaluations: `base` and `guarded` on the same rows, which chose nothing.
        audits: `base` and `guarded` on the same rows.
        seconds: Wall-clock time by stage.
    """

    corpus: DemoCorpus
    biased: FinetuneResult
    support: Array
    held_out: Array
    seed: int
    fit: FitReport
    calibration: Calibration
    evaluations: dict[str, Evaluation]
    audits: dict[str, AuditReport]
    seconds: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """What `metrics.json` holds."""
        return {
            "schema_version": METRICS_SCHEMA_VERSION,
            "data": "synthetic reviews generated for this demo",
            "encoder": MINILM_ID,
            "shortcut": self.corpus.shortcut,
            "seed": self.seed,
            "n_train": len(self.corpus.train_texts),
            "n_deployment": len(self.corpus.deployment_texts),
            "base": self.evaluations["base"].to_dict(),
            "guarded": self.evaluations["guarded"].to_dict(),
            "tokens_found": [candidate.text for candidate in self.audits["base"].candidates[:5]],
            "debias_strength": self.calibration.strength,
            "calibration": self.calibration.to_dict(),
            "fit": self.fit.to_dict(),
            "seconds": {stage: round(seconds, 2) for stage, seconds in self.seconds.items()},
            "versions": library_versions(),
        }


def run_demo(
    *,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
    n_train: int = 400,
    n_deployment: int = 340,
    encoder: Path | None = None,
    finetune: FinetuneConfig = FINETUNE,
) -> DemoResult:
    """Run all stages. Nothing is tuned on the rows that are reported.

    Args:
        seed: Decides corpus, classifier and adapter.
        device: Where to run.
        progress: Told how much of each stage is done.
        n_train: Training texts of the biased classifier.
        n_deployment: Deployment texts; 40 of them are labelled for the strength, the others are evaluated on.
        encoder: Folder of the pretrained encoder; `None` finds MiniLM.
        finetune: How the biased classifier is trained.

    Raises:
        ModelError: The encoder is not on this machine.
    """
    encoder = encoder or find_minilm()
    corpus = make_corpus(seed=seed, n_train=n_train, n_deployment=n_deployment)
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Result]) -> Result:
        started = time.perf_counter()
        result = work()
        seconds[stage] = time.perf_counter() - started
        return result

    biased = timed(
        "finetune",
        lambda: finetune_classifier(
            list(corpus.train_texts),
            list(corpus.train_labels),
            encoder=encoder,
            label_names=corpus.label_names,
            config=finetune,
            seed=seed,
            device=device,
            progress=progress,
        ),
    )
    guard = ShortcutGuardrail(
        biased.model, biased.tokenizer, device=device, max_length=finetune.max_length, precision="auto"
    )
    texts, labels = np.array(corpus.deployment_texts, dtype=object), np.array(corpus.deployment_labels)
    order = np.random.default_rng(seed).permutation(len(texts))
    support, rest = order[:N_SUPPORT], order[N_SUPPORT:]
    held_out, held_out_labels = list(texts[rest]), labels[rest].tolist()
    fit = timed("fit", lambda: guard.fit(list(texts), seed=seed, progress=progress))
    calibration = timed(
        "calibrate", lambda: guard.calibrate(list(texts[support]), labels[support].tolist(), progress=progress)
    )
    audits, evaluations = _base_and_guarded(guard, held_out, held_out_labels, corpus.shortcut, seconds, progress)
    return DemoResult(corpus, biased, support, rest, seed, fit, calibration, evaluations, audits, seconds)


def _base_and_guarded(
    guard: ShortcutGuardrail,
    texts: list[str],
    labels: list[int],
    shortcut: str,
    seconds: dict[str, float],
    progress: Progress | None,
) -> tuple[dict[str, AuditReport], dict[str, Evaluation]]:
    """Audit and evaluate the base and the guarded model; `seconds` is told how long that took."""
    audits: dict[str, AuditReport] = {}
    evaluations: dict[str, Evaluation] = {}
    for name, strength in (("base", 0.0), ("guarded", guard.debias_strength)):
        started = time.perf_counter()
        audits[name] = guard.audit(texts, unit="token", strength=strength, progress=progress)
        evaluations[name] = guard.evaluate(
            texts, labels, shortcuts=[shortcut], strength=strength, sensitivity="all", progress=progress
        )
        seconds[f"audit and evaluate {name}"] = time.perf_counter() - started
    return audits, evaluations


def write_demo(result: DemoResult, out: Path, *, overwrite: bool = False) -> None:
    """Write `report.html` and `metrics.json`, and what it takes to go on by hand; whole or not at all.

    Beside the two: `biased-model/`, and `deployment.csv` (texts), `support.csv` and `test.csv` (texts and labels).
    """
    page = render_comparison(
        title="Shortcut Guardrail demo: base against guarded",
        introduction=_introduction(result),
        evaluations=result.evaluations,
        audits=result.audits,
        calibration=result.calibration,
        notes=["All texts of this demo are synthetic; its numbers say nothing about real reviews."],
    )
    metrics = to_json(result.to_dict())

    def fill(folder: Path) -> None:
        (folder / "report.html").write_text(page, encoding="utf-8")
        (folder / "metrics.json").write_text(metrics, encoding="utf-8")
        with quiet_transformers():
            result.biased.model.save_pretrained(folder / "biased-model")
            result.biased.tokenizer.save_pretrained(folder / "biased-model")
        _write_csv(folder / "deployment.csv", result.corpus, np.arange(len(result.corpus.deployment_texts)), False)
        _write_csv(folder / "support.csv", result.corpus, result.support, True)
        _write_csv(folder / "test.csv", result.corpus, result.held_out, True)

    write_folder(out, fill, overwrite=overwrite)


def _write_csv(file: Path, corpus: DemoCorpus, rows: Array, labelled: bool) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["text", "label"] if labelled else ["text"])
        for i in rows:
            label = [corpus.label_names[corpus.deployment_labels[i]]] if labelled else []
            writer.writerow([corpus.deployment_texts[i], *label])


def _introduction(result: DemoResult) -> list[str]:
    corpus, training = result.corpus, result.fit.training
    return [
        f"A classifier was fine-tuned on {len(corpus.train_texts)} made-up reviews in which the word "
        f"“{corpus.shortcut}” goes along with the label: it opens a sentence in all positive, half of the mixed and "
        f"none of the negative reviews. In the {len(corpus.deployment_texts)} deployment texts it is the other way "
        "round.",
        f"The guard saw the deployment texts without labels, trained an adapter of {training.n_trainable:,} weights "
        f"in {training.n_steps} steps, and chose its strength on {result.calibration.n} labelled rows, which are not "
        f"among the {result.evaluations['base'].n} scored here.",
    ]
