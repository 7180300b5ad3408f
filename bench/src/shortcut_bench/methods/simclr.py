"""A contrast between two changed copies of a text: SimCLR (Chen et al., ICML 2020), with EDA's changes for images'.

docs/research/methods/controls.md says what is faithful and what differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from shortcut_guardrail.config import AdapterConfig
from shortcut_guardrail.data import Texts
from shortcut_guardrail.models import EncodedTexts, TextClassifier

from ..finetuning import Objective
from .controls import SimCSEAdapter
from .supcon import supcon_loss
from .training import require
from .views import delete, swap, view_of


class ViewContrast(Objective):
    """The contrast between two views of each text: every other view of the batch is a negative.

    Args:
        classifier: Around the model that is trained.
        texts: All N texts.
        temperature: tau.
        embedding: How a text is embedded; see `TextClassifier.embed`.
        deleted: Share of words that a view lacks on average.
        swapped: Share of words of a text that is the number of swaps.
        seed: Decides the views.
    """

    def __init__(
        self,
        classifier: TextClassifier,
        texts: Texts,
        *,
        temperature: float,
        embedding: Any,
        deleted: float,
        swapped: float,
        seed: int,
    ) -> None:
        self._classifier, self._texts = classifier, texts
        self._temperature, self._embedding = temperature, embedding
        self._changes = (partial(swap, share=swapped), partial(delete, share=deleted))
        self._generator = torch.Generator().manual_seed(seed)

    def views(self, rows: list[int]) -> Texts:
        """Two views of each text, drawn anew: those of text i are at i and at len(rows) + i."""
        texts = [self._texts[row] for row in rows * 2]
        for change in self._changes:
            texts = [view_of(text, change, self._generator) for text in texts]
        return cast(Texts, texts)

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch."""
        encoded = self._classifier.encode(self.views(rows.tolist()))
        batch = self._classifier.collate(encoded, range(len(encoded)))
        embeddings = self._classifier.embed(batch, self._embedding)
        return supcon_loss(embeddings, torch.arange(len(rows), device=embeddings.device).repeat(2), self._temperature)


@dataclass(frozen=True)
class SimCLRAdapter(SimCSEAdapter):
    """An adapter of the guardrail's size and movement that draws two views of a text together.

    Attributes:
        deleted: Share of words that a view lacks on average, in [0, 1).
        swapped: Share of words that is the number of swaps, at least 1, in [0, 1].
    """

    name: str = "simclr_adapter"
    deleted: float = 0.1
    swapped: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.deleted < 1, f"deleted must be at least 0 and below 1, but is {self.deleted}.")
        require(0 <= self.swapped <= 1, f"swapped must lie between 0 and 1, but is {self.swapped}.")

    def _objective(
        self, classifier: TextClassifier, encoded: EncodedTexts, adapter: AdapterConfig, seed: int
    ) -> Objective:
        return ViewContrast(
            classifier,
            encoded.texts,
            temperature=self.temperature,
            embedding=adapter.embedding,
            deleted=self.deleted,
            swapped=self.swapped,
            seed=seed,
        )

    def _warn_without_dropout(self, base: TextClassifier) -> None:
        """Views differ without it."""
