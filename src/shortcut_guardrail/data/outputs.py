"""Where something may be written: what is refused before any work is done for it, and what the system says later."""

import errno
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ConfigError, RunError
from .manifests import FILLING_FOLDER, being_replaced, check_finished, has_file

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def sentences(target: Path) -> Iterator[None]:
    """Turns what the file system says while a target is written into a sentence."""
    try:
        yield
    except Exception as error:
        reason = file_system_reason(error)
        if reason is None:
            raise
        begun = being_replaced(target)
        rest = "The next run that writes there completes it first" if begun else "Nothing was left behind"
        raise RunError(f"'{target}' could not be written: {reason}. {rest}.") from error


def file_system_reason(error: Exception) -> str | None:
    """Why a file could not be written; `None` for errors of another kind."""
    number = error.errno if isinstance(error, OSError) else None
    # The writers of safetensors and tokenizers, which are in Rust, put the system's error into the text of their own.
    if found := re.search(r"\(os error (\d+)\)", str(error)):
        number = int(found[1])
    if number in _FULL:
        return "the disk is full"
    if number is not None:
        return os.strerror(number)
    return str(error) if isinstance(error, OSError) else None


def check_output(
    target: Path,
    *,
    overwrite: bool,
    folder: str | None = None,
    endings: Collection[str] = (),
    inputs: Iterable[str | Path | None] = (),
    others: Iterable[Path | None] = (),
) -> None:
    """Refuse an output before any work is done for it.

    Args:
        overwrite: Whether what this library wrote there may be replaced.
        folder: For a folder the file that every such folder has; `None` for a file.
        endings: Of the names that such a file has; one with another ending is not replaced. Any, where there is none.
        inputs: What is read: files, and folders of models; what is no path here is passed over.

    Raises:
        ConfigError: It exists and `overwrite` was not asked for, is an input, lies in the folder of a model or of what
            is written besides, is of another kind, or is in a place that cannot be written to.
        RunError: The disk is full.
    """
    try:
        _check_kind(target, folder)
        _check_inputs(target, inputs)
        for other in others:
            if other is not None and (_same(target, other) or _lies_in(target, other)):
                raise ConfigError(
                    f"'{target}' lies in '{other}', which is written too. Choose another place for one of them."
                )
        place = target if target.is_dir() else target.parent
        while not place.exists():
            place = place.parent
        _check_occupied(target, overwrite=overwrite, folder=folder, endings=endings)
    except OSError as error:
        raise ConfigError(f"'{target}' cannot be written ({error.strerror or error}).") from error
    if problem := _closed(place):
        if problem.errno in _FULL:
            raise RunError(f"'{target}' could not be written: the disk is full. Nothing was left behind.") from problem
        reason = problem.strerror or problem
        raise ConfigError(f"'{target}' cannot be written: '{place}' is no folder you may write to ({reason}).")


def _check_kind(target: Path, folder: str | None) -> None:
    if not target.exists() or (target.is_dir() if folder else target.is_file()):
        return
    found = "a folder" if target.is_dir() else "a file" if target.is_file() else "a device or a pipe"
    wanted = "folder" if folder else "file"
    raise ConfigError(f"'{target}' is {found}, but a {wanted} is to be written. Name a {wanted}.")


def _check_inputs(target: Path, inputs: Iterable[str | Path | None]) -> None:
    for path in [Path(given) for given in inputs if given is not None and _is_path(given)]:
        if _same(target, path):
            raise ConfigError(f"'{target}' is also what the command reads. Choose another place for the output.")
        if path.is_dir() and _lies_in(target, path):
            raise ConfigError(f"'{target}' lies in '{path}', which the command reads. Choose a place outside of it.")
        if _lies_in(path, target):
            raise ConfigError(
                f"'{target}' is to be written, but holds '{path}', which the command reads. Choose another place."
            )


def _is_path(given: str | Path) -> bool:
    try:
        return Path(given).exists()
    except (OSError, ValueError):  # too long for a name, or with a character that none has
        return False


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _lies_in(path: Path, folder: Path) -> bool:
    return folder.resolve() in path.resolve().parents


def _check_occupied(target: Path, *, overwrite: bool, folder: str | None, endings: Collection[str]) -> None:
    if folder is None:
        check_finished(target.parent)
    if not target.exists() or (folder is not None and not any(map(_counts, target.iterdir()))):
        return
    if not overwrite:
        raise ConfigError(
            f"'{target}' already exists. Choose another place, or allow it to be replaced with overwrite=True."
        )
    if folder is not None and not has_file(target, folder):
        raise ConfigError(
            f"'{target}' holds files, but no {folder}, which each such folder has: this program did not write it, and "
            "does not replace it. Choose another place."
        )
    if folder is None and endings and target.suffix.lower() not in endings:
        raise ConfigError(
            f"'{target}' exists, and does not end in {' or '.join(endings)} as what is to be written: it is not "
            "replaced. Choose another name."
        )


def _counts(path: Path) -> bool:
    """Whether something in a folder is more than what a writer needs meanwhile, or left when it was killed."""
    return path.name != FILLING_FOLDER and not (path.name.startswith(".") and path.name.endswith(".lock"))


def _closed(place: Path) -> OSError | None:
    """Why nothing can be written to a folder; `None` where something can."""
    try:
        # Asking for permissions is not enough: root has them all, and file systems can refuse for other reasons.
        with tempfile.TemporaryFile(dir=place):
            return None
    except OSError as error:
        return error


def place_for(target: Path) -> Path:
    """Where a target is made ready: beside it, or in it where its parent is closed to us."""
    return target if target.is_dir() and _closed(target.parent) else target.parent
