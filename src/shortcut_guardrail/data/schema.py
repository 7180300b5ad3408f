"""What is read from JSON files is checked against the dataclasses and typed dictionaries that it was written from.

The types say what a field must be; `Within`, `OneOf`, `NotEmpty` and `As` in an `Annotated` type say more. What does
not fit is refused in a sentence with the path of the field: guardrail.json: calibration.n must be a whole number, but
is "x".
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin

from ..errors import DataError, GuardrailError
from .messages import enumerated, kind_of, one_line, shortened
from .tables import read_utf8, unique_keys

DEEPEST = 64
"""Levels of nesting that a file may have; those that are written have a dozen."""

LONGEST = 1_000_000
"""Characters of a string that is no text of a user: a word, a name, a hash."""

MOST_BYTES = 2**30


@dataclass(frozen=True)
class Within:
    """A number from `low` to `high`."""

    low: float = -math.inf
    high: float = math.inf

    def describe(self, kind: str) -> str:
        """In words: "a number from 0 to 1"."""
        if self.high >= 2**31:
            return f"{kind}, {self.low:g} or more"
        return f"{kind} from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class OneOf:
    """A string that is one of these."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class NotEmpty:
    """A list with something in it, or a string with a character that is no space."""


@dataclass(frozen=True)
class Defined:
    """A number that may not be null where null stands for NaN."""


@dataclass(frozen=True)
class AnyLength:
    """A string that may be of any length: a user's text."""


@dataclass(frozen=True)
class As:
    """Checked as another kind, and left as it was read."""

    kind: Any


Count = Annotated[int, Within(0, 2**53)]
Share = Annotated[float, Within(0, 1)]
Word = Annotated[str, NotEmpty()]
UserText = Annotated[str, AnyLength()]


class Misfit(ValueError):
    """A value is not what its field must be; the message begins with the path of the field."""


def json_content(file: Path, *, error: type[GuardrailError] = DataError, advice: str) -> Any:
    """What a JSON file holds. NaN and infinite numbers, which JSON has not, are refused, and keys that occur twice.

    Raises:
        GuardrailError: Of the kind `error`: the file is missing, no file, no JSON, too large or nested too deeply.
    """
    try:
        if file.exists() and not (file.is_file() and file.stat().st_size <= MOST_BYTES):
            raise DataError(f"{file} is no file of at most {MOST_BYTES // 2**30} GiB.")
        content = read_utf8(file, str(file))
    except (DataError, OSError) as fault:
        raise error(f"{fault} {advice}".rstrip()) from fault
    try:
        return parse_json(content)
    except ValueError as fault:
        raise error(f"'{file}' is not valid JSON ({fault}). {advice}".rstrip()) from fault


def parse_json(content: str) -> Any:
    """What JSON text says.

    Raises:
        ValueError: It is no JSON, or holds what `json_content` refuses.
    """
    try:
        value = json.loads(content, object_pairs_hook=unique_keys, parse_constant=_no_number)
    except json.JSONDecodeError as fault:
        raise ValueError(f"line {fault.lineno}: {fault.msg}") from fault
    except RecursionError as fault:
        raise ValueError("nested too deeply") from fault
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _parts(outer) if isinstance(inner, dict | list)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def checked(
    value: Any,
    kind: Any,
    source: str,
    *,
    path: str = "",
    error: type[GuardrailError] = DataError,
    advice: str = "",
    open_ended: bool = False,
    null_is_nan: bool = False,
    complete: bool = False,
) -> Any:
    """A value from JSON as a type: lists become tuples, objects dataclasses.

    Args:
        value: What was read.
        kind: A dataclass or typed dictionary, or a type that their fields may have.
        source: What to call the file in messages.
        path: Where the value stands in it.
        error: What is raised.
        advice: What to do, in a sentence.
        open_ended: Whether fields that are not known are left out rather than refused.
        null_is_nan: Whether null stands for NaN where a number is needed.
        complete: Whether fields with a default have to be there too.

    Raises:
        GuardrailError: Of the kind `error`: a field is missing, unknown or not what it must be.
    """
    try:
        return _Reader(open_ended, null_is_nan, complete).read(value, kind, path)
    except Misfit as misfit:
        raise error(f"{source}: {misfit} {advice}".rstrip()) from misfit


def must_be(path: str, what: str, value: Any) -> Misfit:
    """The sentence about a value that does not fit."""
    return Misfit(f"{path or 'the file'} must be {what}, but is {shown(value)}.")


def shown(value: Any) -> str:
    """A value as JSON where it is short, or else what it is."""
    if isinstance(value, str):
        return json.dumps(shortened(value), ensure_ascii=True)
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    return str(value) if isinstance(value, int | float) else kind_of(value)


_SCALARS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a string", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: type(value) is int and -(2**63) <= value < 2**64),
    float: ("a number", lambda value: type(value) in (int, float) and abs(value) <= 1e300),
}


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


