"""The columns of tables: what stands in a cell, and how each column computes it from the runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.metrics import SMALL_GROUP

from .collect import Cell, Collection, Finished
from .positioning import APPROACHES, PER_INPUT_ATTRIBUTION
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

BASE, ORACLE = "erm", "oracle"
SMALL_MARK = "†"


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
class Context:
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


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: What an experiment's file calls it.
        title: What the table calls it.
        entry: Computes its entry for a cell.
        optional: Left out where no cell has an entry, as overlapping groups, which few data sets have.
    """

    name: str
    title: str
    entry: Callable[[Context], Entry]
    optional: bool = False

    def has_entry(self, context: Context) -> bool:
        """Whether anything stands in a cell."""
        return self.entry(context).shown() != Entry().shown()


def find_column(name: str) -> Column:
    """The column of that name.

    Raises:
        ConfigError: There is none.
    """
    if name not in COLUMNS:
        raise ConfigError(f"There is no column '{name}' (there are: {', '.join(COLUMNS)}).")
    return COLUMNS[name]


def _metric(name: str, digits: int = 3) -> Callable[[Context], Entry]:
    def entry(context: Context) -> Entry:
        values = context.cell.values(name)
        return Entry(*spread(values), digits=digits) if values else Entry()

    return entry


def _count(name: str) -> Callable[[Context], Entry]:
    """A number of rows; a range where seeds differ."""

    def entry(context: Context) -> Entry:
        found = sorted({int(run.metrics[name]) for run in context.cell.runs.values() if name in run.metrics})
        return Entry(text=row_range(found))

    return entry


def row_range(values: Sequence[int]) -> str:
    """A number of rows; a range where there are several; "-" where there is none."""
    if not values:
        return "-"
    return str(values[0]) if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def _resampled(name: str, statistic: Callable[[str], Statistic]) -> Callable[[Context], Entry]:
    def entry(context: Context) -> Entry:
        seeds = [_columns_of(run, right=run.rows.right) for run in context.cell.runs.values()]
        interval = percentile_interval(resample(seeds, {"score": statistic("right")})["score"])
        return Entry(*spread(context.cell.values(name)), interval=interval)

    return entry


def _columns_of(run: Finished, **columns: Array) -> dict[str, Array]:
    return {"texts": run.rows.texts, "labels": run.rows.labels, **columns}


def _difference(context: Context) -> Entry:
    pairs = context.paired(BASE)
    if not pairs:
        return Entry()
    seeds = [_columns_of(run, base=base.rows.right, system=run.rows.right) for base, run in pairs]
    drawn = resample(seeds, {name: weighted_accuracy(name) for name in ("base", "system")})
    differences = [run.metrics["accuracy"] - base.metrics["accuracy"] for base, run in pairs]
    return Entry(*spread(differences), interval=percentile_interval(drawn["system"] - drawn["base"]))


def _p_value(context: Context) -> Entry:
    pairs = [mcnemar(base.rows.right, run.rows.right) for base, run in context.paired(BASE)]
    if not pairs:
        return Entry()
    gained, lost = (sum(getattr(pair, side) for pair in pairs) for side in ("gained", "lost"))
    largest = max(pair.p_value for pair in pairs)
    return Entry(value=largest, text=f"{'< 0.001' if largest < 0.001 else f'{largest:.3f}'} (+{gained} −{lost})")


def _gap(name: str, statistic: Callable[[str], Statistic]) -> Callable[[Context], Entry]:
    """Ratio of means over seeds, since a ratio of small differences is unstable seed by seed."""

    def entry(context: Context) -> Entry:
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


def _worst_accuracy(context: Context) -> Entry:
    worst = worst_groups(context.cell, context.min_group_size)
    if not worst:
        return Entry()
    low, high = (float(np.mean([group["interval"][end] for group in worst])) for end in (0, 1))
    mark = SMALL_MARK if min(group["n"] for group in worst) < SMALL_GROUP else ""
    return Entry(*spread([group["accuracy"] for group in worst]), interval=(low, high), mark=mark)


def _worst_group(context: Context) -> Entry:
    worst = worst_groups(context.cell, context.min_group_size)
    names = list(dict.fromkeys(group["name"] for group in worst))
    sizes = sorted(int(group["n"]) for group in worst)
    return Entry(text=f"{' / '.join(names)} (n = {row_range(sizes)})") if worst else Entry()


