"""An `audit.json` read back for rendering, checked so that what is missing in it is said in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..audit import Agreement, Candidate, Card, read_result
from ..config import Unit
from ..errors import DataError
from ..keys import key_of

SCHEMA_VERSION = 8
"""The layout of `audit.json` that this version writes and renders."""

WITHOUT_FLIPS, WITHOUT_CARDS = 7, 6
"""The layouts before it. They are the same but for the flips of cards, or for cards and what they need, and are read as
audits that have none."""

# What has to be in it, as the types of the results it is written from; lists stand for tuples.
LAYOUT: dict[str, Any] = {
    "n": int,
    "n_distinct": int,
    "unit": Unit,
    "top_k": int,
    "alpha": float,
    "min_opposition": float,
    "label_names": tuple[str, ...],
    "predicted": dict[str, int],
    "mstps": float,
    "sensitivity_histogram": tuple[int, ...],
    "candidates": tuple[Candidate, ...],
    "n_candidates": int,
    "n_tested": int,
    "n_undecided": int,
    "agreement": Agreement,
    "n_truncated": int,
    "group_p_value": float,
    "notes": tuple[str, ...],
    "cards": tuple[Card, ...],
    "model": str,
    "data": str,
}
DEFINED = ("mstps", "alpha", "min_opposition")
"""Numbers that no audit is without; all others may be null, which stands for NaN."""


def read_audit(path: Path) -> dict[str, Any]:
    """Read an `audit.json`.

    Raises:
        DataError: It is missing or damaged, no audit, or of another version's layout.
    """
    document = read_result(path)
    if "candidates" not in document:
        raise DataError(f"'{path}' holds no audit: it has no 'candidates'. Give an audit.json.")
    version = document["schema_version"]
    if version == WITHOUT_CARDS:
        document, version = {**document, "cards": [], "model": "", "data": ""}, SCHEMA_VERSION
    if version == WITHOUT_FLIPS:
        cards = [{"moved": [], "flips": [], **card} for card in document.get("cards", ()) if isinstance(card, dict)]
        document, version = {**document, "cards": cards}, SCHEMA_VERSION
    if version != SCHEMA_VERSION:
        raise DataError(
            f"'{path}' has the layout of schema_version {version}, and this version of the program shows "
            f"{SCHEMA_VERSION}. Run the audit again."
        )
    for key, kind in LAYOUT.items():
        if key not in document:
            raise DataError(f"'{path}' is damaged: it has no '{key}'. Run the audit again.")
        problem = _misfit(document[key], kind, key)
        if key in DEFINED and document[key] is None:
            problem = f"'{key}' is not a number"
        if problem:
            raise DataError(f"'{path}' is damaged: {problem}. Run the audit again.")
    return document


def _misfit(value: Any, kind: Any, place: str) -> str | None:
    """Where a value departs from the type it was written from; `None` if it fits."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        options = [option for option in get_args(kind) if option is not NoneType]
        return None if value is None else _misfit(value, options[0], place)
    if origin is Literal:
        return None if value in get_args(kind) else f"'{place}' is none of {', '.join(get_args(kind))}"
    if origin is tuple:
        return _misfit_of_list(value, get_args(kind), place)
    if origin is dict:
        good = isinstance(value, Mapping) and all(isinstance(inner, int) for inner in value.values())
        return None if good else f"'{place}' is not an object of numbers"
    if is_dataclass(kind):
        return _misfit_of_object(value, kind, place)
    if kind is float:
        good = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        return None if good else f"'{place}' is not a number"
    good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return None if good else f"'{place}' is not of type {kind.__name__}"


def _misfit_of_list(value: Any, kinds: tuple[Any, ...], place: str) -> str | None:
    if not isinstance(value, list):
        return f"'{place}' is not a list"
    open_ended = kinds[-1] is Ellipsis
    if not open_ended and len(value) != len(kinds):
        return f"'{place}' does not have {len(kinds)} entries"
    problems = (_misfit(inner, kinds[0] if open_ended else kinds[i], f"{place}[{i}]") for i, inner in enumerate(value))
    return next((problem for problem in problems if problem), None)


def _misfit_of_object(value: Any, kind: Any, place: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"'{place}' is not an object"
    for name, inner in get_type_hints(kind).items():
        name = key_of(kind, name)
        if name not in value:
            return f"'{place}' has no '{name}'"
        if problem := _misfit(value[name], inner, f"{place}.{name}"):
            return problem
    return None
