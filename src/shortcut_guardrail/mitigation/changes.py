"""Which predictions a guard changes on the texts that it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..models import EncodedTexts, TextClassifier
from ..typing import Array, Text
from .guards import Guard


@dataclass(frozen=True)
class Change:
    """A text or a pair, which is a `row` of those given, and its prediction `before` and `after`."""

    row: int
    text: Text
    before: str
    after: str


@dataclass(frozen=True)
class Changes:
    """How many of `n` texts get another prediction from the guard, their `share`, and five of them at random."""

    n: int
    changed: int
    share: float
    examples: tuple[Change, ...] = ()


def prediction_changes(
    base: TextClassifier, guard: Guard, encoded: EncodedTexts, strength: float, *, probs: Array | None, seed: int = 0
) -> Changes:
    """Compare the predictions for N texts with the base's, of which `probs` are known, shape (N, C), or not.

    Texts that the guard leaves to the base are not asked about.
    """
    asked = np.ones(len(encoded), dtype=bool) if guard.only is None else guard.only.present_in(encoded)
    rows = np.flatnonzero(asked & (strength > 0))
    own = encoded.select(rows)
    before = base.predict_logits(own) if probs is None else np.asarray(probs)[rows]
    with guard.at(strength) as classifier:
        after = classifier.predict_logits(own)
    classes = before.argmax(axis=1), after.argmax(axis=1)
    changed = np.flatnonzero(classes[0] != classes[1])
    shown, names = np.sort(np.random.default_rng(seed).permutation(changed)[:5]), base.label_names
    examples = (Change(int(rows[i]), own.texts[i], *(names[of[i]] for of in classes)) for i in shown)
    return Changes(len(encoded), len(changed), len(changed) / len(encoded), tuple(examples))
