"""What every source of a second opinion offers, and what is checked of its answers."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..data import counted, kind_of
from ..errors import RunError
from ..typing import Array, Progress

Text: TypeAlias = str | tuple[str, str]

_LEAST_PROBABILITY = 1e-12
"""Probabilities of 0 have no logarithm; a bag of words gives them now and then."""

_TIMED_TEXTS = 6


@dataclass(frozen=True)
class Cost:
    """What it takes to ask a source about some texts; `None` where that is not known before.

    Attributes:
        texts: Number of texts.
        tokens: Tokens that go in, prompts included; of endpoints an estimate of one for four bytes.
        calls: Passes through a model, calls of a function, or requests to an endpoint that are not in its cache.
        seconds: Measured on a few of the texts; for an endpoint from requests of before, or by its own rate limit.
    """

    texts: int
    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None


class Source(Protocol):
    """What can be asked for a second opinion.

    Attributes:
        name: As shown.
        fingerprint: SHA-256 over what answers. Of a classifier it is that of its weights, as
            `TextClassifier.fingerprint` has it, so that the deployed model and its base are recognised.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    def scores(self, texts: Sequence[Text], progress: Progress | None = None, *, again: bool = False) -> Array:
        """How probable each label is for each text.

        Args:
            texts: N texts or pairs.
            progress: Told how much is done.
            again: Ask once more, whatever is kept of answers before: who changes an answer cannot be relied on.

        Returns:
            Log-probabilities up to a constant of each row, shape (N, C), float64, in the order of the model's labels. A
            row of NaN where there was no answer.

        Raises:
            RunError: What came back is no answer, or nothing came back.
        """
        ...

    def cost(self, texts: Sequence[Text]) -> Cost:
        """What `scores` would take; an endpoint is not asked for it."""
        ...

    def record(self) -> dict[str, Any]:
        """What answered and how it was asked, ready for JSON: kind, name, fingerprint, prompts, settings, versions."""
        ...


def normalised(logits: Array) -> Array:
    """Log-probabilities whose exponentials sum to 1 in each row, shape (N, C)."""
    highest = logits.max(axis=1, keepdims=True)
    return np.asarray(logits - highest - np.log(np.exp(logits - highest).sum(axis=1, keepdims=True)))


def averaged(parts: Sequence[Array]) -> Array:
    """The mean over prompts of their log-probabilities, each shape (N, C); NaN where no prompt got an answer."""
    stack = np.stack(list(parts))
    answered: Array = ~np.isnan(stack).any(axis=2)  # (prompts, N)
    total = np.where(answered[..., None], stack, 0.0).sum(axis=0)
    counts = answered.sum(axis=0)[:, None]
    return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)


def checked_log_probs(values: Any, n: int, labels: Sequence[str], name: str) -> Array:
    """Probabilities that somebody's code gave, as log-probabilities of shape (N, C), float64.

    A row of NaN stays one: no answer.

    Raises:
        RunError: They are not numbers, of another shape, negative, infinite, or do not sum to 1 in each row (to .01).
    """
    wanted = f"'{name}' must give probabilities of shape ({n}, {len(labels)}), a column for each of {', '.join(labels)}"
    try:
        probs = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise RunError(f"{wanted}, but gave {kind_of(values)} that is no array of numbers.") from None
    if probs.shape != (n, len(labels)):
        raise RunError(
            f"{wanted}, but gave shape {probs.shape}. With scikit-learn return predict_proba, its columns in the order "
            "of these labels."
        )
    missing: Array = np.isnan(probs)
    no_answer = np.asarray(missing.all(axis=1))
    given = np.where(no_answer[:, None], 1 / len(labels), probs)
    problems = {
        "NaN beside numbers": missing.any(axis=1) & ~no_answer,
        "an infinite number": np.isinf(given).any(axis=1),
        "a negative number": (given < 0).any(axis=1),
        "numbers that do not sum to 1": np.abs(given.sum(axis=1) - 1) > 0.01,
    }
    for what, rows in problems.items():
        if rows.any():
            first = int(rows.argmax())
            raise RunError(
                f"{wanted}, but {what} in {counted(int(rows.sum()), 'row')} of {n}, the first of which is row {first}: "
                f"{np.array2string(probs[first], precision=3, threshold=8)}."
            )
    return np.where(no_answer[:, None], np.nan, np.log(np.maximum(given, _LEAST_PROBABILITY)))


def fingerprint_of(values: Mapping[str, Any]) -> str:
    """SHA-256 over what JSON can hold, as hexadecimal."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def n_characters(text: Text) -> int:
    """Characters of a text or of both of a pair."""
    return len(text) if isinstance(text, str) else len(text[0]) + len(text[1])


def measured_seconds(ask: Callable[[Sequence[Text]], object], texts: Sequence[Text]) -> float:
    """How long asking about all texts would take, by the time for a few of them, from the shortest to the longest."""
    if not texts:
        return 0.0
    order = sorted(range(len(texts)), key=lambda i: n_characters(texts[i]))
    few = [texts[order[int(at)]] for at in np.linspace(0, len(order) - 1, min(_TIMED_TEXTS, len(order)))]
    ask(few[:1])  # the first call pays for what is set up once
    begun = time.perf_counter()
    ask(few)
    return (time.perf_counter() - begun) * sum(map(n_characters, texts)) / max(1, sum(map(n_characters, few)))
