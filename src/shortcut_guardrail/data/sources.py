"""Texts that are read a piece at a time, from memory or from a file."""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, cast

from ..errors import DataError
from .reading import Texts, check_texts, read_data
from .tables import large_fields, unique_keys

_READ = 1024  # records at a time
_HEAD = 200  # records from which the columns are told
_STREAMED = {".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet"}


class TextSource(Protocol):
    """Texts that can be read from the start as often as needed."""

    name: str

    def chunks(self) -> Iterator[tuple[Texts, list[str] | None]]:
        """Texts, or pairs, with their labels as written (`None` for a source without), a piece at a time."""
        ...


@dataclass(frozen=True)
class MemoryTexts:
    """Texts that are in memory.

    Attributes:
        texts: N texts or pairs.
        labels: N labels, or `None`.
        name: What to call them in messages.
    """

    texts: Texts
    labels: Sequence[str | int] | None = None
    name: str = "texts"

    def chunks(self) -> Iterator[tuple[Texts, list[str] | None]]:
        """See `TextSource`."""
        for start in range(0, len(self.texts), _READ):
            labels = None if self.labels is None else [str(x) for x in self.labels[start : start + _READ]]
            yield self.texts[start : start + _READ], labels


class FileTexts:
    """A CSV, TSV, JSON Lines or Parquet file that is read a piece at a time.

    The columns are told from the first records, by the rules of `data.read_data`.

    Args:
        source: The file.
        text_column: See `data.read_data`.
        text_pair_column: See `data.read_data`.
        label_column: See `data.read_data`; without it there are no labels.

    Raises:
        DataError: The file or its first records are not what they have to be.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        text_column: str | None = None,
        text_pair_column: str | None = None,
        label_column: str | None = None,
    ) -> None:
        self.name = str(source)
        self._path = Path(source)
        self._suffix = self._path.suffix.lower()
        if self._suffix not in _STREAMED:
            raise DataError(f"{source}: only files with the suffix {', '.join(sorted(_STREAMED))} are read in pieces.")
        columns = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
        self._text, self._pair, self._label = self._choose_columns(columns)

    def _choose_columns(self, columns: dict[str, Any]) -> tuple[str, str | None, str | None]:
        if not self._path.is_file() or self._suffix == ".parquet":
            head = read_data(self.name, **columns) if not self._path.is_file() else self._parquet_head(columns)
        else:
            with tempfile.TemporaryDirectory() as folder:
                sample = Path(folder, f"head{self._suffix}")
                sample.write_text(self._head_text(), encoding="utf-8", newline="")
                head = self._read_head(sample, columns)
        return head.text_column, head.text_pair_column, columns["label_column"]

    def _read_head(self, sample: Path, columns: dict[str, Any]) -> Any:
        try:
            return read_data(sample, **columns)
        except DataError as error:
            raise DataError(str(error).replace(str(sample), self.name)) from error

    def _parquet_head(self, columns: dict[str, Any]) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self._path) as file:
                batch = next(file.iter_batches(batch_size=_HEAD), None)
                table = file.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self.name} cannot be read as Parquet ({error}).") from error
        with tempfile.TemporaryDirectory() as folder:
            sample = Path(folder, "head.parquet")
            pq.write_table(table, sample)
            return self._read_head(sample, columns)

    def _head_text(self) -> str:
        """The first records, as written: whole lines, and as many as a quoted field goes on for."""
        with self._open() as lines:
            if self._suffix not in (".csv", ".tsv"):
                return "".join(islice(lines, _HEAD))
            kept: list[str] = []

            def remember() -> Iterator[str]:
                for line in lines:
                    kept.append(line)
                    yield line

            reader = csv.reader(remember(), delimiter="," if self._suffix == ".csv" else "\t", strict=True)
            for _ in islice(_records(reader, self.name), _HEAD):
                pass
            return "".join(kept)

    @contextmanager
    def _open(self) -> Iterator[Iterator[str]]:
        try:
            with self._path.open(encoding="utf-8-sig", newline="") as file:
                yield file
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name} is not UTF-8 ({error.reason} at byte {error.start} of a piece). Convert it to UTF-8."
            ) from error

    def chunks(self) -> Iterator[tuple[Texts, list[str] | None]]:
        """See `TextSource`.

        Raises:
            DataError: A record is malformed, or a text or label is missing.
        """
        start = 1
        records = self._parquet_records() if self._suffix == ".parquet" else self._text_records()
        while chunk := list(islice(records, _READ)):
            rows = range(start, start + len(chunk))
            texts = [r.get(self._text) if self._pair is None else (r.get(self._text), r.get(self._pair)) for r in chunk]
            labels = None
            if self._label is not None:
                labels = [_label(r.get(self._label), self.name, row) for r, row in zip(chunk, rows, strict=True)]
            yield check_texts(cast(Any, texts), source=self.name, rows=rows), labels
            start += len(chunk)

    def _text_records(self) -> Iterator[dict[str, Any]]:
        with self._open() as lines:
            yield from self._csv_records(lines) if self._suffix in (".csv", ".tsv") else self._json_records(lines)

    def _csv_records(self, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
        reader = csv.reader(lines, delimiter="," if self._suffix == ".csv" else "\t", strict=True)
        records = _records(reader, self.name)
        header = [name.strip() for name in next(record for record in records if record)]
        blank = 0
        for record in records:
            if not record:
                blank += 1
                continue
            if len(header) == 1:  # between the rows of one column a blank line is an empty text, as in `read_data`
                yield from ({header[0]: ""} for _ in range(blank))
            blank = 0
            if len(record) != len(header):
                raise DataError(
                    f"{self.name}, line {reader.line_num}: {len(record)} fields where the header names "
                    f"{len(header)}. Put fields that hold a delimiter, a quote or a line break in quotes."
                )
            yield dict(zip(header, record, strict=True))

    def _json_records(self, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line, object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{self.name}, line {number}: not a JSON object on one line ({error}).") from error
            if not isinstance(record, dict):
                raise DataError(f"{self.name}, line {number}: each line must be a JSON object.")
            yield record

    def _parquet_records(self) -> Iterator[dict[str, Any]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        wanted = [name for name in (self._text, self._pair, self._label) if name is not None]
        try:
            with pq.ParquetFile(self._path) as file:
                for batch in file.iter_batches(batch_size=_READ, columns=wanted):
                    yield from batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self.name} cannot be read as Parquet ({error}).") from error


@contextmanager
def _csv_errors(name: str, reader: Any) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: the quotes of this record do not match ({error}).") from error


def _records(reader: Any, name: str) -> Iterator[list[str]]:
    """The records of a csv reader. The limit on fields is the whole process's, so it is lifted for each one alone."""
    while True:
        with large_fields(sys.maxsize), _csv_errors(name, reader):
            record = next(reader, None)
        if record is None:
            return
        yield record


def _label(value: Any, name: str, row: int) -> str:
    if value is None or value != value or not str(value).strip():  # NaN differs from itself
        raise DataError(f"{name}, row {row}: the label is missing. Remove this row or fill it in.")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
