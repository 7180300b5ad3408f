"""Tables of finished experiments, as Markdown, LaTeX or CSV.

A number is the mean over seeds, in round brackets the standard deviation over seeds, in square brackets 95 % intervals:
from resampling the scored rows within seeds, or for the worst group the exact interval, its ends averaged over seeds.
"""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortcut_guardrail.errors import ConfigError, GuardrailWarning
from shortcut_guardrail.metrics import SMALL_GROUP

from .collect import Cell, Collection, Finished
from .positioning import APPROACHES, CHOSEN_BESIDE, PER_INPUT_ATTRIBUTION, SETTLED_ON
from .statistics import (
    Statistic,
    mcnemar,
    percentile_interval,
    resample,
    share_of_gap,
    spread,
    weighted_accuracy,
    weighted_balanced_accuracy,
)
from .systems import ANNOTATION_NEEDS, SOURCE_NEEDS, Need

Array = np.ndarray[Any, np.dtype[Any]]

FORMATS = ("markdown", "latex", "csv")
BASE, ORACLE = "erm", "oracle"
SMALL_MARK, ORACLE_MARK, SETTLED_MARK, BESIDE_MARK = "†", "‡", "§", "¶"


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes:
        value: Mean over seeds; `None` where it is undefined.
        spread: Standard deviation over seeds, or `None`.
        interval: 95 % interval, or `None`.
        text: What is shown instead of a number.
        digits: Digits after the point.
        mark: Appended to what is shown.
    """

    value: float | None = None
    spread: float | None = None
    interval: tuple[float, float] | None = None
    text: str = ""
    digits: int = 3
    mark: str = ""

    def shown(self) -> str:
        """As a reader sees it; "-" where there is nothing."""
        if self.text:
            return self.text + self.mark
        if self.value is None or math.isnan(self.value):
            return "-"
        parts = [self._number(self.value)]
        if self.spread is not None and not math.isnan(self.spread):
            parts.append(f"({self._number(self.spread)})")
        if self.interval is not None and not math.isnan(self.interval[0]):
            parts.append(f"[{self._number(self.interval[0])}, {self._number(self.interval[1])}]")
        return " ".join(parts) + self.mark

    def _number(self, value: float) -> str:
        return f"{value:,.{self.digits}f}" if abs(value) >= 1000 else f"{value:.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    """A table, ready to be rendered.

    Attributes:
        title: What it shows.
        header: Names of the columns.
        rows: The entries, row by row.
        notes: What a reader has to know, sentence by sentence.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Context:
    """What a column's entry is computed from."""

    collection: Collection
    cell: Cell
    min_group_size: int

    def paired(self, kind: str) -> list[tuple[Finished, Finished]]:
        """The runs of the cell beside those of a reference, for the seeds that both have."""
        other = self.collection.of_kind(self.cell, kind)
        if other is None or other is self.cell:
            return []
        return [(other.runs[seed], run) for seed, run in self.cell.runs.items() if seed in other.runs]


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
    columns = [column for name in collection.experiment.table.get("columns", ()) for column in _columns(name)]
    contexts = [_Context(collection, cell, min_group_size) for cell in collection.cells]
    columns = [column for column in columns if not column.optional or any(map(_has_entry(column), contexts))]
    several_tests = len({test for _, test in collection.places}) > 1
    groups = _group_names(collection) if any(column.name == "groups" for column in columns) else ()
    header = ["setting", *(["test"] if several_tests else []), "system"]
    for column in columns:
        header += groups if column.name == "groups" else [column.title]
    rows = []
    for context in contexts:
        cell = context.cell
        system = Entry(text=cell.system, mark=_system_marks(cell))
        row = [Entry(text=cell.setting), *([Entry(text=cell.test)] if several_tests else []), system]
        for column in columns:
            row += _group_entries(context, groups) if column.name == "groups" else [column.entry(context)]
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


# Columns


@dataclass(frozen=True)
class _Column:
    name: str
    title: str
    entry: Callable[[_Context], Entry]
    optional: bool = False
    """Left out where no cell has an entry, as overlapping groups, which few data sets have."""


def _columns(name: str) -> list[_Column]:
    if name not in _COLUMNS:
        raise ConfigError(f"There is no column '{name}' (there are: {', '.join(_COLUMNS)}).")
    return [_COLUMNS[name]]


