"""What writing whole asks of the system: one writer at a place, and data on the disk."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import RunError

PATIENCE = 60.0
"""Seconds for which a writer waits for another one at the same place."""


@contextmanager
def held(target: Path, place: Path) -> Iterator[Path]:
    """Be the only writer of `target`, a file or folder; what a killed writer left there is removed.

    Args:
        place: An existing folder on the same file system.

    Yields:
        A path in `place` for what is prepared, where nothing is; what is there at the end is removed.

    Raises:
        RunError: Another writer does not come to its end.
    """
    stem = _stem(target.name)
    lock = FileLock(place / f"{stem}.lock", timeout=PATIENCE)
    try:
        lock.acquire()
    except Timeout:
        raise RunError(
            f"Another run has been writing to '{target}' for {PATIENCE:.0f} seconds. Wait for it, or choose another "
            "place."
        ) from None
    except (OSError, NotImplementedError):
        pass  # another user's lock, or a file system without locks: what is written is whole all the same
    staged = place / f"{stem}.new"
    try:
        remove(staged)
        yield staged
    finally:
        remove(staged)
        if lock.is_locked:
            with suppress(OSError):
                Path(lock.lock_file).unlink()  # while it is held: whoever waits for it notices that it is gone
        lock.release()


def _stem(name: str) -> str:
    """How the hidden names for a target begin, short enough for the file system."""
    return f".{name}" if len(os.fsencode(name)) < 200 else f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def flush(path: Path) -> None:
    """Have a file's content, or a folder's names, on the disk."""
    if sys.platform == "win32":
        return  # which opens no folder
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems flush files only
            raise
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Have a folder with all that is in it on the disk: files first, then the folders that name them."""
    for root, _, files in os.walk(folder, topdown=False):
        for path in (Path(root, name) for name in files):
            if path.is_file() and not path.is_symlink():
                flush(path)
        flush(Path(root))


def settle(folder: Path) -> None:
    """Have the names in a folder on the disk, as far as it can be had, once what is new has its name."""
    with suppress(OSError):
        flush(folder)
