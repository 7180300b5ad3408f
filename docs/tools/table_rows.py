"""Which figures of tables of the pages of evidence come from a committed result, where nothing compares their cells.

    python docs/tools/table_rows.py

prints, for each page, how many figures there are, and those that are in none of the results it rests on. Prose is
checked here too on pages that `figures.py` does not trace in full yet.

A figure traces if a number of these results rounds to it, as it stands, as a percentage, as what is missing to one, or
as a mean, deviation, least or most over seeds. A row of a table has to find all of its figures within one file. That
says that a figure may come from there, not that it does: two digits are found by chance in a large file. So tables
whose rows are records of a result are compared cell by cell in `tests/docs/test_tables.py`.

What such a page shows beside stands in its list under `<!-- not stored -->`, with the reason.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import prose
from figures import TRACED

RESEARCH = prose.ROOT / "docs" / "research"
RESULTS = prose.ROOT / "results"

RESTS_ON = {
    "defaults.md": ["defaults.json"],
    "methods/measured.md": [
        "leaderboard/*.md",
        "leaderboard-in-distribution/*.md",
        "source-recipes/*.md",
    ],
    "speed.md": ["speed/*.json", "speed_tried.json"],
    "theory-checked.md": ["theory/result.json", "theory-bridge/result.json"],
}

_NUMBER = re.compile(r"(?<![\w.])\d*\.?\d+(?:e-?\d+)?(?![\w])")
_FIGURE = re.compile(r"(?<![\w.,/-])(?:\d{1,3}(?:,\d{3})+|\d*\.\d+|\d{2,})(?:e-?\d+)?(?![\w/]|\.\d|,\d{3})")
_NO_FIGURE = re.compile(
    r"`[^`]*`|\b(?:19|20)\d\d\b|\b(?:Section|Figure|Table|Theorem|Lemma|Python|PyTorch|version|schema)s? \d[\d.]*"
)


_COMMENTED = re.compile(r"[-+]?[\d.,]+<!--.*?-->")
_NOT_STORED = re.compile(r"^<!-- not stored -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Untraced:
    """A figure that no result of its page has."""

    page: str
    figure: str
    text: str


@cache
def _of_file(path: Path) -> tuple[float, ...]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        found = {float(number) for number in _NUMBER.findall(text)}
    else:
        found = set(_numbers(json.loads(text)))
    return tuple(sorted(found | {1 - value for value in found if 0 < value < 1}))


def _numbers(node: Any) -> Iterator[float]:
    """All numbers of a result, and what seeds or records of one kind have in the mean, at least and at most."""
    if isinstance(node, bool) or node is None:
        return
    if isinstance(node, int | float):
        if node == node and abs(node) != float("inf"):
            yield abs(float(node))
    elif isinstance(node, str):
        yield from (float(number) for number in _NUMBER.findall(node))
    elif isinstance(node, dict):
        for name, value in node.items():
            yield from _numbers(name)
            yield from _numbers(value)
    else:
        for value in node:
            yield from _numbers(value)
        yield float(len(node))
        yield from _aggregated(node)


def _aggregated(node: Sequence[Any]) -> Iterator[float]:
    plain = [value for value in node if isinstance(value, int | float) and not isinstance(value, bool)]
    if 2 <= len(plain) == len(node):
        yield from map(abs, (statistics.fmean(plain), statistics.stdev(plain), sum(plain)))
    if len(node) >= 2 and all(isinstance(value, dict) for value in node):
        for name in node[0]:
            yield from _aggregated([value.get(name) for value in node])


def _has(numbers: Sequence[float], figure: str) -> bool:
    plain = figure.replace(",", "")
    mantissa, _, exponent = plain.partition("e")
    digits = len(mantissa.partition(".")[2])
    value = float(plain)
    half = 0.5 * 10.0**-digits * 10.0 ** int(exponent or 0)
    scales = (1.0, 0.01) if 0.1 <= value <= 100 else (1.0, 1e6, 1e9, 2.0**20)
    return any(_within(numbers, value * scale, half * scale) for scale in scales)


def _within(numbers: Sequence[float], value: float, half: float) -> bool:
    at = bisect_left(numbers, value - half * 1.0001)
    return at < len(numbers) and numbers[at] <= value + half * 1.0001


def figures(text: str) -> list[str]:
    """The figures of a piece of text: numbers with a point, or with more than one digit, outside code.

    Example:
        >>> figures("In 2024 it rose from .81 to 92 % of 1,124 texts (`k=10`), 3 times")
        ['.81', '92', '1,124']
    """
    return _FIGURE.findall(_NO_FIGURE.sub(" ", text))


def pieces(page: str) -> Iterator[str]:
    """The rows of a page's tables, and its sentences."""
    yield from rows(page)
    yield from (one.text for one in prose.sentences(page))


def rows(page: str) -> Iterator[str]:
    """The rows of a page's tables, without the figures that have a source of their own."""
    yield from (
        line for line in _COMMENTED.sub("", page).splitlines() if line.startswith("|") and "<!-- row: " not in line
    )


def not_stored(page: str) -> set[str]:
    """The figures that a page says come from no result: those of its marked list."""
    return {figure for part in _NOT_STORED.findall(page) for figure in figures(part)}


def untraced(name: str) -> list[Untraced]:
    """The figures of a page that are in none of the results it rests on, in the order of the page."""
    files = [path for pattern in RESTS_ON[name] for path in sorted(RESULTS.glob(pattern))]
    numbers = [_of_file(path) for path in files]
    page = (RESEARCH / name).read_text(encoding="utf-8")
    said, found = not_stored(page), []
    for piece in rows(page) if name in TRACED else pieces(page):
        shown = figures(piece)
        sources = [[figure for figure in shown if _has(one, figure)] for one in numbers]
        if piece.startswith("|") and any(len(one) == len(shown) for one in sources):
            continue
        missing = [one for one in shown if one not in said and not any(one in source for source in sources)]
        found += [Untraced(name, figure, piece) for figure in missing]
    return found


def main() -> int:
    """Print what does not trace."""
    for name in RESTS_ON:
        shown = sum(len(figures(piece)) for piece in pieces((RESEARCH / name).read_text(encoding="utf-8")))
        missing = untraced(name)
        print(f"{name}: {shown} figures, {len(missing)} in no result")
        for one in missing:
            print(f"    {one.figure:>8}  {one.text[:160]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
