"""Reads texts, text pairs and labels from a file or a Hub data set, and says in sentences what is wrong with them.

Everything a person can get wrong in a file is refused here, with its line, before a model is loaded. So this module
imports neither torch nor transformers, and pyarrow and datasets only for the sources that need them.
"""

import codecs
import csv
import difflib
import io
import json
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning

Texts: TypeAlias = list[str] | list[tuple[str, str]]
"""N single texts, or N pairs of texts; never a mixture."""

_SHOWN = 5  # how many lines, values or problems a message names before it only counts
_FORMATS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".jsonl": "JSON Lines",
    ".ndjson": "JSON Lines",
    ".json": "JSON Lines",
    ".parquet": "Parquet",
}
_MISSING, _EMPTY = _GAPS = ("is missing", "is empty")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)

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
        labels: N labels as written in the source, still strings; `label_ids` turns them into class ids. None when there
            is no label column.
        rows: Where each record stands in the source, counted from 1: the line on which it starts, or for Parquet and
            the Hub its row.
        row_word: "line" or "row", whichever `rows` counts.
        text_column: The column the texts come from, or the first texts of pairs.
        text_pair_column: The column the second texts come from; None for single texts.
        label_column: The column the labels come from; None when there is none.
    """

    source: str
    texts: Texts
    labels: list[str] | None
    rows: list[int]
    row_word: str
    text_column: str
    text_pair_column: str | None
    label_column: str | None

    def __len__(self) -> int:
        """The number of records, N."""
        return len(self.texts)


@dataclass(frozen=True)
class _Table:
    """A source whose columns are known; `column` gives the values of one, which for CSV are all strings."""

    columns: list[str]
    rows: list[int]
    row_word: str
    column: Callable[[str], list[Any]]
    problems: list[str]


@dataclass(frozen=True)
class _Columns:
    text: str
    text_pair: str | None
    label: str | None


def read_data(
    source: str | Path,
    *,
    text_column: str | None = None,
    text_pair_column: str | None = None,
    label_column: str | None = None,
    require_labels: bool = False,
    split: str | None = None,
) -> TextData:
    """Reads texts, and labels where there are any, from CSV, TSV, JSON Lines or Parquet or from the Hub.

    Text stays text: a column of digits, "NA" or "null" is not interpreted. Quoting in CSV and TSV is RFC 4180's (a
    quote inside a quoted field is doubled). Blank lines are skipped, except that a blank line between the rows of a
    one-column file is an empty text.

    A column that is not named is guessed when exactly one fits: a text by names such as "text", "sentence" or
    "review", a pair by names such as "premise" and "hypothesis", a label by names such as "label" or "target", without
    regard to case. The only column of a file is its text. With `text_column` named and no pair, texts are single.

    Args:
        source: A path, its format given by the suffix (.csv, .tsv, .jsonl, .ndjson, .json, .parquet); or, where no such
            file exists and the name has none of these suffixes, a Hub data set such as "owner/name".
        text_column: The column with the text, or with the first text of pairs.
        text_pair_column: The column with the second text of pairs.
        label_column: The column with the labels.
        require_labels: Refuse a source without a label for each record. Otherwise a label column that is only guessed
            and has gaps, or is not the only candidate, counts as no label column.
        split: The split of a Hub data set; without it "test", else the only one.

    Returns:
        At least one record, in the order of the source.

    Raises:
        DataError: The source cannot be found or read, its columns are missing or ambiguous, or a record is malformed
            or has an empty text or label. One message names all problems, each with its first lines and the total.
        ConfigError: One column is given two roles, or a split is named for a file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "support.csv")
        >>> _ = path.write_text("text,label\\nA fine day,positive\\n", encoding="utf-8")
        >>> data = read_data(path)
        >>> data.texts, data.labels, data.rows
        (['A fine day'], ['positive'], [2])
    """
    name = os.fspath(source)
    _check_roles(text_column, text_pair_column, label_column)
    table = _open_table(name, split)
    if not table.rows:
        _raise_if(table.problems)
        raise DataError(f"{name} has columns ({_listed(table.columns)}) but no rows; at least one text is needed.")
    chosen = _choose_columns(table, name, text_column, text_pair_column, label_column, require_labels)
    problems = list(table.problems)
    columns = [chosen.text] if chosen.text_pair is None else [chosen.text, chosen.text_pair]
    values = [table.column(column) for column in columns]
    for column, column_values in zip(columns, values, strict=True):
        problems += _text_problems(column_values, f"the text in column '{column}'", name, table.rows, table.row_word)
    labels, label_problems = _read_labels(table, chosen.label, name, require_labels or label_column is not None)
    problems += label_problems
    if problems:
        raise DataError("\n".join(problems))
    texts = values[0] if chosen.text_pair is None else list(zip(*values, strict=True))
    label_used = None if labels is None else chosen.label
    return TextData(name, texts, labels, table.rows, table.row_word, chosen.text, chosen.text_pair, label_used)


def label_ids(
    labels: Sequence[str | int],
    label_names: Sequence[str],
    *,
    source: str = "labels",
    rows: Sequence[int] | None = None,
    row_word: str = "row",
) -> list[int]:
    """Class ids of labels that are written as the model's label names or as its class ids.

    If every label is one of `label_names`, they are names: compared exactly, else without regard to case where that
    leaves no doubt. Else, if every label is a class id ("0" to "C-1", as text or integer), they are ids. Names win, so
    that for a model whose label names are "1" to "5" the label "1" is class 0. Whitespace around a label is ignored.

    Args:
        labels: N labels.
        label_names: The model's C label names in the order of its class ids.
        source: What the labels are called in messages, such as the file's name.
        rows: Where each label stands in `source`, for messages; without it positions counted from 0 are named.
        row_word: What `rows` counts: "line" or "row".

    Returns:
        N class ids in [0, C).

    Raises:
        DataError: Some labels fit neither reading; the message names them with their rows, what the model has, and the
            nearest label.

    Example:
        >>> label_ids(["positive", "Negative"], ["negative", "positive"]), label_ids(["1", 0], ["negative", "positive"])
        ([1, 0], [1, 0])
    """
    written = [_written(label, source, index) for index, label in enumerate(labels)]
    by_name, by_id = _as_names(label_names), _as_ids(len(label_names))
    for reading in (by_name, by_id):
        ids = [reading(label) for label in written]
        if None not in ids:
            return cast(list[int], ids)
    where = range(len(written)) if rows is None else rows
    word = "position" if rows is None else row_word
    unknown_names, unknown_ids = (_unknown(written, reading, where) for reading in (by_name, by_id))
    # The reading that more labels fit is the one that was meant.
    if sum(map(len, unknown_names.values())) <= sum(map(len, unknown_ids.values())):
        problems = _unknown_names(unknown_names, label_names, source, word)
    else:
        problems = _unknown_ids(unknown_ids, label_names, source, word)
    if not unknown_names.keys() & unknown_ids.keys():
        problems.append("Write all labels as names or all as class ids, not a mixture.")
    raise DataError("\n".join(problems))


def check_texts(
    texts: Iterable[str] | Iterable[tuple[str, str]], *, source: str = "texts", rows: Sequence[int] | None = None
) -> Texts:
    """Texts from memory as a plain list, once nothing is wrong with them.

    Args:
        texts: N texts, or N pairs (tuples or lists of two texts): a list, tuple, array or column, at least one.
        source: What the texts are called in messages.
        rows: Where each text stands in `source`; without it positions counted from 0 are named.

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
    where = range(len(entries)) if rows is None else rows
    word = "position" if rows is None else "row"
    pairs = [index for index, entry in enumerate(entries) if isinstance(entry, tuple | list)]
    if not pairs:
        _raise_if(_text_problems(entries, "the text", source, where, word))
        return [str(entry) for entry in entries]
    _raise_if(_shape_problems(entries, set(pairs), source, where, word))
    firsts, seconds = ([entry[side] for entry in entries] for side in (0, 1))
    problems = _text_problems(firsts, "the first text of the pair", source, where, word)
    _raise_if(problems + _text_problems(seconds, "the second text of the pair", source, where, word))
    return [(str(first), str(second)) for first, second in zip(firsts, seconds, strict=True)]


