"""Sphinx extension: pages are filled in from committed results and from constants of the code when the site is built.

A repository host shows a page as it is written. So pages for users have their figures in them, each with a comment that
says where it comes from, which no host shows. `python docs/tools/evidence.py` writes them anew, and a test compares:

    up to 40<!-- MOST_QUESTIONS --> questions

    <!-- filled in by
    | seed | accuracy |
    |---|---|
    {% for one in results("x.json").results %}
    | {{ one.seed }} | {{ short(one.accuracy) }} |
    {% endfor %}
    -->
    | seed | accuracy |
    ...
    <!-- end -->

What several of them need stands in a comment that starts with `given`. `on the site` in place of `filled in by` is for
long lists: the site has the list, and a host what stands in its place.

Pages of evidence are Jinja templates. Their source says where a figure or a table comes from:

    {% set alike = results("similar_words.json").results %}
    It closes {{ short(alike.at(seed=0).guards.default.gap.accuracy) }} of the gap.

`results` reads a file under `results/`: JSON, CSV, or the tables of a Markdown page, whose columns are named in small
letters with `_`. With `*` in its name it is a list, one entry a file. `runs.json` of an experiment brings its rows of
`runs.parquet`. `code("package.module:NAME")` is a constant, or a class of settings with its defaults; `constants.toml`
has names for those of the library. `beside_the_paper("shifted")` is a table of an experiment beside the paper's: its
rows come from `shifted/runs.json` and the Parquet files, its columns from `paper_numbers.toml` of the benchmark.

- `records.at(seed=0)` is the one record that is so, `records.where(kind="x")` the list of those that are. A condition
  may stand in quotes: `records.where("fixed <= broken")`. `records.each("a.b")` is a list of what each record has.
- A text is read as the numbers in it: of a cell ".81 (.02)", `[0]` is .81 and `[1]` is .02.
- A whole number is shown with commas. Any other says its form: `short(x)` is .48, `digits(x)` 0.48, `percent(x)` 48,
  `signed(x)` +.48, `power(x)` 5e-1. The second argument says how many digits follow the point. `low(k, n)` is the lower
  end of the exact 95 % interval of a share.

What a result does not have, and a number without a form, is a warning with its page and line, which fails the build.
"""

from __future__ import annotations

import csv
import importlib
import json
import lzma
import re
import statistics
import tomllib
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import pyarrow.parquet
from sphinx.util import logging

from reference_pages import commands, settings
from shortcut_guardrail.stats import exact_interval

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
CONSTANTS = DOCS / "constants.toml"
RESULTS = DOCS.parent / "results"
LIBRARY = DOCS.parent / "src" / "shortcut_guardrail"

_NUMBER = re.compile(r"-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e-?\d+)?")
_OF_A_RUN = ("data", "metrics", "groups", "cost", "seconds", "system")

_log = logging.getLogger(__name__)


# What is read


@cache
def results(name: str) -> Any:
    """What a file of results holds, packed with xz or not; a name with `*` gives a list, one entry a file.

    Raises:
        LookupError: There is no such file.
    """
    if "*" in name:
        paths = [path for packed in ("", ".xz") for path in RESULTS.glob(name + packed)]
        found = [results(path.relative_to(RESULTS).as_posix().removesuffix(".xz")) for path in sorted(paths)]
    else:
        there = any((RESULTS / f"{name}{packed}").is_file() for packed in ("", ".xz"))
        found = _read(RESULTS / name) if there else None
    if not found:
        raise LookupError(f"there is no results/{name}; name a committed file under results/")
    return found


def _read(path: Path) -> Any:
    packed = path.with_name(f"{path.name}.xz")
    text = (lzma.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()).decode("utf-8")
    if path.suffix == ".md":
        return _rows(text)
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    found = json.loads(text)
    if path.name == "runs.json":
        found["runs"] = [_runs()[one["run"]] | one for one in found["runs"]]
    return found


def _rows(text: str) -> list[dict[str, str]]:
    """The rows of all tables of a page, as records; `marks` are those of notes on how a setting was chosen."""
    records: list[dict[str, str]] = []
    for table in re.findall(r"(?:^\|.*\n)+", text + "\n", re.MULTILINE):
        head, _, *rows = ([cell.strip(" §¶†*") for cell in line.strip("|").split("|")] for line in table.splitlines())
        names = [re.sub(r"\W+", "_", name.lower()).strip("_") for name in head]
        records += [dict(zip(names, row, strict=True)) for row in rows]
        for record, line in zip(records[-len(rows) :], table.splitlines()[2:], strict=True):
            record["marks"] = "".join(sorted(set(re.findall("[§¶]", line))))
    return records


