"""From answers to decisions: what anybody's answers come to for each card, and what a person is asked next.

What people say of a card itself comes first, then what follows from the flips that people judged (`people`), then what
classifiers say (`judges`), and then the audit, in `shortcuts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .answers import Answer, Answers, now
from .audited import AuditedCards
from .drawing import Key, Question
from .judges import opinions_of
from .people import FOLLOWS, LEAST_FLIPS, Judged, agreed, fewest, judge_cards
from .questions import Questions
from .record import Decision, DecisionName, Decisions, Judge, Review, Rule, SecondModelResult


def decide(
    questions: Questions,
    answers: Answers,
    *,
    rule: Rule = "agreement",
    keep_asking: bool = False,
    at: str | None = None,
) -> Decisions:
    """Decisions on the word groups that anybody answered, or that earlier decisions name.

    Args:
        answers: To the questions. A text counts once; if people disagree about it, it counts as unclear.
        rule: How second models are tested; see `stats.second_model`.
        at: When, ISO 8601; by default now.
    """
    at = now() if at is None else at
    audited, before = questions.audited, answers.earlier
    by_flips = _by_flips(questions, answers, at, keep_asking)
    opinions, judges = _opinions(questions, answers, rule)
    said, earlier = answers.to_cards(), _by_card(before, audited)
    made = []
    for card in audited.cards:
        blank = Decision(card.words, id=card.id, pushes_towards=card.pushes_towards)
        known = earlier.pop(card.id, None)
        base = known or blank
        if card.id in by_flips:
            base = replace(by_flips[card.id], second_model=base.second_model)
        if card.id in opinions:
            base = replace(base, second_model=opinions[card.id])
        own = list(said.get(card.id, {}).values())
        if own or base not in (known, blank):
            made.append(_settled(base, own))
        elif known is not None:
            made.append(known)
    return Decisions(
        (*made, *earlier.values()),
        audit=audited.id,
        model=audited.model,
        data=audited.data,
        judges=judges or before.judges,
        answers=None if judges else before.answers,
    )


def _by_card(decisions: Decisions, audited: AuditedCards) -> dict[str, Decision]:
    """By the id of the card, and those on other cards by their words."""
    found = {}
    for one in decisions.cards:
        found[audited.id_of(one.id, one.words) or "/".join(sorted(map(str.casefold, one.words)))] = one
    return found


def _settled(base: Decision, said: Sequence[Answer]) -> Decision:
    """The decision that follows for one card from what people said of it, from its flips and from judges."""
    if not said:
        stays = base.by_person and (base.decision != "unsure" or not base.machine_says_shortcut)
        return base if stays else base.without_people()
    reviews = tuple(Review(one.by, one.at, one.decision) for one in said if one.decision)
    sure = {one.decision for one in reviews} - {"unsure"}
    if not sure and (base.asked or base.machine_says_shortcut):
        judged_by = {review.by for review in base.reviews}
        both = (*base.reviews, *(one for one in reviews if one.by not in judged_by))
        return replace(base.without_people(), reviews=both)
    return replace(base, decision=agreed_decision(sure) or "unsure", source="person", reviews=reviews)


def agreed_decision(said: Iterable[str]) -> DecisionName | None:
    """What people who say something of a card decide together; `None` where they are unsure or disagree."""
    sure: set[Any] = set(said) - {"unsure"}
    return sure.pop() if len(sure) == 1 else None


# By people's answers to flips


def _by_flips(questions: Questions, answers: Answers, at: str, keep_asking: bool) -> dict[str, Decision]:
    cards = {card.id: card for card in questions.audited.cards}
    given, keys = answers.to_questions(), _in_order(questions, answers)
    # Where texts are asked about one by one, they say nothing of cards that nobody is unsure of.
    told = _unsure(questions, answers) if questions.one_by_one else cards
    made = {}
    together, arrived, named = agreed(given.values()), answers.arrived(), _named(answers)
    for one in judge_cards(keys, together, arrived=arrived, shortcuts=named, keep_asking=keep_asking):
        if one.id not in told:
            continue
        card, decision = cards[one.id], FOLLOWS.get(one.outcome)
        asked = {key.id for key in keys if key.card == one.id}
        by = [name for name, own in given.items() if asked & own.keys()]
        reviews = tuple(Review(name, at, decision or "unsure") for name in by)
        made[one.id] = Decision(
            card.words, decision, "answers", pushes_towards=card.pushes_towards, reviews=reviews, **vars(one)
        )
    return made


def _in_order(questions: Questions, answers: Answers) -> list[Key]:
    """The keys in the order in which cards are judged: most changeable predictions first.

    Where texts are asked about one by one, cards that nobody is unsure of and somebody is sure of need none.
    """
    sure = _agreed(answers).keys() - set(_unsure(questions, answers)) if questions.one_by_one else set()
    place = {card.id: i for i, card in enumerate(questions.audited.cards) if card.id not in sure}
    return sorted((key for key in questions.keys if key.card in place), key=lambda key: place[key.card])


def _agreed(answers: Answers) -> dict[str, DecisionName]:
    """What people decide together about cards, where they are sure."""
    said = {
        card: agreed_decision(str(one.decision) for one in own.values()) for card, own in answers.to_cards().items()
    }
    return {card: decision for card, decision in said.items() if decision}


def _named(answers: Answers) -> set[str]:
    """Cards that are shortcuts by what people say of them, or by earlier decisions."""
    before = {card.id for card in answers.earlier.cards if card.decision == "remove_reliance"}
    return before | {card for card, decision in _agreed(answers).items() if decision == "remove_reliance"}


# By classifiers


def _opinions(
    questions: Questions, answers: Answers, rule: Rule
) -> tuple[dict[str, SecondModelResult], tuple[Judge, ...]]:
    """By card what judges say, and the judges."""
    if not answers.judges:
        return {}, ()
    n = questions.audited.n
    shares = {card.id: card.changes / n for card in questions.audited.cards} if n else {}
    opinions, found = opinions_of(questions.for_judges, answers, shares, rule=rule)
    said = answers.judges.items()
    return opinions, tuple(Judge(name, dict(one.record), found[name], len(answers.texts)) for name, one in said)


# What a person is asked next


@dataclass(frozen=True)
class Remaining:
    """How far a person's texts are, where they are asked about one by one.

    Attributes:
        question: What is asked next; `None` where no card of theirs is left to judge.
        answered: Texts that the person answered.
        open: Cards whose texts decide nothing yet, but can.
        least: Answers that decide all open cards where those on a card agree.
        most: Texts that are left to ask about.
        lost: Cards that the texts left cannot decide any more.
    """

    question: Question | None
    answered: int
    open: tuple[str, ...]
    least: int
    most: int
    lost: int


def remaining(questions: Questions, answers: Answers, by: str) -> Remaining:
    """How far somebody's texts are, and the next one."""
    answered, named = answers.to_questions().get(by, {}), _named(answers)
    unsure, keys = _unsure(questions, answers, by), _in_order(questions, answers)
    found = {one.id: one for one in judge_cards(keys, answered, arrived=answers.arrived(), shortcuts=named)}
    known = named | {card for card, one in found.items() if one.outcome == "shortcut"}
    judged = {card: found.get(card, Judged(card)) for card in unsure}
    asked = {question.id for question in questions.asked}
    free = [key for key in keys if key.counts and key.id in asked - answered.keys() and known.isdisjoint(key.holds)]
    left = {card: {key.id for key in free if key.card == card} for card in unsure}
    least = {card: fewest(one.fixed, one.broken) for card, one in judged.items()}
    open_ = [card for card, one in judged.items() if one.outcome == "open" and least[card] <= len(left[card])]
    wanted = set().union(*(left[card] for card in open_))
    apart = len(wanted) == sum(len(left[card]) for card in open_)  # else one answer may count for several cards
    return Remaining(
        next((question for question in questions.asked if question.id in wanted), None),
        answered=len(asked & answered.keys()),
        open=tuple(open_),
        least=(sum if apart else max)([0, *(least[card] for card in open_)]),
        most=len(wanted),
        lost=sum(one.outcome == "open" and card not in open_ for card, one in judged.items()),
    )


def _unsure(questions: Questions, answers: Answers, by: str | None = None) -> list[str]:
    """The cards of which somebody, or anybody, is unsure, and whose texts nobody judged before."""
    said = answers.to_cards()
    counted = {card: one.asked for card, one in _by_card(answers.earlier, questions.audited).items()}
    return [
        card
        for card, flips in questions.flips.items()
        if not counted.get(card)
        if any(answer.decision == "unsure" and by in (None, who) for who, answer in said.get(card, {}).items())
        if len(flips) >= LEAST_FLIPS
    ]
