"""A review: what a person is asked next, what everybody said, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ..decisions import (
    FOLLOWS,
    LEAST_FLIPS,
    MOST_QUESTIONS,
    Answer,
    Decision,
    DecisionName,
    Decisions,
    Flip,
    Judged,
    Key,
    Question,
    Review,
    decide,
    draw_questions,
    judge_cards,
)
from ..stats import THRESHOLD, paired_e_value
from .answers import Event, latest
from .deck import Deck, DeckCard, Text
from .effects import DONE, Effect

REVIEW_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Asked:
    """A question about a text, with the text."""

    question: Question
    text: Text

    def to_dict(self) -> dict[str, Any]:
        """What the page is told; nothing tells the card."""
        sides = [self.text] if isinstance(self.text, str) else list(self.text)
        return {"id": self.question.id, "sides": sides, "a": self.question.option_a, "b": self.question.option_b}


@dataclass(frozen=True)
class Record:
    """What people said of a deck so far. A new one is made for every answer.

    Attributes:
        events: All answers, the first first.
        revision: Grows by one with every change.
        before: What the file said of the deck's cards before the review, by card: flips that `judge` counted, or what
            a machine said.
        others: What it said of cards that are not in the deck.
        judges: The second models that were asked.
        answers: The file that has their answers.
    """

    events: tuple[Event, ...] = ()
    revision: int = 0
    before: Mapping[str, Decision] = field(default_factory=dict)
    others: tuple[Decision, ...] = ()
    judges: tuple[Any, ...] = ()
    answers: str | None = None

    def with_events(self, events: Sequence[Event]) -> Record:
        """The same with other answers, one revision on."""
        return replace(self, events=tuple(events), revision=self.revision + 1)


class Rules:
    """What a deck asks, and what follows from answers; it holds no answers itself.

    Args:
        deck: The cards.
        seed: Of the order of the questions.
    """

    def __init__(self, deck: Deck, *, seed: int = 0) -> None:
        self.deck, self.cards, self.seed = deck, deck.cards, seed
        self._ids = {card.id for card in deck.cards}
        self.questions, self._keys = self._drawn()

    def _drawn(self) -> tuple[dict[str, Asked], list[Key]]:
        texts: dict[int, Text] = {flip.row: flip.text for card in self.cards for flip in card.flips}
        rows = sorted(texts)
        of_row, names = {row: i for i, row in enumerate(rows)}, self.deck.label_names
        flips = {
            card.id: [Flip(of_row[f.row], names.index(f.before), names.index(f.after)) for f in card.flips]
            for card in self.cards
        }
        listed: Any = [texts[row] for row in rows]
        questions, keys = draw_questions(
            flips, listed, names, audit=self.deck.audited.id, n=MOST_QUESTIONS, seed=self.seed
        )
        return {question.id: Asked(question, listed[question.row]) for question in questions}, keys

    def knows(self, event: Event) -> bool:
        """Whether an answer is to something that this review asks."""
        return event.card in self._ids if event.card is not None else event.question in self.questions

    # What is asked next

    def next_question(self, record: Record, by: str) -> Asked | None:
        """The next text that somebody is asked about; `None` where no card of theirs is left to judge."""
        open_, answered = self._open(record, by), self._answers(record).get(by, {})
        wanted = {key.id for key in self._keys if key.card in open_} - answered.keys()
        return next((asked for identity, asked in self.questions.items() if identity in wanted), None)

    def progress(self, record: Record, by: str) -> dict[str, int]:
        """How far somebody's texts are: `answered`, cards still `open`, the `least` and `most` further answers, `lost`.

        `least` is how many decide all open cards where those on a card agree, `most` how many texts are left to ask
        about. `lost` are cards that the texts left cannot decide any more.
        """
        answered, open_ = self._answers(record).get(by, {}), self._open(record, by)
        judged = [self._judged(card, answered) for card in self._unsure(record, by) if card not in open_]
        left = [self._left(card, answered) for card in open_]
        fewest = [_fewest(one.mended, one.broken) for one in open_.values()]
        most = len(set().union(*left))
        return {
            "answered": len(answered),
            "open": len(open_),
            # One answer may count for several cards.
            "least": sum(fewest) if most == sum(map(len, left)) else max(fewest, default=0),
            "most": most,
            "lost": sum(one.outcome == "open" for one in judged),
        }

    def _left(self, card: str, answered: Mapping[str, Answer]) -> set[str]:
        """The questions that somebody can still be asked about a card."""
        return {key.id for key in self._keys if key.card == card} - answered.keys()

    def _open(self, record: Record, by: str) -> dict[str, Judged]:
        """The cards that somebody is unsure of and whose texts decide nothing yet, but can, with what they say."""
        answered = self._answers(record).get(by, {})
        judged = {card: self._judged(card, answered) for card in self._unsure(record, by)}
        return {
            card: one
            for card, one in judged.items()
            if one.outcome == "open" and _fewest(one.mended, one.broken) <= len(self._left(card, answered))
        }

    def _unsure(self, record: Record, by: str | None = None) -> list[str]:
        """The cards of which somebody, or anybody, is unsure and whose texts nobody judged before the review."""
        said = latest(record.events)
        return [
            card.id
            for card in self.cards
            if not _counted(record.before.get(card.id))
            if any(event.said == "unsure" and by in (None, who) for who, event in said.get(card.id, {}).items())
            if len(card.flips) >= LEAST_FLIPS
        ]

    def _judged(self, card: str, answered: Mapping[str, Answer]) -> Judged:
        keys = [key for key in self._keys if key.card == card and key.id in answered]
        return next(iter(judge_cards(keys, answered)), Judged(card, 0, 0, 0, 0, 0, 1.0, "open", False, ()))

    def _answers(self, record: Record) -> dict[str, dict[str, Answer]]:
        """Answers to questions, by who gave them and by question."""
        given: dict[str, dict[str, Any]] = {}
        for event in record.events:
            if event.question in self.questions:
                given.setdefault(event.by, {})[event.question] = event.said
        return given

    # What follows

    def decisions(self, record: Record, *, at: str = "") -> Decisions:
        """What was decided so far about the cards that anybody answered, or that the file spoke of before."""
        answers, unsure = self._answers(record), self._unsure(record)
        given = {question for of_one in answers.values() for question in of_one}
        keys = [key for key in self._keys if key.card in unsure and key.id in given]
        audited = self.deck.audited
        by_flips = {one.id: one for one in decide(audited, keys, answers, at=at).cards}
        said = latest(record.events)
        made = [
            _decided(card, list(said.get(card.id, {}).values()), by_flips.get(card.id), record.before.get(card.id))
            for card in self.cards
        ]
        cards = (*(one for one in made if one is not None), *record.others)
        made_on = {"audit": audited.id, "model": audited.model, "data": audited.data}
        return Decisions(cards, **made_on, judges=record.judges, answers=record.answers)

    def follows(self, record: Record, by: str) -> dict[str, Effect]:
        """What follows for each card that somebody answered, by what everybody said."""
        decided = {one.id: one for one in self.decisions(record).cards}
        said, open_ = latest(record.events), self._open(record, by)
        made = {}
        for card in self.deck.cards:
            if own := said.get(card.id, {}).get(by):
                made[card.id] = _effect(card, own.said, decided.get(card.id), asked=card.id in open_)
        return made

    def stored(self, record: Record, *, at: str = "") -> dict[str, Any]:
        """The content of `decisions.json`: what `judge` writes, and under `review` what was said, to go on from."""
        kept = {
            "schema_version": REVIEW_SCHEMA_VERSION,
            "revision": record.revision,
            "seed": self.seed,
            "events": [event.to_dict() for event in record.events],
            "before": Decisions(tuple(record.before.values())).to_dict()["cards"],
        }
        return self.decisions(record, at=at).to_dict() | {"review": kept}


def _effect(card: DeckCard, said: str, one: Decision | None, *, asked: bool) -> Effect:
    """What follows for a card of which somebody said something; `one` is what everybody's answers come to."""
    decision = said if one is None else one.decision or "unsure"
    effect, texts = card.effects[decision], ""
    if one is not None and one.source == "flips" and one.outcome is not None:
        texts = f" (texts: {one.outcome}, {one.mended} mended, {one.broken} broken of {one.asked})"
    if decision != "unsure":
        if said != "unsure":
            return replace(effect, how=effect.how + texts)
        source = one.source if one is not None else None
        who = {"flips": "the texts decide", "machine": "the second opinion decides"}.get(
            source or "", "somebody else decides"
        )
        how = effect.how + texts + " (by the second opinion)" * (source == "machine")
        line = f"{DONE[said]}; {who}: {effect.line}" + " You are asked about texts, after the cards." * asked
        return replace(effect, how=how, line=line)
    if said != "unsure":
        line = f"{DONE[said]}. Somebody else said otherwise, so {effect.line}"
        return replace(effect, how=effect.how.replace(DONE["unsure"], "people differ", 1), line=line)
    if asked:
        why = f"{DONE[said]}. You are asked about texts, after the cards. If they leave it open, "
    elif len(card.flips) < LEAST_FLIPS:
        why = f"{DONE[said]}. Too few texts can be asked about to decide it, so "
    else:
        why = f"{DONE[said]}. Its texts leave it open, so "
    return replace(effect, how=effect.how.replace(DONE["unsure"], DONE["unsure"] + texts, 1), line=why + effect.line)