def read_utf8(path: Path, source: str) -> str:
    """The content of a text file, which must be UTF-8, without its byte order mark and with its line ends as they are.

    Args:
        path: The file.
        source: What to call it in messages.

    Raises:
        DataError: The file is missing (near names in its folder are suggested), a folder, unreadable, not UTF-8, or
            holds NUL bytes; the last two name the line.
    """
    if path.is_dir():
        raise DataError(f"{source} is a folder; name a file in it.")
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataError(_missing_file(path, source)) from None
    except OSError as error:
        raise DataError(f"{source} cannot be read ({error.strerror or error}).") from error
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(f"{source} is UTF-16, but UTF-8 is needed. Save it again as UTF-8 (in Excel: 'CSV UTF-8').")
    if (nul := raw.find(b"\0")) >= 0:
        raise DataError(f"{source}, line {_line_of(raw, nul)}: a NUL byte; this is no text file, or a damaged one.")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source}, line {_line_of(raw, error.start)}: byte 0x{raw[error.start]:02x} is not UTF-8. "
            "Convert the file to UTF-8 (for example with: iconv -f WINDOWS-1252 -t UTF-8)."
        ) from error


# Sources


def _open_table(name: str, split: str | None) -> _Table:
    path = Path(name)
    suffix = path.suffix.lower()
    if not name.strip():
        raise DataError("The name of the data file is empty.")
    if path.is_dir():
        raise DataError(f"{name} is a folder; name a file in it.")
    exists = os.path.exists(name)
    if not exists and suffix not in _FORMATS and _HUB_NAME.fullmatch(name):
        return _read_hub(name, split)
    if not exists:
        raise DataError(_missing_file(path, name))
    if suffix not in _FORMATS:
        found = f"the suffix '{path.suffix}' names no format that can be read" if suffix else "a suffix is missing"
        raise DataError(f"{name}: {found}. Use one of {', '.join(_FORMATS)}.")
    if split is not None:
        raise ConfigError(f"split is '{split}', but {name} is a file; only Hub data sets have splits.")
    if suffix == ".parquet":
        return _read_parquet(path, name)
    text = read_utf8(path, name)
    if not text.strip():
        raise DataError(f"{name} is empty; a {_FORMATS[suffix]} file with at least one text is needed.")
    if suffix in (".csv", ".tsv"):
        return _read_csv(text, name, "," if suffix == ".csv" else "\t")
    return _read_json_lines(text, name)


