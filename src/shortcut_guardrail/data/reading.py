"""Reads texts, text pairs and labels from a file or a Hub data set, and says in sentences what is wrong with them.

Everything a person can get wrong in a file is refused here and in `tables`, with its line, before a model is loaded. So
neither module imports torch or transformers, and pyarrow and datasets are only imported for the sources that need them.
"""

import json
import operator
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from ..errors import ConfigError, DataError, GuardrailWarning
from .messages import did_you_mean, enumerated, first_few, grouped, kind_of, listed, sentence, shortened
from .tables import SEPARATORS, Table, open_tables, read_utf8

Texts: TypeAlias = list[str] | list[tuple[str, str]]
"""N single texts, or N pairs of texts; never a mixture."""

LONGEST_TEXT = 1_000_000
"""In characters, some twenty novels: a model reads the first few thousand, and a tokeniser all of them."""

_MISSING, _EMPTY = _GAPS = ("is missing", "is empty")
_NO_LABEL = frozenset({"", "nan", "na", "n/a", "<na>", "none", "null"})
"""What programs write for a label that is not there, unless a class is called so."""
_YES_OR_NO = {"0": "0", "1": "1", "false": "0", "true": "1", "": ""}
_WHOLE = re.compile(r"([+-]?[0-9]{1,18})\.0*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT_NAMES = frozenset(
    {"text", "texts", "sentence", "sentences", "review", "reviews", "comment", "comments", "content", "contents"}
    | {"body", "message", "document", "utterance", "tweet", "post", "passage", "input", "inputs", "full_text"}
    | {"review_text", "review_body", "comment_text", "tweet_text", "input_text"}
)
_PAIR_NAMES = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
    ("text", "text_pair"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
    ("question", "passage"),
    ("question", "context"),
    ("query", "passage"),
    ("query", "document"),
)
_LABEL_NAMES = frozenset({"label", "labels", "class", "target", "category", "gold_label", "true_label", "y"})


@dataclass(frozen=True)
class TextData:
    """N records of one file or data set.

    Attributes:
        source: The file or data set as the user named it, for messages.
        texts: N texts, or N pairs when there is a second text column; none is empty or only whitespace.
        labels: N labels as written, still strings; `label_ids` turns them into class ids. None without such a column.
        rows: Where each record stands, counted from 1: the line on which it starts, or its row in Parquet and the Hub.
        text_column: The column the texts come from, or the first texts of pairs.
        text_pair_column: The column the second texts come from; None for single texts.
    """

    source: str
    texts: Texts
    labels: list[str] | None
    rows: list[int]
    row_word: str
    text_column: str
    text_pair_column: str | None

    def __len__(self) -> int:
        """The number of records, N."""
        return len(self.texts)


class Columns(NamedTuple):
    """Which columns are read."""

    text: str
    text_pair: str | None
    label: str | None


