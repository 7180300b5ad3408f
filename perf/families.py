"""BERT, ModernBERT and DeBERTa-v3 at one shape: what each gains by packing or grouping, and where each loses time."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.mitigation import training
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.models.encoding import Batch, EncodedTexts

from . import adaptation, machine, material, profiling
from .timing import in_turns, ratio

SHAPE = {**material.MINILM, "num_attention_heads": 6}
"""The published models of all three families have heads of 64."""
_IDS = {"pad_token_id": 0, "cls_token_id": 101, "sep_token_id": 102, "bos_token_id": 101, "eos_token_id": 102}
# The rest is as the published base models have it, from memory. ModernBERT's gated feed-forward has three matrices
# where the others have two: two thirds of the width make it as many weights.
_RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True}
FAMILIES: dict[str, dict[str, Any]] = {
    "BERT": {"model_type": "bert"},
    "ModernBERT": {
        "model_type": "modernbert",
        "intermediate_size": SHAPE["intermediate_size"] * 2 // 3,
        "global_attn_every_n_layers": 3,
        "local_attention": 128,
        "classifier_pooling": "mean",
        **_IDS,
    },
    "DeBERTa-v3": {
        "model_type": "deberta-v2",
        "position_buckets": 256,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_hidden_size": SHAPE["hidden_size"],
        **_RELATIVE,
    },
}
NARROW = 64
"""Relative positions to each side that texts of at most 64 tokens use; DeBERTa-v3 multiplies by 256 to each side."""

K = 4
"""Important tokens per text: with the paper's ten, three rounds would take ten minutes."""


def random_model(family: str, *, seed: int = 0, **changes: Any) -> Any:
    """A classifier of a family at the shared shape with random weights, which cost as much time as trained ones."""
    torch.manual_seed(seed)
    settings = {**SHAPE, "vocab_size": 30522, "num_labels": 2, **FAMILIES[family], **changes}
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    return AutoModelForSequenceClassification.from_config(config).eval().to(machine.device())


