"""Finds given words and phrases in texts: the one place that says what counts as an occurrence.

- Case, the kind of an apostrophe, the encoding of an accent and characters without width make no difference: "if I'm
  being honest" is found in "If I’m being honest".
- An occurrence starts where a word starts and ends where a word ends, as `words` cuts a text into words: "book" is not
  found in "books", "facebook" or "book_club". A run of one mark or emoji is one word ("!" is not found in "!!!"), and
  so is a composed emoji. An underscore at the edge of a word is emphasis ("_book_").
- Inside a word an apostrophe is an edge as well: "book" is found in "the book's cover", "honnêteté" in
  "l'honnêteté". The exception is "n't": neither "won" nor "t" is found in "won't". So is the sign of a hashtag: "book"
  is found in "#book", but neither in "@book" nor in "www.book.org", and "10" not in "10/10".
- Words of a phrase stand apart by any whitespace. Beside a punctuation mark, and in scripts written without spaces,
  there may be none or some: "e-book" is found in "e - book".
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigError, GuardrailWarning
from ..typing import Array
from .characters import APOSTROPHES, TYPED_APOSTROPHES, UNSPACED
from .content import content_spans
from .folding import fold, in_word, without_width
from .segmenters import Segmenter, segmenter_in_use
from .words import word_spans

if TYPE_CHECKING:  # PyTorch takes seconds to import, and plain texts are searched without it.
    from ..models import EncodedTexts

_MARK = re.compile(r"[^\w\s]")
_NEGATION = re.compile(f"(?<=n)[{APOSTROPHES}{TYPED_APOSTROPHES}]t(?!\\w)", re.IGNORECASE)

_KEPT_LENGTH = 2000  # characters


@dataclass(frozen=True)
class Occurrence:
    """One occurrence of a word or phrase."""

    word: str  # the word or phrase as the finder was given it
    start: int  # where the occurrence begins in the text, as a character offset
    end: int  # where it ends, exclusive, so that `text[start:end]` is the occurrence as the text spells it


def _outside(found: Iterable[Occurrence], kept: Sequence[Occurrence]) -> Iterator[Occurrence]:
    """Those that lie within none of the kept ones; both come by where they start."""
    at, reach = 0, -1  # where the kept ones end that start no later
    for occurrence in found:
        while at < len(kept) and kept[at].start <= occurrence.start:
            reach = max(reach, kept[at].end)
            at += 1
        if occurrence.end > reach:
            yield occurrence


def _marked(o: Occurrence, text: str) -> Occurrence:
    start, end = o.start, o.end
    while start and _MARK.match(text, start - 1):
        start -= 1
    while _MARK.match(text, end):
        end += 1
    return Occurrence(o.word, start, end)


class WordFinder:
    """Finds given words and phrases by the rules at the head of this module.

    Args:
        words: The words and phrases. Of those that match the same, the first is kept; what holds no character that one
            can see is left out.
        kept: Phrases in which nothing is looked for: with "bad" looked for and "not bad" kept, "not bad" has none.
        with_marks: Whether marks that touch an occurrence are part of it, such as the comma of "honestly, it rains".

    Example:
        >>> [(o.word, o.start, o.end) for o in WordFinder(["no", "no way"]).find("Oh NO way!")]
        [('no', 3, 5), ('no way', 3, 9)]
    """

    def __init__(self, words: Iterable[str], *, kept: Iterable[str] = (), with_marks: bool = False) -> None:
        distinct: dict[str, str] = {}
        for word in words:
            if pattern := _pattern(word):
                distinct.setdefault(pattern, word.strip())
        self.words = tuple(distinct.values())
        self.kept, self._with_marks = tuple(kept), with_marks
        self._patterns = [re.compile(pattern) for pattern in distinct]
        self._kept = WordFinder(self.kept) if self.kept else None

    def __bool__(self) -> bool:
        return bool(self.words)

    def find(self, text: str) -> list[Occurrence]:
        """All occurrences of all words, also overlapping ones, by where they start and then by where they end."""
        found = sorted(self._occurrences(text), key=lambda o: (o.start, o.end))
        found = list(_outside(found, self._kept.find(text))) if found and self._kept else found
        return [_marked(o, text) for o in found] if self._with_marks else found

    def present(self, text: str) -> bool:
        """Whether any of the words occurs in the text."""
        return bool(self.find(text)) if self._kept else any(True for _ in self._occurrences(text))

    def _occurrences(self, text: str) -> Iterator[Occurrence]:
        folded, edges = fold(text), None
        for word, pattern in zip(self.words, self._patterns, strict=True):
            at = 0
            while match := pattern.search(folded.text, at):
                at = match.start() + 1
                if (span := folded.span(*match.span())) is not None:
                    # Most texts hold nothing, and are not cut. What is kept of long ones would fill the memory.
                    cut = _edges if len(text) <= _KEPT_LENGTH else _edges.__wrapped__
                    edges = edges or cut(text, segmenter_in_use())
                    if edges.issuperset(span):
                        yield Occurrence(word, *span)

    def tokens(
        self, encoded: EncodedTexts, index: int, *, sides: Sequence[int] = (0, 1), content_only: bool = False
    ) -> Array:
        """Which tokens of one text have a character in an occurrence that the model sees, shape (L,), bool.

        Of a pair both sides are looked at, or those named (0 and 1). With `content_only` the words of a phrase that
        carry no content are left out; see `content_spans`.
        """
        chosen = np.zeros(len(encoded.input_ids[index]), dtype=bool)
        for side in sides:
            visible = encoded.visible_text(index, side)
            for o in self.find(visible):
                spans = content_spans(visible, o.start, o.end) if content_only else [(o.start, o.end)]
                for start, end in spans:
                    chosen |= encoded.tokens_within(index, side, start, end)
        return chosen

    def positions(self, encoded: EncodedTexts) -> list[Array]:
        """Positions of the tokens of all occurrences, N arrays of shape (T,), int64, ascending."""
        return [np.flatnonzero(self.tokens(encoded, i)) for i in range(len(encoded))]

    def present_in(self, encoded: EncodedTexts) -> Array:
        """Which texts hold an occurrence that the model sees, shape (N,), bool."""
        return np.array([bool(self.tokens(encoded, i).any()) for i in range(len(encoded))], dtype=bool)


def check_words(words: Iterable[str]) -> list[str]:
    """Words and phrases that a person named, as a list.

    Raises:
        ConfigError: There is none, one is empty or only whitespace, or `words` is a single string.
    """
    if isinstance(words, str):
        raise ConfigError(f"The shortcuts must be a list of words or phrases, but are the single string '{words}'.")
    given = list(words)
    if not given:
        raise ConfigError("No shortcut is given; name at least one word or phrase.")
    if empty := [str(index) for index, word in enumerate(given) if not _pattern(word)]:
        where = f"position {empty[0]}" if len(empty) == 1 else f"positions {', '.join(empty)}"
        raise ConfigError(f"Each shortcut must be a word or phrase, but there is an empty one at {where}.")
    return given


def warn_of_absent(words: Iterable[str], encoded: EncodedTexts, *, sides: Sequence[int] = (0, 1)) -> None:
    """Warn of words that a person named and that stand in none of the texts, or in no such side of a pair."""
    found = ((word, WordFinder([word])) for word in words)
    if absent := [
        f"'{word}'"
        for word, finder in found
        if not any(finder.tokens(encoded, i, sides=sides).any() for i in range(len(encoded)))
    ]:
        warnings.warn(
            f"{', '.join(absent)} {'stands' if len(absent) == 1 else 'stand'} in none of these {len(encoded)} texts. "
            "Look for other spellings: occurrences are whole words.",
            GuardrailWarning,
            stacklevel=4,
        )


def spaced(word: str) -> str:
    """A word or phrase as its folded words with single spaces between: one for all that the finder takes as one."""
    return " ".join(fold(word[start:end]).text for start, end in word_spans(word))


def parts_of(phrase: str) -> set[str]:
    """All shorter runs of a phrase's words."""
    words = phrase.split(" ")
    return {" ".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)} - {phrase}


