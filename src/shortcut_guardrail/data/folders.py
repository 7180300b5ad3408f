"""Folders are replaced whole: a reader finds the old version or the new one, never some files of each.

A version is made ready beside its place, with a manifest, and is on the disk before it takes the place of the old one:
in one step where the system exchanges two folders. Elsewhere (mount points, network file systems, macOS) its files are
moved in one by one: first the files without which nothing loads are taken away, last they are put back. A journal lets
the next writer complete what was interrupted; until then there is no version.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import GuardrailWarning
from .disk import confirm, exchange, flush, flush_tree, held, remove
from .files import to_json
from .manifests import JOURNAL_FILE, MANIFEST_FILE, REPLACING_FOLDER, Manifest, check_name, read_manifest
from .outputs import check_output, place_for, sentences
from .schema import checked, json_content

_LOADABLE = ("adapter_config.json", "config.json")
"""Without these, neither PEFT nor Transformers loads a folder."""
_FILES = "files"


def write_folder(
    target: Path, fill: Callable[[Path], None], *, key: str, former: Collection[str] = (), overwrite: bool = False
) -> None:
    """Fill a folder so that it appears whole or not at all, and takes the place of an older version whole.

    Files that this library did not write into the folder are carried over, unless a new one has their name.

    Args:
        target: The folder.
        fill: Writes the files into the folder it is given.
        key: The file that every such folder has: one that is there is replaced only if it has it.
        former: Files that go with the version of an earlier release, which has no manifest, where `fill` does not
            write them.
        overwrite: Whether the target may exist with something in it.

    Raises:
        ConfigError: See `check_output`.
        DataError: The manifest of the folder that is there is damaged.
        RunError: The disk is full, or the like; or another run is writing there.
    """
    check_output(target, overwrite=overwrite, folder=key)
    with sentences(target), held(*_place(target)) as staged:
        target = Path(os.path.realpath(target))
        _complete(target)
        before = read_manifest(target)
        new = staged / _FILES
        new.mkdir(parents=True)
        fill(new)
        check_output(target, overwrite=overwrite, folder=key)  # what others wrote there meanwhile
        _set_modes(new)
        manifest = Manifest.of_folder(new, 1 + (before.number if before else 0))
        (new / MANIFEST_FILE).write_text(to_json(manifest.to_dict()), encoding="utf-8")
        ours = {*manifest.files, *(before.files if before else ()), *former, MANIFEST_FILE}
        _check_kinds(new, target)
        last = (MANIFEST_FILE, key, *_LOADABLE)
        if not (_put_where_nothing_is(new, target) or _exchange(new, target, ours)):
            _move_in(new, target, {*manifest.files, MANIFEST_FILE}, drop=ours, last=last)


def write_files(folder: Path, fill: Callable[[Path], None], *, key: str) -> None:
    """Write some files of a folder that holds others, so that they are of one version: one by one, with a journal.

    Args:
        folder: The folder.
        fill: Writes the files into the folder it is given.
        key: The one of them that readers look for first.

    Raises:
        RunError: The disk is full, or the like; or another run is writing there.
    """
    with sentences(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with sentences(folder), held(*_place(folder)) as staged:
        folder = Path(os.path.realpath(folder))
        _complete(folder)
        new = staged / _FILES
        new.mkdir(parents=True)
        fill(new)
        _set_modes(new)
        _check_kinds(new, folder)
        _move_in(new, folder, set(_names(new)), drop=(), last=(key,))


def _place(target: Path) -> tuple[Path, Path]:
    """The target with its links resolved, and the folder where it is made ready."""
    target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    return target, place_for(target)


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _set_modes(folder: Path) -> None:
    """Files get the permissions that new files of this user get; safetensors writes for the owner alone."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


def _check_kinds(new: Path, target: Path) -> None:
    """Refuse to put a file in the place of a folder, or the other way round."""
    for path in sorted(new.rglob("*")):
        there = target / path.relative_to(new)
        is_folder = there.is_dir() and not there.is_symlink()
        if os.path.lexists(there) and is_folder != path.is_dir():
            raise OSError(errno.EISDIR if is_folder else errno.ENOTDIR, "")


def _put_where_nothing_is(new: Path, target: Path) -> bool:
    """Whether the folder took its place because nothing was there, or an empty folder."""
    if target.is_dir() and (any(target.iterdir()) or _stands_in(target)):
        return False
    if target.is_dir():
        shutil.copymode(target, new)
    flush_tree(new)
    flush(new.parent)
    try:
        os.replace(new, target)
    except OSError:
        if not target.is_dir():
            raise
        return False
    confirm(target.parent)
    return True


def _stands_in(folder: Path) -> bool:
    """Whether this process works in the folder, and would find itself in one that is gone."""
    with suppress(OSError):
        return folder in (here := Path.cwd().resolve(), *here.parents)
    return True


# In one step


def _exchange(new: Path, target: Path, ours: Collection[str]) -> bool:
    """Whether the new version took the place of the old one in one step, files of others with it."""
    staged = new.parent
    if staged.parent != target.parent or _stands_in(target) or not _carry(target, new, ours):
        return False
    with suppress(OSError):
        shutil.copymode(target, new)
    flush_tree(new)
    flush(staged)
    flush(target.parent)
    if not exchange(new, target):
        return False
    _carry(new, target, ours)  # what came meanwhile
    confirm(target.parent, staged, target)
    return True