def read_data(
    source: str | Path,
    *,
    text_column: str | None = None,
    text_pair_column: str | None = None,
    label_column: str | None = None,
    label: str | None = None,
    require_labels: bool = False,
    some_labels: bool = False,
) -> TextData:
    """Reads texts, and labels where there are any, from CSV, TSV, JSON, JSON Lines or Parquet or from the Hub.

    Text stays text: a column of digits, "NA" or "null" is not interpreted. Quoting in CSV and TSV is RFC 4180's (a
    quote inside a quoted field is doubled). The header tells whether commas, semicolons, tabs or pipes separate the
    columns. Blank lines are skipped, except that a blank line between the rows of a one-column file is an empty text.
    JSON is an array of objects or of texts.

    A column that is not named is guessed when exactly one fits: a text by names such as "text", "sentence" or
    "review", a pair by names such as "premise" and "hypothesis", a label by names such as "label" or "target", without
    regard to case. The only column of a file is its text. With `text_column` named and no pair, texts are single.

    Args:
        source: A path, or a URL for fsspec; the suffix gives the format (.csv, .tsv, .jsonl, .ndjson, .json, .parquet,
            and .gz or .zst if compressed); or, where no such file exists and the name has no such suffix, a Hub data
            set such as "owner/name", or a split such as "owner/name:validation". Without one it is "test", or the only.
        text_column: The column with the text, or with the first text of pairs.
        text_pair_column: The column with the second text of pairs.
        label_column: The column with the labels.
        label: One of several labels that a text can have. A column of this name has 0 or 1 for it, unless
            `label_column` names another one.
        require_labels: Refuse a source without a label for each record. Otherwise a label column that is only guessed
            and has gaps, or is not the only candidate, counts as no label column.
        some_labels: A record may be without a label, which is then "".

    Returns:
        At least one record, in the order of the source.

    Raises:
        DataError: The source cannot be found or read, its columns are missing or ambiguous, or a record is malformed
            or has an empty text or label. One message names all problems, each with its first lines and the total.
        ConfigError: One column is given two roles.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "support.csv")
        >>> _ = path.write_text("text,label\\nA fine day,positive\\n", encoding="utf-8")
        >>> data = read_data(path)
        >>> data.texts, data.labels, data.rows
        (['A fine day'], ['positive'], [2])
    """
    name = os.fspath(source)
    given = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
    (table,) = open_tables(name)
    if of_label := label_column is None and label in table.columns:
        given["label_column"] = label
    with _labels_said(label if given["label_column"] is None else None):
        chosen = choose_columns(table, name, given, require_labels=require_labels)
    how = {"require_labels": require_labels or label_column is not None, "some_labels": some_labels}
    data = read_table(table, name, chosen, **how, lists=label is not None and not of_label)
    return data if label is None or label_column is not None else _of_label(data, label, chosen.label)


@contextmanager
def _labels_said(label: str | None) -> Iterator[None]:
    """Within it, an error about columns also says how a file holds the labels of a model with several."""
    try:
        yield
    except DataError as error:
        if label is None:
            raise
        raise DataError(f"{error}\nLabels are a column '{label}' with 0 and 1, or one column of lists.") from error


def _of_label(data: TextData, label: str, column: str | None) -> TextData:
    """Labels 0 and 1 from the column of a label, or lists from one that was guessed."""
    if data.labels is None:
        return data
    if column == label:
        read = [_YES_OR_NO.get(_whole(found).lower()) for found in data.labels]
        faults = [
            None if value is not None else f"is '{shortened(found)}', neither 0 nor 1"
            for value, found in zip(read, data.labels, strict=True)
        ]
        _raise_if(_problems(faults, f"the label in column '{label}'", data.source, data.rows, data.row_word))
        return replace(data, labels=cast(list[str], read))
    if not all(found.startswith("[") for found in data.labels if found):
        raise DataError(
            f"{data.source} has no column '{label}', and its column '{column}' holds no lists of labels. Add a column "
            f"'{label}' with 0 and 1, or name the one that has them with label_column=."
        )
    return data


def read_table(
    table: Table,
    name: str,
    chosen: Columns,
    *,
    require_labels: bool,
    some_labels: bool = False,
    lists: bool = False,
) -> TextData:
    """The texts, and labels where a column of them is chosen, of a table; what is wrong with any is a `DataError`."""
    columns = [column for column in (chosen.text, chosen.text_pair) if column is not None]
    values = [table.column(column) for column in columns]
    problems = [*table.problems]
    for column, column_values in zip(columns, values, strict=True):
        faults = map(_text_fault, column_values)
        problems += _problems(faults, f"the text in column '{column}'", name, table.rows, table.row_word)
    labels = None
    if chosen.label is not None:
        read = [_label(value, lists=lists) for value in table.column(chosen.label)]
        gaps = [None if some_labels and fault in _GAPS else fault for _, fault in read]
        if require_labels:
            problems += _problems(gaps, f"the label in column '{chosen.label}'", name, table.rows, table.row_word)
        labels = None if any(gaps) else [label for label, _ in read]
    _raise_if(problems)
    texts: Any = values[0] if chosen.text_pair is None else list(zip(*values, strict=True))
    return TextData(name, texts, labels, table.rows, table.row_word, chosen.text, chosen.text_pair)


