"""Probabilities and their logarithms, and checks of those that a user's code returns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data import counted, kind_of
from ..errors import RunError
from ..typing import Array

_LEAST_PROBABILITY = 1e-12  # those of 0 have no logarithm; a bag of words gives them now and then


def log_probs(probs: Array) -> Array:
    """Logarithms of probabilities, shape (N, C), float64; of 0 that of the least normal number, of NaN NaN."""
    return np.asarray(np.log(np.maximum(probs, np.finfo(np.float64).tiny)))


def log_softmax(logits: Array) -> Array:
    """Log-probabilities whose exponentials sum to 1 in each row, shape (N, C)."""
    highest = logits.max(axis=1, keepdims=True)
    return np.asarray(logits - highest - np.log(np.exp(logits - highest).sum(axis=1, keepdims=True)))


def geometric_mean(parts: Sequence[Array] | Array) -> Array:
    """The normalised geometric mean over prompts of the probabilities, shape (N, C).

    Args:
        parts: Of each prompt the log-probabilities up to a constant of each row, shape (N, C); a row of NaN, where
            there was no answer, does not count, and stays one where no prompt got any.
    """
    stack = np.stack(list(parts))
    answered: Array = ~np.isnan(stack).any(axis=2)  # (prompts, N)
    total = np.where(answered[..., None], stack, 0.0).sum(axis=0)
    counts = answered.sum(axis=0)[:, None]
    return np.exp(log_softmax(np.where(counts > 0, total / np.maximum(counts, 1), np.nan)))


def checked_probs(values: Any, n: int, labels: Sequence[str], name: str) -> Array:
    """Probabilities that somebody's code gave, shape (N, C), float64, none of them 0; a row of NaN is no answer.

    Raises:
        RunError: They are not numbers, of another shape, negative, infinite, or do not sum to 1 in each row (to .01).
    """
    wanted = f"'{name}' must give probabilities of shape ({n}, {len(labels)}), a column for each of {', '.join(labels)}"
    if hasattr(values, "detach"):  # of PyTorch, which hands out no gradients, no bfloat16 and nothing of a GPU
        values = values.detach().double().cpu()
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
    return np.where(no_answer[:, None], np.nan, np.maximum(given, _LEAST_PROBABILITY))


def fingerprint_of(values: Mapping[str, Any]) -> str:
    """SHA-256 over what JSON can hold, as hexadecimal."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
