"""The benchmark's finished runs beside the paper's numbers, as the tables of docs/research/reproduction.md.

The page asks for the tables of an experiment by `beside_the_paper("shifted")`. They are made from finished runs and
from `paper_numbers.toml`. Runs at scale `tiny` are left out: their numbers mean nothing.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from shortcut_guardrail import GuardrailWarning

from .collect import Collection, collect
from .experiments import ExperimentConfig, Setting, read_experiment
from .results import IndexEntry, read_index
from .tables import Entry, Table, make_table, render

NUMBERS = Path(__file__).with_name("paper_numbers.toml")
LEFT_OUT_SCALES = ("tiny",)

Number = float | str
Lookup = Callable[[str, str, str], float | None]
"""From a setting, a system and a column to a number, if there is one."""


# The paper


@dataclass(frozen=True)
class Claim:
    """Something the paper says that numbers can bear out, counted over settings or over steps between them.

    Attributes:
        column: What is compared: a column's name, or the title of one, such as a group's.
        system: The paper's name of a system, or our label of one.
        relation: `higher` or `lower` than `than`, counted over settings.
        than: The other system; the same one if only `than_column` is given.
        than_column: The other column; the same one unless given.
        interval: A column whose interval tells whether a difference is more than chance.
        trend: `rises` or `falls` from setting to setting, along the axis of their family, counted over steps.
        minus: A system whose number is taken off before.
        only: Settings that the claim is about; all unless given.
    """

    column: str
    system: str = "ERM"
    relation: str = ""
    than: str = ""
    than_column: str = ""
    interval: str = ""
    trend: str = ""
    minus: str = ""
    only: Sequence[str] = ()


@dataclass(frozen=True)
class Comparison:
    """What the paper has on one experiment; see the head of `paper_numbers.toml`."""

    source: str
    columns: Sequence[str]
    systems: Mapping[str, Sequence[str]]
    settings: Sequence[str] = ()
    numbers: Mapping[str, Mapping[str, Sequence[Number]]] = field(default_factory=dict)
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    claims: Sequence[Claim] = ()

    def printed(self, setting: str, system: str, column: str) -> Number | None:
        """What the paper prints, or `None`."""
        values = self.numbers.get(column, {}).get(system)
        return None if values is None or setting not in self.settings else values[self.settings.index(setting)]

    def number(self, setting: str, system: str, column: str) -> float | None:
        """What the paper prints, if it is a number."""
        value = self.printed(setting, system, column)
        return None if value is None or isinstance(value, str) or math.isnan(value) else float(value)

    def name_of(self, label: str) -> str | None:
        """The paper's name of one of our systems."""
        return next((name for name, labels in self.systems.items() if label in labels), None)


def read_numbers(path: Path) -> dict[str, Comparison]:
    """The paper's numbers by experiment.

    Raises:
        ValueError: A row has another length than its settings.
    """
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: _comparison(content, section) for name, section in content["experiments"].items()}


def _comparison(content: Mapping[str, Any], section: Mapping[str, Any]) -> Comparison:
    shared = {
        column: content["experiments"][other]["numbers"][column]
        for column, other in section.get("numbers_of", {}).items()
    }
    given = {"systems": content["systems"]} | {key: value for key, value in section.items() if key != "numbers_of"}
    given["numbers"] = section.get("numbers", {}) | shared
    given["sizes"] = content["sizes"].get(section.get("sizes"), {})
    given["claims"] = [Claim(**claim) for claim in section.get("claims", ())]
    comparison = Comparison(**given)
    for column, rows in comparison.numbers.items():
        for system, values in rows.items():
            if len(values) != len(comparison.settings):
                raise ValueError(f"{column} of {system} must be {len(comparison.settings)} numbers, one a setting.")
    return comparison


# Our runs


