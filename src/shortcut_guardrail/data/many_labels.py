"""Labels of texts that can have several: lists of names, or a 0 or 1 for each; and the thresholds of these labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError, DataError
from .messages import did_you_mean, enumerated, sentence, shortened

Thresholds = str | Mapping[str, float]
"""The probability from which on a text has a label, by label: a mapping, or a string such as "toxic=0.3,insult=0.6"."""


def read_thresholds(given: Thresholds | None) -> dict[str, float]:
    """The same by label; 0.5 holds for others.

    Raises:
        ConfigError: It is no mapping, or one lies outside (0, 1).
    """
    pairs: Iterable[tuple[str, Any]] = (given or {}).items() if not isinstance(given, str) else ()
    if isinstance(given, str):
        pairs = [(name.strip(), value) for name, _, value in (part.rpartition("=") for part in given.split(","))]
    found = {}
    for name, value in pairs:
        try:
            found[name] = float(value)
        except (TypeError, ValueError):
            found[name] = -1.0
        if not name or not 0 < found[name] < 1:
            raise ConfigError(
                f"thresholds= must give labels a number above 0 and below 1, as in thresholds='toxic=0.3,insult=0.6', "
                f"but says {f'{name}={value}'.lstrip('=')!r}."
            )
    return found


def of_one_label(
    labels: Sequence[Any],
    label: str,
    names: Sequence[str],
    *,
    source: str = "labels",
    rows: Sequence[int] | None = None,
    row_word: str = "row",
) -> list[Any]:
    """Whether N texts have a label, "0" or "1", from lists of their labels; what is no list stays as it is.

    Args:
        labels: Lists (in a file also as JSON text) of names, or of K numbers 0 and 1 in the order of `names`.
        names: The K names of the model's labels.
        rows: As in `label_ids`, as for `source` and `row_word`.

    Raises:
        DataError: A list names a label that the model does not have, or has other numbers, or not K of them.
    """
    where, word = (range(len(labels)), "position") if rows is None else (rows, row_word)
    exact, faults, out = {name.strip().casefold(): name for name in names}, dict[str, list[int]](), list[Any]()
    for row, given in zip(where, labels, strict=True):
        one = _as_list(given)
        if one is None:
            out.append(given)
            continue
        own = [exact.get(str(item).strip().casefold()) for item in one]
        if None in own and len(one) == len(names) and all(item in (0, 1) for item in one):
            own = [name for name, item in zip(names, one, strict=True) if item]
        for unknown in [str(item) for item, name in zip(one, own, strict=False) if name is None][:1]:
            faults.setdefault(unknown, []).append(row)
        out.append("1" if label in own else "0")
    if faults:
        has, advice = enumerated(list(names)), f"List names of labels, or {len(names)} numbers 0 and 1."
        problems = []
        for unknown, at in faults.items():
            what = f"the model has no label '{shortened(unknown)}' (it has: {has})"
            problems.append(sentence(source, at, word, what, f"{did_you_mean(unknown, names)} {advice}".lstrip()))
        raise DataError("\n".join(problems))
    return out


def _as_list(given: Any) -> list[Any] | None:
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.lstrip().startswith("[") else given
        except ValueError:
            return None
    if hasattr(given, "tolist"):  # rows of NumPy's arrays
        given = given.tolist()
    return list(given) if isinstance(given, list | tuple | set | frozenset) else None
