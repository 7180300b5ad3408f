"""Long texts in windows that overlap: each is read by itself, and their logits are combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from .encoding import Batch

Joining = Literal["mean", "max"]


@dataclass(frozen=True)
class Windowing:
    """How long texts are read.

    Attributes:
        how: How the windows of a text are combined: the mean of their logits, or the largest of each logit.
        overlap: Tokens that a window shares with the one before.
    """

    how: Joining
    overlap: int


@dataclass(frozen=True)
class Windows:
    """M windows of B texts.

    Attributes:
        batch: The windows as sequences, in the order of the texts.
        rows: Which text each is of, shape (M,).
        places: Where each token of a window stands in its text, shape (M, W), -1 for padding.
    """

    batch: Batch
    rows: Tensor
    places: Tensor
    how: Joining

    def joined(self, logits: Tensor, n: int) -> Tensor:
        """Logits of the texts, shape (B, C), from those of the windows, shape (M, C)."""
        of = self.rows[:, None].expand_as(logits)
        kind = "amax" if self.how == "max" else "mean"
        return logits.new_zeros((n, logits.shape[1])).scatter_reduce(0, of, logits, kind, include_self=False)

    def spread(self, values: Tensor, batch: Batch) -> Tensor:
        """Values of the windows' tokens, shape (M, W), added up in the places of the texts, shape (B, L)."""
        out = values.new_zeros(batch.input_ids.shape)
        seen = self.places >= 0
        of = self.rows[:, None].expand_as(self.places)
        return out.index_put((of[seen], self.places[seen]), values[seen], accumulate=True)


class WindowCutter:
    """Cuts the texts of a batch into windows of at most so many tokens, with the template's tokens around each.

    Args:
        length: Tokens of a window, special ones included.
    """

    def __init__(self, windowing: Windowing, tokenizer: Any, length: int) -> None:
        self.windowing, self.length, self._pad = windowing, length, int(tokenizer.pad_token_id)
        own = [side is not None for side in tokenizer("a").encodings[0].sequence_ids]
        self._before, self._after = own.index(True), own[::-1].index(True)
        most = (length - self._before - self._after) // 2
        if windowing.how not in get_args(Joining):
            raise ConfigError(f"windows must be mean or max, but is {windowing.how!r}.")
        if not 0 <= windowing.overlap <= most:
            raise ConfigError(
                f"overlap must lie between 0 and {most} for windows of {length} tokens, but is {windowing.overlap}."
            )

    def count(self, length: int) -> int:
        """How many windows a text of so many tokens has."""
        return len(self._starts(length))

    def _starts(self, length: int) -> range:
        """Where windows start in what stands between the template's tokens."""
        around = self._before + self._after
        body, room = length - around, self.length - around
        step = room - self.windowing.overlap
        return range(0, max(body - room, 0) + step, step) if body > room else range(1)

    def cut(self, batch: Batch) -> Windows | None:
        """The windows; `None` where each text is one."""
        lengths = batch.attention_mask.sum(dim=1).tolist()
        if max(lengths) <= self.length:
            return None
        room = self.length - self._before - self._after
        rows, places = [], []
        for row, n in enumerate(lengths):
            whole, end = torch.arange(n), n - self._after
            for start in self._starts(n):
                first = self._before + start
                parts = whole[: self._before], whole[first : min(first + room, end)], whole[end:]
                rows.append(row)
                places.append(torch.cat(parts))
        device = batch.input_ids.device
        of = torch.tensor(rows, device=device)
        at = nn.utils.rnn.pad_sequence(places, batch_first=True, padding_value=-1).to(device)
        seen, take = at >= 0, at.clamp(min=0)

        def taken(values: Tensor, padding: int) -> Tensor:
            return values[of].gather(1, take).masked_fill(~seen, padding)

        types = batch.token_type_ids
        windows = Batch(
            indices=batch.indices[rows],
            input_ids=taken(batch.input_ids, self._pad),
            attention_mask=seen.long(),
            token_type_ids=None if types is None else taken(types, 0),
            ordinary=taken(batch.ordinary, 0),
            strengths=None if batch.strengths is None else batch.strengths[of],
        )
        return Windows(windows, of, at, self.windowing.how)
