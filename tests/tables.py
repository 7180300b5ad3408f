"""Files of rows that commands write, read and filled in."""

import csv
import json
from collections.abc import Callable
from pathlib import Path


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of CSV, TSV or JSON Lines, by the ending."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="," if path.suffix == ".csv" else "\t"))


def answer(path: Path, say: str | Callable[[dict[str, str]], str] = "negative") -> Path:
    """The questions of `questions`, answered by a label, or by what is said of each row."""
    rows = read_rows(path)
    for row in rows:
        said = say if isinstance(say, str) else say(row)
        row["answer"] = {row["option_a"]: "a", row["option_b"]: "b"}.get(said, said)
    with path.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
