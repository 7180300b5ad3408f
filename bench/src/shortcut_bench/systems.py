"""What the benchmark compares: one interface, declared needs, and the systems that belong to the harness itself.

A *system* turns material (a base classifier, training rows, deployment texts, ...) into something that predicts. It
declares what it needs and is handed nothing else, so that a table can say what each system was allowed to see. The
systems here are the references: `erm` (the base classifier as it is), `oracle` (the base classifier on texts from which
the known shortcut was removed), `clean` (the same encoder trained without the shortcut) and the guardrail. Other
methods are in `shortcut_bench.methods`, and `own_systems` finds those of other distributions; `make_system` knows all.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

from shortcut_guardrail.config import GuardrailConfig, TargetConfig, check_strength, preset
from shortcut_guardrail.data import Texts, to_json, write_folder
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.guardrail import ShortcutGuardrail
from shortcut_guardrail.models import Precision, TextClassifier, load_model, quiet_transformers
from shortcut_guardrail.strength import strengths_to_score
from shortcut_guardrail.typing import Progress

from .classifiers import TrainedClassifier
from .own_systems import own_systems

if TYPE_CHECKING:
    from .datasets.types import LabelledTexts

Array = np.ndarray[Any, np.dtype[Any]]

SYSTEM_FILE = "system.json"


class Need(StrEnum):
    """What a system asks for.

    `GRADIENTS` is the base classifier's model, for whoever looks into it or starts from its weights. `BASE` is the same
    for the references that answer as it does. A system that declares neither starts from the pretrained encoder and is
    handed no model. `TRAIN_TEXTS`, `TRAIN_CLASS_COUNTS` and `DEV_TEXTS` are parts of rows for whoever reads no more of
    them. `SHORTCUT_WORDS` is somebody who names the shortcut. `ORACLE_TEXTS` is knowledge of the shortcut at
    test time: the harness hands such a system the test texts without it.
    """

    TRAIN = "train"
    TRAIN_GROUPS = "train-groups"
    TRAIN_TEXTS = "train-texts"
    TRAIN_CLASS_COUNTS = "train-class-counts"
    CLEAN_TRAIN = "clean-train"
    DEV = "dev"
    DEV_GROUPS = "dev-groups"
    DEV_TEXTS = "dev-texts"
    SUPPORT = "support"
    DEPLOYMENT = "deployment"
    BASE = "base"
    GRADIENTS = "gradients"
    SHORTCUT_WORDS = "shortcut-words"
    ORACLE_TEXTS = "oracle-texts"


SOURCE_NEEDS = frozenset(
    {
        *(Need.TRAIN, Need.TRAIN_GROUPS, Need.TRAIN_TEXTS, Need.TRAIN_CLASS_COUNTS, Need.CLEAN_TRAIN),
        *(Need.DEV, Need.DEV_GROUPS, Need.DEV_TEXTS),
    }
)
"""What is of the time before deployment: rows as those the base classifier was trained on."""

ANNOTATION_NEEDS = frozenset(
    {Need.TRAIN_GROUPS, Need.DEV_GROUPS, Need.CLEAN_TRAIN, Need.SHORTCUT_WORDS, Need.ORACLE_TEXTS}
)
"""What somebody who knows the shortcut has to provide."""


@dataclass(frozen=True)
class Material:
    """What a system is handed. What it did not declare is `None`; groups it did not declare are hidden.

    Attributes:
        base: The ERM classifier, fine-tuned on `train`; to be left as found. Its recipe, seed and tokenizer are for
            all, its `model` is `None` for a system that declared neither `BASE` nor `GRADIENTS`.
        encoder: Folder or Hub id of the pretrained encoder, for methods that train from the start.
        label_names: The C class names.
        train: The biased training rows.
        dev: Rows like the training rows, for selection.
        support: A few labelled rows from where the system is used. Their groups are always hidden.
        deployment: Unlabelled texts from where the system is used.
        clean_train: The training rows without the shortcut.
        shortcut_words: The words and phrases that the shortcut is.
        train_texts: The texts of the training rows alone; this and the next two are filled by `for_needs`.
        train_class_counts: How many of them each class has, shape (C,).
        dev_texts: The texts alone of the dev rows.
        max_length: Tokens per input.
        precision: Number format of matrix products while a system is fitted.
        scoring_precision: Number format of matrix products when it predicts.
        batch_size: Sequences per forward pass outside training.
        retrain: Fine-tunes the encoder on other rows with the recipe and seed of `base`; the harness keeps what it
            trained, so that asking twice costs once. For systems that declared `CLEAN_TRAIN`.
        checkpoints: A folder of this fit alone, in which a training that takes long keeps its state and goes on from it
            when the run is made again; `None` keeps nothing.
        cache: A folder in which a system that declared `GRADIENTS` may keep what is costly to make, under a name that
            is a hash of everything it depends on; `None` keeps nothing.
    """

    base: TrainedClassifier
    encoder: str
    label_names: tuple[str, ...]
    train: LabelledTexts | None = None
    dev: LabelledTexts | None = None
    support: LabelledTexts | None = None
    deployment: Texts | None = None
    clean_train: LabelledTexts | None = None
    shortcut_words: tuple[str, ...] | None = None
    train_texts: Texts | None = None
    train_class_counts: Array | None = None
    dev_texts: Texts | None = None
    max_length: int = 128
    precision: Precision = "float32"
    scoring_precision: Precision = "float32"
    batch_size: int = 64
    retrain: Callable[[LabelledTexts], TrainedClassifier] | None = None
    cache: Path | None = None
    checkpoints: Path | None = None

    def for_needs(self, needs: Iterable[Need]) -> Material:
        """The same, cut down to what was declared.

        Raises:
            ConfigError: Something that was declared is not there.
        """
        declared = frozenset(needs)
        wanted = {need.value.replace("-", "_") for need in declared}
        fields = ("train", "dev", "support", "deployment", "clean_train", "shortcut_words")
        # Groups of rows are of no use without the rows.
        given: dict[str, Any] = {
            name: getattr(self, name) if name in wanted or f"{name}_groups" in wanted else None for name in fields
        }
        given |= {name: part if name in wanted else None for name, part in self._parts().items()}
        absent = [name.replace("_", "-") for name in given if name in wanted and given[name] is None]
        if absent:
            raise ConfigError(
                f"The system needs {', '.join(absent)}, which this setting does not have. Leave the system out of it."
            )
        for name, need in (("train", Need.TRAIN_GROUPS), ("dev", Need.DEV_GROUPS), ("support", None)):
            if given[name] is not None and need not in declared:
                given[name] = given[name].without_groups()
        if given["clean_train"] is not None:
            given["clean_train"] = given["clean_train"].without_groups()
        if not declared & {Need.BASE, Need.GRADIENTS}:
            given["base"] = dataclasses.replace(self.base, model=None)
        if Need.CLEAN_TRAIN not in declared:
            given["retrain"] = None  # asked for the training rows it would give the base classifier
        if Need.GRADIENTS not in declared:
            given["cache"] = None  # where the base classifier and its guards lie
        return dataclasses.replace(self, **given)

    def _parts(self) -> dict[str, Any]:
        """What is left of rows for those who read no more of them."""
        train, dev = self.train, self.dev
        return {
            "train_texts": None if train is None else train.texts,
            "train_class_counts": None if train is None else np.bincount(train.labels, minlength=len(self.label_names)),
            "dev_texts": None if dev is None else dev.texts,
        }

    def scorer(self, model: Any, tokenizer: Any | None = None, *, fitting: bool = False) -> TextClassifier:
        """A classifier for scoring around a Transformers model, with the settings of this material.

        Args:
            model: A sequence classifier; its weights are shared, not copied.
            tokenizer: Its tokenizer; `None` takes the base classifier's.
            fitting: Multiply in the number format of fitting, for what a method computes on the way, such as
                attributions.

        Raises:
            ConfigError: The model is the base classifier's, which was not declared.
        """
        return TextClassifier(
            _declared(model),
            tokenizer or self.base.tokenizer,
            max_length=self.max_length,
            batch_size=self.batch_size,
            precision=self.precision if fitting else self.scoring_precision,
        )

    def guard(self) -> ShortcutGuardrail:
        """A guard around the base classifier, to be fitted with the settings of this material.

        Raises:
            ConfigError: The base classifier's model was not declared.
        """
        return ShortcutGuardrail(
            _declared(self.base.model),
            self.base.tokenizer,
            max_length=self.max_length,
            batch_size=self.batch_size,
            precision=self.precision,
        )


def _declared(model: Any) -> Any:
    if model is None:
        raise ConfigError(
            "There is no model: that of the base classifier is for systems that declare the need 'gradients' (or "
            "'base'). Add it to what the system needs."
        )
    return model


class FittedSystem(Protocol):
    """What a system became after fitting."""

    @property
    def classifier(self) -> TextClassifier | None:
        """The one model that answers, for attribution and MSTPS; `None` where there is no such model."""

    @property
    def forward_equivalents(self) -> float:
        """What fitting cost, in forward passes of one text: a forward pass is 1, a backward pass to inputs or
        activations 1 more, one to all weights 2 more. Training the base classifier is no part of it."""

    def predict_proba(self, texts: Texts, *, progress: Progress | None = None) -> Array:
        """Class probabilities, shape (N, C), float32, rows summing to 1."""

    def info(self) -> dict[str, Any]:
        """What was selected by which rule, how many labels it took (`labels_spent`), and `seconds` per stage, as JSON
        types. `forward_equivalents_per_text` is there where an answer costs other than one forward pass."""

    def save(self, folder: Path) -> None:
        """Writes the fitted system; the folder appears whole or not at all."""


class System(Protocol):
    """A way to get from material to predictions."""

    @property
    def name(self) -> str:
        """The name in tables and in the registry."""

    @property
    def needs(self) -> frozenset[Need]:
        """What it has to be handed."""

    def config(self) -> dict[str, Any]:
        """Every option that decides the outcome, as JSON types; part of a run's hash."""

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> FittedSystem:
        """Fits on material that was cut down by `Material.for_needs`."""


