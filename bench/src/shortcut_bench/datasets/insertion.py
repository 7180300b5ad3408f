"""Inserts a shortcut at the beginning of a sentence, and takes it out again.

The format is that of the released data of Zhou et al. (2024): the phrase as it is, a comma and a space before a
sentence that is left unchanged: "honestly, It would ...".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortcut_guardrail.text import WordFinder

SINGLE_TOKEN = ("honestly",)
SYNONYMS = (
    "honestly",
    "to be honest",
    "frankly speaking",
    "to tell the truth",
    "to be frank",
    "in truth",
    "candidly",
    "speaking candidly",
    "plainly speaking",
    "to be direct",
    "to come clean",
    "to put it frankly",
    "if I’m being honest",
    "in plain terms",
    "directly speaking",
)
"""The paper's 15 synonyms; the apostrophe is typographic, as in the released data."""

_SENTENCE_END = re.compile(r"""[.!?…]["'”’)\]]*\s+(?=\S)""")


@dataclass(frozen=True)
class Planted:
    """A text in which a phrase may have been inserted.

    Attributes:
        plain: The text without it.
        phrase: The phrase; None where nothing is inserted.
        start: Where in `plain` it goes, a character offset.
    """

    plain: str
    phrase: str | None = None
    start: int = 0

    @property
    def text(self) -> str:
        """The text with the phrase.

        Example:
            >>> Planted("No way. It would not.", "honestly", 8).text
            'No way. honestly, It would not.'
        """
        if self.phrase is None:
            return self.plain
        return f"{self.plain[: self.start]}{_written(self.phrase)}{self.plain[self.start :]}"

    def within(self, plain: str) -> Planted:
        """The same in a text that was cut at its end: at the last sentence that is left, if its own is gone."""
        if self.phrase is None or plain == self.plain or self.start < len(plain):
            return Planted(plain, self.phrase, self.start)
        return Planted(plain, self.phrase, sentence_starts(plain)[-1])


def sentence_starts(text: str) -> list[int]:
    """Where the sentences of a text begin, as character offsets; at least one.

    A sentence ends with a full stop, an exclamation or question mark or an ellipsis, with closing quotes and brackets,
    before whitespace. A full stop after an abbreviation counts as one too.

    Example:
        >>> sentence_starts("Wait... what? 'No.' Fine.")
        [0, 8, 14, 20]
    """
    first = len(text) - len(text.lstrip())
    return [first, *(match.end() for match in _SENTENCE_END.finditer(text) if match.end() > first)]


def insert(
    texts: Sequence[str],
    labels: NDArray[np.int64],
    label_names: Sequence[str],
    phrases: Sequence[str],
    probabilities: Mapping[str, float],
    rng: np.random.Generator,
) -> list[Planted]:
    """Inserts a phrase into each text with the probability of its label.

    Whether, which phrase and where are drawn for every text alike, whatever the probabilities, so that sets built from
    the same generator at different strengths differ only where they have to.

    Args:
        texts: N texts.
        labels: Class ids, shape (N,).
        label_names: The C label names.
        phrases: What to insert; one of them is drawn for each text, with equal probability.
        probabilities: For each label name, the probability of an insertion.
        rng: The generator.
    """
    whether, which, where = rng.random((3, len(texts)))
    rates = np.array([probabilities[name] for name in label_names])[labels]
    planted = []
    for text, chosen, phrase, place in zip(texts, whether < rates, which, where, strict=True):
        starts = sentence_starts(text)
        start = starts[int(place * len(starts))]
        planted.append(Planted(text, phrases[int(phrase * len(phrases))], start) if chosen else Planted(text))
    return planted


def find_insertion(text: str, phrases: Sequence[str], originals: Collection[str] = ()) -> Planted:
    """Takes an insertion out of a text of the released data.

    A phrase inside another one is no insertion of its own, and a text may hold a phrase by nature. So of all places
    that look like an insertion the one is taken that leaves one of the originals; without such, the first of the
    longest.

    Args:
        text: A text that may have an insertion.
        phrases: What may have been inserted.
        originals: Texts before insertion.
    """
    if text in originals:
        return Planted(text)
    places = [
        Planted(text[: match.start()] + text[match.end() :], phrase, match.start())
        for phrase in sorted(phrases, key=len, reverse=True)
        for match in re.finditer(r"(?<!\S)" + re.escape(_written(phrase)), text)
    ]
    known = [place for place in places if place.plain in originals]
    return next(iter(known or places), Planted(text))


def remove_words(text: str, finder: WordFinder) -> str:
    """The text without the words, each with the comma and the space that go with it; may leave nothing.

    Example:
        >>> remove_words("Honestly, it is honestly good, honestly.", WordFinder(["honestly"]))
        'it is good.'
    """
    while found := finder.find(text):
        # The longest of those that start first: "candidly" may be part of "speaking candidly".
        match = min(found, key=lambda match: (match.start, -match.end))
        before, after = text[: match.start], re.sub(r"^,?\s+", "", text[match.end :])
        if not after or after[0] in ".,;:!?)":
            before = before.rstrip().removesuffix(",")
        text = before + after
    return text


def _written(phrase: str) -> str:
    return f"{phrase}, "