def _carry(old: Path, new: Path, ours: Collection[str]) -> bool:
    """Whether the files of others are in both folders now, without a copy: what is written to one is in the other."""
    device = old.stat().st_dev
    for root, folders, files in os.walk(old):
        place = new / Path(root).relative_to(old)
        links = [name for name in folders if Path(root, name).is_symlink()]
        if any(os.lstat(Path(root, name)).st_dev != device for name in folders):
            return False  # another file system, whose files would be removed with the old folder
        others = [
            name
            for name in (*files, *links)
            if Path(root, name).relative_to(old).as_posix() not in ours and not os.path.lexists(place / name)
        ]
        try:
            if others or not (files or folders):
                _make_alike(place, Path(root), new)
            for name in others:
                os.link(Path(root, name), place / name, follow_symlinks=False)
        except OSError:
            return False  # a file system without links, or a file that is not ours to link
    return True


def _make_alike(folder: Path, like: Path, top: Path) -> None:
    """Make a folder, and those above it up to `top`, with the permissions of those they stand for."""
    if folder == top or folder.is_dir():
        return
    _make_alike(folder.parent, like.parent, top)
    folder.mkdir()
    shutil.copystat(like, folder)


# File by file


@dataclass(frozen=True)
class _Journal:
    """What is to be done once all files are ready.

    Attributes:
        files: Those that are moved in.
        drop: Those that go.
        last: Those of both without which nothing loads, in the order in which they are put back.
    """

    files: tuple[str, ...]
    drop: tuple[str, ...]
    last: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in (*self.files, *self.drop):
            check_name(name)
        if not {*self.last} <= {*self.files, *self.drop}:
            raise ValueError("'last' has names that are not in 'files' or 'drop'.")


def _move_in(new: Path, target: Path, files: Iterable[str], *, drop: Iterable[str], last: Iterable[str]) -> None:
    """Move files into a folder one by one; from the moment on that the journal is there, the next writer goes on."""
    files = sorted(files)
    gone = [name for name in sorted({*drop} - {*files}) if os.path.lexists(target / name)]
    journal = _Journal(tuple(files), tuple(gone), tuple(_in_order({*files, *gone} & {*last}, last)))
    ready = target / f"{REPLACING_FOLDER}-{secrets.token_hex(4)}"
    try:
        for name in files:
            (ready / _FILES / name).parent.mkdir(parents=True, exist_ok=True)
            _bring(new / name, ready / _FILES / name)
        (ready / JOURNAL_FILE).write_text(to_json(vars(journal)), encoding="utf-8")
        flush_tree(ready)
        os.replace(ready, target / REPLACING_FOLDER)
    finally:
        remove(ready)
    flush(target)
    _go_on(target, journal)


def _bring(file: Path, to: Path) -> None:
    """Move a file, also to another file system."""
    try:
        os.replace(file, to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(file, to)


def complete(folder: Path) -> None:
    """Complete what `write_files` or `write_folder` began in a folder, if that was interrupted, and say so.

    Raises:
        DataError: The journal is damaged.
        RunError: The disk refuses; or another run is writing there.
    """
    if folder.is_dir():
        with sentences(folder), held(*_place(folder)):
            _complete(Path(os.path.realpath(folder)))


def _complete(folder: Path) -> None:
    if not folder.is_dir():
        return
    for left in folder.glob(f"{REPLACING_FOLDER}-????????"):
        remove(left)
    file = folder / REPLACING_FOLDER / JOURNAL_FILE
    if not file.exists():
        if file.parent.is_dir():  # all was done but this
            remove(file.parent)
        return
    advice = f"Remove '{folder}' and write it again."
    journal: _Journal = checked(json_content(file, advice=advice), _Journal, str(file), advice=advice)
    _go_on(folder, journal)
    warnings.warn(
        f"The last run that wrote to '{folder}' was interrupted; what it wrote was completed first.",
        GuardrailWarning,
        stacklevel=4,
    )


def _in_order(names: Iterable[str], last: Iterable[str]) -> list[str]:
    """Names, those of `last` at the end and in their order."""
    given = {*names}
    late = [name for name in dict.fromkeys(last) if name in given]
    return [*sorted(given - {*late}), *late]


def _go_on(target: Path, journal: _Journal) -> None:
    """Do what the journal says, wherever that was interrupted."""
    ready = target / REPLACING_FOLDER / _FILES
    for name in reversed(journal.last):
        if name in journal.drop or os.path.lexists(ready / name):  # else it is in its place already
            (target / name).unlink(missing_ok=True)
    flush(target)
    for name in journal.drop:
        _drop(target, name)
    for name in _in_order(journal.files, journal.last):
        if not os.path.lexists(ready / name):
            continue
        if name in journal.last:
            flush(target)  # all before it is there before it is
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(ready / name, target / name)
        if (target / name).parent != target:
            flush((target / name).parent)
    flush(target)
    (target / REPLACING_FOLDER / JOURNAL_FILE).unlink()
    remove(target / REPLACING_FOLDER)


def _drop(target: Path, name: str) -> None:
    """Remove a file of the old version, and the folders that it leaves empty."""
    path = target / name
    if path.parent.resolve() != Path(os.path.normpath(path.parent)):
        return  # through a link: the folder of somebody else
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == target:
            break
        with suppress(OSError):
            folder.rmdir()
