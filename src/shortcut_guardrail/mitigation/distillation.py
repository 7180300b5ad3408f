"""Counterfactual distillation: the adapted model is to answer as the base does without the shortcuts.

With x a text, x' the same with the shortcuts cut out, f the frozen base's logits and g the adapted model's,

    L = T^2 / B * sum_i KL( softmax(f(x'_i) / T) || softmax(g(x_i) / T) ).

For texts without a shortcut, x' is the text itself, so that the same loss keeps the base's answer. Such texts come a
second time, with a shortcut put in that stands in another text: the answer due is still that of the text itself, which
no gap has touched. That is more to learn from where few texts hold a shortcut. Mask tokens in place of gaps, several in
a row above all, move answers more than a gap does (docs/research/strategies-measured.md). Head and backbone stay
frozen: only LoRA factors are trained.

A word that must *not decide alone* is put into texts in the same way. What that does to the base's logits on the mean
over texts y without a shortcut, a = mean of f(y with the word) - f(y), is what the word does alone. A text that holds
the word keeps the base's answer, with it, where that is the same without it. Where the word decides, f(x) - a is due:
what the word does together with the rest stays. Such texts have nine in ten of the places for texts with a shortcut.

A head with several labels asks a question for each, and the loss is the sum over them. Only the label that is repaired
is taught its answer without the shortcuts. To the other questions the base's own answer to the same text is due.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..config import GuardrailConfig
from ..models import EncodedTexts, Reader, TextClassifier
from ..shortcuts import Shortcuts
from ..strength import Counterfactual
from ..text import WordFinder, shortened_texts, with_insertions
from ..typing import Array, Progress
from .lora import attach_adapter, seeded
from .training import AdapterTraining, TrainingLoop, first_of_equals, run_training

_BEARING_SHARE, _HELD_SHARE = 0.5, 0.9  # of a batch: texts with a shortcut; of these: those that no word was put into


def counterfactual(
    base: Reader, encoded: EncodedTexts, shortcuts: Shortcuts, *, seed: int = 0, progress: Progress | None = None
) -> Counterfactual:
    """Ask the frozen base about N texts, those with a shortcut without it.

    If each text holds a shortcut, what a word does alone is its mean effect in them. `seed` draws where it is put in.
    """
    positions = shortcuts.finder.positions(encoded)
    bearing = np.array([len(chosen) > 0 for chosen in positions], dtype=bool)
    rows, rest = np.flatnonzero(bearing), np.flatnonzero(~bearing)
    logits = np.empty((len(encoded), base.n_classes), dtype=np.float32)
    logits[rest] = base.predict_logits(encoded.select(rest), progress=progress)
    if len(rows):
        texts = shortened_texts(encoded.select(rows), [positions[r] for r in rows], base.mask_token_id)
        logits[rows] = base.predict_logits(texts)
    alone = shortcuts.alone.positions(encoded) if shortcuts.alone else []
    if not (held := np.array([i for i, tokens in enumerate(alone) if len(tokens)], dtype=np.int64)).size:
        return Counterfactual(logits, bearing)
    others = [np.setdiff1d(positions[i], alone[i]) for i in held]
    with_them = base.predict_logits(shortened_texts(encoded.select(held), others, base.mask_token_id))
    effect = with_them - logits[held]
    decides = with_them.argmax(axis=1) != logits[held].argmax(axis=1)
    if len(rest) and decides.any():
        words, rng = [alone[i] for i in held], np.random.default_rng([seed, 2])
        put_in = with_insertions(encoded.select(rest), encoded.select(held), words, max_length=base.longest, rng=rng)
        effect = base.predict_logits(put_in, progress=progress) - logits[rest]
    logits[held] = with_them - decides[:, None] * effect.mean(axis=0)
    return Counterfactual(logits, bearing, held)


def with_insertions_beside(
    base: Reader, encoded: EncodedTexts, target: Counterfactual, shortcuts: Shortcuts, seed: int
) -> tuple[EncodedTexts, Counterfactual]:
    """What tells of a strength where words must not decide alone: the texts, and copies with words put in."""
    examples = encoded, target.logits, target.bearing
    texts, logits, bearing = with_shortcuts_put_in(examples, shortcuts.finder, base.longest, seed)
    return texts, Counterfactual(logits, bearing)


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
    """
    adapter, temperature = config.adapter, config.distill.temperature
    if not target.bearing.any():
        with seeded(seed):
            return attach_adapter(base, adapter).requires_grad_(False), AdapterTraining(len(encoded))
    kept = np.arange(len(encoded))
    if adapter.deduplicate:
        kept = first_of_equals(encoded, kept)
    examples = encoded.select(kept), target.probabilities(temperature)[kept], target.bearing[kept]
    texts, taught, bearing = with_shortcuts_put_in(examples, finder, base.longest, seed)
    teacher = taught[:, None]
    if base.heads.n_questions > 1:
        own = torch.from_numpy(base.predict_answers(texts, progress=progress))
        teacher = own.div(temperature).softmax(dim=-1).numpy()
        teacher[:, base.heads.place] = taught
    kinds = bearing.astype(np.int8)
    kinds[np.flatnonzero(np.isin(kept, target.alone))] = 2
    examples = texts, teacher, kinds

    # What is put in makes an epoch no longer.
    loop = partial(Distiller, examples=examples, config=config, seed=seed, n_items=len(kept))
    model, training = run_training(base, adapter, loop, seed=seed, n_texts=len(encoded), progress=progress)
    return model, replace(training, n_trained=len(kept))