def label_ids(
    labels: Sequence[str | int],
    label_names: Sequence[str],
    *,
    own_names: Sequence[str] = (),
    source: str = "labels",
    rows: Sequence[int] | None = None,
    row_word: str = "row",
) -> list[int]:
    """Class ids of labels that are written as the model's label names or as its class ids.

    If every label is one of `label_names`, they are names: compared exactly, else without regard to case where that
    leaves no doubt. Else, if every label is a class id ("0" to "C-1", as text or number), they are ids. Names win, so
    that for a model whose label names are "1" to "5" the label "1" is class 0. Whitespace around a label is ignored,
    and "1.0" is "1": a table with gaps has numbers for integers.

    Args:
        label_names: The model's C label names in the order of its class ids.
        own_names: Other names of theirs, which are tried before class ids.
        source: What the labels are called in messages, such as the file's name.
        rows: Where each label stands in `source`, for messages; without it positions counted from 0 are named.
        row_word: What `rows` counts: "line" or "row".

    Returns:
        N class ids in [0, C).

    Raises:
        DataError: Some labels fit neither reading; the message names their rows, what the model has, and the nearest
            label.

    Example:
        >>> label_ids(["positive", "Negative"], ["negative", "positive"]), label_ids(["1", 0], ["negative", "positive"])
        ([1, 0], [1, 0])
    """
    written = [_written(label, source, index) for index, label in enumerate(labels)]
    by_name = _by_name(label_names)
    known_ids = {str(index): index for index in range(len(label_names))}

    def by_id(label: str) -> int | None:
        return known_ids.get(_whole(label))

    for reading in (by_name, _by_name(own_names), by_id):
        ids = [reading(label) for label in written]
        if None not in ids:
            return cast(list[int], ids)
    where, word = (range(len(written)), "position") if rows is None else (rows, row_word)
    no_name, no_id = (
        grouped((row, label) for row, label in zip(where, written, strict=True) if reading(label) is None)
        for reading in (by_name, by_id)
    )
    problems = []
    for label in [label for label in no_name if label.casefold() in _NO_LABEL]:
        fault = _MISSING + (f" (it says '{label}')" if label else "")
        problems += _problems([fault] * len(no_id[label]), "the label", source, no_id.pop(label), word)
        del no_name[label]
    if no_name and no_id:
        problems += _unknown_labels(no_name, no_id, label_names, source, word)
    raise DataError("\n".join(problems))


def check_texts(texts: Iterable[str] | Iterable[tuple[str, str]], *, source: str = "texts") -> Texts:
    """Texts from memory as a plain list, once nothing is wrong with them.

    Args:
        texts: N texts, or N pairs (tuples or lists of two texts): a list, tuple, array or column, at least one.
        source: What the texts are called in messages.

    Returns:
        A new list of N strings or of N tuples of two strings.

    Raises:
        DataError: `texts` is a single string or not a sequence, has no entries, mixes texts with pairs, or holds
            something that is no text, an empty text or half a surrogate pair. One message names all such problems.

    Example:
        >>> check_texts([["It rains.", "It is wet."]])
        [('It rains.', 'It is wet.')]
    """
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        found = "a single string" if isinstance(texts, str) else f"of type {type(texts).__name__}"
        raise DataError(f"{source} must be a list of texts or of (text, text) pairs, but is {found}.")
    entries: list[Any] = list(texts)
    if not entries:
        raise DataError(f"{source} is empty; at least one text is needed.")
    where, word = range(len(entries)), "position"
    pairs = [index for index in where if isinstance(entries[index], tuple | list)]
    if not pairs:
        _raise_if(_problems(map(_text_fault, entries), "the text", source, where, word))
        return [str(entry) for entry in entries]
    problems = []
    if single := sorted({*where} - {*pairs}):
        what = "a single text among pairs"
        problems.append(sentence(source, single, word, what, "Give single texts or pairs, not a mixture."))
    if odd := [index for index in pairs if len(entries[index]) != 2]:
        problems.append(sentence(source, odd, word, "a pair must be exactly two texts", ""))
    _raise_if(problems)
    for side, which in enumerate(("first", "second")):
        faults = [_text_fault(entry[side]) for entry in entries]
        problems += _problems(faults, f"the {which} text of the pair", source, where, word)
    _raise_if(problems)
    return [(str(first), str(second)) for first, second in entries]


