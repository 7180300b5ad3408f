"""What a second model is asked about: the flips of cards, and a few hundred texts without the cards' words.

The texts without the words tell whether the model is fit to judge, and towards which class it leans.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..audit import find_repeats
from ..data import Count, Texts, checked, parse_json, read_utf8
from ..errors import DataError
from ..models import EncodedTexts
from ..text import WordFinder, evidence_key, text_key
from ..typing import Array
from .audited import AuditedCard
from .judging import LEAST_FLIPS
from .questions import Flip, question_id

SHEET_FILE = "second_opinion.jsonl"
"""In the folder of the audit: what a second model is asked about."""

DRAWN = 100
"""Texts without the words on each side, drawn at random: is the judge fit?"""
NEAR = 150
"""Texts without the words on each side, those nearest to the model's boundary: where does the judge lean?"""

LEAST_NEAR = 75
"""Of a side with fewer than twice as many texts, more than the nearer half count as near."""
REFERENCES = 10
"""Texts of each side that a person is asked about: is the model right there?"""

Text = str | tuple[str, str]


@dataclass(frozen=True)
class AskedFlip:
    """A flip as a second model is asked about it.

    Attributes:
        id: Of the question about it; see `Question`.
        card: The card's.
        text: The text, or the two of a pair.
        without: The same with the card's words cut; `None` where nothing is left.
        before: The class that the deployed model answers.
        after: The class that it answers with the words masked.
        margin: By how much the masked answer is ahead of the model's own, in log-probability.
    """

    id: str
    card: str
    text: Text
    without: Text | None
    before: int
    after: int
    margin: float


@dataclass(frozen=True)
class WordFree:
    """A text without the words of the cards, for one pair of classes.

    Attributes:
        text: The text, or the two of a pair.
        answer: What the deployed model answers.
        other: The other class of the pair.
        margin: By how much the answer is ahead of the other class, in log-probability.
        drawn: Whether it was drawn at random, to tell whether a judge is fit.
        near: Whether it is one of those near the boundary.
        holds: Cards whose words it holds after all, since these stand in nearly all texts.
    """

    text: Text
    answer: int
    other: int
    margin: float
    drawn: bool
    near: bool
    holds: tuple[str, ...] = ()

    @property
    def pair(self) -> tuple[int, int]:
        """The two classes, in their order."""
        return (min(self.answer, self.other), max(self.answer, self.other))


@dataclass(frozen=True)
class Sheet:
    """All that is asked for one audit.

    Attributes:
        audit: The audit's id.
        labels: The names of the classes.
        models: Fingerprints of the deployed model and of its base, which are no second opinion.
        flips: Of the cards.
        free: Texts without their words.
        n: Distinct texts that were audited; 0 where that was not written down.
    """

    audit: str
    labels: tuple[str, ...]
    models: tuple[str, ...]
    flips: tuple[AskedFlip, ...]
    free: tuple[WordFree, ...]
    n: int = 0

    @property
    def texts(self) -> list[Text]:
        """Every text that is sent, once: those without the words first, in whose order a judge is checked."""
        sent: dict[Text, None] = dict.fromkeys(one.text for one in self.free)
        for flip in self.flips:
            sent |= dict.fromkeys([flip.text] if flip.without is None else [flip.text, flip.without])
        return list(sent)

    def to_lines(self) -> str:
        """JSON Lines: what the audit is, then a line for each flip and each text."""
        head = {"audit": self.audit, "labels": self.labels, "models": self.models, "n": self.n}
        lines = [head, *({"flip": asdict(one)} for one in self.flips), *({"free": asdict(one)} for one in self.free)]
        return "".join(json.dumps(line) + "\n" for line in lines)

    @classmethod
    def from_folder(cls, folder: Path) -> Sheet:
        """What `flips` left in the folder of an audit.

        Raises:
            DataError: There is nothing, or it is damaged.
        """
        file = folder / SHEET_FILE
        if not file.exists():
            raise DataError(
                f"'{folder}' has no {SHEET_FILE}, which holds the texts that a second model is asked about. Run "
                "`flips` without --redact."
            )
        try:
            head, *rest = [parse_json(line) for line in read_utf8(file, str(file)).splitlines()]
            return cls(
                str(head["audit"]),
                tuple(map(str, head["labels"])),
                tuple(map(str, head["models"])),
                tuple(checked(one["flip"], AskedFlip, "a flip", **_HOW) for one in rest if "flip" in one),
                tuple(checked(one["free"], WordFree, "a text", **_HOW) for one in rest if "free" in one),
                checked(head.get("n", 0), Count, "the number of texts"),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"'{file}' is damaged ({error}). Run `flips` again.") from error


_HOW: dict[str, Any] = {"open_ended": True, "null_is_nan": True}


