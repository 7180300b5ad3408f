"""Reads data files and Hub data sets as tables, and says in sentences what is wrong with their form.

Each format has one reader, which goes through a file record by record. A whole file is one table and a file in pieces
is several, so that both are held to the same rules. Neither torch nor transformers is imported here, and pyarrow and
datasets only for the sources that need them.
"""

import csv
import difflib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from glob import escape, glob, has_magic
from io import TextIOWrapper
from itertools import chain, count, islice, tee
from pathlib import Path
from typing import Any, TextIO, cast

from ..errors import DataError
from .messages import counted, first_few, grouped, kind_of, listed, nested, one_line, sentence, shortened
from .remote import RemoteFile, place_of, public_name

FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
"""What may stand behind the other suffix, as in texts.csv.gz; Parquet is compressed within."""

LONGEST_LINE = 2**24
"""In characters, also of a field of several lines: a file without line ends is not to fill the memory."""

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
LOOKED_AT = 20
"""Rows that tell which of them it is, where the header does not."""

_BLOCK = 2**16  # characters that are read at a time where a file need not have lines
_SPACE = re.compile(r"[ \t\n\r]*")
_LIST = re.compile(r'(\{\s*"[^"\\\x00-\x1f]*"\s*:\s*)?\[')
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_HUB_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*(/[\w.-]+)?)(:(?P<split>\w[\w.-]*(\[[\w:%-]*\])?))?", re.ASCII)


@dataclass(frozen=True)
class Table:
    """Records that stand one after the other in a source.

    Attributes:
        columns: Their names; for JSON those that these records have.
        rows: Where each record stands in the source, from 1, counted in what `row_word` says.
        column: Gives the values of one column, which for CSV are all strings; to be called once for each column.
    """

    columns: list[str]
    rows: list[int]
    row_word: str
    column: Callable[[str], list[Any]]
    problems: list[str]


def open_tables(name: str, *, size: int = sys.maxsize) -> Generator[Table, None, None]:
    """The records of a file, by its suffix, or of a Hub data set, as one table or in pieces.

    Args:
        name: The file or data set, as the user named it; see `read_data`.
        size: How many records of a file are read at a time; without it all, as a single table.

    Yields:
        At least one table, which may be without rows.

    Raises:
        DataError: It cannot be found or read, or two of its columns have one name.
    """
    path, suffix = place_of(name), _format_of(name)
    if not name.strip():
        raise DataError("The name of the data file is empty.")
    exists = _exists(path, name)
    if not exists and suffix not in FORMATS and (hub := _HUB_NAME.fullmatch(name)):
        yield from _read_hub(hub["name"], hub["split"], size)
        return
    if not exists:
        raise DataError(_missing_file(path, name))
    if suffix not in FORMATS:
        found = f"the suffix '{path.suffix}' names no format that can be read" if path.suffix else "a suffix is missing"
        raise DataError(f"{name}: {found}. Use one of {', '.join(FORMATS)}.")
    if suffix == ".parquet":
        yield from _parquet_tables(path, name, size)
        return
    if suffix not in (".csv", ".tsv") and _is_list(path, name):
        with closing(_text_lines(path, name, _BLOCK)) as file:
            yield from _in_pieces(_list_records(_Json(file)), name, size, word="row")
        return
    with closing(_text_lines(path, name)) as file:
        first, lines = _from_content(file, name)
        if suffix in (".csv", ".tsv"):
            yield from _csv_tables(first, lines, name, size)
        else:
            yield from _in_pieces(_json_records(lines), name, size)


def _format_of(name: str) -> str:
    """Its suffix in lower case, without one of `COMPRESSED`."""
    path = Path(public_name(name))
    return Path(path.stem if path.suffix.lower() in COMPRESSED else path.name).suffix.lower()


