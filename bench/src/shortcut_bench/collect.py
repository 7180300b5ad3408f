"""Reads the runs of an experiment back, checks that they belong together, and arranges them for tables and figures."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning

from .experiments import ExperimentConfig
from .methods import METHODS
from .results import IndexEntry, Rows, concatenated, index_path, read_index, read_result, rows_of
from .scoring import merged_metrics
from .systems import Need


@dataclass(frozen=True, eq=False)
class Finished:
    """A finished run.

    Attributes:
        entry: What it is in the experiment.
        result: What it found.
    """

    entry: IndexEntry
    result: Mapping[str, Any]

    @cached_property
    def rows(self) -> Rows:
        """Its scored rows."""
        return rows_of(self.result)

    @property
    def scored(self) -> str:
        """Fingerprint of the set it was scored on. Its training rows may be others: rules of sets have changed."""
        fingerprint: str = self.result["data"]["fingerprints"][self.entry.test]
        return fingerprint

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Its metrics."""
        metrics: Mapping[str, Any] = self.result["metrics"]
        return metrics


@dataclass(frozen=True, eq=False)
class Cell:
    """One system in one setting on one test set, over seeds.

    Attributes:
        setting: Name of the setting.
        family: Its family.
        test: The test set.
        system: Label of the system.
        setting_x: Where the setting stands on an axis.
        system_x: Where the system stands on an axis.
        runs: The finished runs by seed, ascending.
    """

    setting: str
    family: str
    test: str
    system: str
    setting_x: float | None
    system_x: float | None
    runs: Mapping[int, Finished]

    @property
    def kind(self) -> str:
        """The kind of the system."""
        return str(next(iter(self.runs.values())).result["config"]["system"]["kind"])

    def values(self, metric: str) -> list[float]:
        """A metric of each seed; seeds in which it is undefined are left out."""
        found = [run.metrics.get(metric) for run in self.runs.values()]
        return [float(value) for value in found if value is not None]


@dataclass(frozen=True, eq=False)
class Collection:
    """The runs of one experiment at one scale with one encoder.

    Attributes:
        experiment: The experiment.
        cells: In the order of the experiment's settings and systems.
        scale: Name of the scale.
        encoder: Name of the encoder.
    """

    experiment: ExperimentConfig
    cells: tuple[Cell, ...]
    scale: str
    encoder: str

    @property
    def runs(self) -> list[Finished]:
        """All runs."""
        return [run for cell in self.cells for run in cell.runs.values()]

    @property
    def places(self) -> list[tuple[str, str]]:
        """Setting and test set of the cells, each once, in order."""
        return list(dict.fromkeys((cell.setting, cell.test) for cell in self.cells))

    @property
    def systems(self) -> list[str]:
        """Labels of the systems, each once, in the experiment's order; what it does not name comes last."""
        found = dict.fromkeys(cell.system for cell in self.cells)
        named = [spec.label for spec in self.experiment.systems if spec.label in found]
        return list(dict.fromkeys([*named, *found]))

    @property
    def seeds(self) -> list[int]:
        """All seeds, ascending."""
        return sorted({seed for cell in self.cells for seed in cell.runs})

    @property
    def short_of_seeds(self) -> list[Cell]:
        """The cells that lack a seed that others have."""
        return [cell for cell in self.cells if len(cell.runs) < len(self.seeds)]

    def at(self, setting: str, test: str) -> list[Cell]:
        """The cells of one setting and test set."""
        return [cell for cell in self.cells if (cell.setting, cell.test) == (setting, test)]

    def of_kind(self, cell: Cell, kind: str) -> Cell | None:
        """The cell beside this one whose system is of a kind, such as `erm` or `oracle`."""
        return next((other for other in self.at(cell.setting, cell.test) if other.kind == kind), None)