def draw_sheet(
    answered: tuple[EncodedTexts, Array],
    cards: Sequence[AuditedCard],
    flips: Mapping[str, Sequence[Flip]],
    *,
    audit: str,
    labels: Sequence[str],
    models: Sequence[str],
    seed: int = 0,
) -> Sheet:
    """Choose what a second model is asked about.

    Args:
        answered: The N audited texts, and the deployed model's class probabilities, shape (N, C).
        cards: Of the audit. Word-free texts hold no words of any that could be decided, or that is flagged.
        flips: By card, its flips; cards that are not in it are not asked about.
        audit: The audit's id.
        labels: The names of the C classes.
        models: See `Sheet`.
        seed: Of the draw.
    """
    texts = answered[0].texts
    by_id = {card.id: card for card in cards}
    asked = [_asked_flip(flip, by_id[card], texts, audit) for card, of_card in flips.items() for flip in of_card]
    listed = [card for card in cards if card.flagged or len(flips.get(card.id, ())) >= LEAST_FLIPS]
    holding = {card.id: np.array([_holds(WordFinder(card.words), text) for text in texts]) for card in listed}
    pairs = sorted({(min(f.before, f.after), max(f.before, f.after)) for f in asked})
    keys = [text_key(text) for text in texts], [evidence_key(text) for text in texts]
    logs = np.log(np.clip(answered[1], 1e-12, None))
    distinct = np.flatnonzero(find_repeats(*keys).evidence)
    free = _without(distinct, listed, holding, logs.argmax(axis=1))
    rng = np.random.default_rng(seed)
    drawn: list[WordFree] = []
    for pair in pairs:
        reach = max(f.margin for f in asked if {f.before, f.after} == set(pair))
        for classes in (pair, pair[::-1]):
            for i, is_drawn, is_near in _of_side(logs, free, classes, reach, rng):
                holds = tuple(card for card, held in holding.items() if held[i])
                margin = float(logs[i, classes[0]] - logs[i, classes[1]])
                drawn.append(WordFree(texts[i], *classes, margin, is_drawn, is_near, holds))
    return Sheet(audit, tuple(labels), tuple(models), tuple(asked), tuple(drawn), len(distinct))


def _without(rows: Array, listed: Sequence[AuditedCard], holding: Mapping[str, Array], answers: Array) -> Array:
    """The texts without the words of the cards, those first on which most answers hang. The words of a card that stand
    in nearly all texts, such as full stops, stay, since without them too few texts would be left of an answer."""
    least = {one: min(DRAWN, 0.4 * (answers[rows] == one).sum()) for one in set(answers[rows].tolist())}
    for card in sorted(listed, key=lambda card: -card.changes):
        left = rows[~holding[card.id][rows]]
        if all((answers[left] == one).sum() >= needed for one, needed in least.items()):
            rows = left
    return rows


def _of_side(
    logs: Array, free: Array, classes: tuple[int, int], reach: float, rng: np.random.Generator
) -> list[tuple[int, bool, bool]]:
    """Texts that are answered with the first of two classes: some at random, and those nearest to the boundary among
    the nearer half, no farther from it than masked flips are. Of each whether it is one, and whether the other."""
    answer, other = classes
    rows = free[logs[free].argmax(axis=1) == answer]
    margins = logs[rows, answer] - logs[rows, other]
    nearest = np.argsort(margins, kind="stable")[: min(NEAR, max(LEAST_NEAR, (len(rows) + 1) // 2))]
    near = {int(rows[i]) for i in nearest if margins[i] <= reach}
    drawn = {int(i) for i in rng.permutation(rows)[:DRAWN]}
    return [(i, i in drawn, i in near) for i in map(int, rows) if i in drawn or i in near]


def _asked_flip(flip: Flip, card: AuditedCard, texts: Texts, audit: str) -> AskedFlip:
    finder = WordFinder(card.words, kept=card.except_in)
    text = texts[flip.row]
    sides = (text,) if isinstance(text, str) else text
    cut = tuple(_cut(side, finder) for side in sides)
    without: Text | None = cut[0] if isinstance(text, str) else (cut[0], cut[1])
    identity = question_id(flip, texts, audit)
    return AskedFlip(identity, card.id, text, without if all(cut) else None, flip.before, flip.after, flip.margin)


def _cut(text: str, finder: WordFinder) -> str:
    """A text without the words, and without the space that they leave."""
    kept, at = [], 0
    for found in finder.find(text):
        kept.append(text[at : max(at, found.start)])
        at = max(at, found.end)
    return " ".join("".join([*kept, text[at:]]).split())


def _holds(finder: WordFinder, text: Text) -> bool:
    return any(finder.present(side) for side in ([text] if isinstance(text, str) else text))


def near_boundary(sheet: Sheet, texts: Texts, *, n: int = REFERENCES, seed: int = 0) -> list[Flip]:
    """Texts without the words to ask a person about: of each pair of classes some near the boundary, on either side of
    it. `after` is the model's own answer.

    Args:
        sheet: What was drawn.
        texts: The N texts.
        n: How many on each side.
        seed: Of the draw.
    """
    rng = np.random.default_rng(seed)
    rows = {text: i for i, text in reversed(list(enumerate(texts)))}
    found: list[Flip] = []
    for before, after in sorted({pair for one in sheet.free for pair in (one.pair, one.pair[::-1])}):
        there = [one for one in sheet.free if one.near and (one.answer, one.other) == (after, before)]
        found += [Flip(rows[there[i].text], before, after, there[i].margin) for i in rng.permutation(len(there))[:n]]
    return found
