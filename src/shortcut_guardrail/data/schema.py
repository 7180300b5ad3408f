"""What is read from JSON files is checked against the dataclasses and typed dictionaries that it was written from.

The types say what a field must be, and pydantic checks it: numbers within bounds, strings of a few words, lists that
are not empty. No value is converted from another kind. What does not fit is refused in a sentence with the path of the
field: guardrail.json: calibration.n must be a whole number, but is "x".
"""

from __future__ import annotations

import functools
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin

from annotated_types import Interval, MinLen
from pydantic import AllowInfNan, TypeAdapter
from pydantic_core import PydanticCustomError, SchemaValidator, ValidationError, core_schema

from ..errors import ConfigError, DataError, GuardrailError
from .messages import did_you_mean, enumerated, first_few, kind_of, one_line, shortened
from .tables import read_utf8, unique_keys

DEEPEST = 64
"""Levels of nesting that a file may have; those that are written have a dozen."""

_KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple": "a list",
    "dict": "an object",
    "dataclass": "an object",
    "mapping": "an object",
}
"""What a type is called, as pydantic names it."""

_WHOLE = "the file"
_ROUNDING = 1e-6  # shares are sums, which round


def Within(
    low: float | None = None, high: float | None = None, *, above: float | None = None, below: float | None = None
) -> Interval:
    """A number from `low` to `high`, or `above` and `below` others, for an `Annotated` type."""
    return Interval(ge=low, le=high, gt=above, lt=below)


NotEmpty = functools.partial(MinLen, 1)
"""A list with something in it, or a string with a character that is no space."""

Defined = functools.partial(AllowInfNan, False)
"""A number that may not be null where null stands for NaN."""


Count = Annotated[int, Within(0, 2**53)]
Share = Annotated[float, Within(-_ROUNDING, 1 + _ROUNDING)]
Word = Annotated[str, NotEmpty()]


def json_content(file: Path, *, error: type[GuardrailError] = DataError, advice: str) -> Any:
    """What a JSON file holds. NaN and infinite numbers, which JSON has not, are refused, and keys that occur twice.

    Raises:
        GuardrailError: Of the kind `error`: the file is missing, no file, no JSON or nested too deeply.
    """
    try:
        content = read_utf8(file, str(file))
    except DataError as fault:
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
    except (json.JSONDecodeError, RecursionError) as fault:
        said = f"line {fault.lineno}: {fault.msg}" if isinstance(fault, json.JSONDecodeError) else "nested too deeply"
        raise ValueError(said) from fault
    level = [value]
    for _ in range(DEEPEST):
        parts = [
            outer.values() if isinstance(outer, dict) else outer for outer in level if isinstance(outer, dict | list)
        ]
        level = [inner for part in parts for inner in part]
        if not level:
            return value
    raise ValueError("nested too deeply")


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
        kind: A dataclass or typed dictionary, or a type that their fields may have.
        path: Where the value stands in it.
        open_ended: Whether fields that are not known are left out rather than refused.
        null_is_nan: Whether null stands for NaN where a number is needed.
        complete: Whether fields with a default have to be there too.

    Raises:
        GuardrailError: Of the kind `error`: fields are missing, unknown or not what they must be. The message names
            the first few of them.
    """
    try:
        return _validator(kind, _Rules(open_ended, null_is_nan, complete)).validate_python(value)
    except ValidationError as fault:
        raise error(f"{source}: {_sentences(fault, kind, path)} {advice}".removeprefix(": ").rstrip()) from fault
    except (GuardrailError, TypeError) as fault:
        raise error(f"{source}: {path or _WHOLE}: {one_line(fault)} {advice}".rstrip()) from fault


def check_fields(made: Any) -> None:
    """Fields of a dataclass hold what their types say, which dataclasses do not check themselves; lists become tuples.

    Values may come from a file, where "8" is easily written for 8, and a word for a list of one.
    """
    kind: Any = type(made)
    given = {field.name: _plain_number(getattr(made, field.name)) for field in fields(kind)}
    try:
        found, _ = _validator(kind, _Rules(), fields_alone=True).validate_python(given)
    except ValidationError as fault:
        raise ConfigError(_sentences(fault, kind, "")) from fault
    for name, value in found.items():
        object.__setattr__(made, name, value)


def _plain_number(value: Any) -> Any:
    """Python's number for one of NumPy."""
    if isinstance(value, Real) and not isinstance(value, int | float):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def shown(value: Any) -> str:
    """A value as JSON where it is short, or else what it is."""
    if isinstance(value, str | bool):
        return json.dumps(shortened(value) if isinstance(value, str) else value)
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    return str(value) if isinstance(value, int | float) else kind_of(value)


# What a type asks for, as pydantic's core checks it


@functools.lru_cache(maxsize=256)
def _validator(kind: Any, rules: _Rules, fields_alone: bool = False) -> SchemaValidator:
    """What checks a type, or of a dataclass the fields alone, which makes no other instance."""
    schema = rules.of(TypeAdapter(kind).core_schema)
    return SchemaValidator(schema["schema"] if fields_alone else schema)


