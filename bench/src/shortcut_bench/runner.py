"""Runs an experiment: builds its data, fine-tunes its base classifiers, fits and scores its systems, writes results.

A run is one system on one test set of one setting with one seed. Its result is written as it is finished and never
computed twice: a run that was killed costs nothing that was done before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from shortcut_guardrail.errors import ConfigError, DataError, GuardrailError
from shortcut_guardrail.evaluation import ShortcutIn
from shortcut_guardrail.models import Precision, TextClassifier, check_alone
from shortcut_guardrail.typing import Progress

from .bases import (
    OWN_FILES,
    choose_recipe,
    data_options,
    deployment_rows,
    held_out_order,
    recipe,
    setting_data,
    whole_material,
)
from .classifiers import UNFINISHED_FOLDER, ClassifierStore, Encoder, TrainedClassifier, find_encoder
from .datasets import BenchmarkData, LabelledTexts
from .experiments import ExperimentConfig, Scale, Setting, SystemSpec, system_options
from .finetuning import discard
from .registry import make_system
from .results import (
    CACHE_FOLDER,
    IndexEntry,
    add_to_index,
    commit,
    hardware,
    has_result,
    numbers_of,
    prepare_cache,
    run_hash,
    versions,
    write_result,
)
from .scoring import BaseReading, Scores, read_base, score
from .systems import FittedSystem, Material, ModelSystem, Need, System

Array = np.ndarray[Any, np.dtype[Any]]
Report = Callable[[str], None]

PER_TEST = frozenset({Need.SUPPORT, Need.DEPLOYMENT})
"""A system that needs one of these is fitted anew for every test set."""

_KEPT_DATA = 16


@dataclass(frozen=True)
class Run:
    """One run, with everything that decides its outcome.

    Attributes:
        setting: The setting.
        spec: The system as the experiment names it.
        system: The system.
        test: The test set.
        seed: The seed of data, base classifier, support set and system.
        scale: The scale in this setting.
        encoder: The pretrained encoder.
        fold: The fold, from 0, where the scale has several.
    """

    setting: Setting
    spec: SystemSpec
    system: System
    test: str
    seed: int
    scale: Scale
    encoder: Encoder
    fold: int = 0

    def config(self) -> dict[str, Any]:
        """Everything that decides the outcome, JSON-ready; names in tables are no part of it."""
        scale = self.scale
        return {
            "data": {
                "name": self.setting.data,
                "options": data_options(self.setting, scale, self.fold),
                **{name: getattr(scale, name) for name in ("n_train", "n_test", "n_dev", "max_tokens")},
            },
            "test": self.test,
            "seed": self.seed,
            "encoder": self.encoder.identity(),
            "base": {
                "recipe": {k: v for k, v in recipe(scale).to_dict().items() if k != "learning_rate"},
                "learning_rates": list(scale.learning_rates),
                "select": scale.select,
            },
            "system": {"kind": self.spec.kind, **self.system.config()},
            "material": {name: getattr(scale, name) for name in ("n_support", "n_held_out", "n_deployment")},
            "scoring": {name: getattr(scale, name) for name in ("n_audit", "top_k", "scoring_precision")},
            "precision": scale.precision,
        }

    @property
    def hash(self) -> str:
        """Stands for `config`."""
        return run_hash(self.config())

    def entry(self) -> IndexEntry:
        """What the run is in its experiment."""
        return IndexEntry(
            run=self.hash,
            setting=self.setting.name,
            family=self.setting.family or self.setting.data,
            setting_x=self.setting.x,
            system=self.spec.label,
            system_x=self.spec.x,
            test=self.test,
            seed=self.seed,
            scale=self.scale.name,
            encoder=self.encoder.name,
            fold=self.fold,
            folds=self.scale.folds,
        )

    def __str__(self) -> str:
        fold = f", fold {self.fold}" if self.scale.folds > 1 else ""
        return f"{self.setting.name}, {self.spec.label}, {self.test}, seed {self.seed}{fold}"


@dataclass
class Outcome:
    """What `run_experiment` did.

    Attributes:
        finished: Hashes of the runs that were computed.
        skipped: Hashes of the runs that were there already.
        left_out: Runs that a setting cannot have, each with the reason.
        failed: Runs that failed, each with the reason.
    """

    finished: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def plan_runs(
    experiment: ExperimentConfig,
    *,
    scale: str,
    encoder: Encoder,
    seeds: Sequence[int],
    systems: Sequence[str] = (),
    settings: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> list[Run]:
    """Every run of an experiment, in the order in which they share most work.

    Raises:
        ConfigError: A system, a setting or the scale is unknown, or an option is out of range.
    """
    runs = []
    for setting, spec in experiment.plan(systems=systems, settings=settings):
        sized = experiment.scale(scale, setting).with_changes(changes or {})
        system = make_system(spec.kind, **system_options(sized, setting, spec))
        runs += [
            Run(setting, spec, system, test, seed, sized, encoder, fold)
            for seed in seeds
            for fold in range(sized.folds)
            for test in experiment.tests
        ]
    order = {setting.name: at for at, setting in enumerate(experiment.settings)}
    # Stable, so that systems stay in their order.
    return sorted(runs, key=lambda run: (order[run.setting.name], run.seed, run.fold))


def run_experiment(
    experiment: ExperimentConfig,
    *,
    data_dir: Path | None,
    out: Path,
    scale: str = "small",
    seeds: Sequence[int] | None = None,
    encoder: str | None = None,
    systems: Sequence[str] = (),
    settings: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    overwrite: bool = False,
    command: str = "",
    progress: Progress | None = None,
    report: Report | None = None,
) -> Outcome:
    """Computes what is not there yet and lists all runs of the experiment.

    Args:
        experiment: The experiment.
        data_dir: Folder with the data sets; `None` reads them from the Hub.
        out: Folder of all results.
        scale: `tiny`, `small` or `paper`.
        seeds: `None` takes the scale's.
        encoder: Folder or Hub id; `None` takes the scale's.
        systems: Labels of systems to restrict it to, kinds that are no labels, or further kinds to add.
        settings: Names of settings to restrict it to.
        changes: Fields of the scale to replace in all settings.
        cache: Where classifiers and adapters are kept; `None` takes a hidden folder in `out`.
        overwrite: Compute finished runs again.
        command: The command line, recorded in every result.
        progress: Told how much of each stage is done.
        report: Told a sentence a run.

    Returns:
        What was done. A run that failed does not keep the others from being made.

    Raises:
        ConfigError: Something is unknown or out of range, or this is one of several processes that work together.
        DataError: Data are missing or not as they have to be.
        ModelError: The encoder cannot be used.
        RunError: A result cannot be written.
    """
    check_alone("A benchmark")
    sized = experiment.scale(scale).with_changes(changes or {})
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"--data-dir must be a folder with the data sets, but '{data_dir}' is none.")
    found = find_encoder(encoder or sized.encoder)
    seeds = tuple(sized.seeds if seeds is None else seeds)
    runs = plan_runs(
        experiment, scale=scale, encoder=found, seeds=seeds, systems=systems, settings=settings, changes=changes
    )
    if not runs:
        raise ConfigError(f"Nothing is left of the experiment '{experiment.name}' with these restrictions.")
    folders = _Folders(data_dir, out, prepare_cache(cache or out / CACHE_FOLDER))
    return _Bench(experiment, found, folders, overwrite, command, progress=progress, report=report).make(runs)


@dataclass(frozen=True)
class _Folders:
    """Where data are read from, where results go, and where classifiers are kept."""

    data_dir: Path | None
    out: Path
    cache: Path


class _Bench:
    """The state of one `run_experiment`: what is in memory, and what was done."""

    def __init__(
        self,
        experiment: ExperimentConfig,
        encoder: Encoder,
        folders: _Folders,
        overwrite: bool,
        command: str,
        *,
        progress: Progress | None,
        report: Report | None,
    ) -> None:
        self.experiment = experiment
        self.data_dir, self.out, self.cache = folders.data_dir, folders.out, folders.cache
        self.overwrite, self.command, self.progress = overwrite, command, progress
        self.report = report or (lambda sentence: None)
        self.store = ClassifierStore(encoder, folders.cache, progress=progress)
        self.encoder = encoder
        self.outcome = Outcome()
        self._where = {"versions": versions(), "commit": commit(), "hardware": hardware()}
        self._done = 0
        self._total = 0
        self._tokenizer: Any = None
        self._data: dict[tuple[str, int, int], BenchmarkData] = {}

    def make(self, runs: Sequence[Run]) -> Outcome:
        """Makes runs, setting by setting and seed by seed."""
        self._total = len(runs)
        self._check_data(runs)
        for together in _grouped(runs, lambda run: (run.setting.name, run.seed, run.fold)):
            missing = [run for run in together if self.overwrite or not self._is_stored(run)]
            self._skip([run for run in together if run not in missing])
            if missing:
                self._make_together(missing)
        return self.outcome

    def _is_stored(self, run: Run) -> bool:
        return has_result(self.out, run.hash)

    def _skip(self, runs: Sequence[Run]) -> None:
        """Lists runs whose result is there."""
        self._list([run.entry() for run in runs])
        self.outcome.skipped += [run.hash for run in runs]
        for run in runs:
            # A run may have been killed between its result and this.
            discard(self._unfinished(run))
            self._say(run, "finished before")

    def _check_data(self, runs: Sequence[Run]) -> None:
        """Builds the data of every setting once, so that what is wrong with them shows before anything is trained."""
        for together in _grouped(runs, lambda run: run.setting.name):
            missing = [run for run in together if self.overwrite or not self._is_stored(run)]
            if missing:
                self.data(missing[0], missing[0].seed)

    def data(self, run: Run, seed: int) -> BenchmarkData:
        """The data of a run's setting and fold with a seed; the last few are kept."""
        key = (run.setting.name, run.fold, seed)
        if key not in self._data:
            self._data[key] = setting_data(
                run.setting, run.scale, seed, data_dir=self.data_dir, tokenizer=self.tokenizer(), fold=run.fold
            )
            while len(self._data) > _KEPT_DATA:
                del self._data[next(iter(self._data))]
        return self._data[key]

    def _make_together(self, runs: Sequence[Run]) -> None:
        """Makes the runs of one setting and seed, which share data and base classifier."""
        place = _Place(self, runs[0])
        possible = []
        for run in runs:
            if reason := place.lacks(run):
                self.outcome.left_out.append(f"{run}: {reason}")
                self._say(run, f"left out, {reason}")
            else:
                possible.append(run)
        for of_system in _grouped(possible, lambda run: run.spec.label):
            per_test = of_system[0].system.needs & PER_TEST
            for fit in [[run] for run in of_system] if per_test else [of_system]:
                # Two systems of an experiment may be the same under two names.
                if all(run.hash in self.outcome.finished for run in fit):
                    self._skip(fit)
                else:
                    self._fit_and_score(place, fit)

    def _fit_and_score(self, place: _Place, runs: Sequence[Run]) -> None:
        """Fits one system, scores it on each of the tests asked for, and writes the results.

        A costly system that does not depend on the test set is scored on all tests of the setting, since another
        experiment will ask for them.
        """
        first = runs[0]
        unfinished = self._unfinished(first)
        if self.overwrite:
            discard(unfinished)
        material = replace(place.material(first), checkpoints=unfinished)
        try:
            started = time.perf_counter()
            fitted = first.system.fit(material, seed=first.seed, progress=self.progress)
            seconds = time.perf_counter() - started
            scored = [(run, place.score(run, fitted)) for run in [*runs, *self._others(place, runs, fitted)]]
        except (GuardrailError, RuntimeError, MemoryError) as error:  # out of memory on a GPU is a RuntimeError
            # Another system may do better; what concerns the data or the base classifier was raised before.
            for run in runs:
                self.outcome.failed.append(f"{run}: {error}")
                self._say(run, f"failed: {error}")
            return
        for run, scores in scored:
            record = self._record(place, run, fitted, scores, seconds)
            write_result(self.out, run.hash, record)
            if run in runs:
                self._list([run.entry()])
                self.outcome.finished.append(run.hash)
                self._say(run, _summary(record))
        discard(unfinished)

    def _unfinished(self, run: Run) -> Path:
        """Where trainings of a fit keep their checkpoints: one folder for all tests that share the fit."""
        fit = run if run.system.needs & PER_TEST else replace(run, test="any")
        return self.cache / UNFINISHED_FOLDER / fit.hash

    def _others(self, place: _Place, runs: Sequence[Run], fitted: FittedSystem) -> list[Run]:
        first = runs[0]
        if not fitted.forward_equivalents or first.system.needs & PER_TEST:
            return []
        asked = {run.test for run in runs}
        others = [replace(first, test=test) for test in place.data.tests if test not in asked]
        return [run for run in others if not place.lacks(run) and not self._is_stored(run)]

    def _record(self, place: _Place, run: Run, fitted: FittedSystem, scores: Scores, seconds: float) -> dict[str, Any]:
        data = place.data.to_dict()
        info = fitted.info()
        stages = info.get("seconds", {})
        per_text = info.get("forward_equivalents_per_text", 1.0)
        n_deployment = len(place.deployment(run))
        return {
            "config": run.config(),
            "scale": run.scale.name,
            "system": {
                "name": run.system.name,
                # `BASE` is no material: it says that a reference is the base classifier.
                "needs": sorted(need.value for need in run.system.needs - {Need.BASE}),
                "info": info,
            },
            "metrics": scores.metrics,
            "groups": scores.groups,
            "cost": {
                "forward_equivalents": fitted.forward_equivalents,
                "per_deployment_text": fitted.forward_equivalents / n_deployment,
                "per_answer": per_text,
                "n_deployment": n_deployment,
            },
            # What was taken from the cache took its time before; the stages remember it.
            "seconds": {"fit": sum(stages.values()) if stages else seconds, **scores.seconds, "fit_stages": stages},
            "base": place.base.to_dict(),
            "data": {**data, "label_names": list(place.data.label_names), "fingerprint": place.data.fingerprint()},
            "command": self.command,
            **self._where,
            "rows": scores.rows.to_dict(),
        }

    def _list(self, entries: Sequence[IndexEntry]) -> None:
        add_to_index(self.out, self.experiment.name, entries, command=self.command, replace=self.overwrite)

    def _say(self, run: Run, what: str) -> None:
        self._done += 1
        self.report(f"[{self._done}/{self._total}] {run}: {what}")

    def tokenizer(self) -> Any:
        """The encoder's tokenizer, loaded once."""
        if self._tokenizer is None:
            self._tokenizer = self.encoder.tokenizer()
        return self._tokenizer


