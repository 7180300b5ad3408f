"""Tables of rows that commands write: CSV, TSV or JSON Lines, by the suffix of the file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from ..errors import ConfigError

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")


def check_suffix(out: Path, option: str = "--out") -> None:
    """Refuse a file whose suffix names no format."""
    if out.suffix.lower() not in (*_DELIMITERS, *_JSON_LINES):
        raise ConfigError(f"{option} must end in .csv, .tsv or .jsonl, but is '{out}'.")


def rendered(rows: list[dict[str, Any]], suffix: str) -> str:
    """At least one row with the same columns each, in the format of a suffix that `check_suffix` allows."""
    if suffix.lower() in _JSON_LINES:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    buffer = io.StringIO()
    writer = csv.DictWriter(
        buffer, fieldnames=list(rows[0]), delimiter=_DELIMITERS[suffix.lower()], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
