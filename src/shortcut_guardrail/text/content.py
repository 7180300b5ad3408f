"""Which words of a phrase carry its content, and what inflections of a word have in common."""

import re
from collections.abc import Iterator
from functools import cache

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

    Returns:
        Character spans (start, end) in order, at least one.

    Example:
        >>> text = "Well, to be honest, no."
        >>> [text[a:b] for a, b in content_spans(text, 6, 18)]
        ['honest']
    """
    if len(text[start:end].split()) == 1:
        return [(start, end)]
    folded = fold(text[start:end])
    spans = [(start + folded.starts[a], start + folded.ends[b - 1]) for a, b in _content_words(folded.text)]
    return spans or [(start, end)]


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
        if is_content(folded[start:end]):
            yield start, end


def content_words(phrase: str) -> tuple[str, ...]:
    """The words of a phrase that carry its content, folded; see `content_spans`.

    Example:
        >>> content_words("this book"), content_words("if I’m being honest"), content_words("to be")
        (('book',), ('honest',), ('to', 'be'))
    """
    spans = content_spans(phrase, 0, len(phrase))
    return tuple(word for start, end in spans for word in fold(phrase[start:end]).text.split())


def stems(phrase: str) -> frozenset[str]:
    """The stems of a phrase's content words, by the English Snowball stemmer (Porter 2001).

    Example:
        >>> stems("this book") == stems("books"), sorted(stems("honestly")), stems("bad") == stems("good")
        (True, ['honest'], False)
    """
    return frozenset(_stem(word) for word in content_words(phrase))


@cache
def _stem(word: str) -> str:
    import snowballstemmer

    return str(snowballstemmer.stemmer("english").stemWord(word))
