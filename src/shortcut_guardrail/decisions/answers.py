"""Files of answered questions, as people and programs send them back, and the file of keys that they are read with."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..data import checked, enumerated, open_tables, parse_json, read_utf8, text_hash
from ..errors import DataError
from .judging import ANSWERS, Answer
from .questions import REFERENCE, Key

QUESTIONS_FILE = "questions.jsonl"
"""The keys, in the folder of the audit."""


def read_keys(folder: Path) -> list[Key]:
    """The keys of all questions that were asked about an audit; none where nobody was asked.

    Raises:
        DataError: The file is damaged.
    """
    file = folder / QUESTIONS_FILE
    if not file.exists():
        return []
    keys = []
    for number, line in enumerate(read_utf8(file, str(file)).splitlines(), start=1):
        try:
            keys.append(checked(parse_json(line), Key, "a key"))
        except ValueError as error:
            raise DataError(
                f"{file}, line {number}: this is no key of a question ({error}). Write the questions again with "
                "`flips`; the file may be removed before."
            ) from error
    return keys


def written_keys(asked: Sequence[Key], new: Sequence[Key]) -> str:
    """The content of a file of keys: those that it has, and those of one more call."""
    call = 1 + max((key.call for key in asked), default=0)
    return "".join(json.dumps(key.to_dict()) + "\n" for key in (*asked, *(replace(key, call=call) for key in new)))


@dataclass(frozen=True)
class _Row:
    line: int
    id: str
    answer: Answer | None


def questions_in(files: Sequence[str], keys: Sequence[Key]) -> set[str]:
    """The questions about flips that files ask, answered or not.

    Raises:
        DataError: See `read_answers`.
    """
    found: set[str] = set()
    for file in files:
        found |= {row.id for row in _rows_of(file, keys)[0]}
    return found & {key.id for key in keys if key.card != REFERENCE}


def keys_of(files: Sequence[str], keys: Sequence[Key]) -> list[Key]:
    """The keys that files are judged by, so that nothing that is asked later changes that: those of their questions,
    and of labels that were known by then.

    Raises:
        DataError: See `read_answers`.
    """
    ids: set[str] = set()
    for file in files:
        ids |= {row.id for row in _rows_of(file, keys)[0]}
    last: dict[str, int] = {}
    for key in keys:
        if key.id in ids and key.label is None:
            last[key.card] = max(last.get(key.card, 0), key.call)
    latest = max(last.values(), default=0)
    # A card may have labels alone, and no question in the files.
    return [key for key in keys if (key.id in ids if key.label is None else key.call <= last.get(key.card, latest))]


def read_answers(file: str, keys: Sequence[Key]) -> dict[str, Answer]:
    """The answers in one file of questions; those without an answer are left out.

    Comma, semicolon or tab, a byte order mark and any line ends are read as meant, and so are spaces and capital
    letters in an answer.

    Args:
        file: CSV, TSV, JSON Lines or Parquet, with the columns `id` and `answer`. Where it has the texts, they must be
            those that were asked about.
        keys: Of the audit's questions.

    Raises:
        DataError: A column is missing, an id belongs to no question of this audit, a text was changed, an answer is
            unknown, or one question has two answers. The sentence names file and line.
    """
    rows, word = _rows_of(file, keys)
    return _one_each(rows, file, word)


def _rows_of(file: str, keys: Sequence[Key]) -> tuple[list[_Row], str]:
    """The rows of a file, checked, and what a row of it is called."""
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
    hashes = {key.id: key.text_hash for key in keys}
    texts = _texts(table)
    rows = []
    for line, identity, answer, text in zip(table.rows, table.column("id"), table.column("answer"), texts, strict=True):
        where = f"{file}, {table.row_word} {line}"
        question = str(identity).strip()
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
        rows.append(_Row(line, question, _answer(answer, where)))
    return rows, table.row_word


def _texts(table: Any) -> list[Any]:
    """The texts as they can be compared; `None` for each where the file has none."""
    if "text" not in table.columns:
        return [None] * len(table.rows)
    firsts = table.column("text")
    if "text_pair" not in table.columns:
        return list(firsts)
    return list(zip(firsts, table.column("text_pair"), strict=True))


def _answer(value: Any, where: str) -> Answer | None:
    said = "" if value is None else str(value).strip().lower()
    if not said:
        return None
    if said not in ANSWERS:
        close = difflib.get_close_matches(said, ANSWERS, n=1, cutoff=0.6)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise DataError(
            f"{where}: the answer must be {', '.join(ANSWERS[:-1])} or {ANSWERS[-1]}, or left empty, but is "
            f"'{str(value).strip()}'.{hint}"
        )
    return said


def _one_each(rows: Sequence[_Row], file: str, word: str) -> dict[str, Answer]:
    found: dict[str, _Row] = {}
    for row in rows:
        if row.answer is None:
            continue
        before = found.setdefault(row.id, row)
        if before.answer != row.answer:
            raise DataError(
                f"{file}, {word}s {before.line} and {row.line}: question '{row.id}' is answered '{before.answer}' and "
                f"'{row.answer}'. Leave one answer; two people's answers go into two files."
            )
    return {row.id: row.answer for row in found.values() if row.answer is not None}
