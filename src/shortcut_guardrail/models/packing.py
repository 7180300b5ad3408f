"""Sequences of different lengths one after another in a single row, so that nothing is spent on padding.

Everything in an encoder but attention works on one token at a time. Packed, a batch of M sequences with T tokens in all
is one row of T tokens; attention alone goes run by run, a run being the sequences of one length. On a GPU, where many
small kernels take longer than a large one with some padding, sequences of similar length go together, padded for
attention alone. A head that reads the first token needs only that token from the last block's attention output on.

The families here compute attention through Transformers' attention interface and take positions as an argument. Others
run padded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Keep = Literal["all", "first"]

PACKED_ATTENTION = "shortcut_guardrail_packed"

# From this length on the fused kernel is no slower in training, and it keeps no table of all pairs of tokens.
_FUSED_FROM = 256
# Pairs of places over pairs of tokens, which is what padding costs attention, up to which sequences of several lengths
# are attended to together: on a CPU none, elsewhere up to 3.
_MOST_PAIRS = {"cpu": 1.0}


class Run(NamedTuple):
    """Sequences that follow one another in the row and are attended to together."""

    n: int  # how many
    length: int  # tokens of the longest, which is the first
    tokens: int  # tokens in all; n * length if all are of one length
    mask: Tensor | None = None  # which places of the grid hold tokens, shape (n, length), bool; `None` if all do
    at: Tensor | None = None  # place in the grid of each token, shape (tokens,); `None` if all do


# Where a family keeps its blocks, and the module of a block from which on each token is on its own.
_FAMILIES = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), ("encoder.layer", "attention.output")),
    "distilbert": ("transformer.layer", "sa_layer_norm"),
}
# These count positions from the padding id on.
_POSITIONS_AFTER_PADDING = {"roberta", "xlm-roberta", "camembert"}


@dataclass(frozen=True)
class PackedSequences:
    """M sequences in one row, longest first."""

    input_ids: Tensor  # shape (1, T)
    position_ids: Tensor  # position of each token within its sequence, as the family counts, shape (1, T)
    token_type_ids: Tensor | None  # shape (1, T), or `None`
    starts: Tensor  # where each sequence begins in the row, shape (M,)
    places: Tensor  # which sequence of the row each of the batch is, shape (M,)
    runs: tuple[Run, ...]  # what is attended to together, in the order of the row
    mask: Tensor  # which places of the padded batch hold tokens, its rows longest first, shape (M, L)
    order: Tensor  # which sequence of the batch each of the row is, shape (M,); the inverse of `places`

    def model_inputs(self) -> dict[str, Any]:
        """Keyword arguments for the forward pass, within `packed_attention`."""
        inputs = {"input_ids": self.input_ids, "position_ids": self.position_ids, "packed_runs": self.runs}
        return inputs if self.token_type_ids is None else {**inputs, "token_type_ids": self.token_type_ids}

    def pad(self, values: Tensor) -> Tensor:
        """Values of the row's tokens, shape (1, T), in the places of the padded batch, shape (M, L); 0 elsewhere."""
        padded = values.new_zeros(self.mask.shape)
        padded[self.mask] = values[0]
        return padded[self.places]

    def mean(self, hidden: Tensor) -> Tensor:
        """Mean over each sequence's tokens, shape (M, H), of a row of states, shape (1, T, H)."""
        lengths = self.mask.sum(dim=1)
        # On a GPU index_add sums in another order each time.
        sums = torch.segment_reduce(hidden[0], "sum", lengths=lengths)
        return (sums / lengths[:, None])[self.places]


def can_pack(model: Any) -> bool:
    """Whether a classifier's forward pass can run packed: a family listed here, in Transformers' own classes.

    A class of the user's own may do anything with its hidden states, so it runs padded.
    """
    config = model.config
    return (
        config.model_type in _FAMILIES
        and type(model).__module__.startswith("transformers.models.")
        and not getattr(config, "is_decoder", False)
        and not getattr(config, "chunk_size_feed_forward", 0)
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
    )


def pack(
    model: Any, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
) -> PackedSequences:
    """Put the sequences of a batch padded on the right, each of shape (M, L), into one row."""
    lengths = attention_mask.sum(dim=1)
    order = torch.argsort(lengths, descending=True, stable=True)
    mask = attention_mask[order].bool()
    positions = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    if model.config.model_type in _POSITIONS_AFTER_PADDING:  # a padding token within a text counts for none
        counted = input_ids[order] != model.config.pad_token_id
        positions = counted.cumsum(dim=1) * counted + model.config.pad_token_id
    ordered = lengths[order]
    values, counts = torch.unique_consecutive(ordered, return_counts=True)
    return PackedSequences(
        input_ids=input_ids[order][mask][None],
        position_ids=positions[mask][None],
        token_type_ids=None if token_type_ids is None else token_type_ids[order][mask][None],
        starts=ordered.cumsum(0) - ordered,
        places=torch.argsort(order),
        runs=tuple(_runs(list(zip(counts.tolist(), values.tolist(), strict=True)), mask)),
        mask=mask,
        order=order,
    )


