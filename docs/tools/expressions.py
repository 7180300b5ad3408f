"""Values of committed results by short expressions, as the comments behind figures of the pages of evidence hold them.

    alike_words.json: results.at(seed=0).guards.default.gap.accuracy

A file under `results/` (JSON, CSV, the tables of a Markdown page, or an experiment's `runs.json`, which brings its rows
of `runs.parquet`), a colon, and what to take of it:

- `a.b`, `a["b c"]`, `a[0]`: an entry by its key or place; `file` is the whole. A key may be a number (`draws[40]`).
  Of a text, such as a cell of a table, `[0]` is the first number in it, `[:2]` the first two. The columns of a table
  are named in small letters with `_`.
- `a.at(seed=0, kind="x")` is the one record that is so, `a.where(...)` the list of those that are. A condition may
  compare keys of the record too: `a.where(mended <= broken, "clean" in setting)`.
- `a.each(b.c)` is the list of what each record has there.
- `mean`, `sd` (of a sample), `median`, `least`, `most`, `total`, `count`, `distinct` of a list; `values`, `keys` of an
  entry; `flat` of a list of lists; `near(x, 1000)`, rounded to thousands; `+ - * / **`, so that `1 - x` is what misses.
- `of("other.json")` is another file; with `*` in its name a list, one of each. `code("package.module:NAME")` is a
  constant of the code, or a class of settings with its defaults. Both may stand before the colon too:
  `code package.module: NAME`.

Expressions are parsed; nothing of them is run as Python.
"""

from __future__ import annotations

import ast
import csv
import importlib
import json
import operator
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet

RESULTS = Path(__file__).resolve().parents[2] / "results"

_NUMBER = re.compile(r"-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e-?\d+)?")
_FILE = re.compile(r"\s*([\w./*-]+\.(?:json|csv|md)|code [\w.]+):\s*(.*)", re.DOTALL)
_OF_A_RUN = ("data", "metrics", "groups", "cost", "seconds", "system")

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


class ExpressionError(ValueError):
    """An expression that cannot be read, or asks for what a result does not have."""


def numbers_of(text: str) -> list[float]:
    """The numbers in a text.

    Example:
        >>> numbers_of("1,124 (.5) [-0.25, 2e-3]")
        [1124.0, 0.5, -0.25, 0.002]
    """
    return [float(number.replace(",", "")) for number in _NUMBER.findall(text)]


def number(value: Any) -> float:
    """A value as the number it is; a text is its first number."""
    found = numbers_of(value)[:1] if isinstance(value, str) else [value]
    if not found or isinstance(found[0], bool) or not isinstance(found[0], int | float):
        raise ExpressionError(f"expected a number, but it is {str(value)[:80]!r}; go on to one of its entries")
    return float(found[0])


def numbers_in(value: Any) -> list[float]:
    """All numbers of a value, in order: of lists in lists, and of texts.

    Example:
        >>> numbers_in([1, [0.5, "0.2 (0.1)"]])
        [1.0, 0.5, 0.2, 0.1]
    """
    if isinstance(value, str):
        return numbers_of(value)
    if isinstance(value, list):
        return [found for one in value for found in numbers_in(one)]
    return [number(value)]


def _numbers(values: Any) -> list[float]:
    if not isinstance(values, list):
        raise ExpressionError(f"expected a list, but it is {str(values)[:80]!r}; `each` and `values` make lists")
    return [number(value) for value in values]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean": lambda values: statistics.fmean(_numbers(values)),
    "sd": lambda values: statistics.stdev(_numbers(values)),
    "median": lambda values: statistics.median(_numbers(values)),
    "least": lambda values: min(_numbers(values)),
    "most": lambda values: max(_numbers(values)),
    "total": lambda values: sum(_numbers(values)),
    "count": len,
    "distinct": lambda values: len({json.dumps(value, sort_keys=True) for value in values}),
    "values": lambda entry: list(entry.values()),
    "keys": list,
    "flat": lambda lists: [value for one in lists for value in one],
    "near": lambda value, step: round(number(value) / step) * step,
    "of": lambda name: load(name),
    "code": lambda name: _of_code(name),
}


@cache
def load(name: str) -> Any:
    """What a file of results holds; a name with `*` gives a list, one entry a file."""
    if "*" in name:
        found = [load(path.relative_to(RESULTS).as_posix()) for path in sorted(RESULTS.glob(name))]
    else:
        path = RESULTS / name
        found = _read(path) if path.is_file() else None
    if not found:
        raise ExpressionError(f"there is no results/{name}; name a committed file under results/")
    return found


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return _tables(text)
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    found = json.loads(text)
    if path.name == "runs.json":
        found["runs"] = [_runs()[one["run"]] | one for one in found["runs"]]
    return found