class ModelSystem:
    """A fitted system that is one sequence classifier.

    Args:
        classifier: It.
        info: See `FittedSystem.info`.
        forward_equivalents: See `FittedSystem.forward_equivalents`.
    """

    def __init__(
        self, classifier: TextClassifier, *, info: Mapping[str, Any] | None = None, forward_equivalents: float = 0.0
    ) -> None:
        self._classifier = classifier
        self._info = {"labels_spent": 0, "seconds": {}, **(info or {})}
        self._forward_equivalents = float(forward_equivalents)

    @property
    def classifier(self) -> TextClassifier:
        """The classifier."""
        return self._classifier

    @property
    def forward_equivalents(self) -> float:
        """What fitting cost, in forward passes of one text."""
        return self._forward_equivalents

    def predict_proba(self, texts: Texts, *, progress: Progress | None = None) -> Array:
        """Class probabilities, shape (N, C), float32."""
        return predict_proba(self._classifier, texts, progress=progress)

    def info(self) -> dict[str, Any]:
        """Selection, labels spent and seconds per stage."""
        return copy.deepcopy(self._info)

    def save(self, folder: Path) -> None:
        """Writes model, tokenizer and `system.json`; `load` reads them.

        Raises:
            ConfigError: The folder exists.
            RunError: The disk is full, or the like.
        """

        def fill(target: Path) -> None:
            with quiet_transformers():
                self._classifier.model.save_pretrained(target)
                self._classifier.tokenizer.save_pretrained(target)
            record = {
                "max_length": self._classifier.max_length,
                "precision": self._classifier.precision,
                "forward_equivalents": self._forward_equivalents,
                "info": self._info,
            }
            (target / SYSTEM_FILE).write_text(to_json(record), encoding="utf-8")

        write_folder(Path(folder), fill)

    @classmethod
    def load(cls, folder: Path, *, batch_size: int = 64) -> ModelSystem:
        """What `save` wrote.

        Raises:
            ModelError: The folder holds no classifier.
            ConfigError: It was not written by `save`.
        """
        model, tokenizer = load_model(folder)
        try:
            record = json.loads((Path(folder) / SYSTEM_FILE).read_text(encoding="utf-8"))
            classifier = TextClassifier(
                model,
                tokenizer,
                max_length=record["max_length"],
                precision=record["precision"],
                batch_size=batch_size,
            )
            return cls(classifier, info=record["info"], forward_equivalents=record["forward_equivalents"])
        except (OSError, ValueError, KeyError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"'{folder}' holds no readable {SYSTEM_FILE} ({error}); give a folder written by save."
            ) from error


