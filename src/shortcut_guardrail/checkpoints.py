"""Checkpoints of a fine-tuning: those of Transformers' `Trainer`, and beside each what the method itself remembers."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from .files import to_json, write_file

MEMORY_FILE = "memory.safetensors"
MARK_FILE = "complete.json"
"""Written last: a checkpoint without it was cut short."""


@runtime_checkable
class Resumable(Protocol):
    """Something that remembers along a fine-tuning and can be told what it knew at a checkpoint."""

    def state(self) -> dict[str, Tensor]:
        """What it remembers."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Remember what `state` gave."""


@dataclass(frozen=True)
class Checkpoints:
    """Where a fine-tuning keeps its state at the ends of epochs, so that the same call goes on from there.

    A fine-tuning that takes less than `every` writes nothing. The folder is this fine-tuning's alone and grows to three
    or four times the size of the model; whoever names it removes it. It is this machine's scratch, not a file to hand
    on: `Trainer` writes the optimizer's state with PyTorch's serialisation, and reads it without executing anything
    (`weights_only`).

    Attributes:
        folder: The folder; made when there is something to write.
        every: Seconds since the start, or since the last checkpoint, after which the end of an epoch writes one.
    """

    folder: Path
    every: float = 600.0


class CheckpointKeeper:
    """Says when a checkpoint is due, completes those that `Trainer` writes, and finds the one to go on from.

    Args:
        checkpoints: Where and how often; `None` keeps nothing.
        identity: What tells this fine-tuning from others; a checkpoint of another is not used.
        remembering: What has to be saved beside model, optimizer and random states.
    """

    def __init__(self, checkpoints: Checkpoints | None, identity: str, remembering: Sequence[Resumable]) -> None:
        self._checkpoints, self._identity, self._remembering = checkpoints, identity, list(remembering)
        self._started = self._written = time.perf_counter()
        self.seconds_before = 0.0
        """What the fine-tuning had taken when the checkpoint was written that it goes on from."""

    def resume(self) -> Path | None:
        """The last complete checkpoint, with everyone told what they knew; others are removed."""
        if self._checkpoints is None or not self._checkpoints.folder.is_dir():
            return None
        found = [(folder, _mark(folder, self._identity)) for folder in self._checkpoints.folder.iterdir()]
        complete = [(mark["step"], folder, mark) for folder, mark in found if mark is not None]
        for folder in {folder for folder, _ in found} - {folder for _, folder, _ in complete}:
            shutil.rmtree(folder, ignore_errors=True)
        for _, folder, mark in sorted(complete, reverse=True):
            try:
                memory = load_file(folder / MEMORY_FILE)
            except (OSError, SafetensorError):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            for at, one in enumerate(self._remembering):
                prefix = f"{at}."
                one.restore({name.removeprefix(prefix): memory[name] for name in memory if name.startswith(prefix)})
            self.seconds_before = float(mark["seconds"])
            return folder
        return None

    def due(self) -> bool:
        """Whether the end of an epoch should write a checkpoint."""
        return self._checkpoints is not None and time.perf_counter() - self._written >= self._checkpoints.every

    def complete(self, step: int) -> None:
        """Add to the checkpoint of a step what everyone remembers, and mark it as complete."""
        assert self._checkpoints is not None
        folder = self._checkpoints.folder / f"checkpoint-{step}"
        memory = {
            f"{at}.{name}": value.detach().cpu().clone().contiguous()  # tied weights are written twice
            for at, one in enumerate(self._remembering)
            for name, value in one.state().items()
        }
        save_file(memory, folder / MEMORY_FILE)
        seconds = self.seconds_before + time.perf_counter() - self._started
        mark = {"identity": self._identity, "step": step, "seconds": seconds}
        write_file(folder / MARK_FILE, to_json(mark), overwrite=True)
        self._written = time.perf_counter()


def _mark(folder: Path, identity: str) -> dict[str, Any] | None:
    """What the mark of a checkpoint says; `None` where it is not complete or not of this fine-tuning."""
    try:
        mark = json.loads((folder / MARK_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return mark if mark.get("identity") == identity else None