def _has_entry(column: _Column) -> Callable[[_Context], bool]:
    return lambda context: column.entry(context).shown() != Entry().shown()


def _metric(name: str, digits: int = 3) -> Callable[[_Context], Entry]:
    def entry(context: _Context) -> Entry:
        values = context.cell.values(name)
        return Entry(*spread(values), digits=digits) if values else Entry()

    return entry


def _count(name: str) -> Callable[[_Context], Entry]:
    """A number of rows; a range where seeds differ."""

    def entry(context: _Context) -> Entry:
        found = sorted({int(run.metrics[name]) for run in context.cell.runs.values() if name in run.metrics})
        return Entry(text=_range(found))

    return entry


def _range(values: Sequence[int]) -> str:
    if not values:
        return "-"
    return str(values[0]) if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def _resampled(name: str, statistic: Callable[[str], Statistic]) -> Callable[[_Context], Entry]:
    def entry(context: _Context) -> Entry:
        seeds = [_columns_of(run, right=run.rows.right) for run in context.cell.runs.values()]
        interval = percentile_interval(resample(seeds, {"score": statistic("right")})["score"])
        return Entry(*spread(context.cell.values(name)), interval=interval)

    return entry


def _columns_of(run: Finished, **columns: Array) -> dict[str, Array]:
    return {"labels": run.rows.labels, **columns}


def _difference(context: _Context) -> Entry:
    pairs = context.paired(BASE)
    if not pairs:
        return Entry()
    seeds = [_columns_of(run, base=base.rows.right, system=run.rows.right) for base, run in pairs]
    drawn = resample(seeds, {name: weighted_accuracy(name) for name in ("base", "system")})
    differences = [run.metrics["accuracy"] - base.metrics["accuracy"] for base, run in pairs]
    return Entry(*spread(differences), interval=percentile_interval(drawn["system"] - drawn["base"]))


def _p_value(context: _Context) -> Entry:
    pairs = [mcnemar(base.rows.right, run.rows.right) for base, run in context.paired(BASE)]
    if not pairs:
        return Entry()
    gained, lost = (sum(getattr(pair, side) for pair in pairs) for side in ("gained", "lost"))
    largest = max(pair.p_value for pair in pairs)
    return Entry(value=largest, text=f"{'< 0.001' if largest < 0.001 else f'{largest:.3f}'} (+{gained} −{lost})")


def _gap(name: str, statistic: Callable[[str], Statistic]) -> Callable[[_Context], Entry]:
    """Ratio of means over seeds, since a ratio of small differences is unstable seed by seed."""

    def entry(context: _Context) -> Entry:
        oracle = context.collection.of_kind(context.cell, ORACLE)
        triples = [
            (base, run, oracle.runs[run.entry.seed])
            for base, run in context.paired(BASE)
            if oracle is not None and run.entry.seed in oracle.runs
        ]
        if not triples or context.cell is oracle:
            return Entry()
        base, system, best = (
            float(np.mean([triple[at].metrics[name] for triple in triples])) for at in range(len(triples[0]))
        )
        seeds = [
            _columns_of(run, base=low.rows.right, system=run.rows.right, oracle=top.rows.right)
            for low, run, top in triples
        ]
        drawn = resample(seeds, {who: statistic(who) for who in ("base", "system", "oracle")})
        gap = drawn["oracle"] - drawn["base"]
        # Where resampling makes the gap vanish, the share is anything: there is no interval to give.
        closed = (drawn["system"] - drawn["base"]) / np.where(gap > 0, gap, np.nan)
        interval = None if np.isnan(closed).any() else percentile_interval(closed)
        return Entry(value=share_of_gap(system, base, best), interval=interval, digits=2)

    return entry


def worst_groups(cell: Cell, min_group_size: int = 1) -> list[Mapping[str, Any]]:
    """The worst group of each seed: name, n, accuracy and exact interval; seeds without a group that large left out."""
    found = []
    for run in cell.runs.values():
        large = [group for group in run.result["groups"] if group["n"] >= min_group_size]
        if large:
            found.append(min(large, key=lambda group: group["accuracy"]))
    return found