def _read_csv(text: str, source: str, delimiter: str) -> _Table:
    lines, records = _parse_csv(text, source, delimiter)
    header = [column.strip() for column in records[0]]
    _check_header(header, source, delimiter)
    counts: dict[int, list[int]] = {}
    kept, kept_lines = [], []
    for line, record in zip(lines[1:], records[1:], strict=True):
        if len(record) == len(header):
            kept.append(record)
            kept_lines.append(line)
        elif record:
            counts.setdefault(len(record), []).append(line)
        elif len(header) == 1:
            kept.append([""])
            kept_lines.append(line)
    what = f"where the header names {_count(len(header), 'field')}"
    advice = "Put fields that hold a delimiter, a quote or a line break in quotes."
    problems = [
        _problem(source, where, "line", f"{_count(count, 'field')} {what}", advice) for count, where in counts.items()
    ]

    def column(name: str) -> list[str]:
        index = header.index(name)
        return [record[index] for record in kept]

    return _Table(header, kept_lines, "line", column, _first(problems))


def _parse_csv(text: str, source: str, delimiter: str) -> tuple[list[int], list[list[str]]]:
    """Records and the line each starts on, from the first that is not blank to the last that is not."""
    lines: list[int] = []
    records: list[list[str]] = []
    start = 1
    with large_fields(len(text)):
        # Strict: a stray quote is an error rather than a field that quietly swallows the lines after it.
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            for record in reader:
                if record or records:
                    lines.append(start)
                    records.append(record)
                start = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{source}, line {start}: the quotes of the record that starts here do not match ({error}). "
                'A field that holds a quote is put in quotes, and the quote inside it is doubled: "say ""hi""".'
            ) from error
    while not records[-1]:
        records.pop()
        lines.pop()
    return lines, records


