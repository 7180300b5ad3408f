"""Every figure in the prose of the pages, with the committed result, or the constant of the code, that it comes from.

    python docs/tools/figures.py [--write] [PAGE ...]

lists, for each page of `docs`, how its figures trace, and those that do not or that differ from their result;
`--write` puts in what the results say. A figure traces in one of four ways:

- An expression over results follows it at once, in a comment that no reader sees (`expressions.py` has the language):
  `closes .48<!-- alike_words.json: results.at(seed=0).guards.default.gap.accuracy --> of the gap`. The value is
  shown in the form in which the figure stands: digits, leading zero, commas, and times 100 where `%` follows.
- It stands in a table of the same section (heading to heading) that is compared cell by cell: by the test NAME in
  `tests/docs`, as `<!-- checked: NAME -->` over it says, or by expressions in its rows. That is taken
  only where no figure of such tables differs from it in the last digit alone: a slip of the pen is no other cell.
- A row of a table ends in `<!-- row: EXPRESSION -->`, before its last `|`: a list of what its cells but the first show.
- `<!-- not stored: REASON -->` follows it: a figure of the paper, of a citation, of a choice that a person made. On a
  line of its own it stands over a table of such figures.

`<!-- let NAME = EXPRESSION -->`, on a line of its own, gives a page a short name for what it uses often. Figures are
numbers with a point, of two digits or more, or before `%`, "of 5" and "points"; not years, seeds, versions or code.
A figure in a cell of a table may have a comment too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import prose
from expressions import ExpressionError, number, numbers_in, value_of

DOCS = prose.ROOT / "docs"

# Written by programs, which their own tests compare with results.
GENERATED = {"research/leaderboard.md", "research/reproduction.md"}

_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_HIDDEN = re.compile(
    r"^(?P<fence>```|~~~|:::).*?^(?P=fence)\s*?$|^    \S[^\n]*|<!--.*?-->|`[^`]*`|(?<=\])\([^)\s]*\)|^\s*\d+\.(?=\s)",
    re.MULTILINE | re.DOTALL,
)
_NO_FIGURE = re.compile(
    r"\b(?:19|20)\d\d\b|\b[Ss]eed \d+|\b[Ss]eeds \d+(?:(?:, | to | and )\d+)*"
    r"|\b(?:Section|Figure|Table|Theorem|Lemma|Equation|Python|PyTorch|version|schema|step)s? \d[\d.]*(?:, \d+)*"
    r"|\b[A-Za-z]\w*-\d+\b"
)
_FIGURE = re.compile(
    r"(?<![\w.,/])(?:(?<![\w)])[-+])?"
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d{2,}|\d(?=e-?\d|\0|\0* ?%|\0* of \d|\0* points?\b))(?:e-?\d+)?"
    r"(?![\w/]|\.\d|,\d{3})"
)
_IN_TABLE = re.compile(
    r"(?<![\w.,])(?:(?<![\w)])[-+])?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d+)(?:e-?\d+)?(?!\w|\.\d)"
)
_ROW = re.compile(r"^\|[^|]*\|(.*)<!-- row: (.*?) -->[ |]*$", re.MULTILINE)
_OF_NO_RESULT = re.compile(r"^<!-- not stored: \w.*? -->\n((?:^\|.*\n?)+)", re.MULTILINE)
_CHECKED = re.compile(r"^<!-- checked: (\w+) -->\n((?:^\|.*\n?)+)", re.MULTILINE)


@dataclass(frozen=True)
class Figure:
    """A figure of a page: where it stands, and the comment behind it, if any."""

    text: str
    start: int
    source: str
    in_table: bool
    percent: bool
    line: str

    @property
    def is_exempt(self) -> bool:
        """Whether the page says, with a reason, that no result holds it."""
        return bool(re.match(r"not stored: \w", self.source))


@dataclass(frozen=True)
class Problem:
    """A figure that does not trace, or differs from its result."""

    figure: Figure
    why: str
    expected: str = ""


def pages() -> list[str]:
    """The pages that are written by hand, by their path in `docs`."""
    names = (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    return sorted(name for name in names if name not in GENERATED and not name.startswith("reference/api/"))


def figures(page: str) -> list[Figure]:
    """The figures of a page in Markdown, those of its tables too.

    Example:
        >>> [(one.text, one.source, one.percent) for one in figures("In 2024, .81 and 4<!-- a.json: b --> % (`9.5`).")]
        [('.81', '', False), ('4', 'a.json: b', True)]
    """
    plain = _HIDDEN.sub(lambda found: ("\0" if found[0].startswith("<!--") else " ") * len(found[0]), page)
    plain = _NO_FIGURE.sub(lambda found: " " * len(found[0]), plain)
    found = []
    for match in _FIGURE.finditer(plain):
        comment = _COMMENT.match(page, match.end())
        after = plain[comment.end() if comment else match.end() :]
        line = page[page.rfind("\n", 0, match.start()) + 1 : page.find("\n", match.end())]
        source = comment[1].strip() if comment else ""
        found.append(
            Figure(
                text=match[0],
                start=match.start(),
                source="" if source.startswith("row: ") else source,
                in_table=line.startswith("|"),
                percent=re.match(r"\0* ?%", after) is not None,
                line=line,
            )
        )
    return found


def of_rows(page: str) -> Iterator[tuple[str, list[Figure]]]:
    """The rows of tables that end in an expression, with the figures of their cells but the first.

    Example:
        >>> [(source, [one.text for one in row]) for source, row in of_rows("| 1 | .2 `9` [-5]<!-- row: a --> |")]
        [('a', ['.2', '-5'])]
    """
    for match in _ROW.finditer(page):
        cells = _HIDDEN.sub(lambda found: " " * len(found[0]), match[1])
        at = match.start(1)
        row = [Figure(one[0], at + one.start(), "", True, False, match[0]) for one in _IN_TABLE.finditer(cells)]
        yield match[2].strip(), row


def names_of(page: str) -> dict[str, object]:
    """What a page calls by names of its own.

    Example:
        >>> names_of("<!-- let ten = 4 + 6 -->")
        {'ten': 10.0}
    """
    names: dict[str, object] = {}
    for comment in _COMMENT.findall(page):
        if found := re.fullmatch(r"\s*let (\w+) = (.*)", comment.rstrip(), re.DOTALL):
            names[found[1]] = value_of(found[2], names)
    return names


def shown(value: float, like: str) -> str:
    """A value in the form of a figure.

    Example:
        >>> shown(0.4751, ".48"), shown(1234.5, "1,000"), shown(-0.5, "0.00"), shown(1.5, "+.3"), shown(0.00012, "1e-3")
        ('.48', '1,234', '-0.50', '+1.5', '1e-4')
    """
    mantissa, exponent, _ = like.partition("e")
    digits = len(mantissa.partition(".")[2])
    if exponent:
        written, _, power = f"{abs(value):.{digits}e}".partition("e")
        text = f"{written}e{int(power)}"
    else:
        text = f"{abs(value):{',' if ',' in like or abs(value) >= 1000 else ''}.{digits}f}"
        text = text.removeprefix("0") if like.lstrip("+-").startswith(".") else text
    sign = "-" if value < 0 and re.search("[1-9]", text) else "+" if like.startswith("+") else ""
    return sign + text


def _sections(page: str) -> list[tuple[int, set[str]]]:
    """Where each section starts, and the figures of its tables that are checked cell by cell."""
    starts = [0, *(match.start() for match in re.finditer(r"^#+ ", page, re.MULTILINE))]
    found = []
    for start, end in zip(starts, [*starts[1:], len(page)], strict=True):
        tables = "".join(table for _, table in _CHECKED.findall(page[start:end]))
        rows = {one.text for _, row in of_rows(page[start:end]) for one in row}
        found.append((start, set(_IN_TABLE.findall(tables)) | rows))
    return found


def checked_tables(page: str) -> list[tuple[str, int, int]]:
    """The tables that a page says are compared cell by cell: the name of the test, where the table starts and ends.

    Example:
        >>> checked_tables("<!-- checked: test_a -->\\n| a |\\n|---|\\n| 1 |\\n")
        [('test_a', 25, 43)]
    """
    return [(found[1], found.start(2), found.end(2)) for found in _CHECKED.finditer(page)]


def uncompared(page: str) -> list[str]:
    """The rows of tables, with figures, that neither a test nor an expression compares, and no reason excuses.

    Example:
        >>> table = "| a | b |\\n|---|---|\\n| 1 | 2 |\\n| 1 | 2<!-- row: x --> |\\n"
        >>> uncompared(table), uncompared("<!-- not stored: formulas -->\\n" + table)
        (['| 1 | 2 |'], [])
    """
    for _, start, end in reversed(checked_tables(page)):
        page = page[:start] + page[end:]
    page = _OF_NO_RESULT.sub("", page)
    rows = re.findall(r"(?<=\|\n)\|.*\|$", page, re.MULTILINE)
    plain = {row: re.sub(r"[\d.,]+<!--.*?-->", "", row) for row in rows if not _ROW.match(row)}
    return [row for row, shown in plain.items() if _IN_TABLE.search(_NO_FIGURE.sub("", _HIDDEN.sub(" ", shown)))]


def is_in(tables: set[str], figure: str) -> bool:
    """Whether a figure is in tables, and no other with another last digit is.

    Example:
        >>> is_in({".81", ".92"}, ".81"), is_in({".81", ".83"}, ".81")
        (True, False)
    """
    return figure in tables and not any(figure[:-1] + digit in tables - {figure} for digit in "0123456789")


def _of_row(source: str, row: list[Figure], names: dict[str, object]) -> Iterator[Problem]:
    try:
        values = numbers_in(value_of(source, names))
    except ExpressionError as error:
        yield Problem(row[0], f"`{source}`: {error}")
        return
    if len(values) != len(row):
        yield Problem(row[0], f"`{source}` has {len(values)} numbers, the row {len(row)}: {values}")
        return
    for one, value in zip(row, values, strict=True):
        if (expected := shown(value, one.text)) != one.text:
            yield Problem(one, f"of `{source}` is {expected} ({value:.6g})", expected)


def problems(page: str) -> Iterator[Problem]:
    """The figures of a page that do not trace, and those of another value than their result."""
    names, sections = names_of(page), _sections(page)
    for source, row in of_rows(page):
        yield from _of_row(source, row, names)
    for one in figures(page):
        tables = max((start, at) for at, (start, _) in enumerate(sections) if start <= one.start)[1]
        if one.is_exempt or (not one.source and (one.in_table or is_in(sections[tables][1], one.text))):
            continue
        if not one.source:
            yield Problem(one, "comes from no result: add an expression, or cut it")
            continue
        try:
            value = number(value_of(one.source, names)) * (100 if one.percent else 1)
        except ExpressionError as error:
            yield Problem(one, f"`{one.source}`: {error}")
            continue
        if (expected := shown(value, one.text)) != one.text:
            yield Problem(one, f"`{one.source}` is {expected} ({value:.6g})", expected)
    yield from _stray(page)


def _stray(page: str) -> Iterator[Problem]:
    """Comments of figures that follow none, or stand where Markdown begins a block with them."""
    behind = {one.start + len(one.text) for one in figures(page) if one.source}
    behind |= {found.end(1) for found in _ROW.finditer(page)}
    behind |= {found.start() for found in _OF_NO_RESULT.finditer(page)}
    for match in _COMMENT.finditer(page):
        start, line = match.start(), page[page.rfind("\n", 0, match.start()) + 1 : match.start()]
        is_of_figure = line.strip() or re.match(r"not stored: |[\w./*-]+: ", match[1].strip())
        if is_of_figure and start not in behind and not re.match(r"checked: ", match[1].strip()):
            where = Figure(match[0], start, "", False, False, page[start : start + 120])
            yield Problem(where, "follows no figure: put it right behind one, on the same line")
    for match in re.finditer(r"^[ \t]*%.*", page, re.MULTILINE):
        where = Figure("%", match.start(), "", False, False, match[0])
        yield Problem(where, "the site drops a line that starts so: break it elsewhere")


def written(page: str) -> str:
    """The page with its figures as the results have them."""
    for one in sorted(problems(page), key=lambda one: -one.figure.start):
        if one.expected:
            start = one.figure.start
            page = page[:start] + one.expected + page[start + len(one.figure.text) :]
    return page


def summary(page: str) -> str:
    """How the figures of a page's prose trace."""
    found = [one for one in figures(page) if one.source or not one.in_table]
    exempt = sum(one.is_exempt for one in found)
    by_expression = sum(bool(one.source) for one in found) - exempt
    without = len(found) - exempt - by_expression
    return f"{by_expression} by an expression, {without} without, {exempt} said not to be stored"


def main(arguments: list[str] | None = None) -> int:
    """List what does not trace; with `--write`, correct what differs."""
    parser = argparse.ArgumentParser(description="Check the figures of pages of evidence against committed results.")
    parser.add_argument("pages", nargs="*", type=Path, help="pages to check; without, all that are written by hand")
    parser.add_argument("--write", action="store_true", help="rewrite figures that differ from their result")
    options = parser.parse_args(arguments)
    faults = 0
    for path in options.pages or [DOCS / name for name in pages()]:
        page = path.read_text(encoding="utf-8")
        if options.write and written(page) != page:
            page = written(page)
            path.write_text(page, encoding="utf-8")
        found = list(problems(page))
        faults += len(found)
        print(f"{path.name}: {summary(page)}; {len(found)} to mend")
        for one in found:
            print(f"    line {page.count(chr(10), 0, one.figure.start) + 1}: {one.figure.text}: {one.why}")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
