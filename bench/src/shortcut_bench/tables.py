"""Tables of finished experiments, as Markdown, LaTeX or CSV.

A number is the mean over seeds, in round brackets the standard deviation over seeds, in square brackets 95 % intervals:
from resampling the scored texts, once for all seeds, or for the worst group the exact interval, its ends averaged over
seeds.
"""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shortcut_guardrail.errors import ConfigError, GuardrailWarning
from shortcut_guardrail.metrics import SMALL_GROUP

from .collect import Cell, Collection
from .columns import (
    SMALL_MARK,
    Column,
    Context,
    Entry,
    find_column,
    group_entries,
    group_names,
    selections,
    worst_groups,
)
from .conditions import conditions
from .positioning import CHOSEN_BESIDE, SETTLED_ON

__all__ = ["FORMATS", "Entry", "Table", "make_table", "render"]

FORMATS = {"markdown": ".md", "latex": ".tex", "csv": ".csv"}
"""The formats of a table, and how a file of each ends."""
ORACLE_MARK, SETTLED_MARK, BESIDE_MARK = "‡", "§", "¶"


@dataclass(frozen=True)
class Table:
    """A table, ready to be rendered.

    Attributes:
        title: What it shows.
        header: Names of the columns.
        rows: The entries, row by row.
        notes: What a reader has to know, sentence by sentence.
        box: What the numbers are, line by line; shown above them.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...]
    box: tuple[str, ...] = ()


def make_table(collection: Collection, *, min_group_size: int = 1) -> Table:
    """The table of an experiment.

    Args:
        collection: Its runs.
        min_group_size: Groups with fewer rows are not taken for the worst one.

    Raises:
        ConfigError: A column is unknown, or `min_group_size` is below 1.
    """
    if min_group_size < 1:
        raise ConfigError(f"min_group_size must be at least 1, but is {min_group_size}.")
    columns = [find_column(name) for name in collection.experiment.table.get("columns", ())]
    contexts = [Context(collection, cell, min_group_size) for cell in collection.cells]
    columns = [column for column in columns if not column.optional or any(map(column.has_entry, contexts))]
    several_tests = len({test for _, test in collection.places}) > 1
    groups = group_names(collection) if any(column.name == "groups" for column in columns) else ()
    header = ["setting", *(["test"] if several_tests else []), "system"]
    for column in columns:
        header += groups if column.name == "groups" else [column.title]
    rows = []
    for context in contexts:
        cell = context.cell
        system = Entry(text=cell.system, mark=_system_marks(cell))
        row = [Entry(text=cell.setting), *([Entry(text=cell.test)] if several_tests else []), system]
        for column in columns:
            row += group_entries(context, groups) if column.name == "groups" else [column.entry(context)]
        rows.append(tuple(row))
    small = _small_groups(collection, min_group_size)
    if small and any(column.name.startswith("worst_group") for column in columns):
        warnings.warn(
            f"The worst group has fewer than {SMALL_GROUP} rows in {len(small)} cells: {', '.join(small[:4])}"
            f"{', ...' if len(small) > 4 else ''}. Read its accuracy with care, or leave small groups out with "
            "--min-group-size.",
            GuardrailWarning,
            stacklevel=2,
        )
    return Table(
        title=collection.experiment.shows,
        header=tuple(header),
        rows=tuple(rows),
        notes=tuple(_notes(collection, columns, small, min_group_size)),
        box=conditions(collection),
    )


def render(table: Table, kind: str) -> str:
    """The table as `markdown`, `latex` or `csv`, ending in a line break.

    Raises:
        ConfigError: The format is unknown.
    """
    renderers: dict[str, Callable[[Table], str]] = {"markdown": _markdown, "latex": _latex, "csv": _csv}
    if kind not in renderers:
        raise ConfigError(f"format must be one of {', '.join(FORMATS)}, but is {kind!r}.")
    return renderers[kind](table)


# Marks and notes


def _system_marks(cell: Cell) -> str:
    marks = {ORACLE_MARK: _chosen_by_oracle, SETTLED_MARK: _settled_here, BESIDE_MARK: _chosen_beside}
    return "".join(mark for mark, holds in marks.items() if holds(cell))


def _settled_here(cell: Cell) -> bool:
    """Whether options of this kind of system were settled by people who saw how it answers rows of this data set."""
    return bool(_data_sets(cell) & SETTLED_ON.get(cell.kind, frozenset()))


def _chosen_beside(cell: Cell) -> bool:
    """Whether options of this kind of system were chosen on other rows of this data set under the same shift."""
    return bool(_data_sets(cell) & CHOSEN_BESIDE.get(cell.kind, frozenset()))


def _data_sets(cell: Cell) -> set[str]:
    return {run.result["config"]["data"]["name"] for run in cell.runs.values()}


def _chosen_by_oracle(cell: Cell) -> bool:
    """Whether anything was chosen by a rule that looks at test labels."""
    return any(found["oracle"] for found in selections(cell))


def _small_groups(collection: Collection, min_group_size: int) -> list[str]:
    return [
        f"{cell.setting}, {cell.system} (n = {min(group['n'] for group in worst)})"
        for cell in collection.cells
        if (worst := worst_groups(cell, min_group_size)) and min(group["n"] for group in worst) < SMALL_GROUP
    ]


_EXPLANATIONS = {
    "accuracy": "In round brackets the standard deviation over seeds; in square brackets a 95 % interval from "
    "resampling the scored texts, once for all seeds together.",
    "worst_group_accuracy": "Worst group: over label x shortcut presence, empty groups left out; its interval is the "
    "exact one of its size, ends averaged over seeds.",
    "p_value": "p: exact McNemar test against erm on the same rows, the largest over seeds; rows gained and lost are "
    "summed over seeds.",
    "gap_closed": "Share of gap: (system − erm) / (oracle − erm), of means over seeds.",
    "mstps": "MSTPS, own tokens: with the important tokens of the evaluated model, over a random part of the scored "
    "rows; not where an answer is not that of one model, as with masking at prediction.",
    "mstps_base_tokens": "MSTPS, base tokens: with those of the base model, masked in the text where an answer is "
    "not that of one model.",
    "selection": "Chosen by: the rule by which an epoch, a point of a grid or a strength was kept; `last` compares "
    "nothing, - has nothing to choose, and a rule that reads test labels is called an oracle.",
    "group_labels": "Group labels: training and dev rows whose group the system saw, of folds the mean (target labels "
    "are those of all folds).",
    "cost": "F per text: fitting in forward passes per deployment text, without the base classifier's own training.",
    "misclassified_with": "Misclassified texts with the shortcut among the 10 most important tokens, and all others.",
}


def _notes(collection: Collection, columns: Sequence[Column], small: Sequence[str], min_group_size: int) -> list[str]:
    names = {column.name for column in columns}
    notes = [
        f"In the paper: {collection.experiment.paper}",
        *(text for name, text in _EXPLANATIONS.items() if name in names),
    ]
    if short := collection.short_of_seeds:
        lacking = (f"{cell.setting} {cell.system} ({', '.join(map(str, sorted(cell.runs)))})" for cell in short)
        notes.append(f"Not all seeds, and those there are: {', '.join(lacking)}.")
    if any(map(_chosen_by_oracle, collection.cells)):
        notes.append(f"{ORACLE_MARK} Chosen by a rule that looks at test labels (an oracle): no method can do that.")
    if any(map(_settled_here, collection.cells)):
        notes.append(
            f"{SETTLED_MARK} Options of this system were settled by people who saw its answers to scored rows of this "
            "data set, as an oracle does. Read it beside sets on which nothing was settled."
        )
    if any(map(_chosen_beside, collection.cells)):
        notes.append(
            f"{BESIDE_MARK} Rate and steps of this system, or how far it moves weights, were chosen on 500 labelled "
            "rows of this data set with the shortcut reversed, on which nobody is scored (docs/research/defaults.md)."
        )
    if small and "worst_group_accuracy" in names:
        notes.append(f"{SMALL_MARK} The worst group has fewer than {SMALL_GROUP} rows.")
    if min_group_size > 1:
        notes.append(f"Groups with fewer than {min_group_size} rows are not taken for the worst one.")
    notes += collection.experiment.notes
    return notes


# Formats


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    numeric = ["---"] * len(table.header)
    box = [*(f"> - {said}" for said in table.box), ""] if table.box else []
    lines = [f"**{table.title}**", "", *box, line(table.header), line(numeric)]
    lines += [line([entry.shown() for entry in row]) for row in table.rows]
    lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines) + "\n"


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"$<$",
        ">": r"$>$",
        "−": r"$-$",
        "λ": r"$\lambda$",
        "×": r"$\times$",
        "†": r"$^{\dagger}$",
        "‡": r"$^{\ddagger}$",
        '"': "''",
    }
)


def _latex(table: Table) -> str:
    def escaped(text: str) -> str:
        return text.translate(_LATEX)

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(escaped, cells)) + r" \\"

    box = [r"\begin{quote}\raggedright", *(escaped(said) + r"\par" for said in table.box), r"\end{quote}"]
    alignment = "ll" + "r" * (len(table.header) - 2)
    lines = [
        r"\begin{table*}[t]",
        r"\centering\small",
        *(box if table.box else []),
        rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
        r"\toprule",
        line(table.header),
        r"\midrule",
        *(line([entry.shown() for entry in row]) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{escaped(' '.join([table.title, *table.notes]))}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _csv(table: Table) -> str:
    """Every number in columns of its own, unrounded: mean, standard deviation and the ends of the interval."""
    spans = [
        {
            "sd": any(row[at].spread is not None for row in table.rows),
            "low": any(row[at].interval is not None for row in table.rows),
            "high": any(row[at].interval is not None for row in table.rows),
        }
        for at in range(len(table.header))
    ]
    names = _distinct_names(table.header)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            name
            for at, title in enumerate(names)
            for name in (title, *(f"{title} {k}" for k, on in spans[at].items() if on))
        ]
    )
    for row in table.rows:
        cells: list[str] = []
        for at, entry in enumerate(row):
            ends = entry.interval or (None, None)
            numbers = {"sd": entry.spread, "low": ends[0], "high": ends[1]}
            cells.append(entry.text + entry.mark.replace(SMALL_MARK, "") or _plain(entry.value))
            cells += [_plain(numbers[k]) for k, on in spans[at].items() if on]
        writer.writerow(cells)
    return out.getvalue()


def _distinct_names(header: Sequence[str]) -> list[str]:
    """A column that only says "− erm" is named after the one before it."""
    names: list[str] = []
    for title in header:
        names.append(f"{names[-1]} {title}" if title in names or title.startswith("−") else title)
    return names


def _plain(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(float(value))
