"""Where a training step's time goes, by kind of operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from shortcut_guardrail.adapter import MaskedContrastiveLearning, attach_adapter
from shortcut_guardrail.config import AdapterConfig
from shortcut_guardrail.encoder import TextClassifier
from shortcut_guardrail.precision import fast_precision
from shortcut_guardrail.saliency import find_important_tokens

from . import material

_KINDS = {
    "products": ("aten::mm", "aten::addmm"),
    "attention's products": ("aten::bmm",),
    "copies": ("aten::copy_",),
    "additions": ("aten::add", "aten::add_", "aten::mul"),
    "gelu": ("aten::gelu", "aten::gelu_backward"),
    "softmax": ("aten::_softmax", "aten::_softmax_backward_data"),
    "normalisation": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
}


def step(data_dir: Path, *, n: int = 16) -> dict[str, Any]:
    """Shares of the processor time of one step of n SST-2 sentences at BERT-base shape, after one to warm up."""
    classifier = TextClassifier(
        material.random_bert(material.BERT_BASE), material.tokenizer(), precision=fast_precision(torch.device("cpu"))
    )
    encoded = classifier.encode(material.spread(material.sst2(data_dir), n))
    positions = find_important_tokens(classifier, encoded).positions
    config = AdapterConfig(batch_size=n)
    adapted = attach_adapter(classifier, config)
    trainer = MaskedContrastiveLearning(classifier.with_model(adapted), encoded, positions, config, 0, None)
    trainer.loss(np.arange(n)).backward()
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        trainer.loss(np.arange(n)).backward()
    times = {event.key: event.self_cpu_time_total for event in watched.key_averages()}
    total = sum(times.values())
    shares = {kind: sum(times.get(name, 0) for name in names) / total for kind, names in _KINDS.items()}
    return {"texts": n, "seconds": total / 1e6, "shares": {**shares, "other": 1 - sum(shares.values())}}
