"""Answers: of a person, one after the other or in a file, and of classifiers."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from ..classifiers import Classifier, log_probs, open_classifiers
from ..data import Word, checked, enumerated, open_tables, text_hash
from ..errors import ConfigError, DataError
from ..typing import Array, Progress, Text
from .people import CHOICES, Choice
from .questions import Questions
from .record import DecisionName, Decisions

TWICE = 20
"""Texts that a judge is asked about twice."""
MOST_CHANGED = 0.1
"""The share of these on which it may answer otherwise."""


@dataclass(frozen=True)
class Answer:
    """One answer of one person, to a question about a text or about a card itself.

    Attributes:
        by: Who.
        at: When, ISO 8601.
        said: A `Choice`, or about a card a decision.
        card: The card's id, or
        question: the question's.
    """

    by: str
    at: str
    said: str
    card: str | None = None
    question: str | None = None

    @property
    def about(self) -> str:
        """What it answers."""
        return self.card or self.question or ""

    def to_dict(self) -> dict[str, str]:
        """As it is stored."""
        if self.card is not None:
            return {"by": self.by, "at": self.at, "card": self.card, "decision": self.said}
        return {"by": self.by, "at": self.at, "question": self.question or "", "answer": self.said}

    @classmethod
    def from_dict(cls, values: Any, source: str, path: str = "") -> Answer:
        """One that was stored, or sent.

        Raises:
            DataError: It is none; the sentence names the field.
        """
        to_question = isinstance(values, dict) and "question" in values
        about, said, kind = ("question", "answer", _SaidOfTexts) if to_question else ("card", "decision", _SaidOfCards)
        found: Any = checked(values, kind, source, path=path, open_ended=True)
        return cls(found["by"], found["at"], found[said], **{about: found[about]})


class _SaidOfCards(TypedDict):
    by: str
    at: str
    card: Word
    decision: DecisionName


class _SaidOfTexts(TypedDict):
    by: str
    at: str
    question: Word
    answer: Choice


@dataclass(frozen=True, eq=False)
class JudgeAnswers:
    """What one classifier answered.

    Attributes:
        log_probs: Log-probabilities of the texts, shape (T, C); a row with NaN was not answered.
        record: What answered and how it was asked; see `Classifier.record`.
        refused: Why it may judge nothing; empty where it may.
    """

    log_probs: Array
    record: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, eq=False)
class Answers:
    """What was answered to `Questions`, by anybody.

    Attributes:
        said: By people, the first first.
        judges: By classifiers, by name.
        texts: The T texts that these were asked about.
        machine: The model that filled in the files, if none of them is a person's. Its answers decide nothing, since
            nobody knows whether it is qualified.
        earlier: Decisions that stand already, such as those of a file that is gone on with.
    """

    said: tuple[Answer, ...] = ()
    judges: Mapping[str, JudgeAnswers] = field(default_factory=dict)
    texts: tuple[Text, ...] = ()
    machine: str | None = None
    earlier: Decisions | None = None

    def and_by(self, others: Answers) -> Answers:
        """These, and what classifiers answered."""
        return replace(self, judges=others.judges, texts=others.texts)

    def to_questions(self) -> dict[str, dict[str, Choice]]:
        """Of each person the last answer to each question about a text."""
        found: dict[str, dict[str, Any]] = {}
        for answer in self.said:
            if answer.question is not None:
                found.setdefault(answer.by, {})[answer.question] = answer.said
        return found

    def to_cards(self) -> dict[str, dict[str, Answer]]:
        """By card, the last word of each person about it."""
        found: dict[str, dict[str, Answer]] = {}
        for answer in self.said:
            if answer.card is not None:
                found.setdefault(answer.card, {})[answer.by] = answer
        return found

    def without_last(self, by: str) -> Answers:
        """Without the last answer of one person's; all of them if there is none."""
        last = max((i for i, answer in enumerate(self.said) if answer.by == by), default=len(self.said))
        return replace(self, said=(*self.said[:last], *self.said[last + 1 :]))

    def to_lines(self) -> str:
        """Every answer of classifiers as JSON Lines: the hash of the text, and by name the log-probabilities."""
        lines = []
        for i, text in enumerate(self.texts):
            scores = {name: [_number(value) for value in one.log_probs[i]] for name, one in self.judges.items()}
            lines.append(json.dumps({"text_hash": text_hash(text), "scores": scores}) + "\n")
        return "".join(lines)

    @classmethod
    def from_files(
        cls, files: Sequence[str], questions: Questions, *, by: Sequence[str], machine: str | None = None
    ) -> Answers:
        """What people filled in, in the files of questions.

        Comma, semicolon or tab, a byte order mark and any line ends are read as meant, and so are spaces and capital
        letters in an answer.

        Args:
            files: CSV, TSV, JSON Lines or Parquet, with the columns `id` and `answer`. Where one has the texts, they
                must be those that were asked about.
            questions: About the same audit.
            by: Who answered each of them.
            machine: See the class.

        Raises:
            DataError: A file cannot be read, has a question of no such audit, an answer that is unknown or a changed
                text, holds no answer though no label answers either, or one person contradicts himself.
        """
        labelled = any(key.label for key in questions.keys)
        said: dict[tuple[str, str], Answer] = {}
        for file, name in zip(files, by, strict=True):
            found = {question: choice for question, choice in _answers_in(file, questions).items() if choice}
            if not found and not labelled:
                raise DataError(
                    f"{file} holds no answer. Fill in its column 'answer' ({', '.join(CHOICES)}); rows may stay empty, "
                    "but not all of them."
                )
            for question, choice in found.items():
                before = said.setdefault((name, question), Answer(name, "", choice, question=question))
                if before.said != choice:
                    raise DataError(
                        f"{file}: {name} answers question '{question}' with '{choice}', and with '{before.said}' in "
                        "another file. Leave one answer, or name two reviewers."
                    )
        return cls(tuple(said.values()), machine=machine)


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


