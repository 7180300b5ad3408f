"""One setting of an experiment with one seed: its data, its base classifier, and what a system is handed of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.models import Precision
from shortcut_guardrail.typing import Progress

from .classifiers import ClassifierStore, TrainedClassifier, find_encoder
from .datasets import BenchmarkData, LabelledTexts, build, from_file
from .experiments import Scale, Setting, read_experiment
from .finetuning import FinetuneConfig
from .results import prepare_cache
from .systems import Array, Material

SELECTION_SEED = 0
OWN_FILES = "own-files"
"""The name in an experiment's file of data that are read with `datasets.from_file`."""


@dataclass(frozen=True)
class OpenedSetting:
    """What a run of the benchmark starts from, to measure something else on the same data and classifier.

    Attributes:
        setting: The setting.
        scale: The scale in this setting, with any changes.
        seed: The seed of data and classifier.
        data: The data.
        store: Where classifiers are kept; those of the benchmark's runs if the cache is theirs.
        recipe: How its classifiers are fine-tuned, with the learning rate that was chosen.
        selection: What every learning rate brought; empty where the scale names one.
    """

    setting: Setting
    scale: Scale
    seed: int
    data: BenchmarkData
    store: ClassifierStore
    recipe: FinetuneConfig
    selection: tuple[dict[str, float], ...]

    def train(self, rows: LabelledTexts | None = None) -> TrainedClassifier:
        """The base classifier, or one that was trained alike on other rows; from the store if it is there."""
        trained = self.store.train(self.data.train if rows is None else rows, self.recipe, self.seed)
        return replace(trained, selection=self.selection)

    def material(self, test: str) -> Material:
        """All that there is for systems on one of `data.tests`; `for_needs` cuts it down to what one declared.

        Raises:
            ConfigError: There is no such test set.
        """
        self._rows(test)
        return whole_material(
            self.data,
            test,
            self.scale,
            self.seed,
            base=self.train(),
            encoder=self.store.encoder.source,
            retrain=self.train,
            cache=self.store.folder,
        )

    def scored(self, test: str) -> LabelledTexts:
        """The rows of one of `data.tests` that systems are scored on: without the support set and what else is held
        out, in the order of the data. `oracle` is scored on the same rows of `data.oracle_tests`.

        Raises:
            ConfigError: There is no such test set.
        """
        rows = self._rows(test)
        return rows.select(np.sort(held_out_order(rows, self.seed, self.scale.n_support)[self.scale.n_held_out :]))

    def _rows(self, test: str) -> LabelledTexts:
        if test not in self.data.tests:
            raise ConfigError(
                f"The setting '{self.setting.name}' has no test set '{test}' (it has: {', '.join(self.data.tests)})."
            )
        return self.data.tests[test]