@dataclass(frozen=True)
class _Reader:
    open_ended: bool
    null_is_nan: bool
    complete: bool

    def read(self, value: Any, kind: Any, path: str, notes: tuple[Any, ...] = ()) -> Any:
        """The value as a type; see `checked`."""
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            kept = next((note for note in args[1:] if isinstance(note, As)), None)
            if kept is not None:
                if value is not None or type(None) not in get_args(args[0]):
                    self.read(value, kept.kind, path)
                return self.read(value, args[0], path)
            return self.read(value, args[0], path, (*notes, *args[1:]))
        if origin in (Union, types.UnionType):
            inner, *other = (arg for arg in args if arg is not types.NoneType)
            if other and isinstance(value, str) != (inner is str):  # a text, or the two of a pair
                (inner,) = other
            return None if value is None and types.NoneType in args else self.read(value, inner, path, notes)
        if origin is Literal:
            return self._one_of(value, args, path)
        if kind is float and value is None and self.null_is_nan and Defined() not in notes:
            return math.nan
        if kind in _SCALARS:
            return self._scalar(value, kind, path, notes)
        if origin is tuple:
            return self._list(value, args, path, notes)
        if origin in (dict, Mapping):
            return self._mapping(value, args[1], path)
        if isinstance(kind, type) and (is_dataclass(kind) or typing.is_typeddict(kind)):
            return self._object(value, kind, path)
        return value

    def _scalar(self, value: Any, kind: Any, path: str, notes: tuple[Any, ...]) -> Any:
        what, fits = _SCALARS[kind]
        within = next((note for note in notes if isinstance(note, Within)), None)
        names = next((note.names for note in notes if isinstance(note, OneOf)), None)
        if names is not None:
            return self._one_of(value, names, path)
        slack = 1e-6 if kind is float else 0  # shares are sums, which round
        if not fits(value) or (within and not within.low - slack <= value <= within.high + slack):
            raise must_be(path, within.describe(what) if within else what, value)
        if kind is str:
            if NotEmpty() in notes and not value.strip():
                raise must_be(path, "a string that is not empty", value)
            if len(value) > LONGEST and AnyLength() not in notes:
                raise Misfit(f"{path} must be at most {LONGEST:,} characters long, but has {len(value):,}.")
        return float(value) if kind is float else value

    def _one_of(self, value: Any, names: tuple[Any, ...], path: str) -> Any:
        if any(type(value) is type(name) and value == name for name in names):
            return value
        written = str(value).lower().replace(" ", "_") if isinstance(value, str) and len(value) < 100 else ""
        near = difflib.get_close_matches(written, [str(name) for name in names], n=1, cutoff=0.5) if written else []
        hint = f" Did you mean '{near[0]}'?" if near else ""
        options = [name if isinstance(name, str) else shown(name) for name in names]
        what = f"one of {enumerated(options)}" if len(options) > 1 else options[0]
        raise Misfit(f"{must_be(path, what, value)}{hint}")

    def _list(self, value: Any, args: tuple[Any, ...], path: str, notes: tuple[Any, ...]) -> tuple[Any, ...]:
        any_number = args[-1] is Ellipsis
        if not isinstance(value, list | tuple):
            raise must_be(path, "a list", value)
        if (not any_number and len(value) != len(args)) or (NotEmpty() in notes and not value):
            what = f"a list of {len(args)}" if not any_number else "a list that is not empty"
            raise Misfit(f"{path or 'the file'} must be {what}, but has {len(value)} entries.")
        kinds = [args[0]] * len(value) if any_number else args
        return tuple(
            self.read(one, kind, f"{path}[{i}]") for i, (one, kind) in enumerate(zip(value, kinds, strict=True))
        )

    def _mapping(self, value: Any, kind: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise must_be(path, "an object", value)
        return {key: self.read(inner, kind, f"{path}.{shortened(str(key))}") for key, inner in value.items()}

    def _object(self, value: Any, kind: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            raise must_be(path, "an object", value)
        hints, at = _hints(kind), f"{path}." if path else ""
        if absent := [name for name in _required(kind, self.complete) if name not in value]:
            raise Misfit(f"{at}{absent[0]} is missing.")
        unknown = [] if self.open_ended else [key for key in value if key not in hints]
        if unknown:
            near = difflib.get_close_matches(shortened(unknown[0]), list(hints), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise Misfit(f"{at}{shortened(unknown[0])} is no field that is known.{hint}")
        found = {
            name: self.read(value[name], _plain(hint), f"{at}{name}") for name, hint in hints.items() if name in value
        }
        if not is_dataclass(kind):
            return found
        build: Any = kind
        try:
            return build(**found)
        except (ValueError, TypeError, GuardrailError) as fault:
            raise Misfit(f"{path or 'the file'}: {one_line(fault)}") from fault


def _plain(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is NotRequired else hint


def _required(kind: Any, complete: bool) -> Iterable[str]:
    if not is_dataclass(kind):
        return [name for name, hint in _hints(kind).items() if get_origin(hint) is not NotRequired]
    return [
        field.name
        for field in fields(kind)
        if complete or (field.default is MISSING and field.default_factory is MISSING)
    ]
