"""What second models answered, kept on disk as soon as it comes, so that nothing is paid or waited for twice."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from filelock import FileLock, Timeout

from ..data import checked, file_system_reason, parse_json
from ..errors import ConfigError, RunError
from ..models import n_characters
from ..typing import Array, Progress, Text
from .probabilities import fingerprint_of
from .protocol import Classifier, Cost

_ASKED_WITH = 32  # texts, after which answers are on the disk


class _Entry(TypedDict):
    key: str
    answer: Any


class AnswerCache:
    """Answers by the hash of their request; on disk a line each, appended and synced before it counts.

    A line that a killed run left half written is cut off. The file holds neither texts nor keys.

    Args:
        path: The file; `None` keeps answers for the life of the object alone.
        kind: The type of an answer, as `data.checked` takes it.
    """

    def __init__(self, path: Path | None, kind: Any = tuple[float, ...]) -> None:
        self.path, self._kind = path, kind
        self._answers: dict[str, Any] = {}
        self._file: FileIO | None = None
        self._guard = threading.Lock()
        self._alone: FileLock | None = None
        if path is not None and path.exists():
            self._read(path)

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def __getitem__(self, key: str) -> Any:
        return self._answers[key]

    def add(self, key: str, answer: Any) -> None:
        """Keep an answer; when this returns it is on the disk.

        Raises:
            ConfigError: Another run writes to the file.
            RunError: The disk is full, or the like.
        """
        with self._guard:
            if self.path is not None:
                line = json.dumps({"key": key, "answer": answer}, ensure_ascii=True, allow_nan=False) + "\n"
                try:
                    file = self._file or self._open(self.path)
                    rest = line.encode()
                    while rest:  # a disk that is nearly full takes a part
                        rest = rest[file.write(rest) :]
                    os.fsync(file.fileno())
                except OSError as error:
                    self._let_go()  # whoever opens it again cuts off what is half written
                    raise RunError(f"'{self.path}' could not be written: {file_system_reason(error)}.") from error
            self._answers[key] = answer

    def close(self) -> None:
        """Let other runs write; the next answer opens the file again."""
        with self._guard:
            self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._alone is not None:
            self._alone.release()
            self._alone = None

    def _open(self, path: Path) -> FileIO:
        path.parent.mkdir(parents=True, exist_ok=True)
        alone = FileLock(f"{path}.lock", timeout=0)
        try:
            alone.acquire()
        except Timeout:
            raise ConfigError(f"Another run writes to '{path}'. Wait for it, or name another folder.") from None
        self._alone = alone
        if path.exists():
            self._read(path)  # another run may have added some since
        self._file = path.open("ab", buffering=0)  # what a buffer holds after an error is written later
        return self._file

    def _read(self, path: Path) -> None:
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content) and self._alone is not None:
            os.truncate(path, whole)
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            where, advice = f"'{path}', line {number}", "Delete the line, or the file."
            try:
                found = parse_json(line.decode())
            except ValueError:
                raise RunError(f"{where}, is no kept answer. {advice}") from None
            entry = checked(found, _Entry, where, error=RunError, advice=advice)
            kept = checked(entry["answer"], self._kind, where, path="answer", error=RunError, advice=advice)
            self._answers[entry["key"]] = kept


@dataclass(frozen=True)
class KeptClassifier:
    """A model on this machine whose answers are kept as they come: a run that was cut short goes on where it stopped.

    Attributes:
        inner: The model.
        cache: Its answers by the hash of the text.
    """

    inner: Classifier
    cache: AnswerCache

    @property
    def name(self) -> str:
        """Of the model."""
        return self.inner.name

    @property
    def label_names(self) -> tuple[str, ...]:
        """Of the model."""
        return self.inner.label_names

    def fingerprint(self) -> str:
        """Of the model."""
        return self.inner.fingerprint()

    def predict_proba(self, texts: Sequence[Text], *, progress: Progress | None = None, again: bool = False) -> Array:
        """See `Classifier`."""
        if again:
            return self.inner.predict_proba(texts, progress=progress, again=True)
        missing = sorted(self._missing(texts), key=n_characters)
        try:
            for start in range(0, len(missing), _ASKED_WITH):
                some = missing[start : start + _ASKED_WITH]
                for text, row in zip(some, self.inner.predict_proba(some), strict=True):
                    self.cache.add(_key(text), row.tolist())
                if progress is not None:
                    progress("Asking", len(texts) - len(missing) + start + len(some), len(texts))
        finally:
            self.cache.close()
        rows = [self.cache[_key(text)] for text in texts]
        if any(len(row) != len(self.label_names) for row in rows):
            raise RunError(f"'{self.cache.path}' has answers of several numbers of classes. Delete the file.")
        return np.array(rows, dtype=np.float64).reshape(len(texts), len(self.label_names))

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Classifier`; what was answered before costs nothing."""
        return replace(self.inner.cost(self._missing(texts)), texts=len(texts))

    def record(self) -> dict[str, Any]:
        """See `Classifier`."""
        return self.inner.record()

    def _missing(self, texts: Sequence[Text]) -> list[Text]:
        return [text for text in dict.fromkeys(texts) if _key(text) not in self.cache]


def _key(text: Text) -> str:
    return fingerprint_of({"text": text})
