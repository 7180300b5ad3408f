"""What a word is, and when two spellings are the same.

- A run of letters, digits and combining marks. An apostrophe or an underscore between two of them belongs to the word
  ("don't", "book_club"), a hyphen does not ("e-book" is three units).
- In scripts written without spaces (Chinese, Japanese, Thai and others) every token is a word of its own.
- A run of one punctuation mark ("!!!") is a word, and so is an emoji with all that modifies it.
- Characters without width or that only steer the writing direction belong to the word around them.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

from .characters import APOSTROPHES, JOINERS, UNSPACED

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:['_][A-Za-z0-9]+)*|([^\sA-Za-z0-9])\1*")
_FOLD_APOSTROPHES = str.maketrans(dict.fromkeys(APOSTROPHES, "'"))

_Kind = Literal["space", "extend", "word", "unspaced", "flag", "other"]


@cache
def _kind(character: str) -> _Kind:
    category = unicodedata.category(character)
    if category[0] == "M" or category == "Cf" or 0x1F3FB <= ord(character) <= 0x1F3FF:
        return "extend"
    if character.isspace() or category[0] in "ZC":
        return "space"
    if UNSPACED.match(character):
        return "unspaced"
    if character.isalnum():
        return "word"
    return "flag" if 0x1F1E6 <= ord(character) <= 0x1F1FF else "other"


def word_spans(text: str) -> list[tuple[int, int]]:
    """Character spans of the words of a text, in order; see the head of this module for what a word is.

    Example:
        >>> text = "Don't stop!! :)"
        >>> [text[start:end] for start, end in word_spans(text)]
        ["Don't", 'stop', '!!', ':', ')']
    """
    if text.isascii():
        return [match.span() for match in _ASCII_WORD.finditer(text)]
    spans: list[tuple[int, int]] = []
    start, base = -1, -1  # where the open word starts, and its last character that is more than a modifier
    for i, character in enumerate(text):
        kind = _kind(character)
        if start >= 0 and (kind == "extend" or _joined(text, start, base, i)):
            base = base if kind == "extend" else i
            continue
        if start >= 0:
            spans.append((start, i))
        start, base = (-1, -1) if kind == "space" else (i, i)
    return [*spans, (start, len(text))] if start >= 0 else spans


def _joined(text: str, start: int, base: int, i: int) -> bool:
    """Whether character i continues the word that starts at `start` and whose last character proper is at `base`."""
    before, here = text[base], text[i]
    kinds = _kind(before), _kind(here)
    if kinds[0] == "extend":  # nothing but what has no width so far
        return kinds[1] != "space"
    if "space" in kinds or "unspaced" in kinds:
        return False
    if text[i - 1] == "\u200d" and "word" not in kinds:  # emoji are composed with it
        return True
    if kinds == ("flag", "flag"):
        return base == start
    if kinds == ("word", "word"):
        return True
    connector = APOSTROPHES + "_"
    if kinds[0] == "word" and here in connector:
        return i + 1 < len(text) and _kind(text[i + 1]) == "word"
    if kinds[1] == "word" and before in connector:
        return base > start and _kind(text[start]) in ("word", "extend")
    return before == here and kinds[0] == "other"


def unit_key(text: str) -> str:
    """What two spellings of a unit have in common: case, apostrophes, accents and invisible characters are made alike.

    Example:
        >>> unit_key("I’m\\u200b"), unit_key("I'M")
        ("i'm", "i'm")
    """
    folded = unicodedata.normalize("NFC", text.casefold()).translate(_FOLD_APOSTROPHES)
    if not folded.isascii():
        folded = "".join(c for c in folded if c in JOINERS or unicodedata.category(c) != "Cf")
    return " ".join(folded.strip().split())