def read_shortcuts_file(path: str | Path) -> list[str]:
    """The shortcuts of a UTF-8 text file: one word or phrase on a line, blank lines and `#` comments left out.

    A comment starts with a `#` at the beginning of a line or after whitespace.

    Raises:
        DataError: The file is missing, unreadable or not UTF-8, or names no shortcut.
    """
    lines = read_utf8(Path(path), str(path)).splitlines()
    words = [re.sub(r"(^|\s)#.*", "", line).strip() for line in lines]
    if not any(words):
        raise DataError(f"{path} names no shortcut; write one word or phrase on each line.")
    return [word for word in words if word]


# Columns


def choose_columns(table: Table, source: str, given: Mapping[str, str | None], *, require_labels: bool) -> Columns:
    """The columns that are meant, by the rules of `read_data`.

    Args:
        table: The first records of the source, or all.
        given: The columns that are named by "text_column", "text_pair_column" and "label_column".
    """
    for name in {column for column in given.values() if column is not None}:
        twice = [role for role, column in given.items() if column == name]
        if len(twice) > 1:
            raise ConfigError(f"{' and '.join(twice)} are both '{name}'; each needs a column of its own.")
    columns = table.columns
    if not table.rows:
        _raise_if(table.problems)
        raise DataError(f"{source} has columns ({listed(columns)}) but no rows; at least one text is needed.")
    problems = [
        f"{source}: {option} is '{column}', but the columns are {listed(columns)}.{did_you_mean(column, columns)}"
        for option, column in given.items()
        if column is not None and column not in columns
    ]
    text, text_pair, label = (given[role] for role in ("text_column", "text_pair_column", "label_column"))
    if not problems and len(columns) == 1 and not any(given.values()):
        text = columns[0]
        if found := [name for mark, name in SEPARATORS.items() if mark in text]:
            raise DataError(
                f"{source} has one column, '{shortened(text)}', whose name holds {enumerated(found)}. If they separate "
                "columns, take the quotes off the lines; if this is a text, put the line 'text' above it; if it is a "
                "name, give it as text_column=."
            )
        if text.casefold() not in _TEXT_NAMES:
            warnings.warn(
                f"{source} has one column, which its first line calls '{shortened(text)}'. If that is already a text, "
                "put the line 'text' above it, or it will not be read.",
                GuardrailWarning,
                stacklevel=3,
            )
    elif not problems and text is None:
        others = [column for column in columns if column not in (text_pair, label)]
        guesses = _guess_text(others, text_pair)
        if len(guesses) == 1:
            text, text_pair = guesses[0]
        else:
            problems.append(_unclear("text", "text_column", guesses, columns, source))
    if label is None:
        labels = [name for name in columns if name.casefold() in _LABEL_NAMES and name not in (text, text_pair)]
        if len(labels) == 1:
            label = labels[0]
        elif require_labels:
            problems.append(_unclear("label", "label_column", [(name, None) for name in labels], columns, source))
    if problems or text is None:
        raise DataError("\n".join([*table.problems, *problems]))
    return Columns(text, text_pair, label)


def _guess_text(columns: list[str], text_pair: str | None) -> list[tuple[str, str | None]]:
    """All columns, or pairs of columns, that could be meant as the text; a column of a pair is no other candidate."""
    by_name = {column.casefold(): column for column in columns}
    if text_pair is not None:
        firsts = {first for first, second in _PAIR_NAMES if second == text_pair.casefold()}
        return [(column, text_pair) for name, column in by_name.items() if name in firsts | _TEXT_NAMES]
    pairs: list[tuple[str, str | None]] = [
        (by_name[first], by_name[second]) for first, second in _PAIR_NAMES if first in by_name and second in by_name
    ]
    paired = {column for pair in pairs for column in pair}
    return pairs + [(column, None) for name, column in by_name.items() if name in _TEXT_NAMES and column not in paired]


def _unclear(
    role: str, option: str, guesses: Sequence[tuple[str, str | None]], columns: Sequence[str], source: str
) -> str:
    names = listed(list(dict.fromkeys(name for guess in guesses for name in guess if name is not None)))
    found = f"more than one column could be the {role} ({names})" if guesses else f"no column is clearly the {role}"
    return f"{source}: {found}; the columns are {listed(columns)}. Name it with {option}=."