def _pattern(word: str) -> str:
    """What the words of a word or phrase look like in a folded text; empty if it has none."""
    words = [folded for start, end in word_spans(word) if (folded := fold(word[start:end]).text)]
    pattern = re.escape(words[0]) if words else ""
    for left, right in pairwise(words):
        apart = in_word(left[-1]) and in_word(right[0]) and not UNSPACED.search(left[-1] + right[0])
        pattern += (r"\s+" if apart else r"\s*") + re.escape(right)
    return pattern


@lru_cache(maxsize=1024)  # one word after the other is looked for in the same texts
def _edges(text: str, segmenter: Segmenter | None) -> frozenset[int]:
    """Where an occurrence may start or end in a text that is cut into words with the segmenter in use."""
    spans = word_spans(text)
    joining = {i for i in range(len(spans)) if _joining_underscores(text, spans, i)} if "_" in text else set()
    edges = {at + side for at, character in enumerate(text) if character in APOSTROPHES for side in (0, 1)}
    for i, (start, end) in enumerate(spans):
        if i in joining:
            edges -= {start}
            continue
        while start < end and without_width(text[start]):
            start += 1
        while end > start and without_width(text[end - 1]):
            end -= 1
        edges |= {end} if i - 1 in joining else {start, end}
        if start < end and text[start] == "#" and in_word(text[end - 1]):
            edges.add(start + 1)
    for negation in _NEGATION.finditer(text):
        edges -= {negation.start(), negation.start() + 1}
    return frozenset(edges)


def _joining_underscores(text: str, spans: list[tuple[int, int]], i: int) -> bool:
    """Whether a word is a run of underscores that joins the two beside it, as in "book__2"."""
    start, end = spans[i]
    if text[start:end].strip("_") or not 0 < i < len(spans) - 1:
        return False
    touching = spans[i - 1][1] == start and spans[i + 1][0] == end
    return touching and in_word(text[start - 1]) and in_word(text[end])
