"""Opens a data file or a Hub data set as a table, and says in sentences what is wrong with its form.

Neither torch nor transformers is imported here, and pyarrow and datasets only for the sources that need them.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, DataError
from .messages import counted, first_few, kind_of, listed, one_line, sentence, shortened

_FORMATS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".jsonl": "JSON Lines",
    ".ndjson": "JSON Lines",
    ".json": "JSON Lines",
    ".parquet": "Parquet",
}

_HUB_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*(/[\w.-]+)?)(:(?P<split>\w[\w.-]*))?", re.ASCII)


@dataclass(frozen=True)
class Table:
    """A source whose columns are known.

    Attributes:
        columns: Their names.
        rows: Where each record stands in the source, from 1.
        row_word: "line" or "row", whichever `rows` counts.
        column: Gives the values of one column, which for CSV are all strings.
        problems: Sentences about records that could not be read.
    """

    columns: list[str]
    rows: list[int]
    row_word: str
    column: Callable[[str], list[Any]]
    problems: list[str]


def open_table(name: str, split: str | None) -> Table:
    """The table of a file, by its suffix, or of a Hub data set.

    Args:
        name: The file or data set, as the user named it; "owner/name:split" names a split as well.
        split: The split of a Hub data set; without it "test", else the only one.

    Raises:
        DataError: It cannot be found or read, or two of its columns have one name.
        ConfigError: A split is named for a file, or another one in the name of the data set.
    """
    path = Path(name)
    suffix = path.suffix.lower()
    if not name.strip():
        raise DataError("The name of the data file is empty.")
    if path.is_dir():
        raise DataError(f"{name} is a folder; name a file in it.")
    exists = os.path.exists(name)
    if not exists and suffix not in _FORMATS and (hub := _HUB_NAME.fullmatch(name)):
        return _read_hub(hub["name"], _one_split(hub["split"], split))
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


def _read_csv(text: str, source: str, delimiter: str) -> Table:
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
    what = f"where the header names {counted(len(header), 'field')}"
    advice = "Put fields that hold a delimiter, a quote or a line break in quotes."
    problems = [
        sentence(source, where, "line", f"{counted(count, 'field')} {what}", advice) for count, where in counts.items()
    ]

    def column(name: str) -> list[str]:
        index = header.index(name)
        return [record[index] for record in kept]

    return Table(header, kept_lines, "line", column, first_few(problems))


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
                f"{source}, line 1: one column, '{shortened(header[0])}', which holds {name}; the columns of this "
                f"format are separated by {wanted}. Save it with {wanted}{rename}."
            )


def _check_unique(columns: Sequence[str], source: str) -> None:
    # Spreadsheets write unnamed columns for trailing delimiters; those cannot be meant, so they may repeat.
    twice = [column for column in dict.fromkeys(columns) if column and columns.count(column) > 1]
    if twice:
        raise DataError(f"{source}: several columns are called {listed(twice)}. Give each column its own name.")


class _DuplicateKeyError(ValueError):
    """A JSON object names a key twice."""


def unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json.loads`: an object, unless it names a key twice, which is a `ValueError`."""
    record = dict(items)
    if len(record) < len(items):
        keys = [key for key, _ in items]
        raise _DuplicateKeyError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' occurs twice")
    return record


def _read_json_lines(text: str, source: str) -> Table:
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
            record = json.loads(written, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            problems.append(f"{source}, line {line}: not a JSON object on one line ({reason}).")
            continue
        if isinstance(record, dict):
            records.append(record)
            rows.append(line)
        else:
            problems.append(f"{source}, line {line}: {kind_of(record)}, but each line must be a JSON object.")
    columns = list(dict.fromkeys(key for record in records for key in record))
    return Table(columns, rows, "line", lambda name: [record.get(name) for record in records], first_few(problems))


def _read_parquet(path: Path, source: str) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns = list(file.schema_arrow.names)
            count = file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{source} cannot be read as Parquet ({one_line(error)}).") from error
    _check_unique(columns, source)

    def column(name: str) -> list[Any]:
        try:
            with pq.ParquetFile(path) as file:
                values: list[Any] = file.read(columns=[name]).column(name).to_pylist()
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(f"{source}: column '{name}' cannot be read ({one_line(error)}).") from error
        return values

    return Table(columns, list(range(1, count + 1)), "row", column, [])


def _read_hub(name: str, split: str | None) -> Table:
    import datasets

    try:
        loaded = datasets.load_dataset(name, split=split)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        near = _near_files(Path(name))
        raise DataError(
            f"'{name}' is neither a file nor a Hub data set that can be reached and read ({one_line(error)}).{near}"
        ) from error
    if isinstance(loaded, dict):
        loaded = loaded[_choose_split(list(loaded), name)]
    rows = list(range(1, len(loaded) + 1))
    return Table(list(loaded.column_names), rows, "row", lambda column: list(loaded[column]), [])


def _one_split(named: str | None, split: str | None) -> str | None:
    if named and split and named != split:
        raise ConfigError(f"split is '{split}', but the name of the data set ends in ':{named}'. Name one of them.")
    return named or split


def _choose_split(splits: list[str], name: str) -> str:
    if "test" in splits:
        return "test"
    if len(splits) == 1:
        return splits[0]
    raise DataError(
        f"The data set '{name}' has several splits and no 'test': {listed(splits)}. Name one, as in "
        f"'{name}:{splits[0]}'."
    )


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
    return f" Did you mean {listed([names[name] for name in near], 'or')}?" if near else ""


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


def _line_of(raw: bytes, offset: int) -> int:
    return len(re.findall(rb"\r\n|\r|\n", raw[:offset])) + 1