# Values


def _text_fault(value: Any) -> str | None:
    if value is None:
        return _MISSING
    if not isinstance(value, str):
        return f"is {kind_of(value)}, not a string"
    if not value.strip():
        return _EMPTY
    if len(value) > LONGEST_TEXT:
        return f"has {len(value):,} characters, more than the {LONGEST_TEXT:,} that are read; cut it"
    if not value.isascii() and _SURROGATE.search(value):
        return "holds half of a surrogate pair, which is no character"
    return None


def _problems(faults: Iterable[str | None], what: str, source: str, rows: Sequence[int], word: str) -> list[str]:
    """Each kind of problem is one sentence."""
    found = grouped((row, fault) for fault, row in zip(faults, rows, strict=True) if fault)
    problems = []
    for fault, where in found.items():
        advice = "Remove this row or fill it in." if len(where) == 1 else "Remove these rows or fill them in."
        problems.append(sentence(source, where, word, f"{what} {fault}", advice if fault.startswith(_GAPS) else ""))
    return problems


_OF_LISTS = "; of several labels for a text, name the one that is meant with label="


def _label(value: Any, *, lists: bool = False) -> tuple[str, str | None]:
    """A label as a string, so that 1 and 1.0 are both "1" and a gap is "", and what is wrong with it."""
    if value is None or value != value:  # NaN, a missing value, differs from itself
        return "", _MISSING
    if isinstance(value, bool):
        return str(value).lower(), None
    if isinstance(value, int | float):
        return str(int(value) if isinstance(value, float) and value.is_integer() else value), None
    if lists and isinstance(value, list):  # of several labels; who knows their names reads it
        return json.dumps(value, default=str), None
    if not isinstance(value, str):
        return "", f"is {kind_of(value)}, not a string or a number{_OF_LISTS * isinstance(value, list)}"
    return (value, None) if value.strip() else ("", _MISSING)


# Labels


def _by_name(label_names: Sequence[str]) -> Callable[[str], int | None]:
    exact = [_whole(name.strip()) for name in label_names]
    folded = [name.casefold() for name in exact]
    names = {name: index for index, name in enumerate(exact) if exact.count(name) == 1}
    names_in_any_case = {name: index for index, name in enumerate(folded) if folded.count(name) == 1}
    return lambda label: names.get(_whole(label), names_in_any_case.get(_whole(label).casefold()))


def _whole(label: str) -> str:
    """The integer for a whole number that is written with decimals, and all else as it is."""
    number = _WHOLE.fullmatch(label)
    return str(int(number[1])) if number else label


def _written(label: Any, source: str, index: int) -> str:
    if isinstance(label, str) or label is None:
        return (label or "").strip()
    if not isinstance(label, bool) and (hasattr(label, "__index__") or isinstance(label, Real)):
        return str(operator.index(label) if hasattr(label, "__index__") else label)
    raise DataError(f"{source}, position {index}: a label must be a string or a whole number, but is {label!r}.")


def _unknown_labels(
    no_name: Mapping[str, Sequence[int]],
    no_id: Mapping[str, Sequence[int]],
    label_names: Sequence[str],
    source: str,
    word: str,
) -> list[str]:
    """What is wrong with labels: the rows of those that are no names, and of those that are no class ids."""
    # The reading that more labels fit is the one that was meant.
    as_names = sum(map(len, no_name.values())) <= sum(map(len, no_id.values()))
    kind = "label" if as_names else "class id"
    known = list(label_names) if as_names else [f"{index} {name}" for index, name in enumerate(label_names)]
    problems = []
    for label, at in (no_name if as_names else no_id).items():
        what = f"the model has no {kind} '{shortened(label)}' (it has: {enumerated(known)})"
        too_high = "Class ids start at 0." if label == str(len(label_names)) else ""
        near = did_you_mean(label, label_names).lstrip()
        problems.append(sentence(source, at, word, what, near if as_names else too_high))
    problems = first_few(problems)
    if not no_name.keys() & no_id.keys():
        problems.append("Write all labels as names or all as class ids, not a mixture.")
    return problems


def _raise_if(problems: list[str]) -> None:
    if problems:
        raise DataError("\n".join(problems))
