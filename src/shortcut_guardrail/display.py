"""What results show of themselves in terminals and notebooks: a few facts, one small table, and charts.

A result says what is shown (a `Summary`); how wide it may be, what is escaped and what is cut is settled here.
"""

from __future__ import annotations

import html
import math
import textwrap
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import ConfigError
from .text import visible_name
from .typing import Progress

MOST_ROWS = 8
"""Of a table whose rows come by rank."""

WIDTH = 80


@dataclass(frozen=True)
class Summary:
    """What is shown of a result. Its strings may come from anybody's files and hold any character.

    Attributes:
        title: The first line.
        facts: Names and values, one a line.
        columns: Heads of the table; one that begins with ">" is of numbers, which stand on the right.
        rows: Its cells; see `cell` for what one may be.
        more: How many rows there are beyond these.
        notes: Sentences below.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[object, ...]] = ()
    more: int = 0
    notes: tuple[str, ...] = ()

    def text(self, width: int = WIDTH) -> str:
        """For a terminal: lines of at most so many columns, where Chinese, say, takes two a character."""
        indent = max(map(len, self.facts), default=0)
        head = [self.title, *(f"{name:{indent}}  {value}" for name, value in self.facts.items())]
        notes = (line for note in self.notes for line in textwrap.wrap(visible_name(note), width, max_lines=6))
        lines = [*map(visible_name, head), *self._table(width), *self._more, *notes]
        return "\n".join(cut(line, width) for line in lines)

    def html(self) -> str:
        """For a notebook, light or dark: no colours of its own, everything escaped, and no text a formula."""
        facts = "".join(f"<tr>{_td(name, 'th')}{_td(value, most=400)}</tr>" for name, value in self.facts.items())
        right = [column.startswith(">") for column in self.columns]
        head = "".join(_td(column.lstrip(">"), "th", r) for column, r in zip(self.columns, right, strict=True))
        rows = "".join(
            "<tr>" + "".join(_td(cell(value), "td", r) for value, r in zip(row, right, strict=True)) + "</tr>"
            for row in self.rows
        )
        return (
            f'<div class="tex2jax_ignore mathjax_ignore"><p><strong>{_escaped(self.title)}</strong></p>'
            + (f"<table><tbody>{facts}</tbody></table>" if facts else "")
            + (f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else "")
            + "".join(f"<p>{_escaped(note, 2000)}</p>" for note in (*self._more, *self.notes))
            + "</div>"
        )

    @property
    def _more(self) -> tuple[str, ...]:
        return (f"... and {self.more:,} more",) if self.more else ()

    def _table(self, width: int) -> list[str]:
        if not self.rows:
            return []
        right = [column.startswith(">") for column in self.columns]
        rows = [[column.lstrip(">") for column in self.columns]]
        rows += [[visible_name(cell(value)) for value in row] for row in self.rows]
        widths = [min(width, max(map(columns_of, column))) for column in zip(*rows, strict=True)]
        while sum(widths) + 2 * (len(widths) - 1) > width:
            widths[widths.index(max(widths))] -= 1
        return ["  ".join(map(_padded, row, widths, right)).rstrip() for row in rows]


class Shown(ABC):
    """A result that says what is shown of it."""

    @abstractmethod
    def _summary(self) -> Summary: ...

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()


def cell(value: object) -> str:
    """A number with three decimals, an interval for two of them, a dash for `None`; all else as it is."""
    if isinstance(value, tuple):
        return interval(*value)
    return number(value) if value is None or isinstance(value, float) else str(value)


def number(value: float | None, *, signed: bool = False) -> str:
    """Three decimals, or a dash for what is undefined."""
    if value is None or math.isnan(value):
        return "-"
    value = round(value, 3) + 0.0  # no minus in front of a zero
    return f"{value:+.3f}" if signed else f"{value:.3f}"


def interval(low: float, high: float) -> str:
    """A 95 % interval."""
    return "-" if math.isnan(low) else f"{low:.2f} to {high:.2f}"


def p_value(value: float | None) -> str:
    """A q-value or p-value as people write it."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def some(names: Sequence[str], most: int = 5) -> str:
    """The first names and how many there are beyond them.

    Example:
        >>> some(["a", "b", "c"], 2), some([])
        ('a, b and 1 more', 'none')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(cut(visible_name(name), 30) for name in names[:most]) + more if names else "none"


def spread(points: Sequence[Any], kept: Iterable[float], most: int = 11) -> list[Any]:
    """At most so many points of a curve, evenly spread; those at the strengths `kept` are among them."""
    if len(points) <= most:
        return list(points)
    must = {i for i, point in enumerate(points) if point.strength in set(kept)}
    rest = [i for i in range(len(points)) if i not in must]
    step = (len(rest) - 1) / (most - len(must) - 1)
    return [points[i] for i in sorted({*must, *(rest[int(k * step + 0.5)] for k in range(most - len(must)))})]


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes at most; terminals join some characters that are counted apart."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me") or character in "\u200b\u200c\u200d\u2060\ufeff":
        return int(character == "\ufe0f")  # it makes an emoji, two columns wide, of the sign before it
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The beginning of what takes more columns, or is made of many more characters."""
    if len(text) <= 4 * width and columns_of(text) <= width:
        return text
    used, end = 0, 0
    while end < 4 * width and used + _columns(text[end]) < width:
        used, end = used + _columns(text[end]), end + 1
    return text[:end] + "…"


def _padded(text: str, width: int, right: bool) -> str:
    text = cut(text, width)
    space = " " * (width - columns_of(text))
    return space + text if right else text + space


def _escaped(text: str, most: int = WIDTH) -> str:
    return html.escape(cut(visible_name(text), most))


def _td(text: str, tag: str = "td", right: bool = False, most: int = WIDTH) -> str:
    return f'<{tag} style="text-align:{"right" if right else "left"}">{_escaped(text, most)}</{tag}>'


LEGEND_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2, "frameon": False}
"""Of a chart that may have something anywhere."""


def chart(ax: Any, height: float = 3.5) -> Any:
    """The Matplotlib axes to draw on: those that are given, or new ones.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ConfigError("plot needs Matplotlib. Install it with: pip install 'shortcut-guardrail[plot]'") from error
    return pyplot.subplots(figsize=(7, height), layout="constrained")[1]


def whiskers(values: Sequence[float], intervals: Sequence[tuple[float, float]]) -> list[list[float]]:
    """How far intervals go to both sides of their values; 0 where they are undefined."""
    pairs = list(zip(values, intervals, strict=True))
    sides = [[value - low for value, (low, _) in pairs], [high - value for value, (_, high) in pairs]]
    return [[max(0.0, far) if far == far else 0.0 for far in side] for side in sides]


def shown_progress(asked: Progress | bool | None) -> Progress | None:
    """Whom to tell how much is done: who is given, for `True` a bar of each stage on stderr, else nobody."""
    if not isinstance(asked, bool):
        return asked
    return _Bar() if asked else None


class _Bar:
    """A bar of the stage that runs; it goes with its stage, and the last one with whoever holds this."""

    def __init__(self) -> None:
        self._stage, self._bar = "", None

    def __call__(self, stage: str, done: int, total: int) -> None:
        from tqdm import tqdm

        bar: Any = self._bar
        if bar is None or stage != self._stage or done < bar.n:  # a stage may start over
            if bar is not None:
                bar.close()
            self._stage, self._bar = stage, tqdm(total=total, desc=stage, leave=False)
            bar = self._bar
        bar.update(done - bar.n)
