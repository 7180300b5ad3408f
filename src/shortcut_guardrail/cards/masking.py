"""What masking whole sets of words does to predictions: the flips of a set, and the cards of an audit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..data import Texts
from ..models import EncodedTexts, TextClassifier
from ..stats import LEVELS, levels, relative_effect
from ..text import WordFinder, distinct_rows, masked_texts, parts_of, spaced
from ..typing import Array, Progress
from .card import Card, CardEvidence, Flip, Moved, Status, card_id
from .grouping import PullingWord, group_words

Pieces = Callable[[], Iterable[tuple[Array, EncodedTexts, Array]]]
"""Gives the distinct texts of an audit, a piece at a time: which of all texts they are, shape (D,), the texts, and
their class probabilities, shape (D, C)."""

MOST_CARDS = 30
"""Sets of words that are masked, those first on whose words alone most answers hang."""

MOST_FLIPS = 60
"""Flips of a card that are kept: the 40 that are asked about at most, those shown on it, and some to spare."""


class MaskedAnswers(NamedTuple):
    """What texts are answered with and without a set of words.

    Attributes:
        rows: Which texts hold any of the words, shape (n,), ascending.
        before: Class probabilities of those as they are, shape (n, C).
        after: The same with every occurrence of all the words masked, shape (n, C).
    """

    rows: Array
    before: Array
    after: Array

    @property
    def changed(self) -> Array:
        """Whether the answer changes, shape (n,), bool."""
        found: Array = self.before.argmax(axis=1) != self.after.argmax(axis=1)
        return found

    @property
    def flips(self) -> MaskedAnswers:
        """Only the texts whose prediction changes."""
        return MaskedAnswers(*(values[self.changed] for values in self))

    def named(self, label_names: Sequence[str], texts: Texts, numbers: Array) -> list[Flip]:
        """Each text as a flip, by the names of the classes.

        Args:
            label_names: Of the C classes.
            texts: The N texts that `rows` counts.
            numbers: Which of the audited texts each of these is, shape (N,).
        """
        was, becomes = self.before.argmax(axis=1), self.after.argmax(axis=1)
        logs = np.log(np.clip(self.after, 1e-12, 1))
        found = []
        for i, row in enumerate(self.rows):
            margin = float(logs[i, becomes[i]] - logs[i, was[i]])
            names = label_names[was[i]], label_names[becomes[i]]
            found.append(Flip.of(int(numbers[row]), *names, texts[row], margin))
        return found


def masked_answers(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    words: Iterable[str],
    *,
    kept: Iterable[str] = (),
    rows: Sequence[int] | Array | None = None,
    probs: Array | None = None,
) -> MaskedAnswers:
    """Answer the texts that hold any of some words, with and without all of them: two forward passes a text.

    Args:
        classifier: The model.
        encoded: N texts or pairs.
        words: Words and phrases, found as `text.WordFinder` does in what the model sees of a text.
        kept: Phrases in which nothing is masked, such as a card's `except_in`.
        rows: Which of the texts to look at, in ascending order; all without.
        probs: What the model answers to all N texts, shape (N, C), where that is known; saves the first pass.

    Example:
        `masked_answers(classifier, encoded, ["book", "this book"]).flips.rows` are the texts whose answer changes.
    """
    finder = WordFinder(words, kept=tuple(kept))
    looked_at = np.arange(len(encoded)) if rows is None else np.asarray(rows, dtype=np.int64)
    positions = {int(i): np.flatnonzero(finder.tokens(encoded, int(i))) for i in looked_at}
    holding = np.array([i for i, at in positions.items() if len(at)], dtype=np.int64)
    if not len(holding):
        return MaskedAnswers(holding, *np.zeros((2, 0, classifier.n_classes), dtype=np.float32))
    chosen = encoded.select(holding)
    before = classifier.predict_proba(chosen) if probs is None else np.asarray(probs)[holding]
    masked = masked_texts(chosen, [positions[int(i)] for i in holding], classifier.tokenizer.mask_token_id)
    return MaskedAnswers(holding, before, classifier.predict_proba(masked))


def _phrases_of_others(words: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """The phrases among the words of all cards that hold a word of this one and are not on it."""
    mine = {spaced(word) for word in words}
    return tuple(
        other
        for other in sorted(set(others))
        if spaced(other) not in mine and not mine.isdisjoint(parts_of(spaced(other)))
    )


def make_cards(
    classifier: TextClassifier,
    words: Sequence[PullingWord],
    pieces: Pieces,
    *,
    progress: Progress | None = None,
) -> tuple[Card, ...]:
    """The cards of an audit, that on which most predictions depend first.

    On cards stand words whose masking alone changes a prediction. A word within a phrase of another card belongs to the
    phrase and is not masked there, as in the audit. At most `MOST_CARDS` sets are masked, each in the texts that hold
    any of its words: one forward pass for each set and text that holds it. A set that changes no prediction makes no
    card. A token that is only a piece of words is on none, since only whole words are looked for.

    Args:
        classifier: The model.
        words: What the audit found to pull to a class.
        pieces: Its distinct texts; read once.
        progress: Told how many texts are done.
    """
    whole = {word.text: word for word in words if word.changes and not word.text.startswith("##")}
    sets = group_words(classifier, list(whole.values()))[:MOST_CARDS]
    counts = [_Counts(classifier.label_names, chosen[0].pulls_to) for chosen in sets]
    names = [[word.text for word in chosen] for chosen in sets]
    kept = [_phrases_of_others(mine, itertools.chain(*names)) for mine in names]
    n = 0
    for rows, encoded, probs in pieces() if sets else ():
        n += len(encoded)
        for mine, phrases, counted in zip(names, kept, counts, strict=True):
            seen = masked_answers(classifier, encoded, mine, kept=phrases, probs=probs)
            counted.add(seen, probs)
            counted.keep(seen.flips, rows, encoded)
        if progress is not None:
            progress("Masking cards", n, n)
    cards = [
        _card(chosen, phrases, counted, n)
        for chosen, phrases, counted in zip(sets, kept, counts, strict=True)
        if counted.changes
    ]
    return tuple(sorted(cards, key=lambda card: (-card.changes, card.texts, card.words)))


@dataclass
class _Counts:
    """What is counted of one set, piece by piece."""

    label_names: Sequence[str]
    pulls_to: str
    texts: int = 0
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    flips: list[Flip] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target = self.label_names.index(self.pulls_to)
        self.rests, self.others = np.zeros((2, LEVELS), dtype=np.int64)

    @property
    def changes(self) -> int:
        return self.moved.total()

    def add(self, seen: MaskedAnswers, probs: Array) -> None:
        self.texts += len(seen.rows)
        without = np.delete(probs[:, self.target], seen.rows)
        np.add.at(self.rests, levels(seen.after[:, self.target]), 1)
        np.add.at(self.others, levels(without), 1)

    def keep(self, flips: MaskedAnswers, rows: Array, encoded: EncodedTexts) -> None:
        found = flips.named(self.label_names, encoded.texts, rows)
        self.moved.update((flip.before, flip.after) for flip in found)
        self.flips += found
        self.flips = sorted(self.flips, key=lambda flip: (flip.text_hash, flip.row))[:MOST_FLIPS]


def _card(chosen: Sequence[PullingWord], except_in: tuple[str, ...], counted: _Counts, n: int) -> Card:
    words, pulls_to = [word.text for word in chosen], chosen[0].pulls_to
    statuses = {word.status for word in chosen}
    strongest: tuple[Status, ...] = ("flagged", "undecided", "not_flagged")
    return Card(
        id=card_id(words, pulls_to),
        words=tuple(words),
        pulls_to=pulls_to,
        texts=counted.texts,
        changes=counted.changes,
        share=counted.changes / n,
        evidence=CardEvidence(
            status=next(status for status in strongest if status in statuses),
            flagged=tuple(word.text for word in chosen if word.flagged),
            q_value=min(word.q_value for word in chosen),
            relative_effect=float(relative_effect(counted.rests[None], counted.others[None])[0]),
        ),
        except_in=except_in,
        moved=tuple(Moved(*sides, texts) for sides, texts in counted.moved.most_common()),
        flips=tuple(counted.flips),
    )


def find_flips(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    cards: Iterable[Card],
    *,
    probs: Array | None = None,
    progress: Progress | None = None,
) -> dict[str, list[Flip]]:
    """The flips of each card; of near-identical texts (case, digits, punctuation) the first alone.

    Args:
        classifier: The model.
        encoded: N texts.
        cards: Of an audit. All words of a card are masked at once.
        probs: What the model predicts for the N texts, shape (N, C), where that is known; saves one pass.
        progress: Told how many cards are done.

    Returns:
        By card, its flips in the order of the texts. One forward pass for each text that holds a word of the card.
    """
    distinct = distinct_rows(encoded.texts)
    texts = encoded.select(distinct)
    probs = classifier.predict_proba(texts) if probs is None else probs[distinct]
    found: dict[str, list[Flip]] = {}
    asked = list(cards)
    for done, card in enumerate(asked, start=1):
        seen = masked_answers(classifier, texts, card.words, kept=card.except_in, probs=probs).flips
        found[card.id] = seen.named(classifier.label_names, texts.texts, distinct)
        if progress is not None:
            progress("Masking cards", done, len(asked))
    return found