@dataclass(frozen=True)
class _Rules:
    """How files are read, put into the schema that pydantic makes of a type.

    Pydantic is either lax everywhere or strict everywhere. In files, lists stand for tuples and objects for
    dataclasses, but a string never stands for a number.
    """

    open_ended: bool = False
    null_is_nan: bool = False
    complete: bool = False

    def of(self, schema: Any) -> Any:
        """A schema, or a part of one, with the rules."""
        if isinstance(schema, list):
            return [self.of(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        kind = schema.get("type")
        match kind:
            case "int":
                return _must_be({"ge": -(2**63), "le": 2**64 - 1, **schema, "strict": True}, _range(schema))
            case "float":
                finite = {"ge": -1e300, "le": 1e300, **schema, "strict": True, "allow_inf_nan": False}
                number = _must_be(finite, _range(schema))
                if self.null_is_nan and schema.get("allow_inf_nan", True):
                    return core_schema.no_info_wrap_validator_function(
                        lambda value, check: math.nan if value is None else check(value), number
                    )
                return number
            case "bool":
                return _must_be({**schema, "strict": True}, _KINDS["bool"])
            case "str":
                # Pydantic's own strings cannot hold half of a surrogate pair, which names of files do.
                text = core_schema.is_instance_schema(str)
                if not schema.get("min_length"):
                    return _must_be(text, _KINDS["str"])
                full = core_schema.no_info_after_validator_function(_not_blank, text)
                return _must_be(full, f"{_KINDS['str']} that is not empty")
            case "literal":
                # Pydantic takes true for 1.
                names = schema["expected"]
                return core_schema.no_info_plain_validator_function(functools.partial(_one_of, names=names))
        before = schema
        schema = {key: inner if key in ("default", "metadata") else self.of(inner) for key, inner in before.items()}
        if kind in ("typed-dict", "dataclass-args"):
            schema["extra_behavior"] = "ignore" if self.open_ended else "forbid"
        if kind == "dataclass-field" and self.complete and schema["schema"]["type"] == "default":
            schema["schema"] = schema["schema"]["schema"]
        if kind == "union":
            return _must_be(schema, " or ".join(_KINDS[choice["type"]] for choice in before["choices"]))
        return schema


def _must_be(schema: Any, what: str) -> Any:
    return core_schema.custom_error_schema(schema, "must_be", custom_error_message=what)


def _range(schema: Mapping[str, Any]) -> str:
    """In words: "a number from 0 to 1"."""
    what = _KINDS[schema["type"]]
    low, high, above, below = (_figure(schema.get(bound)) for bound in ("ge", "le", "gt", "lt"))
    counts = 2**31 <= schema.get("le", 0) <= 2**53  # then the upper bound says nothing
    if low and high and not counts:
        return f"{what} from {low} to {high}"
    if low and not below:
        return f"{what}, {low} or more"
    bounds = {"of at least": low, "above": above, "at most": high, "below": below}
    said = " and ".join(f"{word} {bound}" for word, bound in bounds.items() if bound)
    return f"{what} {said}".rstrip()


def _figure(bound: float | None) -> str:
    """A bound without what it allows for rounding."""
    if bound is None or isinstance(bound, int):
        return "" if bound is None else str(bound)
    return f"{round(bound, 5) + 0:g}"


def _one_of(value: Any, *, names: Sequence[Any]) -> Any:
    if any(type(value) is type(name) and value == name for name in names):
        return value
    options = [name if isinstance(name, str) else shown(name) for name in names]
    raise PydanticCustomError("must_be", f"one of {enumerated(options)}" if len(options) > 1 else options[0])


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError
    return value


# What does not fit, in sentences


def _sentences(fault: ValidationError, kind: Any, path: str) -> str:
    # That no entry of a list fits is said of the entries.
    faults = [one for one in fault.errors(include_url=False) if one["type"] != "too_short" or not one["input"]]
    return " ".join(first_few([_sentence(one, kind, path) for one in faults]))


def _sentence(fault: Any, kind: Any, path: str) -> str:
    """What pydantic found at one place, for a person."""
    at, said = _place(path, fault["loc"]), fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return f"{at} is missing."
        case "unexpected_keyword_argument" | "extra_forbidden":
            names = _names_at(kind, fault["loc"][:-1])
            hint = did_you_mean(fault["loc"][-1], names, cutoff=0.5) or f" Known are {enumerated(names)}."
            return f"{at} is no field that is known.{hint}"
        case "too_short":
            return f"{at} must be a list that is not empty."
        case "too_long":
            return f"{at} must be a list of {said['max_length']}, but has {said['actual_length']} entries."
        case "value_error":
            return f"{at}: {one_line(said['error'])}".removeprefix(f"{_WHOLE}: ")
        case "must_be":
            wanted = fault["msg"]
        case other:
            wanted = _KINDS.get(other.removesuffix("_type"), "text that names a field")
    names = wanted.removeprefix("one of ").split(", ") if wanted.startswith("one of ") else []
    near = did_you_mean(fault["input"], names, cutoff=0.5)
    return f"{at} must be {wanted}, but is {shown(fault['input'])}.{near}"


def _place(path: str, loc: Iterable[str | int]) -> str:
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{shortened(part)}"
    return path.removeprefix(".") or _WHOLE


def _names_at(kind: Any, loc: Iterable[str | int]) -> list[str]:
    """The fields of the type that stands at a place of another type."""
    for part in loc:
        inner = _plain(kind)
        if get_origin(inner) is tuple:
            args = get_args(inner)
            kind = args[0] if args[-1] is Ellipsis else args[int(part)]
        else:
            kind = get_args(inner)[-1] if get_origin(inner) else _hints(inner)[str(part)]
    return list(_hints(_plain(kind)))


def _plain(kind: Any) -> Any:
    """A type without what is noted about it and without null."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType, NotRequired):
        return _plain(next(arg for arg in get_args(kind) if arg is not types.NoneType))
    return kind


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)
