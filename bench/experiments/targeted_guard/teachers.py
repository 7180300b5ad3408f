"""What a guard imitates where it imitates it wholly, and what masking and cutting do for themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from measuring import Found, Measured
from shortcut_guardrail import preset
from shortcut_guardrail.config import DistillConfig
from shortcut_guardrail.metrics import balanced_accuracy
from shortcut_guardrail.mitigation.distillation import counterfactual
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.models.encoding import EncodedTexts
from shortcut_guardrail.text.edits import masked_texts, shortened_texts
from summary import share


def teachers(run: Measured, done: Found) -> Found:
    """How much of the gap each teacher closes, and how often masking and cutting elsewhere leave an answer."""
    texts, best = run.deployment(run.scored), run.deployment(run.oracle)
    chosen = run.trained
    base = TextClassifier(
        chosen.model,
        chosen.tokenizer,
        max_length=chosen.max_length,
        batch_size=64,
        precision=run.arguments.precision,
    )
    targets = run.known_targets(preset("distill"), done) or run.guard().find_shortcuts(texts.texts, config="distill")
    finder = targets.finder
    encoded = base.encode(texts.texts)
    low, high = (run.scores(run.guard(), rows, 0) for rows in (texts, best))
    result: Found = {"n": len(texts), "gap_closed": {}, "gap_closed_balanced": {}}
    for teacher in ("mask", "remove", "both"):
        answers = counterfactual(base, encoded, finder, DistillConfig(teacher=teacher)).answers()
        found = {
            "accuracy": float((answers == texts.labels).mean()),
            "balanced_accuracy": balanced_accuracy(answers, texts.labels),
        }
        result["gap_closed"][teacher] = share(found, low, high, "accuracy")
        result["gap_closed_balanced"][teacher] = share(found, low, high, "balanced_accuracy")
    result["elsewhere"] = placebo(base, encoded, finder.positions(encoded), run.seed)
    return result


def placebo(base: TextClassifier, encoded: EncodedTexts, found: list[np.ndarray[Any, Any]], seed: int) -> Found:
    """How often an answer stays where as many tokens as the targets have are masked, or cut out, elsewhere."""
    rng = np.random.default_rng(seed)
    drawn = [elsewhere(encoded, i, chosen, rng) for i, chosen in enumerate(found)]
    rows = [i for i, chosen in enumerate(drawn) if len(chosen)]
    texts, positions = encoded.select(rows), [drawn[i] for i in rows]
    result: Found = {"n": len(rows)}
    if not rows:
        return result
    before = base.predict_proba(texts)
    for name, neutralise in (("mask", masked_texts), ("remove", shortened_texts)):
        after = base.predict_proba(neutralise(texts, positions, base.tokenizer.mask_token_id))
        result[name] = {
            "answers_kept": int((after.argmax(axis=1) == before.argmax(axis=1)).sum()),
            "total_variation": float(np.abs(after - before).sum(axis=1).mean() / 2),
            "mean_change": (after - before).mean(axis=0).tolist(),
        }
    return result


def elsewhere(
    encoded: EncodedTexts, index: int, chosen: np.ndarray[Any, Any], rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """A random run of whole words with as many tokens as the targets of a text have together, beside them; none where
    there is no room."""
    free = encoded.ordinary[index].copy()
    free[chosen] = False
    offsets = encoded.offsets[index]
    begins = np.append(np.diff(offsets[:, 0], prepend=-1) != 0, True)
    begins[1:-1] &= offsets[1:, 0] != offsets[:-1, 1]
    runs = (
        np.lib.stride_tricks.sliding_window_view(free, len(chosen)) if 0 < len(chosen) <= len(free) else free[:0, None]
    )
    starts = np.flatnonzero(runs.all(axis=1))
    starts = starts[begins[starts] & begins[starts + len(chosen)]] if len(starts) else starts
    return rng.choice(starts) + np.arange(len(chosen)) if len(starts) else np.array([], dtype=np.int64)
