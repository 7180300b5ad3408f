"""What the base model answers without the shortcuts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..typing import Array


@dataclass(frozen=True)
class Counterfactual:
    """What the base answers where the shortcuts are neutralised.

    Attributes:
        logits: Its class logits on each counterfactual text, shape (V, N, C); V is 2 for the teacher `both`. For a
            text without a shortcut they are those of the text itself.
        base: Its class logits on the texts as they are, shape (N, C).
        bearing: Which texts hold a shortcut, shape (N,), bool.
    """

    logits: Array
    base: Array
    bearing: Array

    def probabilities(self, temperature: float = 1.0) -> Array:
        """The teacher's answer: mean over the counterfactual texts of softmax(logits / T), shape (N, C), float32."""
        return torch.from_numpy(self.logits).div(temperature).softmax(dim=-1).mean(dim=0).numpy()

    def answers(self) -> Array:
        """The most probable class of each text, shape (N,)."""
        return np.asarray(self.probabilities().argmax(axis=1))
