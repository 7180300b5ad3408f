"""Fitting from the command line in this process or in several of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from shortcut_guardrail.cli.main import call


def fit(
    model_folder: Path, data: Path, out: Path, *, processes: int, batch: int = 3, more: tuple[str, ...] = ()
) -> dict[str, torch.Tensor]:
    """Fit in this process or in several, as `torchrun` would start them, and read the adapter."""
    arguments = ["fit", str(model_folder), str(data), "--out", str(out), "--strategy", "maskcl", "--strength", "1"]
    arguments += ["--set", "adapter.epochs=2", "--set", f"adapter.batch_size={batch}", *more]
    if processes == 1:
        assert call(arguments) == 0
        return load_file(out / "adapter_model.safetensors")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "shortcut_guardrail.cli.main", *arguments]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    common["OMP_NUM_THREADS"] = "1"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, env={**common, "RANK": str(rank)}, **pipes) for rank in range(processes)]
    printed = [process.communicate(timeout=120) for process in running]
    assert all(process.returncode == 0 for process in running), printed
    assert [bool(out_text) for out_text, _ in printed] == [True] + [False] * (processes - 1)
    return load_file(out / "adapter_model.safetensors")
