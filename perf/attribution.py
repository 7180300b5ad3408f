"""Texts per second of attribution and of a whole audit, beside one-at-a-time and captum, with equal scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_guardrail.attribution.occlusion import masking_effects
from shortcut_guardrail.attribution.saliency import find_important_tokens, token_scores
from shortcut_guardrail.models.classifier import TextClassifier

from . import machine, material, plain
from .timing import in_turns, ratio


def scores_of(classifier: TextClassifier, texts: list[str]) -> list[torch.Tensor]:
    """Margin-form scores of every token of every text."""
    encoded = classifier.encode(texts)
    scores: list[Any] = [None] * len(texts)
    for batch in classifier.batches(encoded):
        for index, row in zip(batch.indices, token_scores(classifier, batch).scores, strict=True):
            scores[index] = row[: len(encoded.input_ids[index])]
    return scores


def audit(classifier: TextClassifier, texts: list[str]) -> float:
    """Attribution and the mean fall over the masked top-k tokens (MSTPS)."""
    encoded = classifier.encode(texts)
    found = find_important_tokens(classifier, encoded)
    effects = masking_effects(classifier, encoded, found.positions)
    before = np.take_along_axis(found.probs, found.predictions[:, None], axis=1)
    falls = np.abs(before - effects.probability_of(found.predictions))
    return float(np.mean(np.nanmean(falls, axis=1)))


def attribution(data_dir: Path) -> dict[str, Any]:
    """Attribution alone, in turns."""
    n = 256 if machine.on_gpu() else 64
    classifiers, model, tokenizer, texts = _setting(data_dir, n)
    runs = {name: lambda c=c: scores_of(c, texts) for name, c in classifiers.items()}  # type: ignore[misc]
    runs["one at a time"] = lambda: plain.gradient_times_input(model, tokenizer, texts)
    runs["captum"] = lambda: plain.captum_scores(model, tokenizer, texts)
    results = {name: run() for name, run in runs.items()}
    times = in_turns(runs, rounds=2, warm_up=False)
    ours = next(iter(classifiers))
    return {
        "texts": n,
        "precision": ours,
        "times": times,
        "one_at_a_time_over_ours": ratio(times, "one at a time", ours),
        "captum_over_ours": ratio(times, "captum", ours),
        "one_at_a_time_over_ours_float32": ratio(times, "one at a time", "float32"),
        "captum_over_ours_float32": ratio(times, "captum", "float32"),
        "largest_relative_difference_to_captum": {
            name: _difference(results[name], results["captum"]) for name in results if name != "captum"
        },
    }


def whole_audit(data_dir: Path) -> dict[str, Any]:
    """Attribution and masking effects, in turns."""
    n = 128 if machine.on_gpu() else 32
    classifiers, model, tokenizer, texts = _setting(data_dir, n)
    runs = {name: lambda c=c: audit(c, texts) for name, c in classifiers.items()}  # type: ignore[misc]
    runs["captum"] = lambda: plain.captum_audit(model, tokenizer, texts)
    results = {name: run() for name, run in runs.items()}
    times = in_turns(runs, rounds=2, warm_up=False)
    ours = next(iter(classifiers))
    return {
        "texts": n,
        "precision": ours,
        "times": times,
        "captum_over_ours": ratio(times, "captum", ours),
        "captum_over_ours_float32": ratio(times, "captum", "float32"),
        "mstps": results,
    }


def _setting(data_dir: Path, n: int) -> tuple[dict[str, TextClassifier], Any, Any, list[str]]:
    tokenizer = material.tokenizer()
    model = material.random_bert(material.BERT_BASE)
    texts = material.spread(material.sst2(data_dir), n)
    fast = machine.precision()
    classifiers = {
        p: TextClassifier(model, tokenizer, precision=p, batch_size=64) for p in dict.fromkeys((fast, "float32"))
    }
    return classifiers, model, tokenizer, texts


def _difference(scores: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Largest difference of a score, over the largest score of its text."""
    pairs = zip(scores, expected, strict=True)
    return max(float((a.cpu() - b.cpu()).abs().max() / b.abs().max()) for a, b in pairs)