@cache
def _runs() -> dict[str, dict[str, Any]]:
    columns = [f"json.{name}" for name in _OF_A_RUN]
    table = pyarrow.parquet.read_table(RESULTS / "runs.parquet", columns=["run", *columns])
    found = {}
    for row in table.to_pylist():
        run = {name: json.loads(row[f"json.{name}"] or "null") for name in _OF_A_RUN}
        # An experiment has the name of the system under this key.
        found[row["run"]] = run | {"system": None, "info": (run["system"] or {}).get("info")}
    return found


@cache
def code(name: str) -> Any:
    """A constant of the code, or a class of settings with its defaults, as `package.module:NAME`."""
    module, _, path = name.partition(":")
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value() if isinstance(value, type) else value, part)
    value = value() if isinstance(value, type) else value
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


@cache
def constants() -> dict[str, Any]:
    """What `constants.toml` names."""
    return {name: code(path) for name, path in tomllib.loads(CONSTANTS.read_text(encoding="utf-8")).items()}


def beside_the_paper(experiment: str) -> str:
    """The tables of an experiment with the paper's numbers in them."""
    from shortcut_bench.reproduction import beside_the_paper  # here, since one page needs it

    return beside_the_paper(experiment, RESULTS, images_from=DOCS / "research")


def files(room: str) -> list[Path]:
    """The Python files of a package of the library, or of a single module, or of all of it."""
    found = sorted(LIBRARY.glob(f"{room}.py")) or sorted((LIBRARY / room).rglob("*.py"))
    if not found:
        raise LookupError(f"the library has no room {room!r}")
    return found


def lines(room: str = "") -> int:
    """How many lines a room of the library has."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files(room))


def imports(room: str) -> str:
    """The rooms that a room imports from."""
    inside = [file.read_text(encoding="utf-8") for file in files(room)]
    up = r"\.\." if (LIBRARY / room).is_dir() else r"\."
    found = {name for text in inside for name in re.findall(rf"^ *from {up}(\w+) import", text, re.MULTILINE)}
    return ", ".join(f"`{name}`" for name in sorted(found))


def numbers(text: str) -> list[float]:
    """The numbers in a text.

    Example:
        >>> numbers("1,124 (.5) [-0.25, 2e-3]")
        [1124.0, 0.5, -0.25, 0.002]
    """
    return [float(number.replace(",", "")) for number in _NUMBER.findall(text)]


def number(value: Any) -> float:
    """A value as the number it is; a text is its first number."""
    return numbers(value)[0] if isinstance(value, str) else float(value)


# How it is shown


def digits(value: Any, places: int = 2) -> str:
    """A number with so many digits after the point, and with commas from 1,000 on."""
    text = f"{number(value):,.{places}f}"
    return text if re.search("[1-9]", text) else text.removeprefix("-")


def short(value: Any, places: int = 2) -> str:
    """The same without a zero before the point.

    Example:
        >>> short(0.475), short(-0.5), short(1.5, 1), short("0.81 (0.02)"), short(-0.001)
        ('.47', '-.50', '1.5', '.81', '.00')
    """
    return re.sub(r"^(-?)0\.", r"\1.", digits(value, places))


def percent(value: Any, places: int = 0) -> str:
    """A share of 1 in percent, without the sign."""
    return short(100 * number(value), places)


def signed(value: Any, places: int = 2) -> str:
    """As `short`, with a plus."""
    return ("" if number(value) < 0 else "+") + short(value, places)


def power(value: Any, places: int = 0) -> str:
    """A small number as `2.5e-4`."""
    mantissa, _, exponent = f"{number(value):.{places}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def significant(value: Any, count: int = 2) -> str:
    """A number with so many digits that count, however small it is: 0.000012."""
    return f"{Decimal(f'{number(value):.{count}g}'):f}"


def deviation(value: Any, places: int = 2) -> str:
    """A mean and its deviation, of a pair or of a cell that may end in an interval; of one seed the mean alone.

    Example:
        >>> deviation("0.812 (0.020) [0.79, 0.83]"), deviation([0.5, 0.25], 3), deviation("0.812 [0.79, 0.83]")
        ('.81 (.02)', '.500 (.250)', '.81')
    """
    mean, *others = numbers(value.partition("[")[0]) if isinstance(value, str) else value
    return short(mean, places) + "".join(f" ({short(one, places)})" for one in others[:1])


def interval(value: Any, places: int = 2) -> str:
    """The interval that a pair is, or that a cell ends in.

    Example:
        >>> interval("0.812 (0.020) [0.79, 0.83]"), interval([0.5, 1.0], 1)
        ('[.79, .83]', '[.5, 1.0]')
    """
    low, high = (numbers(value) if isinstance(value, str) else value)[-2:]
    return f"[{short(low, places)}, {short(high, places)}]"


def _plain(value: Any) -> Any:
    """What an expression shows that says no form."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if value is None or isinstance(value, float | list | dict):
        raise TypeError(f"{str(value)[:60]} has to say its form, such as short(...)")
    return value