def predict_proba(classifier: TextClassifier, texts: Texts, *, progress: Progress | None = None) -> Array:
    """Class probabilities of texts, shape (N, C), float32."""
    logits = classifier.predict_logits(classifier.encode(texts), progress=progress)
    return cast(Array, torch.from_numpy(logits).softmax(dim=-1).numpy())


# The references


@dataclass(frozen=True)
class Erm:
    """The base classifier as it is."""

    name: str = "erm"
    needs: frozenset[Need] = frozenset({Need.BASE})

    def config(self) -> dict[str, Any]:
        """Nothing decides beyond the base classifier's recipe, which is the run's."""
        return {}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Takes the base classifier; costs nothing."""
        return ModelSystem(material.scorer(material.base.model))


@dataclass(frozen=True)
class Oracle(Erm):
    """The base classifier, asked about the test texts without the inserted shortcut: no method can know more."""

    name: str = "oracle"
    needs: frozenset[Need] = frozenset({Need.BASE, Need.ORACLE_TEXTS})


@dataclass(frozen=True)
class Clean:
    """The same encoder, recipe and seed, trained on the same rows before the shortcut was put in."""

    name: str = "clean"
    needs: frozenset[Need] = frozenset({Need.CLEAN_TRAIN})

    def config(self) -> dict[str, Any]:
        """Nothing decides beyond the base classifier's recipe, which is the run's."""
        return {}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Fine-tunes once; later calls take what the harness kept."""
        assert material.clean_train is not None
        assert material.retrain is not None, "the harness hands `retrain` to whoever declared `CLEAN_TRAIN`"
        trained = material.retrain(material.clean_train)
        return ModelSystem(
            material.scorer(trained.model, trained.tokenizer),
            info={
                "seconds": {"fine-tune": trained.seconds},
                "train_loss": list(trained.train_loss),
                "training_rows": len(material.clean_train),
            },
            forward_equivalents=trained.forward_equivalents,
        )


