"""Texts that are read a piece at a time, from memory or from a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .reading import Texts, choose_columns, read_table
from .tables import files_of, open_tables

_READ = 1024  # records at a time


class TextSource(Protocol):
    """Texts that can be read from the start as often as needed."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    def chunks(self) -> Iterator[tuple[Texts, list[str] | None]]:
        """Texts, or pairs, with their labels as written (`None` for a source without), a piece at a time."""
        ...


@dataclass(frozen=True)
class MemoryTexts:
    """N texts or pairs that are in memory, with their labels where there are any, and what to call them in messages."""

    texts: Texts
    labels: Sequence[str | int] | None = None
    name: str = "texts"

    def chunks(self) -> Iterator[tuple[Texts, list[str] | None]]:
        """See `TextSource`."""
        for start in range(0, len(self.texts), _READ):
            labels = None if self.labels is None else [str(x) for x in self.labels[start : start + _READ]]
            yield self.texts[start : start + _READ], labels


class FileTexts:
    """CSV, TSV, JSON, JSON Lines or Parquet files that are read a piece at a time.

    They are read and checked as by `data.read_data`, but columns are chosen from the first piece, and an error is about
    the first piece that has one.

    Args:
        source: A file, a folder with files, or a pattern such as `texts/*.csv.gz` or `s3://bucket/*.csv`; all have the
            same columns. For these see `data.read_data`.
        label_column: Without it there are no labels.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        text_column: str | None = None,
        text_pair_column: str | None = None,
        label_column: str | None = None,
    ) -> None:
        self.name = os.fspath(source)
        self._files = files_of(self.name)
        given = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
        for file in self._files:
            with closing(open_tables(file, size=_READ)) as tables:
                first = next(tables)
                chosen = choose_columns(first, file, given, require_labels=False)
                self._columns = chosen._replace(label=label_column)
                read_table(first, file, self._columns, require_labels=True)
            given |= {"text_column": chosen.text, "text_pair_column": chosen.text_pair}

    def chunks(self) -> Iterator[tuple[Texts, list[str] | None]]:
        """See `TextSource`."""
        for file in self._files:
            for table in open_tables(file, size=_READ):
                data = read_table(table, file, self._columns, require_labels=True)
                yield data.texts, data.labels
