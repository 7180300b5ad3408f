"""Whether the fast way repairs what the plain way repairs: GoEmotions with the inserted "honestly", both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.finetuning.config import FinetuneConfig
from shortcut_bench.finetuning.training import finetune_classifier
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.demo import find_minilm

from .timing import once

_NAMES = ("neutral", "amusement", "joy", "excitement")


def same_effect(data_dir: Path, *, seed: int = 0, n_support: int = 40) -> dict[str, Any]:
    """One biased MiniLM, adapted with the default preset: fast in the fast number format, and plain in 32 bit.

    Both are calibrated on the same 40 rows and scored in 32 bit on the other 645 of the reversed set.
    """
    folder = data_dir / "goemotions_shortcuts/single-word1"
    train, test = (read_data(folder / name, require_labels=True) for name in ("train.csv", "test_anti-shortcut.csv"))
    assert train.labels is not None
    assert test.labels is not None
    biased = finetune_classifier(
        train.texts,
        [int(label) for label in train.labels],
        encoder=find_minilm(),
        label_names=_NAMES,
        config=FinetuneConfig(learning_rate=5e-5, epochs=8, max_length=128, precision="auto"),
        seed=seed,
    )
    labels = np.array([int(label) for label in test.labels])
    order = np.random.default_rng(seed).permutation(len(labels))
    support, rest = order[:n_support], order[n_support:]
    results: dict[str, Any] = {"seed": seed, "texts": len(labels)}
    for name, precision, packing in (("fast", "auto", True), ("plain", "float32", False)):
        options: dict[str, Any] = {"max_length": 128, "precision": precision, "packing": packing}
        guard = ShortcutGuardrail(biased.model, biased.tokenizer, **options)
        report, seconds = once(lambda guard=guard: guard.fit(test.texts, seed=seed))  # type: ignore[misc]
        calibration = guard.calibrate([test.texts[i] for i in support], labels[support].tolist())
        evaluation = guard.evaluate(
            [test.texts[i] for i in rest],
            labels[rest].tolist(),
            shortcuts=["honestly"],
            sensitivity="none",
            strength=calibration.strength,
        )
        results[name] = {
            "seconds": seconds,
            "losses_first_and_last": [report.training.losses[0], float(np.mean(report.training.losses[-20:]))],
            "relative_change": report.training.relative_change,
            "strength": calibration.strength,
            "accuracy": evaluation.to_dict()["accuracy"],
            "balanced_accuracy": evaluation.to_dict()["balanced_accuracy"],
            "worst_group_accuracy": evaluation.to_dict()["worst_group_accuracy"],
            "at_full_strength": guard.evaluate(
                [test.texts[i] for i in rest], labels[rest].tolist(), sensitivity="none", strength=1.0
            ).to_dict()["accuracy"],
        }
    base = ShortcutGuardrail(biased.model, biased.tokenizer, max_length=128)
    held_out = [test.texts[i] for i in rest]
    results["base_accuracy"] = base.evaluate(held_out, labels[rest].tolist(), sensitivity="none").to_dict()["accuracy"]
    return results
