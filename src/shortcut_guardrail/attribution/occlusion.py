"""What masking does to a prediction: the forward passes behind MSTPS and the corpus ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ..models import Batch, EncodedTexts, TextClassifier
from ..typing import Array, Progress
from .masking import MaskedVariants, mask_variants


@dataclass(frozen=True)
class MaskingEffects:
    """The model's answer to each text with one important token masked at a time.

    Attributes:
        probs: Class probabilities of every variant, shape (N, K, C); NaN for empty slots.
    """

    probs: Array

    def probability_of(self, classes: Array) -> Array:
        """P(class | variant), shape (N, K), for one class per text, shape (N,); NaN for empty slots."""
        return np.take_along_axis(self.probs, classes[:, None, None], axis=2)[..., 0]

    def predictions(self) -> Array:
        """Predicted class of every variant, shape (N, K); -1 for empty slots."""
        empty = np.isnan(self.probs[..., 0])
        return np.where(empty, -1, np.where(np.isnan(self.probs), -np.inf, self.probs).argmax(axis=2))


def masking_effects(
    classifier: TextClassifier, encoded: EncodedTexts, positions: Array, *, progress: Progress | None = None
) -> MaskingEffects:
    """Predict every single-mask variant of every text: k forward passes a text.

    Args:
        encoded: N texts.
        positions: Which tokens are masked, one at a time, shape (N, K), -1 for an empty slot.
    """

    def variants_of(batch: Batch) -> MaskedVariants:
        chosen = torch.from_numpy(positions[batch.indices].astype(np.int64)).to(batch.input_ids.device)
        return mask_variants(batch.input_ids, chosen, classifier.tokenizer.mask_token_id)

    return answers_to_variants(classifier, encoded, positions.shape[1], variants_of, "Masking", progress)


@torch.inference_mode()
def answers_to_variants(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    k: int,
    variants_of: Callable[[Batch], MaskedVariants],
    stage: str,
    progress: Progress | None,
) -> MaskingEffects:
    """Predict up to k masked variants of each of N texts."""
    n = len(encoded)
    probs = np.full((n, k, classifier.n_classes), np.nan, dtype=np.float32)
    done = 0
    for batch in classifier.batches(encoded, sequences_per_text=max(k, 1)):
        variants = variants_of(batch)
        if len(variants.rows):
            logits = classifier.logits(batch.copies(variants.input_ids, variants.rows))
            rows = batch.indices[variants.rows.cpu().numpy()]
            probs[rows, variants.slots.cpu().numpy()] = logits.softmax(dim=-1).cpu().numpy()
        done += len(batch.indices)
        if progress is not None:
            progress(stage, done, n)
    return MaskingEffects(probs)
