"""Results on disk: one JSON file a run, in a folder named by a hash of the run's configuration.

    results/
      runs/<hash>/result.json     a run as it was made: metrics, counts, rows, configuration, versions, cost
      runs.parquet and two more   the same without class probabilities, for all runs that are committed; see `store`
      <experiment>/runs.json      which runs an experiment consists of, and what each is in it
      .cache/                     classifiers and adapters that runs share; not part of the results

Experiments share runs: what `shifted` measured, `mstps` does not measure again. No text is stored, only class ids,
probabilities, groups and token ranks row by row, which is all that paired tests and resampling need.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_guardrail.data import Texts, complete, text_number, to_json, write_file
from shortcut_guardrail.errors import DataError
from shortcut_guardrail.saving import library_versions

from .store import dense_json, open_store, write_store

Array = np.ndarray[Any, np.dtype[Any]]

RUN_SCHEMA_VERSION = 1
RUNS_FOLDER = "runs"
RESULT_FILE = "result.json"
INDEX_FILE = "runs.json"
CACHE_FOLDER = ".cache"

_LIST_OF_SCALARS = re.compile(r"\[[^\[\]{}]*\]")


def run_hash(config: Mapping[str, Any]) -> str:
    """16 hexadecimal digits that stand for a run's configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def result_path(results: Path, run: str) -> Path:
    """Where the result of a run lies."""
    return results / RUNS_FOLDER / run / RESULT_FILE


def write_result(results: Path, run: str, record: Mapping[str, Any]) -> Path:
    """Writes the result of a run, whole or not at all; one that is there is replaced.

    Raises:
        RunError: It cannot be written.
    """
    path = result_path(results, run)
    content = _json_types({"schema_version": RUN_SCHEMA_VERSION, "run": run, **record})
    write_file(path, compact_json(content), overwrite=True)
    return path


def has_result(results: Path, run: str) -> bool:
    """Whether the result of a run is there, as it was made or in the compact files."""
    return result_path(results, run).exists() or run in open_store(results)


def raw_results(results: Path) -> dict[str, dict[str, Any]]:
    """The results that lie in `runs/` as they were made, by their hash.

    Raises:
        DataError: One is damaged, or of another version.
    """
    folders = sorted(path.parent.name for path in (results / RUNS_FOLDER).glob(f"*/{RESULT_FILE}"))
    return {run: read_result(results, run) for run in folders}


def read_result(results: Path, run: str) -> dict[str, Any]:
    """The result of a run, as it was made, or else from the compact files.

    Raises:
        DataError: There is none, or it is damaged, or of another version.
    """
    path = result_path(results, run)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if run in (store := open_store(results)):
            return store.result(run)
        raise DataError(f"There is no '{path}', which a list of runs names. Run the experiment again.") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(
            f"'{path}' cannot be read as JSON ({error}). Delete it and run the experiment again."
        ) from error
    if not isinstance(record, dict) or record.get("run") != run or record.get("schema_version") != RUN_SCHEMA_VERSION:
        raise DataError(
            f"'{path}' must hold a result of run {run} with schema version {RUN_SCHEMA_VERSION}. Delete it and run the "
            "experiment again."
        )
    if "texts" not in record.get("rows", {"texts": ()}):
        # An earlier version did not number them; within the same data the position tells them apart.
        data, rows = record["data"]["fingerprint"], record["rows"]
        rows["texts"] = numbers_of([f"{data} {at}" for at in rows["index"]]).tolist()
    return record


def numbers_of(texts: Texts) -> Array:
    """A number for each text or pair, shape (N,), int64, below 2^48, so that JSON holds it exactly.

    Texts are told apart by it, and cannot be read back from it.
    """
    return np.array([text_number(text) >> 16 for text in texts], dtype=np.int64)


