"""Few-shot adaptation: the adapter learns from the labelled support set, and its strength is cross-validated.

With g the adapted model's class probabilities and (x_i, y_i) the labelled texts of a batch,

    L = 1 / B * sum_i -log g(y_i | x_i).

Head and backbone stay frozen: only LoRA factors are trained. Labels that have taught the adapter cannot choose its
strength as well, since it answers them better than any others. So they are cut into folds that hold each class in equal
shares, equal texts in one; for each fold an adapter is trained on the others and answers it at every strength, and the
strength is chosen on these answers. The adapter that is kept is trained on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..config import AdapterConfig
from ..errors import DataError
from ..models import EncodedTexts, TextClassifier
from ..typing import Array, Progress
from .scaling import logits_by_strength
from .training import AdapterTraining, TrainingLoop, first_of_equals, run_training

FOLDS = 5
"""Folds of the cross-validation, or as many as there are distinct labelled texts if these are fewer."""


def few_shot_adapter(
    base: TextClassifier,
    encoded: EncodedTexts,
    labels: Array,
    config: AdapterConfig,
    *,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Any, AdapterTraining]:
    """Train an adapter on n labelled texts, given with their class ids, shape (n,); see `run_training`."""
    if config.deduplicate:
        kept = first_of_equals(encoded, np.arange(len(encoded)))
        encoded, labels = encoded.select(kept), labels[kept]

    loop = partial(_Supervised, encoded=encoded, labels=labels, config=config, seed=seed)
    return run_training(base, config, loop, seed=seed, n_texts=len(encoded), progress=progress)


def cross_validated_logits(
    base: TextClassifier,
    encoded: EncodedTexts,
    labels: Array,
    config: AdapterConfig,
    strengths: Sequence[float],
    *,
    seed: int,
    progress: Progress | None = None,
) -> Array:
    """What adapters that have not seen a text answer to it, at each of S strengths, shape (S, n, C).

    Raises:
        DataError: The texts are all equal, so that none is left to ask about.
    """
    out = np.empty((len(strengths), len(encoded), base.n_classes), dtype=np.float32)
    # Texts are compared as the model sees them: two that differ beyond its length are one to it.
    folds = assign_folds(labels, [ids.tobytes() for ids in encoded.input_ids], FOLDS, seed)
    if not folds.any():
        raise DataError(
            f"The {len(labels)} labelled texts are one and the same, so none is left to choose the strength on. Give "
            "distinct ones."
        )
    held_out = np.unique(folds)
    for done, fold in enumerate(held_out):
        taught, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        model, _ = few_shot_adapter(base, encoded.select(taught), labels[taught], config, seed=seed)
        out[:, asked] = logits_by_strength(base.with_model(model), encoded.select(asked), strengths)
        if progress is not None:
            progress("Cross-validating", done + 1, len(held_out))
    return out


def assign_folds(labels: Array, texts: Sequence[Any], n_folds: int, seed: int) -> Array:
    """The fold of each row, shape (n,): each class dealt out to all folds, and equal texts to one.

    Args:
        texts: Something hashable for each row that says which texts are equal.
        n_folds: Number of folds; of fewer distinct texts each is one of its own.
    """
    numbers: dict[Any, int] = {}
    group = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    _, first = np.unique(group, return_index=True)
    drawn = np.random.default_rng(seed).permutation(len(first))
    by_class = drawn[np.argsort(labels[first][drawn], kind="stable")]
    fold_of = np.empty(len(first), dtype=np.int64)
    fold_of[by_class] = np.arange(len(first)) % min(n_folds, len(first))
    folds: Array = fold_of[group]
    return folds


class _Supervised(TrainingLoop):
    """The training loop of the loss above."""

    def __init__(
        self, classifier: TextClassifier, encoded: EncodedTexts, labels: Array, config: AdapterConfig, seed: int
    ) -> None:
        super().__init__(classifier, encoded, config, seed)
        self.labels = torch.from_numpy(np.asarray(labels, dtype=np.int64))

    def loss(self, chosen: Array) -> Tensor:
        """See the head of this module."""
        logits = self.answers(chosen)[:, 0]  # heads with several labels are refused
        return F.cross_entropy(logits, self.labels[chosen].to(logits.device))
