"""Whether an exported model predicts what the guard predicts, on texts, as somebody without this library runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import RunError
from ..typing import Array, Head, Text

Logits = Callable[[Mapping[str, Any]], Array]
"""From the tensors of a batch, as NumPy arrays of shape (B, L), to logits, shape (B, C)."""

LEAST_TEXTS = 64
"""Texts that are compared at least; those that are missing are made up."""

TOLERANCE = 1e-4
"""By how much a probability may differ."""

_BATCHES = (1, 7, 50)


@dataclass(frozen=True)
class Parity:
    """How the predictions of an exported model differ from the repaired model's.

    Attributes:
        n_texts: Texts that were compared; of these `n_made_up` are random words.
        largest_difference: The largest of a class probability.
        same_labels: The share of texts with the same label, in [0, 1], of several labels a text the share of decisions;
            a tie within `TOLERANCE` counts as the same.
        relative_time: Seconds for all texts, as a share of what the merged model took; `None` of that itself.
    """

    n_texts: int
    n_made_up: int
    largest_difference: float
    same_labels: float
    relative_time: float | None

    @property
    def agrees(self) -> bool:
        """Whether they are the same predictions, up to rounding."""
        return self.largest_difference <= TOLERANCE and self.same_labels == 1


def made_up(texts: Sequence[Text], tokenizer: Any, words: Sequence[str]) -> list[Text]:
    """Texts of random words, pairs where the user's are, as many as lack to `LEAST_TEXTS` distinct ones.

    Args:
        texts: Those of the user.
        words: Shortcuts of the guard. Every second text holds one.
    """
    rng, own = np.random.default_rng(0), set(texts)
    known = sorted(set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens))
    pairs = bool(texts) and not isinstance(texts[0], str)
    found: dict[Text, None] = {}
    while len(own) + len(found) < LEAST_TEXTS:
        drawn = tokenizer.convert_tokens_to_string(
            [known[i] for i in rng.integers(len(known), size=rng.integers(2, 40))]
        )
        text = f"{words[int(rng.integers(len(words)))]} {drawn}" if words and len(found) % 2 else str(drawn)
        found.setdefault((text, text) if pairs else text)
    return list(found)


def probabilities(
    logits: Logits, tokenizer: Any, texts: Sequence[Text], *, head: Head, max_length: int
) -> tuple[Array, float]:
    """Probabilities of N texts, in batches of 1, 7 and 50 by turns, and the seconds they took.

    They have the shape (N, C), of a sigmoid head (N, K, 2): that each of K labels is none of the text, or is one.
    """
    parts, start, turn, seconds = [], 0, 0, 0.0
    while start < len(texts):
        batch = texts[start : start + _BATCHES[turn % len(_BATCHES)]]
        first = [text if isinstance(text, str) else text[0] for text in batch]
        second = None if isinstance(batch[0], str) else [text[1] for text in batch]
        encoded = tokenizer(
            first, second, padding=True, truncation=True, max_length=max_length, return_tensors="np", verbose=False
        )
        before = time.perf_counter()
        found = np.asarray(logits(dict(encoded)), dtype=np.float64)
        seconds += time.perf_counter() - before
        if head == "sigmoid":
            found = np.stack([np.zeros_like(found), found], axis=-1)
        parts.append(np.exp(found - np.logaddexp.reduce(found, axis=-1, keepdims=True)))
        start, turn = start + len(batch), turn + 1
    return np.concatenate(parts), seconds


def compare(found: Array, expected: Array, *, n_made_up: int, relative_time: float | None) -> Parity:
    """Two sets of probabilities of the same N texts, see `probabilities`."""
    labels = found.argmax(axis=-1, keepdims=True)
    behind = expected.max(axis=-1) - np.take_along_axis(expected, labels, axis=-1)[..., 0]
    return Parity(
        len(expected),
        n_made_up,
        float(np.abs(found - expected).max()),
        float((behind <= TOLERANCE).mean()),
        relative_time,
    )


def check(parity: Parity, what: str) -> None:
    """Raise a `RunError` where predictions differ."""
    if not parity.agrees:
        raise RunError(
            f"The {what} does not predict what the repaired model predicts: probabilities differ by up to "
            f"{parity.largest_difference:.2g} on {parity.n_texts} texts, and {parity.same_labels:.1%} have the same "
            "label. Nothing was written. Report it, with the model's family and the versions of torch and transformers."
        )
