"""What inflections of a word, and a phrase and the word that carries its content, have in common."""

from __future__ import annotations

from functools import cache
from typing import Any

from .content import content_spans
from .folding import fold


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
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@cache
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))