@contextmanager
def large_fields(size: int) -> Iterator[None]:
    """Lets csv read fields of up to `size` characters; the limit is the whole process's, so it is put back."""
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, min(size, sys.maxsize, 2**31 - 1)))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _check_header(header: list[str], source: str, delimiter: str) -> None:
    _check_unique(header, source)
    if len(header) > 1:
        return
    for other, name, suffix in ((";", "semicolons", None), ("\t", "tabs", ".tsv"), (",", "commas", ".csv")):
        if other != delimiter and other in header[0]:
            wanted = "commas" if delimiter == "," else "tabs"
            rename = f", or give the file the suffix {suffix}" if suffix else ""
            raise DataError(
                f"{source}, line 1: one column, '{_short(header[0])}', which holds {name}; the columns of this format "
                f"are separated by {wanted}. Save it with {wanted}{rename}."
            )


def _check_unique(columns: Sequence[str], source: str) -> None:
    # Spreadsheets write unnamed columns for trailing delimiters; those cannot be meant, so they may repeat.
    twice = [column for column in dict.fromkeys(columns) if column and columns.count(column) > 1]
    if twice:
        raise DataError(f"{source}: several columns are called {_listed(twice)}. Give each column its own name.")


class _DuplicateKeyError(ValueError):
    """A JSON object names a key twice."""


def _unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(items)
    if len(record) < len(items):
        keys = [key for key, _ in items]
        raise _DuplicateKeyError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' occurs twice")
    return record


def _read_json_lines(text: str, source: str) -> _Table:
    if text.lstrip().startswith("["):
        raise DataError(f"{source} is one JSON array, but JSON Lines is needed: one object on each line.")
    rows: list[int] = []
    records: list[dict[str, Any]] = []
    problems: list[str] = []
    # StringIO breaks lines at line feeds and carriage returns only; str.splitlines would also break inside texts.
    for line, written in enumerate(io.StringIO(text, newline=None), start=1):
        if not written.strip():
            continue
        try:
            record = json.loads(written, object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            problems.append(f"{source}, line {line}: not a JSON object on one line ({reason}).")
            continue
        if isinstance(record, dict):
            records.append(record)
            rows.append(line)
        else:
            problems.append(f"{source}, line {line}: {_kind(record)}, but each line must be a JSON object.")
    columns = list(dict.fromkeys(key for record in records for key in record))
    return _Table(columns, rows, "line", lambda name: [record.get(name) for record in records], _first(problems))


def _read_parquet(path: Path, source: str) -> _Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns = list(file.schema_arrow.names)
            count = file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{source} cannot be read as Parquet ({_one_line(error)}).") from error
    _check_unique(columns, source)

    def column(name: str) -> list[Any]:
        try:
            with pq.ParquetFile(path) as file:
                values: list[Any] = file.read(columns=[name]).column(name).to_pylist()
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(f"{source}: column '{name}' cannot be read ({_one_line(error)}).") from error
        return values

    return _Table(columns, list(range(1, count + 1)), "row", column, [])


def _read_hub(name: str, split: str | None) -> _Table:
    import datasets

    try:
        loaded = datasets.load_dataset(name, split=split)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        near = _near_files(Path(name))
        raise DataError(
            f"'{name}' is neither a file nor a Hub data set that can be reached and read ({_one_line(error)}).{near}"
        ) from error
    if isinstance(loaded, dict):
        loaded = loaded[_choose_split(list(loaded), name)]
    rows = list(range(1, len(loaded) + 1))
    return _Table(list(loaded.column_names), rows, "row", lambda column: list(loaded[column]), [])


def _choose_split(splits: list[str], name: str) -> str:
    if "test" in splits:
        return "test"
    if len(splits) == 1:
        return splits[0]
    raise DataError(f"The data set '{name}' has several splits and no 'test': {_listed(splits)}. Name one with split.")


def _missing_file(path: Path, source: str) -> str:
    if not path.parent.is_dir():
        return f"There is no file {source}: its folder, {path.parent}, does not exist."
    return f"There is no file {source}.{_near_files(path)}"


def _near_files(path: Path) -> str:
    try:
        names = {entry.name.casefold(): entry.name for entry in path.parent.iterdir() if entry.is_file()}
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name.casefold(), names, n=3)
    return f" Did you mean {_listed([names[name] for name in near], 'or')}?" if near else ""


