"""Sets the benchmark's finished runs beside the paper's numbers, in the page docs/research/reproduction.md.

    python docs/tools/reproduction.py --results results --page docs/research/reproduction.md [--check]

The page is written by hand, except for blocks between `<!-- generated: EXPERIMENT -->` and `<!-- end -->`. Those are
made anew from what is under `--results` and from `paper_numbers.toml`; nothing else is touched. With `--check` nothing
is written, and the exit status is 1 if a block is not what it would be. Runs at scale `tiny` are left out: their
numbers mean nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from shortcut_bench.collect import Collection, collect
from shortcut_bench.experiments import ExperimentConfig, Setting, experiment_names, read_experiment
from shortcut_bench.results import IndexEntry, read_index
from shortcut_bench.tables import Entry, Table, make_table, render
from shortcut_guardrail import ConfigError, DataError, GuardrailWarning
from shortcut_guardrail.cli.running import run
from shortcut_guardrail.data.files import write_file

NUMBERS = Path(__file__).with_name("paper_numbers.toml")
BLOCK = re.compile(r"^<!-- generated: (?P<name>.+?) -->\n(?P<body>.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE)
START = re.compile(r"^<!-- generated: ", re.MULTILINE)
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
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What the paper has on one experiment; see the head of `paper_numbers.toml`."""

    source: str
    columns: tuple[str, ...]
    systems: Mapping[str, tuple[str, ...]]
    settings: tuple[str, ...] = ()
    numbers: Mapping[str, Mapping[str, tuple[Number, ...]]] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()

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
        DataError: The file cannot be read.
        ConfigError: A section is not as it has to be.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is no TOML file: {error}.") from error
    sections = content["experiments"]
    return {name: _comparison(name, content, sections) for name in sections}


def _comparison(name: str, content: Mapping[str, Any], sections: Mapping[str, Any]) -> Comparison:
    section = dict(sections[name])
    section["numbers"] = dict(section.get("numbers", {}))
    for column, other in section.pop("numbers_of", {}).items():
        section["numbers"][column] = sections[other]["numbers"][column]
    section["systems"] = section.get("systems", content["systems"])
    section["sizes"] = content["sizes"][section["sizes"]] if "sizes" in section else {}
    section["claims"] = tuple(_claim(name, claim) for claim in section.get("claims", ()))
    if unknown := sorted(set(section) - {entry.name for entry in fields(Comparison)}):
        raise ConfigError(f"The paper's numbers on '{name}' have an unknown field {unknown[0]!r}.")
    section = {key: tuple(value) if isinstance(value, list) else value for key, value in section.items()}
    comparison = Comparison(**section)
    _check_lengths(name, comparison)
    return comparison


def _claim(name: str, values: Mapping[str, Any]) -> Claim:
    if unknown := sorted(set(values) - {entry.name for entry in fields(Claim)}):
        raise ConfigError(f"A claim on '{name}' has an unknown field {unknown[0]!r}.")
    claim = Claim(**values)
    if claim.relation not in ("", "higher", "lower") or claim.trend not in ("", "rises", "falls"):
        raise ConfigError(f"A claim on '{name}' must have a relation higher or lower, or a trend rises or falls.")
    if bool(claim.relation) == bool(claim.trend):
        raise ConfigError(f"A claim on '{name}' must have either a relation or a trend.")
    return claim


def _check_lengths(name: str, comparison: Comparison) -> None:
    for column, rows in comparison.numbers.items():
        if column not in comparison.columns:
            raise ConfigError(f"The paper's numbers on '{name}' have '{column}', which is not among its columns.")
        for system, values in rows.items():
            if len(values) != len(comparison.settings):
                raise ConfigError(
                    f"The paper's numbers on '{name}', {column}, {system}, must be {len(comparison.settings)}, one for "
                    f"each setting, but are {len(values)}."
                )


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


