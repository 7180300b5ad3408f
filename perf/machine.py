"""What the machine is and how fast it multiplies matrices: the roof that everything else is measured against."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from shortcut_guardrail.models.precision import Precision, fast_precision

# An encoder's products at BERT-base width: 4,096 tokens by the attention and the feed-forward weights.
_SHAPES = ((4096, 768, 768), (4096, 768, 3072), (4096, 3072, 768))


def device() -> torch.device:
    """What is measured: the GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def precision() -> Precision:
    """The fast number format of that device."""
    return fast_precision(device())


def on_gpu() -> bool:
    """Whether a GPU is measured; a few sentences are too short for its clock."""
    return device().type == "cuda"


def wait() -> None:
    """Until the GPU has done what it was given; without this a clock reads when the work was handed over."""
    if on_gpu():
        torch.cuda.synchronize()


def matmul_rate(
    dtype: torch.dtype, device: torch.device, *, repeats: int = 7, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
    """Billion operations a second of `torch.nn.functional.linear`, best of some repeats, for each shape and at most.

    By `time.process_time` it is the rate in the seconds that the processor gives this process, for each thread.
    """
    rates = {}
    for rows, width, height in _SHAPES:
        tokens = torch.randn(rows, width, dtype=dtype, device=device)
        weight = torch.randn(height, width, dtype=dtype, device=device)
        # A product takes a GPU microseconds: many in a row, or the clock measures how fast they are handed over.
        calls = 200 if device.type == "cuda" else 4
        best = min(_seconds(tokens, weight, calls=calls, clock=clock) for _ in range(repeats))
        rates[f"{rows}x{width}x{height}"] = 2 * rows * width * height / best / 1e9
    return {"by_shape": rates, "best": max(rates.values())}


def _seconds(tokens: torch.Tensor, weight: torch.Tensor, *, calls: int, clock: Callable[[], float]) -> float:
    wait()
    started = clock()
    for _ in range(calls):
        torch.nn.functional.linear(tokens, weight)
    wait()
    return (clock() - started) / calls


def describe() -> dict[str, Any]:
    """Processor, its relevant instructions, threads and versions."""
    import peft
    import transformers

    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(fields.get("flags", "").split())
    return {
        "processor": fields.get("model name", platform.processor()),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "instructions": sorted(flags & {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "peft": peft.__version__,
    }


def forward_operations(lengths: Any, *, hidden: int, layers: int, intermediate: int) -> float:
    """Operations of one encoder forward pass over sequences of some lengths (field convention: 2 for a product)."""
    weights = layers * (4 * hidden * hidden + 2 * hidden * intermediate)
    return float(sum(2 * weights * length + 4 * length * length * hidden * layers for length in lengths))
