"""Finds given words and phrases in texts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..models import EncodedTexts
from ..typing import Array
from .units import Units, units_text, words_as_units
from .words import unit_key, word_spans


class TargetFinder:
    """Finds given words and phrases in encoded texts, as the tokens that they are made of.

    An occurrence is a run of whole words, as the audit cuts texts into words, whose keys are those of the word or
    phrase: case, the kind of apostrophe and invisible characters make no difference. Occurrences that overlap are taken
    together.

    Args:
        words: The words and phrases.
        kept: Phrases in which nothing is looked for: with "bad" a target and "not bad" kept, "not bad" has none.
    """

    def __init__(self, words: Iterable[str], *, kept: Iterable[str] = ()) -> None:
        self.words = tuple(words)
        self.kept = tuple(kept)
        self._kept = TargetFinder(self.kept) if self.kept else None
        # Twice: as the audit spells it, and as its words with single spaces between, which is how a person might.
        self._keys = {unit_key(word) for word in self.words} | {spaced(word) for word in self.words}
        self._first = {key.split(" ", 1)[0] for key in self._keys}
        self._longest = max((len(key.split(" ")) for key in self._keys), default=0)

    def __bool__(self) -> bool:
        return bool(self.words)

    def find(self, encoded: EncodedTexts) -> list[Array]:
        """Positions of the tokens of all occurrences, N arrays of shape (T,), int64, ascending."""
        return [np.flatnonzero(self.tokens(encoded, i)) for i in range(len(encoded))]

    def present(self, encoded: EncodedTexts) -> Array:
        """Which texts hold an occurrence that the model sees, shape (N,), bool."""
        return np.array([bool(self.tokens(encoded, i).any()) for i in range(len(encoded))], dtype=bool)

    def tokens(self, encoded: EncodedTexts, index: int) -> Array:
        """Which tokens of one text belong to an occurrence, shape (L,), bool."""
        chosen = np.zeros(len(encoded.input_ids[index]), dtype=bool)
        if not self._may_hold(encoded.texts[index]):
            return chosen
        units = words_as_units(encoded.select([index]))
        kept = self._kept._spans(units) if self._kept else []
        for first, last in self._spans(units):
            if not any(start <= first and last <= end for start, end in kept):
                chosen |= (units.of_token[0] >= first) & (units.of_token[0] <= last)
        return chosen

    def _may_hold(self, text: str | tuple[str, str]) -> bool:
        """A quick look that spares most texts the cutting into words."""
        parts = (text,) if isinstance(text, str) else text
        return any(first in unit_key(part) for part in parts for first in self._first)

    def _spans(self, units: Units) -> list[tuple[int, int]]:
        """Spans (first, last) of units of the only text whose keys are those of a target."""
        keys, segments = units.keys[0], units.spans[0][:, 2]
        return [
            (first, last)
            for first, key in enumerate(keys)
            if any(key.split(" ", 1)[0] == start for start in self._first)
            for last in range(first, min(first + self._longest, len(keys)))
            if segments[first] == segments[last] and units_text(units, 0, first, last) in self._keys
        ]


def spaced(word: str) -> str:
    """A word or phrase as the keys of its words with single spaces between, however a person spelt it."""
    return " ".join(unit_key(word[start:end]) for start, end in word_spans(word))


def parts_of(phrase: str) -> set[str]:
    """All shorter runs of a phrase's words."""
    words = phrase.split(" ")
    return {" ".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)} - {phrase}