def _tables(text: str) -> list[dict[str, str]]:
    """The rows of all tables of a page, as records."""
    records: list[dict[str, str]] = []
    for table in re.findall(r"(?:^\|.*\n)+", text + "\n", re.MULTILINE):
        head, _, *rows = ([cell.strip(" §¶†*") for cell in line.strip("|").split("|")] for line in table.splitlines())
        names = [re.sub(r"\W+", "_", name.lower()).strip("_") for name in head]
        records += [dict(zip(names, row, strict=True)) for row in rows]
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


def _of_code(name: str) -> Any:
    module, _, path = name.partition(":")
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    if isinstance(value, type) and is_dataclass(value):
        value = value()
    if value is None:
        raise ExpressionError(f"{module} has no {path}; name a constant, or a class of settings")
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def value_of(expression: str, names: Mapping[str, Any] | None = None) -> Any:
    """The value of an expression.

    Args:
        expression: As the module describes it; without a file it starts with one of `names`.
        names: What a page calls by a name of its own.

    Raises:
        ExpressionError: It cannot be read, or a result has no such entry.

    Example:
        >>> runs = [{"seed": 0, "gap": [0.5, 0.1]}, {"seed": 1, "gap": [0.8, 0.2]}]
        >>> value_of("100 * mean(runs.each(gap[0]))", {"runs": runs})
        65.0
        >>> value_of("runs.at(seed=1).gap[0] - runs.at(seed=0).gap[0]", {"runs": runs})
        0.30000000000000004
        >>> value_of("count(runs.where(gap[1] > 0.15))", {"runs": runs})
        1
    """
    scope: dict[str, Any] = dict(names or {})
    found = _FILE.fullmatch(expression)
    if found:
        source, expression = found.groups()
        if source.startswith("code "):
            expression = re.sub(r"^([\w.]+)", rf'code("{source[5:]}:\1")', expression)
        else:
            root = load(source)
            scope |= root if isinstance(root, dict) else {}
            scope["file"] = root
    try:
        return _evaluate(ast.parse(expression.strip(), mode="eval").body, scope)
    except ExpressionError:
        raise
    except Exception as error:
        raise ExpressionError(f"{type(error).__name__}: {error}") from error


def _evaluate(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return _entry(scope, name)
        case ast.Attribute(value=inner, attr=name):
            return _entry(_evaluate(inner, scope), name)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return _entry(_evaluate(inner, scope), key)
        case ast.Subscript(value=inner, slice=ast.Slice(lower=start, upper=end, step=None)):
            bounds = slice(*(None if one is None else _evaluate(one, scope) for one in (start, end)))
            return _list_of(_evaluate(inner, scope))[bounds]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [_evaluate(part, scope) for part in parts]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](number(_evaluate(left, scope)), number(_evaluate(right, scope)))
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_evaluate(left, scope), _evaluate(right, scope))
        case ast.Call():
            return _call(node, scope)
    raise ExpressionError(f"{ast.unparse(node)!r} is no expression over results")


def _list_of(value: Any) -> list[Any]:
    return numbers_of(value) if isinstance(value, str) else list(value)


def _call(node: ast.Call, scope: Mapping[str, Any]) -> Any:
    """A function, or a selection of records: `at`, `where` and `each`, of what stands before or of the whole file."""
    match node.func:
        case ast.Name(id="at" | "where" | "each" as name):
            records = _entry(scope, "file")
        case ast.Attribute(value=inner, attr="at" | "where" | "each" as name):
            records = _evaluate(inner, scope)
        case ast.Name(id=name) if name in FUNCTIONS and not node.keywords:
            return FUNCTIONS[name](*(_evaluate(argument, scope) for argument in node.args))
        case _:
            raise ExpressionError(f"{ast.unparse(node.func)!r} is no function; there are {', '.join(FUNCTIONS)}")
    if name == "each":
        return [_evaluate(node.args[0], one) for one in records]
    found = [one for one in records if _is_so(node, one, scope)]
    if name == "at" and len(found) != 1:
        raise ExpressionError(f"{ast.unparse(node)} is {len(found)} records, where one was expected")
    return found[0] if name == "at" else found


def _is_so(node: ast.Call, record: Mapping[str, Any], scope: Mapping[str, Any]) -> bool:
    equal = all(_entry(record, word.arg) == _evaluate(word.value, scope) for word in node.keywords)
    return equal and all(_evaluate(condition, record) for condition in node.args)


def _entry(value: Any, key: Any) -> Any:
    if isinstance(value, str):
        return numbers_of(value)[key]
    if isinstance(value, Sequence) and isinstance(key, int):
        return value[key]
    if isinstance(value, Mapping):
        for name in (key, str(key)):
            if name in value:
                return value[name]
        raise ExpressionError(f"there is no {key!r}; there are {', '.join(map(str, list(value)[:40]))}")
    raise ExpressionError(f"{str(value)[:80]!r} has no {key!r}; `at` takes one record of a list, `each` all")
