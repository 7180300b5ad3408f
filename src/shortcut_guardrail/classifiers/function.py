"""A function as a classifier: a scikit-learn pipeline's `predict_proba`, or whatever a user writes."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import GuardrailWarning, RunError
from ..models import measured_seconds
from ..typing import Array, Progress, Text
from .probabilities import checked_probs, fingerprint_of
from .protocol import Cost

_CALLED_WITH = 256  # texts at a time


@dataclass(frozen=True)
class FunctionClassifier:
    """A function from a list of N texts (or pairs) to probabilities of shape (N, C)."""

    name: str
    label_names: tuple[str, ...]  # in whose order the columns are
    function: Callable[[Any], Any]

    def fingerprint(self) -> str:
        """Of the file that it is in, its name, and the object whose method it is, where that can be pickled.

        What it loads from elsewhere is not known.
        """
        try:
            file = inspect.getsourcefile(inspect.unwrap(self.function)) or ""
            code = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        except (TypeError, OSError):
            code = ""  # of a built-in, an object or a function that was typed in
        own = getattr(self.function, "__qualname__", self.name)
        bound = getattr(self.function, "__self__", None)
        with suppress(Exception):  # whatever a class of a user's raises there
            code += hashlib.sha256(pickle.dumps(bound)).hexdigest() if bound is not None else ""
        return fingerprint_of({"code": code, "name": own, "shown": self.name})

    def predict_proba(self, texts: Sequence[Text], *, progress: Progress | None = None, again: bool = False) -> Array:
        """See `Classifier`. The function gets at most 256 texts at a time."""
        parts = [np.empty((0, len(self.label_names)))]
        for start in range(0, len(texts), _CALLED_WITH):
            chunk = texts[start : start + _CALLED_WITH]
            asked = list(chunk)
            try:
                given = self.function(asked)
            except (Exception, SystemExit) as error:
                raise RunError(f"'{self.name}' failed: {type(error).__name__}: {error}") from error
            if asked != list(chunk):
                warnings.warn(
                    f"'{self.name}' changes the list of texts that it is given. Its predictions are taken to be for "
                    "the list as it was. Let it work on a copy.",
                    GuardrailWarning,
                    stacklevel=2,
                )
            parts.append(checked_probs(given, len(chunk), self.label_names, self.name))
            if progress is not None:
                progress("Asking", start + len(chunk), len(texts))
        return np.concatenate(parts)

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Classifier`."""
        return Cost(len(texts), None, -(-len(texts) // _CALLED_WITH), measured_seconds(self.predict_proba, texts))

    def record(self) -> dict[str, Any]:
        """See `Classifier`."""
        return {"kind": "function", "name": self.name, "fingerprint": self.fingerprint()}
