"""What a system of the benchmark is: one interface, declared needs, and what most systems become.

A *system* turns material (a base classifier, training rows, deployment texts, ...) into something that predicts. It
declares what it needs and is handed nothing else, so that a table can say what each system was allowed to see. The
systems themselves are in `references` and `methods`, and `own_systems` finds those of other distributions; `registry`
knows all.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

from shortcut_guardrail.data import Texts, to_json, write_folder
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.guardrail import ShortcutGuardrail
from shortcut_guardrail.models import Precision, TextClassifier, load_model, quiet_transformers
from shortcut_guardrail.typing import Progress

from .classifiers import TrainedClassifier

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

        write_folder(Path(folder), fill, key=SYSTEM_FILE)

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
