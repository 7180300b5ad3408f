"""What masking whole sets of words does to predictions: the flips of a set, and the cards of an audit.

A shortcut pushes texts near the edge, where masking any other word tips them. So a set is masked where the words that
are taken for shortcuts already, which are *given*, are masked in both versions. Nothing is taken from the set itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..data import Texts
from ..models import BudgetSpentError, EncodedTexts, Reader
from ..stats import LEVELS, levels, relative_effect
from ..text import WordFinder, distinct_rows, erased_texts, parts_of, spaced
from ..typing import Array, Erasure, Progress
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
    """What texts are answered with and without a set of words, with what is given masked in both.

    Attributes:
        rows: Which texts hold any of the words, shape (n,), ascending.
        before: Class probabilities of those without what is given, shape (n, C).
        after: The same with every occurrence of all the words masked too, shape (n, C).
    """

    rows: Array
    before: Array
    after: Array

    @property
    def changed(self) -> Array:
        """Whether the answer changes, shape (n,), bool."""
        found: Array = self.before.argmax(axis=1) != self.after.argmax(axis=1)
        return found

    def flips(self, label_names: Sequence[str], texts: Texts, numbers: Array) -> list[Flip]:
        """The texts whose prediction changes, of N texts that are those of the audit with these numbers, shape (N,)."""
        was, becomes = self.before.argmax(axis=1), self.after.argmax(axis=1)
        logs = np.log(np.clip(self.after, 1e-12, 1))
        found = []
        for i in np.flatnonzero(self.changed):
            row, margin = self.rows[i], float(logs[i, becomes[i]] - logs[i, was[i]])
            names = label_names[was[i]], label_names[becomes[i]]
            found.append(Flip.of(int(numbers[row]), *names, texts[row], margin))
        return found


@dataclass
class Answered:
    """Some texts, what the model answers to them, and what it answers with words masked that are given.

    Attributes:
        probs: Class probabilities of the texts as they are, shape (N, C).
        erasure: What masking means: see `text.erased_texts`.
    """

    classifier: Reader
    encoded: EncodedTexts
    probs: Array
    erasure: Erasure = "mask"
    _without: dict[frozenset[str], tuple[list[Array] | None, Array]] = field(default_factory=dict)

    def without(
        self, words: Iterable[str], *, kept: Iterable[str] = (), given: Iterable[str] = ()
    ) -> tuple[MaskedAnswers, Array]:
        """What is answered with and without some words (see `masked_answers`), given others that are none of them.

        Also what is answered to all N texts without what is given, shape (N, C): one forward pass for each text that
        holds any of it, once for the same words.
        """
        words = tuple(words)
        key = frozenset(map(spaced, given)) - set(map(spaced, words))
        if key not in self._without:
            self._without[key] = self._answered_without(sorted(key)) if key else (None, self.probs)
        tokens, probs = self._without[key]
        how: dict[str, Any] = {"kept": kept, "probs": probs, "given": tokens, "erasure": self.erasure}
        return masked_answers(self.classifier, self.encoded, words, **how), probs

    def _answered_without(self, given: list[str]) -> tuple[list[Array], Array]:
        # A comma that came with a shortcut ("honestly, it rains") would speak for it still.
        finder, probs = WordFinder(given, with_marks=True), self.probs.copy()
        seen = masked_answers(self.classifier, self.encoded, finder, probs=self.probs, erasure=self.erasure)
        probs[seen.rows] = seen.after
        return finder.positions(self.encoded), probs


def masked_answers(
    classifier: Reader,
    encoded: EncodedTexts,
    words: Iterable[str] | WordFinder,
    *,
    kept: Iterable[str] = (),
    probs: Array | None = None,
    given: Sequence[Array] | None = None,
    erasure: Erasure = "mask",
) -> MaskedAnswers:
    """Answer the texts that hold any of some words, with and without all of them: two forward passes a text.

    Args:
        words: Words and phrases, found as `text.WordFinder` does in what the model sees of a text; or their finder.
        kept: Phrases in which nothing is masked, such as a card's `except_in`.
        probs: What the model answers to all N texts, shape (N, C), where that is known; saves the first pass.
        given: Of each text the tokens that are masked in any case, with which `probs` were answered.
        erasure: What masking means: see `text.erased_texts`.
    """
    found = (words if isinstance(words, WordFinder) else WordFinder(words, kept=tuple(kept))).positions(encoded)
    holding = np.flatnonzero([len(tokens) > 0 for tokens in found])
    if not len(holding):
        return MaskedAnswers(holding, *np.zeros((2, 0, classifier.n_classes), dtype=np.float32))
    chosen = encoded.select(holding)
    before = classifier.predict_proba(chosen) if probs is None else np.asarray(probs)[holding]
    if given is not None:
        found = [np.union1d(tokens, more) for tokens, more in zip(found, given, strict=True)]
    masked = erased_texts(chosen, [found[i] for i in holding], classifier.mask_token_id, erasure)
    return MaskedAnswers(holding, before, classifier.predict_proba(masked))


def make_cards(
    classifier: Reader,
    words: Sequence[PullingWord],
    pieces: Pieces,
    *,
    erasure: Erasure = "mask",
    progress: Progress | None = None,
) -> tuple[Card, ...]:
    """The cards of an audit, that on which most predictions depend first.

    On cards stand words whose masking alone changes a prediction. A word within a phrase of another card belongs to the
    phrase and is not masked there, as in the audit. At most `MOST_CARDS` sets are masked, each in the texts that hold
    any of its words: one forward pass for each set and text that holds it. Words that were found on other cards are
    given, so that what changes only next to them makes no card. That is one more pass for each text that holds one, and
    for each card of found words. A set that changes no prediction makes no card. A token that is only a piece of words
    is on none, since only whole words are looked for.

    Args:
        words: What the audit found to push towards a class.
        pieces: Its distinct texts; read once.
        erasure: How it took words out.
    """
    whole = {word.text: word for word in words if word.changes and not word.text.startswith("##")}
    groups = group_words(classifier, list(whole.values()))[:MOST_CARDS]
    on_cards = [word.text for group in groups for word in group]
    sets = [_Set(group, on_cards, classifier.label_names) for group in groups]
    found = [word.text for word in words if word.found]
    n = 0
    for rows, encoded, probs in pieces() if sets else ():
        n += len(encoded)
        answered = Answered(classifier, encoded, probs, erasure)
        with suppress(BudgetSpentError):  # those first on which most answers hang
            for one in sets:
                seen, without = answered.without(one.words, kept=one.kept, given=found)
                one.add(seen, rows, encoded, without)
        if progress is not None:
            progress("Masking word groups", n, n)
    cards = [one.card(n) for one in sets if one.moved]
    return tuple(sorted(cards, key=lambda card: (-card.changes, card.texts, card.words)))


class _Set:
    """A set of words, and what is counted of it piece by piece."""

    def __init__(self, group: Sequence[PullingWord], on_cards: Sequence[str], label_names: Sequence[str]) -> None:
        self.group, self.label_names = group, label_names
        self.words, self.pushes_towards = tuple(word.text for word in group), group[0].pushes_towards
        # The phrases of all cards that hold a word of this one and are not on it.
        mine = {spaced(word) for word in self.words}
        phrases = (other for other in sorted(set(on_cards)) if spaced(other) not in mine)
        self.kept = tuple(other for other in phrases if not mine.isdisjoint(parts_of(spaced(other))))
        self.texts = 0
        self.moved: Counter[tuple[str, str]] = Counter()
        self.flips: list[Flip] = []
        self.rests, self.others = np.zeros((2, LEVELS), dtype=np.int64)

    def add(self, seen: MaskedAnswers, rows: Array, encoded: EncodedTexts, probs: Array) -> None:
        target = self.label_names.index(self.pushes_towards)
        np.add.at(self.rests, levels(seen.after[:, target]), 1)
        np.add.at(self.others, levels(np.delete(probs[:, target], seen.rows)), 1)
        self.texts += len(seen.rows)
        found = seen.flips(self.label_names, encoded.texts, rows)
        self.moved.update((flip.before, flip.after) for flip in found)
        self.flips = sorted(self.flips + found, key=lambda flip: (flip.text_hash, flip.row))[:MOST_FLIPS]

    def card(self, n: int) -> Card:
        statuses = {word.status for word in self.group}
        strongest: tuple[Status, ...] = ("flagged", "undecided", "not_flagged")
        return Card(
            id=card_id(self.words, self.pushes_towards),
            words=self.words,
            pushes_towards=self.pushes_towards,
            texts=self.texts,
            changes=self.moved.total(),
            share=self.moved.total() / n,
            evidence=CardEvidence(
                status=next(status for status in strongest if status in statuses),
                flagged=tuple(word.text for word in self.group if word.status == "flagged"),
                q_value=min(word.q_value for word in self.group),
                relative_effect=float(relative_effect(self.rests[None], self.others[None])[0]),
            ),
            except_in=self.kept,
            moved=tuple(Moved(*sides, texts) for sides, texts in self.moved.most_common()),
            flips=tuple(self.flips),
        )


def find_flips(
    classifier: Reader,
    encoded: EncodedTexts,
    cards: Sequence[Card],
    *,
    given: Iterable[str] = (),
    probs: Array | None = None,
    erasure: Erasure = "mask",
    progress: Progress | None = None,
) -> dict[str, list[Flip]]:
    """The flips of each card; of near-identical texts (case, digits, punctuation) the first alone.

    Args:
        given: Words that are taken for shortcuts already, and masked in both versions of a text. Those of a card itself
            are not given to it.
        probs: What the model predicts for the N texts, shape (N, C), where that is known; saves one pass.
        erasure: How the audit took words out.
    """
    distinct, given = distinct_rows(encoded.texts), tuple(given)
    texts = encoded.select(distinct)
    before = classifier.predict_proba(texts) if probs is None else probs[distinct]
    answered = Answered(classifier, texts, before, erasure)
    found: dict[str, list[Flip]] = {}
    for done, card in enumerate(cards, start=1):
        seen, _ = answered.without(card.words, kept=card.except_in, given=given)
        found[card.id] = seen.flips(classifier.label_names, texts.texts, distinct)
        if progress is not None:
            progress("Masking word groups", done, len(cards))
    return found