class _Place:
    """One setting with one seed: its data, its base classifier and what all systems share of them."""

    def __init__(self, bench: _Bench, run: Run) -> None:
        self._bench, self._run = bench, run
        self.data = bench.data(run, run.seed)
        self._base: TrainedClassifier | None = None
        self._scorer: TextClassifier | None = None
        self._readings: dict[tuple[str, bool], BaseReading] = {}
        self._scores: dict[tuple[str, bool, str | None, int, int], Scores] = {}

    @property
    def base(self) -> TrainedClassifier:
        """The ERM classifier of this setting and seed."""
        if self._base is None:
            store, seed = self._bench.store, self._run.seed
            chosen, trials = choose_recipe(
                store, lambda other: self._bench.data(self._run, other), self._run.scale, seed
            )
            self._base = replace(store.train(self.data.train, chosen, seed), selection=trials)
        return self._base

    def lacks(self, run: Run) -> str:
        """Why this setting cannot have this run; empty if it can."""
        if run.test not in self.data.tests:
            return f"the data have no test set '{run.test}'"
        if Need.ORACLE_TEXTS in run.system.needs and run.test not in self.data.oracle_tests:
            return "no shortcut is inserted that could be removed"
        if Need.CLEAN_TRAIN in run.system.needs and self.data.clean_train is None:
            return "no shortcut is inserted, so there is no training set without it"
        if Need.SHORTCUT_WORDS in run.system.needs and not self.data.shortcuts:
            return "no word is annotated as a shortcut"
        size = len(self.data.tests[run.test])
        if size <= run.scale.n_held_out + 1:
            return f"the test set has {size} rows, of which {run.scale.n_held_out} are held out"
        return ""

    def order(self, run: Run) -> Array:
        """The rows of a test set in the order that decides which are held out."""
        return held_out_order(self.data.tests[run.test], run.seed, run.scale.n_support)

    def deployment(self, run: Run) -> Array:
        """Which rows' texts are deployment texts."""
        return deployment_rows(self.data.tests[run.test], run.scale, run.seed)

    def material(self, run: Run) -> Material:
        """What the system of a run is handed."""
        whole = whole_material(
            self.data,
            run.test,
            run.scale,
            run.seed,
            base=self.base,
            encoder=self._bench.encoder.source,
            retrain=self._retrain,
            cache=self._bench.cache,
        )
        return whole.for_needs(run.system.needs)

    def _retrain(self, rows: LabelledTexts) -> TrainedClassifier:
        return self._bench.store.train(rows, self.base.recipe, self.base.seed)

    def score(self, run: Run, fitted: FittedSystem) -> Scores:
        """Scores a system on the rows that are not held out; a model that was scored on them before is not asked again.

        A guard at strength 0 is the base classifier, and two support sets often choose the same strength.
        """
        oracle = Need.ORACLE_TEXTS in run.system.needs
        key = (run.test, oracle, _model_of(fitted, self.base), run.scale.top_k, run.scale.n_audit)
        if key[2] is None or key not in self._scores:
            self._scores[key] = self._score(run, fitted, oracle)
        return self._scores[key]

    def _score(self, run: Run, fitted: FittedSystem, oracle: bool) -> Scores:
        tests = self.data.oracle_tests if oracle else self.data.tests
        index = np.sort(self.order(run)[run.scale.n_held_out :])
        index = np.random.default_rng([run.seed, len(index)]).permutation(index)  # the audited ones come first
        rows = tests[run.test].select(index)
        if oracle:
            # The rows are grouped by what was there before it was removed, as for every other system.
            rows = replace(rows, groups=self.data.tests[run.test].groups[index])
        key = (run.test, oracle)
        if key not in self._readings:
            self._readings[key] = read_base(
                self._scoring_base(run),
                rows,
                () if oracle else self.data.shortcuts,
                top_k=run.scale.top_k,
                shortcut_in=_side(run, self.data),
                progress=self._bench.progress,
            )
        return score(
            fitted,
            rows,
            index,
            self._readings[key],
            # Without what was inserted, which differs between seeds: it is the same text all the same.
            texts=numbers_of(self.data.oracle_tests.get(run.test, self.data.tests[run.test]).select(index).texts),
            top_k=run.scale.top_k,
            n_audit=run.scale.n_audit,
            progress=self._bench.progress,
        )

    def _scoring_base(self, run: Run) -> TextClassifier:
        if self._scorer is None:
            self._scorer = self.base.text_classifier(precision=cast(Precision, run.scale.scoring_precision))
        return self._scorer


