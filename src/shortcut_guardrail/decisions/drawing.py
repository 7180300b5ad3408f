"""Which texts are asked about, in which order: flips for people, reference texts for classifiers.

Texts come in an order fixed by the seed; those that were asked least come first; the questions of the cards are mixed,
and a text that serves several cards is asked about once. Evidence rests on that order being random. A budget over all
cards goes to those with most flips first, and to each as much as a shortcut without exceptions needs; what is left is
for cards that stay open.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ..cards import Card, Flip
from ..data import Count
from ..models import EncodedTexts
from ..text import WordFinder, distinct_rows, spaced
from ..typing import Array, Text
from .people import LEAST_FLIPS

Option = Literal["a", "b"]
Known = Literal["a", "b", "neither"]

DRAWN = 100
"""Reference texts on each side, drawn at random: is the judge qualified?"""
NEAR = 150
"""Reference texts on each side, those nearest to the model's boundary: where does the judge lean?"""
LEAST_NEAR = 75
"""Of a side with fewer than twice as many texts, more than the nearer half count as near."""
AT_FIRST = 16
"""Questions about a card that a budget pays for at first: eight decide a shortcut without exceptions, and sixteen leave
room for some and for wrong answers. `bench/experiments/questions` says how many answers a decision takes then."""


@dataclass(frozen=True)
class Question:
    """A question to a person: which of two classes is right for a text, which is a `row` of those audited, from 0.

    Its id says nothing about the word group.
    """

    id: str
    row: int
    text: Text
    option_a: str
    option_b: str


@dataclass(frozen=True)
class Key:
    """What a question tells about one card.

    Attributes:
        id: The question's; `card` is the card's.
        masked_option: Which of the two is the prediction with the card's words masked.
        order: The place of the question among the card's, from 0.
        label: What a label of the text's own answers; `None` where somebody has to be asked.
        after: How many answers were kept when it was drawn; its own comes after them.
        holds: Other cards of which the text holds a word that was not masked when its prediction changed.
        counts: Whether its prediction still changed when flips were last counted.
    """

    id: str
    card: str
    masked_option: Option
    text_hash: str
    order: Count
    label: Known | None = None
    after: Count = 0
    holds: tuple[str, ...] = ()
    counts: bool = True


@dataclass(frozen=True)
class ReferenceText:
    """A text without the words of the cards, for one pair of classes.

    Attributes:
        answer: The class that the deployed model predicts.
        other: The other class of the pair.
        margin: By how much `answer` is ahead of `other`, in log-probability.
        drawn: Whether it was drawn at random, to tell whether a judge is qualified.
        near: Whether it is one of those near the model's boundary, to tell where a judge leans.
        holds: Cards whose words it holds after all, since these stand in nearly all texts.
    """

    row: Count
    text: str | tuple[str, str]
    answer: str
    other: str
    margin: float
    drawn: bool
    near: bool
    holds: tuple[str, ...] = ()


def sides(text: Text | None) -> tuple[str, ...]:
    """A text, or both of a pair; nothing where the text is not known."""
    return (text,) if isinstance(text, str) else text or ()


def pair_of(one: str, other: str, labels: Sequence[str]) -> tuple[str, str]:
    """Two classes in the order of the labels."""
    return (one, other) if labels.index(one) < labels.index(other) else (other, one)


# Questions to people

Pairs = list[tuple[Question, Key]]


