"""One more call about an audit: which cards are asked about, given what is taken for shortcuts already, and how much.

Flips are counted anew at every call, with the words masked before and after that are taken: those that the audit found,
those that somebody names, and those of cards that are decided. A card that is decided is not asked about again, nor is
one that no answers can decide.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..cards import Flip, find_flips
from ..errors import ConfigError, GuardrailWarning
from ..models import EncodedTexts, Reader
from ..text import spaced, warn_of_absent
from ..typing import Array, Progress
from .answers import Answers
from .audited import AuditedCards
from .deciding import decide
from .drawing import Drawing, draw_references
from .people import LEAST_FLIPS, MOST_QUESTIONS, fewest
from .questions import Questions
from .record import Decision, Decisions, made_for


def check_total(n_total: int | None) -> int | None:
    """A number of questions to all cards; a `ConfigError` where it is too small to decide one."""
    if n_total is not None and n_total < LEAST_FLIPS:
        raise ConfigError(
            f"n_total={n_total} decides no word group, which takes at least {LEAST_FLIPS} answers. Give more, or "
            "leave it out to ask about n texts of each word group."
        )
    return n_total


def ask(
    before: Questions,
    classifier: Reader,
    encoded: EncodedTexts,
    *,
    answers: Answers | None = None,
    decisions: Decisions | None = None,
    shortcuts: Iterable[str] = (),
    cards: str = "undecided",
    n: int = 40,
    n_total: int | None = None,
    seed: int = 0,
    labels: Mapping[int, str] | None = None,
    models: tuple[str, ...] = (),
    probs: Array | None = None,
    progress: Progress | None = None,
) -> Questions:
    """Earlier questions, and those of one more call, as `ShortcutGuardrail.questions` makes it.

    Args:
        encoded: The N audited texts.
        labels: By row, the label of a text where it is known; see `Drawing`.
        probs: What the model predicts for the N texts, shape (N, C), where an audit kept that.

    Raises:
        ConfigError: The decisions are of another model.
    """
    audited, answers, shortcuts = before.audited, answers or Answers(), tuple(shortcuts)
    warn_of_absent(shortcuts, encoded)
    names, probs = audited.labels, classifier.predict_proba(encoded) if probs is None else probs
    by_answers = {one.id: one for one in decide(before, answers).cards}
    settled = {
        card: one for card, one in by_answers.items() if one.decision in ("keep", "remove_reliance", "not_alone")
    }
    said = [*settled.values(), *_said(decisions, audited)]
    given = _taken(audited, said, shortcuts)
    chosen = audited.chosen(cards)
    found = find_flips(
        classifier,
        encoded,
        # What was answered about a card that is decided stays as it was.
        [card for card in chosen if card.id not in settled],
        given=given,
        probs=probs,
        erasure=audited.erasure,
        progress=progress,
    )
    flips = {**before.flips, **found}
    texts = draw_references(encoded, probs, audited.cards, flips, names, seed=seed)
    # What an answer said of a card that is a shortcut by it, it does not say once more of another.
    spent = {one for card in said if card.decision == "remove_reliance" for one in card.text_hashes}
    fresh = {card: [flip for flip in of_card if flip.text_hash not in spent] for card, of_card in found.items()}
    closed = {audited.id_of(one.id, one.words) for one in said}
    drawing = Drawing(audited.id, names, before.keys, labels or {}, cards=audited.cards, given=given)
    made = draw(before, answers, fresh, drawing, closed=closed, n=n, n_total=n_total, seed=seed)
    return replace(made, flips=flips, reference=tuple(texts), models=models)


def draw(
    before: Questions,
    answers: Answers,
    flips: Mapping[str, Sequence[Flip]],
    drawing: Drawing,
    *,
    closed: Collection[str] = (),
    n: int = 40,
    n_total: int | None = None,
    seed: int = 0,
) -> Questions:
    """Earlier questions, and those of one more call, where flips of some cards were counted anew."""
    keys = tuple(drawing.renewed(flips))
    before = replace(before, keys=keys)
    least = _least(before, answers, {card: len(of_card) for card, of_card in flips.items() if card not in closed})
    drawing = replace(drawing, asked=keys, answered=answers.arrived().keys(), after=len(answers.to_texts()))
    open_ = {card: flips[card] for card in sorted(least, key=lambda card: -len(flips[card]))}
    asked, new = drawing.of_flips(open_, n=n, total=n_total, least=least, seed=seed)
    return replace(before, keys=(*keys, *new), asked=tuple(asked))


def _said(decisions: Decisions | None, audited: AuditedCards) -> list[Decision]:
    """What stands in decisions that somebody gave; what they keep holds for the texts that they were made on."""
    if decisions is None:
        return []
    warn = partial(warnings.warn, category=GuardrailWarning, stacklevel=2)
    same = made_for(decisions, model=audited.model, data=audited.data, warn=warn)
    kept = ("remove_reliance", "not_alone", "keep") if same else ("remove_reliance", "not_alone")
    return [one for one in decisions.cards if one.decision in kept]


def _taken(audited: AuditedCards, said: Sequence[Decision], shortcuts: Iterable[str]) -> tuple[str, ...]:
    """Words that are taken for shortcuts: found by the audit, unless somebody keeps them, named, and those of cards."""
    kept = {spaced(word) for one in said if one.decision == "keep" for word in one.words}
    found = [word for word in audited.found if spaced(word) not in kept]
    decided = [word for one in said if one.decision == "remove_reliance" for word in one.words]
    return tuple(dict.fromkeys([*found, *decided, *shortcuts]))


def _least(questions: Questions, answers: Answers, flips: Mapping[str, int]) -> dict[str, int]:
    """By card that answers can still decide, how many decide it at least; it has so many flips that may count."""
    judged = {one.id: one for one in decide(questions, answers).cards}
    found = {}
    for card, n in flips.items():
        one = judged.get(card)
        fixed, broken, answered = (one.fixed, one.broken, one.asked) if one else (0, 0, 0)
        least = fewest(fixed, broken)
        if n >= LEAST_FLIPS and least <= min(n, MOST_QUESTIONS) - answered:
            found[card] = least
    return found
