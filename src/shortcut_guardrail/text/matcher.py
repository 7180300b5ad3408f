"""Finds shortcut words in texts, and sorts examples into groups by label and shortcut presence.

What counts as an occurrence of a shortcut:

- Case, and the kind of an apostrophe or of an accent's encoding, make no difference: "if I'm being honest" is found
  in "If I’m being honest". A run of whitespace in the text matches the space inside a phrase.
- It is bounded by characters that are no part of a word, so "book" is not found in "books" or "facebook". Letters,
  digits and combining marks are parts of a word. So is an underscore between two of them ("book_club"), but not
  one at the edge ("_book_" is emphasis).
- An apostrophe and a hyphen bound a word: "book" is found in "the book's cover" and in "e-book", "honnêteté" in
  "l'honnêteté". The exception is "n't": "won" is not found in "won't".
- Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) have no such bounds to ask for.
- An edge of the shortcut that is itself no part of a word, as in "!" or "c++", needs no bound on that side.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ..data import read_utf8
from ..errors import ConfigError, DataError
from .characters import APOSTROPHES, UNSPACED
from .stop_words import STOP_WORDS

# What keyboards give for an apostrophe as well: in a list of shortcuts "don`t" means "don't".
_APOSTROPHES = str.maketrans(dict.fromkeys(APOSTROPHES + "‛ʻ`´", "'"))
_JOINERS = "_\u200c\u200d"  # between two word characters these, the last two of no width, are part of the word
_NEGATION = re.compile(r"(?<=n)'t(?!\w)")
_CLITICS = ("'m", "'s", "'d", "'ll", "'re", "'ve")
_SHAPE_OF_A_WORD = re.compile("'?w+(?:'w+)*")


@dataclass(frozen=True)
class ShortcutMatch:
    """One occurrence of a shortcut.

    Attributes:
        shortcut: The shortcut as the matcher was given it.
        start: Where the occurrence begins in the text, as a character offset.
        end: Where it ends, exclusive, so that `text[start:end]` is the occurrence as the text spells it.
    """

    shortcut: str
    start: int
    end: int


@dataclass(frozen=True)
class ShortcutMatcher:
    """Finds given words and phrases in texts by the rules at the head of this module; `from_words` builds it.

    Attributes:
        words: The shortcuts, each once, in the order given.
    """

    words: tuple[str, ...]
    _patterns: tuple[re.Pattern[str], ...] = field(repr=False, compare=False)

    @classmethod
    def from_words(cls, words: Iterable[str]) -> "ShortcutMatcher":
        """A matcher of these words and phrases; of those that match the same, the first is kept.

        Raises:
            ConfigError: There is no word, one is empty or only whitespace, or `words` is a single string.
        """
        if isinstance(words, str):
            raise ConfigError(f"The shortcuts must be a list of words or phrases, but are the single string '{words}'.")
        given = list(words)
        if not given:
            raise ConfigError("No shortcut is given; name at least one word or phrase.")
        empty = [str(index) for index, word in enumerate(given) if not word.strip()]
        if empty:
            where = f"position {empty[0]}" if len(empty) == 1 else f"positions {', '.join(empty)}"
            raise ConfigError(f"Each shortcut must be a word or phrase, but there is an empty one at {where}.")
        distinct: dict[str, str] = {}
        for word in given:
            distinct.setdefault(_pattern(word), word.strip())
        return cls(tuple(distinct.values()), tuple(map(re.compile, distinct)))

    def find(self, text: str) -> list[ShortcutMatch]:
        """All occurrences of all shortcuts, also overlapping ones, by where they start and then by where they end.

        Example:
            >>> [(m.shortcut, m.start, m.end) for m in ShortcutMatcher.from_words(["no", "no way"]).find("Oh NO way!")]
            [('no', 3, 5), ('no way', 3, 9)]
        """
        folded, offsets = _fold(text)
        found = [
            ShortcutMatch(word, offsets[start], offsets[end])
            for word, pattern in zip(self.words, self._patterns, strict=True)
            for start, end in _occurrences(pattern, folded, offsets)
        ]
        return sorted(found, key=lambda match: (match.start, match.end))

    def present(self, text: str) -> bool:
        """Whether any of the shortcuts occurs in the text."""
        folded, offsets = _fold(text)
        return any(True for pattern in self._patterns for _ in _occurrences(pattern, folded, offsets))


def content_spans(text: str, match: ShortcutMatch) -> list[tuple[int, int]]:
    """Where the content-bearing words of a matched phrase stand in the text.

    A lone "to" is not "to be honest": a phrase counts as found by a model only through the words that carry its
    content, which are those that are not among `STOP_WORDS`. Contractions are function words
    ("I'm", "don't"), and a clitic is cut off ("truth's" leaves "truth"). A shortcut of one word, and a phrase of
    nothing but function words, counts whole.

    Returns:
        Character spans (start, end) in order, at least one, all within the match.

    Example:
        >>> text = "Well, to be honest, no."
        >>> match = ShortcutMatcher.from_words(["to be honest"]).find(text)[0]
        >>> [text[start:end] for start, end in content_spans(text, match)]
        ['honest']
    """
    phrase = text[match.start : match.end]
    whole = [(match.start, match.end)]
    if len(phrase.split()) == 1:
        return whole
    folded, offsets = _fold(phrase)
    spans = [(match.start + offsets[start], match.start + offsets[end]) for start, end in _content_words(folded)]
    return spans or whole


def read_shortcuts_file(path: str | Path) -> list[str]:
    """The shortcuts of a UTF-8 text file: one word or phrase on a line, blank lines and `#` comments left out.

    A comment starts with a `#` at the beginning of a line or after whitespace.

    Raises:
        DataError: The file is missing, unreadable or not UTF-8, or names no shortcut.
    """
    lines = read_utf8(Path(path), str(path)).splitlines()
    words = [re.sub(r"(^|\s)#.*", "", line).strip() for line in lines]
    if not any(words):
        raise DataError(f"{path} names no shortcut; write one word or phrase on each line.")
    return [word for word in words if word]


# Matching


def _pattern(word: str) -> str:
    return r"\s+".join(map(re.escape, _fold(word)[0].split()))


def _occurrences(pattern: re.Pattern[str], folded: str, offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Spans in the folded text, found one after another so that they may overlap."""
    at = 0
    while match := pattern.search(folded, at):
        start, end = match.span()
        if _whole(offsets, start) and _whole(offsets, end) and _bounded(folded, start, end):
            yield start, end
        at = start + 1


