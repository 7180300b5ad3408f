"""Writes finished experiments as JSON that says how it was made, and reads them back.

One folder per experiment, one `result.json` in it.
"""

import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shortcut_guardrail.data import check_output, to_json, write_file
from shortcut_guardrail.errors import DataError, RunError

RESULT_FILE = "result.json"
_RECORDED_PACKAGES = ("shortcut-guardrail", "numpy", "scipy", "torch", "transformers")


def result_path(results: Path, experiment: str) -> Path:
    """Where the result of an experiment lies under the folder `results`."""
    return results / experiment / RESULT_FILE


def record_run(
    results: Path, experiment: str, compute: Callable[[], dict[str, Any]], *, command: str, overwrite: bool = False
) -> Path:
    """Runs an experiment and writes its result, complete or not at all.

    Args:
        results: Folder of all results; made if it is not there.
        experiment: Name of the experiment and of its folder.
        compute: Returns the JSON-able result.
        command: The command line that makes this result, recorded in it.
        overwrite: Whether a result that is already there may be replaced.

    Returns:
        The file that was written.

    Raises:
        ConfigError: There is a result already and `overwrite` is False.
        RunError: The result cannot be written.
    """
    path = result_path(results, experiment)
    check_output(path, overwrite=overwrite)
    started = time.perf_counter()
    result = compute()
    record = {
        "experiment": experiment,
        "command": command,
        "versions": {"python": platform.python_version()} | _package_versions(),
        "seconds": round(time.perf_counter() - started, 1),
    } | result
    write_file(path, to_json(record), overwrite=True)
    return path


def read_result(results: Path, experiment: str) -> dict[str, Any]:
    """The recorded result of an experiment.

    Raises:
        DataError: There is none, or the file is not a result of this experiment.
    """
    path = result_path(results, experiment)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(
            f"There is no {path}. Make it with: shortcut-guardrail benchmark run {experiment} --out {results}"
        ) from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(
            f"{path} cannot be read as JSON ({error}). Run the experiment again with --overwrite."
        ) from error
    if not isinstance(record, dict) or record.get("experiment") != experiment:
        found = record.get("experiment") if isinstance(record, dict) else type(record).__name__
        raise DataError(f"{path} must hold a result of {experiment!r}, but holds {found!r}.")
    return record


class FinishedRows:
    """Rows of a long run as they are finished, so that a run that was killed goes on where it stopped.

    A file with one JSON object per line: what identifies the row, and the row. A last line that was cut off is dropped.

    Args:
        path: The file; made with the first row.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, dict[str, Any]] = {
            _identity(entry["key"]): entry["row"] for entry in _complete_lines(path)
        }

    def get(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The row that was finished under this key, or a new one, which is then kept.

        Raises:
            RunError: The new row cannot be written.
        """
        identity = _identity(key)
        if identity not in self._rows:
            row = compute()
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    # The line break comes first, so that a line that was cut off stays alone.
                    file.write("\n" + json.dumps({"key": key, "row": row}, allow_nan=False))
            except OSError as error:
                raise RunError(f"{self._path} cannot be written: {error.strerror}.") from error
            self._rows[identity] = row
        return self._rows[identity]


def _identity(key: dict[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)


def _complete_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            continue  # the run was killed while it wrote this one
    return entries


def _package_versions() -> dict[str, str]:
    found = {}
    for name in _RECORDED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # a result that does not use it is still a result
    return found
