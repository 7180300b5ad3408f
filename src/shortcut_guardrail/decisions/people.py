"""The rule by which people's answers decide a card.

Only texts whose prediction changes when the card's words are masked tell anything about the card. For each of them
somebody says, without knowing the word, which of the two predictions is right. The null hypothesis: among deployment
texts like these (duplicates counted once) that flip, and of which one of the two predictions is right, masking mends at
most half. Against it stands E = 1.5^mended * 0.5^broken, against its mirror image E' = 0.5^mended * 1.5^broken. The
first of the two to reach 20 decides, for good: "shortcut" or "genuine". Each is wrong with probability 1/20 at most,
whenever one stops asking (Ville's inequality), if reviewers do not err; `bench/experiments/flips` says what their
errors do. "Genuine" holds for these texts only, and never clears a word for other ones.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ..stats import THRESHOLD, e_bh, paired_e_value

if TYPE_CHECKING:
    from .drawing import Key

Choice = Literal["a", "b", "neither", "unclear"]
Outcome = Literal["shortcut", "genuine", "open"]

CHOICES: tuple[Choice, ...] = ("a", "b", "neither", "unclear")
FOLLOWS: dict[Outcome, Literal["neutralise", "keep"]] = {"shortcut": "neutralise", "genuine": "keep"}
"""The decision that follows from the outcome of judged flips."""
MOST_QUESTIONS = 40
"""After so many questions without a decision a card is open."""
LEAST_FLIPS = 8
"""With fewer flips no card can be decided: 1.5^7 is below 20."""


@dataclass(frozen=True)
class Judged:
    """What people's answers say of one card.

    Attributes:
        asked: Questions that count: up to the decision, unanswered ones too.
        mended: Answers that call the prediction with the words masked right.
        broken: Answers that call the model's own prediction right.
        neither: Answers that call neither right.
        unclear: Answers that cannot tell, and those on which reviewers disagree.
        e_value: Evidence for the outcome: E, or for `genuine` E'.
        outcome: `shortcut` here, `genuine` here, or `open`.
        survives_e_bh: Whether the outcome stands when all cards asked are taken together (false-discovery rate 5 %).
        text_hashes: Of the texts whose answer counted.
    """

    id: str
    asked: int = 0
    mended: int = 0
    broken: int = 0
    neither: int = 0
    unclear: int = 0
    e_value: float = 1.0
    outcome: Outcome = "open"
    survives_e_bh: bool = False
    text_hashes: tuple[str, ...] = ()


def judge_cards(keys: Sequence[Key], answers: Mapping[str, Choice], *, keep_asking: bool = False) -> tuple[Judged, ...]:
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
    # Each direction is a family of its own: one hypothesis for each card asked.
    stands = {name: e_bh([_evidence(one.mended, one.broken, name) for one in judged]) for name in FOLLOWS}
    return tuple(
        one if one.outcome == "open" else replace(one, survives_e_bh=stands[one.outcome][i])
        for i, one in enumerate(judged)
    )


def _judge(card: str, keys: Sequence[Key], answers: Mapping[str, Choice], keep_asking: bool) -> Judged:
    count: Counter[str] = Counter()
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
        tells = answer in ("a", "b")
        count[("mended" if answer == key.masked_option else "broken") if tells else answer] += 1
        if outcome == "open" and asked <= MOST_QUESTIONS:
            crossed = (o for o in FOLLOWS if _evidence(count["mended"], count["broken"], o) >= THRESHOLD)
            outcome = next(crossed, "open")
    evidence = _evidence(count["mended"], count["broken"], outcome)
    counts = count["mended"], count["broken"], count["neither"], count["unclear"]
    return Judged(card, asked, *counts, evidence, outcome, text_hashes=tuple(hashes))


def _evidence(mended: int, broken: int, outcome: Outcome) -> float:
    """For an outcome; of an open card that for `shortcut`."""
    return paired_e_value(broken, mended) if outcome == "genuine" else paired_e_value(mended, broken)


def fewest(mended: int, broken: int) -> int:
    """How many further answers of one kind decide a card at least."""
    most, least = max(mended, broken), min(mended, broken)
    return next(more for more in itertools.count() if paired_e_value(most + more, least) >= THRESHOLD)


def agreed(answers: Iterable[Mapping[str, Choice]]) -> dict[str, Choice]:
    """The answers of several reviewers as one: a text counts once, and where they disagree it is unclear."""
    together: dict[str, Choice] = {}
    for one in answers:
        for question, answer in one.items():
            if together.setdefault(question, answer) != answer:
                together[question] = "unclear"
    return together