def collect(
    results: Path, experiment: ExperimentConfig, *, scale: str | None = None, encoder: str | None = None
) -> Collection:
    """The runs of an experiment, refused if they do not belong together.

    Args:
        results: Folder of all results.
        experiment: The experiment.
        scale: Only runs of this scale; needed where there are several.
        encoder: Only runs with this encoder, likewise.

    Raises:
        DataError: There are no runs, or some are damaged.
        ConfigError: Runs of several configurations would be mixed; the sentence says in what they differ.
    """
    entries = read_index(results, experiment.name)
    if not entries:
        raise DataError(
            f"There is no '{index_path(results, experiment.name)}'. Make it with: shortcut-guardrail benchmark run "
            f"{experiment.name} --out {results}"
        )
    entries = _only(entries, "scale", scale, experiment.name)
    entries = _only(entries, "encoder", encoder, experiment.name)
    runs = [Finished(entry, read_result(results, entry.run)) for entry in entries]
    _check_cells(runs)
    _check_common(runs)
    for together in _by(runs, lambda run: (run.entry.setting, run.entry.test)).values():
        _check_setting(together)
    for together in _by(runs, lambda run: (*run.entry.cell[2:], run.entry.setting)).values():
        _check_rows(together)
    runs = merge_folds(runs)
    if not runs:
        raise DataError(f"No run of '{experiment.name}' has all of its folds yet. Run the experiment again.")
    collection = Collection(experiment, _cells(runs, experiment), entries[0].scale, entries[0].encoder)
    _warn_about_seeds(collection)
    return collection


def _only(entries: Sequence[IndexEntry], what: str, wanted: str | None, name: str) -> list[IndexEntry]:
    found = list(dict.fromkeys(getattr(entry, what) for entry in entries))
    if wanted is not None and wanted not in found:
        raise ConfigError(f"There are no runs of '{name}' with {what} '{wanted}' (there are: {', '.join(found)}).")
    if wanted is None and len(found) > 1:
        raise ConfigError(
            f"The runs of '{name}' are of several kinds, {what} {' and '.join(found)}, which do not belong in one "
            f"table. Choose one with --{what}."
        )
    return [entry for entry in entries if wanted is None or getattr(entry, what) == wanted]


def _check_cells(runs: Sequence[Finished]) -> None:
    for together in _by(runs, lambda run: run.entry.cell).values():
        if len(together) > 1:
            first, second = together[0], together[-1]
            where = f"{first.entry.setting}, {first.entry.system}, {first.entry.test}, seed {first.entry.seed}"
            raise ConfigError(
                f"There are {len(together)} runs of '{where}' with different configurations: "
                f"{_difference(first, second, ())}. Run the experiment again with --overwrite, which keeps the last, "
                "or keep the two in different folders with --out."
            )


def _check_common(runs: Sequence[Finished]) -> None:
    """What must be the same in all settings; sizes may differ between settings."""
    names = ("encoder", "precision")
    for run in runs[1:]:
        _refuse_difference(
            runs[0], run, tuple(key for key in {**runs[0].result["config"], **run.result["config"]} if key not in names)
        )


def _check_setting(runs: Sequence[Finished]) -> None:
    for run in runs[1:]:
        _refuse_difference(runs[0], run, ("seed", "system", "data.options.fold"))


def _refuse_difference(first: Finished, second: Finished, ignored: Iterable[str]) -> None:
    if difference := _difference(first, second, ignored):
        raise ConfigError(
            f"The runs {_named(first)} and {_named(second)} do not belong in one table: {difference}. Run the "
            "experiment again with --overwrite and one configuration, or keep the two in different folders with --out."
        )


def _check_rows(runs: Sequence[Finished]) -> None:
    for run in runs[1:]:
        same = (
            run.scored == runs[0].scored
            and run.rows.index.tolist() == runs[0].rows.index.tolist()
            and run.rows.labels.tolist() == runs[0].rows.labels.tolist()
        )
        if not same:
            raise ConfigError(
                f"The runs {_named(runs[0])} and {_named(run)} were scored on different rows: the data have changed "
                "between them. Run the experiment again with --overwrite."
            )
    _check_base([run for run in runs if not _is_trained_apart(run)])


def _is_trained_apart(run: Finished) -> bool:
    """Whether a system was handed no base classifier, so that its answers are those beside any.

    A result does not say whether its system declared `BASE`, which no method does: it is for references.
    """
    needs, kind = set(run.result["system"]["needs"]), run.result["config"]["system"]["kind"]
    return Need.GRADIENTS not in needs and bool(needs & {Need.TRAIN, Need.CLEAN_TRAIN} or kind in METHODS)


def _check_base(runs: Sequence[Finished]) -> None:
    """What starts from the base classifier of a setting and seed starts from one; training it again need not give the
    same digits."""
    for run in runs[1:]:
        if run.result["base"]["train_loss"] != runs[0].result["base"]["train_loss"]:
            raise ConfigError(
                f"The runs {_named(runs[0])} and {_named(run)} start from base classifiers that differ: one was "
                "trained again, on another machine or with other versions, so their answers cannot be compared row by "
                "row. Run both again with --overwrite, without deleting the cache in between."
            )