@dataclass(frozen=True)
class _Ours:
    """Our table of an experiment, one row a cell of the collection.

    Attributes:
        collection: The runs.
        columns: What was asked for.
        table: As the library makes it.
        names: For each of its columns the name that made it; empty for setting and system.
        cells: Setting and system of each row.
    """

    collection: Collection
    columns: tuple[str, ...]
    table: Table
    names: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]

    def on_common_seeds(self, systems: Sequence[str], *, along: bool = False) -> _Ours:
        """The same with these systems reduced to the seeds that all of them have in a setting, or along all settings of
        a family: a mean of one seed is not to be compared with one of three."""
        chosen = [cell for cell in self.collection.cells if cell.system in systems]
        common = {
            cell.setting: set.intersection(
                *(
                    set(other.runs)
                    for other in chosen
                    if other.setting == cell.setting or (along and other.family == cell.family)
                )
            )
            for cell in chosen
        }
        if all(set(cell.runs) == common[cell.setting] for cell in chosen):
            return self
        cells = [
            replace(cell, runs={seed: run for seed, run in cell.runs.items() if seed in common[cell.setting]})
            if cell in chosen
            else cell
            for cell in self.collection.cells
        ]
        return _ours(replace(self.collection, cells=tuple(cell for cell in cells if cell.runs)), self.columns)

    def position(self, column: str) -> int | None:
        """Where a column stands, by its name or its title; the first of several."""
        found = (names.index(column) for names in (self.names, self.table.header) if column in names)
        return next(found, None)

    def entry(self, setting: str, system: str, column: str) -> Entry | None:
        position = self.position(column)
        if position is None or (setting, system) not in self.cells:
            return None
        return self.table.rows[self.cells.index((setting, system))][position]

    def number(self, setting: str, system: str, column: str) -> float | None:
        entry = self.entry(setting, system, column)
        return None if entry is None or entry.value is None or math.isnan(entry.value) else entry.value

    def title(self, column: str) -> str:
        position = self.position(column)
        return column if position is None else self.table.header[position]


def _ours(collection: Collection, columns: Sequence[str]) -> _Ours:
    narrowed = replace(collection, experiment=replace(collection.experiment, table={"columns": tuple(columns)}))
    with warnings.catch_warnings():
        # Small worst groups are marked in the table.
        warnings.simplefilter("ignore", GuardrailWarning)
        table = make_table(narrowed)
    first = table.header.index("system") + 1
    n_groups = len(table.header) - first - len(columns) + 1
    names = [name for column in columns for name in [column] * (n_groups if column == "groups" else 1)]
    cells = tuple((cell.setting, cell.system) for cell in collection.cells)
    return _Ours(collection, tuple(columns), table, ("",) * first + tuple(names), cells)


def _collected(results: Path, experiment: ExperimentConfig) -> Iterator[tuple[Collection, list[str]]]:
    """The finished runs of every scale and encoder, each with what a reader has to be told about them."""
    entries = [entry for entry in read_index(results, experiment.name) if entry.scale not in LEFT_OUT_SCALES]
    for scale, encoder in dict.fromkeys((entry.scale, entry.encoder) for entry in entries):
        if _has_finished([entry for entry in entries if (entry.scale, entry.encoder) == (scale, encoder)]):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", GuardrailWarning)
                collection = collect(results, experiment, scale=scale, encoder=encoder)
            yield collection, [str(entry.message) for entry in caught if issubclass(entry.category, GuardrailWarning)]


def _has_finished(entries: Sequence[IndexEntry]) -> bool:
    """Whether there is a run with all of its folds."""
    folds = Counter(entry.cell[:-1] for entry in entries)
    return any(folds[entry.cell[:-1]] >= entry.folds for entry in entries)


# Blocks


def beside_the_paper(name: str, results: Path, *, images_from: Path, comparison: Comparison | None = None) -> str:
    """The tables of an experiment with the paper's numbers in them, as Markdown.

    Args:
        name: The experiment.
        results: Folder of all results.
        images_from: The page's folder, from which figures are linked.
        comparison: What the paper has on it; read from `NUMBERS` unless given.

    Raises:
        LookupError: There are no finished runs.
        DataError: Results are damaged.
        ConfigError: Results do not belong together, or a column is unknown.
    """
    comparison = comparison or read_numbers(NUMBERS)[name]
    experiment = read_experiment(name)
    parts = [
        render(_compared(collection, comparison, warned), "markdown")
        for collection, warned in _collected(results, experiment)
    ]
    if not parts:
        raise LookupError(f"{results} has no finished run of {name}")
    return "\n".join([*parts, *_image(results / name / f"{name}.png", experiment, images_from)])