def _worst_overlapping(context: Context) -> Entry:
    found = [run.metrics.get("worst_overlapping_group") for run in context.cell.runs.values()]
    worst = [group for group in found if group]
    if not worst:
        return Entry()
    low, high = (float(np.mean([group["interval"][end] for group in worst])) for end in (0, 1))
    mark = SMALL_MARK if min(group["n"] for group in worst) < SMALL_GROUP else ""
    return Entry(*spread([group["accuracy"] for group in worst]), interval=(low, high), mark=mark)


def group_names(collection: Collection) -> tuple[str, ...]:
    """The names of all groups, each once."""
    return tuple(dict.fromkeys(group["name"] for run in collection.runs for group in run.result["groups"]))


def group_values(cell: Cell, name: str) -> list[float]:
    """The accuracy of a group in each seed in which it has rows."""
    return [
        float(group["accuracy"])
        for run in cell.runs.values()
        for group in run.result["groups"]
        if group["name"] == name and group["n"]
    ]


def group_entries(context: Context, names: Sequence[str]) -> list[Entry]:
    """The accuracy of each group."""
    return [
        Entry(*spread(values)) if (values := group_values(context.cell, name)) else Entry(text="-") for name in names
    ]


def recall_values(cell: Cell, k: int, what: str) -> list[float]:
    """Shortcut Token Recall at k (`recall`), or what chance gives (`chance`), of each seed."""
    found = [run.metrics["shortcut_token_recall"].get(str(k)) for run in cell.runs.values()]
    return [float(recall[what]) for recall in found if recall]


def _recall(k: int, what: str = "recall") -> Callable[[Context], Entry]:
    def entry(context: Context) -> Entry:
        values = recall_values(context.cell, k, what)
        return Entry(*spread(values)) if values else Entry()

    return entry


def _recall_size(context: Context) -> Entry:
    sizes = sorted({int(value) for value in recall_values(context.cell, 1, "n")})
    return Entry(text=row_range(sizes)) if sizes else Entry()


def _misclassified_without(context: Context) -> Entry:
    pairs = [
        (run.metrics["misclassified"], run.metrics["misclassified_with_important_shortcut"])
        for run in context.cell.runs.values()
        if "misclassified" in run.metrics
    ]
    return Entry(*spread([total - with_it for total, with_it in pairs])) if pairs else Entry()


def _change(name: str) -> Callable[[Context], Entry]:
    def entry(context: Context) -> Entry:
        pairs = [(base.metrics[name], run.metrics[name]) for base, run in context.paired(BASE)]
        defined = [run - base for base, run in pairs if base is not None and run is not None]
        return Entry(*spread(defined)) if defined else Entry()

    return entry


def _strength(context: Context) -> Entry:
    infos = [run.result["system"]["info"] for run in context.cell.runs.values()]
    strengths = [info["debias_strength"] for info in infos if "debias_strength" in info]
    return Entry(text=", ".join(f"{strength:g}" for strength in strengths)) if strengths else Entry()


def _labels(context: Context) -> Entry:
    infos = [run.result["system"]["info"] for run in context.cell.runs.values()]
    return Entry(text=row_range(sorted({info.get("labels_spent", 0) for info in infos})))


def selections(cell: Cell) -> list[Mapping[str, Any]]:
    """By which rule each seed chose what it keeps, where it says so."""
    found = [run.result["system"]["info"].get("selection") for run in cell.runs.values()]
    # Results of the guardrail from before 23 November 2026 have the name alone.
    return [{"rule": one, "oracle": False} if isinstance(one, str) else one for one in found if one]


def rules_of(cell: Cell) -> tuple[str, ...]:
    """The names of the rules by which the seeds chose what they keep, each once; none where nothing was chosen."""
    # Rules of `select` by their name; results have others with hyphens or without, and "none" where nothing is chosen.
    named = (str(found["rule"]) for found in selections(cell))
    rules = dict.fromkeys(rule if rule.startswith("dev-") else rule.replace("-", " ") for rule in named)
    return tuple(rule for rule in rules if rule != "none")


def _selection(context: Context) -> Entry:
    return Entry(text=" / ".join(rules_of(context.cell)) or "-")


def _group_labels(context: Context) -> Entry:
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
    return Entry(text=row_range(sorted(set(counts))))


def _needs(context: Context) -> Entry:
    """What the system was handed beside the base classifier; with the groups of its rows where it saw them."""
    needs = _handed(context)
    kinds = ("train", "clean-train", "dev", "support", "deployment")
    rows = [name for name in kinds if {name, f"{name}-groups"} & needs]
    named = [f"{name} with groups" if f"{name}-groups" in needs else name for name in rows]
    parts = ("train-texts", "train-class-counts", "dev-texts", "gradients", "shortcut-words", "oracle-texts")
    named += [name.replace("-", " ") for name in parts if name in needs]
    return Entry(text=", ".join(named) or "nothing")


