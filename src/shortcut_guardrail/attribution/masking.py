"""Masked variants: for each input, copies in which one chosen token is the mask token. Tensors only."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class MaskedVariants(NamedTuple):
    """The variants of a batch, empty slots left out.

    Attributes:
        input_ids: Shape (M, L); each row differs from its input in one place.
        rows: Which input each variant comes from, shape (M,), in [0, B), ascending.
        slots: Which of the input's chosen tokens is masked, shape (M,), in [0, K).
    """

    input_ids: Tensor
    rows: Tensor
    slots: Tensor


def mask_variants(input_ids: Tensor, positions: Tensor, mask_token_id: int) -> MaskedVariants:
    """One copy of an input for every chosen position, with that position masked (paper Section 3.3, `x^{mask_j}`).

    The ids are scattered, never decoded and tokenised again, so all other tokens stay as they are.

    Args:
        input_ids: Shape (B, L).
        positions: Shape (B, K), in [0, L), or -1 for an empty slot.
    """
    rows, slots = (positions >= 0).nonzero(as_tuple=True)
    copies = input_ids[rows].clone()
    copies[torch.arange(len(rows), device=input_ids.device), positions[rows, slots]] = mask_token_id
    return MaskedVariants(copies, rows, slots)


def mask_spans(input_ids: Tensor, units: Tensor, first: Tensor, last: Tensor, *, mask_token_id: int) -> MaskedVariants:
    """One copy of an input for every chosen span of units, with all tokens of the span masked.

    Every token keeps its place: a word of three pieces becomes three mask tokens.

    Args:
        input_ids: Shape (B, L).
        units: The unit of each token, shape (B, L), ascending in each row, -1 for tokens that are never masked.
        first: First unit of each span, shape (B, K), or -1 for an empty slot.
        last: Last unit of each span, shape (B, K).
    """
    rows, slots = (first >= 0).nonzero(as_tuple=True)
    inside = (units[rows] >= first[rows, slots][:, None]) & (units[rows] <= last[rows, slots][:, None])
    return MaskedVariants(input_ids[rows].masked_fill(inside, mask_token_id), rows, slots)
