"""Where a training step's time goes, by kind of operation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from shortcut_guardrail.attribution.saliency import find_important_tokens
from shortcut_guardrail.config import AdapterConfig, SaliencyConfig
from shortcut_guardrail.mitigation.lora import attach_adapter
from shortcut_guardrail.mitigation.maskcl import MaskedContrastiveLearning
from shortcut_guardrail.models.classifier import TextClassifier

from . import adaptation, machine, material
from .timing import once

_FUSED = (
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
    "aten::_flash_attention_backward",
    "aten::_efficient_attention_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
)
_KINDS = {
    "products": ("aten::mm", "aten::addmm"),
    "attention's products": ("aten::bmm", "aten::baddbmm", *_FUSED),
    "copies": ("aten::copy_", "aten::cat"),
    "additions": ("aten::add", "aten::add_", "aten::mul", "aten::div", "aten::neg"),
    "looking up": ("aten::gather", "aten::scatter_add_", "aten::index_select", "aten::index", "aten::masked_fill_"),
    "zeros": ("aten::fill_", "aten::zero_"),
    "optimiser": ("Optimizer.step#AdamW.step", "aten::lerp_", "aten::addcmul_", "aten::addcdiv_", "aten::sqrt"),
    "gelu": ("aten::gelu", "aten::gelu_backward"),
    "softmax": ("aten::_softmax", "aten::_softmax_backward_data"),
    "normalisation": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
}


def step(data_dir: Path, *, n: int = 16) -> dict[str, Any]:
    """One step of n SST-2 sentences at BERT-base shape, see `of_step`."""
    texts = material.spread(material.sst2(data_dir), n)
    return of_step(material.random_bert(material.BERT_BASE), texts, material.BERT_BASE, steps=2)


def of_step(model: Any, texts: list[str], shape: Mapping[str, int], *, k: int = 10, steps: int = 3) -> dict[str, Any]:
    """Shares of the computing time of one step on some texts, after some steps to warm up.

    Args:
        model: The classifier; the optimiser's step is on its adapter.
        texts: One batch.
        shape: Sizes of the model, by which operations are counted.
        k: Important tokens per text.
        steps: How many to warm up.

    Returns:
        On a GPU the shares are of the GPU's time, and `device_busy` is the share of the step's seconds in which it
        computes. On a processor, `processor_s` is the fastest step without the profiler, `share_of_matmul_rate` what
        its operations are of what the machine multiplies in that time, and `products_share_of_rate` the same of the
        products by weights alone, in the time that they take.
    """
    classifier = TextClassifier(model, material.tokenizer(), precision=machine.precision())
    encoded = classifier.encode(texts)
    positions = find_important_tokens(classifier, encoded, SaliencyConfig(top_k=k)).positions
    config = AdapterConfig(batch_size=len(texts))
    trainer = MaskedContrastiveLearning(
        classifier.with_model(attach_adapter(classifier, config)), encoded, positions, config, 0
    )
    optimizer = torch.optim.AdamW(trainer.parameters, lr=1e-4)

    def take_step() -> float:
        given = time.process_time()
        trainer.loss(np.arange(len(texts))).backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.process_time() - given

    timed = [once(take_step) for _ in range(steps)]
    gpu = machine.on_gpu()
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]) as watched:
        once(take_step)
    clock = "self_device_time_total" if gpu else "self_cpu_time_total"
    # Kernels are listed beside the operations that launched them, to which their time is counted.
    operations = [event for event in watched.key_averages() if not gpu or event.device_type == DeviceType.CPU]
    times = {event.key: getattr(event, clock) / 1e6 for event in operations}
    total = sum(times.values())
    shares = {kind: sum(times.get(name, 0) for name in names) / total for kind, names in _KINDS.items()}
    result = {"texts": len(texts), "seconds": total, "shares": {**shares, "other": 1 - sum(shares.values())}}
    if gpu:
        return {**result, "wall_s": timed[-1][1], "device_busy": total / timed[-1][1]}
    fastest = min(processor for processor, _ in timed)
    work = adaptation.operations(encoded.lengths.tolist(), shape, k=k, first_only=classifier.packs, attribution=False)
    dtype = torch.bfloat16 if machine.precision() == "bfloat16" else torch.float32
    rate = 1e9 * machine.matmul_rate(dtype, machine.device(), repeats=3, clock=time.process_time)["best"]
    return {
        **result,
        "largest_others": dict(sorted(_others(times).items(), key=lambda one: -one[1])[:5]),
        "processor_s": fastest,
        "matmul_gflops_per_s": rate / 1e9,
        "share_of_matmul_rate": work["done"] / fastest / rate,
        "products_share_of_rate": work["weights"] / (shares["products"] * fastest) / rate,
    }


def _others(times: Mapping[str, float]) -> dict[str, float]:
    """Share of the time of each operation that is of no kind, by name."""
    known = {name for names in _KINDS.values() for name in names}
    return {name: seconds / sum(times.values()) for name, seconds in times.items() if name not in known}
