"""The experiments as data: one TOML file each in `settings/`, read and checked before anything heavy is imported.

An experiment crosses *settings* (a data set and how it is made) with *systems*, *test sets* and seeds. How large it is
comes from a *scale*: `scales.toml` has three, and an experiment or a setting may override fields of each.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import tomllib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from shortcut_guardrail.errors import ConfigError, DataError

Built = TypeVar("Built")

SETTINGS_FOLDER = Path(__file__).parent / "settings"
SCALES_FILE = SETTINGS_FOLDER / "scales.toml"
SCALES = ("tiny", "small", "paper")
TESTS = ("in_distribution", "reversed", "test")
PRECISIONS = ("auto", "float32", "bfloat16")
SELECTIONS = ("each", "seed 0")


@dataclass(frozen=True)
class Scale:
    """How large an experiment is run.

    Attributes:
        name: `tiny`, `small` or `paper`.
        encoder: Folder or Hub id of the pretrained encoder; `minilm` is the one of the extra `demo`.
        seeds: The seeds if none are asked for.
        n_train: Training rows; `None` takes all that the setting has.
        n_test: Rows of each test set, support rows included; `None` takes all.
        n_dev: Rows of the dev set that the learning rate is chosen on, at most; `None` takes all.
        max_tokens: Texts are cut to so many tokens before anything is done to them.
        n_support: Labelled rows taken out of the test set for systems that need them.
        n_held_out: Rows of the test set that nobody is scored on, `n_support` of them the support set; at least as
            many. Experiments that vary the size of the support set score every size on the same rows this way.
        n_deployment: Unlabelled test texts that deployment-time systems adapt to, at most; `None` takes all, the
            scored ones and those of the support set.
        n_audit: Scored rows whose important tokens are masked for MSTPS, at most: 10 to 20 forward passes each.
        top_k: Important tokens a text.
        folds: Where above 1, the setting is run once for each fold of a data set that has a setting `fold`, with a
            base classifier each, and the folds' test rows are scored together.
        epochs: Passes over the training rows in fine-tuning.
        batch_size: Rows per step in fine-tuning.
        learning_rates: What the learning rate of fine-tuning is chosen from, by the loss on the dev set.
        select: `each` chooses it in every setting and for every seed; `seed 0` chooses it in every setting with
            seed 0, and the other seeds take it over.
        precision: Number format of matrix products in fitting.
        scoring_precision: Number format of matrix products in scoring.
        system_options: Options by kind of system that make it larger or smaller.
    """

    name: str
    encoder: str = "minilm"
    seeds: tuple[int, ...] = (0, 1, 2)
    n_train: int | None = None
    n_test: int | None = None
    n_dev: int | None = None
    max_tokens: int = 128
    n_support: int = 40
    n_held_out: int = 40
    n_deployment: int | None = None
    n_audit: int = 200
    top_k: int = 10
    folds: int = 1
    epochs: int = 3
    batch_size: int = 16
    learning_rates: tuple[float, ...] = (5e-5, 1e-4, 2e-4)
    select: str = "each"
    precision: str = "float32"
    scoring_precision: str = "float32"
    system_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        least = {"max_tokens": 8, "n_support": 2, "n_held_out": 2, "n_audit": 0, "top_k": 1}
        least |= {"epochs": 1, "folds": 1, "batch_size": 1, "n_train": 2, "n_test": 2, "n_dev": 2, "n_deployment": 2}
        given = {name: getattr(self, name) for name in least if getattr(self, name) is not None}
        problems = [
            f"{name} must be a whole number from {least[name]} on, but is {value!r}."
            for name, value in given.items()
            if not isinstance(value, int) or isinstance(value, bool) or value < least[name]
        ]
        choices = {"precision": PRECISIONS, "scoring_precision": PRECISIONS, "select": SELECTIONS}
        problems += [
            f"{name} must be one of {', '.join(known)}, but is {getattr(self, name)!r}."
            for name, known in choices.items()
            if getattr(self, name) not in known
        ]
        if not _all(self.learning_rates, float, lambda rate: rate > 0):
            problems.append(f"learning_rates must be one or more rates above 0, but are {self.learning_rates!r}.")
        if not _all(self.seeds, int, lambda seed: seed >= 0) or len(set(self.seeds)) < len(self.seeds):
            problems.append(f"seeds must be one or more different numbers from 0 on, but are {self.seeds!r}.")
        if not problems and self.n_held_out < self.n_support:
            problems.append(f"n_held_out must be at least n_support, {self.n_support}, but is {self.n_held_out}.")
        if problems:
            raise ConfigError(f"The scale '{self.name}' is not as it has to be: {' '.join(problems)}")

    def with_changes(self, changes: Mapping[str, Any]) -> Scale:
        """A copy with some fields replaced; `system_options` are merged kind by kind.

        Raises:
            ConfigError: A field is unknown or out of range.
        """
        return _build(Scale, {**_shallow(self), **_merged_options(self, changes)}, f"scale '{self.name}'")


@dataclass(frozen=True)
class SystemSpec:
    """A system of an experiment.

    Attributes:
        kind: What `systems.make_system` knows it by.
        label: The name in tables and figures.
        options: Its options.
        x: Where it stands on the axis of a figure that varies an option of the system.
    """

    kind: str
    label: str
    options: Mapping[str, Any] = field(default_factory=dict)
    x: float | None = None


@dataclass(frozen=True)
class Setting:
    """A data set, and how it is made.

    Attributes:
        name: The name in tables and figures.
        data: The builder's name.
        options: The builder's options.
        x: Where it stands on the axis of a figure that varies the data.
        family: Which settings belong to one panel or one line; the data set's name unless given.
        system_options: Options by kind of system that hold in this setting, such as a LoRA rank.
        scales: Fields of each scale that differ in this setting.
    """

    name: str
    data: str
    options: Mapping[str, Any] = field(default_factory=dict)
    x: float | None = None
    family: str = ""
    system_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scales: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class ExperimentConfig:
    """One experiment.

    Attributes:
        name: What the user types; the file's name.
        shows: One line for `benchmark list`.
        paper: What it rebuilds of the paper, or has from it.
        rebuilds: Whether it rebuilds a table, figure or number of the paper, so that the two can be compared.
        tests: Which test sets systems are scored on.
        settings: The settings.
        systems: The systems.
        table: `columns`, the names of the table's columns.
        figure: `kind` and what that kind takes; empty where there is no figure.
        scales: Fields of each scale that differ in this experiment.
        notes: What a reader has to know; printed below the table.
    """

    name: str
    shows: str
    paper: str
    tests: tuple[str, ...]
    settings: tuple[Setting, ...]
    systems: tuple[SystemSpec, ...]
    table: Mapping[str, Any] = field(default_factory=dict)
    figure: Mapping[str, Any] = field(default_factory=dict)
    scales: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rebuilds: bool = False

    def scale(self, name: str, setting: Setting | None = None) -> Scale:
        """The scale of that name as this experiment, and this setting of it, have it.

        Raises:
            ConfigError: There is no such scale.
        """
        scale = read_scale(name).with_changes(self.scales.get(name, {}))
        return scale if setting is None else scale.with_changes(setting.scales.get(name, {}))

    def setting(self, name: str) -> Setting:
        """The setting of that name, or the only one with that data set.

        Raises:
            ConfigError: There is none, or several have the data set.
        """
        found = _chosen(self.settings, [name], "setting", lambda setting: (setting.name, setting.data))
        found = [setting for setting in found if setting.name == name] or found
        if len(found) > 1:
            names = ", ".join(setting.name for setting in found)
            raise ConfigError(f"Several settings here have the data set '{name}' ({names}). Name one of them.")
        return cast(Setting, found[0])

    def plan(self, *, systems: Sequence[str] = (), settings: Sequence[str] = ()) -> list[tuple[Setting, SystemSpec]]:
        """Every setting with every system.

        Args:
            systems: Labels to restrict it to, or kinds that are no labels; a kind that the experiment does not have is
                added.
            settings: Names of settings to restrict it to.

        Raises:
            ConfigError: A setting is unknown.
        """
        chosen_settings = _chosen(self.settings, settings, "setting", lambda setting: (setting.name, setting.data))
        chosen_systems = self.systems
        if systems:
            systems = _rejoined(systems, {name for spec in self.systems for name in (spec.label, spec.kind)})
            # A label means that system alone, although others may be of the kind that it is named after.
            kinds = set(systems) - {spec.label for spec in self.systems}
            known = [spec for spec in self.systems if spec.label in systems or spec.kind in kinds]
            names = {name for spec in known for name in (spec.label, spec.kind)}
            chosen_systems = (*known, *(SystemSpec(name, name) for name in systems if name not in names))
        return [(setting, spec) for setting in chosen_settings for spec in chosen_systems]


def system_options(scale: Scale, setting: Setting, spec: SystemSpec) -> dict[str, Any]:
    """The options a system is made with: of the scale, over them of the setting, over them its own."""
    return {
        **scale.system_options.get(spec.kind, {}),
        **setting.system_options.get(spec.kind, {}),
        **spec.options,
    }


def experiment_names() -> list[str]:
    """The experiments that come with the package, in the order of the paper."""
    found = {path.stem for path in SETTINGS_FOLDER.glob("*.toml")} - {SCALES_FILE.stem}
    known = [name for name in _ORDER if name in found]
    return [*known, *sorted(found - set(known))]


_ORDER = (
    "testbed-proportion",
    "testbed-strength",
    "recall-vs-strength",
    "misclassification",
    "real-world",
    "shifted",
    "mstps",
    "lambda-sweep",
    "in-distribution",
    "mstps-vs-accuracy",
    "support-size",
    "lora-rank",
    "adaptation-cost",
    "leaderboard",
    "leaderboard-in-distribution",
    "leaderboard-rest",
    "leaderboard-rest-synonyms",
    "natural-shortcuts",
    "natural-rest",
    "source-recipes",
    "biaswipe",
)


def read_experiment(name: str) -> ExperimentConfig:
    """An experiment that comes with the package, or one of your own in a TOML file.

    Args:
        name: A name from `benchmark list`, or the path of a file that ends in `.toml`.

    Raises:
        ConfigError: There is no such experiment (the message suggests a similar one), or its file is wrong.
    """
    if name.endswith(".toml"):
        return _read_file(Path(name))
    names = experiment_names()
    if name not in names:
        similar = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean '{similar[0]}'?" if similar else ""
        raise ConfigError(f"There is no experiment '{name}' (there are: {', '.join(names)}).{hint}")
    return _read_file(SETTINGS_FOLDER / f"{name}.toml")


def read_scale(name: str) -> Scale:
    """The scale of that name.

    Raises:
        ConfigError: There is none.
    """
    scales = _toml(SCALES_FILE)
    if name not in scales:
        raise ConfigError(f"scale must be one of {', '.join(scales)}, but is {name!r}.")
    return _build(Scale, {"name": name, **scales[name]}, f"scale '{name}'")


def _read_file(path: Path) -> ExperimentConfig:
    values = _extended(path)
    where = f"experiment '{path.stem}'"
    values["settings"] = tuple(_setting(entry, where) for entry in values.get("settings", ()))
    values["systems"] = tuple(_system(entry, where) for entry in values.get("systems", ()))
    config = _build(ExperimentConfig, {"name": path.stem, **values}, where)
    _check_experiment(config, where)
    return config


def _extended(path: Path) -> dict[str, Any]:
    """A file over the one it extends; those of its `settings` that are names stand for the settings of that one."""
    values = _toml(path)
    base = values.pop("extends", None)
    if base is None:
        return values
    below = _extended(SETTINGS_FOLDER / f"{base}.toml")
    if "settings" in values:
        values["settings"] = [
            found
            for entry in values["settings"]
            for found in (_named_setting(below["settings"], entry) if isinstance(entry, str) else [entry])
        ]
    return {**below, **values}


def _named_setting(entries: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return _chosen(entries, [name], "setting", lambda setting: (setting.get("name", setting["data"]),))


def _toml(path: Path) -> dict[str, Any]:
    try:
        return copy.deepcopy(_parsed(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is no TOML file: {error}.") from error


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> dict[str, Any]:
    """A plan of a thousand runs asks for the same few files a thousand times."""
    return tomllib.loads(text)


def _setting(entry: dict[str, Any], where: str) -> Setting:
    values = dict(entry)
    values.setdefault("name", values.get("data"))
    values.setdefault("family", values.get("data"))
    return _build(Setting, values, f"a setting of {where}")


def _system(entry: dict[str, Any] | str, where: str) -> SystemSpec:
    values: dict[str, Any] = {"kind": entry} if isinstance(entry, str) else dict(entry)
    values.setdefault("label", values.get("kind", ""))
    return _build(SystemSpec, values, f"a system of {where}")


def _check_experiment(config: ExperimentConfig, where: str) -> None:
    problems = []
    if not config.settings or not config.systems or not config.tests:
        problems.append("it needs at least one of each: settings, systems, tests")
    if unknown := [name for name in config.tests if name not in TESTS]:
        problems.append(f"tests must be among {', '.join(TESTS)}, but has {unknown[0]!r}")
    for what, names in (
        ("settings", [setting.name for setting in config.settings]),
        ("systems", [spec.label for spec in config.systems]),
    ):
        if len(set(names)) < len(names):
            problems.append(f"its {what} must have different names, but are {', '.join(names)}")
    if not isinstance(config.rebuilds, bool):
        problems.append(f"rebuilds must be true or false, but is {config.rebuilds!r}")
    scales = [config.scales, *(setting.scales for setting in config.settings)]
    if unknown := sorted({name for given in scales for name in given} - set(SCALES)):
        problems.append(f"scales must be among {', '.join(SCALES)}, but there is {unknown[0]!r}")
    if problems:
        raise ConfigError(f"The {where} is not as it has to be: {'; '.join(problems)}.")
    for setting in config.settings:
        for name in SCALES:
            config.scale(name, setting)


def _merged_options(scale: Scale, changes: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(changes)
    if options := values.get("system_options"):
        kinds = {**scale.system_options, **options}
        values["system_options"] = {
            kind: {**scale.system_options.get(kind, {}), **options.get(kind, {})} for kind in kinds
        }
    return values


def _chosen(entries: Sequence[Any], names: Iterable[str], what: str, names_of: Any) -> list[Any]:
    wanted = list(names)
    if not wanted:
        return list(entries)
    known = [name for entry in entries for name in names_of(entry)]
    wanted = _rejoined(wanted, known)
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(f"There is no {what} '{unknown[0]}' here (there are: {', '.join(dict.fromkeys(known))}).")
    return [entry for entry in entries if set(names_of(entry)) & set(wanted)]


def _rejoined(parts: Sequence[str], known: Container[str]) -> list[str]:
    """Names from a list that was split at every comma, where a name such as "Yelp-ST, λ = .8" may hold one itself."""
    names, start = [], 0
    while start < len(parts):
        ends = range(len(parts), start, -1)
        end = next((end for end in ends if ", ".join(parts[start:end]) in known), start + 1)
        names.append(", ".join(parts[start:end]))
        start = end
    return names


def _all(values: Any, kind: type, holds: Callable[[Any], bool]) -> bool:
    """Whether there are values, all of that kind, for which something holds."""
    return isinstance(values, tuple) and bool(values) and all(isinstance(v, kind) and holds(v) for v in values)


def _shallow(config: Any) -> dict[str, Any]:
    return {entry.name: getattr(config, entry.name) for entry in dataclasses.fields(config)}


def _build(kind: type[Built], values: Mapping[str, Any], where: str) -> Built:
    """A dataclass from what a file says; lists become tuples, and "all", for which TOML has no null, `None`."""
    fields = {entry.name: entry for entry in dataclasses.fields(cast(Any, kind))}
    if unknown := sorted(set(values) - set(fields)):
        raise ConfigError(f"The {where} has no field {unknown[0]!r} (it has: {', '.join(fields)}).")
    required = [
        name
        for name, entry in fields.items()
        if entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
    ]
    if absent := [name for name in required if values.get(name) is None]:
        raise ConfigError(f"The {where} must say its {', '.join(absent)}.")
    return kind(**{name: _value(value) for name, value in values.items()})


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return None if value == "all" else value
