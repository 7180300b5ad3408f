"""Number formats: which one the hardware multiplies in, and the attention that goes with it."""

from __future__ import annotations

from typing import Any, Literal

import torch

Precision = Literal["auto", "float32", "bfloat16"]


def fast_precision(device: torch.device) -> Precision:
    """`bfloat16` where the hardware multiplies matrices in it; elsewhere it is slower than `float32`."""
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    # AVX512's bfloat16 alone does not suffice: a Xeon without AMX multiplied in it at half of float32's speed. Versions
    # of PyTorch that do not know the question say no, as `bool()` does.
    tiles = getattr(torch.cpu, "_is_amx_tile_supported", bool)
    return "bfloat16" if device.type == "cpu" and tiles() else "float32"


def use_plain_attention(model: Any) -> None:
    """Fused attention has a slow backward pass in bfloat16 on a CPU; plain products and a softmax do not."""
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        model.set_attn_implementation("eager")