# Of people, in files


def questions_in(files: Iterable[str], questions: Questions) -> set[str]:
    """The ids of the questions in files, answered or not.

    Raises:
        DataError: See `Answers.from_files`.
    """
    return {question for file in files for question in _answers_in(file, questions)}


def _answers_in(file: str, questions: Questions) -> dict[str, Choice | None]:
    """By question, what one file answers; `None` where it does not."""
    with closing(open_tables(file, semicolons=True)) as tables:
        table = next(tables)
    missing = [column for column in ("id", "answer") if column not in table.columns]
    if missing:
        raise DataError(
            f"{file} has no column {enumerated([repr(name) for name in missing])} (it has: "
            f"{enumerated(table.columns)}). Give a file that `flips` wrote, with its column 'answer' filled in."
        )
    if table.problems:
        raise DataError("\n".join(table.problems))
    hashes = {key.id: key.text_hash for key in questions.keys}
    found: dict[str, Choice | None] = {}
    lines: dict[str, int] = {}
    columns = table.column("id"), table.column("answer"), _texts(table)
    for line, identity, answer, text in zip(table.rows, *columns, strict=True):
        where, question = f"{file}, {table.row_word} {line}", str(identity).strip()
        if question not in hashes:
            raise DataError(
                f"{where}: the audit has no question '{question}'. Questions belong to the audit that they were "
                "written for; give that audit."
            )
        if text is not None and text_hash(text) != hashes[question]:
            raise DataError(
                f"{where}: the text is not the one that question '{question}' is about. Answer the file as `flips` "
                "wrote it."
            )
        before, choice = found.get(question), _choice(answer, where)
        if None not in (before, choice) and before != choice:
            raise DataError(
                f"{file}, {table.row_word}s {lines[question]} and {line}: question '{question}' is answered "
                f"'{before}' and '{choice}'. Leave one answer; two people's answers go into two files."
            )
        if before is None:
            found[question], lines[question] = choice, line
    return found


def _texts(table: Any) -> list[Any]:
    """The texts as they can be compared; `None` for each where the file has none."""
    if "text" not in table.columns:
        return [None] * len(table.rows)
    firsts = table.column("text")
    return list(zip(firsts, table.column("text_pair"), strict=True)) if "text_pair" in table.columns else list(firsts)


def _choice(value: Any, where: str) -> Choice | None:
    said = "" if value is None else str(value).strip().lower()
    if not said:
        return None
    for choice in CHOICES:
        if said == choice:
            return choice
    close = difflib.get_close_matches(said, CHOICES, n=1, cutoff=0.6)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    raise DataError(
        f"{where}: the answer must be {', '.join(CHOICES[:-1])} or {CHOICES[-1]}, or left empty, but is "
        f"'{str(value).strip()}'.{hint}"
    )


# Of classifiers


def ask(questions: Questions, judges: Any, *, progress: Progress | None = None) -> Answers:
    """See `Questions.answered_by`."""
    given = [*judges] if isinstance(judges, list | tuple) else [judges]
    asked, labels = questions.for_judges, questions.audited.labels
    opened = open_classifiers(given, labels)
    for judge in opened:
        if judge.fingerprint() in questions.models:
            raise ConfigError(
                f"The judge '{judge.name}' is the model that was audited, or its base: it leans on the same words. "
                "Give a model that learned from other data."
            )
    return Answers(
        judges={judge.name: _answered(judge, asked.texts, labels, progress) for judge in opened}, texts=asked.texts
    )


def _answered(
    judge: Classifier, texts: Sequence[Text], labels: Sequence[str], progress: Progress | None
) -> JudgeAnswers:
    if not texts:
        return JudgeAnswers(np.zeros((0, len(labels))), judge.record())
    probs = np.asarray(judge.predict_proba(texts, progress=progress), dtype=np.float64)
    if probs.shape != (len(texts), len(labels)):
        raise ConfigError(
            f"The judge '{judge.name}' gives an array of shape {probs.shape}, but {(len(texts), len(labels))} is "
            f"needed: a row for each text, a column for each of {enumerated(list(labels))}."
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
