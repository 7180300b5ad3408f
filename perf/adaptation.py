"""One adaptation epoch at BERT-base shape on SST-2, beside a good plain implementation and a careless one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.config import updated

from . import machine, material, plain
from .timing import in_turns, once, ratio

PAPER_SECONDS = 323.0
"""The paper's epoch on SST-2 (872 inputs, BERT-base, k = 10) on an NVIDIA A6000: 5 min 23 s."""


def adapt(
    model: Any,
    tokenizer: Any,
    texts: list[str],
    *,
    precision: str,
    batch_size: int = 16,
    packing: bool = True,
    max_length: int | None = None,
    k: int = 10,
) -> Any:
    """The library's epoch, from texts to adapter."""
    guard = ShortcutGuardrail(model, tokenizer, precision=precision, packing=packing, max_length=max_length)
    return guard.fit(
        texts, config=updated(preset("paper"), {"adapter": {"batch_size": batch_size}, "saliency": {"top_k": k}})
    )


def operations(
    lengths: Iterable[int], shape: Mapping[str, int], *, k: int = 10, first_only: bool = True, attribution: bool = True
) -> dict[str, float]:
    """Operations of an epoch over texts of some tokens.

    `floor` is the method's: 2F a text for attribution and 2(k' + 1)F for training, where k' is k or the text's tokens.
    `done` leaves out what is not computed: the gradient by the embeddings in training and, where `first_only`, other
    tokens than the first behind the last block's attention. `weights` is the part of `done` that multiplies by weights.
    Without `attribution` it is the training alone.
    """
    hidden, layers, intermediate = shape["hidden_size"], shape["num_hidden_layers"], shape["intermediate_size"]
    floor = done = weights = 0.0
    for length in lengths:
        sequences = min(k, length - 2) + 1
        passes = 2 * sequences + (2 if attribution else 0)
        forward = machine.forward_operations([length], hidden=hidden, layers=layers, intermediate=intermediate)
        last_block = 2 * (hidden * hidden + 2 * hidden * intermediate) * (length - 1) if first_only else 0
        first_projections = 2 * 3 * hidden * hidden * length
        of_text = passes * (forward - last_block) - sequences * first_projections
        floor += passes * forward
        done += of_text
        weights += of_text - passes * 4 * length * length * hidden * layers
    return {"floor": floor, "done": done, "weights": weights}


def whole_epoch(data_dir: Path) -> dict[str, Any]:
    """The 872 sentences, tokenising and attribution included, and how much of the machine's product rate that is."""
    device, precision = machine.device(), machine.precision()
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    texts, tokenizer = material.sst2(data_dir), material.tokenizer()
    model = material.random_bert(material.BERT_BASE)
    adapt(model, tokenizer, material.spread(texts, 32), precision=precision)  # first use compiles and allocates
    before = machine.matmul_rate(dtype, device)
    report, seconds = once(lambda: adapt(model, tokenizer, texts, precision=precision))
    after = machine.matmul_rate(dtype, device)
    work = operations(material.lengths(tokenizer, texts), material.BERT_BASE)
    best = max(before["best"], after["best"])
    return {
        "texts": len(texts),
        "precision": precision,
        "seconds": seconds,
        "stages": report.seconds,
        "steps": report.training.n_steps,
        "trainable_parameters": report.training.n_trainable,
        "paper_seconds": PAPER_SECONDS,
        "operations": work,
        "gflops_per_s": work["done"] / seconds / 1e9,
        "matmul_gflops_per_s": {"before": before, "after": after},
        "share_of_matmul_rate": work["done"] / seconds / 1e9 / best,
        "seconds_at_matmul_rate": work["done"] / best / 1e9,
    }


def against_plain(data_dir: Path) -> dict[str, Any]:
    """Times in turns on sentences spread evenly over SST-2's lengths, and the first loss of each way."""
    n, n_careless = (872, 128) if machine.on_gpu() else (48, 8)
    tokenizer = material.tokenizer()
    model = material.random_bert(material.BERT_BASE)
    texts = material.spread(material.sst2(data_dir), n)
    few = material.spread(material.sst2(data_dir), n_careless)
    precision = machine.precision()
    good = in_turns(
        {
            "ours": lambda: adapt(model, tokenizer, texts, precision=precision),
            "ours_float32": lambda: adapt(model, tokenizer, texts, precision="float32"),
            "plain": lambda: plain.adapt(copy.deepcopy(model), tokenizer, texts),
        },
        rounds=2,
        warm_up=False,
    )
    careless = in_turns(
        {
            "ours": lambda: adapt(model, tokenizer, few, precision=precision, batch_size=8),
            "careless": lambda: plain.adapt(
                copy.deepcopy(model), tokenizer, few, batch_size=8, pad_to=128, all_weights=True
            ),
        },
        rounds=1,
        warm_up=False,
    )
    return {
        "texts": n,
        "texts_careless": n_careless,
        "precision": precision,
        "times": good,
        "times_careless": careless,
        "plain_over_ours": ratio(good, "plain", "ours"),
        "plain_over_ours_float32": ratio(good, "plain", "ours_float32"),
        "careless_over_ours": ratio(careless, "careless", "ours"),
        "first_loss": first_losses(model, tokenizer, texts[:16], precision),
    }


def first_losses(model: Any, tokenizer: Any, texts: list[str], precision: str) -> dict[str, float]:
    """The loss of one batch before any step, three ways; LoRA starts at no change, so the seed does not matter."""
    return {
        "plain": plain.adapt(copy.deepcopy(model), tokenizer, texts)[0],
        "ours_float32": adapt(model, tokenizer, texts, precision="float32").training.losses[0],
        f"ours_{precision}": adapt(model, tokenizer, texts, precision=precision).training.losses[0],
    }


def without_each(data_dir: Path) -> dict[str, Any]:
    """What each fast path brings: the time without it over the time with all, on the same sentences."""
    n = 872 if machine.on_gpu() else 24
    tokenizer = material.tokenizer()
    model = material.random_bert(material.BERT_BASE)
    texts = material.spread(material.sst2(data_dir), n)
    precision = machine.precision()
    runs = {
        "all": lambda: adapt(model, tokenizer, texts, precision=precision),
        "without packing": lambda: adapt(model, tokenizer, texts, precision=precision, packing=False),
    }
    if precision != "float32":
        runs["in float32"] = lambda: adapt(model, tokenizer, texts, precision="float32")
    times = in_turns(runs, rounds=2)
    return {
        "texts": n,
        "times": times,
        "over_all": {name: ratio(times, name, "all") for name in runs if name != "all"},
    }
