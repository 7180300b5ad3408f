"""What a folder that this library wrote holds: names, sizes and hashes, in `guardrail-manifest.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypedDict, TypeVar

from ..errors import DataError
from .schema import Count, Within, checked, json_content, shown

MANIFEST_FILE = "guardrail-manifest.json"
REPLACING_FOLDER = ".replacing"
"""Within a folder that is replaced file by file: what is still to be moved, and the journal."""
JOURNAL_FILE = "journal.json"

_SCHEMA_VERSION = 1
_FOR_PEOPLE = (".md", ".html")
"""Pages that nothing loads: people may change them."""

T = TypeVar("T")


@dataclass(frozen=True)
class Manifest:
    """What was written together.

    Attributes:
        number: Of the version: one more than that of the version it took the place of.
        files: Size in bytes and SHA-256 of each file by its name, with slashes.
    """

    number: int
    files: Mapping[str, tuple[int, str]]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        files = {name: {"size": size, "sha256": digest} for name, (size, digest) in sorted(self.files.items())}
        return {"schema_version": _SCHEMA_VERSION, "number": self.number, "files": files}

    @classmethod
    def of_folder(cls, folder: Path, number: int) -> Manifest:
        """The manifest of what a folder holds now."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        return cls(
            number, {path.relative_to(folder).as_posix(): (path.stat().st_size, _sha256(path)) for path in paths}
        )


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; `None` where there is none, as in folders of earlier versions.

    Raises:
        DataError: It is damaged.
    """
    file = folder / MANIFEST_FILE
    if file.exists() and not file.is_file():
        raise DataError(f"'{file}' is no file. Remove '{folder}' and write it again.")
    if not file.exists():
        return None
    how = {"advice": f"Remove '{folder}' and write it again."}
    found = checked(json_content(file, **how), _Stored, str(file), **how)
    for name in found["files"]:
        try:
            check_name(name)
        except ValueError as error:
            raise DataError(f"{file}: {error} {how['advice']}") from error
    return Manifest(found["number"], {name: (one["size"], one["sha256"]) for name, one in found["files"].items()})


class _Entry(TypedDict):
    size: Count
    sha256: str


class _Stored(TypedDict):
    schema_version: Literal[1]
    number: Annotated[int, Within(1)]
    files: dict[str, _Entry]


def check_name(name: str) -> None:
    """Refuse a name that leads out of a folder.

    Raises:
        ValueError: It leads out of the folder.
    """
    path = PurePosixPath(name)
    lone = any("\ud800" <= character <= "\udfff" for character in name)  # which no name of a file can hold
    if lone or path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name or "\0" in name:
        raise ValueError(f"{shown(name)} is no name of a file within the folder.")


def has_file(folder: Path, name: str) -> bool:
    """Whether a file is in a folder, or was written into it, or is about to be."""
    try:
        if (folder / name).exists() or (folder / REPLACING_FOLDER / JOURNAL_FILE).exists():
            return True
    except (OSError, ValueError):  # too long for a name, or no permission
        return False
    manifest = read_manifest(folder)
    return manifest is not None and name in manifest.files


def check_whole(folder: Path, *, hashes: bool = False) -> None:
    """Refuse a folder whose files are not those that were written together. Pages for people may have changed.

    Args:
        folder: A folder that this library wrote. In one of an earlier version, without manifest, nothing is checked.
        hashes: Whether every byte is compared, rather than sizes.

    Raises:
        DataError: A file is missing or has changed, or the folder was not written to its end.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        check_finished(folder)
        return
    for name, (size, digest) in manifest.files.items():
        if not name.endswith(_FOR_PEOPLE):
            _check_file(folder, name, size, digest if hashes else None)


def check_file(path: Path) -> None:
    """Refuse a file that is not the one that was written together with others of its folder, as far as sizes tell.

    Raises:
        DataError: See `check_whole`.
    """
    manifest = read_manifest(path.parent)
    if manifest is None:
        check_finished(path.parent)
    elif path.name in manifest.files:
        _check_file(path.parent, path.name, manifest.files[path.name][0], None)


def _check_file(folder: Path, name: str, size: int, digest: str | None) -> None:
    path = folder / name
    found = path.stat().st_size if path.is_file() else None
    if found is None:
        problem = "is missing"
    elif found != size:
        problem = f"has {found} bytes instead of {size}"
    elif digest is not None and _sha256(path) != digest:
        problem = "has another content than the one that was written"
    else:
        return
    check_finished(folder)
    raise DataError(f"'{path}' {problem}: see '{folder / MANIFEST_FILE}'. Write the folder again.")


def check_finished(folder: Path) -> None:
    """Refuse a folder that somebody began to replace file by file, and did not finish.

    Raises:
        DataError: The sentence says what to do.
    """
    if (folder / REPLACING_FOLDER / JOURNAL_FILE).is_file():
        raise DataError(
            f"'{folder}' is being replaced, or that was interrupted. If no run is writing to it, give the command that "
            "wrote it once more: that completes it first."
        )


def read_whole(folder: Path, read: Callable[[], T], *, hashes: bool = False) -> T:
    """What is read from a folder that another program may be replacing: all of it of one version.

    Args:
        folder: The folder.
        read: Reads what is wanted.
        hashes: See `check_whole`.

    Raises:
        DataError: See `check_whole`; or each time that it was read, it was replaced meanwhile.
    """
    for _ in range(_TRIES):
        before = _manifest_bytes(folder)
        try:
            check_whole(folder, hashes=hashes)
            found = read()
        except Exception:
            if _manifest_bytes(folder) == before:
                raise
            continue
        if _manifest_bytes(folder) == before:
            return found
    raise DataError(f"'{folder}' was replaced each of the {_TRIES} times that it was read. Try again.")


_TRIES = 5


def _manifest_bytes(folder: Path) -> bytes | None:
    try:
        return (folder / MANIFEST_FILE).read_bytes()
    except OSError:
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
