"""Texts with case, apostrophes and accents made alike, and the way back to the characters they come from."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from .characters import APOSTROPHES, JOINERS, TYPED_APOSTROPHES

_APOSTROPHES = str.maketrans(dict.fromkeys(APOSTROPHES + TYPED_APOSTROPHES, "'"))


@dataclass(frozen=True)
class Folded:
    """A text of M folded characters.

    Folding may lengthen a text ("ß" to "ss") or shorten it (characters without width go), so the two do not align by
    themselves.
    """

    text: str  # the folded characters
    starts: Sequence[int]  # where in the text what each of them comes from starts, M numbers
    ends: Sequence[int]  # where that ends, exclusive, M numbers

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Where a folded span stands in the text; `None` if an end lies inside what one character folds to."""
        starts = self.starts
        for edge in (start, end):
            if 0 < edge < len(starts) and starts[edge - 1] == starts[edge]:
                return None
        return starts[start], self.ends[end - 1]


def fold(text: str) -> Folded:
    """The canonical caseless form of Unicode (D145), with straight apostrophes and without what has no width.

    Example:
        >>> fold("Iʼm Groß").text
        "i'm gross"
    """
    if text.isascii():
        return Folded(_fold_piece(text), range(len(text)), range(1, len(text) + 1))
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end, piece in _pieces(text):
        folded = _fold_character(piece) if len(piece) == 1 else _fold_piece(piece)
        pieces.append(folded)
        starts.extend([start] * len(folded))
        ends.extend([end] * len(folded))
    return Folded("".join(pieces), starts, ends)


@cache
def in_word(character: str) -> bool:
    """Whether it is a letter, a digit or a combining mark."""
    return character.isalnum() or unicodedata.category(character).startswith("M")


@cache
def without_width(character: str) -> bool:
    """Whether a reader does not see it by itself: format characters and variation selectors."""
    return unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f"


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """Each character with the combining marks after it, which normalisation may reorder, and where it starts and ends.

    Left out, also from between the two, is what has no width and joins nothing.
    """
    start, end, piece = 0, 0, ""
    for index, character in enumerate(text):
        if without_width(character) and character not in JOINERS:
            continue
        if piece and not unicodedata.combining(character):
            yield start, end, piece
            piece = ""
        start, end, piece = (start if piece else index), index + 1, piece + character
    if piece:
        yield start, end, piece


def _fold_piece(piece: str) -> str:
    decomposed = unicodedata.normalize("NFD", unicodedata.normalize("NFD", piece).casefold())
    return decomposed.translate(_APOSTROPHES)


_fold_character = cache(_fold_piece)