def _worst_accuracy(context: _Context) -> Entry:
    worst = worst_groups(context.cell, context.min_group_size)
    if not worst:
        return Entry()
    low, high = (float(np.mean([group["interval"][end] for group in worst])) for end in (0, 1))
    mark = SMALL_MARK if min(group["n"] for group in worst) < SMALL_GROUP else ""
    return Entry(*spread([group["accuracy"] for group in worst]), interval=(low, high), mark=mark)


def _worst_group(context: _Context) -> Entry:
    worst = worst_groups(context.cell, context.min_group_size)
    names = list(dict.fromkeys(group["name"] for group in worst))
    sizes = sorted(int(group["n"]) for group in worst)
    return Entry(text=f"{' / '.join(names)} (n = {_range(sizes)})") if worst else Entry()


def _worst_overlapping(context: _Context) -> Entry:
    found = [run.metrics.get("worst_overlapping_group") for run in context.cell.runs.values()]
    worst = [group for group in found if group]
    if not worst:
        return Entry()
    low, high = (float(np.mean([group["interval"][end] for group in worst])) for end in (0, 1))
    mark = SMALL_MARK if min(group["n"] for group in worst) < SMALL_GROUP else ""
    return Entry(*spread([group["accuracy"] for group in worst]), interval=(low, high), mark=mark)


def _group_names(collection: Collection) -> tuple[str, ...]:
    return tuple(dict.fromkeys(group["name"] for run in collection.runs for group in run.result["groups"]))


def group_values(cell: Cell, name: str) -> list[float]:
    """The accuracy of a group in each seed in which it has rows."""
    return [
        float(group["accuracy"])
        for run in cell.runs.values()
        for group in run.result["groups"]
        if group["name"] == name and group["n"]
    ]


def _group_entries(context: _Context, names: Sequence[str]) -> list[Entry]:
    return [
        Entry(*spread(values)) if (values := group_values(context.cell, name)) else Entry(text="-") for name in names
    ]


def recall_values(cell: Cell, k: int, what: str) -> list[float]:
    """Shortcut Token Recall at k (`recall`), or what chance gives (`chance`), of each seed."""
    found = [run.metrics["shortcut_token_recall"].get(str(k)) for run in cell.runs.values()]
    return [float(recall[what]) for recall in found if recall]


def _recall(k: int, what: str = "recall") -> Callable[[_Context], Entry]:
    def entry(context: _Context) -> Entry:
        values = recall_values(context.cell, k, what)
        return Entry(*spread(values)) if values else Entry()

    return entry


def _recall_size(context: _Context) -> Entry:
    sizes = sorted({int(value) for value in recall_values(context.cell, 1, "n")})
    return Entry(text=_range(sizes)) if sizes else Entry()


def _misclassified_without(context: _Context) -> Entry:
    pairs = [
        (run.metrics["misclassified"], run.metrics["misclassified_with_important_shortcut"])
        for run in context.cell.runs.values()
        if "misclassified" in run.metrics
    ]
    return Entry(*spread([total - with_it for total, with_it in pairs])) if pairs else Entry()


def _change(name: str) -> Callable[[_Context], Entry]:
    def entry(context: _Context) -> Entry:
        pairs = [(base.metrics[name], run.metrics[name]) for base, run in context.paired(BASE)]
        defined = [run - base for base, run in pairs if base is not None and run is not None]
        return Entry(*spread(defined)) if defined else Entry()

    return entry


def _strength(context: _Context) -> Entry:
    infos = [run.result["system"]["info"] for run in context.cell.runs.values()]
    strengths = [info["debias_strength"] for info in infos if "debias_strength" in info]
    return Entry(text=", ".join(f"{strength:g}" for strength in strengths)) if strengths else Entry()


def _labels(context: _Context) -> Entry:
    return Entry(
        text=_range(sorted({run.result["system"]["info"].get("labels_spent", 0) for run in context.cell.runs.values()}))
    )


def _selections(cell: Cell) -> list[Mapping[str, Any]]:
    """By which rule each seed chose what it keeps, where it says so."""
    found = [run.result["system"]["info"].get("selection") for run in cell.runs.values()]
    # Results of the guardrail from before 23 November 2026 have the name alone.
    return [{"rule": one, "oracle": False} if isinstance(one, str) else one for one in found if one]


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
    return any(found["oracle"] for found in _selections(cell))