def _image(path: Path, experiment: ExperimentConfig, images_from: Path) -> list[str]:
    if not path.exists():
        return []
    return [f"![{plain(experiment.shows)}]({Path(os.path.relpath(path, images_from)).as_posix()})\n"]


def _compared(collection: Collection, comparison: Comparison, warned: Sequence[str]) -> Table:
    """Our table with the paper's numbers beside ours, and rows for systems that only the paper has."""
    ours = _ours(collection, comparison.columns)
    after = [at for at, name in enumerate(ours.names) if name in comparison.numbers]
    header = _beside(ours.table.header, after, [f"{ours.table.header[at]}, paper" for at in after])
    rows = []
    for setting in dict.fromkeys([*(s.name for s in collection.experiment.settings), *(s for s, _ in ours.cells)]):
        for (found, label), row in zip(ours.cells, ours.table.rows, strict=True):
            if found == setting:
                printed = [_printed(comparison, setting, comparison.name_of(label), ours.names[at]) for at in after]
                rows.append(_beside(row, after, printed))
        rows += _only_in_paper(ours, comparison, setting, after)
    return Table(
        title=f"{collection.experiment.shows} {plain(collection.encoder)}, scale {collection.scale}.",
        header=tuple(map(plain, header)),
        rows=tuple(tuple(replace(entry, text=plain(entry.text)) for entry in row) for row in rows),
        notes=tuple(
            re.sub(r"([*<])", r"\\\1", note)
            for note in (
                *(_judged(claim, ours, comparison, collection.experiment.settings) for claim in comparison.claims),
                *ours.table.notes,
                *warned,
                f"Numbers of the paper: {comparison.source}. {_paper_sizes(comparison)}".strip(),
                *comparison.remarks,
            )
        ),
        box=tuple(map(plain, ours.table.box)),
    )


def _beside(row: Sequence[Any], after: Sequence[int], added: Sequence[Any]) -> list[Any]:
    """A row with further entries, each put behind the column at its position."""
    at = dict(zip(after, added, strict=True))
    return [entry for position, own in enumerate(row) for entry in ([own, at[position]] if position in at else [own])]


def _printed(comparison: Comparison, setting: str, system: str | None, column: str) -> Entry:
    value = None if system is None else comparison.printed(setting, system, column)
    return Entry(text=str(value)) if isinstance(value, str | int) else Entry(value=value)


def _only_in_paper(ours: _Ours, comparison: Comparison, setting: str, after: Sequence[int]) -> list[list[Entry]]:
    """Rows of the paper's systems that stand beside none of ours in this setting."""
    rows = []
    for system, labels in comparison.systems.items():
        printed = [_printed(comparison, setting, system, ours.names[at]) for at in after]
        if all(entry.shown() == "-" for entry in printed) or any((setting, label) in ours.cells for label in labels):
            continue
        row = [Entry()] * len(ours.names)
        row[ours.table.header.index("setting")] = Entry(text=setting)
        row[ours.table.header.index("system")] = Entry(text=f"{system}, in the paper only")
        rows.append(_beside(row, after, printed))
    return rows


def _paper_sizes(comparison: Comparison) -> str:
    sizes = [f"{s} {n:,} / {m:,}" for s, (n, m) in comparison.sizes.items() if s in comparison.settings]
    return f"Its training / test rows: {', '.join(sizes)}." if sizes else ""


def plain(text: str) -> str:
    """A text as Markdown that shows it and means nothing else; `|` is left to the table."""
    return re.sub(r"([\\`*_~\[\]<>&])", r"\\\1", " ".join(text.split()))


