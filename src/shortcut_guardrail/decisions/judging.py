"""Judging a card by its flips: the texts whose answer changes when the card's words are masked.

Only these texts tell anything about the card. For each of them somebody says, without knowing the word, which of the
two answers is right. The null hypothesis: among deployment texts like these (duplicates counted once) whose answer
changes when the words are masked and of which one of the two answers is right, at most half are mended by masking.
Against it stands E = 1.5^mended * 0.5^broken, against its mirror image E' = 0.5^mended * 1.5^broken. The first of the
two to reach 20 decides, for good: "shortcut" or "genuine". Each is wrong with probability 1/20 at most, whenever one
stops asking (Ville's inequality), if reviewers do not err; `bench/experiments/flips` says what their errors do.
"Genuine" holds for these texts only, and never clears a word for other ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..stats import THRESHOLD, e_bh, paired_e_value
from .questions import Key

Answer = Literal["a", "b", "neither", "unclear"]
Outcome = Literal["shortcut", "genuine", "open"]

ANSWERS: tuple[Answer, ...] = ("a", "b", "neither", "unclear")
MOST_QUESTIONS = 40
"""After so many questions without a decision a card is open."""
LEAST_FLIPS = 8
"""With fewer flips no card can be decided: 1.5^7 is below 20."""


@dataclass(frozen=True)
class Judged:
    """What the answers say of one card.

    Attributes:
        card: Its id.
        asked: Questions that count: up to the decision, unanswered ones too.
        mended: Answers that call the answer with the words masked right.
        broken: Answers that call the model's own answer right.
        neither: Answers that call neither right.
        unclear: Answers that cannot tell, and those on which reviewers disagree.
        e_value: Evidence for the outcome: E, or for `genuine` E'.
        outcome: `shortcut` here, `genuine` here, or `open`.
        survives_e_bh: Whether the outcome stands when all cards asked are taken together (false-discovery rate 5 %).
        text_hashes: Of the texts whose answer counted.
    """

    card: str
    asked: int
    mended: int
    broken: int
    neither: int
    unclear: int
    e_value: float
    outcome: Outcome
    survives_e_bh: bool
    text_hashes: tuple[str, ...]


def judge_cards(keys: Sequence[Key], answers: Mapping[str, Answer], *, keep_asking: bool = False) -> tuple[Judged, ...]:
    """Judge every card that was asked about.

    Args:
        keys: What each question is about. Those with a label of their own come first and need no answer.
        answers: By question; what is missing was not answered.
        keep_asking: Go on counting evidence after the decision, and past the 40th question. The decision stays what it
            was at the first crossing; the e-value is that of all answers, which e-BH over many cards may need.

    Returns:
        One for each card, in the order of their first key.
    """
    by_card: dict[str, list[Key]] = {}
    for key in keys:
        by_card.setdefault(key.card, []).append(key)
    judged = [_judge(card, of_card, answers, keep_asking) for card, of_card in by_card.items()]
    return _with_e_bh(judged)


def _judge(card: str, keys: Sequence[Key], answers: Mapping[str, Answer], keep_asking: bool) -> Judged:
    count = {"mended": 0, "broken": 0, "neither": 0, "unclear": 0}
    outcome: Outcome = "open"
    hashes: list[str] = []
    asked = 0
    for key in sorted(keys, key=lambda k: (k.label is None, k.order)):
        if not keep_asking and (outcome != "open" or asked == MOST_QUESTIONS):
            break
        asked += 1
        answer = key.label or answers.get(key.id)
        if answer is None:
            continue
        hashes.append(key.text_hash)
        count[_meaning(answer, key)] += 1
        if outcome == "open" and asked <= MOST_QUESTIONS:
            outcome = _crossed(count["mended"], count["broken"])
    sides = (count["mended"], count["broken"])
    e_value = paired_e_value(*(reversed(sides) if outcome == "genuine" else sides))
    return Judged(
        card, asked, **count, e_value=e_value, outcome=outcome, survives_e_bh=False, text_hashes=tuple(hashes)
    )


def _meaning(answer: Answer, key: Key) -> str:
    if answer in ("neither", "unclear"):
        return answer
    return "mended" if answer == key.masked_option else "broken"


def _crossed(mended: int, broken: int) -> Outcome:
    if paired_e_value(mended, broken) >= THRESHOLD:
        return "shortcut"
    return "genuine" if paired_e_value(broken, mended) >= THRESHOLD else "open"


def _with_e_bh(judged: Sequence[Judged]) -> tuple[Judged, ...]:
    """Each direction is a family of its own: one hypothesis for each card asked."""
    from dataclasses import replace

    survivors: dict[str, list[bool]] = {}
    for outcome in ("shortcut", "genuine"):
        survivors[outcome] = e_bh([one.e_value if one.outcome == outcome else _against(one, outcome) for one in judged])
    return tuple(
        one if one.outcome == "open" else replace(one, survives_e_bh=survivors[one.outcome][i])
        for i, one in enumerate(judged)
    )


def _against(one: Judged, outcome: str) -> float:
    """The e-value of a card in the direction in which it was not decided."""
    sides = (one.mended, one.broken) if outcome == "shortcut" else (one.broken, one.mended)
    return paired_e_value(*sides)


def agreed(answers: Sequence[Mapping[str, Answer]]) -> dict[str, Answer]:
    """The answers of several reviewers as one: a text counts once, and where they disagree it is unclear."""
    together: dict[str, Answer] = {}
    for one in answers:
        for question, answer in one.items():
            before = together.setdefault(question, answer)
            if before != answer:
                together[question] = "unclear"
    return together


def first_five(keys: Sequence[Key], answers: Mapping[str, Answer]) -> dict[str, int]:
    """By card, how many of the first five flips that people judged are mended; cards with fewer are left out.

    Args:
        keys: Of all questions.
        answers: By question; `neither` and `unclear` do not count.
    """
    found: dict[str, list[bool]] = {}
    for key in sorted(keys, key=lambda key: key.order):
        said = key.label or answers.get(key.id)
        if said in ("a", "b"):
            found.setdefault(key.card, []).append(said == key.masked_option)
    return {card: sum(said[:5]) for card, said in found.items() if len(said) >= 5}