# Columns


def _check_roles(text_column: str | None, text_pair_column: str | None, label_column: str | None) -> None:
    roles = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
    for name in {column for column in roles.values() if column is not None}:
        twice = [role for role, column in roles.items() if column == name]
        if len(twice) > 1:
            raise ConfigError(f"{' and '.join(twice)} are both '{name}'; each needs a column of its own.")


def _choose_columns(
    table: _Table,
    source: str,
    text_column: str | None,
    text_pair_column: str | None,
    label_column: str | None,
    require_labels: bool,
) -> _Columns:
    columns = table.columns
    given = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
    problems = [
        _no_such_column(option, column, columns, source)
        for option, column in given.items()
        if column is not None and column not in columns
    ]
    text, text_pair = text_column, text_pair_column
    if not problems and len(columns) == 1 and not any(given.values()):
        text = columns[0]
        _warn_of_a_lone_name(text, source)
    elif not problems and text is None:
        others = [column for column in columns if column not in (text_pair, label_column)]
        guesses = _guess_text(others) if text_pair is None else _guess_partner(others, text_pair)
        if len(guesses) == 1:
            text, text_pair = guesses[0]
        else:
            problems.append(_unclear("text", "text_column", guesses, columns, source))
    label = label_column
    if label is None:
        labels = [name for name in columns if name.casefold() in _LABEL_NAMES and name not in (text, text_pair)]
        if len(labels) == 1:
            label = labels[0]
        elif require_labels:
            problems.append(_unclear("label", "label_column", [(name, None) for name in labels], columns, source))
    if problems or text is None:
        raise DataError("\n".join([*table.problems, *problems]))
    return _Columns(text, text_pair, label)


def _guess_text(columns: list[str]) -> list[tuple[str, str | None]]:
    """All columns, or pairs of columns, that could be meant as the text; a column of a pair is no other candidate."""
    by_name = {column.casefold(): column for column in columns}
    pairs: list[tuple[str, str | None]] = [
        (by_name[first], by_name[second]) for first, second in _PAIR_NAMES if first in by_name and second in by_name
    ]
    paired = {column for pair in pairs for column in pair}
    singles = [column for column in columns if column.casefold() in _TEXT_NAMES and column not in paired]
    return pairs + [(column, None) for column in singles]


def _guess_partner(columns: list[str], text_pair: str) -> list[tuple[str, str | None]]:
    firsts = {first for first, second in _PAIR_NAMES if second == text_pair.casefold()}
    partners = [column for column in columns if column.casefold() in firsts]
    texts = partners or [column for column in columns if column.casefold() in _TEXT_NAMES]
    return [(column, text_pair) for column in texts]


def _warn_of_a_lone_name(text: str, source: str) -> None:
    if text.casefold() not in _TEXT_NAMES:
        warnings.warn(
            f"{source} has one column, which its first line calls '{_short(text)}'. If that is already a text, put the "
            "line 'text' above it, or it will not be read.",
            GuardrailWarning,
            stacklevel=4,
        )


