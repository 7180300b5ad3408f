"""Masked contrastive learning on unlabelled deployment texts (paper Section 3.3)."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..attribution import mask_variants
from ..config import AdapterConfig
from ..errors import DataError
from ..models import EncodedTexts, TextClassifier, gather_shares, own_share
from ..typing import Array, Progress
from .losses import masked_contrastive_loss
from .training import AdapterTraining, TrainingLoop, first_of_equals, run_training, steps_to_take


def train_adapter(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    positions: Array,
    config: AdapterConfig,
    *,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Any, AdapterTraining]:
    """Train an adapter with masked contrastive learning.

    Args:
        encoded: N deployment texts.
        positions: Their important tokens on the base model, shape (N, K), -1 for an empty slot; those of texts that are
            not drawn (see `texts_drawn`) do not matter.
        seed: Decides LoRA's start and the order of the texts.

    Raises:
        DataError: Fewer than two distinct texts have a token to mask.
        RunError: The loss became NaN, or frozen weights changed.
    """
    kept = _trained(encoded, config)
    if len(kept) < 2:
        raise DataError(
            "Adaptation needs at least 2 distinct texts with a token that can be masked, "
            f"but {len(kept)} of {len(encoded)} {'is' if len(kept) == 1 else 'are'}. Give more deployment texts."
        )

    loop = partial(
        MaskedContrastiveLearning, encoded=encoded.select(kept), positions=positions[kept], config=config, seed=seed
    )
    return run_training(classifier, config, loop, seed=seed, n_texts=len(encoded), progress=progress)


def texts_drawn(encoded: EncodedTexts, config: AdapterConfig, *, seed: int) -> Array:
    """Indices of the texts that training will draw, ascending; these alone need to be attributed.

    Where the steps do not suffice for one pass, most texts of a large corpus are never seen. Where pairs are drawn
    rather than texts, all are, since pairs have to be counted first.
    """
    kept = _trained(encoded, config)
    if config.pairing != "grouped":
        return kept
    n_seen = steps_to_take(len(kept), config) * config.batch_size + 1  # a last batch of one joins the one before
    order = np.random.default_rng(seed).permutation(len(kept))  # as the loop draws its first pass
    return np.sort(kept[order[:n_seen]])


def _trained(encoded: EncodedTexts, config: AdapterConfig) -> Array:
    """Indices of the texts to train on: those with a token to mask, the first of each set of equal texts."""
    usable = np.flatnonzero([ordinary.any() for ordinary in encoded.ordinary])
    return first_of_equals(encoded, usable) if config.deduplicate else usable


class MaskedContrastiveLearning(TrainingLoop):
    """The training loop of the loss in `losses`."""

    def __init__(
        self, classifier: TextClassifier, encoded: EncodedTexts, positions: Array, config: AdapterConfig, seed: int
    ) -> None:
        n_pairs = int((positions >= 0).sum())
        super().__init__(classifier, encoded, config, seed, None if config.pairing == "grouped" else n_pairs)
        self.positions = positions

    def loss(self, chosen: Array) -> Tensor:
        """See `losses`."""
        return self._grouped_loss(chosen) if self.config.pairing == "grouped" else self._flat_loss(chosen)

    def _grouped_loss(self, rows: Array) -> Tensor:
        """Paper Section 3.3: B anchors and all their variants."""
        own = rows[own_share(len(rows))]
        positions = self._positions(own)
        anchors, variants = self._embed_with_variants(own, positions)
        positives = anchors.new_zeros((*positions.shape, anchors.shape[-1]))
        positives[positions >= 0] = variants
        return masked_contrastive_loss(
            gather_shares(anchors, len(rows)),
            gather_shares(positives, len(rows)),
            self._positions(rows) >= 0,
            temperature=self.config.temperature,
        )

    def _flat_loss(self, chosen: Array) -> Tensor:
        """A batch of (input, slot) pairs, all in one slot: two of one input are each other's negatives. Its anchor is
        encoded once for each."""
        own = np.argwhere(self.positions >= 0)[chosen[own_share(len(chosen))]]
        slots = torch.from_numpy(own[:, 1:]).to(self.classifier.device)
        anchors, variants = self._embed_with_variants(own[:, 0], self._positions(own[:, 0]).gather(1, slots))
        return masked_contrastive_loss(
            gather_shares(anchors, len(chosen)),
            gather_shares(variants, len(chosen))[:, None],
            temperature=self.config.temperature,
        )

    def _embed_with_variants(self, rows: Array, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of some texts, shape (b, H), and of their variants, row by row and slot by slot, shape (m, H)."""
        if not len(rows):  # more processes than texts in the batch
            nothing = torch.zeros((0, self.classifier.encoder.config.hidden_size), device=self.classifier.device)
            return nothing, nothing
        batch = self.classifier.collate(self.encoded, rows)
        variants = mask_variants(batch.input_ids, positions, self.classifier.tokenizer.mask_token_id)
        own_rows = torch.arange(len(batch.indices), device=batch.input_ids.device)
        everything = batch.copies(
            torch.cat([batch.input_ids, variants.input_ids]), torch.cat([own_rows, variants.rows])
        )
        embeddings = self.forward(everything, lambda part: self.classifier.embed(part, self.config.embedding))
        return embeddings[: len(own_rows)], embeddings[len(own_rows) :]

    def _positions(self, rows: Array) -> Tensor:
        return torch.from_numpy(self.positions[rows].astype(np.int64)).to(self.classifier.device)
