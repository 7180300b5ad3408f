"""Checkpoints of a fine-tuning: those of Transformers' `Trainer`, and beside each what the method itself remembers."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from shortcut_guardrail.data import to_json, write_file
from shortcut_guardrail.errors import GuardrailError, GuardrailWarning, RunError

WEIGHTS_FILE = "model.safetensors"
MEMORY_FILE = "memory.safetensors"
STATE_FILE = "trainer_state.json"
"""`Trainer`'s own: which step it is, and the losses so far."""
MARK_FILE = "complete.json"
"""Written last: a checkpoint without it was cut short."""
LOCK_FILE = ".lock"
"""In the folder of a fine-tuning: whoever holds it may write there."""


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

    A fine-tuning that takes less than `every` writes none. One checkpoint is kept, which takes three to five times the
    room of the model, and once all is done what it ended with, which takes one or two; while the next one is written
    there are two. Where
    another process has the folder open, this one does without. It is this machine's scratch, not a file to hand on:
    `Trainer` writes the optimizer's state with PyTorch's serialisation, and reads it without executing anything
    (`weights_only`).

    Attributes:
        folder: A folder for this fine-tuning alone; `discard` removes it.
        every: Seconds since the start, or since the last checkpoint, after which the end of an epoch writes one.
        on_resume: Told the seconds that the fine-tuning had taken when the checkpoint was written that it goes on from.
    """

    folder: Path
    every: float = 600.0
    on_resume: Callable[[float], None] | None = None


def discard(folder: Path) -> None:
    """Remove the checkpoints of one fine-tuning, or of all in a folder; what another process has open stays."""
    for used in {path.parent for name in (LOCK_FILE, "checkpoint-*") for path in folder.rglob(name)}:
        with suppress(Timeout, OSError), FileLock(used / LOCK_FILE, timeout=0):
            shutil.rmtree(used, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


class CheckpointKeeper:
    """Says when a checkpoint is due, completes those that `Trainer` writes, and finds the one to go on from.

    A context: within it nobody else writes into the folder. A checkpoint that cannot be written ends no training: it is
    warned about, and from then on there are none.

    Args:
        checkpoints: Where and how often; `None` keeps nothing.
        identity: What tells this fine-tuning from others, asked for once; a checkpoint of another is not used.
        remembering: What has to be saved beside model, optimizer and random states.
    """

    def __init__(
        self, checkpoints: Checkpoints | None, identity: Callable[[], str], remembering: Sequence[Resumable]
    ) -> None:
        self._checkpoints, self._remembering = checkpoints, list(remembering)
        self._identity = "" if checkpoints is None else identity()
        self._started = self._written = time.perf_counter()
        self._lock: FileLock | None = None
        self.seconds_before = 0.0
        """What the fine-tuning had taken when the checkpoint was written that it goes on from."""
        self._any = False

    def __enter__(self) -> CheckpointKeeper:
        if self._checkpoints is not None:
            try:
                self._checkpoints.folder.mkdir(parents=True, exist_ok=True)
                self._lock = FileLock(self._checkpoints.folder / LOCK_FILE, timeout=0)
                self._lock.acquire()
            except Timeout:
                self._checkpoints = None
            except OSError as error:
                self._give_up(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()

    @property
    def folder(self) -> Path | None:
        """Where `Trainer` has to write; `None` where nothing is kept."""
        return None if self._checkpoints is None else self._checkpoints.folder

    def resume(self) -> Path | None:
        """The last complete checkpoint, with everyone told what they knew; what is not whole is removed.

        Raises:
            RunError: Somebody cannot make sense of what they are told.
        """
        if self._checkpoints is None:
            return None
        found = self._found(self._checkpoints.folder)
        if not found:
            return None
        step = max(found)
        mark, folder = found[step], self._folder_of(step)
        try:
            memory = load_file(folder / MEMORY_FILE)
            for at, one in enumerate(self._remembering):
                prefix = f"{at}."
                one.restore({name.removeprefix(prefix): memory[name] for name in memory if name.startswith(prefix)})
        except (KeyError, ValueError, RuntimeError, OSError, SafetensorError) as error:
            raise RunError(
                f"The checkpoint in '{folder}' is whole, but cannot be gone on from ({error}). Delete that folder to "
                "start over."
            ) from error
        self._any = True
        self.seconds_before = mark["seconds"]
        if self._checkpoints.on_resume is not None:
            self._checkpoints.on_resume(self.seconds_before)
        return folder

    def _found(self, folder: Path) -> dict[int, dict[str, Any]]:
        """The marks of usable checkpoints by their step; others are removed."""
        found = {}
        for path in list(folder.glob("checkpoint-*")):
            mark = _mark(path, self._identity)
            if mark is None or path != self._folder_of(mark["step"]):
                shutil.rmtree(path, ignore_errors=True)
            else:
                found[mark["step"]] = mark
        return found

    def due(self) -> bool:
        """Whether the end of an epoch should write a checkpoint."""
        return self._checkpoints is not None and time.perf_counter() - self._written >= self._checkpoints.every

    def write(self, step: int, save: Callable[[], None]) -> None:
        """Have `Trainer` write its part, add what everyone remembers, and mark the checkpoint as complete.

        Args:
            step: Steps done.
            save: `Trainer`'s writing.
        """
        folder = self._folder_of(step)
        try:
            (folder / MARK_FILE).unlink(missing_ok=True)
            save()
            memory = {
                f"{at}.{name}": value for at, one in enumerate(self._remembering) for name, value in one.state().items()
            }
            write_tensors(memory, folder / MEMORY_FILE)
            self._complete(folder, step)
            for other in set(folder.parent.glob("checkpoint-*")) - {folder}:
                shutil.rmtree(other, ignore_errors=True)
            self._any = True
        except (OSError, RuntimeError, SafetensorError, GuardrailError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._give_up(error)
        self._written = time.perf_counter()

    def finish(self, step: int, save: Callable[[Path], None]) -> None:
        """In the place of a checkpoint keep what a finished training needs: its weights and what was noted.

        Args:
            step: All steps.
            save: Writes weights and `Trainer`'s state into a folder.
        """
        if self._checkpoints is None or not self._any:
            return
        folder = self._folder_of(step)
        if not (folder / MARK_FILE).exists():
            self.write(step, lambda: save(folder))
        if self._checkpoints is None:  # there was no room
            return
        kept = {WEIGHTS_FILE, MEMORY_FILE, STATE_FILE}
        with suppress(OSError, GuardrailError):
            self._complete(folder, step, {path for path in folder.iterdir() if path.name in kept})
            for path in folder.iterdir():
                if path.name not in kept | {MARK_FILE}:
                    path.unlink()

    def _folder_of(self, step: int) -> Path:
        assert self._checkpoints is not None
        return self._checkpoints.folder / f"checkpoint-{step}"

    def _complete(self, folder: Path, step: int, files: set[Path] | None = None) -> None:
        seconds = self.seconds_before + time.perf_counter() - self._started
        mark = {
            "identity": self._identity,
            "step": step,
            "seconds": seconds,
            "files": {path.name: _digest(path) for path in sorted(files or folder.iterdir()) if path.name != MARK_FILE},
        }
        write_file(folder / MARK_FILE, to_json(mark), overwrite=True)

    def _give_up(self, error: BaseException) -> None:
        assert self._checkpoints is not None
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        with warnings.catch_warnings():  # at once: the libraries' own warnings are off while they train
            warnings.simplefilter("default")
            warnings.warn(
                f"No checkpoint could be kept in '{self._checkpoints.folder}' ({reason}), and no further one is tried. "
                "The training is not affected; if it is cut short, it goes on from an earlier one or starts over.",
                GuardrailWarning,
                stacklevel=2,
            )
        self._checkpoints = None


def write_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Write tensors from any device under their names; those that share memory are written each on their own."""
    save_file({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}, file)


def _mark(folder: Path, identity: str) -> dict[str, Any] | None:
    """What the mark of a checkpoint says; `None` where it is not complete, not whole or not of this fine-tuning."""
    try:
        mark: dict[str, Any] = json.loads((folder / MARK_FILE).read_text(encoding="utf-8"))
        files = mark["files"].items()
        whole = all(Path(name).name == name and _digest(folder / name) == digest for name, digest in files)
        return mark if whole and mark["identity"] == identity else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
