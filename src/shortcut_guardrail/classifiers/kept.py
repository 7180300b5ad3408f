"""What classifiers answered, kept on disk as soon as it comes, so that nothing is paid or waited for twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data import checked, parse_json
from ..errors import RunError
from ..models import n_characters
from ..threads import Lock
from ..typing import Array, Progress, Text
from .mapped import Around
from .probabilities import fingerprint_of
from .protocol import Classifier, Cost

_ASKED_WITH = 32  # texts, after which answers are on the disk
_TABLE = "CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, answer TEXT NOT NULL)"


class AnswerCache:
    """Answers by the hash of their request, each a row of an SQLite file; neither texts nor keys are in it.

    Several runs may use one file. What a killed run left half written is undone when it is opened again. Without a
    `path` answers are kept for the life of the object alone; `kind` is their type, as `data.checked` takes it.
    """

    def __init__(self, path: Path | None, kind: Any = tuple[float, ...]) -> None:
        self.path, self._kind = path, kind
        self._unkept: dict[str, str] = {}
        self._file: sqlite3.Connection | None = None
        self._guard = Lock()

    def get(self, key: str) -> Any:
        """An answer; `None` where there is none."""
        if self.path is None or not self.path.exists():
            found = self._unkept.get(key)
        else:
            row = self._run(self.path, "SELECT answer FROM answers WHERE request = ?", key)
            found = None if row is None else str(row[0])
        if found is None:
            return None
        where, advice = f"'{self.path}', {key[:16]}", "Delete the file."
        try:
            answer = parse_json(found)
        except ValueError:
            raise RunError(f"{where}, is no kept answer. {advice}") from None
        return checked(answer, self._kind, where, path="answer", error=RunError, advice=advice)

    def add(self, key: str, answer: Any) -> None:
        """Keep an answer; when this returns it is on the disk."""
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
            except (OSError, sqlite3.OperationalError) as error:
                raise RunError(f"'{path}' could not be read or written: {error}.") from error
            except sqlite3.DatabaseError as error:
                raise RunError(f"'{path}' holds no kept answers ({error}). Delete it.") from error


@dataclass(frozen=True)
class KeptClassifier(Around):
    """A model on this machine whose answers are kept as they come: a run cut short goes on where it stopped."""

    inner: Classifier
    cache: AnswerCache  # its answers by the hash of the text

    @property
    def label_names(self) -> tuple[str, ...]:
        """See `Classifier`."""
        return self.inner.label_names

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
        return np.array(rows, dtype=np.float64).reshape(len(texts), len(self.label_names))

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Classifier`; what was answered before costs nothing."""
        return replace(super().cost(self._missing(texts)), texts=len(texts))

    def _missing(self, texts: Sequence[Text]) -> list[Text]:
        missing = [text for text in dict.fromkeys(texts) if self.cache.get(_key(text)) is None]
        self.cache.close()
        return missing


def _key(text: Text) -> str:
    return fingerprint_of({"text": text})
