"""The questions about an audit's word groups, for people and classifiers: prediction changes and reference texts.

A person sees a text and two options: the model's own prediction, and the one with a group's words masked. The key of
the question says which is which. A classifier predicts all prediction changes, with the words and without, and
reference texts, which contain none of the words: they show whether it is qualified, and which class it prefers.

All of it is in one file in the audit's folder, `questions.jsonl`: a head, then a line for each key, each prediction
change and each reference text. People who answer must not read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from ..audit import AuditReport, renamed
from ..cards import Card, Flip
from ..data import checked, counted, parse_json, read_utf8, write_file
from ..errors import ConfigError, DataError
from ..text import WordFinder
from ..typing import Progress, Text
from .answers import Answers, answers_of
from .audited import AuditedCards
from .drawing import Drawing, Key, Question, ReferenceText, pair_of, question_id, sides
from .people import LEAST_FLIPS, MOST_QUESTIONS

QUESTIONS_FILE = "questions.jsonl"
"""In the folder of the audit."""


class Case(NamedTuple):
    """A flip of a card as a classifier is asked about it: the text, and `without` the words, `None` if none is left."""

    card: str
    flip: Flip
    text: Text
    without: Text | None


@dataclass(frozen=True)
class ForJudges:
    """What every judge is asked: flips of the cards that can be decided, and texts without the cards' words."""

    labels: tuple[str, ...]
    cases: tuple[Case, ...]
    reference: tuple[ReferenceText, ...]

    @cached_property
    def texts(self) -> tuple[Text, ...]:
        """Every text that is sent, once: reference texts first, in whose order a judge is checked."""
        sent: dict[Text, None] = dict.fromkeys(one.text for one in self.reference)
        for case in self.cases:
            sent |= dict.fromkeys([case.text] if case.without is None else [case.text, case.without])
        return tuple(sent)