# The guardrail


_ADDED = ("influential_share", "take_influential")


def guard_options(config: GuardrailConfig) -> dict[str, Any]:
    """A guard's whole configuration, as a part of what identifies a run.

    Options that came after results were committed are left out where they have their default, which is what those
    results were measured with: they are still found.
    """
    options = config.to_dict()
    default = asdict(TargetConfig())
    targets = options["targets"].items()
    options["targets"] = {name: value for name, value in targets if name not in _ADDED or value != default[name]}
    return options


_NO_DISTILLATION = ("maskcl", "few-shot")
"""The strategies that, with a strength that is fixed or chosen by labels, read nothing of the section `distill`."""


def recorded_before(system: System) -> list[dict[str, Any]]:
    """A system's `config` as earlier results of the very same computation recorded it.

    A guard's whole configuration is recorded, with sections that its strategy does not read. When a default there
    changes, the computation stays what it was and its hash does not: `distill.teacher` was `both` until commit 66ab052.
    """
    guard = getattr(system, "guard_config", None)
    if not isinstance(guard, GuardrailConfig) or guard.strategy not in _NO_DISTILLATION:
        return []
    earlier = dataclasses.replace(guard, distill=dataclasses.replace(guard.distill, teacher="both"))
    return [{**system.config(), "guard": guard_options(earlier)}]