def files_of(name: str) -> list[str]:
    """The files of a folder, or of a pattern such as `texts/*.csv.gz`, in the order of their names; a file is its own.

    Raises:
        DataError: There is none whose suffix names a format.
    """
    place = place_of(name)
    if not place.is_dir() and (place.exists() or not has_magic(public_name(name))):
        return [name]
    if isinstance(place, RemoteFile):
        files = place.files()
    else:
        pattern = str(Path(escape(name), "**", "*")) if place.is_dir() else name
        files = [str(one) for one in map(Path, glob(pattern, recursive=True)) if one.is_file()]
    found = sorted(one for one in files if _format_of(one) in FORMATS)
    if not found:
        raise DataError(f"'{name}' names no file that can be read. Their names must end in {', '.join(FORMATS)}.")
    return found


def _exists(path: Path | RemoteFile, source: str) -> bool:
    """Whether a file is there; what is none, or cannot be looked at, is a `DataError`."""
    try:
        if path.is_dir():
            raise DataError(f"{source} is a folder; name a file in it.")
        if path.exists() and not path.is_file():
            raise DataError(
                f"{source} is a pipe, a socket or a device, which may never end. Save its content as a file."
            )
        return path.is_file()
    except OSError as error:  # too long for a name, or no permission
        raise DataError(f"{shortened(source, 300)} cannot be read ({error.strerror}).") from error


def _from_content(lines: Iterator[str], source: str) -> tuple[str, Iterator[str]]:
    """The first line that is not blank, and all lines, blank ones before it too so that they are counted."""
    seen = []
    for line in lines:
        seen.append(line)
        if line.strip():
            return line, chain(seen, lines)
    raise DataError(f"{source} is empty; at least one text is needed.")


def _in_pieces(
    records: Iterator[tuple[int, dict[str, Any] | str]],
    source: str,
    size: int,
    columns: list[str] | None = None,
    advice: str = "",
    word: str = "line",
) -> Iterator[Table]:
    """Tables of records, at least one, with their lines; a string says what is wrong with the record in its place."""
    for number in count():
        piece = list(islice(records, size))
        if number and not piece:
            return
        kept = {line: record for line, record in piece if isinstance(record, dict)}
        faults = grouped((line, record) for line, record in piece if isinstance(record, str))
        problems = [sentence(source, lines, word, fault, advice) for fault, lines in faults.items()]
        names = columns or list(dict.fromkeys(name for record in kept.values() for name in record))
        yield Table(names, list(kept), word, partial(_values, list(kept.values())), first_few(problems))


def _values(records: list[dict[str, Any]], name: str) -> list[Any]:
    return [record.get(name) for record in records]


def _csv_tables(first: str, lines: Iterator[str], source: str, size: int) -> Iterator[Table]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    usual = "\t" if _format_of(source) == ".tsv" else ","
    if named := re.fullmatch(r"sep=([,;|\t])\s*", first):  # a line that spreadsheets write for each other
        separator, lines = named[1], ("\n" if line is first else line for line in lines)
    else:
        separator, lines = _separator(lines, usual)
    rows = _csv_records(lines, separator, source)
    header = [column.strip() for column in next(rows)[1]]
    _check_unique(header, source)
    records = ((line, row if isinstance(row, str) else dict(zip(header, row, strict=True))) for line, row in rows)
    advice = "Put fields that hold a delimiter, a quote or a line break in quotes."
    if separator != usual:
        advice += f" The delimiter is taken from the header: {SEPARATORS[separator]}."
    return _in_pieces(records, source, size, header, advice)


def _separator(lines: Iterator[str], usual: str) -> tuple[str, Iterator[str]]:
    """What separates the columns, and the lines as they were.

    It is what cuts the header. Where several would, rows below have to have as many fields as the header; the usual one
    comes first then, and after it the one that gives more columns. Where none would there is one column.
    """
    lines, *copies = tee(lines, 1 + len(SEPARATORS))
    tables = {one: filter(None, csv.reader(copies.pop(), delimiter=one, strict=True)) for one in SEPARATORS}
    widths = {one: width for one, rows in tables.items() if (width := _width(rows)) > 1}
    if len(widths) > 1:
        fitting = {one: n for one, n in widths.items() if all(_width(tables[one], n) == n for _ in range(LOOKED_AT))}
        widths = fitting or widths
    return usual if usual in widths or not widths else max(widths, key=widths.__getitem__), lines


def _width(rows: Iterator[list[str]], at_end: int = 0) -> int:
    """How many fields the next row has; 0 where its quotes do not match, which is said later."""
    try:
        return len(next(rows, [""] * at_end))
    except csv.Error:
        return 0