def _named(run: Finished) -> str:
    return f"'{run.entry.setting}, {run.entry.system}, {run.entry.test}, seed {run.entry.seed}'"


def _difference(first: Finished, second: Finished, ignored: Iterable[str]) -> str:
    left, right = (_flat(run.result["config"]) for run in (first, second))
    out = tuple(ignored)
    differing = [
        key
        for key in dict.fromkeys([*left, *right])
        if left.get(key) != right.get(key) and not any(key == name or key.startswith(f"{name}.") for name in out)
    ]
    return "; ".join(f"{key} is {left.get(key)!r} in one and {right.get(key)!r} in the other" for key in differing[:3])


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def merge_folds(runs: Sequence[Finished]) -> list[Finished]:
    """The folds of a setting as one run each seed, scored on the rows of all of them; other runs as they are.

    A seed that does not have all folds is left out, with a warning.
    """
    merged = []
    for together in _by(runs, lambda run: run.entry.cell[:-1]).values():
        folds = together[0].entry.folds
        if folds == 1:
            merged += together
        elif len(together) == folds:
            merged.append(_merged(sorted(together, key=lambda run: run.entry.fold)))
        else:
            warnings.warn(
                f"{_named(together[0])} has {len(together)} of {folds} folds and is left out until it has all.",
                GuardrailWarning,
                stacklevel=3,
            )
    return merged


def _merged(folds: Sequence[Finished]) -> Finished:
    first = folds[0]
    rows = concatenated([run.rows for run in folds])
    metrics, groups = merged_metrics(rows, [run.result for run in folds])
    results = [run.result for run in folds]
    strengths = [info["debias_strength"] for r in results if "debias_strength" in (info := r["system"]["info"])]
    selections = [found for r in results if (found := r["system"]["info"].get("selection"))]
    info = {
        "labels_spent": sum(r["system"]["info"].get("labels_spent", 0) for r in results),
        **({"selection": selections[0]} if selections else {}),  # one configuration has one rule
        **({"debias_strength": float(np.mean(strengths))} if strengths else {}),
    }
    counts = {
        name: {"all": round(float(np.mean([sum(r["data"]["counts"][name].values()) for r in results])))}
        for name in ("train", "dev")
    }
    cost = {name: float(np.mean([r["cost"][name] for r in results])) for name in results[0]["cost"]}
    seconds = {name: float(np.mean([r["seconds"][name] for r in results])) for name in ("fit", "predict")}
    merged = {
        **first.result,
        "metrics": metrics,
        "groups": groups,
        "system": {**first.result["system"], "info": info},
        "data": {**first.result["data"], "counts": counts},
        "cost": cost,
        "seconds": seconds,
        "machines": [r["hardware"] for r in results],
        "rows": rows.to_dict(),
    }
    return Finished(first.entry, merged)


def _cells(runs: Sequence[Finished], experiment: ExperimentConfig) -> tuple[Cell, ...]:
    settings = {setting.name: at for at, setting in enumerate(experiment.settings)}
    systems = {spec.label: at for at, spec in enumerate(experiment.systems)}
    cells = []
    for (setting, test, system), together in _by(
        runs, lambda run: (run.entry.setting, run.entry.test, run.entry.system)
    ).items():
        entry = together[0].entry
        by_seed = {run.entry.seed: run for run in sorted(together, key=lambda run: run.entry.seed)}
        cells.append(Cell(setting, entry.family, test, system, entry.setting_x, entry.system_x, by_seed))
    # What was added with --systems comes after what the experiment names.
    return tuple(
        sorted(
            cells,
            key=lambda cell: (
                settings.get(cell.setting, len(settings)),
                cell.test,
                systems.get(cell.system, len(systems)),
            ),
        )
    )


def _warn_about_seeds(collection: Collection) -> None:
    seeds, short = collection.seeds, collection.short_of_seeds
    if short:
        some = ", ".join(f"'{cell.setting}, {cell.system}'" for cell in short[:3]) + (", ..." if len(short) > 3 else "")
        warnings.warn(
            f"{len(short)} of {len(collection.cells)} cells do not have all seeds {seeds}: {some}. Their means "
            "are over the seeds they have; comparisons use the seeds that both sides have.",
            GuardrailWarning,
            stacklevel=3,
        )


def _by(runs: Iterable[Finished], key: Any) -> dict[Any, list[Finished]]:
    groups: dict[Any, list[Finished]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups
