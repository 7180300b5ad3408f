"""The rule by which people's answers decide a card.

Only texts whose prediction changes when the card's words are masked tell anything about the card. For each of them
somebody says, without knowing the word, which of the two predictions is right. The null hypothesis: among deployment
texts like these (duplicates counted once) that flip, and of which one of the two predictions is right, masking fixes at
most half. Against it stands E = 1.5^fixed * 0.5^broken, against its mirror image E' = 0.5^fixed * 1.5^broken. The
first of the two to reach 20 decides, for good: "shortcut" or "legitimate". Each is wrong with probability 1/20 at most,
whenever one stops asking (Ville's inequality), if reviewers do not err; `bench/experiments/flips` says what their
errors do. "Legitimate" holds for these texts only, and never clears a word for other ones.

The answers about a card are one sequence, in which nobody can start anew: first those that came first, and of those
that came together in the random order of their questions. Cards are judged one after the other, too. A text that holds
words of another shortcut may only be tipped by it. So once a card is decided as a shortcut, the answers to such texts
wait, until flips are counted with the words of that card masked in both versions.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ..stats import THRESHOLD, e_bh, paired_e_value

if TYPE_CHECKING:
    from .drawing import Key

Choice = Literal["a", "b", "neither", "unclear"]
Outcome = Literal["shortcut", "legitimate", "open"]

CHOICES: tuple[Choice, ...] = ("a", "b", "neither", "unclear")
FOLLOWS: dict[Outcome, Literal["remove_reliance", "keep"]] = {"shortcut": "remove_reliance", "legitimate": "keep"}
"""The decision that follows from the outcome of judged flips."""
MOST_QUESTIONS = 40
"""After so many questions without a decision a card is open."""
LEAST_FLIPS = 8
"""With fewer flips no card can be decided: 1.5^7 is below 20."""


@dataclass(frozen=True)
class Judged:
    """What people's answers say of one card.

    Attributes:
        asked: Answers that count: up to the decision.
        fixed: Answers that call the prediction with the words masked right.
        broken: Answers that call the model's own prediction right.
        neither: Answers that call neither right.
        unclear: Answers that cannot tell, and those on which reviewers disagree.
        e_value: Evidence for the outcome: E, or for `legitimate` E'.
        outcome: `shortcut` here, `legitimate` here, or `open`.
        survives_e_bh: Whether the outcome stands when all cards asked are taken together (false-discovery rate 5 %).
        text_hashes: Of the texts whose answer counted.
        waiting: Answers that do not count before flips are counted anew, since a shortcut was decided.
    """

    id: str
    asked: int = 0
    fixed: int = 0
    broken: int = 0
    neither: int = 0
    unclear: int = 0
    e_value: float = 1.0
    outcome: Outcome = "open"
    survives_e_bh: bool = False
    text_hashes: tuple[str, ...] = ()
    waiting: int = 0


def judge_cards(
    keys: Sequence[Key],
    answers: Mapping[str, Choice],
    *,
    arrived: Mapping[str, int] | None = None,
    shortcuts: Collection[str] = (),
    keep_asking: bool = False,
) -> tuple[Judged, ...]:
    """Judge every card about which a question was answered, in the order of their first keys.

    Args:
        keys: What each question is about. Those with a label of their own need no answer.
        answers: By question; what is missing was not answered.
        arrived: When each came; see `Answers.arrived`. Without, all came together.
        shortcuts: Cards that are shortcuts whatever the answers say.
        keep_asking: Go on counting evidence after the decision, and past the 40th question. The decision stays what it
            was at the first crossing; the e-value is that of all answers, which e-BH over many cards may need.
    """
    came = arrived or {}
    places: dict[str, list[tuple[int, Key]]] = {}
    for key in keys:
        if key.counts and (key.label or key.id in answers):
            places.setdefault(key.card, []).append((max(key.after, came.get(key.id, 0)), key))
    for of_card in places.values():
        # Of what came together labels come first.
        of_card.sort(key=lambda placed: (placed[0], placed[1].label is None, placed[1].order))
    known = _known_then(places, answers, frozenset(shortcuts))
    judged = []
    for card, of_card in places.items():
        counted = [key for _, key in of_card if known[card].isdisjoint(key.holds)]
        one = _judge(card, counted, answers, keep_asking)
        judged.append(replace(one, waiting=len(of_card) - len(counted) if one.outcome == "open" else 0))
    # Each direction is a family of its own: one hypothesis for each card asked.
    stands = {name: e_bh([_evidence(one.fixed, one.broken, name) for one in judged]) for name in FOLLOWS}
    return tuple(
        one if one.outcome == "open" else replace(one, survives_e_bh=stands[one.outcome][i])
        for i, one in enumerate(judged)
    )


def _known_then(
    places: Mapping[str, Sequence[tuple[int, Key]]], answers: Mapping[str, Choice], known: frozenset[str]
) -> dict[str, frozenset[str]]:
    """By card, which shortcuts were known when it was decided, or are now: the answers in the order in which they came,
    and the cards one after the other, so that a decision stays whatever is decided later."""
    then: dict[str, frozenset[str]] = {}
    seen: dict[str, tuple[int, frozenset[str]]] = {}
    for now in sorted({place for of_card in places.values() for place, _ in of_card}):
        for card, of_card in places.items():
            here = sum(place <= now for place, _ in of_card), known
            if card in then or seen.get(card) == here:
                continue
            seen[card] = here
            counted = [key for _, key in of_card[: here[0]] if known.isdisjoint(key.holds)]
            if (outcome := _judge(card, counted, answers).outcome) != "open":
                then[card] = known
                known |= {card} if outcome == "shortcut" else set()
    return dict.fromkeys(places, known) | then


def _judge(card: str, keys: Sequence[Key], answers: Mapping[str, Choice], keep_asking: bool = False) -> Judged:
    """What the answers to some questions say in their order."""
    count: Counter[str] = Counter()
    outcome: Outcome = "open"
    hashes: list[str] = []
    for key in keys:
        if not keep_asking and (outcome != "open" or len(hashes) == MOST_QUESTIONS):
            break
        answer = key.label or answers[key.id]
        hashes.append(key.text_hash)
        tells = answer in ("a", "b")
        count[("fixed" if answer == key.masked_option else "broken") if tells else answer] += 1
        if outcome == "open" and len(hashes) <= MOST_QUESTIONS:
            crossed = (o for o in FOLLOWS if _evidence(count["fixed"], count["broken"], o) >= THRESHOLD)
            outcome = next(crossed, "open")
    evidence = _evidence(count["fixed"], count["broken"], outcome)
    counts = count["fixed"], count["broken"], count["neither"], count["unclear"]
    return Judged(card, len(hashes), *counts, evidence, outcome, text_hashes=tuple(hashes))


def _evidence(fixed: int, broken: int, outcome: Outcome) -> float:
    """For an outcome; of an open card that for `shortcut`."""
    return paired_e_value(broken, fixed) if outcome == "legitimate" else paired_e_value(fixed, broken)


def fewest(fixed: int, broken: int) -> int:
    """How many further answers of one kind decide a card at least."""
    most, least = max(fixed, broken), min(fixed, broken)
    return next(more for more in itertools.count() if paired_e_value(most + more, least) >= THRESHOLD)


def agreed(answers: Iterable[Mapping[str, Choice]]) -> dict[str, Choice]:
    """The answers of several reviewers as one: a text counts once, and where they disagree it is unclear."""
    together: dict[str, Choice] = {}
    for one in answers:
        for question, answer in one.items():
            if together.setdefault(question, answer) != answer:
                together[question] = "unclear"
    return together
