"""What the base model answers without the shortcuts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..typing import Array


@dataclass(frozen=True)
class Counterfactual:
    """What the base answers where the shortcuts are neutralised.

    Attributes:
        logits: Its class logits on the texts without the shortcuts, shape (N, C). For a text that holds none they are
            those of the text itself.
        bearing: Which texts hold a shortcut, shape (N,), bool.
    """

    logits: Array
    bearing: Array

    def probabilities(self, temperature: float = 1.0) -> Array:
        """The teacher's answer: softmax(logits / T), shape (N, C), float32."""
        return torch.from_numpy(self.logits).div(temperature).softmax(dim=-1).numpy()
