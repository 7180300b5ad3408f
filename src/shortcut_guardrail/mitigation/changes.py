"""Which predictions a repair changes on the texts that it was fitted on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch

from ..data import enumerated
from ..errors import GuardrailWarning
from ..evaluation import at_threshold_of
from ..models import EncodedTexts, Reader
from ..text import WordFinder
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
class OtherLabel:
    """The effect of one label's repair on another `label`, on the `n` texts without any of its words.

    Attributes:
        moved: Mean change of the label's probability.
        changed: Share of the texts on which its decision changes.
    """

    label: str
    n: int
    moved: float
    changed: float


@dataclass(frozen=True)
class Shift:
    """Another threshold on the original model, at which it predicts each of two classes as often as the repaired model.

    Attributes:
        threshold: The least probability of the second class at which it is predicted.
        same: How many predictions change as the repair changes them.
        other: How many others change.
    """

    threshold: float
    same: int
    other: int


@dataclass(frozen=True)
class Changes:
    """How many of `n` texts the repaired model predicts differently, their `share`, and a random sample of five.

    Attributes:
        others: The other labels of a model with several.
        shift: `None` where nothing changes, with more than two classes, and where texts were left to the original model
            unseen.
    """

    n: int
    changed: int
    share: float
    examples: tuple[Change, ...] = ()
    others: tuple[OtherLabel, ...] = ()
    shift: Shift | None = None


MOST_MOVED, MOST_CHANGED = 0.01, 0.005
"""What a guard may do to another label before it is warned of."""


def prediction_changes(
    base: Reader,
    guard: Guard,
    encoded: EncodedTexts,
    strength: float,
    finder: WordFinder,
    *,
    probs: Array | None,
    seed: int = 0,
) -> Changes:
    """Compare the predictions for N texts with the base's, of which `probs` are known, shape (N, C), or not.

    Texts that the guard leaves to the base are not asked about.

    Args:
        finder: Of the shortcuts.
    """
    asked = np.ones(len(encoded), dtype=bool) if guard.only is None else guard.only.present_in(encoded)
    rows = np.flatnonzero(asked & (strength > 0))
    own, place, several = encoded.select(rows), base.heads.place, base.heads.label is not None
    known = probs is not None and not several
    before = np.asarray(probs)[rows][:, None] if known else base.predict_answers(own)
    with guard.at(strength) as classifier:
        after = classifier.predict_answers(own)
    others = _others(base, encoded, rows, before, after, ~finder.present_in(encoded)) if several else ()
    classes = (before[:, 0 if known else place].argmax(axis=1), after[:, place].argmax(axis=1))
    changed = np.flatnonzero(classes[0] != classes[1])
    shown, names = np.sort(np.random.default_rng(seed).permutation(changed)[:5]), base.label_names
    examples = (Change(int(rows[i]), own.texts[i], *(names[of[i]] for of in classes)) for i in shown)
    logits = before[:, place] if probs is None or several else np.log(np.clip(probs, 1e-30, None))
    whole = logits.shape == (len(encoded), 2) and len(changed) > 0
    shift = _shift(logits, rows, classes[1]) if whole else None
    return Changes(len(encoded), len(changed), len(changed) / len(encoded), tuple(examples), others, shift)


def _shift(logits: Array, rows: Array, repaired: Array) -> Shift:
    """From the base's `logits`, shape (N, 2), and the `repaired` classes of some rows."""
    own = logits.argmax(axis=1)
    after = own.copy()
    after[rows] = repaired
    shifted, threshold = at_threshold_of(logits, np.bincount(after, minlength=2).tolist())
    changed, alike = shifted != own, shifted == after
    return Shift(threshold, int((changed & alike).sum()), int((changed & ~alike).sum()))


def _others(
    base: Reader, encoded: EncodedTexts, rows: Array, before: Array, after: Array, without: Array
) -> tuple[OtherLabel, ...]:
    """The other labels, from the answers to `rows` of N texts; which are `without` words, shape (N,), bool."""
    n, own = int(without.sum()), without[rows]
    moved, changed = np.zeros((2, len(base.heads.labels)))
    if own.any():  # elsewhere the guard leaves all of these texts to the base
        probs = [base.heads.probabilities(torch.from_numpy(one[own]))[..., 1].numpy() for one in (before, after)]
        moved = np.abs(probs[1] - probs[0]).sum(axis=0) / n
        changed = (before[own].argmax(axis=2) != after[own].argmax(axis=2)).sum(axis=0) / n
    found = zip(base.heads.labels, moved.tolist(), changed.tolist(), strict=True)
    others = tuple(OtherLabel(name, n, *values) for name, *values in found if name != base.heads.label)
    if far := [one.label for one in others if one.moved > MOST_MOVED or one.changed > MOST_CHANGED]:
        warnings.warn(
            f"The repair also changes {enumerated(far)}, on texts without any of its words. Lower its strength, or "
            "fit with per_input=True, which leaves such texts to the original model.",
            GuardrailWarning,
            stacklevel=4,
        )
    return others
