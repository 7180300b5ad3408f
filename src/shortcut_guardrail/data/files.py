"""Files on disk appear whole or not at all, and what the file system says becomes a sentence."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError, RunError


@contextmanager
def _sentences(target: Path) -> Iterator[None]:
    """Turns what the file system says into a sentence."""
    try:
        yield
    except Exception as error:
        reason = _file_system_reason(error)
        if reason is None:
            raise
        raise RunError(f"'{target}' could not be written: {reason}. Nothing was left behind.") from error


def _file_system_reason(error: Exception) -> str | None:
    """Why a file could not be written; `None` for errors of another kind."""
    number = error.errno if isinstance(error, OSError) else None
    # The writers of safetensors and tokenizers, which are in Rust, put the system's error into the text of their own.
    if found := re.search(r"\(os error (\d+)\)", str(error)):
        number = int(found[1])
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    if number is not None:
        return os.strerror(number)
    return str(error) if isinstance(error, OSError) else None


def check_output(target: Path, *, overwrite: bool, folder: bool = False) -> None:
    """Refuse an output path before any work is done for it.

    Args:
        target: What is to be written.
        overwrite: Whether files that are there may be replaced.
        folder: Whether a folder is to be written rather than a file.

    Raises:
        ConfigError: It exists and `overwrite` was not asked for, is a file where a folder is needed or the other way
            round, or is in a place that cannot be written to.
    """
    try:
        _check_kind(target, folder)
        occupied = target.exists() and (not folder or any(target.iterdir()))
        place = target if target.is_dir() else target.parent
        while not place.exists():
            place = place.parent
    except OSError as error:
        raise ConfigError(f"'{target}' cannot be written ({error.strerror or error}).") from error
    if occupied and not overwrite:
        raise ConfigError(
            f"'{target}' already exists. Choose another place, or allow it to be replaced with --overwrite."
        )
    try:
        # Asking for permissions is not enough: root has them all, and file systems can refuse for other reasons.
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise ConfigError(
            f"'{target}' cannot be written: '{place}' is no folder you may write to ({error.strerror or error})."
        ) from error


def _check_kind(target: Path, folder: bool) -> None:
    if folder and target.exists() and not target.is_dir():
        raise ConfigError(f"'{target}' is a file, but a folder is to be written. Name a folder.")
    if not folder and target.is_dir():
        raise ConfigError(f"'{target}' is a folder, but a file is to be written. Name a file.")


def write_folder(target: Path, fill: Callable[[Path], None], *, overwrite: bool = False) -> None:
    """Fill a folder so that it appears whole or not at all.

    Files are written to a temporary folder on the same file system. A new target appears in one rename. In an existing
    one the new files take the place of the old ones of the same name once all are written, and those come back if that
    is interrupted; other files stay.

    Args:
        target: The folder.
        fill: Writes the files into the folder it is given.
        overwrite: Whether the target may exist with something in it.

    Raises:
        ConfigError: See `check_output`.
        RunError: The disk is full, or the like.
    """
    check_output(target, overwrite=overwrite, folder=True)
    exists = target.is_dir()
    with _sentences(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        # Within an existing target, since its parent may be on another file system or closed to us.
        temporary = _new_folder(target if exists else target.parent, target.name)
    try:
        with _sentences(target):
            new = temporary / "new"
            new.mkdir()
            fill(new)
            _set_modes(new)
            if exists:
                _swap_files(new, target, temporary / "old")
            else:
                os.replace(new, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _new_folder(parent: Path, name: str) -> Path:
    """A hidden folder with the permissions that a new folder of this user gets, which mkdtemp's has not."""
    folder = parent / f".{name}-{secrets.token_hex(4)}"
    folder.mkdir()
    return folder


def _set_modes(folder: Path) -> None:
    """Files get the permissions that new files of this user get; safetensors writes for the owner alone."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


def _swap_files(new: Path, target: Path, old: Path) -> None:
    """Put the files of `new` into `target`, and what they replace into `old`; undone if it does not succeed."""
    moved: list[Path] = []
    replaced: list[Path] = []
    try:
        for file in sorted(path for path in new.rglob("*") if path.is_file()):
            name = file.relative_to(new)
            for folder in (target, old):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (target / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if (target / name).exists():
                replaced.append(name)
                os.replace(target / name, old / name)
            moved.append(name)
            os.replace(file, target / name)
    except BaseException:
        for name in moved:
            (target / name).unlink(missing_ok=True)
        for name in replaced:
            if (old / name).exists():
                os.replace(old / name, target / name)
        raise


def write_file(target: Path, content: str | bytes, *, overwrite: bool = False) -> None:
    """Write a file so that it appears whole or not at all; text as UTF-8.

    Raises:
        ConfigError: See `check_output`.
        RunError: The disk is full, or the like.
    """
    check_output(target, overwrite=overwrite)
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}"
    with _sentences(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def to_json(values: Any) -> str:
    """JSON with a stable layout; numbers that are not finite are refused, since JSON has none."""
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