def _whole(offsets: Sequence[int], position: int) -> bool:
    """Whether a folded position lies between two characters of the text, not inside what one of them folds to."""
    return position == 0 or offsets[position - 1] != offsets[position]


def _bounded(folded: str, start: int, end: int) -> bool:
    before = folded[:start].rstrip(_JOINERS)[-1:]
    after = folded[end:].lstrip(_JOINERS)[:1]
    if _joined(before, folded[start]) or _joined(folded[end - 1], after):
        return False
    return not _NEGATION.match(folded, end)


def _joined(left: str, right: str) -> bool:
    """Whether two neighbours are parts of one word; either may be "", the end of the text."""
    if not left or not right or not (_in_word(left) and _in_word(right)):
        return False
    return _is_mark(right) or not (UNSPACED.match(left) or UNSPACED.match(right))


@cache
def _in_word(character: str) -> bool:
    return character.isalnum() or _is_mark(character)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _fold(text: str) -> tuple[str, Sequence[int]]:
    """The text with case, apostrophes and accents made alike, and where each of its characters comes from.

    Returns:
        The folded text, of M characters, and M + 1 offsets into `text`: the start of what each character comes from,
        and the length of `text`. Folding may lengthen a text ("ß" to "ss"), so the two do not align by themselves.
    """
    if text.isascii():
        return _fold_piece(text), range(len(text) + 1)
    pieces: list[str] = []
    offsets: list[int] = []
    for start, piece in _pieces(text):
        folded = _fold_character(piece) if len(piece) == 1 else _fold_piece(piece)
        pieces.append(folded)
        offsets.extend([start] * len(folded))
    return "".join(pieces), [*offsets, len(text)]


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Each character with the combining marks after it, which normalisation may reorder, and where it starts."""
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or not unicodedata.combining(text[index]):
            yield start, text[start:index]
            start = index


def _fold_piece(piece: str) -> str:
    decomposed = unicodedata.normalize("NFD", unicodedata.normalize("NFD", piece).casefold())
    return decomposed.translate(_APOSTROPHES)


_fold_character = cache(_fold_piece)


# Content-bearing words


def _content_words(folded: str) -> Iterator[tuple[int, int]]:
    """Spans of the words of a folded phrase that are no function words, without the clitics at their ends."""
    shape = "".join("w" if _in_word(character) else character for character in folded)
    for match in _SHAPE_OF_A_WORD.finditer(shape):
        start, end = match.span()
        while folded[start:end].endswith(_CLITICS):
            end = folded.rindex("'", start, end)
        start += folded.startswith("'", start, end)
        word = folded[start:end]
        if word and not word.endswith("n't") and word not in STOP_WORDS:
            yield start, end