@dataclass(frozen=True)
class Drawing:
    """What one more call about an audit draws questions with.

    Attributes:
        audit: The audit's id, so that a question of another audit is known as one.
        asked: The keys of earlier questions. Texts that they ask about come last.
        known: By row, the label of a text where it is known. Such a text is not asked about: its label answers, before
            all questions, and counts toward n.
        answered: Questions that were answered, and are not asked again.
        given: Words that were masked before and after when flips were counted.
    """

    audit: str
    labels: Sequence[str]
    asked: Sequence[Key] = ()
    known: Mapping[int, str] = field(default_factory=dict)
    answered: Collection[str] = ()
    after: int = 0
    cards: Sequence[Card] = ()
    given: Collection[str] = ()

    def of_flips(
        self,
        flips: Mapping[str, Sequence[Flip]],
        *,
        n: int = 40,
        total: int | None = None,
        least: Mapping[str, int] | None = None,
        seed: int = 0,
    ) -> tuple[list[Question], list[Key]]:
        """The questions about some flips of each card, the cards' mixed, and the keys of those that are new.

        Args:
            n: How many of each card; 0: all.
            total: How many of all cards; those that come first are served first, with `AT_FIRST` each, or `least`.
            least: By card, how many answers decide it at least; with fewer left of the total it gets none.
        """
        before = {(key.id, key.card) for key in self.asked}
        least = least or {}
        rounds: list[tuple[int, str, Question]] = []
        keys: list[Key] = []
        paid: set[str] = set()
        for card, of_card in flips.items():
            rng = np.random.default_rng([seed, *_digest(card).encode()])
            drawn = [self._question(of_card[i], card) for i in rng.permutation(len(of_card))]
            drawn = [pair for pair in drawn if (pair[1].id, card) not in before or pair[1].id not in self.answered]
            drawn = sorted(drawn, key=lambda pair: (pair[1].id, card) in before)[: n or None]
            if total is not None:
                drawn = self._within(drawn[: max(AT_FIRST, least.get(card, 0))], total - len(paid), paid)
                drawn = drawn if len(drawn) >= least.get(card, 0) else []
            new = [self.placed(key, question.text) for question, key in drawn if (key.id, card) not in before]
            done = sum(key.card == card for key in self.asked)
            keys += [replace(key, order=done + i) for i, key in enumerate(new)]
            asked = [(place, question) for place, (question, key) in enumerate(drawn) if self._costs(key)]
            paid |= {question.id for _, question in asked}
            rounds += [(place, _digest(str(seed), card, question.id), question) for place, question in asked]
        mixed = {question.id: question for _, _, question in sorted(rounds, key=lambda r: r[:2])}
        return list(mixed.values()), keys

    def renewed(self, flips: Mapping[str, Sequence[Flip]]) -> list[Key]:
        """The keys of earlier questions, where flips of some cards were counted anew.

        A text whose prediction still changes between the same two classes keeps its question.
        """
        found = {(card, question_id(f, self.labels, self.audit)): f for card, some in flips.items() for f in some}
        made = []
        for key in self.asked:
            flip = found.get((key.card, key.id))
            if flip is None:
                made.append(replace(key, counts=key.counts and key.card not in flips))
            else:
                _, now = self._question(flip, key.card)
                made.append(self.placed(replace(key, masked_option=now.masked_option, counts=True), flip.content))
        return made

    def placed(self, key: Key, text: Text | None) -> Key:
        """A key, with the other cards of which its text holds words that are not given."""
        held = (card for card, finder in self._finders.items() if card != key.card)
        return replace(key, holds=tuple(c for c in held if any(map(self._finders[c].present, sides(text)))))

    @cached_property
    def _finders(self) -> dict[str, WordFinder]:
        given = set(map(spaced, self.given))
        return {card.id: WordFinder(w for w in card.words if spaced(w) not in given) for card in self.cards}

    def _costs(self, key: Key) -> bool:
        return key.label is None and key.id not in self.answered

    def _within(self, drawn: Pairs, left: int, paid: Collection[str]) -> Pairs:
        """The first that a budget pays for; what was paid for another card, or needs no answer, is free."""
        costs = itertools.accumulate(self._costs(key) and key.id not in paid for _, key in drawn)
        return [pair for pair, cost in zip(drawn, costs, strict=True) if cost <= left]

    def _question(self, flip: Flip, card: str) -> tuple[Question, Key]:
        assert flip.content is not None
        identity = question_id(flip, self.labels, self.audit)
        # Which class comes first is a coin that falls the same way whenever the question is drawn, for any card.
        a, b = pair_of(flip.before, flip.after, self.labels)
        if int(_digest("order", identity)[:2], 16) % 2:
            a, b = b, a
        named: dict[str, Known] = {a: "a", b: "b"}
        label = named.get(self.known[flip.row], "neither") if flip.row in self.known else None
        key = Key(identity, card, "a" if a == flip.after else "b", flip.text_hash, 0, label, self.after)
        return Question(identity, flip.row, flip.content, a, b), key