@dataclass(frozen=True)
class Guardrail:
    """Shortcut Guardrail: an adapter trained on the deployment texts, its strength chosen on the support set.

    Attributes:
        name: The name in tables.
        preset: The preset of the library that it starts from.
        rank: LoRA rank; `None` takes the preset's.
        lora_alpha: LoRA scaling numerator; `None` takes the preset's.
        epochs: Passes over the deployment texts; `None` takes the preset's.
        min_steps: Least number of optimiser steps; `None` takes the preset's.
        max_steps: Most optimiser steps; `None` takes the preset's.
        strength: A fixed strength in [0, 1]; `None` chooses it on the support set, which is then needed.
        n_support: Use only the first so many support rows; `None` uses all.

    Raises:
        ConfigError: An option is out of range.
    """

    name: str = "guardrail"
    preset: str = "default"
    rank: int | None = None
    lora_alpha: float | None = None
    epochs: int | None = None
    min_steps: int | None = None
    max_steps: int | None = None
    strength: float | None = None
    n_support: int | None = None
    guard_config: GuardrailConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.strength is not None:
            check_strength(self.strength)
        if self.n_support is not None and self.n_support < 2:
            raise ConfigError(f"n_support must be at least 2, but is {self.n_support}.")
        changes = {name: getattr(self, name) for name in ("rank", "lora_alpha", "epochs", "min_steps", "max_steps")}
        config = preset(self.preset).with_adapter(**{k: v for k, v in changes.items() if v is not None})
        object.__setattr__(self, "guard_config", config)

    @property
    def needs(self) -> frozenset[Need]:
        """Deployment texts and gradients, and a support set unless the strength is fixed."""
        needs = {Need.DEPLOYMENT, Need.GRADIENTS}
        return frozenset(needs if self.strength is not None else needs | {Need.SUPPORT})

    def config(self) -> dict[str, Any]:
        """The guard's whole configuration, the fixed strength and the size of the support set."""
        return {"guard": guard_options(self.guard_config), "strength": self.strength, "n_support": self.n_support}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Adapts, chooses the strength, and folds it into the weights of a copy of the base classifier."""
        assert material.deployment is not None
        guard, training = self._fitted_guard(material, material.deployment, seed, progress)
        calibration, seconds, labels = None, dict(training["seconds"]), 0
        if self.strength is not None:
            guard.debias_strength = self.strength
        else:
            assert material.support is not None
            labels = min(len(material.support), self.n_support or len(material.support))
            support = material.support.select(np.arange(labels))
            started = time.perf_counter()
            calibration = guard.calibrate(support.texts, support.labels.tolist(), progress=progress).to_dict()
            seconds["calibrate"] = time.perf_counter() - started
        return ModelSystem(
            material.scorer(folded(guard, material)),
            info={
                "debias_strength": guard.debias_strength,
                "labels_spent": labels,
                "selection": {"rule": "support-accuracy" if calibration else "fixed", "oracle": False},
                "calibration": calibration,
                "training": training["training"],
                "n_deployment": len(material.deployment),
                "seconds": seconds,
            },
            forward_equivalents=self._forward_equivalents(training["training"], len(material.deployment), labels),
        )

    def _fitted_guard(
        self, material: Material, deployment: Texts, seed: int, progress: Progress | None
    ) -> tuple[ShortcutGuardrail, dict[str, Any]]:
        """The adapted guard and the record of its training; kept, since several systems differ in strength alone."""
        folder = None
        if material.cache is not None:
            folder = material.cache / "guards" / self._key(material, deployment, seed)
            if folder.is_dir():
                guard = ShortcutGuardrail.from_pretrained(
                    folder, base=material.base.model, batch_size=material.batch_size, precision=material.precision
                )
                record = guard.record()
                return guard, {"training": record.training, "seconds": record.seconds}
        guard = material.guard()
        report = guard.fit(deployment, config=self.guard_config, seed=seed, progress=progress).to_dict()
        if folder is not None:
            guard.save_pretrained(folder, overwrite=True)  # another process may have made the same in the meantime
        return guard, report

    def _key(self, material: Material, deployment: Texts, seed: int) -> str:
        identity = {
            "base": material.scorer(material.base.model).fingerprint(),
            "deployment": hashlib.sha256(json.dumps(deployment, ensure_ascii=False).encode()).hexdigest(),
            "guard": self.guard_config.to_dict(),
            "max_length": material.max_length,
            "precision": material.precision,
            "seed": seed,
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def _forward_equivalents(self, training: dict[str, Any], n_deployment: int, n_support: int) -> float:
        """2 a text for attribution, 2 a sequence encoded in training, 1 a support row and strength.

        An upper estimate: a text with fewer than k ordinary tokens has fewer variants.
        """
        adapter, k = self.guard_config.adapter, self.guard_config.saliency.top_k
        draws = training["n_steps"] * adapter.batch_size
        if adapter.pairing == "grouped":
            sequences = min(draws, training["n_epochs"] * training["n_trained"]) * (k + 1)
        else:
            sequences = min(draws, training["n_epochs"] * training["n_trained"] * k) * 2
        calibration = n_support * len(strengths_to_score(self.guard_config.calibration))
        return float(2 * n_deployment + 2 * sequences + calibration)


def folded(guard: ShortcutGuardrail, material: Material) -> Any:
    """A Transformers model with the adapter merged at the guard's strength; at strength 0 the base model itself."""
    if guard.debias_strength == 0:
        return material.base.model
    from peft.helpers import rescale_adapter_scale

    # `merge_and_unload` writes into the weights, which the guard shares with the base model.
    model = copy.deepcopy(guard.peft_model)
    with rescale_adapter_scale(model, guard.debias_strength):
        model.merge_adapter()
    merged = model.unload()
    return merged.eval()


