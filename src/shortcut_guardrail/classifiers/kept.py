"""What classifiers answered, kept on disk as soon as it comes, so that nothing is paid or waited for twice."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data import checked, file_system_reason, parse_json
from ..errors import RunError
from ..models import n_characters
from ..typing import Array, Progress, Text
from .probabilities import fingerprint_of
from .protocol import Classifier, Cost

_ASKED_WITH = 32  # texts, after which answers are on the disk
_TABLE = "CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, answer TEXT NOT NULL)"


class AnswerCache:
    """Answers by the hash of their request, each a row of an SQLite file; neither texts nor keys are in it.

    Several runs may use one file. What a killed run left half written is undone when it is opened again.

    Args:
        path: The file; `None` keeps answers for the life of the object alone.
        kind: The type of an answer, as `data.checked` takes it.
    """

    def __init__(self, path: Path | None, kind: Any = tuple[float, ...]) -> None:
        self.path, self._kind = path, kind
        self._unkept: dict[str, str] = {}
        self._file: sqlite3.Connection | None = None
        self._guard = threading.Lock()

    def __contains__(self, key: str) -> bool:
        return self._found(key) is not None

    def get(self, key: str) -> Any:
        """An answer; `None` where there is none."""
        if (found := self._found(key)) is None:
            return None
        where, advice = f"'{self.path}', {key[:16]}", "Delete the file."
        try:
            answer = parse_json(found)
        except ValueError:
            raise RunError(f"{where}, is no kept answer. {advice}") from None
        return checked(answer, self._kind, where, path="answer", error=RunError, advice=advice)

    def add(self, key: str, answer: Any) -> None:
        """Keep an answer; when this returns it is on the disk.

        Raises:
            RunError: The disk is full, the file is none of answers, or the like.
        """
        content = json.dumps(answer, ensure_ascii=True, allow_nan=False)
        if self.path is None:
            self._unkept[key] = content
        else:
            self._run(self.path, "INSERT OR REPLACE INTO answers VALUES (?, ?)", key, content)

    def close(self) -> None:
        """Close the file; the next question opens it again."""
        with self._guard:
            if self._file is not None:
                self._file.close()
            self._file = None

    def _found(self, key: str) -> str | None:
        if self.path is None or not self.path.exists():
            return self._unkept.get(key)
        row = self._run(self.path, "SELECT answer FROM answers WHERE request = ?", key)
        return None if row is None else str(row[0])

    def _run(self, path: Path, command: str, *values: str) -> Any:
        """The first row that a command gives, once it is done and on the disk."""
        with self._guard:
            try:
                if self._file is None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = sqlite3.connect(path, check_same_thread=False)
                    self._file.execute(_TABLE)
                with self._file:
                    return self._file.execute(command, values).fetchone()
            except OSError as error:
                raise RunError(f"'{path}' could not be written: {file_system_reason(error)}.") from error
            except sqlite3.OperationalError as error:
                raise RunError(f"'{path}' could not be read or written: {error}.") from error
            except sqlite3.DatabaseError as error:
                raise RunError(
                    f"'{path}' holds no kept answers ({error}). Delete it, or name another folder."
                ) from error


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
        for start in range(0, len(missing), _ASKED_WITH):
            some = missing[start : start + _ASKED_WITH]
            for text, row in zip(some, self.inner.predict_proba(some), strict=True):
                self.cache.add(_key(text), row.tolist())
            if progress is not None:
                progress("Asking", len(texts) - len(missing) + start + len(some), len(texts))
        rows = [self.cache.get(_key(text)) for text in texts]
        self.cache.close()
        if any(len(row) != len(self.label_names) for row in rows):
            raise RunError(f"'{self.cache.path}' has answers of another number of classes. Delete the file.")
        return np.array(rows, dtype=np.float64).reshape(len(texts), len(self.label_names))

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Classifier`; what was answered before costs nothing."""
        return replace(self.inner.cost(self._missing(texts)), texts=len(texts))

    def record(self) -> dict[str, Any]:
        """See `Classifier`."""
        return self.inner.record()

    def _missing(self, texts: Sequence[Text]) -> list[Text]:
        missing = [text for text in dict.fromkeys(texts) if _key(text) not in self.cache]
        self.cache.close()
        return missing


def _key(text: Text) -> str:
    return fingerprint_of({"text": text})
