"""Reads the rows of the benchmark's data sets from files in a folder or from the Hub."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from shortcut_guardrail.data import Texts, label_ids, read_data
from shortcut_guardrail.errors import DataError


@dataclass(frozen=True, eq=False)
class Rows:
    """Labelled texts as they were read.

    Attributes:
        texts: N texts or pairs.
        labels: Class ids, shape (N,), int64.
    """

    texts: Texts
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, indices: Sequence[int] | NDArray[np.int64]) -> Rows:
        """The rows at these positions."""
        return Rows(cast(Texts, [self.texts[i] for i in indices]), self.labels[np.asarray(indices, dtype=np.int64)])

    def with_texts(self, texts: Texts) -> Rows:
        """The same labels with other texts, such as the capped ones."""
        return Rows(texts, self.labels)

    @classmethod
    def concatenate(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of several sources, one after another."""
        texts = [text for part in parts for text in part.texts]
        return cls(cast(Texts, texts), np.concatenate([part.labels for part in parts]))


def data_files(data_dir: Path, folder: str, names: Sequence[str]) -> list[Path]:
    """The files of a data set within the data folder.

    Raises:
        DataError: The data folder, the data set's folder or a file is missing; the message lists what is expected.
    """
    expected = f"It must hold {folder}/ with {', '.join(names)}."
    if not data_dir.is_dir():
        raise DataError(f"There is no data folder '{data_dir}'. {expected}")
    paths = [data_dir / folder / name for name in names]
    if not paths[0].parent.is_dir():
        raise DataError(f"The data folder '{data_dir}' has no folder '{folder}'. {expected}")
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise DataError(f"The folder '{paths[0].parent}' lacks {', '.join(missing)}. {expected}")
    return paths


def read_rows(
    source: str | Path,
    label_values: Sequence[str],
    *,
    text: str = "text",
    text_pair: str | None = None,
    label: str = "label",
    split: str | None = None,
) -> Rows:
    """Reads labelled texts of a file or a Hub data set.

    Args:
        source: Path, or name on the Hub.
        label_values: How the C labels are written in the source, in the order of the class ids.
        text: The column of the text, or of the first text of pairs.
        text_pair: The column of the second text of pairs.
        label: The column of the label.
        split: The split of a Hub data set.

    Raises:
        DataError: See `data.read_data` and `data.label_ids`.
    """
    name = source if split is None else f"{source}:{split}"
    data = read_data(name, text_column=text, text_pair_column=text_pair, label_column=label, require_labels=True)
    ids = label_ids(data.labels or [], label_values, source=data.source, rows=data.rows, row_word=data.row_word)
    return Rows(data.texts, np.array(ids, dtype=np.int64))


def header(path: Path) -> list[str]:
    """The columns of a CSV file."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        return next(csv.reader(file), [])


def read_columns(path: Path, names: Sequence[str]) -> list[list[str]]:
    """Some columns of a CSV file, as text.

    Raises:
        DataError: A column is missing, or the file cannot be read.
    """
    missing = [name for name in names if name not in header(path)]
    if missing:
        raise DataError(f"{path}: the columns {', '.join(missing)} are needed, but it has {', '.join(header(path))}.")
    columns: list[list[str]] = [[] for _ in names]
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.DictReader(file):
                for column, name in zip(columns, names, strict=True):
                    column.append(row[name] or "")
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as a CSV file in UTF-8 ({error}).") from error
    return columns


def read_numbers(values: Sequence[str], source: str, column: str) -> NDArray[np.float64]:
    """A column of numbers; an empty value is NaN.

    Raises:
        DataError: A value is no number.
    """
    try:
        return np.array([float(value) if value.strip() else np.nan for value in values], dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{source}: the column '{column}' must hold numbers ({error}).") from error


def load_hub(name: str, split: str) -> Any:
    """A split of a Hub data set whose columns `read_data` does not read, such as lists of labels.

    Raises:
        DataError: It cannot be reached or read.
    """
    import datasets

    try:
        return datasets.load_dataset(name, split=split)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"The Hub data set '{name}' cannot be reached or read ({reason}). "
            "Name a folder that holds the files with data_dir (--data-dir)."
        ) from error