@dataclass(frozen=True)
class Questions:
    """The questions about the word groups of one audit.

    Attributes:
        flips: By word group, its prediction changes; each text once.
        keys: What each question to a person says about a word group, of all calls.
        models: Fingerprints of the audited and the original model, which cannot be second models.
        asked: The questions of the last call in their order, word groups mixed.
        one_by_one: Whether texts are asked about one after the other, and only for groups that somebody is unsure of,
            as on the review page. Otherwise all are in one file.
    """

    audited: AuditedCards
    flips: Mapping[str, Sequence[Flip]]
    keys: tuple[Key, ...] = ()
    reference: tuple[ReferenceText, ...] = ()
    models: tuple[str, ...] = ()
    asked: tuple[Question, ...] = field(default=(), repr=False)
    one_by_one: bool = False

    @classmethod
    def so_far(cls, audit: AuditReport | Questions | str | Path) -> Questions:
        """The questions about an audit so far, if any; the audit is in memory, or in a folder (see `from_folder`)."""
        if isinstance(audit, Questions):
            return audit
        if isinstance(audit, AuditReport):
            return cls(AuditedCards.of(audit), {})
        asked = (Path(audit) / QUESTIONS_FILE).exists()
        return cls.from_folder(audit) if asked else cls(AuditedCards.from_folder(Path(audit)), {})

    @classmethod
    def of_audit(
        cls, audited: AuditedCards, flips: Mapping[str, Sequence[Flip]], *, keys: tuple[Key, ...] = (), seed: int = 0
    ) -> Questions:
        """The questions for one person after another, from prediction changes that an audit kept with their texts.

        Args:
            keys: Of questions that are in files already.
        """
        drawing = Drawing(audited.id, audited.labels, keys, cards=audited.cards, given=audited.found)
        asked, new = drawing.of_flips(flips, n=MOST_QUESTIONS, seed=seed)
        return cls(audited, flips, (*keys, *new), asked=tuple(asked), one_by_one=True)

    def n_flips(self, card: Card) -> int:
        """How many predictions change with the group's words masked, as last counted."""
        return len(self.flips[card.id]) if card.id in self.flips else card.changes

    @property
    def undecidable(self) -> int:
        """How many word groups have too few prediction changes to be decided by answers."""
        return sum(self.n_flips(card) < LEAST_FLIPS for card in self.audited.cards)

    # For people

    @property
    def shows_its_group(self) -> bool:
        """Whether all questions of the last call are about one word group, so that its words can be guessed."""
        asked = {question.id for question in self.asked}
        return len({key.card for key in self.keys if key.id in asked}) == 1

    def rows(self, *, redact: bool = False) -> list[dict[str, Any]]:
        """The questions of the last call as rows of a table, whose column `answer` is to be filled in."""
        rows = []
        for one in self.asked:
            texts = dict(zip(("text", "text_pair"), sides(one.text), strict=False))
            options = {"option_a": one.option_a, "option_b": one.option_b}
            rows.append({"id": one.id, "row": one.row, **({} if redact else texts), **options, "answer": ""})
        return rows

    # For classifiers

    @cached_property
    def for_judges(self) -> ForJudges:
        """The questions for classifiers: prediction changes of groups that have enough of them, and reference texts.

        Raises:
            DataError: The audit was written without texts.
        """
        labels = self.audited.labels
        known = {question_id(flip, labels, self.audited.id) for of_card in self.flips.values() for flip in of_card}
        if missing := {key.id for key in self.keys} - known:
            raise DataError(
                f"{QUESTIONS_FILE} lacks the texts of {counted(len(missing), 'question')}, about which classifiers are "
                "asked: it was written with redact=True. Run `questions` again without it."
            )
        by_id = {card.id: card for card in self.audited.cards}
        decidable = {by_id[card]: flips for card, flips in self.flips.items() if len(flips) >= LEAST_FLIPS}
        cases = [case for card, flips in decidable.items() for case in _cases(card, flips)]
        pairs = {pair_of(case.flip.before, case.flip.after, labels) for case in cases}
        reference = [one for one in self.reference if pair_of(one.answer, one.other, labels) in pairs]
        return ForJudges(labels, tuple(cases), tuple(reference))

    def answered_by(self, judges: Any, *, progress: Progress | None = None) -> Answers:
        """The predictions of second models for every text.

        Args:
            judges: A `classifiers.Classifier`, a function from texts to probabilities (N, C) in the order of the
                deployed model's labels, a value of `decide --with` (see `classifiers.open_classifiers`), or several.

        Raises:
            ConfigError: One is the deployed or the original model, two are the same, or one has other labels.
            DataError: The texts are not known.
        """
        given = [*judges] if isinstance(judges, list | tuple) else [judges]
        texts, labels = self.for_judges.texts, self.audited.labels
        from ..classifiers import open_classifiers  # needs PyTorch, which takes seconds to import

        opened = open_classifiers(given, labels)
        for judge in opened:
            if judge.fingerprint() in self.models:
                raise ConfigError(
                    f"The second model '{judge.name}' is the audited model or its original: it depends on the same "
                    "words. Give a model that was trained on other data."
                )
        said = {judge.name: answers_of(judge, texts, labels, progress) for judge in opened}
        return Answers(judges=said, texts=texts)

    # The file

    def save(self, folder: Path, *, redact: bool = False) -> None:
        """Write the file into the folder of the audit; without texts no classifier can be asked."""
        head = {"audit": self.audited.id, "models": list(self.models), "labels": list(self.audited.labels)}
        lines: list[dict[str, Any]] = [head]
        lines += [{"key": asdict(key)} for key in self.keys]
        if not redact:
            lines += [{"card": card, "flip": asdict(flip)} for card, flips in self.flips.items() for flip in flips]
            lines += [{"reference": asdict(one)} for one in self.reference]
        write_file(folder / QUESTIONS_FILE, "".join(json.dumps(line) + "\n" for line in lines), overwrite=True)

    @classmethod
    def from_folder(cls, folder: str | Path) -> Questions:
        """The questions about the audit in a folder.

        Raises:
            DataError: There are none, the file is damaged, or it belongs to another audit.
        """
        folder = Path(folder)
        file, audited = folder / QUESTIONS_FILE, AuditedCards.from_folder(folder)
        if not file.exists():
            raise DataError(
                f"Nothing was asked about the audit '{folder}' yet: it has no {QUESTIONS_FILE}. Run `questions`."
            )
        lines: list[_Line] = []
        names: dict[str, str] = {}  # since then the classes of the audit may have got others
        for number, content in enumerate(read_utf8(file, str(file)).splitlines(), start=1):
            try:
                value = renamed(parse_json(content), names, ("after", "answer", "before", "other"))
                lines.append(checked(value, _Line, "the line", null_is_nan=True))
                names = names or dict(zip(lines[0].get("labels", ()), audited.labels, strict=False))
            except ValueError as error:
                raise DataError(
                    f"{file}, line {number}: this is no question ({error}). Remove the file and run `questions` again."
                ) from error
        head = lines[0] if lines else _Line()
        if head.get("audit") != audited.id:
            raise DataError(
                f"{file} asks about another audit than the one beside it: it was audited again. Remove "
                f"{QUESTIONS_FILE} and run `questions`."
            )
        flips: dict[str, list[Flip]] = {}
        for line in lines:
            if "flip" in line:
                flips.setdefault(line["card"], []).append(line["flip"])
        return cls(
            audited,
            flips,
            tuple(line["key"] for line in lines if "key" in line),
            tuple(line["reference"] for line in lines if "reference" in line),
            tuple(head.get("models", ())),
        )


class _Line(TypedDict, total=False):
    audit: str
    models: tuple[str, ...]
    labels: tuple[str, ...]
    key: Key
    card: str
    flip: Flip
    reference: ReferenceText


def _cases(card: Card, flips: Sequence[Flip]) -> Iterator[Case]:
    finder = WordFinder(card.words, kept=card.except_in)
    for flip in flips:
        assert flip.content is not None  # texts are written of all flips or of none
        left = ["".join(piece for piece, found in pieces_of(finder, side) if not found) for side in sides(flip.content)]
        cut = tuple(" ".join(side.split()) for side in left)  # without the space that the words leave
        without = cut[0] if len(cut) == 1 else (cut[0], cut[1])
        yield Case(card.id, flip, flip.content, without if all(cut) else None)


def pieces_of(finder: WordFinder, text: str) -> list[tuple[str, bool]]:
    """A text in pieces, and whether each is one of some words; words that overlap are one piece."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for found in finder.find(text):
        if found.start >= at:
            pieces += [(text[at : found.start], False), (text[found.start : found.end], True)]
        elif found.end > at:
            pieces[-1] = (pieces[-1][0] + text[at : found.end], True)
        at = max(at, found.end)
    return [piece for piece in (*pieces, (text[at:], False)) if piece[0]]