# Claims


def _judged(claim: Claim, ours: _Ours, comparison: Comparison, settings: Sequence[Setting]) -> str:
    """In how many settings or steps a claim holds, here and in the paper."""
    about = [setting for setting in settings if not claim.only or setting.name in claim.only]
    count = _steps if claim.trend else _comparisons
    labels = comparison.systems.get(claim.system, (claim.system,))
    than, minus = (comparison.systems.get(name, (name,))[0] for name in (claim.than, claim.minus))
    here = []
    for label in labels:
        compared = ours.on_common_seeds([name for name in (label, than, minus) if name], along=bool(claim.trend))
        counted = count(replace(claim, system=label, than=than, minus=minus), about, compared.number)
        if counted:
            on = "" if compared is ours else " (on the seeds that both sides have)"
            here.append(f"`{label}` {_counted(counted, claim)}{on}{_beyond_chance(claim, label, ours, about)}")
    paper = count(claim, about, comparison.number)
    said = [f"here {'; '.join(here)}" if here else "not run here"]
    if paper:
        said.append(f"in the paper {_counted(paper, claim)}")
    return f"{_sentence(claim, ours)}: {'; '.join(said)}."


def _sentence(claim: Claim, ours: _Ours) -> str:
    what = f'"{ours.title(claim.column)}" of {claim.system}'
    if claim.trend:
        less = f" minus that of {claim.minus}" if claim.minus else ""
        return f"{what}{less} {claim.trend} along the settings"
    other = f'"{ours.title(claim.than_column)}"' if claim.than_column else f"that of {claim.than}"
    return f"{what} is {claim.relation} than {other}"


def _counted(outcomes: Mapping[str, bool], claim: Claim) -> str:
    against = [name for name, holds in outcomes.items() if not holds]
    unit = "steps" if claim.trend else "settings"
    but = f" (not: {'; '.join(against)})" if against and len(against) < len(outcomes) else ""
    return f"in {len(outcomes) - len(against)} of {len(outcomes)} {unit}{but}"


def _comparisons(claim: Claim, settings: Sequence[Setting], look: Lookup) -> dict[str, bool]:
    """Whether the relation holds, for each setting that has both numbers."""
    outcomes = {}
    for setting in settings:
        one = look(setting.name, claim.system, claim.column)
        other = look(setting.name, claim.than or claim.system, claim.than_column or claim.column)
        if one is not None and other is not None:
            outcomes[setting.name] = one > other if claim.relation == "higher" else one < other
    return outcomes


def _steps(claim: Claim, settings: Sequence[Setting], look: Lookup) -> dict[str, bool]:
    """Whether the trend holds, for each step between neighbours on the axis of a family."""
    outcomes = {}
    for family in dict.fromkeys(setting.family for setting in settings):
        members = [setting for setting in settings if setting.family == family and setting.x is not None]
        values = []
        for setting in sorted(members, key=lambda setting: setting.x or 0.0):
            value = look(setting.name, claim.system, claim.column)
            less = look(setting.name, claim.minus, claim.column) if claim.minus else 0.0
            if value is not None and less is not None:
                values.append((setting.name, value - less))
        for (before, low), (after, high) in pairwise(values):
            # Printed numbers have three digits, and their differences should not rise by rounding errors.
            change = round(high - low, 9)
            outcomes[f"{before} to {after}"] = change > 0 if claim.trend == "rises" else change < 0
    return outcomes


def _beyond_chance(claim: Claim, label: str, ours: _Ours, settings: Sequence[Setting]) -> str:
    """In how many settings the interval of the difference lies on the claim's side of 0."""
    if not claim.interval:
        return ""
    entries = [ours.entry(setting.name, label, claim.interval) for setting in settings]
    intervals = [entry.interval for entry in entries if entry is not None and entry.interval is not None]
    clear = sum(low > 0 if claim.relation == "higher" else high < 0 for low, high in intervals)
    return f", {clear} of them with a 95 % interval of the difference that excludes 0"
