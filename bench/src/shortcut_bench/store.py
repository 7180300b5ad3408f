"""Finished runs in a few small files: what tables, figures, intervals and resumed experiments need, committed once.

    results/
      runs.parquet          one row a run: a few columns to look at, and each part of the result as JSON
      predictions.parquet   one row a run: its test set, its answers as small integers, ranks and sensitivities; no
                            list of sensitivities to the base model's tokens is there where it would be the same
      test_sets.parquet     one row a test set: labels and groups of its rows, and a number for each text; no text

The three belong together: each says in its metadata which set of files it is of, and a mixture is refused. Class
probabilities are left out, since nothing reads them. `results.pack` adds the raw results of `runs/` to these
files; `results.read_result` reads either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_guardrail.data import check_finished, to_json, write_folder
from shortcut_guardrail.errors import DataError
from shortcut_guardrail.typing import Array

RUNS_FILE = "runs.parquet"
PREDICTIONS_FILE = "predictions.parquet"
TEST_SETS_FILE = "test_sets.parquet"

LEVEL = 11
"""Of compression: the committed files stay below a megabyte each."""

_OF_TEST_SET = ("index", "texts", "labels", "groups")
_SMALL = ("predictions", "shortcut_rank")
_OWN, _BASE = "sensitivity", "sensitivity_base_tokens"  # stored as whole numbers: six decimals are kept exactly
_JSON = "json."
_SET = b"shortcut_bench.set"  # in each file's metadata: a hash of what all three hold
_RESTORE = "Restore all three from version control, then run `shortcut-guardrail benchmark pack` again."


@dataclass(frozen=True, eq=False)
class Store:
    """The runs that the compact files of a folder hold.

    Attributes:
        runs: For each run's hash its parts as JSON.
        rows: For each run's hash its test set and what it answered.
        test_sets: For each test set its positions, numbers of texts, labels and groups, each of shape (N,).
    """

    runs: Mapping[str, Mapping[str, str]]
    rows: Mapping[str, Mapping[str, Any]]
    test_sets: Mapping[str, Mapping[str, Array]]

    def __contains__(self, run: str) -> bool:
        return run in self.runs

    def result(self, run: str) -> dict[str, Any]:
        """The result of a run as `results.read_result` gives it, without the class probabilities of its rows."""
        found = {part: json.loads(text) for part, text in self.runs[run].items()}
        rows = self.rows[run]
        stored = self.test_sets[rows["test_set"]]
        base = rows[_OWN] if rows[_BASE] is None else rows[_BASE]
        return found | {
            "rows": {name: stored[name].tolist() for name in _OF_TEST_SET}
            | {name: rows[name].tolist() for name in _SMALL}
            | {_OWN: _of_millionths(rows[_OWN]), _BASE: _of_millionths(base)}
        }


def dense_json(values: Any) -> str:
    """`data.to_json` on one line: what is committed is to stay small, and is read by programs."""
    return json.dumps(json.loads(to_json(values)), separators=(",", ":"), ensure_ascii=False) + "\n"


def open_store(results: Path) -> Store:
    """What the compact files of a folder hold; nothing where there are none.

    Raises:
        DataError: Some of the files are missing or damaged, or they were not written together.
    """
    check_finished(results)
    files = [results / name for name in (RUNS_FILE, PREDICTIONS_FILE, TEST_SETS_FILE)]
    there = [file for file in files if file.exists()]
    if there and len(there) < len(files):
        missing = next(file for file in files if file not in there)
        raise DataError(f"There is no '{missing}', which belongs to '{there[0]}'. {_RESTORE}")
    return _opened(*((str(file), file.stat().st_mtime_ns) for file in there)) if there else Store({}, {}, {})


@lru_cache(maxsize=2)
def _opened(*files: tuple[str, int]) -> Store:
    tables = {path: _read(Path(path)) for path, _ in files}
    _check_together({path: table.schema.metadata for path, table in tables.items()})
    runs, predictions, test_sets = (table.to_pylist() for table in tables.values())
    return Store(
        runs={row["run"]: _parts(row) for row in runs},
        rows={row["run"]: _as_arrays(row, _SMALL) for row in predictions},
        test_sets={row["test_set"]: _as_arrays(row, _OF_TEST_SET) for row in test_sets},
    )


def _read(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"'{file}' cannot be read as Parquet ({error}). {_RESTORE}") from error


def _check_together(metadata: Mapping[str, Mapping[bytes, bytes] | None]) -> None:
    """Refuses files of which some were written by another call than the rest: a write may have been cut short."""
    sets = {path: ((found or {}).get(_SET) or b"none").decode() for path, found in metadata.items()}
    if len(set(sets.values())) > 1 or "none" in sets.values():
        found = ", ".join(f"'{path}' is of set {name}" for path, name in sets.items())
        raise DataError(f"The files of committed runs must be of one set, but {found}. {_RESTORE}")


def _parts(row: Mapping[str, Any]) -> dict[str, str]:
    return {name.removeprefix(_JSON): text for name, text in row.items() if name.startswith(_JSON) and text is not None}


def _as_arrays(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {**row, **{name: np.asarray(row[name], dtype=np.int64) for name in names}}


def write_store(results: Path, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the compact files anew, in the order of the hashes, so that the same runs give the same files.

    Answers to one test set stand together: they are alike, and the file is a seventh smaller for it.

    The three are on the disk before the first of those that are there is replaced; if that is interrupted between two
    of them, `open_store` refuses the folder until the next call has completed it.

    Args:
        results: Folder of all results.
        found: The results by their hash.

    Raises:
        RunError: A file cannot be written.
    """
    test_sets: dict[str, dict[str, Any]] = {}
    runs: list[dict[str, Any]] = []
    predictions: list[dict[str, Any]] = []
    parts = sorted({part for result in found.values() for part in result} - {"rows"})
    for run, result in sorted(found.items()):
        rows = {name: np.asarray(result["rows"][name]) for name in (*_OF_TEST_SET, *_SMALL)}
        test_set = _key([rows[name] for name in _OF_TEST_SET])
        test_sets[test_set] = {"test_set": test_set, **{name: _small(rows[name]) for name in _OF_TEST_SET}}
        own, base = (_millionths(result["rows"][name]) for name in (_OWN, _BASE))
        predictions.append(
            {"run": run, "test_set": test_set}
            | {name: _small(rows[name]) for name in _SMALL}
            | {_OWN: own, _BASE: None if base == own else base}
        )
        runs.append(_to_look_at(run, result) | {_JSON + part: _text(result, part) for part in parts})
    tables = {
        RUNS_FILE: runs,
        PREDICTIONS_FILE: sorted(predictions, key=lambda row: row["test_set"]),
        TEST_SETS_FILE: [row for _, row in sorted(test_sets.items())],
    }
    name_of_set = hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:16]

    def fill(folder: Path) -> None:
        for name, rows_of_file in tables.items():
            _write(folder / name, rows_of_file, name_of_set)

    write_folder(results, fill, key=None)