def _no_such_column(option: str, column: str, columns: Sequence[str], source: str) -> str:
    folded = {name.casefold(): name for name in columns}
    near = difflib.get_close_matches(column.casefold(), folded, n=1)
    advice = f" Did you mean '{folded[near[0]]}'?" if near else ""
    return f"{source}: {option} is '{column}', but the columns are {_listed(columns)}.{advice}"


def _unclear(
    role: str, option: str, guesses: Sequence[tuple[str, str | None]], columns: Sequence[str], source: str
) -> str:
    names = _listed(list(dict.fromkeys(name for guess in guesses for name in guess if name is not None)))
    found = f"more than one column could be the {role} ({names})" if guesses else f"no column is clearly the {role}"
    advice = f"Name it with {option} (--{option.replace('_', '-')} on the command line)."
    return f"{source}: {found}; the columns are {_listed(columns)}. {advice}"


# Values


def _text_problems(values: Sequence[Any], what: str, source: str, rows: Sequence[int], word: str) -> list[str]:
    """Sentences about the values that are no texts to work with; each kind of problem is one sentence."""
    return _fault_sentences([_text_fault(value) for value in values], what, source, rows, word)


def _text_fault(value: Any) -> str | None:
    if value is None:
        return _MISSING
    if not isinstance(value, str):
        return f"is {_kind(value)}, not a string"
    if not value.strip():
        return _EMPTY
    if not value.isascii() and _SURROGATE.search(value):
        return "holds half of a surrogate pair, which is no character"
    return None


def _fault_sentences(faults: Sequence[str | None], what: str, source: str, rows: Sequence[int], word: str) -> list[str]:
    where: dict[str, list[int]] = {}
    for fault, row in zip(faults, rows, strict=True):
        if fault:
            where.setdefault(fault, []).append(row)
    return [
        _problem(source, places, word, f"{what} {fault}", _remove(len(places)) if fault in _GAPS else "")
        for fault, places in where.items()
    ]


def _remove(count: int) -> str:
    return "Remove this row or fill it in." if count == 1 else "Remove these rows or fill them in."


def _shape_problems(entries: list[Any], pairs: set[int], source: str, rows: Sequence[int], word: str) -> list[str]:
    """What keeps entries from being pairs all through, given that those at the positions `pairs` look like pairs."""
    single = [rows[index] for index in range(len(entries)) if index not in pairs]
    sizes = [rows[index] for index in sorted(pairs) if len(entries[index]) != 2]
    problems = []
    if single:
        what = "a single text among pairs"
        problems.append(_problem(source, single, word, what, "Give single texts or pairs, not a mixture."))
    if sizes:
        problems.append(_problem(source, sizes, word, "a pair must be exactly two texts", ""))
    return problems


def _read_labels(table: _Table, column: str | None, source: str, required: bool) -> tuple[list[str] | None, list[str]]:
    if column is None:
        return None, []
    labels = [_label_text(value) for value in table.column(column)]
    faults = [_label_fault(label) for label in labels]
    if not any(faults):
        return cast(list[str], labels), []
    if not required:
        return None, []
    return None, _fault_sentences(faults, f"the label in column '{column}'", source, table.rows, table.row_word)