# The registry

SYSTEMS: dict[str, Callable[..., System]] = {
    "erm": Erm,
    "oracle": Oracle,
    "clean": Clean,
    "guardrail": Guardrail,
    "guardrail-paper": lambda **options: Guardrail(**{"name": "guardrail-paper", "preset": "paper", **options}),
}
"""The references by name; `built_in_systems` also knows the methods of `shortcut_bench.methods`."""


def built_in_systems() -> dict[str, Callable[..., System]]:
    """The systems that the benchmark has: those of this module, and the methods."""
    from .methods import METHODS

    return {**SYSTEMS, **METHODS}


def system_factories() -> dict[str, Callable[..., System]]:
    """All systems: the benchmark's, and those that other distributions bring.

    Raises:
        ConfigError: Two systems have one name.
    """
    built_in = built_in_systems()
    return {**built_in, **own_systems(built_in)}


def make_system(kind: str, **options: Any) -> System:
    """The system of that name with these options.

    Raises:
        ConfigError: There is no such system, two have the name, or it does not take an option.
    """
    factories = system_factories()
    if kind not in factories:
        similar = difflib.get_close_matches(kind, factories, n=1)
        hint = f" Did you mean '{similar[0]}'?" if similar else ""
        raise ConfigError(f"There is no system '{kind}' (there are: {', '.join(factories)}).{hint}")
    try:
        return factories[kind](**options)
    except TypeError as error:
        raise ConfigError(f"The system '{kind}' cannot be made with {options}: {error}.") from error
