"""The scores of words, and the answers with words or phrases masked."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..config import SaliencyConfig
from ..models import Batch, EncodedTexts, TextClassifier
from ..text import Units
from ..typing import Array, Progress
from .masking import MaskedVariants, mask_spans
from .occlusion import MaskingEffects, answers_to_variants
from .saliency import Saliency, most_important


def find_important_units(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    units: Units,
    config: SaliencyConfig,
    *,
    progress: Progress | None = None,
) -> Saliency:
    """Score all units and keep the k most important ones of each text.

    A unit's score is the root of the summed squares of its tokens' scores: the norm of gradient times input over all
    of its tokens, as s_i is over one.

    Returns:
        As `saliency.find_important_tokens` does, but `positions` holds unit ids, shape (N, K), -1 where empty.
    """
    return most_important(
        classifier, encoded, config, lambda batch, scores: _sum_by_unit(scores, pad_units(units, batch)), progress
    )


def pad_units(units: Units, batch: Batch) -> Tensor:
    """The unit of each token of a batch, shape (B, L), -1 for padding and for tokens that are not ordinary: those that
    nothing is attributed to, and those that a guard has taken out of the batch."""
    out = np.full(tuple(batch.input_ids.shape), -1, dtype=np.int64)
    for row, i in enumerate(batch.indices):
        out[row, : len(units.of_token[i])] = units.of_token[i]
    return torch.from_numpy(out).to(batch.input_ids.device).masked_fill(~batch.ordinary, -1)


def _sum_by_unit(scores: Tensor, of_token: Tensor) -> tuple[Tensor, Tensor]:
    """Root of the summed squares of each unit's scores, shape (B, U), and which units there are."""
    width = int(of_token.max().item()) + 1 if of_token.numel() else 0
    ordinary = of_token >= 0
    index = of_token.clamp(min=0)
    squares = torch.where(ordinary, scores.square(), torch.zeros_like(scores))
    summed = scores.new_zeros(len(scores), max(width, 1)).scatter_add_(1, index, squares)
    present = torch.zeros_like(summed).scatter_add_(1, index, ordinary.to(summed.dtype)) > 0
    return summed.sqrt(), present


def span_effects(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    units: Units,
    first: Array,
    last: Array,
    *,
    stage: str = "Masking",
    progress: Progress | None = None,
) -> MaskingEffects:
    """Predict every text with one span of units masked at a time.

    Args:
        encoded: N texts.
        first: First unit of each span, shape (N, K), -1 for an empty slot.
        last: Last unit of each span, the same shape; equal to `first` for single units.
        stage: What to call this to `progress`.
    """

    def variants_of(batch: Batch) -> MaskedVariants:
        bounds = (torch.from_numpy(x[batch.indices].astype(np.int64)).to(batch.input_ids.device) for x in (first, last))
        mask = classifier.tokenizer.mask_token_id
        return mask_spans(batch.input_ids, pad_units(units, batch), *bounds, mask_token_id=mask)

    return answers_to_variants(classifier, encoded, first.shape[1], variants_of, stage, progress)
