"""What masking does to a prediction: masked variants, and the forward passes behind MSTPS and the corpus ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from ..models import EncodedTexts, Reader, TextClassifier
from ..text import Units, erased_texts
from ..typing import Array, Erasure, Progress
from .saliency import Saliency, pad_units


class MaskedVariants(NamedTuple):
    """The variants of a batch, empty slots left out.

    Attributes:
        input_ids: Shape (M, L); each row differs from its input in one place.
        rows: Which input each variant comes from, shape (M,), in [0, B), ascending.
        slots: Which of the input's chosen tokens is masked, shape (M,), in [0, K).
    """

    input_ids: Tensor
    rows: Tensor
    slots: Tensor


def mask_variants(
    input_ids: Tensor,
    positions: Tensor,
    mask_token_id: int,
    *,
    units: Tensor | None = None,
    last: Tensor | None = None,
) -> MaskedVariants:
    """One copy of an input for every chosen position, with that position masked (paper Section 3.3, `x^{mask_j}`).

    The ids are filled in, never decoded and tokenised again, so all other tokens stay as they are. With `units` all
    tokens of a unit or span are masked: a word of three pieces becomes three mask tokens.

    Args:
        input_ids: Shape (B, L).
        positions: Shape (B, K), in [0, L), or the first unit of each span; -1 for an empty slot.
        units: The unit of each token, shape (B, L), ascending in each row, -1 for tokens that are never masked.
        last: Last unit of each span, shape (B, K); single units without.
    """
    units = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids) if units is None else units
    last = positions if last is None else last
    rows, slots = (positions >= 0).nonzero(as_tuple=True)
    inside = (units[rows] >= positions[rows, slots][:, None]) & (units[rows] <= last[rows, slots][:, None])
    return MaskedVariants(input_ids[rows].masked_fill(inside, mask_token_id), rows, slots)


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


def predicted_probabilities(saliency: Saliency, effects: MaskingEffects) -> tuple[Array, Array]:
    """P(y_hat | x), shape (N,), and P(y_hat | x with one token masked), shape (N, K)."""
    rows = np.arange(len(saliency.predictions))
    return saliency.probs[rows, saliency.predictions], effects.probability_of(saliency.predictions)


@torch.inference_mode()
def masking_effects(
    reader: Reader,
    encoded: EncodedTexts,
    positions: Array,
    *,
    units: Units | None = None,
    last: Array | None = None,
    erasure: Erasure = "mask",
    stage: str = "Masking",
    progress: Progress | None = None,
) -> MaskingEffects:
    """Predict every text with one token masked at a time, or one span of units: K forward passes a text.

    Args:
        positions: Which tokens are masked, or with `units` the first unit of each span, shape (N, K), -1 for an empty
            slot.
        last: Last unit of each span, shape (N, K); single units without.
        erasure: What is done in place of masking; see `text.erased_texts`.
    """
    n, k = positions.shape
    last = positions if last is None else last
    if erasure != "mask":
        told = partial(progress, stage) if progress is not None else lambda *_: None
        return _erasing_effects(reader, encoded, positions, last, units, erasure=erasure, told=told)
    classifier = cast(TextClassifier, reader)  # nothing else masks
    mask_token_id = classifier.tokenizer.mask_token_id
    probs = np.full((n, k, classifier.n_classes), np.nan, dtype=np.float32)
    done = 0
    for batch in classifier.batches(encoded, sequences_per_text=max(k, 1), at_once=classifier.at_once):
        first, end = (
            torch.from_numpy(x[batch.indices].astype(np.int64)).to(batch.input_ids.device) for x in (positions, last)
        )
        of_token = None if units is None else pad_units(units, batch)
        variants = mask_variants(batch.input_ids, first, mask_token_id, units=of_token, last=end)
        if len(variants.rows):
            logits = classifier.logits(batch.copies(variants.input_ids, variants.rows))
            rows = batch.indices[variants.rows.cpu().numpy()]
            probs[rows, variants.slots.cpu().numpy()] = logits.softmax(dim=-1).cpu().numpy()
        done += len(batch.indices)
        if progress is not None:
            progress(stage, done, n)
    return MaskingEffects(probs)


_VARIANTS_AT_ONCE = 4096


def _erasing_effects(
    classifier: Reader,
    encoded: EncodedTexts,
    first: Array,
    last: Array,
    units: Units | None,
    *,
    erasure: Erasure,
    told: Callable[[int, int], None],
) -> MaskingEffects:
    """The same for variants that may be shorter than their texts."""
    probs = np.full((*first.shape, classifier.n_classes), np.nan, dtype=np.float32)
    pairs = np.argwhere(first >= 0)
    for start in range(0, len(pairs), _VARIANTS_AT_ONCE):
        chosen = []
        for i, slot in (at := pairs[start : start + _VARIANTS_AT_ONCE]):
            of_token = np.arange(len(encoded.ordinary[i])) if units is None else units.of_token[i]
            chosen.append(np.flatnonzero((of_token >= first[i, slot]) & (of_token <= last[i, slot])))
        erased = erased_texts(encoded.select(at[:, 0]), chosen, classifier.mask_token_id, erasure)
        probs[at[:, 0], at[:, 1]] = classifier.predict_proba(erased)
        told(start + len(at), len(pairs))
    return MaskingEffects(probs)
