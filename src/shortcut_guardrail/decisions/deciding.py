"""From answers to decisions: what people, or a machine, said of the flips of each card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import DataError
from ..stats import THRESHOLD
from .answers import QUESTIONS_FILE, read_answers
from .audited import AuditedCards
from .judging import ANSWERS, Answer, Judged, agreed, judge_cards
from .questions import REFERENCE, Key
from .record import FOLLOWS, Decision, Decisions, Review


def read_reviews(
    files: Sequence[str], reviewers: Sequence[str], keys: Sequence[Key], *, folder: Path
) -> dict[str, dict[str, Answer]]:
    """The answers in all files, by who gave them and by question.

    Args:
        files: Answered questions.
        reviewers: Who answered each of them.
        keys: Of the audit's questions.
        folder: The audit's, for messages.

    Raises:
        DataError: Nothing was asked about the audit, a file cannot be read or holds no answer though no label answers
            either, or one person contradicts himself.
    """
    if not keys:
        raise DataError(f"Nothing was asked about the audit '{folder}' yet: it has no {QUESTIONS_FILE}. Run `flips`.")
    labelled = any(key.label for key in keys)
    by_reviewer: dict[str, dict[str, Answer]] = {}
    for file, name in zip(files, reviewers, strict=True):
        own = by_reviewer.setdefault(name, {})
        found = read_answers(file, keys)
        if not found and not labelled:
            raise DataError(
                f"{file} holds no answer. Fill in its column 'answer' ({', '.join(ANSWERS)}); rows may stay empty, but "
                "not all of them."
            )
        for question, answer in found.items():
            if own.setdefault(question, answer) != answer:
                raise DataError(
                    f"{file}: {name} answers question '{question}' with '{answer}', and with '{own[question]}' in "
                    "another file. Leave one answer, or name two reviewers."
                )
    return by_reviewer


def decide(
    audited: AuditedCards,
    keys: Sequence[Key],
    answers: Mapping[str, Mapping[str, Answer]],
    *,
    at: str = "",
    machine: str | None = None,
    keep_asking: bool = False,
) -> Decisions:
    """Decisions on the cards that were asked about.

    Args:
        audited: The cards of the audit.
        keys: Of its questions.
        answers: By who gave them and by question. A text counts once; where people disagree it is unclear.
        at: When, ISO 8601.
        machine: The model that answered, if none of them is a person's. Its answers are counted and decide nothing.
        keep_asking: See `judge_cards`.

    Raises:
        DataError: A question is about a card that the audit does not have.
    """
    keys = [key for key in keys if key.card != REFERENCE]
    cards = {card.id: card for card in audited.cards}
    unknown = [key.card for key in keys if key.card not in cards]
    if unknown:
        raise DataError(
            f"{QUESTIONS_FILE} asks about the card '{unknown[0]}', which the audit does not have: it was audited "
            f"again. Remove {QUESTIONS_FILE} and run `flips`."
        )
    judged = judge_cards(keys, agreed(list(answers.values())), keep_asking=keep_asking)
    made = []
    for one in judged:
        decision = _decision(audited, one, machine)
        asked = {key.id for key in keys if key.card == one.card}
        said = [name for name, given in answers.items() if asked & given.keys()]
        reviews = tuple(Review(name, at, decision.decision or "unsure") for name in said if machine is None)
        made.append(replace(decision, reviews=reviews))
    return Decisions(tuple(made), audit=audited.id, model=audited.model, data=audited.data)


def _decision(audited: AuditedCards, one: Judged, machine: str | None) -> Decision:
    card = next(card for card in audited.cards if card.id == one.card)
    outcome = "open" if machine else one.outcome
    return Decision(
        words=card.words,
        decision=FOLLOWS.get(outcome),
        source="flips",
        id=card.id,
        pulls_to=card.pulls_to,
        asked=one.asked,
        mended=one.mended,
        broken=one.broken,
        neither=one.neither,
        unclear=one.unclear,
        threshold=THRESHOLD,
        e_value=one.e_value,
        outcome=outcome,
        survives_e_bh=one.survives_e_bh and not machine,
        text_hashes=one.text_hashes,
        machine=machine,
    )
