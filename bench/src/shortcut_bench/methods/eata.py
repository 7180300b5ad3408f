"""EATA: entropy minimisation on certain and unlike texts, held to the source (Niu et al., ICML 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from shortcut_guardrail.errors import DataError
from shortcut_guardrail.models import Batch, EncodedTexts, TextClassifier

from ..systems import Need
from .adaptation import IMAGENET_ENTROPY, Adapter, Start, Tent, check_shares, in_order
from .entropy import eata_loss, eata_selection, scaled_cosine, scaled_entropy, softmax_entropy
from .training import require


class EataAdapter(Adapter):
    """EATA: certain and unlike rows, weighted by certainty, held to the source by Fisher information."""

    method: EATA

    def __init__(self, classifier: TextClassifier, method: EATA, source: EncodedTexts | None) -> None:
        super().__init__(classifier, method)
        self.entropy_margin = scaled_entropy(method.entropy_margin * IMAGENET_ENTROPY, self.n_classes)
        self.cosine_margin = scaled_cosine(method.cosine_margin, self.n_classes)
        self.mean_probs: Tensor | None = None
        self.fisher = {} if source is None else self._fisher(source)

    def _fisher(self, source: EncodedTexts) -> dict[str, Tensor]:
        """Mean over batches of the squared gradient of CE by the model's own answers, name by name."""
        total = {name: torch.zeros_like(value) for name, value in self.parameters.items()}
        chunks = list(in_order(self.classifier, source, self.method.batch_size))
        for batch in chunks:
            with torch.enable_grad():
                logits = self.classifier.logits(batch)
                loss = F.cross_entropy(logits, logits.argmax(dim=-1))
            gradients = torch.autograd.grad(loss, list(self.parameters.values()))
            for (_name, value), gradient in zip(total.items(), gradients, strict=True):
                value += gradient.detach() ** 2
            self.counts.forward += 2 * len(batch.indices)
        return {name: value / len(chunks) for name, value in total.items()}

    def penalty(self) -> Tensor:
        """beta * sum_k F_k (theta_k - theta_0k)^2, a scalar."""
        terms = [(self.fisher[name] * (self.parameters[name] - self.start[name]) ** 2).sum() for name in self.fisher]
        return self.method.fisher_weight * torch.stack(terms).sum()

    def _update(self, batch: Batch, logits: Tensor) -> None:
        rows, self.mean_probs = eata_selection(
            logits, self.mean_probs, entropy_margin=self.entropy_margin, cosine_margin=self.cosine_margin
        )
        if not len(rows):
            return
        loss = eata_loss(softmax_entropy(logits[rows]), self.entropy_margin)
        self._descend(loss + self.penalty() if self.fisher else loss, len(rows), len(rows))


@dataclass(frozen=True)
class EATA(Tent):
    """Efficient anti-forgetting test-time adaptation.

    Batch (64), rate, momentum and constants are the authors' for ImageNet-C. What departs:

    - Source rows. Theirs are 2,000 images drawn from the undistorted ImageNet validation set; here they are the first
      `fisher_rows` of the dev texts, in their order, or all where there are fewer (100 on GoEmotions). At shortcut
      strength 1 the shortcut holds in them, so that it is part of what is held on to.
    - At scale `small` batches of 16 and three passes at the same rate. F is a mean of squared gradients of a batch's
      mean loss, so that it is larger in smaller batches, and beta stays.
    - The threshold of the cosine; see `entropy.scaled_cosine`.

    Attributes:
        entropy_margin: Rows count whose entropy is below this share of ln C.
        cosine_margin: epsilon at 1000 classes; see `entropy.scaled_cosine`.
        fisher_weight: beta; 0 leaves the anchor out (the paper's ETA), and needs no source texts.
        fisher_rows: Source texts that the Fisher information is estimated on: dev texts.
    """

    name: str = "eata"
    learning_rate: float = 2.5e-4
    optimizer: Literal["adam", "sgd"] = "sgd"
    entropy_margin: float = 0.4
    cosine_margin: float = 0.05
    fisher_weight: float = 2000.0
    fisher_rows: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self, "entropy_margin")
        require(self.cosine_margin > 0, f"cosine_margin must be above 0, but is {self.cosine_margin}.")
        require(self.fisher_weight >= 0, f"fisher_weight must be at least 0, but is {self.fisher_weight}.")
        require(self.fisher_rows >= 1, f"fisher_rows must be at least 1, but is {self.fisher_rows}.")

    def _further_needs(self) -> set[Need]:
        return {Need.DEV_TEXTS} if self.fisher_weight else set()

    def _adapter(self, start: Start) -> Adapter:
        classifier = start.classifier()
        if not self.fisher_weight:
            return EataAdapter(classifier, self, None)
        require(
            bool(start.source),
            f"'{self.name}' needs source texts to hold on to, but there are none. Give dev texts, or set fisher_weight "
            "to 0.",
            DataError,
        )
        return EataAdapter(classifier, self, classifier.encode(start.source[: self.fisher_rows]))
