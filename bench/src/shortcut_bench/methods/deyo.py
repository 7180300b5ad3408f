"""DeYO: entropy minimisation on texts whose answer needs them to be whole (Lee et al., ICLR 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from shortcut_guardrail.models import Batch, TextClassifier

from .adaptation import IMAGENET_ENTROPY, Adapter, Start, Tent, check_shares
from .entropy import deyo_loss, plpd, scaled_entropy, softmax_entropy
from .training import require

BIASED_RATE = 5 * 2.5e-4
"""The official code's for Waterbirds: a ResNet's rate and the multiplier that it insists on for biased data."""


class DeyoAdapter(Adapter):
    """DeYO: certain rows whose answer needs the text to be whole."""

    method: DeYO

    def __init__(self, classifier: TextClassifier, method: DeYO, rng: np.random.Generator) -> None:
        super().__init__(classifier, method)
        self.filter_margin = scaled_entropy(method.filter_margin * IMAGENET_ENTROPY, self.n_classes)
        self.entropy_margin = scaled_entropy(method.entropy_margin * IMAGENET_ENTROPY, self.n_classes)
        self._rng = rng

    def _update(self, batch: Batch, logits: Tensor) -> None:
        entropies = softmax_entropy(logits)
        rows = (entropies < self.filter_margin).nonzero()[:, 0]
        if not len(rows):
            return
        destroyed = destroy(
            batch, rows, self._rng, how=self.method.destroy, mask_token_id=self.classifier.tokenizer.mask_token_id
        )
        with torch.no_grad():
            differences = plpd(logits[rows], self.classifier.logits(destroyed))
        self.counts.forward += len(rows)
        keep = differences > self.method.plpd_margin
        if not keep.any():
            return
        loss = deyo_loss(entropies[rows][keep], differences[keep], self.entropy_margin)
        self._descend(loss, int(keep.sum()), int(keep.sum()))


def destroy(
    batch: Batch, rows: Tensor, rng: np.random.Generator, *, how: Literal["shuffle", "mask"], mask_token_id: int
) -> Batch:
    """Some texts of a batch with their ordinary tokens shuffled, or half of them masked; the rest stays in place.

    Args:
        batch: B texts.
        rows: Which of them, shape (S,).
        rng: Shuffles, or chooses.
        how: `shuffle` is the text's counterpart of DeYO's shuffled patches; `mask` of its occlusion.
        mask_token_id: What masks.
    """
    copies = batch.input_ids[rows].clone()
    for row, ordinary in zip(copies, batch.ordinary[rows], strict=True):
        places = ordinary.nonzero()[:, 0]
        order = torch.from_numpy(rng.permutation(len(places))).to(places.device)
        if how == "shuffle":
            row[places] = row[places[order]]
        else:
            row[places[order[: math.ceil(len(places) / 2)]]] = mask_token_id
    return batch.copies(copies, rows)


@dataclass(frozen=True)
class DeYO(Tent):
    """Destroy your object, for text.

    The defaults are what the official code takes for ImageNet-C under mixed shifts and a ViT: 1e-3 for 64 rows, in
    proportion to the batch. `biased` is what it takes for data with a spurious correlation (Waterbirds) and a ResNet.

    Attributes:
        plpd_margin: Rows count whose answer loses more probability than this when the text is destroyed.
        filter_margin: Rows count whose entropy is below this share of ln C.
        entropy_margin: E_0 of the weight 1 / exp(E - E_0), as a share of ln C.
        destroy: `shuffle` the ordinary tokens, or `mask` half of them.
    """

    name: str = "deyo"
    learning_rate: float = 1e-3
    optimizer: Literal["adam", "sgd"] = "sgd"
    skip_top: float = 0.25
    plpd_margin: float = 0.2
    filter_margin: float = 0.5
    entropy_margin: float = 0.4
    destroy: Literal["shuffle", "mask"] = "shuffle"

    @classmethod
    def biased(cls, **options: Any) -> DeYO:
        """The official code's values for Waterbirds: five times the rate of a ResNet, 2.5e-4, and a margin of .5.

        That rate is for batches of 32 rows or more; below, the code takes 5 * 2.5e-4 * rows / 32.
        """
        return cls(**{"name": "deyo-biased", "learning_rate": BIASED_RATE, "plpd_margin": 0.5, **options})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self, "filter_margin", "entropy_margin")
        require(-1 <= self.plpd_margin < 1, f"plpd_margin must be at least -1 and below 1, but is {self.plpd_margin}.")
        require(self.destroy in ("shuffle", "mask"), f"destroy must be shuffle or mask, but is {self.destroy!r}.")

    def _adapter(self, start: Start) -> Adapter:
        return DeyoAdapter(start.classifier(), self, np.random.default_rng(start.seed))
