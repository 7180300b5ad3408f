"""Answers of people, one after the other or in a file, and predictions of second models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..classifiers import Classifier, log_probs
from ..data import Word, checked, enumerated, open_tables, parse_json, read_utf8, text_hash, write_file
from ..errors import ConfigError, DataError
from ..typing import Array, Progress, Text
from .people import CHOICES, Choice
from .record import DecisionName, Decisions

if TYPE_CHECKING:
    from .questions import Questions

ANSWERS_FILE = "answers.jsonl"
"""In the folder of the audit."""
TWICE = 20
"""Texts that a judge is asked about twice."""
MOST_CHANGED = 0.1
"""The share of these on which it may answer otherwise."""


@dataclass(frozen=True)
class Answer:
    """What one person said, and when (ISO 8601): an answer about a text, or a decision on a word group."""

    by: str
    at: str
    answer: Choice | None = None
    question: Word | None = None
    decision: DecisionName | None = None
    card: Word | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("answer", "question", "decision", "card") if getattr(self, name) is not None]
        if given not in (["answer", "question"], ["decision", "card"]):
            raise ValueError("it must have `card` and `decision`, or `question` and `answer`")

    def to_dict(self) -> dict[str, str]:
        """As it is stored."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class JudgeAnswers:
    """The predictions of one second model.

    Attributes:
        log_probs: Log-probabilities of the texts, shape (T, C); a row with NaN has no prediction.
        record: The model and how it was asked; see `Classifier.record`.
        refused: Why it may not decide; empty if it may.
    """

    log_probs: Array
    record: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to `Questions`, of people and second models.

    Attributes:
        said: By people, the earliest first.
        judges: By second models, by name.
        earlier: Decisions that stand already, such as those of an existing file.
    """

    said: tuple[Answer, ...] = ()
    judges: Mapping[str, JudgeAnswers] = field(default_factory=dict)
    texts: tuple[Text, ...] = ()
    earlier: Decisions = field(default_factory=lambda: Decisions(()))

    def to_questions(self) -> dict[str, dict[str, Choice]]:
        """Each person's last answer to each question about a text."""
        found: dict[str, dict[str, Any]] = {}
        for answer in self.said:
            if answer.question is not None:
                found.setdefault(answer.by, {})[answer.question] = answer.answer
        return found

    def to_cards(self) -> dict[str, dict[str, Answer]]:
        """By word group, each person's last decision on it."""
        found: dict[str, dict[str, Answer]] = {}
        for answer in self.said:
            if answer.card is not None:
                found.setdefault(answer.card, {})[answer.by] = answer
        return found

    def to_texts(self) -> list[Answer]:
        """People's answers about texts."""
        return [answer for answer in self.said if answer.question is not None]

    def arrived(self) -> dict[str, int]:
        """By question, how many answers had come before those that its first answer came with.

        Consecutive answers with the same time came together.
        """
        found: dict[str, int] = {}
        start, at = 0, None
        for i, answer in enumerate(self.to_texts()):
            if answer.at != at:
                start, at = i, answer.at
            found.setdefault(str(answer.question), start)
        return found

    def and_more(self, more: Answers) -> Answers:
        """These and others; a later answer replaces the same person's earlier one."""
        said = list(self.said)
        place = {(one.by, one.question): i for i, one in enumerate(said) if one.question is not None}
        for one in more.said:
            at = len(said) if one.question is None else place.setdefault((one.by, one.question), len(said))
            said[at : at + 1] = [replace(one, at=said[at].at) if at < len(said) else one]
        return replace(more, said=tuple(said))

    # Those that are kept beside an audit

    @classmethod
    def from_folder(cls, folder: str | Path) -> Answers:
        """People's answers about texts of an audit so far, in the order in which they came."""
        file = Path(folder) / ANSWERS_FILE
        said: list[Answer] = []
        for number, line in enumerate(read_utf8(file, str(file)).splitlines() if file.exists() else (), start=1):
            try:
                said.append(checked(parse_json(line), Answer, "the line"))
            except ValueError as error:
                raise DataError(
                    f"{file}, line {number}: this is no answer ({error}). Repair or remove the line. Without the file "
                    "all answers are lost."
                ) from error
        return cls(tuple(said))

    def keep(self, folder: str | Path) -> None:
        """Write people's answers about texts into the folder of the audit."""
        lines = (json.dumps(answer.to_dict()) + "\n" for answer in self.to_texts())
        write_file(Path(folder) / ANSWERS_FILE, "".join(lines), overwrite=True)

    def to_lines(self) -> str:
        """The predictions of second models as JSON Lines: the hash of the text, and by name the log-probabilities."""
        lines = []
        for i, text in enumerate(self.texts):
            rows = {name: one.log_probs[i].tolist() for name, one in self.judges.items()}
            scores = {name: [None if np.isnan(x) else round(x, 6) for x in row] for name, row in rows.items()}
            lines.append(json.dumps({"text_hash": text_hash(text), "scores": scores}) + "\n")
        return "".join(lines)

    @classmethod
    def from_files(cls, files: Sequence[str], questions: Questions, *, by: Sequence[str]) -> Answers:
        """Answers that people filled in, in labelling sheets.

        Args:
            files: Files for `read_data`, with the columns `id` and `answer`. Texts in them must be those of the
                questions.
            by: The person who answered each file.

        Raises:
            DataError: A file cannot be read, has a question of another audit, an unknown answer or a changed text, has
                neither an answer nor a label, or one person's answers contradict each other.
        """
        labelled, at = any(key.label for key in questions.keys), now()
        said: dict[tuple[str, str], tuple[Answer, str]] = {}
        for file, name in zip(files, by, strict=True):
            found = [(where, question, choice) for where, question, choice in _answers_in(file, questions) if choice]
            if not found and not labelled:
                raise DataError(
                    f"{file} has no answer. Fill in its column 'answer' ({', '.join(CHOICES)}); rows may stay empty, "
                    "but not all of them."
                )
            for where, question, choice in found:
                answer = Answer(name, at, choice, question)
                before, first = said.setdefault((name, question), (answer, where))
                if before != answer:
                    raise DataError(
                        f"{where}: {name} answers question '{question}' with '{choice}', and with '{before.answer}' in "
                        f"{first}. Leave one answer, or give a file to each of two reviewers."
                    )
        return cls(tuple(answer for answer, _ in said.values()))


