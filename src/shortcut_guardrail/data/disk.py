"""What writing whole asks of the system: one writer at a place, data on the disk, two folders that change places."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import RunError

if sys.platform != "win32":
    import fcntl

PATIENCE = 60.0
"""Seconds for which a writer waits for another one at the same place."""


@contextmanager
def held(target: Path, place: Path) -> Iterator[Path]:
    """Be the only writer of `target`, with a name for what is prepared; leftovers of killed writers are removed.

    Args:
        target: The file or folder that is to be written.
        place: An existing folder for what is needed meanwhile, on the same file system.

    Yields:
        A path in `place` where nothing is; what is there at the end is removed.

    Raises:
        RunError: Another writer does not come to its end.
    """
    stem = _stem(target.name)
    lock = place / f"{stem}.lock"
    descriptor = _locked(lock, target)
    own = place / f"{stem}.new-{secrets.token_hex(4)}"
    try:
        for left in _leftovers(place, stem):
            remove(left)
        yield own
    finally:
        remove(own)
        with suppress(OSError):
            lock.unlink(missing_ok=True)  # while it is held: whoever waits for it looks whether it is still there
        if descriptor is not None:
            os.close(descriptor)


def _stem(name: str) -> str:
    """How the hidden names for a target begin, short enough for the file system."""
    return f".{name}" if len(os.fsencode(name)) < 200 else f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def _leftovers(place: Path, stem: str) -> list[Path]:
    """What killed writers of one target left."""
    ours = re.compile(re.escape(stem) + r"\.new-[0-9a-f]{8}")
    with os.scandir(place) as entries:
        return [Path(entry) for entry in entries if ours.fullmatch(entry.name)]


def _locked(lock: Path, target: Path) -> int | None:
    """The descriptor of a locked file; `None` where the system has no locks."""
    if sys.platform == "win32":
        return None
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            descriptor = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError:
            return None  # another user's lock, or a place that refuses more than a lock
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, lock):
                return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise RunError(
                    f"Another run has been writing to '{target}' for {PATIENCE:.0f} seconds. Wait for it, or choose "
                    "another place."
                ) from None
            time.sleep(0.02)
        except OSError:
            os.close(descriptor)
            return None  # a file system without locks
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def flush(path: Path) -> None:
    """Have a file's content, or a folder's names, on the disk.

    Raises:
        OSError: The disk refuses.
    """
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


class UnconfirmedError(OSError):
    """What was written is in its place, but the disk refused to confirm that it will be there after a power cut."""


def confirm(*folders: Path) -> None:
    """Have the names in folders on the disk, once what is new has its name.

    Raises:
        UnconfirmedError: The disk refuses.
    """
    for folder in folders:
        try:
            flush(folder)
        except OSError as error:
            raise UnconfirmedError(error.errno, error.strerror) from error


def flush_tree(folder: Path) -> None:
    """Have a folder with all that is in it on the disk: files first, then the folders that name them."""
    for root, _, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(root, name)
            if path.is_file() and not path.is_symlink():
                flush(path)
        flush(Path(root))


_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def exchange(one: Path, other: Path) -> bool:
    """Have two folders change places in one step (`renameat2`); `False` where the system refuses, and nothing moved."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except AttributeError:  # an older C library
        return False
    renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return bool(renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
