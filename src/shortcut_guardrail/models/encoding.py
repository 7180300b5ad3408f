"""Texts as the model takes them: token ids with where each token comes from, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from torch import Tensor

from ..data import Texts
from ..typing import Array


@dataclass(frozen=True)
class EncodedTexts:
    """The tokens of N texts, truncated to what the model takes, not padded.

    Attributes:
        texts: The texts as given.
        input_ids: Token ids of each text, N arrays of shape (L,), int32.
        token_type_ids: Segment ids of each text, for models that take them.
        ordinary: Which tokens come from the text itself, N bool arrays of shape (L,). An unknown word ([UNK]) is
            ordinary; [CLS], [SEP], [MASK] and padding are not, wherever they come from.
        offsets: Character span of each token in its text or pair, N arrays of shape (L, 2).
        segments: 0 for tokens of the text, 1 for its pair, -1 for tokens that the template added, N arrays of (L,).
        truncated: Which texts were longer than the limit, shape (N,), bool.
    """

    texts: Texts
    input_ids: list[Array]
    token_type_ids: list[Array] | None
    ordinary: list[Array]
    offsets: list[Array]
    segments: list[Array]
    truncated: Array

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def lengths(self) -> Array:
        """Number of tokens of each text, shape (N,)."""
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self))

    def select(self, indices: Sequence[int] | Array) -> EncodedTexts:
        """The same for some of the texts, in the order of `indices`."""

        def pick(arrays: list[Array]) -> list[Array]:
            return [arrays[i] for i in indices]

        return EncodedTexts(
            texts=cast(Texts, [self.texts[i] for i in indices]),
            input_ids=pick(self.input_ids),
            token_type_ids=None if self.token_type_ids is None else pick(self.token_type_ids),
            ordinary=pick(self.ordinary),
            offsets=pick(self.offsets),
            segments=pick(self.segments),
            truncated=self.truncated[np.asarray(indices, dtype=np.int64)],
        )

    def text_of(self, index: int, segment: int) -> str:
        """The text (segment 0) or its pair (segment 1)."""
        text = self.texts[index]
        return text if isinstance(text, str) else text[segment]

    def visible_text(self, index: int, segment: int = 0) -> str:
        """The part of a text that the model sees after truncation."""
        spans = self.offsets[index][(self.segments[index] == segment)]
        return self.text_of(index, segment)[: int(spans[:, 1].max())] if len(spans) else ""

    def tokens_within(self, index: int, segment: int, start: int, end: int) -> Array:
        """Which ordinary tokens of a text or its pair have a character in a span of it, shape (L,), bool.

        With the first come those right before it that are nothing but the space there, as some tokenizers have them.
        """
        offsets = self.offsets[index]
        within: Array = (offsets[:, 0] < end) & (offsets[:, 1] > start) & (self.segments[index] == segment)
        within &= self.ordinary[index]
        first = int(within.argmax())
        while within.any() and first > 0 and self._is_blank(index, first - 1, segment):
            first -= 1
            within[first] = True
        return within

    def _is_blank(self, index: int, position: int, segment: int) -> bool:
        """Whether an ordinary token of a text or its pair has no character that one can see."""
        start, end = (int(x) for x in self.offsets[index][position])
        inside = self.ordinary[index][position] and self.segments[index][position] == segment
        return bool(inside) and not self.text_of(index, segment)[start:end].strip()

    def token_text(self, index: int, position: int) -> str:
        """The characters behind one token, lower case; a piece from inside a word starts with `##`."""
        start, end = (int(x) for x in self.offsets[index][position])
        text = self.text_of(index, max(int(self.segments[index][position]), 0))
        piece = text[start:end]
        inside = start > 0 and piece[:1].isalnum() and text[start - 1].isalnum()
        return ("##" if inside else "") + piece.strip().casefold()


class Batch(NamedTuple):
    """One padded batch on the device.

    Attributes:
        indices: Which of the encoded texts these are, shape (B,).
        input_ids: Shape (B, L).
        attention_mask: Shape (B, L).
        token_type_ids: Shape (B, L), or `None` for models without segments.
        ordinary: Shape (B, L), bool; False on padding.
        strengths: Debiasing strength of each sequence, shape (B,), for a model with an adapter; `None` leaves the
            adapter at its own.
    """

    indices: Array
    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor | None
    ordinary: Tensor
    strengths: Tensor | None = None

    def model_inputs(self) -> dict[str, Tensor]:
        """Keyword arguments for the model's forward pass."""
        inputs = {"input_ids": self.input_ids, "attention_mask": self.attention_mask}
        return inputs if self.token_type_ids is None else {**inputs, "token_type_ids": self.token_type_ids}

    def copies(self, input_ids: Tensor, rows: Tensor) -> Batch:
        """A batch of edited copies: copy m has `input_ids[m]` and everything else from row `rows[m]`."""
        return self._rows(rows)._replace(input_ids=input_ids)

    def select(self, rows: Tensor) -> Batch:
        """Some of the sequences, padded to the longest of them."""
        chosen = self._rows(rows)
        length = int(chosen.attention_mask.sum(dim=1).max())
        types = chosen.token_type_ids
        return chosen._replace(
            input_ids=chosen.input_ids[:, :length],
            attention_mask=chosen.attention_mask[:, :length],
            token_type_ids=None if types is None else types[:, :length],
            ordinary=chosen.ordinary[:, :length],
        )

    def _rows(self, rows: Tensor) -> Batch:
        tensors = self._asdict()
        indices = tensors.pop("indices")[rows.cpu().numpy()]
        picked: dict[str, Any] = {name: None if x is None else x[rows] for name, x in tensors.items()}
        return Batch(indices, **picked)