def _runs(equal: list[tuple[int, int]], mask: Tensor) -> Iterator[Run]:
    """Neighbouring runs of equal length (number, length; longest first), put together as long as little is padded."""
    start, at, most_pairs = 0, 0, _MOST_PAIRS.get(mask.device.type, 3.0)
    while at < len(equal):
        n, length = equal[at]
        tokens, pairs, end = n * length, n * length**2, at + 1
        while end < len(equal):
            more, shorter = equal[end]
            needed = pairs + more * shorter**2
            if (n + more) * length**2 > most_pairs * needed:
                break
            n, tokens, pairs, end = n + more, tokens + more * shorter, needed, end + 1
        if end == at + 1:
            yield Run(n, length, tokens)
        else:
            grid = mask[start : start + n, :length]
            yield Run(n, length, tokens, grid, grid.flatten().nonzero()[:, 0])
        start, at = start + n, end


@contextmanager
def packed_attention(model: Any, sequences: PackedSequences, *, keep: Keep) -> Iterator[None]:
    """Within the block, the model takes `sequences.model_inputs()`.

    The last hidden state is one row, shape (1, T, H); where `keep` is `first`, it is each sequence's first token, shape
    (M, 1, H), and no other is computed from the last block's attention output on.
    """
    _register_attention()
    config = model.config
    usual = config._attn_implementation
    # The setter of Transformers walks all modules; this one is called for every batch.
    config._attn_implementation = PACKED_ATTENTION
    handle = _keep_first_tokens(model, sequences.starts) if keep == "first" else None
    try:
        with _without_cudnn_attention(sequences.input_ids.device):
            yield
    finally:
        config._attn_implementation = usual
        if handle is not None:
            handle.remove()


def _keep_first_tokens(model: Any, starts: Tensor) -> Any:
    """Have the last block turn a row of tokens into M rows of one token; returns the hook's handle."""
    blocks, after_attention = _FAMILIES[model.config.model_type]
    part = model.base_model.get_submodule(blocks)[-1].get_submodule(after_attention)
    return part.register_forward_pre_hook(
        lambda _module, inputs: tuple(states[0, starts][:, None] for states in inputs)  # (1, T, H) -> (M, 1, H)
    )


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_runs: tuple[Run, ...],
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention within each sequence of a packed row; query, key and value have shape (1, heads, T, d)."""
    # Split rather than sliced: the gradient of a slice is a whole row of zeros, for each run once.
    sizes = [run.tokens for run in packed_runs]
    parts = zip(*(torch.split(x[0], sizes, dim=1) for x in (query, key, value)), strict=True)  # (heads, tokens, d)
    out = []
    for run, of_run in zip(packed_runs, parts, strict=True):
        q, k, v = (_grid(x, run) for x in of_run)
        attended = _products(q, k, v, scaling, dropout, run.mask).transpose(1, 2).flatten(0, 1)  # (places, heads, d)
        out.append(attended if run.at is None else attended.index_select(0, run.at))
    return torch.cat(out)[None], None  # (1, T, heads, d)


def _grid(states: Tensor, run: Run) -> Tensor:
    """States of a run's tokens, shape (heads, tokens, d), as sequences, shape (n, heads, length, d), padded with 0."""
    if run.at is None:
        return states.view(states.shape[0], run.n, run.length, -1).transpose(0, 1)
    by_token = states.transpose(0, 1)
    padded = by_token.new_zeros(run.n * run.length, *by_token.shape[1:]).index_copy(0, run.at, by_token)
    return padded.view(run.n, run.length, *by_token.shape[1:]).transpose(1, 2)


def _products(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, dropout: float, mask: Tensor | None = None
) -> Tensor:
    """Fused attention, save where its backward pass is the slower: bfloat16 on a CPU (docs/research/speed.md)."""
    slow = query.device.type == "cpu" and query.dtype == torch.bfloat16 and query.requires_grad
    if mask is not None or not slow or query.shape[-2] >= _FUSED_FROM:
        seen = None if mask is None else mask[:, None, None]  # (n, 1, 1, length): all places see a sequence's tokens
        return F.scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scaling, dropout_p=dropout)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    weights = torch.matmul(query, key.transpose(-1, -2)) * scaling
    weights = F.dropout(weights.softmax(dim=-1), p=dropout, training=dropout > 0)
    return torch.matmul(weights.to(value.dtype), value)


_switching, _cudnn_before = threading.Lock(), list[bool]()


@contextmanager
def _without_cudnn_attention(device: torch.device) -> Iterator[None]:
    """On a GPU any fused kernel but cuDNN's, which compiles anew for every length (pytorch/pytorch#155958).

    The switch is PyTorch's and for the whole process. The last of several threads puts it back as the first found it.
    """
    if device.type != "cuda":
        yield
        return
    with _switching:
        _cudnn_before.append(torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        with _switching:  # all but the first found it off
            torch.backends.cuda.enable_cudnn_sdp(_cudnn_before.pop())


@cache
def _register_attention() -> None:
    """Tell Transformers of the attention function; imported here, since Transformers takes seconds to load."""
    from transformers import AttentionInterface

    AttentionInterface.register(PACKED_ATTENTION, _attend)
