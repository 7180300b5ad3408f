"""What a word is, and when two spellings are the same.

- A run of letters, digits and combining marks. An apostrophe or an underscore between two of them belongs to the word
  ("don't", "book_club"), a hyphen does not ("e-book" is three units).
- In scripts written without spaces (Chinese, Japanese, Thai and others) a segmenter says what a word is, if one is in
  use (see `segmenters`). Else every token is a word of its own.
- A run of one punctuation mark ("!!!") is a word, and so is an emoji with all that modifies it.
- Characters without width or that only steer the writing direction belong to the word around them.
- An address of the web or of mail, a hashtag, a name after "@" and numbers with slashes between ("10/10", "4.5/5") are
  one word each, with the clitic that follows ("@anna's"). An address begins with "http://", "https://", "ftp://" or
  "www.", and the marks that end its sentence are not part of it. All else stays what it was: "3.50", "$5", "10:30" and
  "and/or" are several words, and so are "#1", "@ 5" and "[NAME]".
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Literal

from .characters import APOSTROPHES, JOINERS, UNSPACED
from .folding import in_word, without_width
from .segmenters import Segmenter, segmenter_in_use

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:['_][A-Za-z0-9]+)*|([^\sA-Za-z0-9])\1*")
# In `_shape`: "w" is a letter beyond ASCII, "字" a character of a script without spaces.
_JOINING_SIGN = re.compile(r"[@#/]|www\.", re.IGNORECASE)
_JOINED_WORDS = re.compile(
    r"""
    (?<!\w)(?:(?:https?|ftp)://|www\.)\w[!#-;=?-~]*(?<=[\w/=&%+~-])  # an address of the web
    | (?<![\w.+-])\w[\w.+-]*@\w[\w-]*(?:\.\w[\w-]*)+  # of mail
    | (?<![\w字&#@/])\#(?=[\d_]*(?:[^\W\d_]|字))[\w字]+  # a hashtag has a letter; "&#39;" is none
    | (?<![\w@/])@(?=_*[^\W\d_])\w+  # a name
    | (?<![\w/])(?<!\d[.,])\d+(?:[.,]\d+)*(?:/\d+(?:[.,]\d+)*)+(?![\w/])  # a mark or a date
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
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
        >>> text = "Don't stop!! 10/10 :)"
        >>> [text[start:end] for start, end in word_spans(text)]
        ["Don't", 'stop', '!!', '10/10', ':', ')']
    """
    spans = piece_spans(text)
    if not _JOINING_SIGN.search(text):
        return spans
    shape, at = _shape(text)
    joined = [(at[found.start()], at[found.end() - 1]) for found in _JOINED_WORDS.finditer(shape)]  # the last included
    words: list[tuple[int, int]] = []
    place, open_ = 0, -1  # the next joined word, and the one that the last span belongs to
    for start, end in spans:
        while place < len(joined) and joined[place][1] < start:
            place += 1
        inside = place < len(joined) and joined[place][0] < end
        if inside and open_ == place:
            words[-1] = (words[-1][0], end)
        else:
            words.append((start, end))
        open_ = place if inside else -1
    return words


def _shape(text: str) -> tuple[str, Sequence[int]]:
    """A text in the characters of `_JOINED_WORDS`, without those that have no width, and where each of them stands."""
    if text.isascii():
        return text, range(len(text))
    at = [i for i, character in enumerate(text) if not without_width(character)]
    return "".join(_stand_in(text[i]) for i in at), at


@cache
def _stand_in(character: str) -> str:
    if character.isascii():
        return character
    if character.isdecimal():
        return "0"
    return "字" if UNSPACED.match(character) else "w" if in_word(character) else "\u00a0"


def piece_spans(text: str) -> list[tuple[int, int]]:
    """The same with addresses, hashtags, names and numbers with slashes cut at their marks."""
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
    spans += [(start, len(text))] if start >= 0 else []
    segmenter = segmenter_in_use()
    return spans if segmenter is None else _segmented(text, spans, segmenter)


def _segmented(text: str, spans: list[tuple[int, int]], segmenter: Segmenter) -> list[tuple[int, int]]:
    """The same with each run of characters of scripts without spaces cut anew."""
    out: list[tuple[int, int]] = []
    run = -1  # where the open one starts
    for i, (start, end) in enumerate(spans):
        if not UNSPACED.match(text, start):
            out.append((start, end))
            continue
        run = start if run < 0 else run
        if i + 1 == len(spans) or spans[i + 1][0] != end or not UNSPACED.match(text, end):
            out += [(run + a, run + b) for a, b in segmenter.spans(text[run:end])]
            run = -1
    return out


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