def _label_text(value: Any) -> Any:
    """A label as a string, where it is one or a number, so that 1 and 1.0 are both "1"; else the value as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and value == value:  # NaN, a missing value, differs from itself
        return str(value)
    return value


def _label_fault(label: Any) -> str | None:
    if label is None or isinstance(label, float):  # a float that is left is NaN
        return _MISSING
    if not isinstance(label, str):
        return f"is {_kind(label)}, not a string or a number"
    return None if label.strip() else _EMPTY


# Labels


def _written(label: Any, source: str, index: int) -> str:
    if isinstance(label, str):
        return label.strip()
    if not isinstance(label, bool):
        try:
            return str(operator.index(label))
        except TypeError:
            pass
    raise DataError(f"{source}, position {index}: a label must be a string or an integer, but is {label!r}.")


def _as_names(label_names: Sequence[str]) -> Callable[[str], int | None]:
    """Reads a label as one of the names; None where it is none of them, or one of several that differ in case only."""
    exact = [name.strip() for name in label_names]
    folded = [name.casefold() for name in exact]
    by_name = {name: index for index, name in enumerate(exact) if exact.count(name) == 1}
    by_folded = {name: index for index, name in enumerate(folded) if folded.count(name) == 1}

    def read(label: str) -> int | None:
        return by_name.get(label, by_folded.get(label.casefold()))

    return read


def _as_ids(count: int) -> Callable[[str], int | None]:
    return {str(index): index for index in range(count)}.get


def _unknown(labels: Sequence[str], reading: Callable[[str], int | None], rows: Sequence[int]) -> dict[str, list[int]]:
    """The rows of each label that a reading does not know."""
    unknown: dict[str, list[int]] = {}
    for label, row in zip(labels, rows, strict=True):
        if reading(label) is None:
            unknown.setdefault(label, []).append(row)
    return unknown


def _unknown_names(
    unknown: Mapping[str, Sequence[int]], label_names: Sequence[str], source: str, word: str
) -> list[str]:
    has = f"(it has: {_enumerated(label_names)})"
    folded = {name.casefold(): name for name in label_names}
    problems = []
    for label, rows in unknown.items():
        near = difflib.get_close_matches(label.casefold(), folded, n=1)
        advice = f"Did you mean '{folded[near[0]]}'?" if near else ""
        problems.append(_problem(source, rows, word, f"the model has no label '{_short(label)}' {has}", advice))
    return _first(problems)


def _unknown_ids(unknown: Mapping[str, Sequence[int]], label_names: Sequence[str], source: str, word: str) -> list[str]:
    has = f"(it has: {_enumerated([f'{index} {name}' for index, name in enumerate(label_names)])})"
    problems = []
    for label, rows in unknown.items():
        advice = "Class ids start at 0." if label == str(len(label_names)) else ""
        problems.append(_problem(source, rows, word, f"the model has no class id '{_short(label)}' {has}", advice))
    return _first(problems)


# Sentences


def _problem(source: str, rows: Sequence[int], word: str, what: str, advice: str) -> str:
    return f"{source}, {_places(rows, word)}: {what}. {advice}".rstrip()


def _places(rows: Sequence[int], word: str) -> str:
    shown = [str(row) for row in rows[:_SHOWN]]
    if len(rows) == 1:
        return f"{word} {shown[0]}"
    if len(rows) > _SHOWN:
        return f"{word}s {', '.join(shown)} and {len(rows) - _SHOWN} more ({len(rows)} in all)"
    return f"{word}s {', '.join(shown[:-1])} and {shown[-1]}"


def _first(problems: list[str]) -> list[str]:
    if len(problems) <= _SHOWN:
        return problems
    return [*problems[:_SHOWN], f"... and {len(problems) - _SHOWN} more of this kind ({len(problems)} in all)."]


def _listed(names: Sequence[str], last: str = "and") -> str:
    quoted = [f"'{_short(name)}'" for name in names[:20]]
    if len(names) > 20:
        quoted.append(f"{len(names) - 20} more")
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}" if len(quoted) > 1 else "".join(quoted) or "none"


def _enumerated(names: Sequence[str]) -> str:
    more = [f"and {len(names) - 20} more"] if len(names) > 20 else []
    return ", ".join([*names[:20], *more])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else noun + 's'}"


def _short(value: str, length: int = 60) -> str:
    return value if len(value) <= length else value[: length - 3] + "..."


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", tuple: "a tuple", str: "a string", bool: "true or false"}
    if type(value) in names:
        return names[type(value)]
    return "a number" if isinstance(value, int | float) else f"a value of type {type(value).__name__}"


def _one_line(error: BaseException) -> str:
    return _short(" ".join(str(error).split()), 200) or type(error).__name__


def _line_of(raw: bytes, offset: int) -> int:
    return len(re.findall(rb"\r\n|\r|\n", raw[:offset])) + 1


def _raise_if(problems: list[str]) -> None:
    if problems:
        raise DataError("\n".join(problems))
