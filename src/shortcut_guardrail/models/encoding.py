"""Texts as the model takes them: token ids with where each token comes from, and batches of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ..data import Texts, counted
from ..errors import GuardrailWarning
from ..typing import Array

if TYPE_CHECKING:  # PyTorch takes seconds to import, and results are read without it.
    from torch import Tensor


@dataclass(frozen=True)
class EncodedTexts:
    """The tokens of N texts, truncated to what the model takes, not padded."""

    texts: Texts
    input_ids: list[Array]  # token ids of each text, N arrays of shape (L,), int32
    token_type_ids: list[Array] | None  # segment ids of each text, for models that take them
    # which tokens come from the text itself, N bool arrays of shape (L,). A special token that a text spells is one of
    # them, whether it is "@USER" or "[SEP]"; those of the template, padding and what was masked are not
    ordinary: list[Array]
    offsets: list[Array]  # character span of each token in its text or pair, N arrays of shape (L, 2)
    # 0 for tokens of the text, 1 for its pair, -1 for tokens that the template added, N arrays of (L,)
    segments: list[Array]
    truncated: Array  # which texts were longer than the limit, shape (N,), bool
    controls: Array  # which texts spell a control token that the tokenizer obeys, shape (N,), bool

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def lengths(self) -> Array:
        """Number of tokens of each text, shape (N,)."""
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self))

    def select(self, indices: Sequence[int] | Array) -> EncodedTexts:
        """The same for some of the texts, in the order of `indices`."""
        texts, rows = cast(Texts, [self.texts[i] for i in indices]), np.asarray(indices, dtype=np.int64)
        picked = {name: [arrays[i] for i in indices] for name, arrays in self.token_fields().items()}
        return replace(self, texts=texts, truncated=self.truncated[rows], controls=self.controls[rows], **picked)

    def token_fields(self) -> dict[str, list[Array]]:
        """The fields with something of each token, by name."""
        names = ("input_ids", "token_type_ids", "ordinary", "offsets", "segments")
        return {name: arrays for name in names if (arrays := getattr(self, name)) is not None}

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
        start, end = self.offsets[index][position]
        inside = self.ordinary[index][position] and self.segments[index][position] == segment
        return bool(inside) and not self.text_of(index, segment)[start:end].strip()

    def token_text(self, index: int, position: int) -> str:
        """The characters behind one token, lower case; a piece from inside a word starts with `##`."""
        start, end = self.offsets[index][position]
        text = self.text_of(index, max(int(self.segments[index][position]), 0))
        piece = text[start:end]
        inside = start > 0 and piece[:1].isalnum() and text[start - 1].isalnum()
        return ("##" if inside else "") + piece.strip().casefold()


class Batch(NamedTuple):
    """One padded batch on the device."""

    indices: Array  # which of the encoded texts these are, shape (B,)
    input_ids: Tensor  # shape (B, L)
    attention_mask: Tensor  # shape (B, L)
    token_type_ids: Tensor | None  # shape (B, L), or `None` for models without segments
    ordinary: Tensor  # shape (B, L), bool; False on padding
    # debiasing strength of each sequence, shape (B,), for a model with an adapter; `None` leaves the adapter at its own
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
        picked: list[Any] = [None if tensor is None else tensor[rows] for tensor in self[1:]]
        return Batch(self.indices[rows.cpu().numpy()], *picked)


def warn_of_cut(name: str, n: int, most: int) -> None:
    """Say of a classifier that n texts were longer than its most tokens, if any."""
    if n:
        said = f"'{name}' sees only the beginning of {counted(n, 'text')}: it takes at most {most} tokens."
        warnings.warn(said, GuardrailWarning, stacklevel=3)


def said_of_controls(n: int, total: int) -> str:
    """What is said of n texts out of a total that spell a control token."""
    return (
        f"{n} of {counted(total, 'text')} {'spells' if n == 1 else 'spell'} a control token, such as '[SEP]' or "
        "'</s>'. The tokenizer makes it one, as it does where the model is deployed; here it counts as a word of its "
        "text. Set split_special_tokens of the tokenizer, here and there, to have it read as text."
    )


def warn_of_controls(encoded: EncodedTexts) -> None:
    """Say how many texts spell a control token, if any."""
    if n := int(encoded.controls.sum()):
        warnings.warn(said_of_controls(n, len(encoded)), GuardrailWarning, stacklevel=4)