@cache
def _fewest(mended: int, broken: int) -> int:
    """How many answers of one kind decide a card at least."""

    def needed(one: int, other: int) -> int:
        more = 0
        while paired_e_value(one + more, other) < THRESHOLD:
            more += 1
        return more

    return min(needed(mended, broken), needed(broken, mended))


def agreed_decision(said: Sequence[str]) -> DecisionName | None:
    """What people who say something of a card decide together; `None` where they are unsure or disagree."""
    sure: set[Any] = set(said) - {"unsure"}
    return sure.pop() if len(sure) == 1 else None


def _counted(before: Decision | None) -> bool:
    """Whether people judged flips of the card elsewhere."""
    return before is not None and bool(before.asked) and not before.machine


def without_people(card: Decision) -> Decision:
    """What follows for a card from its judged flips, or else from a second opinion, whatever people said of it."""
    if not card.machine and (follows := FOLLOWS.get(card.outcome or "")):
        return replace(card, decision=follows, source="flips")
    if card.machine_says_shortcut:
        return replace(card, decision="neutralise", source="machine")
    return replace(card, decision=None, source="flips" if card.asked else None)


def _decided(card: DeckCard, said: Sequence[Event], flips: Decision | None, before: Decision | None) -> Decision | None:
    """What follows for one card; `None` where nobody said anything."""
    if not said:
        return before
    base = before or Decision(words=card.words, id=card.id, pulls_to=card.pulls_to)
    if flips is not None:
        base = replace(flips, second_opinion=base.second_opinion)
    reviews = tuple(Review(event.by, event.at, event.said) for event in said)  # type: ignore[arg-type]
    if all(event.said == "unsure" for event in said):
        judged_by = {review.by for review in base.reviews}
        both = (*base.reviews, *(one for one in reviews if one.by not in judged_by))
        if _counted(base) or base.machine_says_shortcut:
            return replace(without_people(base), reviews=both)
    together = agreed_decision([event.said for event in said])
    return replace(base, decision=together or "unsure", source="person", reviews=reviews)