def pack(results: Path) -> list[str]:
    """Add the raw results of a folder to its compact files; a run that is in both is taken from the raw one.

    Args:
        results: Folder of all results.

    Returns:
        Hashes of the runs that were added or replaced.

    Raises:
        DataError: A raw result or a compact file is damaged.
        RunError: A file cannot be written.
    """
    raw = raw_results(results)
    complete(results)
    known = open_store(results)
    if raw:
        write_store(results, {run: known.result(run) for run in known.runs} | raw)
    return sorted(raw)


def _json_types(value: Any) -> Any:
    """The same with what JSON lacks replaced, such as a loss that became NaN: no run is to be lost over it."""
    if isinstance(value, Mapping):
        return {str(key): _json_types(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_types(inner) for inner in value]
    if isinstance(value, np.generic | np.ndarray):
        return _json_types(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def compact_json(values: Any) -> str:
    """`files.to_json` with every list of plain values on one line: rows are lists of hundreds of numbers."""
    return _LIST_OF_SCALARS.sub(lambda match: re.sub(r"\s*\n\s*", " ", match[0]), to_json(values))


@dataclass(frozen=True)
class IndexEntry:
    """What a run is in an experiment.

    Attributes:
        run: The run's hash.
        setting: Name of the setting.
        family: Its family: a data set, a panel, a line.
        setting_x: Where the setting stands on an axis, or `None`.
        system: Label of the system.
        system_x: Where the system stands on an axis, or `None`.
        test: Name of the test set.
        seed: The seed.
        scale: Name of the scale.
        encoder: Name of the encoder.
        fold: The fold, from 0.
        folds: How many folds the setting has; their runs count as one.
    """

    run: str
    setting: str
    family: str
    setting_x: float | None
    system: str
    system_x: float | None
    test: str
    seed: int
    scale: str
    encoder: str
    fold: int = 0
    folds: int = 1

    @property
    def cell(self) -> tuple[str, ...]:
        """What may be there once: two runs in one cell differ in their configuration."""
        return (self.setting, self.system, self.test, str(self.seed), self.scale, self.encoder, str(self.fold))


def index_path(results: Path, experiment: str) -> Path:
    """Where the list of an experiment's runs lies."""
    return results / experiment / INDEX_FILE


def read_index(results: Path, experiment: str) -> list[IndexEntry]:
    """The runs of an experiment, in the order in which they were added; empty if there is no list.

    Raises:
        DataError: The list is damaged.
    """
    path = index_path(results, experiment)
    if not path.exists():
        return []
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return [IndexEntry(**entry) for entry in record["runs"]]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, TypeError, KeyError) as error:
        raise DataError(f"'{path}' is no list of runs ({error}). Delete it and run the experiment again.") from error


def add_to_index(
    results: Path, experiment: str, entries: Sequence[IndexEntry], *, command: str, replace: bool = False
) -> None:
    """Adds runs to the list of an experiment; those that are there already stay where they are.

    Several processes may do so at once.

    Args:
        results: Folder of all results.
        experiment: The experiment.
        entries: What the runs are in it.
        command: The command line, kept with the list.
        replace: Whether they take the place of other runs in the same cells.

    Raises:
        RunError: The list cannot be written.
    """
    from filelock import FileLock

    with FileLock(prepare_cache(results / CACHE_FOLDER) / f"{experiment}.lock"):
        known = read_index(results, experiment)
        taken = {entry.cell for entry in entries} if replace else set()
        kept = [entry for entry in known if entry.cell not in taken or entry in entries]
        listed = list(dict.fromkeys([*kept, *entries]))
        if listed == known:
            return
        record = {"experiment": experiment, "command": command, "runs": [asdict(entry) for entry in listed]}
        write_file(index_path(results, experiment), dense_json(record), overwrite=True)


def prepare_cache(folder: Path) -> Path:
    """The folder for what runs share, made so that version control leaves it alone.

    Raises:
        ConfigError: It cannot be made there.
    """
    ignore = folder / ".gitignore"
    if not ignore.exists():
        write_file(ignore, "*\n", overwrite=True)
    return folder


# What a result says about where it was made


def versions() -> dict[str, str]:
    """Python's version and those of the libraries that decide the numbers."""
    from importlib.metadata import version

    return {"python": platform.python_version(), **library_versions()} | {
        name: version(name) for name in ("numpy", "scipy", "scikit-learn")
    }


def commit() -> str | None:
    """The commit of the checkout this package runs from, with "+" if its source or the library's differs from it.

    `None` outside of a checkout.
    """
    import shortcut_guardrail

    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()

    try:
        tracked = git("ls-files", "--", Path(__file__).name)
        found = git("rev-parse", "HEAD")
        library = Path(shortcut_guardrail.__file__).parent
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(folder), str(library))
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{found}{'+' if changed else ''}" if tracked else None