def _selection(context: _Context) -> Entry:
    # Rules of `select` by their name; results have others with hyphens or without, and "none" where nothing is chosen.
    named = (str(found["rule"]) for found in _selections(context.cell))
    rules = dict.fromkeys(rule if rule.startswith("dev-") else rule.replace("-", " ") for rule in named)
    return Entry(text=" / ".join(rule for rule in rules if rule != "none") or "-")


def _group_labels(context: _Context) -> Entry:
    """How many training and dev rows the system saw the groups of."""
    handed = _handed(context)
    counts = [
        sum(
            sum(run.result["data"]["counts"][rows].values())
            for rows, need in (("train", Need.TRAIN_GROUPS), ("dev", Need.DEV_GROUPS))
            if need in handed
        )
        for run in context.cell.runs.values()
    ]
    return Entry(text=_range(sorted(set(counts))))


def _needs(context: _Context) -> Entry:
    """What the system was handed beside the base classifier; with the groups of its rows where it saw them."""
    needs = _handed(context)
    kinds = ("train", "clean-train", "dev", "support", "deployment")
    rows = [name for name in kinds if {name, f"{name}-groups"} & needs]
    named = [f"{name} with groups" if f"{name}-groups" in needs else name for name in rows]
    parts = ("train-texts", "train-class-counts", "dev-texts", "gradients", "shortcut-words", "oracle-texts")
    named += [name.replace("-", " ") for name in parts if name in needs]
    return Entry(text=", ".join(named) or "nothing")


def _positioning(of: Callable[[_Context], bool]) -> Callable[[_Context], Entry]:
    """A column of the paper's table of positioning (Appendix), by what a system was handed."""
    return lambda context: Entry(text="yes" if of(context) else "no")


def _without(unwanted: frozenset[Need]) -> Callable[[_Context], bool]:
    return lambda context: not unwanted & _handed(context)


def _handed(context: _Context) -> set[str]:
    return {need for run in context.cell.runs.values() for need in run.result["system"]["needs"]}


def _of_result(*keys: str, digits: int = 1) -> Callable[[_Context], Entry]:
    """A number from inside a result, in every seed that has it."""

    def entry(context: _Context) -> Entry:
        values = []
        for run in context.cell.runs.values():
            found: Any = run.result
            for key in keys:
                found = found.get(key) if isinstance(found, Mapping) else None
            if found is not None:
                values.append(float(found))
        return Entry(*spread(values), digits=digits) if values else Entry()

    return entry