def make_block(results: Path, name: str, comparison: Comparison, *, images_from: Path) -> str:
    """What the page says about an experiment, ending in a line break.

    Args:
        results: Folder of all results.
        name: The experiment.
        comparison: What the paper has on it.
        images_from: The page's folder, from which figures are linked.

    Raises:
        DataError: Results are damaged.
        ConfigError: Results do not belong together, or a column is unknown.
    """
    experiment = read_experiment(name)
    command = f"`shortcut-guardrail benchmark run {name} --data-dir ../shared/data --out results/`"
    parts = []
    for collection, warned in _collected(results, experiment):
        table = _compared(collection, comparison, warned)
        missing = [s.name for s in experiment.settings if s.name not in {cell.setting for cell in collection.cells}]
        part = render(table, "markdown")
        if missing:
            part += f"\nNot finished yet: {plain(', '.join(missing))}. {command} goes on where it stopped.\n"
        parts.append(part)
    if not parts:
        return f"This experiment has not been run yet. The command that runs it: {command}\n"
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


# The page


def reproduced() -> list[str]:
    """The experiments that rebuild a table or figure of the paper; the others have nothing to stand beside."""
    return [name for name in experiment_names() if read_experiment(name).rebuilds]


def rewritten(text: str, make: Callable[[str], str]) -> tuple[str, list[str]]:
    """A page with its blocks made anew, and the names of those that changed.

    Args:
        text: The page.
        make: From an experiment's name to the block's text.

    Raises:
        DataError: A block has no end, or an experiment has none or several.
    """
    found = [match["name"] for match in BLOCK.finditer(text)]
    inside = sum(len(START.findall(match["body"])) for match in BLOCK.finditer(text))
    if inside or len(START.findall(text)) != len(found):
        raise DataError("Every '<!-- generated: NAME -->' of the page needs an '<!-- end -->' before the next one.")
    known = reproduced()
    for what, names in (
        ("no block for", [name for name in known if name not in found]),
        ("a block for the unknown experiment", [name for name in found if name not in known]),
        ("several blocks for", [name for name, times in Counter(found).items() if times > 1]),
    ):
        if names:
            raise DataError(
                f"The page has {what} '{names[0]}'. It needs one for each experiment: a line "
                "'<!-- generated: NAME -->' and a line '<!-- end -->'."
            )
    changed = []

    def block(match: re.Match[str]) -> str:
        body = f"\n{make(match['name'])}\n"
        if body != match["body"]:
            changed.append(match["name"])
        return f"<!-- generated: {match['name']} -->\n{body}<!-- end -->"

    return BLOCK.sub(block, text), changed


def update(results: Path, page: Path, *, check: bool, numbers: Path = NUMBERS) -> int:
    """Rewrites the page, or says whether it is stale.

    Returns:
        The exit status: 1 for a stale page with `check`, 0 otherwise.

    Raises:
        DataError: The page or results cannot be read.
        ConfigError: Results do not belong together.
    """
    if not results.is_dir():
        raise DataError(f"--results must be the folder of all results, but '{results}' is none.")
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"'{page}' cannot be read ({error}). Its prose is written by hand.") from error
    comparisons = read_numbers(numbers)
    new, changed = rewritten(text, lambda name: make_block(results, name, comparisons[name], images_from=page.parent))
    if check:
        if changed:
            print(
                f"'{page}' is stale: {', '.join(changed)}. Rewrite it with: python docs/tools/reproduction.py "
                f"--results {results} --page {page}",
                file=sys.stderr,
            )
        return int(bool(changed))
    if changed:
        write_file(page, new, overwrite=True)
    print(f"{page}: {len(changed)} of {len(comparisons)} blocks changed{': ' if changed else ''}{', '.join(changed)}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status, given the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder of all results")
    parser.add_argument("--page", type=Path, required=True, help="the page, which has to exist")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    given = parser.parse_args(arguments)
    return run(lambda: update(given.results, given.page, check=given.check))


if __name__ == "__main__":
    sys.exit(main())
