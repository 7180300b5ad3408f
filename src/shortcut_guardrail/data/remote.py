"""Files in object stores, on web servers and wherever else fsspec reads, with what `tables` asks of a `Path`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from ..errors import DataError
from .messages import one_line

_URL = re.compile(r"(?P<kept>([a-z]\w+::)*)(?P<protocol>[a-z][\w+.-]+)://", re.ASCII)


def place_of(name: str) -> "Path | RemoteFile":
    """What is meant by a name such as `texts.csv` or `s3://bucket/texts.csv`."""
    return RemoteFile(name) if _URL.match(name) else Path(name)


def public_name(name: str) -> str:
    """A name without the keys that a link may hold: a password, and over HTTP all behind a `?`."""
    found = _URL.match(name)
    if found is None:
        return name
    return re.sub("://[^/@:]*:[^/@]*@", "://", name.partition("?")[0] if found["protocol"][:4] == "http" else name)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Says in a sentence what goes wrong within: each file system has exceptions of its own."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{url} cannot be read ({one_line(error) or type(error).__name__}).") from error


class RemoteFile:
    """A file, folder or pattern of files, looked at when it is first asked about; see `Path` for its methods.

    Raises:
        DataError: A library is missing, or the file system refuses or fails, at any time.
    """

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self._url, self.suffix = url, PurePosixPath(public_name(url)).suffix
        with _told(url):
            self._system, self._place = url_to_fs(url)
            self._system.invalidate_cache()  # it may have changed since this process looked last

    @cached_property
    def _info(self) -> dict[str, Any]:
        with _told(self._url):
            try:
                return dict(self._system.info(self._place))
            except FileNotFoundError as error:
                # So fsspec calls every failure of HTTP.
                if error.__cause__ is not None and getattr(error.__cause__, "status", None) != 404:
                    raise error.__cause__ from None
                return {}

    def exists(self) -> bool:  # noqa: D102
        return bool(self._info)

    def is_dir(self) -> bool:  # noqa: D102
        return self._info.get("type") == "directory"

    def is_file(self) -> bool:  # noqa: D102
        return self.exists() and not self.is_dir()

    def stat(self) -> SimpleNamespace:
        """Its size in bytes; 0 where the file system does not say."""
        return SimpleNamespace(st_size=self._info.get("size") or 0)

    def files(self) -> list[str]:
        """The names of all files in a folder, or of a pattern."""
        with _told(self._url):
            found = (self._system.find if self.is_dir() else self._system.glob)(self._place, detail=True)
            files = [self._system.unstrip_protocol(one) for one in found if found[one]["type"] == "file"]
            return [_URL.match(self._url)["kept"] + one for one in files]  # type: ignore[index]

    @contextmanager
    def open(self, mode: str) -> Iterator[Any]:
        """Its content, for as long as it is read."""
        with _told(self._url), self._system.open(self._place, mode) as file:
            yield file