# Templates


def at(records: Iterable[Any], *conditions: str, **equal: Any) -> Any:
    """The one record that is so."""
    found = where(records, *conditions, **equal)
    if len(found) != 1:
        raise LookupError(f"{conditions or ''} {equal or ''} is so of {len(found)} records, where one was expected")
    return found[0]


def where(records: Iterable[Any], *conditions: str, **equal: Any) -> list[Any]:
    """The records that are so."""
    return [
        one
        for one in records
        if all(one[key] == value for key, value in equal.items()) and all(_compiled(text)(one) for text in conditions)
    ]


def each(records: Iterable[Any], expression: str) -> list[Any]:
    """What each record has."""
    return [_compiled(expression)(one) for one in records]


@cache
def _compiled(expression: str) -> Any:
    return ENVIRONMENT.compile_expression(expression, undefined_to_none=False)


class _Environment(jinja2.Environment):
    """Keys of records go before the methods of Python's dictionaries, and texts are the numbers in them."""

    def getattr(self, value: Any, name: str) -> Any:
        if isinstance(value, Mapping) and name in value:
            return value[name]
        if isinstance(value, list) and name in _SELECTIONS:
            return partial(_SELECTIONS[name], value)
        return super().getattr(value, name)

    def getitem(self, value: Any, key: Any) -> Any:
        if isinstance(value, str) and isinstance(key, int):
            return numbers(value)[key]
        if isinstance(value, Mapping) and isinstance(key, int) and key not in value:
            key = str(key)
        return super().getitem(value, key)


_SELECTIONS = {"at": at, "where": where, "each": each}
_FORMS = (digits, short, percent, signed, power, significant, deviation, interval)
ENVIRONMENT = _Environment(
    undefined=jinja2.StrictUndefined,
    finalize=_plain,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ASKED_FOR = (results, code, beside_the_paper, commands, settings, lines, imports, number)
_OF_PYTHON = (min, max, sum, len, list, range, zip, round)
ENVIRONMENT.globals |= {one.__name__: one for one in (*_ASKED_FOR, *_FORMS, *_OF_PYTHON)}
ENVIRONMENT.globals |= {
    "mean": lambda values: statistics.fmean(map(number, values)),
    "sd": lambda values: statistics.stdev(map(number, values)),
    "median": lambda values: statistics.median(map(number, values)),
    "low": lambda k, n: exact_interval(int(k), int(n))[0],
    "flat": lambda lists: [value for one in lists for value in one],
    "values": lambda record: list(record.values()),
}


_GIVEN = re.compile(r"<!-- given\n(.*?)-->\n", re.DOTALL)
_FIGURE = re.compile(r"(`?)([^\s`|(*]+)\1<!-- ([^\n]+?) -->")
_BLOCK = re.compile(r"<!-- (filled in by|on the site)\n(.*?)-->\n(.*?)<!-- end -->\n", re.DOTALL)


def for_users() -> list[Path]:
    """The pages that have their figures in them."""
    found = [page for page in DOCS.rglob("*.md") if "research" not in page.parts and page.stem != "architecture"]
    return sorted(found)


def filled(page: str) -> str:
    """A page for users with its figures and tables as they are now."""
    given = "".join(_GIVEN.findall(page))

    def figure(found: re.Match[str]) -> str:
        mark, _, expression = found.groups()
        value = ENVIRONMENT.from_string(f"{given}{{{{ {expression} }}}}").render(constants()).strip()
        return f"{mark}{value}{mark}<!-- {expression} -->"

    def block(found: re.Match[str]) -> str:
        kind, template, text = found.groups()
        if kind == "filled in by":
            text = ENVIRONMENT.from_string(given + template).render(constants()).strip() + "\n"
        return f"<!-- {kind}\n{template}-->\n{text}<!-- end -->\n"

    return _BLOCK.sub(block, _FIGURE.sub(figure, page))


def for_the_site(page: str) -> str:
    """A page without these comments, with the lists that only the site has, and with its templates filled in."""
    page = _BLOCK.sub(lambda found: found[3] if found[1] == "filled in by" else found[2], _GIVEN.sub("", page))
    return ENVIRONMENT.from_string(_FIGURE.sub(r"\1\2\1", page)).render(constants())


def _fill_in(app: Sphinx, name: str, content: list[str]) -> None:
    try:
        content[0] = for_the_site(content[0])
    except Exception as error:
        _log.warning("%s: %s", type(error).__name__, error, location=(name, _line_of(error)))


def _line_of(error: Exception) -> int | None:
    """The line of the template at which it stopped."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return lines[-1] if lines else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx: before links of the pages are looked at."""
    app.connect("source-read", _fill_in, priority=400)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    for page in for_users():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