def _csv_records(lines: Iterator[str], delimiter: str, source: str) -> Iterator[tuple[int, list[str] | str]]:
    """The line on which each record starts and its fields, the header's first, or as a string what is wrong with it.

    Blank lines are left out, but in a file of one column they are empty texts where more records follow. There a
    carriage return alone ends a line only where it ends all: else nobody knows whether it stands within a text.
    """
    ends = [""]  # of the header, and of the last line

    def read() -> Iterator[str]:
        for line in lines:
            ends[1:] = [line[-1]]
            yield line

    # Strict: a stray quote is an error rather than a field that quietly swallows the lines after it.
    reader = csv.reader(read(), delimiter=delimiter, strict=True)
    width, start = 0, 1
    blank: list[int] = []
    try:
        for record in reader:
            if record:
                width = width or len(record)
                ends[0] = ends[0] or ends[1]
                if blank:
                    yield from ((line, [""]) for line in blank)
                    blank.clear()
                if width == 1 and {*ends} == {"\r", "\n"}:
                    yield start, "it and the header end differently, one of them in a carriage return alone"
                elif len(record) == width:
                    yield start, record
                else:
                    yield start, f"{counted(len(record), 'field')} where the header names {counted(width, 'field')}"
            elif width == 1:
                blank.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        if "field limit" in str(error):
            raise DataError(
                f"{source}, line {start}: the record that starts here has a field of more than {LONGEST_LINE:,} "
                "characters. Cut the text, or close the quotes that open it."
            ) from error
        raise DataError(
            f"{source}, line {start}: the quotes of the record that starts here do not match ({error}). "
            'A field that holds a quote is put in quotes, and the quote inside it is doubled: "say ""hi""".'
        ) from error


def _check_unique(columns: Sequence[str], source: str) -> None:
    # Spreadsheets write unnamed columns for trailing delimiters; those cannot be meant, so they may repeat.
    twice = [column for column in dict.fromkeys(columns) if column and columns.count(column) > 1]
    if twice:
        raise DataError(f"{source}: several columns are called {listed(twice)}. Give each column its own name.")


