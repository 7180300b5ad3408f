"""The words in which messages about rows, columns and labels are put."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

_SHOWN = 5  # how many lines, values or problems a message names before it only counts


def sentence(source: str, rows: Sequence[int], word: str, what: str, advice: str) -> str:
    """What is wrong in some rows, and what to do: "FILE, lines 3, 4, 5, 8, 9 and 2 more (7 in all): it is empty." """
    where = [str(row) for row in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        where.append(f"{len(rows) - _SHOWN} more ({len(rows)} in all)")
    said = f"{', '.join(where[:-1])} and {where[-1]}" if len(where) > 1 else where[0]
    return f"{source}, {word}{'s' if len(rows) > 1 else ''} {said}: {what}. {advice}".rstrip()


def grouped(found: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    """The rows in which each thing was found, in the order of first sight."""
    rows: dict[str, list[int]] = {}
    for row, what in found:
        rows.setdefault(what, []).append(row)
    return rows


def first_few(problems: list[str]) -> list[str]:
    """The first problems, and how many there are."""
    if len(problems) <= _SHOWN:
        return problems
    return [*problems[:_SHOWN], f"... and {len(problems) - _SHOWN} more of this kind ({len(problems)} in all)."]


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in quotes, the first 20: "'a', 'b' and 'c'"."""
    quoted = [f"'{shortened(name)}'" for name in names[:20]]
    if len(names) > 20:
        quoted.append(f"{len(names) - 20} more")
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}" if len(quoted) > 1 else "".join(quoted) or "none"


def enumerated(names: Sequence[str]) -> str:
    """Names without quotes, the first 20."""
    more = [f"and {len(names) - 20} more"] if len(names) > 20 else []
    return ", ".join([*names[:20], *more])


def did_you_mean(name: Any, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A question after a space, where one of the names is like this one, but for case and underscores."""
    folded = {one.casefold().replace(" ", "_"): one for one in known}
    wanted = name.casefold().replace(" ", "_") if isinstance(name, str) and len(name) < 100 else ""
    near = difflib.get_close_matches(wanted, folded, n=1, cutoff=cutoff)
    return f" Did you mean '{folded[near[0]]}'?" if near else ""


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 field", "2 fields"."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def shortened(value: str, length: int = 60) -> str:
    """The beginning of what is longer."""
    return value if len(value) <= length else value[: length - 3] + "..."


def kind_of(value: Any) -> str:
    """What a value is, in words for people who write files: "a list", "null"."""
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", tuple: "a tuple", str: "a string", bool: "true or false"}
    if type(value) in names:
        return names[type(value)]
    return "a number" if isinstance(value, int | float) else f"a value of type {type(value).__name__}"


def nested(error: BaseException) -> str:
    """What is wrong with JSON or TOML, whose readers run out of stack where it is nested too deeply."""
    return "nested too deeply" if isinstance(error, RecursionError) else one_line(error)


def one_line(error: BaseException) -> str:
    """An error's message without its line breaks, or its type where it says nothing."""
    return shortened(" ".join(str(error).split()), 200) or type(error).__name__
