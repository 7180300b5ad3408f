"""A system of one's own: it answers every text with the class that is most frequent in the support set.

Any method that is worth its cost is better. It shows what a system has to have: a name, what it needs, its options as
JSON types, and `fit`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.systems import Material, Need
from shortcut_guardrail.data import Texts, to_json, write_folder


@dataclass(frozen=True)
class Majority:
    """The share of each class in the support set, for every text.

    Attributes:
        smoothing: Rows that are added to each class, so that none has probability 0.
    """

    smoothing: float = 1.0
    name: str = field(default="majority", init=False)
    needs: frozenset[Need] = field(default=frozenset({Need.SUPPORT}), init=False)

    def config(self) -> dict[str, Any]:
        """Everything that decides the outcome: runs with the same answer here are not computed again."""
        return {"smoothing": self.smoothing}

    def fit(self, material: Material, *, seed: int, progress: Any = None) -> FittedMajority:
        """Counts. `material` holds what `needs` declares, and nothing else."""
        assert material.support is not None, "it is declared"
        counts = np.bincount(material.support.labels, minlength=len(material.label_names)) + self.smoothing
        return FittedMajority(counts / counts.sum(), labels_spent=len(material.support))


@dataclass(frozen=True)
class FittedMajority:
    """What `Majority` became; `shares` has shape (C,)."""

    shares: np.ndarray[Any, Any]
    labels_spent: int
    classifier: None = None  # no model answers, so words are masked in the texts to see what hangs on them
    forward_equivalents: float = 0.0

    def predict_proba(self, texts: Texts, *, progress: Any = None) -> np.ndarray[Any, Any]:
        """Class probabilities, shape (N, C)."""
        return np.tile(self.shares.astype(np.float32), (len(texts), 1))

    def info(self) -> dict[str, Any]:
        """What a result tells about the fit."""
        return {"labels_spent": self.labels_spent, "seconds": {}, "forward_equivalents_per_text": 0.0}

    def save(self, folder: Path) -> None:
        """Writes the shares; the folder appears whole or not at all."""
        record = to_json({"shares": self.shares.tolist(), "labels_spent": self.labels_spent})
        name = "majority.json"
        write_folder(folder, lambda target: (target / name).write_text(record, encoding="utf-8"), key=name)
