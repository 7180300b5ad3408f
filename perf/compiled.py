"""Whether torch.compile pays for itself: a MaskCL step with the encoder compiled, beside the plain one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_guardrail.attribution.saliency import find_important_tokens
from shortcut_guardrail.config import AdapterConfig
from shortcut_guardrail.mitigation.lora import attach_adapter
from shortcut_guardrail.mitigation.maskcl import MaskedContrastiveLearning
from shortcut_guardrail.models.classifier import TextClassifier

from . import machine, material


def trial(data_dir: Path, *, n: int = 8, steps: int = 3) -> dict[str, Any]:
    """Seconds of a step of n texts, padded (a compiled graph wants whole tensors), eager and compiled."""
    precision = machine.precision()
    texts = material.spread(material.sst2(data_dir), n)
    results: dict[str, Any] = {"texts": n, "precision": precision}
    for name in ("packed", "padded", "padded and compiled"):
        model = material.random_bert(material.BERT_BASE, num_hidden_layers=4)
        classifier = TextClassifier(model, material.tokenizer(), precision=precision, packing=name == "packed")
        encoded = classifier.encode(texts)
        positions = find_important_tokens(classifier, encoded).positions
        config = AdapterConfig(batch_size=n)
        adapted = attach_adapter(classifier, config)
        if name == "padded and compiled":
            adapted.base_model.model.bert.encoder = torch.compile(adapted.base_model.model.bert.encoder, dynamic=True)
        trainer = MaskedContrastiveLearning(classifier.with_model(adapted), encoded, positions, config, 0)
        results[name] = _steps(trainer, n, steps)
    return results


def _steps(trainer: MaskedContrastiveLearning, n: int, steps: int) -> dict[str, float]:
    seconds = []
    for _ in range(steps + 1):
        machine.wait()
        started = time.perf_counter()
        trainer.loss(np.arange(n)).backward()
        machine.wait()
        seconds.append(time.perf_counter() - started)
    return {"first_s": seconds[0], "then_s": min(seconds[1:])}