def _model_of(fitted: FittedSystem, base: TrainedClassifier) -> str | None:
    """What tells apart systems that are one classifier and read texts as the base does; `None` for all others."""
    # Of a subclass it is not known whether its answers are those of its classifier alone.
    if type(fitted) is not ModelSystem or fitted.classifier.tokenizer is not base.tokenizer:
        return None
    return fitted.classifier.fingerprint()


def _side(run: Run, data: BenchmarkData) -> ShortcutIn:
    """Which side of a pair the shortcut is in: the second, as in MultiNLI's hypotheses; either in a user's own data."""
    if isinstance(data.train.texts[0], str):
        return "text"
    return "both" if run.setting.data == OWN_FILES else "pair"


def _grouped(runs: Sequence[Run], key: Callable[[Run], Any]) -> Iterator[list[Run]]:
    """Runs with the same key together, in the order of their first."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    yield from groups.values()


def _summary(record: Mapping[str, Any]) -> str:
    metrics = record["metrics"]
    worst, mstps = metrics["worst_group_accuracy"], metrics["mstps"]
    seconds = sum(value for value in record["seconds"].values() if isinstance(value, float))
    parts = [
        f"accuracy {metrics['accuracy']:.3f}",
        f"balanced {metrics['balanced_accuracy']:.3f}",
        "" if worst is None else f"worst group {worst:.3f} (n = {metrics['worst_group_n']})",
        "" if mstps is None else f"MSTPS {mstps:.3f}",
        f"{seconds:.0f} s",
    ]
    return ", ".join(part for part in parts if part)