def hardware() -> dict[str, Any]:
    """Processor, cores, threads, number formats and accelerator."""
    import torch

    from shortcut_guardrail.models import fast_precision

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    device = torch.device("cuda" if gpu else "cpu")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "fast_precision": fast_precision(device),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


# Rows


@dataclass(frozen=True)
class Rows:
    """The scored rows of a run, as arrays.

    Attributes:
        index: Position of each row in the test set, shape (N,).
        texts: A number for the text of each row, without what was inserted, shape (N,): what has one number, in any
            run, is one text.
        labels: Class ids, shape (N,).
        groups: Group ids, shape (N,).
        predictions: Predicted class ids, shape (N,).
        probs: Class probabilities to 4 decimals, shape (N, C); empty for a run that is read from the compact files.
        shortcut_rank: Rank of the shortcut among the important tokens, from 1; 0 if the text holds it and it is not
            among them, -1 if the text holds none; shape (N,), empty where the system is not one model.
        sensitivity: Each text's term in MSTPS, shape (A,), for the first A rows.
        sensitivity_base_tokens: The same with the base model's important tokens.
    """

    index: Array
    texts: Array
    labels: Array
    groups: Array
    predictions: Array
    probs: Array
    shortcut_rank: Array
    sensitivity: Array
    sensitivity_base_tokens: Array

    @property
    def right(self) -> Array:
        """Which rows were answered correctly, shape (N,), bool."""
        return np.asarray(self.predictions == self.labels)

    def to_dict(self) -> dict[str, Any]:
        """JSON types; `rows_of` reads them back."""
        return {
            name: [[round(p, 4) for p in row] for row in value.tolist()]
            if name == "probs"
            else [round(v, 6) if isinstance(v, float) else v for v in value.tolist()]
            for name, value in asdict(self).items()
        }


def rows_of(result: Mapping[str, Any]) -> Rows:
    """The rows of a result.

    Raises:
        DataError: Some are missing.
    """
    try:
        stored = result["rows"]
        floats = ("probs", "sensitivity", "sensitivity_base_tokens")
        names = ("index", "texts", "labels", "groups", "predictions", "shortcut_rank", *floats)
        values = {"probs": [], **stored}
        arrays = {name: np.asarray(values[name], dtype=np.float64 if name in floats else np.int64) for name in names}
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"The result of run {result.get('run')} has no usable rows ({error}).") from error
    return Rows(**arrays)


def concatenated(parts: Sequence[Rows]) -> Rows:
    """The rows of several runs one after another; audited rows come first in each part, and first in all."""
    names = ("index", "texts", "labels", "groups", "predictions", "probs", "shortcut_rank")
    audited = [len(part.sensitivity) for part in parts]
    order = np.concatenate(
        [
            *(start + np.arange(n) for start, n in zip(_starts(parts), audited, strict=True)),
            *(
                start + np.arange(n, len(part.labels))
                for part, start, n in zip(parts, _starts(parts), audited, strict=True)
            ),
        ]
    )
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Rows(
        **{name: values[order] if len(values) else values for name, values in arrays.items()},
        sensitivity=np.concatenate([part.sensitivity for part in parts]),
        sensitivity_base_tokens=np.concatenate([part.sensitivity_base_tokens for part in parts]),
    )


def _starts(parts: Sequence[Rows]) -> list[int]:
    sizes = [len(part.labels) for part in parts]
    return [sum(sizes[:at]) for at in range(len(parts))]
