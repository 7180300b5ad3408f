"""SAR: sharpness-aware and reliable entropy minimisation (Niu et al., ICLR 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from shortcut_guardrail.models import Batch, TextClassifier

from .adaptation import IMAGENET_ENTROPY, Adapter, Start, Tent, check_shares
from .entropy import moving_average, scaled_entropy, softmax_entropy
from .training import require


class SarAdapter(Adapter):
    """SAR: certain rows, at the worst point nearby, and back to the start when the entropy collapses."""

    method: SAR

    def __init__(self, classifier: TextClassifier, method: SAR) -> None:
        super().__init__(classifier, method)
        self.entropy_margin = scaled_entropy(method.entropy_margin * IMAGENET_ENTROPY, self.n_classes)
        self.reset_below = scaled_entropy(method.reset_below, self.n_classes)
        self.average: float | None = None

    def _update(self, batch: Batch, logits: Tensor) -> None:
        entropies = softmax_entropy(logits)
        rows = (entropies < self.entropy_margin).nonzero()[:, 0]
        if not len(rows):
            return
        self._backward(entropies[rows].mean(), 0, len(rows))
        shifts = self._climb()
        again = softmax_entropy(self.classifier.logits(batch))[rows]
        self.counts.forward += len(batch.indices)
        kept = again[again < self.entropy_margin]
        if len(kept):
            loss = kept.mean()
            self._backward(loss, len(kept), len(kept))
            self.average = moving_average(self.average, float(loss.detach()))
        self._return(shifts)
        if len(kept):
            self.optimizer.step()
            self.counts.steps += 1
        self.optimizer.zero_grad()
        if self.average is not None and self.average < self.reset_below:
            self._reset()

    @torch.no_grad()
    def _climb(self) -> list[Tensor]:
        """Move by rho along the gradient; the shift of every parameter."""
        values = list(self.parameters.values())
        gradients = [torch.zeros_like(v) if v.grad is None else v.grad for v in values]
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        shifts = [gradient * (self.method.radius / (norm + 1e-12)) for gradient in gradients]
        for value, shift in zip(values, shifts, strict=True):
            value.add_(shift)
        self.optimizer.zero_grad()
        return shifts

    @torch.no_grad()
    def _return(self, shifts: list[Tensor]) -> None:
        for value, shift in zip(self.parameters.values(), shifts, strict=True):
            value.sub_(shift)

    @torch.no_grad()
    def _reset(self) -> None:
        for name, value in self.parameters.items():
            value.copy_(self.start[name])
        self.optimizer = self._make_optimizer()
        self.average = None
        self.counts.resets += 1


@dataclass(frozen=True)
class SAR(Tent):
    """Sharpness-aware and reliable entropy minimisation.

    Attributes:
        entropy_margin: Rows count whose entropy is below this share of ln C.
        radius: rho of the sharpness-aware step.
        reset_below: The moving average of the entropy below which the model starts again, at 1000 classes; the official
            code has this 0.2 for any number of classes, which with few resets for ever.
    """

    name: str = "sar"
    learning_rate: float = 1e-3
    optimizer: Literal["adam", "sgd"] = "sgd"
    skip_top: float = 0.25
    entropy_margin: float = 0.4
    radius: float = 0.05
    reset_below: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self, "entropy_margin")
        require(self.radius >= 0, f"radius must be at least 0, but is {self.radius}.")
        require(self.reset_below >= 0, f"reset_below must be at least 0, but is {self.reset_below}.")

    def _adapter(self, start: Start) -> Adapter:
        return SarAdapter(start.classifier(), self)
