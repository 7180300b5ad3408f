"""Counterfactual distillation: the adapted model is to answer as the base does without the shortcuts.

With x a text, x' the same with the shortcuts cut out, f the frozen base's logits and g the adapted model's,

    L = T^2 / B * sum_i KL( softmax(f(x'_i) / T) || softmax(g(x_i) / T) ).

For texts without a shortcut, x' is the text itself, so that the same loss keeps the base's answer. Such texts come a
second time, with a shortcut put in that stands in another text: the answer due is still that of the text itself, which
no gap has touched. That is more to learn from where few texts hold a shortcut. Mask tokens in place of gaps, several in
a row above all, move answers more than a gap does (docs/research/strategies-measured.md). Head and backbone stay
frozen: only LoRA factors are trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..config import GuardrailConfig
from ..models import EncodedTexts, TextClassifier
from ..strength import Counterfactual
from ..text import WordFinder, shortened_texts, with_insertions
from ..typing import Array, Progress
from .lora import untrained_adapter
from .training import AdapterTraining, TrainingLoop, first_of_equals, run_training

_BEARING_SHARE = 0.5  # of every batch, where there are texts of both kinds


def counterfactual(
    base: TextClassifier, encoded: EncodedTexts, finder: WordFinder, *, progress: Progress | None = None
) -> Counterfactual:
    """Ask the frozen base about N texts, those with a shortcut without it."""
    logits = base.predict_logits(encoded, progress=progress)
    positions = finder.positions(encoded)
    bearing = np.array([len(chosen) > 0 for chosen in positions], dtype=bool)
    rows = np.flatnonzero(bearing)
    if len(rows):
        texts = shortened_texts(encoded.select(rows), [positions[r] for r in rows], base.tokenizer.mask_token_id)
        logits[rows] = base.predict_logits(texts)
    return Counterfactual(logits, bearing)


def distill_adapter(
    base: TextClassifier,
    encoded: EncodedTexts,
    target: Counterfactual,
    finder: WordFinder,
    config: GuardrailConfig,
    *,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Any, AdapterTraining]:
    """Train an adapter to answer as the base does without the shortcuts; without any, it is left as it starts.

    Args:
        encoded: N deployment texts.
        target: What the base answers to them without the shortcuts.
        seed: The same seed gives the same adapter.

    Returns:
        The PEFT model and the record of its training.

    Raises:
        RunError: The loss became NaN, or frozen weights changed.
    """
    adapter, temperature = config.adapter, config.distill.temperature
    if not target.bearing.any():
        return untrained_adapter(base, adapter, seed=seed), AdapterTraining(len(encoded))
    kept = np.arange(len(encoded))
    if adapter.deduplicate:
        kept = first_of_equals(encoded, kept)
    examples = _Examples(encoded.select(kept), target.probabilities(temperature)[kept], target.bearing[kept])
    examples = examples.with_insertions(finder, base.max_length, seed)

    def trainer(adapted: TextClassifier) -> TrainingLoop:
        # Insertions make an epoch no longer.
        return _Distiller(adapted, examples, config, seed, n_items=len(kept))

    model, training = run_training(base, adapter, trainer, seed=seed, n_texts=len(encoded), progress=progress)
    return model, replace(training, n_trained=len(kept))


@dataclass(frozen=True, eq=False)
class _Examples:
    """What is trained on: texts, the teacher's probabilities for them, and which of them hold a shortcut."""

    encoded: EncodedTexts
    teacher: Array
    bearing: Array

    def with_insertions(self, finder: WordFinder, max_length: int, seed: int) -> _Examples:
        """As many more as there are texts without a shortcut: the same with one put in, and the same answer due."""
        rows, rest = np.flatnonzero(self.bearing), np.flatnonzero(~self.bearing)
        if not len(rest):
            return self
        source, rng = self.encoded.select(rows), np.random.default_rng([seed, 1])
        positions = finder.positions(source)
        added = with_insertions(self.encoded.select(rest), source, positions, max_length=max_length, rng=rng)
        return _Examples(
            _joined(self.encoded, added),
            np.concatenate([self.teacher, self.teacher[rest]]),
            np.concatenate([self.bearing, np.ones(len(rest), dtype=bool)]),
        )


def _joined(first: EncodedTexts, second: EncodedTexts) -> EncodedTexts:
    """The texts of both, one after another."""
    return EncodedTexts(
        texts=cast(Any, [*first.texts, *second.texts]),
        input_ids=first.input_ids + second.input_ids,
        token_type_ids=None
        if first.token_type_ids is None or second.token_type_ids is None
        else first.token_type_ids + second.token_type_ids,
        ordinary=first.ordinary + second.ordinary,
        offsets=first.offsets + second.offsets,
        segments=first.segments + second.segments,
        truncated=np.concatenate([first.truncated, second.truncated]),
    )


class _Distiller(TrainingLoop):
    """The training loop of the loss above."""

    def __init__(
        self, classifier: TextClassifier, examples: _Examples, config: GuardrailConfig, seed: int, n_items: int
    ) -> None:
        super().__init__(classifier, examples.encoded, config.adapter, seed, n_items)
        self.teacher = torch.from_numpy(examples.teacher)
        self.bearing = examples.bearing
        self.temperature = config.distill.temperature

    def epoch(self) -> Iterator[Array]:
        """Batches in which texts with a shortcut have their share, as often as they must come for that."""
        kinds = [np.flatnonzero(self.bearing), np.flatnonzero(~self.bearing)]
        if not len(kinds[1]):
            yield from super().epoch()
            return
        size = min(self.config.batch_size, self.n_items)
        n_bearing = max(1, round(_BEARING_SHARE * size))
        streams = [self._endless(kind) for kind in kinds]
        for _ in range(-(-self.n_items // size)):
            chosen = [next(streams[0]) for _ in range(n_bearing)]
            yield np.array(chosen + [next(streams[1]) for _ in range(size - n_bearing)])

    def _endless(self, rows: Array) -> Iterator[int]:
        while True:
            yield from self.rng.permutation(rows).tolist()

    def loss(self, chosen: Array) -> Tensor:
        """See the head of this module."""
        logits = self.class_logits(chosen)
        teacher = self.teacher[chosen].to(logits.device)
        divergence = F.kl_div((logits / self.temperature).log_softmax(dim=-1), teacher, reduction="none").sum(dim=-1)
        return self.temperature**2 * divergence.mean()
