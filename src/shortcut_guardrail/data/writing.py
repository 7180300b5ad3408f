"""Files and folders appear whole or not at all: a reader finds the old version or the new one, never some of each.

A new folder is made ready beside its place and renamed. In one that exists the new version is made ready within it, so
that files of others, links and mount points stay as they are. Once it is complete and on the disk, old files go and new
ones take their places; until the last has, readers refuse the folder, and the next writer goes on where that stopped.
"""

import errno
import hashlib
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..errors import GuardrailWarning, RunError, printable
from .manifests import FILLING_FOLDER, MANIFEST_FILE, REPLACING_FOLDER, being_replaced, read_manifest, write_manifest
from .outputs import check_output, place_for, sentences

PATIENCE = 60.0
"""Seconds for which a writer waits for another one at the same place."""


def to_json(values: Any) -> str:
    """JSON with a stable layout; numbers that are not finite are refused, since JSON has none."""
    return printable(json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False), "\\u{:04x}") + "\n"


def write_file(target: Path, content: str | bytes, *, overwrite: bool = False) -> None:
    """Write a file so that it appears whole or not at all, and is on the disk; text as UTF-8."""
    check_output(target, overwrite=overwrite)
    with sentences(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with held(target, target.parent) as temporary:
            temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
            flush(temporary)
            os.replace(temporary, target)
            settle(target.parent)


def write_folder(target: Path, fill: Callable[[Path], None], *, key: str | None, overwrite: bool = False) -> None:
    """Fill a folder so that it appears whole or not at all, and takes the place of an older version whole.

    Files that this library did not write into the folder stay, unless a new one has their name.

    Args:
        fill: Writes the files into the folder it is given.
        key: The file that every such folder has: one that is there is replaced only if it has it. `None` for some files
            of one version in a folder that may hold anything else.
        overwrite: Whether the target may exist with something in it; it always may without a `key`.

    Raises:
        DataError: The manifest of the folder that is there is damaged.
        RunError: The disk is full, or the like; or another run is writing there.
    """

    def check() -> None:
        if key is not None:
            check_output(target, overwrite=overwrite, folder=key)

    check()
    with sentences(target):
        target = Path(os.path.realpath(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        with held(target, place_for(target)) as beside:
            _complete(target)
            read_manifest(target)  # a damaged one is refused before anything is replaced
            is_new = not target.is_dir()
            ready = beside if is_new else target / FILLING_FOLDER
            try:
                ready.mkdir()
                fill(ready)
                check()  # once more, for what others wrote there meanwhile
                _finish(ready, target)
                os.replace(ready, target if is_new else target / REPLACING_FOLDER)
            finally:
                remove(ready)
            if is_new:
                settle(target.parent)
            else:
                _move_in(target)


def complete(folder: Path) -> None:
    """Complete what `write_folder` began in a folder, if that was interrupted, and say so."""
    if folder.is_dir():
        folder = Path(os.path.realpath(folder))
        with sentences(folder), held(folder, place_for(folder)):
            _complete(folder)


def _finish(ready: Path, target: Path) -> None:
    """Give a version that is filled its manifest and the usual permissions, and have it on the disk."""
    for path in sorted(ready.rglob("*")):
        there = target / path.relative_to(ready)
        is_folder = there.is_dir() and not there.is_symlink()
        if os.path.lexists(there) and is_folder != path.is_dir():
            raise OSError(errno.EISDIR if is_folder else errno.ENOTDIR, "")
    write_manifest(ready)
    mode = ready.stat().st_mode & 0o666
    for path in sorted(ready.rglob("*"), reverse=True):  # files before the folders that name them
        if path.is_file():
            path.chmod(mode)  # safetensors writes for the owner alone
        flush(path)
    flush(ready)


def _complete(target: Path) -> None:
    """Go on where a killed writer stopped, or clear away what it had not finished making ready."""
    if being_replaced(target):
        _move_in(target)
        warnings.warn(
            f"The last run that wrote to '{target}' was interrupted; what it wrote was completed first.",
            GuardrailWarning,
            stacklevel=4,
        )
    for name in (FILLING_FOLDER, REPLACING_FOLDER):
        remove(target / name)


def _move_in(target: Path) -> None:
    """Replace the old version by the one that is ready; where that is interrupted, it can be called again."""
    ready = target / REPLACING_FOLDER
    new, old = read_manifest(ready) or {}, read_manifest(target) or {}
    # What is no longer ready is in its place: it was moved before an interruption.
    waiting = [name for name in new if os.path.lexists(ready / name)]
    for name in reversed(_in_order({*old, *waiting})):
        if name in waiting or name not in new:
            _drop(target, name)
    flush(target)  # no old file comes back beside new ones after a power cut
    for name in _in_order(waiting):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if _is_loaded_first(name):
            flush(target)  # all before it is there before it is
        os.replace(ready / name, target / name)
        if (target / name).parent != target:
            flush((target / name).parent)
    flush(target)
    os.replace(ready / MANIFEST_FILE, target / MANIFEST_FILE)
    settle(target)
    remove(ready)


def _in_order(names: Collection[str]) -> list[str]:
    """Names of files, those at the end without which nothing loads."""
    return sorted(names, key=lambda name: (_is_loaded_first(name), name))


def _is_loaded_first(name: str) -> bool:
    """Whether PEFT, Transformers or this library would look for a file first: a record or a configuration."""
    return name.endswith(".json") and "/" not in name


def _drop(target: Path, name: str) -> None:
    """Remove a file of the old version, and the folders that it leaves empty; nothing that others put in its place."""
    path = target / name
    if path.parent.resolve() != Path(os.path.normpath(path.parent)):
        return  # through a link: the folder of somebody else
    if path.is_dir() and not path.is_symlink():
        return
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == target:
            break
        with suppress(OSError):
            folder.rmdir()


# What writing asks of the system: one writer at a place, and data on the disk


@contextmanager
def held(target: Path, place: Path) -> Iterator[Path]:
    """Be the only writer of `target`, a file or folder; what a killed writer left there is removed.

    Args:
        place: An existing folder on the same file system.

    Yields:
        A path in `place` for what is prepared, where nothing is; what is there at the end is removed.
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


def settle(folder: Path) -> None:
    """Have the names in a folder on the disk, as far as it can be had, once what is new has its name."""
    with suppress(OSError):
        flush(folder)