@contextmanager
def as_they_come() -> Iterator[None]:
    """Within the block, texts share batches in the order they come in, and each step is one padded batch.

    The library has no switch for this: what cannot be packed, it groups by length.
    """
    usual = training.length_chunks

    def in_order(
        self: TextClassifier, encoded: EncodedTexts, *, sequences_per_text: int = 1, at_once: int | None = None
    ) -> Iterator[Batch]:  # as `TextClassifier.batches`, which sorts
        size = max(1, (at_once or self.batch_size) // sequences_per_text)
        for start in range(0, len(encoded), size):
            yield self.collate(encoded, np.arange(start, min(start + size, len(encoded))))

    with (
        patch.object(training, "length_chunks", lambda lengths, *, fill: usual(lengths, fill=0.0)),
        patch.object(TextClassifier, "batches", in_order),
    ):
        yield


def families(data_dir: Path, *, rounds: int = 3) -> dict[str, Any]:
    """Every family on short sentences and on reviews cut at 256 tokens, in turns; ratios are of the processor's time.

    Returns:
        By texts and family: all times, ratios, and the share of the machine's product rate. The operations are what the
        texts need in BERT's arithmetic, so that padding and DeBERTa's relative positions count as loss.
    """
    sentences, reviews = material.sst2(data_dir), material.yelp(data_dir)
    models = {name: random_model(name) for name in FAMILIES}
    before, rate = os.getloadavg(), _rate()
    found = {
        "sst2": _measured(models, sentences, n=16, n_predicted=48, most=512, rounds=rounds),
        "yelp": _measured(models, reviews, n=6, n_predicted=18, most=256, rounds=rounds),
    }
    rate = max(rate, _rate())
    for of_family in (one for of_texts in found.values() for one in of_texts["families"].values()):
        of_family["share_of_matmul_rate"] = {way: value / rate for way, value in of_family["gflops_per_s"].items()}
    few = material.spread(sentences, 16)
    return {
        "shape": SHAPE,
        "rounds": rounds,
        "k": K,
        "precision": "float32",
        "ratios_are_of": "processor_s",
        "load": {"before": before, "after": os.getloadavg()},
        "matmul_gflops_per_s": rate,
        **found,
        "steps": {family: profiling.of_step(model, few, SHAPE, k=K, steps=2) for family, model in models.items()},
    }


def _measured(
    models: dict[str, Any], texts: list[str], *, n: int, n_predicted: int, most: int, rounds: int
) -> dict[str, Any]:
    """All ways of all families in turns, an epoch being one batch of n texts cut at `most` tokens."""
    tokenizer = material.tokenizer()
    few, more = material.spread(texts, n), material.spread(texts, n_predicted)
    lengths = material.lengths(tokenizer, few, most)
    runs = {
        f"{family}, {way}": run
        for family, model in models.items()
        for way, run in ways(family, model, tokenizer, few, more, max_length=most, size=n).items()
    }
    for model in models.values():
        adaptation.adapt(model, tokenizer, few[:4], precision="float32", batch_size=4, max_length=most)
    times = in_turns(runs, rounds=rounds, warm_up=False)
    return {
        "texts": n,
        "texts_predicted": n_predicted,
        "most_tokens": most,
        "batch_size": n,
        "tokens": {"mean": statistics.mean(lengths), "lowest": min(lengths), "highest": max(lengths)},
        "times": times,
        "families": {family: _compared(family, times, lengths) for family in models},
    }


def ways(
    family: str,
    model: Any,
    tokenizer: Any,
    texts: list[str],
    more: list[str],
    *,
    max_length: int,
    size: int,
) -> dict[str, Callable[[], Any]]:
    """What is timed of a family: an epoch on `texts`, and predictions of `more`, as the library does it and plainly."""
    guards = [
        ShortcutGuardrail(model, tokenizer, max_length=max_length, batch_size=size, packing=packing)
        for packing in (True, False)
    ]

    def adapt(model: Any = model, *, packing: bool = True) -> Any:
        return adaptation.adapt(
            model, tokenizer, texts, precision="float32", batch_size=size, packing=packing, max_length=max_length, k=K
        )

    def plainly(run: Callable[[], Any]) -> Any:
        with as_they_come():
            return run()

    runs = {
        "ours": adapt,
        "padded": lambda: plainly(lambda: adapt(packing=False)),
        "predict": lambda: guards[0].predict_proba(more),
        "predict padded": lambda: plainly(lambda: guards[1].predict_proba(more)),
    }
    if family == "BERT":  # the others are not packed anyway
        runs["grouped"] = lambda: adapt(packing=False)
    if "position_buckets" in FAMILIES[family] and max(material.lengths(tokenizer, texts, max_length)) <= NARROW:
        # With random weights, a model of fewer positions takes the time that leaving the unused ones out would take.
        narrow = random_model(family, position_buckets=NARROW)
        runs["narrow"] = lambda: adapt(narrow)
    return runs


def _compared(family: str, times: dict[str, Any], lengths: list[int]) -> dict[str, Any]:
    own = {name.removeprefix(f"{family}, "): of for name, of in times.items() if name.startswith(f"{family}, ")}
    over = {way: ratio(own, way, "ours", of="processor_s") for way in own if way in ("padded", "grouped", "narrow")}
    over["predict padded"] = ratio(own, "predict padded", "predict", of="processor_s")
    over["on the clock"] = ratio(own, "padded", "ours")
    # The gradient by the first layer's input is left out by all; only packed models leave out the last block's tokens.
    speeds = {}
    for way in ("ours", "padded"):
        first_only = family == "BERT" and way == "ours"
        work = adaptation.operations(lengths, SHAPE, k=K, first_only=first_only)["done"]
        speeds[way] = work / statistics.median(own[way]["processor_s"]) / 1e9
    return {"over_ours": over, "gflops_per_s": speeds}


def _rate() -> float:
    """Billion operations a second of the machine's products in the processor's time, at most."""
    return float(machine.matmul_rate(torch.float32, machine.device(), repeats=3, clock=time.process_time)["best"])
