"""What a folder that this library wrote holds: names, sizes and hashes, in `guardrail-manifest.json`."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from typing_extensions import TypedDict

from ..errors import DataError
from .schema import Count, checked, json_content, shown

MANIFEST_FILE = "guardrail-manifest.json"
FILLING_FOLDER = ".filling"
"""Within a folder that exists: a new version while it is being made ready."""
REPLACING_FOLDER = ".replacing"
"""Within a folder that is being replaced: the files of the new version that are not in their places yet."""
PATIENCE = 1.0
"""Seconds for which a reader waits until files that are ready have taken their places."""

_FOR_PEOPLE = (".md", ".html")
"""Pages that nothing loads: people may change them."""
_TRIES = 5

T = TypeVar("T")


class Entry(TypedDict):
    """What is recorded of a file."""

    size: Count
    sha256: str


class _Stored(TypedDict):
    schema_version: Literal[1]
    files: dict[str, Entry]


def write_manifest(folder: Path) -> None:
    """Record what a folder holds now."""
    files = {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    content = json.dumps({"schema_version": 1, "files": files}, indent=2, ensure_ascii=False)
    (folder / MANIFEST_FILE).write_text(content + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Entry] | None:
    """What was written into a folder, by names with slashes; `None` where there is no manifest."""
    file, advice = folder / MANIFEST_FILE, f"Remove '{folder}' and write it again."
    if not file.exists():
        return None
    files: dict[str, Entry] = checked(json_content(file, advice=advice), _Stored, str(file), advice=advice)["files"]
    for name in files:
        if not _is_within(name):
            raise DataError(f"{file}: {shown(name)} is no name of a file within the folder. {advice}")
    return files


def _is_within(name: str) -> bool:
    """Whether a name is one of a file, and does not lead out of the folder."""
    path = PurePosixPath(name)
    lone = any("\ud800" <= character <= "\udfff" for character in name)  # which no name of a file can hold
    return not (lone or path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name or "\0" in name)


def being_replaced(folder: Path) -> bool:
    """Whether a new version that is ready is taking the place of another one, or that was interrupted."""
    return (folder / REPLACING_FOLDER / MANIFEST_FILE).is_file()


def has_file(folder: Path, name: str) -> bool:
    """Whether a file is in a folder, or was written into it, or is about to be."""
    try:
        if (folder / name).exists() or being_replaced(folder):
            return True
    except (OSError, ValueError):  # too long for a name, or no permission
        return False
    return name in (read_manifest(folder) or {})


def check_finished(folder: Path) -> None:
    """Refuse a folder that somebody began to replace and did not finish."""
    end = time.monotonic() + PATIENCE
    while being_replaced(folder):
        if time.monotonic() > end:
            raise DataError(
                f"'{folder}' is being replaced, or that was interrupted. If no run is writing to it, give the command "
                "that wrote it once more: that completes it first."
            )
        time.sleep(0.01)


def check_whole(folder: Path, *, hashes: bool = False, only: str | None = None) -> None:
    """Refuse a folder whose files are not those that were written together. Pages for people may have changed.

    Args:
        folder: A folder that this library wrote. In one without manifest nothing is checked.
        hashes: Whether every byte is compared, rather than sizes.
        only: The one file that is looked at.

    Raises:
        DataError: A file is missing or has changed, or the folder was not written to its end.
    """
    check_finished(folder)
    for name, entry in (read_manifest(folder) or {}).items():
        path = folder / name
        if name.endswith(_FOR_PEOPLE) or only not in (None, name):
            continue
        found = path.stat().st_size if path.is_file() else None
        if found is None:
            problem = "is missing"
        elif found != entry["size"]:
            problem = f"has {found} bytes instead of {entry['size']}"
        elif hashes and _sha256(path) != entry["sha256"]:
            problem = "has another content than the one that was written"
        else:
            continue
        raise DataError(f"'{path}' {problem}: see '{folder / MANIFEST_FILE}'. Write the folder again.")


def read_whole(folder: Path, read: Callable[[], T], *, hashes: bool = False) -> T:
    """What is read from a folder that another program may be replacing: all of it of one version.

    Args:
        hashes: See `check_whole`.

    Raises:
        DataError: See `check_whole`; or each time that it was read, it was replaced meanwhile.
    """
    for _ in range(_TRIES):
        check_finished(folder)
        before = _state(folder)
        try:
            check_whole(folder, hashes=hashes)
            found = read()
        except Exception:
            if _state(folder) == before:
                raise
            continue
        if _state(folder) == before:
            return found
    raise DataError(f"'{folder}' was replaced each of the {_TRIES} times that it was read. Try again.")


def _state(folder: Path) -> Any:
    """What differs once a folder has been replaced, or is being."""
    file = folder / MANIFEST_FILE
    return being_replaced(folder), file.read_bytes() if file.is_file() else None


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
