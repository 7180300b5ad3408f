"""A review: what a person is asked next, what everybody said, and what follows from it, by the rules of `decisions`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..cards import Flip
from ..decisions import LEAST_FLIPS, Answer, Answers, Decision, Decisions, Question, Questions, decide, remaining
from ..decisions import next_question as next_of
from .deck import Deck, DeckCard
from .effects import DONE, Effect

REVIEW_SCHEMA_VERSION = 1


def asked(question: Question) -> dict[str, Any]:
    """What the page is told of a question; nothing tells the card."""
    sides = [question.text] if isinstance(question.text, str) else list(question.text)
    return {"id": question.id, "sides": sides, "a": question.option_a, "b": question.option_b}


def latest(answers: Iterable[Answer]) -> dict[str, dict[str, Answer]]:
    """By what is answered and by who answered, the last word."""
    said: dict[str, dict[str, Answer]] = {}
    for answer in answers:
        said.setdefault(answer.about, {})[answer.by] = answer
    return said


@dataclass(frozen=True)
class Record:
    """What people said of a deck so far. A new one is made for every answer.

    Attributes:
        events: All answers, the first first.
        revision: Grows by one with every change.
        before: What the file said of the deck's cards before the review, by card: flips that `judge` counted, or what
            a machine said.
        others: What it said of cards that are not in the deck.
        judges: The classifiers that were asked.
        answers: The file that has their answers.
    """

    events: tuple[Answer, ...] = ()
    revision: int = 0
    before: Mapping[str, Decision] = field(default_factory=dict)
    others: tuple[Decision, ...] = ()
    judges: tuple[Any, ...] = ()
    answers: str | None = None

    def with_events(self, events: Sequence[Answer]) -> Record:
        """The same with other answers, one revision on."""
        return replace(self, events=tuple(events), revision=self.revision + 1)

    @property
    def given(self) -> Answers:
        """For `decisions`."""
        cards = (*self.before.values(), *self.others)
        return Answers(self.events, earlier=Decisions(cards, judges=self.judges, answers=self.answers))


class Rules:
    """What a deck asks, and what follows from answers; it holds no answers itself.

    Args:
        deck: The cards.
        seed: Of the order of the questions.
    """

    def __init__(self, deck: Deck, *, seed: int = 0) -> None:
        self.deck, self.cards, self.seed = deck, deck.cards, seed
        flips = {card.id: [Flip.of(f.row, f.before, f.after, f.text) for f in card.flips] for card in self.cards}
        self.asked = Questions.of_audit(deck.audited, flips, seed=seed)
        self.questions = {question.id: question for question in self.asked.asked}

    def knows(self, event: Answer) -> bool:
        """Whether an answer is to something that this review asks."""
        if event.card is not None:
            return event.card in {card.id for card in self.cards}
        return event.question in self.questions

    def next_question(self, record: Record, by: str) -> Question | None:
        """The next text that somebody is asked about; `None` where no card of theirs is left to judge."""
        return next_of(self.asked, record.given, by)

    def progress(self, record: Record, by: str) -> dict[str, int]:
        """How far somebody's texts are; see `decisions.Remaining`."""
        found = remaining(self.asked, record.given, by)
        return {**vars(found), "open": len(found.open)}

    def decisions(self, record: Record, *, at: str = "") -> Decisions:
        """What was decided so far about the cards that anybody answered, or that the file spoke of before."""
        return decide(self.asked, record.given, at=at)

    def follows(self, record: Record, by: str) -> dict[str, Effect]:
        """What follows for each card that somebody answered, by what everybody said."""
        decided = {one.id: one for one in self.decisions(record).cards}
        said, open_ = latest(record.events), remaining(self.asked, record.given, by).open
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
