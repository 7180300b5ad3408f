"""Asking second models what a sheet asks, and what follows for the cards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..classifiers import log_probs
from ..data import counted, enumerated, text_hash
from ..errors import ConfigError, DataError
from ..typing import Array, Progress
from .audited import AuditedCards
from .judging import LEAST_FLIPS
from .opinion_record import Judge, MachineOpinion, Rule
from .questions import REFERENCE, Key
from .record import Decision, Decisions
from .second_opinion import judge_sheet
from .sheet import SHEET_FILE, Sheet, Text

if TYPE_CHECKING:
    from ..audit import AuditReport
    from ..classifiers import Classifier, Cost

Told = Callable[[Sheet, "Mapping[str, Cost]"], None]
"""Told what will be asked, and by source what it costs."""

TWICE = 20
"""Texts that a judge is asked about twice."""
MOST_CHANGED = 0.1
"""The share of these on which it may answer otherwise."""


@dataclass(frozen=True)
class Asked:
    """What second models answered.

    Attributes:
        sheet: What they were asked.
        scores: By source, log-probabilities of `sheet.texts`, shape (T, C).
        refused: Sources that judge nothing, with the reason.
        records: By source, what is kept of it.
    """

    sheet: Sheet
    scores: Mapping[str, Array]
    refused: Mapping[str, str]
    records: Mapping[str, Mapping[str, Any]]

    def to_lines(self) -> str:
        """Every answer as JSON Lines: the hash of the text, and by source the log-probabilities."""
        lines = []
        for i, text in enumerate(self.sheet.texts):
            given = {name: [_number(value) for value in values[i]] for name, values in self.scores.items()}
            lines.append(json.dumps({"text_hash": text_hash(text), "scores": given}) + "\n")
        return "".join(lines)


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


def cut_sheet(sheet: Sheet, ids: set[str] | None = None) -> Sheet:
    """The part of a sheet that can decide anything: cards with enough flips, of the questions asked.

    Args:
        sheet: What was drawn.
        ids: Of the questions that count; all without.

    Raises:
        DataError: The sheet was drawn for other questions.
    """
    if ids is not None and (missing := ids - {flip.id for flip in sheet.flips}):
        raise DataError(
            f"{SHEET_FILE} lacks {counted(len(missing), 'question')} of the file: another call of `flips` has written "
            "it since. Give the file of that call, or run `flips` again for the cards in question."
        )
    flips = [flip for flip in sheet.flips if ids is None or flip.id in ids]
    counts = Counter(flip.card for flip in flips)
    flips = [flip for flip in flips if counts[flip.card] >= LEAST_FLIPS]
    pairs = {(min(f.before, f.after), max(f.before, f.after)) for f in flips}
    return replace(sheet, flips=tuple(flips), free=tuple(one for one in sheet.free if one.pair in pairs))


def ask(sheet: Sheet, sources: Sequence[Classifier], *, progress: Progress | None = None) -> Asked:
    """Ask every source about every text of a sheet.

    Args:
        sheet: What is asked.
        sources: Second models.
        progress: Told how many texts are done.

    Raises:
        ConfigError: A source is the deployed model or its base, or two have one name.
    """
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        raise ConfigError(f"Two second opinions have the same name (given: {enumerated(names)}). Give each once.")
    for source in sources:
        if source.fingerprint() in sheet.models:
            raise ConfigError(
                f"The second opinion '{source.name}' is the model that was audited, or its base: it leans on the same "
                "words. Give a model that learned from other data."
            )
    scores: dict[str, Array] = {}
    refused: dict[str, str] = {}
    for source in sources if sheet.texts else ():
        values = _checked(source.predict_proba(sheet.texts, progress=progress), source.name, sheet)
        scores[source.name] = values
        if changed := _changes_its_mind(source, sheet.texts[:TWICE], values[:TWICE]):
            refused[source.name] = changed
    return Asked(sheet, scores, refused, {source.name: source.record() for source in sources})


def _checked(values: Array, name: str, sheet: Sheet) -> Array:
    values = np.asarray(values, dtype=np.float64)
    wanted = (len(sheet.texts), len(sheet.labels))
    if values.shape != wanted:
        raise ConfigError(
            f"The second opinion '{name}' gives an array of shape {values.shape}, but {wanted} is needed: a row for "
            f"each text, a column for each of {enumerated(list(sheet.labels))}."
        )
    return log_probs(values)


def _changes_its_mind(source: Classifier, texts: Sequence[Text], values: Array) -> str:
    """Why a source is refused that answers otherwise when it is asked again; empty where it does not."""
    again = np.asarray(source.predict_proba(texts, again=True), dtype=np.float64)
    known = ~np.isnan(values).any(axis=1) & ~np.isnan(again).any(axis=1)
    other = values[known].argmax(axis=1) != again[known].argmax(axis=1)
    if not known.any() or other.mean() <= MOST_CHANGED:
        return ""
    return (
        f"It changes its answer to {int(other.sum())} of {len(other)} texts when it is asked twice. Set its "
        "temperature to 0, or let it answer several times."
    )


@dataclass(frozen=True)
class Consultation:
    """What second models were asked, what they said and what follows.

    Attributes:
        decisions: On the cards that they were asked about.
        asked: Every answer.
        report: The audit that the cards come from, where it is at hand, so that a repair need not audit again.
    """

    decisions: Decisions
    asked: Asked
    report: AuditReport | None = field(default=None, repr=False, compare=False)


def consultation_of(
    audited: AuditedCards,
    asked: Asked,
    *,
    rule: Rule = "agreement",
    answers: Mapping[Text, bool] | None = None,
    five: Mapping[str, int] | None = None,
    people: Decisions | None = None,
) -> Consultation:
    """What follows from the answers of second models, and from what people said before.

    Args:
        audited: The cards of the audit.
        asked: What second models answered.
        rule: See `judge_sheet`.
        answers: See `judge_sheet`.
        five: See `judge_sheet`.
        people: Their decisions, which come first.
    """
    return Consultation(with_people(_decide(audited, asked, rule, answers, five), people), asked)


def _decide(
    audited: AuditedCards,
    asked: Asked,
    rule: Rule,
    answers: Mapping[Text, bool] | None,
    five: Mapping[str, int] | None,
) -> Decisions:
    found, fitness = judge_sheet(
        asked.sheet, asked.scores, rule=rule, answers=answers, five=five, refused=asked.refused
    )
    shares = {card.id: card.changes / asked.sheet.n for card in audited.cards if asked.sheet.n}
    found = {card: opinion.of_all(shares.get(card)) for card, opinion in found.items()}
    judges = tuple(
        Judge(name, dict(asked.records[name]), fitness.get(name, ()), len(asked.sheet.texts)) for name in asked.records
    )
    cards = [card for card in audited.cards if card.id in found]
    made = tuple(_decision(card.words, card.pulls_to, card.id, found[card.id]) for card in cards)
    return Decisions(made, audit=audited.id, model=audited.model, data=audited.data, judges=judges)


def _decision(words: tuple[str, ...], pulls_to: str, identity: str, opinion: MachineOpinion) -> Decision:
    taken = opinion.outcome == "shortcut"
    return Decision(
        words,
        "neutralise" if taken else None,
        "machine",
        id=identity,
        pulls_to=pulls_to,
        second_opinion=opinion,
    )


def with_people(machine: Decisions, people: Decisions | None) -> Decisions:
    """What second models say, and over it what people said: a person's decision, and cards that people's answers to
    flips decide. What second models say of these cards stays beside it."""
    if people is None:
        return machine
    said = {card.id or card.words: card for card in people.cards}
    cards = [_overruled(card, said.pop(card.id or card.words, None)) for card in machine.cards]
    return replace(machine, cards=(*cards, *said.values()))


def _overruled(machine: Decision, person: Decision | None) -> Decision:
    if person is None:
        return machine
    beside = replace(person, second_opinion=machine.second_opinion)
    if person.decision is None or person.decision == "unsure":
        return replace(beside, decision=machine.decision, source="machine") if machine.decision else beside
    return beside


def reference_answers(sheet: Sheet, keys: Sequence[Key], answers: Mapping[str, str]) -> dict[Text, bool]:
    """What people said of texts near the boundary: whether the deployed model's answer is right.

    Args:
        sheet: That has the texts.
        keys: Of all questions.
        answers: By question; `neither` and `unclear` tell nothing.
    """
    by_hash = {key.text_hash: key for key in keys if key.card == REFERENCE}
    found: dict[Text, bool] = {}
    for one in sheet.free:
        key = by_hash.get(text_hash(one.text))
        said = None if key is None else key.label or answers.get(key.id)
        if key is not None and said in ("a", "b"):
            found[one.text] = said == key.masked_option
    return found
