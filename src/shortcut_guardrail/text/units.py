"""Tokens grouped to words, and words to phrases, by the characters they come from.

A token is part of every word it has a character in, so words that share a token are one unit: nothing smaller can be
masked. This holds for WordPiece, byte-level BPE, whose tokens can be parts of a character, and SentencePiece, whose
tokens can be nothing but the space before a word. What a word is: see `words`.
"""

import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..models import EncodedTexts
from ..typing import Array
from .words import unit_key, word_spans

MAX_PHRASE_WORDS = 5
"""Longest phrase, in words: "as a matter of fact"."""


@dataclass(frozen=True)
class Units:
    """The units of N texts."""

    # the unit of each token, N arrays of shape (L,), int32, ascending in each text; -1 for tokens that are not ordinary
    of_token: list[Array]
    spans: list[Array]  # character span and segment of each unit, N arrays of shape (U, 3): start, end, segment
    keys: list[list[str]]  # what each unit is as a candidate, N lists of U strings; see `unit_key`
    # whether each unit holds a letter or digit, N bool arrays of shape (U,). Phrases are made of those
    wordlike: list[Array]

    def __len__(self) -> int:
        return len(self.of_token)


def tokens_as_units(encoded: EncodedTexts) -> Units:
    """Every ordinary token is a unit by itself, and its id is its position: the paper's reading."""
    of_token, spans, keys = [], [], []
    for i, ordinary in enumerate(encoded.ordinary):
        of_token.append(np.where(ordinary, np.arange(len(ordinary)), -1).astype(np.int32))
        spans.append(np.column_stack([encoded.offsets[i], encoded.segments[i]]).astype(np.int32))
        keys.append([encoded.token_text(i, p) if ordinary[p] else "" for p in range(len(ordinary))])
    return Units(of_token, spans, keys, _wordlike(keys))


def words_as_units(encoded: EncodedTexts) -> Units:
    """Ordinary tokens grouped to words by their character offsets."""
    of_token, spans, keys = [], [], []
    for i in range(len(encoded)):
        units, found = _words_of(encoded, i)
        of_token.append(units)
        spans.append(found)
        keys.append([unit_key(encoded.text_of(i, segment)[start:end]) for start, end, segment in found.tolist()])
    return Units(of_token, spans, keys, _wordlike(keys))


def _wordlike(keys: list[list[str]]) -> list[Array]:
    return [np.array([any(map(str.isalnum, name)) for name in names], dtype=bool) for names in keys]


def _words_of(encoded: EncodedTexts, index: int) -> tuple[Array, Array]:
    """The unit of each token of one text, and the span of each unit."""
    units = np.full(len(encoded.input_ids[index]), -1, dtype=np.int32)
    spans: list[tuple[int, int, int]] = []
    for segment in (0, 1):
        tokens = np.flatnonzero(encoded.ordinary[index] & (encoded.segments[index] == segment))
        if not len(tokens):
            continue
        text, offsets = encoded.text_of(index, segment), encoded.offsets[index][tokens].tolist()
        at = [-1] * (len(text) + 1)
        for word, (start, end) in enumerate(word_spans(text)):
            at[start:end] = [word] * (end - start)
        for group in _group(at, offsets):
            units[tokens[group]] = len(spans)
            spans.append((*_extent(text, [offsets[token] for token in group]), segment))
    return units, np.array(spans, dtype=np.int32).reshape(-1, 3)


def _group(at: list[int], offsets: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Lists of neighbouring tokens that touch a common word; tokens without a character go with the next ones."""
    groups: list[list[int]] = []
    pending: list[int] = []
    last = -1  # the last word that the open group touches
    for token, (start, end) in enumerate(offsets):
        touched = [word for word in at[start:end] if word >= 0]
        if not touched:
            pending.append(token)
        elif groups and touched[0] <= last:
            groups[-1] += [*pending, token]
            pending, last = [], max(last, touched[-1])
        else:
            groups.append([*pending, token])
            pending, last = [], touched[-1]
    if not groups:
        return [pending] if pending else []
    groups[-1] += pending
    return groups


def _extent(text: str, offsets: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Where the characters of some tokens stand, accents that the tokenizer took off included, white space not."""
    start, end = min(start for start, _ in offsets), max(end for _, end in offsets)
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    piece = text[start:end]
    return (end - len(piece.lstrip()), start + len(piece.rstrip())) if piece.strip() else (start, end)


def recurring_phrases(units: Units, important: Array, *, min_count: int, known: Iterable[str] = ()) -> set[str]:
    """Neighbouring words that recur and begin and end with an important word: what may be a phrase.

    No effect of masking has a say here, so that tests of the effects stay valid.

    Args:
        important: The important words of each text, shape (N, K), -1 where empty.
        min_count: In how many texts a phrase has to occur.
        known: Phrases found before, such as in earlier shards; they need not recur here.
    """
    counts: Counter[str] = Counter()
    for i in range(len(units)):
        counts.update({units_text(units, i, *span) for span in _phrase_spans(units, important, i)})
    return {phrase for phrase, count in counts.items() if count >= min_count} | set(known)


def _phrase_spans(units: Units, important: Array, index: int) -> list[tuple[int, int]]:
    """Spans (first, last) of neighbouring words of one text whose ends are important."""
    ends = {int(unit) for unit in important[index] if unit >= 0}
    wordlike, segments = units.wordlike[index], units.spans[index][:, 2]
    spans = []
    for first in sorted(ends):
        for last in range(first + 1, min(first + MAX_PHRASE_WORDS, len(wordlike))):
            if not wordlike[first : last + 1].all() or segments[last] != segments[first]:
                break
            if last in ends:
                spans.append((first, last))
    return spans


def units_text(units: Units, index: int, first: int, last: int) -> str:
    """The words of a span with single spaces between them."""
    return " ".join(units.keys[index][first : last + 1])


def choose_spans(units: Units, important: Array, phrases: Container[str]) -> tuple[Array, Array]:
    """Where given phrases stand, and what is left of them without their first or last word.

    Returns:
        First and last unit of each span, for `masking_effects`, both of shape (N, S), -1 where empty. Single words are
        left out: their effects are known.
    """
    found = []
    for i in range(len(units)):
        spans = set()
        for a, b in _phrase_spans(units, important, i):
            if units_text(units, i, a, b) in phrases:
                spans |= {(a, b), (a + 1, b), (a, b - 1)}
        found.append(sorted(span for span in spans if span[0] < span[1]))
    width = max(map(len, found), default=0)
    ends = np.full((2, len(units), width), -1, dtype=np.int32)
    for i, spans_of_text in enumerate(found):
        ends[:, i, : len(spans_of_text)] = np.reshape(spans_of_text, (-1, 2)).T
    return ends[0], ends[1]