def question_id(flip: Flip, labels: Sequence[str], audit: str) -> str:
    """Tells the question about a flip, and nothing of its card."""
    ids = (str(labels.index(name)) for name in pair_of(flip.before, flip.after, labels))
    return _digest(audit, flip.text_hash, *ids)[:12]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


# Reference texts


def draw_references(
    encoded: EncodedTexts,
    probs: Array,
    cards: Sequence[Card],
    flips: Mapping[str, Sequence[Flip]],
    labels: Sequence[str],
    *,
    seed: int = 0,
) -> list[ReferenceText]:
    """Some of the N audited texts, without the words of any card that can be decided, or that is flagged.

    The deployed model gives them the class probabilities `probs`, shape (N, C); flips are given by card.
    """
    texts = encoded.texts
    flips = {card: of_card for card, of_card in flips.items() if len(of_card) >= LEAST_FLIPS}
    listed = [card for card in cards if card.flagged or card.id in flips]
    holding = {card.id: _holding(card, texts) for card in listed}
    logs = np.log(np.clip(probs, 1e-12, None))
    free = _without(distinct_rows(texts), listed, holding, logs.argmax(axis=1))
    reach: dict[tuple[int, ...], float] = {}
    for flip in itertools.chain(*flips.values()):
        pair = tuple(map(labels.index, pair_of(flip.before, flip.after, labels)))
        reach[pair] = max(reach.get(pair, -np.inf), flip.margin or 0.0)
    rng = np.random.default_rng(seed)
    drawn: list[ReferenceText] = []
    for pair in sorted(reach):
        for answer, other in (pair, pair[::-1]):
            for i, is_drawn, is_near in _of_side(logs, free, (answer, other), reach[pair], rng):
                holds = tuple(card for card, held in holding.items() if held[i])
                margin = float(logs[i, answer] - logs[i, other])
                names = labels[answer], labels[other]
                drawn.append(ReferenceText(i, texts[i], *names, margin, is_drawn, is_near, holds))
    return drawn


def _holding(card: Card, texts: Sequence[Text]) -> Array:
    finder = WordFinder(card.words)
    return np.array([any(map(finder.present, sides(text))) for text in texts])


def _without(rows: Array, listed: Sequence[Card], holding: Mapping[str, Array], answers: Array) -> Array:
    """The texts without the words of the cards, those first on which most predictions depend. The words of a card that
    stand in nearly all texts, such as full stops, stay, since without them too few texts would be left of a class."""
    least = {one: min(DRAWN, 0.4 * (answers[rows] == one).sum()) for one in set(answers[rows].tolist())}
    for card in sorted(listed, key=lambda card: -card.changes):
        left = rows[~holding[card.id][rows]]
        if all((answers[left] == one).sum() >= needed for one, needed in least.items()):
            rows = left
    return rows


def _of_side(
    logs: Array, free: Array, classes: tuple[int, int], reach: float, rng: np.random.Generator
) -> list[tuple[int, bool, bool]]:
    """Texts for which the first of two classes is predicted: some at random, and those nearest to the boundary among
    the nearer half, no farther from it than masked flips are. Of each whether it is one, and whether the other."""
    answer, other = classes
    rows = free[logs[free].argmax(axis=1) == answer]
    margins = logs[rows, answer] - logs[rows, other]
    nearest = np.argsort(margins, kind="stable")[: min(NEAR, max(LEAST_NEAR, (len(rows) + 1) // 2))]
    near = {int(rows[i]) for i in nearest if margins[i] <= reach}
    drawn = {int(i) for i in rng.permutation(rows)[:DRAWN]}
    return [(i, i in drawn, i in near) for i in map(int, rows) if i in drawn or i in near]