_COLUMNS = {
    column.name: column
    for column in (
        _Column("n", "n", _count("n")),
        _Column("accuracy", "accuracy", _resampled("accuracy", weighted_accuracy)),
        _Column("balanced_accuracy", "balanced accuracy", _resampled("balanced_accuracy", weighted_balanced_accuracy)),
        _Column("majority_accuracy", "majority class", _metric("majority_accuracy")),
        _Column("groups", "groups", lambda context: Entry()),
        _Column("worst_group_accuracy", "worst-group accuracy", _worst_accuracy),
        _Column("worst_group", "worst group", _worst_group),
        _Column("worst_overlapping_group", "worst of 16 groups", _worst_overlapping, optional=True),
        _Column("difference", "accuracy − erm", _difference),
        _Column("p_value", "p (+gained −lost)", _p_value),
        _Column("gap_closed", "share of gap, accuracy", _gap("accuracy", weighted_accuracy)),
        _Column("gap_closed_balanced", "share of gap, balanced", _gap("balanced_accuracy", weighted_balanced_accuracy)),
        _Column("mstps", "MSTPS, own tokens", _metric("mstps")),
        _Column("mstps_change", "− erm", _change("mstps")),
        _Column("mstps_base_tokens", "MSTPS, base tokens", _metric("mstps_base_tokens")),
        _Column("mstps_base_tokens_change", "− erm", _change("mstps_base_tokens")),
        _Column("n_audited", "n audited", _count("n_audited")),
        _Column("n_shortcut", "n with shortcut", _recall_size),
        _Column("recall", "recall at 10", _recall(10)),
        *(_Column(f"recall_{k}", f"recall at {k}", _recall(k)) for k in range(1, 11)),
        *(_Column(f"chance_{k}", f"chance at {k}", _recall(k, "chance")) for k in range(1, 11)),
        _Column("misclassified", "error rate", _metric("misclassified")),
        _Column("misclassified_with", "shortcut important", _metric("misclassified_with_important_shortcut")),
        _Column("misclassified_without", "shortcut not important", _misclassified_without),
        _Column("strength", "strength by seed", _strength),
        _Column("selection", "chosen by", _selection),
        _Column("labels", "target labels", _labels),
        _Column("group_labels", "group labels", _group_labels),
        _Column("needs", "was handed", _needs),
        _Column("approach", "approach", lambda context: Entry(text=APPROACHES.get(context.cell.kind, "-"))),
        _Column("deployment_time", "at deployment alone", _positioning(_without(SOURCE_NEEDS | {Need.ORACLE_TEXTS}))),
        _Column("no_annotation", "no shortcut annotation", _positioning(_without(ANNOTATION_NEEDS))),
        _Column(
            "attribution",
            "per-input attribution",
            _positioning(lambda context: context.cell.kind in PER_INPUT_ATTRIBUTION),
        ),
        _Column("cost", "F per text", _of_result("cost", "per_deployment_text")),
        _Column("cost_per_answer", "F per answer", _of_result("cost", "per_answer")),
        _Column("forward_equivalents", "F in all", _of_result("cost", "forward_equivalents", digits=0)),
        _Column("n_deployment", "texts", _of_result("cost", "n_deployment", digits=0)),
        _Column("fit_seconds", "fit (s)", _of_result("seconds", "fit")),
        *(
            _Column(f"{stage}_seconds", f"{stage} (s)", _of_result("seconds", "fit_stages", stage))
            for stage in ("attribute", "adapt", "calibrate")
        ),
    )
}


# Notes


def _small_groups(collection: Collection, min_group_size: int) -> list[str]:
    return [
        f"{cell.setting}, {cell.system} (n = {min(group['n'] for group in worst)})"
        for cell in collection.cells
        if (worst := worst_groups(cell, min_group_size)) and min(group["n"] for group in worst) < SMALL_GROUP
    ]


_EXPLANATIONS = {
    "accuracy": "In round brackets the standard deviation over seeds; in square brackets a 95 % interval from "
    "resampling the scored rows within seeds.",
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


def _notes(collection: Collection, columns: Sequence[_Column], small: Sequence[str], min_group_size: int) -> list[str]:
    names = {column.name for column in columns}
    notes = [
        f"In the paper: {collection.experiment.paper}",
        f"Encoder {collection.encoder}, scale {collection.scale}, seeds {', '.join(map(str, collection.seeds))}; "
        f"texts cut to tokens: {_by_setting(collection, lambda result: result['config']['data']['max_tokens'])}; "
        f"training rows: {_by_setting(collection, lambda result: sum(result['data']['counts']['train'].values()))}.",
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
            "rows of this data set with the shortcut reversed, on which nobody is scored (docs/defaults.md)."
        )
    if small and "worst_group_accuracy" in names:
        notes.append(f"{SMALL_MARK} The worst group has fewer than {SMALL_GROUP} rows.")
    if min_group_size > 1:
        notes.append(f"Groups with fewer than {min_group_size} rows are not taken for the worst one.")
    notes += collection.experiment.notes
    return notes


def _by_setting(collection: Collection, size: Callable[[Mapping[str, Any]], int]) -> str:
    """A size of the runs: once if it is the same everywhere, else by setting."""
    sizes: dict[str, set[int]] = {}
    for run in collection.runs:
        sizes.setdefault(run.entry.setting, set()).add(size(run.result))
    distinct = {tuple(sorted(found)) for found in sizes.values()}
    if len(distinct) == 1:
        return _range(sorted(distinct.pop()))
    return ", ".join(f"{setting} {_range(sorted(found))}" for setting, found in sizes.items())


# Formats


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    numeric = ["---"] * len(table.header)
    lines = [f"**{table.title}**", "", line(table.header), line(numeric)]
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

    alignment = "ll" + "r" * (len(table.header) - 2)
    lines = [
        r"\begin{table*}[t]",
        r"\centering\small",
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