# Of people, in files


def now() -> str:
    """The time, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _answers_in(file: str, questions: Questions) -> list[tuple[str, str, Choice | None]]:
    """Of each row of a file where it stands, the question, and the answer, if it has one."""
    with closing(open_tables(file)) as tables:
        table = next(tables)
    missing = [column for column in ("id", "answer") if column not in table.columns]
    if missing:
        raise DataError(
            f"{file} has no column {enumerated([repr(name) for name in missing])} (it has: "
            f"{enumerated(table.columns)}). Give a file that `questions` wrote, with its column 'answer' filled in."
        )
    if table.problems:
        raise DataError("\n".join(table.problems))
    hashes = {key.id: key.text_hash for key in questions.keys}
    found: list[tuple[str, str, Choice | None]] = []
    names = [name for name in ("text", "text_pair") if name in table.columns]
    texts: list[tuple[Any, ...]] = list(zip(*map(table.column, names), strict=True)) or [()] * len(table.rows)
    columns = table.column("id"), table.column("answer"), texts
    for line, identity, answer, parts in zip(table.rows, *columns, strict=True):
        where, question = f"{file}, {table.row_word} {line}", str(identity).strip()
        if question not in hashes:
            raise DataError(
                f"{where}: the audit has no question '{question}'. Questions belong to the audit that they were "
                "written for; give that audit."
            )
        if parts and None not in parts and text_hash(parts if len(parts) > 1 else parts[0]) != hashes[question]:
            raise DataError(
                f"{where}: the text is not the one that question '{question}' is about. Answer the file as `questions` "
                "wrote it."
            )
        said = "" if answer is None else str(answer).strip().lower()
        advice = "It may be left empty."
        choice = checked(said, Choice, where, path="the answer", advice=advice) if said else None
        found.append((where, question, choice))
    return found


# Of classifiers


def answers_of(
    judge: Classifier, texts: Sequence[Text], labels: Sequence[str], progress: Progress | None
) -> JudgeAnswers:
    """What a judge answers to texts, some of which it is asked about twice."""
    if not texts:
        return JudgeAnswers(np.zeros((0, len(labels))), judge.record())
    probs = np.asarray(judge.predict_proba(texts, progress=progress), dtype=np.float64)
    if probs.shape != (len(texts), len(labels)):
        raise ConfigError(
            f"The second model '{judge.name}' gives an array of shape {probs.shape}, but {(len(texts), len(labels))} "
            f"is needed: a row for each text, a column for each of {enumerated(list(labels))}."
        )
    again = np.asarray(judge.predict_proba(texts[:TWICE], again=True), dtype=np.float64)
    return JudgeAnswers(log_probs(probs), judge.record(), _changes_its_mind(probs[:TWICE], again))


def _changes_its_mind(first: Array, again: Array) -> str:
    """Why a judge is refused that answers otherwise when it is asked again; empty where it does not."""
    known = ~np.isnan(first).any(axis=1) & ~np.isnan(again).any(axis=1)
    other = first[known].argmax(axis=1) != again[known].argmax(axis=1)
    if not known.any() or other.mean() <= MOST_CHANGED:
        return ""
    return (
        f"It changes its answer to {int(other.sum())} of {len(other)} texts when it is asked twice. Set its "
        "temperature to 0, or let it answer several times."
    )
