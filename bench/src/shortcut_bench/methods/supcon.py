"""Supervised contrastive learning on the support rows: texts of one class are drawn together, those of others apart.

The loss is that of Khosla et al. (NeurIPS 2020), beside cross-entropy as in Gunel et al. (ICLR 2021).
docs/research/methods/label-budget.md says what is faithful and what differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..finetuning import FinetuneConfig, Objective
from ..systems import Material
from .same_budget import FEW_SHOT, FewShot
from .training import pooled_output, require, resolve_recipe

SOURCE = replace(FEW_SHOT, epochs=60)
"""That of `few_shot`, whose 20 epochs on 40 rows are 60 steps: as many, of all rows each."""


def supcon_loss(features: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """-mean_i 1/|P(i)| sum_{p in P(i)} log( exp(s_ip / tau) / sum_{a != i} exp(s_ia / tau) ), a scalar.

    s is the cosine and P(i) the other rows of i's label: L_out of Khosla et al., as their code has it. A row without
    such another gives 0 and counts in the mean. With a label of its own for each text it is the loss of SimCLR.

    Args:
        features: Shape (B, H).
        labels: Shape (B,).
        temperature: tau, above 0.
    """
    units = F.normalize(features.float(), dim=-1)
    alone = torch.eye(len(units), dtype=torch.bool, device=units.device)
    # A finite number: a row that is by itself would have no distribution, and its gradient would be no number.
    logits = (units @ units.T / temperature).masked_fill(alone, torch.finfo(units.dtype).min)
    positive = (labels[:, None] == labels[None, :]) & ~alone
    log_probs = logits.log_softmax(dim=-1).masked_fill(~positive, 0.0)
    return -(log_probs.sum(dim=-1) / positive.sum(dim=-1).clamp(min=1)).mean()


class ContrastAndCrossEntropy(Objective):
    """(1 - lambda) CE + lambda SCL of one forward pass.

    Args:
        weight: lambda, in [0, 1].
        temperature: tau of the contrastive part.
    """

    def __init__(self, weight: float, temperature: float) -> None:
        self._weight, self._temperature = weight, temperature
        self._encoder: Any = None

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Finds the encoder, whose output is contrasted."""
        self._encoder = model.base_model

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch."""
        labels = inputs.pop("labels")
        output, embeddings = pooled_output(model, self._encoder, inputs)
        contrast = supcon_loss(embeddings, labels, self._temperature)
        return (1 - self._weight) * F.cross_entropy(output.logits.float(), labels) + self._weight * contrast


@dataclass(frozen=True)
class SupConSupport(FewShot):
    """The base classifier fine-tuned further on the support rows, all weights, with a supervised contrastive loss.

    Attributes:
        name: The name in tables.
        recipe: See `training.resolve_recipe`; but all rows are one batch, whatever its `batch_size`.
        weight: lambda, the share of the contrastive loss, in [0, 1].
        temperature: tau, above 0.
    """

    name: str = "supcon_support"
    weight: float = 0.9
    temperature: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.weight <= 1, f"weight must lie between 0 and 1, but is {self.weight}.")
        require(self.temperature > 0, f"temperature must be above 0, but is {self.temperature}.")

    def _how(self, material: Material, n_rows: int) -> tuple[FinetuneConfig, Objective]:
        # In batches of few rows a class is often there once.
        recipe = replace(resolve_recipe(self.recipe, SOURCE, material), batch_size=n_rows)
        return recipe, ContrastAndCrossEntropy(self.weight, self.temperature)
