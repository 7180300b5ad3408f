"""Which words of a phrase carry its content."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .folding import fold, in_word
from .stop_words import STOP_WORDS

_CLITICS = ("'m", "'s", "'d", "'ll", "'re", "'ve")
_SHAPE_OF_A_WORD = re.compile("'?w+(?:'w+)*")


def content_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the content-bearing words of a phrase stand in a text.

    A lone "to" is not "to be honest": a phrase counts as found by a model only through the words that carry its
    content, which are those that are not among `STOP_WORDS`. Contractions are function words
    ("I'm", "don't"), and a clitic is cut off ("truth's" leaves "truth"). A single word, and a phrase of
    nothing but function words, counts whole.

    Args:
        text: The text.
        start: Where the phrase begins in it.
        end: Where it ends, exclusive.

    Returns:
        Character spans (start, end) in order, at least one, all within the phrase.

    Example:
        >>> text = "Well, to be honest, no."
        >>> [text[a:b] for a, b in content_spans(text, 6, 18)]
        ['honest']
    """
    phrase = text[start:end]
    whole = [(start, end)]
    if len(phrase.split()) == 1:
        return whole
    folded = fold(phrase)
    spans = [(start + folded.starts[a], start + folded.ends[b - 1]) for a, b in _content_words(folded.text)]
    return spans or whole


def is_content(word: str) -> bool:
    """Whether a folded word carries content: it has a letter or digit, and is no function word or contraction of such.

    Example:
        >>> [is_content(word) for word in ("book", "book's", "this", "don't", "i've", "!")]
        [True, True, False, False, False, False]
    """
    for clitic in _CLITICS:
        word = word.removesuffix(clitic)
    return any(map(str.isalnum, word)) and not word.endswith("n't") and word not in STOP_WORDS


def _content_words(folded: str) -> Iterator[tuple[int, int]]:
    """Spans of the words of a folded phrase that are no function words, without the clitics at their ends."""
    shape = "".join("w" if in_word(character) else character for character in folded)
    for match in _SHAPE_OF_A_WORD.finditer(shape):
        start, end = match.span()
        while folded[start:end].endswith(_CLITICS):
            end = folded.rindex("'", start, end)
        start += folded.startswith("'", start, end)
        word = folded[start:end]
        if word and not word.endswith("n't") and word not in STOP_WORDS:
            yield start, end