def _to_look_at(run: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Columns that a reader of the table wants to see without parsing anything."""
    config, metrics = result["config"], result["metrics"]
    return {
        "run": run,
        "data": config["data"]["name"],
        "test": config["test"],
        "seed": config["seed"],
        "system": result["system"]["name"],
        "accuracy": metrics.get("accuracy"),
        "worst_group_accuracy": metrics.get("worst_group_accuracy"),
    }


def _text(result: Mapping[str, Any], part: str) -> str | None:
    """A part as JSON, "null" for one that is nothing, such as the commit outside of a checkout; `None` without it."""
    if part not in result:
        return None
    return json.dumps(result[part], sort_keys=True, separators=(",", ":"), allow_nan=False)


def _key(arrays: Iterable[Array]) -> str:
    digest = hashlib.sha256()
    for values in arrays:
        digest.update(np.ascontiguousarray(values, dtype=np.int64).tobytes())
        digest.update(b"|")
    return digest.hexdigest()[:16]


def _small(values: Array) -> list[int]:
    whole: list[int] = values.astype(np.int64).tolist()
    return whole


def _millionths(values: Iterable[float | None]) -> list[int | None]:
    """Whole numbers; `None`, which stands for what was not finite, stays."""
    return [None if value is None else round(value * 1e6) for value in values]


def _of_millionths(values: list[int | None]) -> list[float | None]:
    return [None if value is None else value / 1e6 for value in values]


def _write(file: Path, rows: list[dict[str, Any]], name_of_set: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: _column([row[name] for row in rows]) for name in rows[0]}
    table = pa.table(columns).replace_schema_metadata({_SET: name_of_set})
    # Lists of 32-bit numbers, most of which are small: their bytes are kept apart, which halves them.
    lists = [one.name for one in table.schema if one.type == pa.list_(pa.int32())]
    split = {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in lists}
    pq.write_table(
        table,
        file,
        compression="brotli",
        compression_level=LEVEL,
        use_dictionary=False,
        column_encoding=split or None,
        write_statistics=False,
    )


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    lists = [value for value in values if isinstance(value, list)]
    if not lists:
        return pa.array(values)
    everything = [item for row in lists for item in row if item is not None]
    low, high = min(everything, default=0), max(everything, default=0)
    kind = next(
        kind
        for kind in (np.int8, np.int16, np.int32, np.int64)
        if np.iinfo(kind).min <= low <= high <= np.iinfo(kind).max
    )
    return pa.array(values, type=pa.list_(pa.from_numpy_dtype(kind)))
