"""How time grows with texts, length, k and depth; and two processes beside one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.config import updated
from shortcut_guardrail.models.distributed import joined, own_rank

from . import machine, material

_AXES: dict[str, tuple[int, ...]] = {
    "texts": (32, 64, 128, 192),
    "length": (16, 32, 64, 128, 256),
    "k": (1, 2, 5, 10, 20),
    "depth": (1, 2, 4, 6, 12),
}


def texts_of_length(n: int, length: int, *, seed: int = 0) -> list[str]:
    """n different texts of exactly `length` tokens, special tokens included."""
    rng = np.random.default_rng(seed)
    words = np.array(
        ["good", "bad", "film", "plot", "actor", "scene", "music", "long", "story", "funny", "dull", "slow"]
    )
    return [" ".join(rng.choice(words, length - 2)) for _ in range(n)]


def growth() -> dict[str, Any]:
    """Seconds of an epoch (attribution included) at MiniLM's width, one thing varied at a time.

    The others stay at 64 texts of 32 tokens, k = 10 and 6 layers. Each point is the best of three runs.
    """
    return {axis: [_point(axis, value) for value in values] for axis, values in _AXES.items()}


def _point(axis: str, value: int) -> dict[str, float]:
    setting = {"texts": 64, "length": 32, "k": 10, "depth": 6, axis: value}
    model = material.random_bert(material.MINILM, num_hidden_layers=setting["depth"])
    guard = ShortcutGuardrail(model, material.tokenizer(), precision=machine.precision())
    config = updated(preset("paper"), {"saliency": {"top_k": setting["k"]}, "adapter": {"learning_rate": 1e-3}})
    texts = texts_of_length(setting["texts"], setting["length"])
    guard.fit(texts[:16], config=config)
    seconds = []
    for _ in range(3):
        machine.wait()
        started = time.perf_counter()
        guard.fit(texts, config=config)
        machine.wait()
        seconds.append(time.perf_counter() - started)
    return {"value": value, "seconds": min(seconds)}


def expected(axis: str, values: np.ndarray) -> np.ndarray:
    """Operations of an epoch by the arithmetic of docs/research/speed.md, at MiniLM's width, up to a constant."""
    fixed = {"texts": 64, "length": 32, "k": 10, "depth": 6}
    texts, length, k, depth = (values if axis == name else fixed[name] for name in fixed)
    hidden = material.MINILM["hidden_size"]
    operations: np.ndarray = texts * (2 + 2 * (k + 1)) * depth * length * (24 * hidden**2 + 4 * length * hidden)
    return operations


def figure(results: dict[str, Any], out: Path) -> None:
    """One panel an axis: measured seconds, and the growth of the operations, put through the middle point."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    names = {"texts": "texts", "length": "tokens per text", "k": "variants per text, k", "depth": "encoder layers"}
    panels, axes = plt.subplots(1, len(results), figsize=(12, 3.2), layout="constrained")
    for axes_, (axis, points) in zip(axes, results.items(), strict=True):
        x = np.array([point["value"] for point in points], dtype=float)
        y = np.array([point["seconds"] for point in points])
        operations, middle = expected(axis, x), len(x) // 2
        axes_.plot(x, y, "o-", color="#0072B2", label="measured")
        axes_.plot(x, y[middle] * operations / operations[middle], "--", color="#555555", label="as the operations")
        axes_.set(xscale="log", yscale="log", xlabel=names[axis], xticks=x, xticklabels=[f"{v:g}" for v in x])
        axes_.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes_.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes_.yaxis.set_minor_formatter(NullFormatter())
        axes_.minorticks_off()
        axes_.grid(alpha=0.3)
    axes[0].set_ylabel("seconds per epoch")
    axes[0].legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    panels.savefig(out, dpi=150)
    plt.close(panels)


def two_processes(n: int = 96) -> dict[str, Any]:
    """One process with one thread, and two with one thread each: seconds, and how far losses and weights differ."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {count: _launch(count, n, Path(folder) / str(count)) for count in (1, 2)}
        from safetensors.torch import load_file

        weights = {c: load_file(Path(folder) / str(c) / "adapter_model.safetensors") for c in runs}
    difference = max(float((weights[1][name] - weights[2][name]).abs().max()) for name in weights[1])
    largest = max(float(tensor.abs().max()) for name, tensor in weights[1].items() if "lora_B" in name)
    losses = [np.array(runs[count]["losses"]) for count in (1, 2)]
    return {
        "texts": n,
        "seconds": {str(count): run["seconds"] for count, run in runs.items()},
        "one_over_two": runs[1]["seconds"] / runs[2]["seconds"],
        "largest_loss_difference": float(np.abs(losses[0] - losses[1]).max()),
        "largest_weight_difference": difference,
        "largest_trained_weight": largest,
    }


def _launch(processes: int, n: int, out: Path) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    code = f"from perf.scaling import take_part; take_part({n}, {str(out)!r})"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={
                **os.environ,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "WORLD_SIZE": str(processes),
                "RANK": str(rank),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    printed = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("A process of the two-process run failed; its message is above.")
    result: dict[str, Any] = json.loads(printed[0].splitlines()[-1])
    return result


def take_part(n: int, out: str) -> None:
    """One process's part in a fit; the first one writes the adapter and prints seconds and losses."""
    torch.set_num_threads(1)
    with joined():
        guard = ShortcutGuardrail(material.random_bert(material.MINILM), material.tokenizer(), precision="float32")
        texts = texts_of_length(n, 32)
        guard.fit(texts[:16], config=preset("paper").with_adapter(learning_rate=1e-3))
        started = time.perf_counter()
        report = guard.fit(texts, config=preset("paper").with_adapter(learning_rate=1e-3))
        seconds = time.perf_counter() - started
        if own_rank() == 0:
            Path(out).mkdir(parents=True)
            guard.peft_model.save_pretrained(out)
            print(json.dumps({"seconds": seconds, "losses": list(report.training.losses)}))