Examples = tuple[EncodedTexts, Array, Array]
"""N texts, the teacher's probabilities for them, shape (N, C), or (N, Q, C) for all questions of the head, and which of
them hold a shortcut, shape (N,), bool."""


def with_shortcuts_put_in(examples: Examples, finder: WordFinder, max_length: int, seed: int) -> Examples:
    """As many more as there are texts without a shortcut: the same with one put in, and the same answer due."""
    encoded, teacher, bearing = examples
    rest = np.flatnonzero(~bearing)
    if not len(rest):
        return examples
    source, rng = encoded.select(np.flatnonzero(bearing)), np.random.default_rng([seed, 1])
    added = with_insertions(encoded.select(rest), source, finder.positions(source), max_length=max_length, rng=rng)
    return (
        _joined(encoded, added),
        np.concatenate([teacher, teacher[rest]]),
        np.concatenate([bearing, np.ones(len(rest), dtype=bool)]),
    )


def _joined(first: EncodedTexts, second: EncodedTexts) -> EncodedTexts:
    """The texts of both, one after another."""
    values: dict[str, Any] = {}
    for name in (field.name for field in fields(EncodedTexts)):
        one, other = getattr(first, name), getattr(second, name)
        if isinstance(one, np.ndarray):
            values[name] = np.concatenate([one, other])
        else:
            values[name] = None if one is None else [*one, *other]
    return EncodedTexts(**values)


class Distiller(TrainingLoop):
    """The training loop of the loss above. Of each text `examples` has 1 where it holds a shortcut, else 0, and 2 where
    one that must not decide alone stood from the start."""

    def __init__(
        self, classifier: TextClassifier, examples: Examples, config: GuardrailConfig, seed: int, n_items: int
    ) -> None:
        encoded, teacher, self.kinds = examples
        super().__init__(classifier, encoded, config.adapter, seed, n_items)
        self.teacher = torch.from_numpy(teacher)
        self.temperature = config.distill.temperature

    def epoch(self) -> Iterator[Array]:
        """Batches in which texts with a shortcut have their share, as often as they must come for that."""
        apart, bearing, rest = (np.flatnonzero(self.kinds == kind) for kind in (2, 1, 0))
        if not len(rest):
            yield from super().epoch()
            return
        size = min(self.config.batch_size, self.n_items)
        n_bearing = max(1, round(_BEARING_SHARE * size))
        n_apart = min(round(_HELD_SHARE * n_bearing), n_bearing - 1) if len(apart) else 0
        places = (n_apart, apart), (n_bearing - n_apart, bearing), (size - n_bearing, rest)
        streams = [(n, self._endless(rows)) for n, rows in places if n]
        for _ in range(-(-self.n_items // size)):
            yield np.array([next(rows) for n, rows in streams for _ in range(n)])

    def _endless(self, rows: Array) -> Iterator[int]:
        while True:
            yield from self.rng.permutation(rows).tolist()

    def loss(self, chosen: Array) -> Tensor:
        """See the head of this module."""
        logits = self.answers(chosen)
        teacher = self.teacher[chosen].to(logits.device)
        divergence = F.kl_div((logits / self.temperature).log_softmax(dim=-1), teacher, reduction="none")
        return self.temperature**2 * divergence.sum(dim=(1, 2)).mean()