def _json_records(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The line of each record and its object, or as a string what is wrong with it. Blank lines are left out."""
    for line, written in enumerate(lines, start=1):
        if not written.strip():
            continue
        try:
            record = json.loads(written, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            yield line, f"not a JSON object on one line ({reason})"
        else:
            is_object = isinstance(record, dict)
            yield line, record if is_object else f"{kind_of(record)}, but each line must be a JSON object"


def _is_list(path: Path | RemoteFile, source: str) -> bool:
    """Whether a JSON file is one array, or one object with an array, rather than JSON Lines."""
    with closing(_text_lines(path, source, _BLOCK)) as file:
        read = _Json(file)
        found = _LIST.match(read.text, read.at) if read.mark() else None
    if found is None or not found[1]:
        return found is not None
    with closing(_text_lines(path, source)) as file:
        first, _ = _from_content(file, source)
    try:  # a list may also be a field of the first line's object
        return len(json.loads(first)) == 1
    except (ValueError, RecursionError):
        return True


class _Json:
    """JSON that is read a block at a time, from where the last value ended."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces, self._decoder = pieces, json.JSONDecoder(object_pairs_hook=unique_keys)
        self.text, self.at = "", 0

    def _more(self) -> bool:
        """Read as much again as is left, or a block; whether there was any."""
        parts = [self.text[self.at :]]
        wanted = max(_BLOCK, len(parts[0]))
        while wanted > 0 and (piece := next(self._pieces, "")):
            parts.append(piece)
            wanted -= len(piece)
        self.text, self.at = "".join(parts), 0
        return len(parts) > 1

    def mark(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            self.at = cast(re.Match[str], _SPACE.match(self.text, self.at)).end()
            if self.at < len(self.text) or not self._more():
                return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> bool:
        """Go beyond a mark; whether it stands there."""
        found = self.mark() == mark
        self.at += found
        return found

    def value(self) -> Any:
        """The next value.

        Raises:
            ValueError: It is not valid, or too long.
        """
        self.mark()
        while True:
            found, end, fault = None, len(self.text), "it does not end"
            try:
                found, end = self._decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                fault = error.msg
                # Of a value that goes on beyond what was read, strings do not end, and all else ends at the end.
                if error.pos < end - 8 and not fault.startswith("Unterminated"):
                    raise
            if end - self.at > LONGEST_LINE:
                raise ValueError(f"more than {LONGEST_LINE:,} characters")
            if end < len(self.text):  # a number could go on
                self.at = end
                return found
            if not self._more():
                raise ValueError(fault)


def _list_records(read: _Json) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The number of each row and its object, or as a string what is wrong with it; a string in the file is a text."""
    ends = "]}" if read.mark() == "{" else "]"
    read.at = cast(re.Match[str], _LIST.match(read.text, read.at)).end()
    for number in count(1):
        if read.mark() == "]":
            break
        try:
            if number > 1 and not read.take(","):
                raise ValueError("Expecting ',' delimiter")
            value = read.value()
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else nested(error)
            yield number, f"not valid JSON ({reason})"
            return
        if isinstance(value, str):
            value = {"text": value}
        is_object = isinstance(value, dict)
        yield number, value if is_object else f"{kind_of(value)}, but each row must be an object or a text"
    if not all(map(read.take, ends)) or read.mark():
        yield number, "more follows on the list of rows, which has to stand alone"


def unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `json.loads`."""
    record = dict(items)
    if len(record) < len(items):
        keys = [key for key, _ in items]
        raise ValueError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' occurs twice")
    return record


def _parquet_tables(path: Path | RemoteFile, source: str, size: int) -> Iterator[Table]:
    with _open_parquet(path, f"{source} cannot be read as Parquet") as file:
        columns = list(file.schema_arrow.names)
        total = file.metadata.num_rows
    _check_unique(columns, source)
    values: dict[str, Iterator[Any]] = {}  # of the columns that are asked for, each read in step with the tables

    def read(start: int) -> Table:
        rows = list(range(start + 1, min(start + size, total) + 1))

        def column(name: str) -> list[Any]:
            if name not in values:
                batches = _parquet_values(path, source, name, min(size, 2**13))
                values[name] = islice(chain.from_iterable(batches), start, None)
            return list(islice(values[name], len(rows)))

        return Table(columns, rows, "row", column, [])

    return map(read, range(0, max(total, 1), size))


def _parquet_values(path: Path | RemoteFile, source: str, column: str, batch_size: int) -> Iterator[list[Any]]:
    with _open_parquet(path, f"{source}: column '{column}' cannot be read") as file:
        for batch in file.iter_batches(batch_size=batch_size, columns=[column]):
            yield batch.column(column).to_pylist()


@contextmanager
def _open_parquet(path: Path | RemoteFile, failure: str) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as raw, pq.ParquetFile(raw) as file:
            yield file
    except DataError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{failure} ({one_line(error)}).") from error


def _read_hub(name: str, split: str | None, size: int) -> Iterator[Table]:
    """A data set that is downloaded the first time, so that it can be read often, and whose copy is read in pieces."""
    import datasets

    near = _near_files(Path(name))
    if near and Path(name).suffix:  # a slip of the pen in a file's name: the Hub would be asked for half a minute
        raise DataError(f"There is no file {name}.{near}")
    try:
        loaded = datasets.load_dataset(name, split=split)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"'{name}' is neither a file nor a Hub data set that can be reached and read ({one_line(error)}).{near}"
        ) from error
    if isinstance(loaded, dict):
        splits = list(loaded)
        if "test" not in splits and len(splits) > 1:
            raise DataError(
                f"The data set '{name}' has several splits and no 'test': {listed(splits)}. Name one, as in "
                f"'{name}:{splits[0]}'."
            )
        loaded = loaded["test" if "test" in splits else splits[0]]

    def column(name: str, *, start: int) -> list[Any]:
        return list(loaded.select_columns(name)[start : start + size][name])

    for start in range(0, max(len(loaded), 1), size):
        rows = list(range(start + 1, min(start + size, len(loaded)) + 1))
        yield Table(list(loaded.column_names), rows, "row", partial(column, start=start), [])


def _missing_file(path: Path | RemoteFile, source: str) -> str:
    if isinstance(path, RemoteFile):
        return f"There is no file {source}."
    if not path.parent.is_dir():
        return f"There is no file {source}: its folder, {path.parent}, does not exist."
    return f"There is no file {source}.{_near_files(path)}"


def _near_files(path: Path) -> str:
    try:
        files = [entry.name for entry in path.parent.iterdir() if entry.is_file() and entry.suffix != ".lock"]
    except OSError:
        return ""
    names = {name.casefold(): name for name in files}
    near = difflib.get_close_matches(path.name.casefold(), names, n=3)
    return f" Did you mean {listed([names[name] for name in near], 'or')}?" if near else ""


def read_utf8(path: Path, source: str) -> str:
    """The content of a text file, which must be UTF-8, without its byte order mark and with its line ends as they are.

    Raises:
        DataError: The file is missing, a folder, unreadable, not UTF-8, or holds NUL bytes.
    """
    return "".join(_text_lines(path, source))


def read_mapping(file: Path, name: str, what: str) -> dict[str, Any]:
    """A table of JSON or TOML, by the file's ending.

    Raises:
        DataError: The file, which messages call `name`, cannot be read, or does not hold a table of `what`.
    """
    from .schema import parse_json

    try:
        content = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise DataError(f"{name} cannot be read: {reason}.") from error
    kind, parse = ("TOML", tomllib.loads) if file.suffix.lower() == ".toml" else ("JSON", parse_json)
    try:
        found = parse(content)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{name} is no {kind}: {nested(error)}. A file that ends in .toml is read as TOML, any other as JSON."
        ) from error
    if not isinstance(found, dict):
        raise DataError(f"{name} must hold a table of {what}.")
    return found