def open_setting(
    experiment: str,
    setting: str,
    seed: int,
    *,
    data_dir: Path | None,
    cache: Path,
    fold: int = 0,
    scale: str = "small",
    encoder: str | None = None,
    changes: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> OpenedSetting:
    """Data and base classifier of a setting, as `run_experiment` has them.

    Args:
        experiment: A name from `benchmark list`, or the path of a file that ends in `.toml`.
        setting: Name of one of its settings, or of the data set of one if no other setting has it.
        seed: The seed of data and classifier.
        data_dir: Folder with the data sets; `None` reads them from the Hub.
        cache: Folder for classifiers; `results/.cache` is that of runs written to `results`.
        fold: Which of the folds, from 0, where the scale has several.
        scale: `tiny`, `small` or `paper`.
        encoder: Folder or Hub id; `None` takes that of the experiment's scale.
        changes: Fields of the scale to replace.
        options: Options of the data set to replace.
        progress: Told how much of each stage is done.

    Raises:
        ConfigError: The experiment, the setting or the scale is unknown, or an option is out of range.
        DataError: Data are missing or not as they have to be.
        ModelError: The encoder cannot be used.
    """
    config = read_experiment(experiment)
    found = config.setting(setting)
    found = replace(found, options={**found.options, **(options or {})})
    sized = config.scale(scale, found).with_changes(changes or {})
    if not 0 <= fold < sized.folds:
        raise ConfigError(f"fold must lie between 0 and {sized.folds - 1}, but is {fold}.")
    pretrained = find_encoder(encoder or config.scale(scale).with_changes(changes or {}).encoder)
    tokenizer = pretrained.tokenizer()
    store = ClassifierStore(pretrained, prepare_cache(cache), progress=progress)

    def data(of_seed: int) -> BenchmarkData:
        return setting_data(found, sized, of_seed, data_dir=data_dir, tokenizer=tokenizer, fold=fold)

    of_this = data(seed)
    chosen, trials = choose_recipe(store, lambda other: of_this if other == seed else data(other), sized, seed)
    return OpenedSetting(found, sized, seed, of_this, store, chosen, trials)


def recipe(scale: Scale) -> FinetuneConfig:
    """How base classifiers of a scale are fine-tuned, with the first of the learning rates."""
    return FinetuneConfig(
        learning_rate=scale.learning_rates[0],
        epochs=scale.epochs,
        batch_size=scale.batch_size,
        max_length=scale.max_tokens,
        precision=cast(Precision, scale.precision),
    )


def choose_recipe(
    store: ClassifierStore, data: Callable[[int], BenchmarkData], scale: Scale, seed: int
) -> tuple[FinetuneConfig, tuple[dict[str, float], ...]]:
    """The recipe with the learning rate that is best on the dev set, of this seed or of seed 0, as the scale says.

    Args:
        store: What trains the classifiers that are compared.
        data: The data of a seed.
        scale: Says the rates, how many dev rows, and which seed chooses.
        seed: The seed of the classifier that the recipe is for.

    Returns:
        The recipe and what every rate brought, as `ClassifierStore.choose_recipe` has them.
    """
    chooser = seed if scale.select == "each" else SELECTION_SEED
    rows = data(chooser)
    return store.choose_recipe(rows.train, first(rows.dev, scale.n_dev), recipe(scale), scale.learning_rates, chooser)


def data_options(setting: Setting, scale: Scale, fold: int = 0) -> dict[str, Any]:
    """What the data set's builder is given beside the sizes."""
    folds = {"fold": fold, "n_folds": scale.folds} if scale.folds > 1 else {}
    return {**setting.options, **folds}


def setting_data(
    setting: Setting, scale: Scale, seed: int, *, data_dir: Path | None, tokenizer: Any, fold: int = 0
) -> BenchmarkData:
    """The data set of a setting, of the package or of the user's own files.

    Raises:
        ConfigError: An option is unknown or absent.
        DataError: Data are missing or not as they have to be.
    """
    sizes: dict[str, Any] = {name: getattr(scale, name) for name in ("n_train", "n_test", "max_tokens")}
    options = data_options(setting, scale, fold)
    if setting.data != OWN_FILES:
        return build(setting.data, data_dir=data_dir, seed=seed, tokenizer=tokenizer, **sizes, **options)
    parameters = inspect.signature(from_file).parameters.values()
    # Those that are not named in it are of the scale.
    known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    if unknown := sorted(set(options) - set(known)):
        raise ConfigError(f"The setting '{setting.name}' has no option {unknown[0]} (it has: {', '.join(known)}).")
    if absent := sorted({"train", "words"} - set(options)):
        raise ConfigError(f"The setting '{setting.name}' with data '{OWN_FILES}' needs {' and '.join(absent)}.")
    for name in {"train", "test"} & set(options):
        options[name] = options[name] if data_dir is None else data_dir / options[name]
    return from_file(**options, seed=seed, tokenizer=tokenizer, **sizes)


def first(rows: LabelledTexts, n: int | None) -> LabelledTexts:
    """The first rows, or all."""
    return rows if n is None or n >= len(rows) else rows.select(np.arange(n))


def held_out_order(rows: LabelledTexts, seed: int, n_support: int) -> Array:
    """The rows of a test set in the order that decides which are held out, shape (N,); the same for all systems."""
    order = np.random.default_rng([seed, len(rows)]).permutation(len(rows))
    # A support set of one class cannot tell strengths apart: one of its rows makes way for one of another class.
    labels = rows.labels[order]
    if len(set(labels[:n_support].tolist())) == 1 and (other := np.flatnonzero(labels != labels[0])).size:
        order[[1, other[0]]] = order[[other[0], 1]]
    return cast(Array, order)


def deployment_rows(rows: LabelledTexts, scale: Scale, seed: int) -> Array:
    """Which rows' texts are deployment texts: all, support set included, or the first so many of `held_out_order`."""
    return cast(Array, np.sort(held_out_order(rows, seed, scale.n_support)[: scale.n_deployment]))


def whole_material(
    data: BenchmarkData,
    test: str,
    scale: Scale,
    seed: int,
    *,
    base: TrainedClassifier,
    encoder: str,
    retrain: Callable[[LabelledTexts], TrainedClassifier],
    cache: Path,
) -> Material:
    """Everything that there is for systems on a test set, before it is cut down to what one of them declared.

    Args:
        data: The data of the setting, seed and fold.
        test: The name of a test set.
        scale: Says sizes and number formats.
        seed: Decides which rows are the support set and the deployment texts.
        base: The base classifier.
        encoder: Folder or Hub id of the pretrained encoder.
        retrain: See `Material`.
        cache: See `Material`.
    """
    rows = data.tests[test]
    return Material(
        base=base,
        encoder=encoder,
        label_names=data.label_names,
        train=data.train,
        dev=first(data.dev, scale.n_dev),
        support=rows.select(held_out_order(rows, seed, scale.n_support)[: scale.n_support]),
        deployment=rows.select(deployment_rows(rows, scale, seed)).texts,
        clean_train=data.clean_train,
        shortcut_words=data.shortcuts,
        max_length=base.max_length,
        precision=cast(Precision, scale.precision),
        scoring_precision=cast(Precision, scale.scoring_precision),
        retrain=retrain,
        cache=cache,
    )
