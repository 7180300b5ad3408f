"""What results show of themselves in terminals and notebooks: a few facts, one small table, and charts.

A result says what is shown (a `Summary`); how wide it may be, what is escaped and what is cut is settled here.
"""

from __future__ import annotations

import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from io import StringIO
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from .errors import ConfigError, printable
from .text import visible_name
from .typing import Progress

MOST_ROWS = 8
"""Of a table whose rows come by rank."""

WIDTH = 80


class Screen(Console):
    """A terminal, to which nothing that came from data is markup or a command."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything that is printed comes through here, before styles become commands to the terminal."""
        for one in super().render(renderable, options):
            yield one if one.control else one._replace(text=printable(one.text))


def say(sentence: str = "") -> None:
    """Print a line as it is, however long, but for what a terminal would obey."""
    print(printable(sentence), flush=True)


@dataclass(frozen=True)
class Summary:
    """What is shown of a result. Its strings may come from anybody's files and hold any character.

    Attributes:
        facts: Names and values, one a line.
        columns: Heads of the table; one that begins with ">" is of numbers, which stand on the right.
        rows: Its cells; see `cell` for what one may be.
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
        facts = (cut(visible_name(line), width) for line in head)
        return "\n".join([*facts, *self._table(width), *self._more, *(cut(note, width) for note in notes)])

    def html(self) -> str:
        """For a notebook, light or dark: no colours of its own, everything escaped, and no text a formula."""
        heads = [(column.lstrip(">"), _side(column)) for column in self.columns]
        rows = [[(cell(value), side) for value, (_, side) in zip(row, heads, strict=True)] for row in self.rows]
        shown: str = template("summary.html.j2").render(
            summary=self, heads=heads, rows=rows, notes=(*self._more, *self.notes), width=WIDTH
        )
        return shown

    @property
    def _more(self) -> tuple[str, ...]:
        return (f"... and {self.more:,} more",) if self.more else ()

    def _table(self, width: int) -> list[str]:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
        for column in self.columns:
            # Words give way to numbers where a line has no room for both.
            side = _side(column)
            table.add_column(column.lstrip(">"), justify=side, no_wrap=side == "right")
        for row in self.rows:
            table.add_row(*(_line(cut(visible_name(cell(value)), width)) for value in row))
        shown = StringIO()
        screen = Console(file=shown, width=width, color_system=None, force_jupyter=False, legacy_windows=False)
        screen.print(table)
        return [line.rstrip() for line in shown.getvalue().splitlines()] if self.rows else []


def _side(column: str) -> Literal["left", "right"]:
    return "right" if column.startswith(">") else "left"


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


def percent(share: float, digits: int = 1) -> str:
    """A share in percent, halves rounded up: all pages and tables say the same."""
    return f"{(100 * Decimal(repr(float(share)))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)}%"


def interval(low: float, high: float) -> str:
    """A 95 % interval."""
    return "-" if math.isnan(low) else f"{low:.2f} to {high:.2f}"


def p_value(value: float | None) -> str:
    """A q-value or p-value as people write it."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def threshold(of: float) -> str:
    """A probability that may be next to 0 or 1."""
    return "<0.0001" if of < 1e-4 else ">0.9999" if of > 1 - 1e-4 else f"{of:.4f}"


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


def cut(text: str, width: int) -> str:
    """The beginning of what takes more columns of a terminal, or is made of many more characters."""
    line = _line(text if len(text) <= 4 * width else text[: 4 * width] + "…")
    line.truncate(width)
    return line.plain


def _line(text: str) -> Text:
    """A text that ends with an ellipsis where there is no more room, and on the line where it began."""
    return Text(text, no_wrap=True, overflow="ellipsis")


@cache
def template(name: str) -> Any:
    """A Jinja template, by its path in this package; where it is a page everything that comes from data is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__, ""),
        autoescape=name.endswith(".html.j2"),
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    # What would end a table or code in Markdown is taken out.
    environment.filters["code"] = lambda word: "`" + word.replace("`", "'").replace("|", "/") + "`"
    shown = (number, percent, interval, p_value, cut, visible_name)
    environment.globals |= {function.__name__: function for function in shown}
    return environment.get_template(name)


LEGEND_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2, "frameon": False}
"""Of a chart that may have something anywhere."""


def chart(ax: Any, height: float = 3.5) -> Any:
    """The Matplotlib axes to draw on: those that are given, or new ones."""
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
            self._stage, self._bar = stage, tqdm(total=total, desc=printable(stage), leave=False)
            bar = self._bar
        bar.update(done - bar.n)


def asked_for(answers: int, seconds: float | None, n: int) -> str:
    """How many predictions about n texts were asked for, and how long that took."""
    return f"{answers:,} predictions ({answers / n:.1f} a text) in {seconds or 0:,.1f} s"
