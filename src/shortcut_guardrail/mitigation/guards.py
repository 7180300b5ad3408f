"""Guards: the base model at any debiasing strength, where strength 0 is the base itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from ..classifiers import WordReader, geometric_mean, log_probs
from ..models import Batch, EncodedTexts, Reader, TextClassifier
from ..text import WordFinder, shortened_texts
from ..typing import Array, Progress, Text
from .scaling import logits_by_strength, merged, scaled, strength_of_each, takes_strength_of_each


class AdapterGuard:
    """A LoRA adapter, applied to every text, or only to texts that hold a shortcut.

    Args:
        model: The PEFT model, at its trained scale.
        only: Where given, texts without any of these shortcuts are answered by the base.

    Attributes:
        plain_peft_equivalent: Whether the saved adapter alone, loaded with PEFT, gives the guarded predictions.
    """

    def __init__(self, base: TextClassifier, model: Any, only: WordFinder | None = None) -> None:
        self.base = base
        self.adapted = base.with_model(model)
        self.only = only
        self.plain_peft_equivalent = only is None

    @contextmanager
    def at(self, strength: float) -> Iterator[TextClassifier]:
        """The classifier at a strength in [0, 1], within a block; at 0 it is the base itself, bit for bit."""
        if strength == 0:
            yield self.base
        elif self.only is not None:
            yield _PerInput.around(self.adapted, self.only, strength)
        else:
            with merged(self.base, self.adapted.model, strength):
                yield self.base

    def logits_by_strength(
        self, encoded: EncodedTexts, strengths: Sequence[float], *, progress: Progress | None = None
    ) -> Array:
        """Class logits of N texts at each of S strengths, shape (S, N, C)."""
        if self.only is None:
            return logits_by_strength(self.adapted, encoded, strengths, progress=progress)
        out = np.repeat(self.base.predict_logits(encoded)[None], len(strengths), axis=0)
        rows = np.flatnonzero(self.only.present_in(encoded))
        if len(rows):
            out[:, rows] = logits_by_strength(self.adapted, encoded.select(rows), strengths, progress=progress)
        return out


class MaskGuard:
    """The shortcuts of every text, which `only` finds, are drawn toward the mask token; no weight is changed."""

    plain_peft_equivalent = False

    def __init__(self, base: Any, only: WordFinder) -> None:
        self.base = base
        self.only = only

    @contextmanager
    def at(self, strength: float) -> Iterator[Reader]:
        """See `AdapterGuard`."""
        if strength == 0:
            yield self.base
            return
        classifier = _Masking.around(self.base, self.only, strength)
        with classifier.drawing_toward_mask():
            yield classifier

    def logits_by_strength(
        self, encoded: EncodedTexts, strengths: Sequence[float], *, progress: Progress | None = None
    ) -> Array:
        """See `AdapterGuard`."""
        out = np.repeat(self.base.predict_logits(encoded)[None], len(strengths), axis=0)
        rows = np.flatnonzero(self.only.present_in(encoded))
        for i, strength in enumerate(strengths):
            if strength > 0 and len(rows):
                with self.at(strength) as classifier:
                    out[i, rows] = classifier.predict_logits(encoded.select(rows))
            if progress is not None:
                progress("Calibrating", i + 1, len(strengths))
        return out


class CutGuard(MaskGuard):
    """The shortcuts of every text are cut out in front of a classifier of which nothing but answers is known.

    At a strength between 0 and 1 its answers are mixed: log-probabilities, as the strength says.
    """

    @contextmanager
    def at(self, strength: float) -> Iterator[Reader]:
        """See `AdapterGuard`."""
        yield self.base if strength == 0 else _Cutting.around(self.base, self.only, strength)


Guard = AdapterGuard | MaskGuard
"""The base model at any strength."""


class _Targeted:
    """Treats texts with a shortcut in a way of its own, at a strength above 0: a base in front of a kind of reader."""

    finder: WordFinder
    strength: float

    @classmethod
    def around(cls, reader: Any, finder: WordFinder, strength: float) -> Self:
        """The same reader in this way; its model, its settings and what it remembers are shared."""
        twin = cls.__new__(cls)
        twin.__dict__.update(reader.__dict__)
        twin.finder, twin.strength = finder, strength
        return twin

    def fingerprint(self) -> str:
        """That of the base model, and of what is done to its texts, so that nobody takes one for the other."""
        base = super().fingerprint()  # type: ignore[misc]
        own = [base, type(self).__name__, self.finder.words, self.finder.kept, self.strength]
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()


class _Cutting(_Targeted, WordReader):
    """Shortcuts of every text are cut out before it is answered."""

    def predict_proba(
        self, texts: Sequence[Text] | EncodedTexts, *, progress: Progress | None = None, again: bool = False
    ) -> Array:
        """See `WordReader`."""
        encoded = texts if isinstance(texts, EncodedTexts) else self.encode(list(texts))  # type: ignore[arg-type]
        rest = shortened_texts(encoded, self.finder.positions(encoded), None)
        answered = super().predict_proba(rest, progress=progress, again=again)
        if self.strength == 1:
            return answered
        whole = super().predict_proba(encoded, progress=progress, again=again)
        return geometric_mean([log_probs(whole) * (1 - self.strength) + log_probs(answered) * self.strength])


class _PerInput(_Targeted, TextClassifier):
    """The adapter at the strength for texts with a shortcut, and at 0 for all others.

    A model that cannot mix strengths in a batch answers each batch twice.
    """

    mixes: bool

    @classmethod
    def around(cls, reader: Any, finder: WordFinder, strength: float) -> Self:
        """See `_Targeted`."""
        twin = super().around(reader, finder, strength)
        twin.mixes = takes_strength_of_each(reader)
        return twin

    def collate(self, encoded: EncodedTexts, indices: Sequence[int] | Array) -> Batch:
        """Each text of the batch gets its strength."""
        batch = super().collate(encoded, indices)
        strengths = [self.strength * bool(self.finder.tokens(encoded, int(i)).any()) for i in batch.indices]
        return batch._replace(strengths=torch.tensor(strengths, device=self.device))

    def answers(self, batch: Batch) -> Tensor:
        """See `TextClassifier`."""
        if self.mixes:
            with strength_of_each(self, batch):
                return super().answers(batch)
        assert batch.strengths is not None
        with scaled(self.model, self.strength):
            guarded = super().answers(batch)
        with self.model.disable_adapter():
            return torch.where(batch.strengths[:, None, None] > 0, guarded, super().answers(batch))


class _Masking(_Targeted, TextClassifier):
    """Shortcuts of every text are drawn toward the mask token.

    Where a shortcut stands is written into the token ids themselves: an id raised by the size of the vocabulary means
    "this token, drawn toward the mask token". It so survives whatever else is done to a batch, such as masking another
    token of it, and is read where ids become vectors.
    """

    def collate(self, encoded: EncodedTexts, indices: Sequence[int] | Array) -> Batch:
        """Tokens of shortcuts are marked, and are ordinary no more: there is nothing to attribute to them."""
        batch = super().collate(encoded, indices)
        marked = torch.zeros_like(batch.ordinary)
        for row, i in enumerate(batch.indices):
            tokens = torch.from_numpy(self.finder.tokens(encoded, int(i)))
            marked[row, : len(tokens)] = tokens.to(marked.device)
        ids = batch.input_ids + marked * self._vocabulary.num_embeddings
        return batch._replace(input_ids=ids, ordinary=batch.ordinary & ~marked)

    @property
    def _vocabulary(self) -> Any:
        return self.plain_model.get_input_embeddings()

    @contextmanager
    def drawing_toward_mask(self) -> Iterator[None]:
        """Within the block the model understands marked ids."""
        size, mask_id, strength = self._vocabulary.num_embeddings, self.tokenizer.mask_token_id, self.strength
        marks: list[Tensor] = []

        def read(_module: nn.Module, arguments: tuple[Tensor]) -> tuple[Tensor]:
            marks[:] = [arguments[0] >= size]
            return (torch.where(marks[0], arguments[0] - size, arguments[0]),)

        def draw(module: nn.Module, _arguments: Any, vectors: Tensor) -> Tensor:
            mask: Tensor = module.weight[mask_id].to(vectors.dtype)  # type: ignore[index]
            return torch.where(marks[0][..., None], (1 - strength) * vectors + strength * mask, vectors)

        handles = [self._vocabulary.register_forward_pre_hook(read), self._vocabulary.register_forward_hook(draw)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
