"""Questions about flips: which texts are asked about, in which order, and what nobody who answers may know.

A question shows a text and two answers, one of which is the model's own and one that with a card's words masked. Its
key says which is which. Texts come in an order fixed by the seed; those that were asked least come first; the
questions of the cards are mixed, and a text that serves several cards is asked about once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from ..data import Count, Texts, text_hash

Option = Literal["a", "b"]
Known = Literal["a", "b", "neither"]

REFERENCE = "reference"
"""In place of a card in the keys of questions about texts without the cards' words: is the model right there?"""


@dataclass(frozen=True)
class Flip:
    """A text whose answer changes when a card's words are masked.

    Attributes:
        row: Which of the texts it is, from 0.
        before: The class that the model answers.
        after: The class that it answers with the words masked.
        margin: By how much the masked answer is ahead of the model's own, in log-probability; NaN where not kept.
    """

    row: int
    before: int
    after: int
    margin: float = math.nan


@dataclass(frozen=True)
class Question:
    """What somebody is asked: which of two answers to a text is right.

    Attributes:
        id: Tells the question, and nothing of the card.
        row: Which of the texts it is, from 0.
        option_a: The name of a class.
        option_b: The name of another.
    """

    id: str
    row: int
    option_a: str
    option_b: str


@dataclass(frozen=True)
class Key:
    """What a question tells about one card.

    Attributes:
        id: The question's.
        card: The card's.
        masked_option: Which of the two is the answer with the card's words masked.
        text_hash: Tells the text again.
        order: The place of the question among the card's, from 0.
        label: What a label of the text's own answers; `None` where somebody has to be asked.
        call: Which call of `flips` about the audit asked it, from 1; 0 where that is not known.
    """

    id: str
    card: str
    masked_option: Option
    text_hash: str
    order: Count
    label: Known | None = None
    call: Count = 0

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary: a line of `questions.jsonl`."""
        return asdict(self)


def draw_questions(
    flips: Mapping[str, Sequence[Flip]],
    texts: Texts,
    label_names: Sequence[str],
    *,
    audit: str,
    n: int = 40,
    seed: int = 0,
    asked: Sequence[Key] = (),
    labels: Sequence[int | None] | None = None,
) -> tuple[list[Question], list[Key]]:
    """Choose texts to ask about for each card.

    Args:
        flips: By card, its flips; each text once.
        texts: The N texts.
        label_names: The names of the C classes.
        audit: The audit's id, so that a question of another audit is known as one.
        n: How many texts for each card; 0 for all.
        seed: Of the order.
        asked: The keys of earlier questions. Texts that they ask about come last.
        labels: The class id of each text, shape (N,), `None` where it is not known. A text with a label is not asked
            about: its label answers, before all questions, and counts toward n.

    Returns:
        The questions, the cards' mixed, and the keys of those that are new.
    """
    known = {(key.id, key.card) for key in asked}
    rounds: list[tuple[int, str, Question]] = []
    keys: list[Key] = []
    for card, of_card in flips.items():
        done = sum(key.card == card for key in asked)
        drawn = _drawn(of_card, card, seed, known, texts, audit)
        for place, flip in enumerate(drawn[: n or None]):
            question, key = _question(flip, card, texts, label_names, audit, done)
            label = None if labels is None else labels[flip.row]
            if (key.id, card) not in known:
                keys.append(_with_label(key, question, label, label_names))
                done += 1
            if label is None:
                rounds.append((place, _digest(str(seed), card, question.id), question))
    mixed = {question.id: question for _, _, question in sorted(rounds, key=lambda r: r[:2])}
    return list(mixed.values()), keys


def _drawn(
    flips: Sequence[Flip], card: str, seed: int, known: set[tuple[str, str]], texts: Texts, audit: str
) -> list[Flip]:
    """A card's flips in random order, those first that nobody was asked about."""
    rng = np.random.default_rng([seed, *_digest(card).encode()])
    order = [flips[i] for i in rng.permutation(len(flips))]
    return sorted(order, key=lambda flip: (question_id(flip, texts, audit), card) in known)


def _question(
    flip: Flip, card: str, texts: Texts, label_names: Sequence[str], audit: str, order: int
) -> tuple[Question, Key]:
    identity = question_id(flip, texts, audit)
    # The place of the masked answer is a coin that falls the same way whenever the question is drawn.
    first = int(_digest("order", identity)[:2], 16) % 2 == 0
    a, b = (flip.after, flip.before) if first else (flip.before, flip.after)
    question = Question(identity, flip.row, label_names[a], label_names[b])
    return question, Key(identity, card, "a" if first else "b", text_hash(texts[flip.row]), order)


def _with_label(key: Key, question: Question, label: int | None, label_names: Sequence[str]) -> Key:
    if label is None:
        return key
    named = label_names[label]
    known: Known = "a" if named == question.option_a else "b" if named == question.option_b else "neither"
    return Key(key.id, key.card, key.masked_option, key.text_hash, key.order, known)


def question_id(flip: Flip, texts: Texts, audit: str) -> str:
    """Tells the question about a flip, and nothing of its card."""
    classes = sorted((flip.before, flip.after))
    return _digest(audit, text_hash(texts[flip.row]), *map(str, classes))[:12]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def reference_questions(
    near: Sequence[Flip],
    texts: Texts,
    label_names: Sequence[str],
    *,
    audit: str,
    asked: Sequence[Key] = (),
    labels: Sequence[int | None] | None = None,
) -> tuple[list[Question], list[Key]]:
    """Questions about texts without the cards' words: is the model right there?

    Args:
        near: The texts; `after` is the model's own answer, `before` the other class.
        texts: The N texts.
        label_names: The names of the C classes.
        audit: The audit's id.
        asked: The keys of earlier questions.
        labels: See `draw_questions`.

    Returns:
        Questions that look like all others, and the keys of those that are new, whose `masked_option` is the model's
        own answer.
    """
    known = {key.id for key in asked if key.card == REFERENCE}
    questions, keys = [], []
    for order, flip in enumerate(near):
        question, key = _question(flip, REFERENCE, texts, label_names, audit, order)
        label = None if labels is None else labels[flip.row]
        if key.id not in known:
            keys.append(_with_label(key, question, label, label_names))
        if label is None:
            questions.append(question)
    return questions, keys


def mixed(questions: Sequence[Question], more: Sequence[Question], seed: int) -> list[Question]:
    """Two lists of questions as one, each in its order, so that nothing tells which list one is from; a question that
    stands in both is asked once."""
    rng = np.random.default_rng(seed)
    both = list(questions), [one for one in more if one.id not in {other.id for other in questions}]
    turns = rng.permutation(np.repeat([0, 1], [len(one) for one in both]))
    queues = [iter(one) for one in both]
    return [next(queues[turn]) for turn in turns]