def _positioning(of: Callable[[Context], bool]) -> Callable[[Context], Entry]:
    """A column of the paper's table of positioning (Appendix), by what a system was handed."""
    return lambda context: Entry(text="yes" if of(context) else "no")


def _without(unwanted: frozenset[Need]) -> Callable[[Context], bool]:
    return lambda context: not unwanted & _handed(context)


def _handed(context: Context) -> set[str]:
    return {need for run in context.cell.runs.values() for need in run.result["system"]["needs"]}


def _of_result(*keys: str, digits: int = 1) -> Callable[[Context], Entry]:
    """A number from inside a result, in every seed that has it."""

    def entry(context: Context) -> Entry:
        values = []
        for run in context.cell.runs.values():
            found: Any = run.result
            for key in keys:
                found = found.get(key) if isinstance(found, Mapping) else None
            if found is not None:
                values.append(float(found))
        return Entry(*spread(values), digits=digits) if values else Entry()

    return entry


COLUMNS = {
    column.name: column
    for column in (
        Column("n", "n", _count("n")),
        Column("accuracy", "accuracy", _resampled("accuracy", weighted_accuracy)),
        Column("balanced_accuracy", "balanced accuracy", _resampled("balanced_accuracy", weighted_balanced_accuracy)),
        Column("majority_accuracy", "majority class", _metric("majority_accuracy")),
        Column("groups", "groups", lambda context: Entry()),
        Column("worst_group_accuracy", "worst-group accuracy", _worst_accuracy),
        Column("worst_group", "worst group", _worst_group),
        Column("worst_overlapping_group", "worst of 16 groups", _worst_overlapping, optional=True),
        Column("difference", "accuracy − erm", _difference),
        Column("p_value", "p (+gained −lost)", _p_value),
        Column("gap_closed", "share of gap, accuracy", _gap("accuracy", weighted_accuracy)),
        Column("gap_closed_balanced", "share of gap, balanced", _gap("balanced_accuracy", weighted_balanced_accuracy)),
        Column("mstps", "MSTPS, own tokens", _metric("mstps")),
        Column("mstps_change", "− erm", _change("mstps")),
        Column("mstps_base_tokens", "MSTPS, base tokens", _metric("mstps_base_tokens")),
        Column("mstps_base_tokens_change", "− erm", _change("mstps_base_tokens")),
        Column("n_audited", "n audited", _count("n_audited")),
        Column("n_shortcut", "n with shortcut", _recall_size),
        Column("recall", "recall at 10", _recall(10)),
        *(Column(f"recall_{k}", f"recall at {k}", _recall(k)) for k in range(1, 11)),
        *(Column(f"chance_{k}", f"chance at {k}", _recall(k, "chance")) for k in range(1, 11)),
        Column("misclassified", "error rate", _metric("misclassified")),
        Column("misclassified_with", "shortcut important", _metric("misclassified_with_important_shortcut")),
        Column("misclassified_without", "shortcut not important", _misclassified_without),
        Column("strength", "strength by seed", _strength),
        Column("selection", "chosen by", _selection),
        Column("labels", "target labels", _labels),
        Column("group_labels", "group labels", _group_labels),
        Column("needs", "was handed", _needs),
        Column("approach", "approach", lambda context: Entry(text=APPROACHES.get(context.cell.kind, "-"))),
        Column("deployment_time", "at deployment alone", _positioning(_without(SOURCE_NEEDS | {Need.ORACLE_TEXTS}))),
        Column("no_annotation", "no shortcut annotation", _positioning(_without(ANNOTATION_NEEDS))),
        Column(
            "attribution",
            "per-input attribution",
            _positioning(lambda context: context.cell.kind in PER_INPUT_ATTRIBUTION),
        ),
        Column("cost", "F per text", _of_result("cost", "per_deployment_text")),
        Column("cost_per_answer", "F per answer", _of_result("cost", "per_answer")),
        Column("forward_equivalents", "F in all", _of_result("cost", "forward_equivalents", digits=0)),
        Column("n_deployment", "texts", _of_result("cost", "n_deployment", digits=0)),
        Column("fit_seconds", "fit (s)", _of_result("seconds", "fit")),
        *(
            Column(f"{stage}_seconds", f"{stage} (s)", _of_result("seconds", "fit_stages", stage))
            for stage in ("attribute", "adapt", "calibrate")
        ),
    )
}
