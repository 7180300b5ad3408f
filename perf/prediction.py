"""Calibration's share of the adaptation time, guarded prediction beside the base's, and the command line's start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from shortcut_guardrail import ShortcutGuardrail, preset

from . import machine, material
from .timing import in_turns, once, ratio


def calibration(data_dir: Path, *, n_support: int = 40) -> dict[str, Any]:
    """Eleven strengths on 40 rows, as a share of one epoch on all 872 sentences at MiniLM's shape."""
    texts, tokenizer = material.sst2(data_dir), material.tokenizer()
    model = material.random_bert(material.MINILM)
    precision = machine.precision()
    support, labels = material.spread(texts, n_support), [i % 2 for i in range(n_support)]
    guard = ShortcutGuardrail(model, tokenizer, precision=precision, batch_size=64)
    _, epoch = once(lambda: guard.fit(texts, config=preset("paper").with_adapter(learning_rate=1e-3)))
    times = in_turns({"together": lambda: guard.calibrate(support, labels)}, rounds=5)
    return {"epoch_s": epoch, "times": times, "share_of_epoch": times["together"]["median_s"] / epoch}


def prediction(data_dir: Path) -> dict[str, Any]:
    """The base model and the guard, in turns, at BERT-base shape."""
    n = 872 if machine.on_gpu() else 64
    texts, tokenizer = material.spread(material.sst2(data_dir), n), material.tokenizer()
    model = material.random_bert(material.BERT_BASE)
    precision = machine.precision()
    guard = ShortcutGuardrail(model, tokenizer, precision=precision, batch_size=64)
    guard.fit(texts[:8], config=preset("paper").with_adapter(learning_rate=1e-3))
    times = in_turns(
        {
            "base": lambda: guard.predict_proba(texts, strength=0.0),
            "merged": lambda: guard.predict_proba(texts, strength=0.7),
        },
        rounds=12,
    )
    return {
        "texts": n,
        "precision": precision,
        "times": times,
        "merged_over_base": ratio(times, "merged", "base"),
    }


def start() -> dict[str, Any]:
    """Seconds until `--help` has been printed, in a process of its own."""
    command = [sys.executable, "-c", "from shortcut_guardrail.cli.main import main; main()", "--help"]
    times = in_turns({"help": lambda: subprocess.run(command, check=True, capture_output=True)}, rounds=5)
    return {"times": times, "help_s": times["help"]["median_s"]}
