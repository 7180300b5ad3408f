"""Where a training step's time goes, by kind of operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from shortcut_guardrail.attribution.saliency import find_important_tokens
from shortcut_guardrail.config import AdapterConfig
from shortcut_guardrail.mitigation.lora import attach_adapter
from shortcut_guardrail.mitigation.maskcl import MaskedContrastiveLearning
from shortcut_guardrail.models.classifier import TextClassifier

from . import machine, material
from .timing import once

_FUSED = (
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
    "aten::_flash_attention_backward",
    "aten::_efficient_attention_backward",
)
_KINDS = {
    "products": ("aten::mm", "aten::addmm"),
    "attention's products": ("aten::bmm", *_FUSED),
    "copies": ("aten::copy_",),
    "additions": ("aten::add", "aten::add_", "aten::mul"),
    "gelu": ("aten::gelu", "aten::gelu_backward"),
    "softmax": ("aten::_softmax", "aten::_softmax_backward_data"),
    "normalisation": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
}


def step(data_dir: Path, *, n: int = 16) -> dict[str, Any]:
    """Shares of the computing time of one step of n SST-2 sentences at BERT-base shape, after some to warm up.

    On a GPU it is the GPU's time, and `device_busy` the share of the step's seconds in which it computes.
    """
    classifier = TextClassifier(
        material.random_bert(material.BERT_BASE), material.tokenizer(), precision=machine.precision()
    )
    encoded = classifier.encode(material.spread(material.sst2(data_dir), n))
    positions = find_important_tokens(classifier, encoded).positions
    config = AdapterConfig(batch_size=n)
    adapted = attach_adapter(classifier, config)
    trainer = MaskedContrastiveLearning(classifier.with_model(adapted), encoded, positions, config, 0)

    def take_step() -> None:
        trainer.loss(np.arange(n)).backward()

    for _ in range(3):
        _, seconds = once(take_step)
    gpu = machine.on_gpu()
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]) as watched:
        once(take_step)
    clock = "self_device_time_total" if gpu else "self_cpu_time_total"
    # Kernels are listed beside the operations that launched them, to which their time is counted.
    operations = [event for event in watched.key_averages() if not gpu or event.device_type == DeviceType.CPU]
    times = {event.key: getattr(event, clock) for event in operations}
    total = sum(times.values())
    shares = {kind: sum(times.get(name, 0) for name in names) / total for kind, names in _KINDS.items()}
    result = {"texts": n, "seconds": total / 1e6, "shares": {**shares, "other": 1 - sum(shares.values())}}
    return {**result, "wall_s": seconds, "device_busy": total / 1e6 / seconds} if gpu else result