def _text_lines(path: Path | RemoteFile, source: str, most: int = LONGEST_LINE + 1) -> Generator[str, None, None]:
    """The lines of a text file with their ends, each at most so long, under the rules of `read_utf8`."""
    if not _exists(path, source):
        raise DataError(_missing_file(path, source))
    try:
        # Bytes that are not UTF-8 come as halves of surrogate pairs, so that the line they stand in is known.
        with _opened(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            number = 1
            for line in iter(partial(file.readline, most), ""):
                if len(line) > LONGEST_LINE or "\0" in line or (not line.isascii() and _NOT_UTF8.search(line)):
                    raise DataError(f"{source}, line {number}: {_line_fault(line)}")
                yield line
                number += line[-1] in "\r\n"
    except OSError as error:
        raise DataError(f"{source} cannot be read ({error.strerror or error}).") from error


@contextmanager
def _opened(path: Path | RemoteFile, **how: Any) -> Iterator[TextIO]:
    """A text file, which may be compressed; what is no such file, or cut off, is an `OSError`."""
    compression = COMPRESSED.get(path.suffix.lower())
    with path.open("rb") as raw:
        if compression is None:
            with TextIOWrapper(raw, **how) as file:
                yield file
            return
        import pyarrow as pa

        try:
            with pa.input_stream(raw, compression=compression) as stream, TextIOWrapper(stream, **how) as file:
                yield file
        except pa.ArrowException as error:
            raise OSError(one_line(error)) from error


def _line_fault(line: str) -> str:
    if len(line) > LONGEST_LINE:
        return (
            f"a line of more than {LONGEST_LINE:,} characters, which no model reads. Put each text on a line of its "
            "own, and cut what is longer."
        )
    if line.startswith(("\udcff\udcfe", "\udcfe\udcff")):
        return "this is UTF-16, but UTF-8 is needed. Save the file again as UTF-8 (in Excel: 'CSV UTF-8')."
    found = _NOT_UTF8.search(line)
    if found is None:
        return "a NUL byte; this is no text file in UTF-8, or a damaged one. Save a text file again as UTF-8."
    return (
        f"byte 0x{ord(found[0]) - 0xDC00:02x} is not UTF-8. "
        "Convert the file to UTF-8 (for example with: iconv -f WINDOWS-1252 -t UTF-8)."
    )
