"""What masking whole sets of words does to answers: the flips of a set, and the cards of an audit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..data import text_hash
from ..models import EncodedTexts, TextClassifier
from ..stats import LEVELS, levels, relative_effect
from ..text import WordFinder, masked_texts, parts_of, spaced
from ..typing import Array, Progress
from .cards import Card, CardEvidence, KeptFlip, Moved, card_id
from .evidence import Candidate
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
        """The texts whose answer changes alone."""
        return MaskedAnswers(*(values[self.changed] for values in self))


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
    candidates: Sequence[Candidate],
    pieces: Pieces,
    *,
    progress: Progress | None = None,
) -> tuple[Card, ...]:
    """The cards of an audit, that on which most answers hang first.

    On cards stand candidates that pull to a class and whose masking alone changes an answer. A word within a phrase of
    another card belongs to the phrase and is not masked there, as in the audit. At most `MOST_CARDS` sets are masked,
    each in the texts that hold any of its words: one forward pass for each set and text that holds it. A set that
    changes no answer makes no card. A token that is only a piece of words is on none, since only whole words are looked
    for.

    Args:
        classifier: The model.
        candidates: Of the audit.
        pieces: Its distinct texts; read once.
        progress: Told how many texts are done.
    """
    by_name = {c.text: c for c in candidates if c.pulls_to is not None and not c.text.startswith("##")}
    words = [
        PullingWord(c.text, c.pulls_to or "", _changes(c), c.flagged, c.flagged or c.takes_turns or c.collective)
        for c in by_name.values()
        if _changes(c)
    ]
    sets = group_words(classifier, words)[:MOST_CARDS]
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
        _card(mine, phrases, counted, n, [by_name[word] for word in mine])
        for mine, phrases, counted in zip(names, kept, counts, strict=True)
        if counted.changes
    ]
    return tuple(sorted(cards, key=lambda card: (-card.changes, card.texts, card.words)))


def _changes(candidate: Candidate) -> int:
    """Distinct texts whose answer changes when it is masked."""
    return round(candidate.flip_rate * candidate.n_distinct) if candidate.n_distinct else 0


@dataclass
class _Counts:
    """What is counted of one set, piece by piece."""

    label_names: Sequence[str]
    pulls_to: str
    texts: int = 0
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    flips: list[KeptFlip] = field(default_factory=list)

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
        for i, was, becomes in zip(flips.rows, flips.before.argmax(axis=1), flips.after.argmax(axis=1), strict=True):
            moved = self.label_names[was], self.label_names[becomes]
            self.moved[moved] += 1
            text = encoded.texts[i]
            sides = (text, None) if isinstance(text, str) else text
            self.flips.append(KeptFlip(int(rows[i]), *moved, text_hash(text), *sides))
        self.flips = sorted(self.flips, key=lambda flip: (flip.text_hash, flip.row))[:MOST_FLIPS]


def _card(
    words: Sequence[str], except_in: tuple[str, ...], counted: _Counts, n: int, candidates: Sequence[Candidate]
) -> Card:
    pulls_to = candidates[0].pulls_to or ""
    statuses = {candidate.status for candidate in candidates}
    return Card(
        id=card_id(words, pulls_to),
        words=tuple(words),
        pulls_to=pulls_to,
        texts=counted.texts,
        changes=counted.changes,
        share=counted.changes / n,
        evidence=CardEvidence(
            status=next(s for s in ("flagged", "undecided", "not_flagged") if s in statuses),
            flagged=tuple(candidate.text for candidate in candidates if candidate.flagged),
            q_value=min(candidate.q_value for candidate in candidates),
            relative_effect=float(relative_effect(counted.rests[None], counted.others[None])[0]),
        ),
        except_in=except_in,
        moved=tuple(Moved(*sides, texts) for sides, texts in counted.moved.most_common()),
        flips=tuple(counted.flips),
    )
