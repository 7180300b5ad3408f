"""Weak controls: what masking alone, an adapter alone, and contrast alone bring. They show what the method adds."""

from __future__ import annotations

import copy
import json
import math
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shortcut_guardrail.attribution import find_important_tokens, masking_effects
from shortcut_guardrail.config import AdapterConfig, GuardrailConfig, SaliencyConfig, check_strength, preset
from shortcut_guardrail.data import Texts, to_json, write_folder
from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning
from shortcut_guardrail.mitigation import (
    attach_adapter,
    first_of_equals,
    logits_by_strength,
    merged,
    predicted_change,
    relative_change,
    steps_to_take,
    train_adapter,
)
from shortcut_guardrail.models import EncodedTexts, TextClassifier, load_model
from shortcut_guardrail.strength import choose_strength, strengths_to_score
from shortcut_guardrail.typing import Progress

from ..finetuning import FinetuneConfig, Objective, seeded, train_in_place
from ..references import as_keyed
from ..systems import FittedSystem, Material, ModelSystem, Need
from .training import Stopwatch, as_config, require

Array = np.ndarray[Any, np.dtype[Any]]

# ---------------------------------------------------------------------------------------------------------------------
# No training at all
# ---------------------------------------------------------------------------------------------------------------------


def mean_over_variants(probs: Array, original: Array) -> Array:
    """The mean of the predicted distributions of a text's variants, shape (N, C).

    A text without variants, which has no ordinary token, keeps its own.

    Args:
        probs: Of the variants, shape (N, K, C), NaN for empty slots.
        original: Of the texts, shape (N, C).
    """
    empty = np.isnan(probs[..., :1])
    total, count = np.where(empty, 0.0, probs).sum(axis=1), (~empty).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), original).astype(np.float32)


@dataclass(frozen=True)
class MaskAverage:
    """Answer with the mean over a text's single-mask variants, those that the guardrail would train on.

    Attributes:
        name: The name in tables.
        top_k: Important tokens of a text, each masked in one variant. With 1, the most important token is masked and
            that variant answers.
    """

    name: str = "mask_average"
    top_k: int = 10

    def __post_init__(self) -> None:
        SaliencyConfig(top_k=self.top_k)

    @property
    def needs(self) -> frozenset[Need]:
        """Gradients alone."""
        return frozenset({Need.GRADIENTS})

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> FittedSystem:
        """Nothing is fitted."""
        return MaskedPredictor(material.scorer(material.base.model), self.top_k)


class MaskedPredictor:
    """A fitted system that masks before it answers.

    Args:
        classifier: The base classifier.
        top_k: See `MaskAverage`.
    """

    def __init__(self, classifier: TextClassifier, top_k: int) -> None:
        self._base = classifier
        self._top_k = top_k
        self._per_text = float(2 + top_k)

    @property
    def classifier(self) -> TextClassifier | None:
        """`None`: the answer is not one forward pass of a model."""
        return None

    @property
    def forward_equivalents(self) -> float:
        """0: nothing is fitted."""
        return 0.0

    def predict_proba(self, texts: Texts, *, progress: Progress | None = None) -> Array:
        """Class probabilities, shape (N, C), float32."""
        encoded = self._base.encode(texts)
        important = find_important_tokens(self._base, encoded, SaliencyConfig(top_k=self._top_k), progress=progress)
        effects = masking_effects(self._base, encoded, important.positions, progress=progress)
        if len(encoded):
            self._per_text = 2 + float((important.positions >= 0).sum()) / len(encoded)
        return mean_over_variants(effects.probs, important.probs)

    def info(self) -> dict[str, Any]:
        """No labels, and what an answer costs: 2 for the attribution, 1 a variant."""
        return {"labels_spent": 0, "seconds": {}, "forward_equivalents_per_text": self._per_text}

    def save(self, folder: Path) -> None:
        """Writes the base classifier and the number of tokens; `load` reads them.

        Raises:
            ConfigError: The folder exists.
            RunError: The disk is full, or the like.
        """
        base = self._base

        def fill(target: Path) -> None:
            base.model.save_pretrained(target)
            base.tokenizer.save_pretrained(target)
            record = {"top_k": self._top_k, "max_length": base.max_length, "precision": base.precision}
            (target / "system.json").write_text(to_json(record), encoding="utf-8")

        write_folder(Path(folder), fill, key="system.json")

    @classmethod
    def load(cls, folder: Path, *, batch_size: int = 64) -> MaskedPredictor:
        """What `save` wrote.

        Raises:
            ModelError: The folder holds no classifier.
            ConfigError: It was not written by `save`.
        """
        model, tokenizer = load_model(folder)
        try:
            record = json.loads((Path(folder) / "system.json").read_text(encoding="utf-8"))
            base = TextClassifier(
                model,
                tokenizer,
                max_length=record["max_length"],
                precision=record["precision"],
                batch_size=batch_size,
            )
            return cls(base, record["top_k"])
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(f"'{folder}' was not written by save ({error}).") from error


# ---------------------------------------------------------------------------------------------------------------------
# Adapters that do not look where the model looks
# ---------------------------------------------------------------------------------------------------------------------


def random_positions(encoded: EncodedTexts, k: int, rng: np.random.Generator) -> Array:
    """k ordinary tokens of every text drawn at random, shape (N, k), -1 where a text has fewer."""
    positions = np.full((len(encoded), k), -1, dtype=np.int32)
    for index, ordinary in enumerate(encoded.ordinary):
        places = rng.permutation(np.flatnonzero(ordinary))[:k]
        positions[index, : len(places)] = places
    return positions


@dataclass(frozen=True)
class RandomMaskCL:
    """The guardrail with its positives masked at random: contrast without attribution.

    Everything but the choice of the masked tokens is the guardrail's, its calibration included.

    Attributes:
        name: The name in tables.
        preset: The guardrail's preset.
        min_steps: Least number of optimiser steps; `None` takes the preset's.
        max_steps: Most optimiser steps; `None` takes the preset's.
        strength: A fixed strength in [0, 1]; `None` chooses it on the support set, which is then needed.

    Raises:
        ConfigError: An option is out of range.
    """

    name: str = "random_maskcl"
    preset: str = "default"
    min_steps: int | None = None
    max_steps: int | None = None
    strength: float | None = None
    guard_config: GuardrailConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.strength is not None:
            check_strength(self.strength)
        changes = {name: getattr(self, name) for name in ("min_steps", "max_steps")}
        config = preset(self.preset).with_adapter(**{k: v for k, v in changes.items() if v is not None})
        object.__setattr__(self, "guard_config", config)

    @property
    def needs(self) -> frozenset[Need]:
        """Deployment texts and gradients, and a support set unless the strength is fixed."""
        needs = {Need.DEPLOYMENT, Need.GRADIENTS}
        return frozenset(needs if self.strength is not None else needs | {Need.SUPPORT})

    def config(self) -> dict[str, Any]:
        """The guard's whole configuration, which has the steps, and every other option."""
        options = {name: value for name, value in as_config(self).items() if name not in ("min_steps", "max_steps")}
        return options | {"guard": as_keyed(self.guard_config)}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Train the adapter, choose its strength, merge it into a copy of the base classifier.

        Raises:
            DataError: Fewer than two distinct deployment texts have an ordinary token.
        """
        watch, guard = Stopwatch(), self.guard_config
        assert material.deployment is not None
        base = material.scorer(material.base.model, fitting=True)
        encoded = base.encode(material.deployment)
        with watch.time("adapt"):
            model, training, cost = self._train(base, encoded, guard, seed, progress)
        with watch.time("calibrate"):
            strength, calibration, labels = self._calibrate(base.with_model(model), material, guard)
        return ModelSystem(
            material.scorer(merged_model(material, model, strength)),
            info={
                "labels_spent": labels,
                "debias_strength": strength,
                "selection": {"rule": "support-accuracy" if calibration else "fixed", "oracle": False},
                "calibration": calibration,
                "training": training,
                "n_deployment": len(encoded),
                "seconds": watch.seconds,
            },
            forward_equivalents=cost + labels * len(strengths_to_score(guard.calibration)),
        )

    def _train(
        self,
        base: TextClassifier,
        encoded: EncodedTexts,
        guard: GuardrailConfig,
        seed: int,
        progress: Progress | None,
    ) -> tuple[Any, dict[str, Any], float]:
        """The PEFT model, the record of its training, and the forward equivalents."""
        k = guard.saliency.top_k
        positions, looked = self._masked(base, encoded, guard, seed)
        model, training = train_adapter(base, encoded, positions, guard.adapter, seed=seed, progress=progress)
        rows = min(training.n_steps * guard.adapter.batch_size, training.n_epochs * training.n_trained)
        return model, training.to_dict(), float(2 * rows * (k + 1)) + looked

    def _masked(
        self, base: TextClassifier, encoded: EncodedTexts, guard: GuardrailConfig, seed: int
    ) -> tuple[Array, float]:
        """Which tokens are masked, shape (N, k), and the forward equivalents of finding them."""
        return random_positions(encoded, guard.saliency.top_k, np.random.default_rng(seed)), 0.0

    def _calibrate(
        self, classifier: TextClassifier, material: Material, guard: GuardrailConfig
    ) -> tuple[float, dict[str, Any] | None, int]:
        if self.strength is not None:
            return self.strength, None, 0
        support = material.support
        assert support is not None
        grid = strengths_to_score(guard.calibration)
        logits = logits_by_strength(classifier, classifier.encode(support.texts), grid)
        found = choose_strength(logits, support.labels, guard.calibration)
        return found.strength, found.to_dict(), len(support)


def merged_model(material: Material, model: Any, strength: float) -> Any:
    """A Transformers model with an adapter's change at a strength in its weights; at 0 the base model itself.

    Args:
        material: Holds the base classifier, which is left as it is.
        model: A PEFT model around it.
        strength: In [0, 1].
    """
    if strength == 0:
        return material.base.model
    base = material.scorer(material.base.model)
    with merged(base, model, strength):
        return copy.deepcopy(base.plain_model)


def simcse_loss(anchors: Tensor, positives: Tensor, temperature: float) -> Tensor:
    """-mean_i log softmax_i'(cos(a_i, p_i') / tau)_i: unsupervised SimCSE, one direction, a scalar.

    Args:
        anchors: Embeddings under one dropout mask, shape (B, H).
        positives: Of the same texts under another, shape (B, H).
        temperature: tau.
    """
    similarity = F.normalize(anchors.float(), dim=-1) @ F.normalize(positives.float(), dim=-1).T / temperature
    return F.cross_entropy(similarity, torch.arange(len(similarity), device=similarity.device))


class _DropoutContrast(Objective):
    """Each text twice in one forward pass, so that dropout is the only difference."""

    def __init__(self, classifier: TextClassifier, encoded: EncodedTexts, temperature: float, embedding: Any) -> None:
        self._classifier = classifier
        self._encoded = encoded
        self._temperature = temperature
        self._embedding = embedding

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        batch = self._classifier.collate(self._encoded, rows.tolist())
        twice = torch.arange(len(rows), device=batch.input_ids.device).repeat(2)
        both = self._classifier.embed(batch.copies(batch.input_ids[twice], twice), self._embedding)
        anchors, positives = both.chunk(2)
        return simcse_loss(anchors, positives, self._temperature)


@dataclass(frozen=True)
class SimCSEAdapter(RandomMaskCL):
    """An adapter of the guardrail's size and movement whose positives differ from their text by dropout alone.

    Attributes:
        temperature: tau of SimCSE.
    """

    name: str = "simcse_adapter"
    temperature: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.temperature > 0, f"temperature must be above 0, but is {self.temperature}.")

    def _train(
        self,
        base: TextClassifier,
        encoded: EncodedTexts,
        guard: GuardrailConfig,
        seed: int,
        progress: Progress | None,
    ) -> tuple[Any, dict[str, Any], float]:
        started, adapter = time.perf_counter(), guard.adapter
        kept = first_of_equals(encoded, np.arange(len(encoded)))
        require(
            len(kept) > 1,
            f"'{self.name}' needs at least 2 distinct deployment texts, but has {len(kept)}.",
            DataError,
        )
        encoded = encoded.select(kept)
        plain = _without_fast_paths(base)
        with seeded(seed):
            model = attach_adapter(plain, adapter)
        self._warn_without_dropout(base)
        per_epoch = math.ceil(len(encoded) / adapter.batch_size)
        epochs = max(1, math.ceil(steps_to_take(len(encoded), adapter) / per_epoch))
        steps, linear = epochs * per_epoch, adapter.scheduler == "linear"
        per_unit = predicted_change(model, 1.0, (steps + 1) / 2 if linear else steps)
        rate = adapter.target_change / per_unit if adapter.target_change else adapter.learning_rate
        losses = train_in_place(
            model,
            base.tokenizer,
            encoded.texts,
            self._objective(plain.with_model(model), encoded, adapter, seed),
            config=FinetuneConfig(
                learning_rate=rate,
                epochs=epochs,
                batch_size=adapter.batch_size,
                weight_decay=adapter.weight_decay,
                warmup_ratio=adapter.warmup_ratio,
                max_grad_norm=adapter.max_grad_norm,
                max_length=base.max_length,
                scheduler="linear" if linear else "constant",
            ),
            seed=seed,
            progress=progress,
        )
        training = {
            "losses": list(losses),
            "n_steps": steps,
            "n_epochs": epochs,
            "n_trained": len(encoded),
            "learning_rate": rate,
            "relative_change": relative_change(model),
            "seconds": time.perf_counter() - started,
        }
        return model, training, float(epochs * len(encoded) * 2 * 2)

    def _objective(
        self, classifier: TextClassifier, encoded: EncodedTexts, adapter: AdapterConfig, seed: int
    ) -> Objective:
        return _DropoutContrast(classifier, encoded, self.temperature, adapter.embedding)

    def _warn_without_dropout(self, base: TextClassifier) -> None:
        inside = base.plain_model.base_model.modules()  # the head's dropout is behind what is contrasted
        if not any(module.p for module in inside if isinstance(module, torch.nn.Dropout)):
            warnings.warn(
                f"'{self.name}' contrasts two passes that differ by dropout, but this encoder has none: every text is "
                "contrasted with itself, and the adapter learns from other texts alone.",
                GuardrailWarning,
                stacklevel=3,
            )


def _without_fast_paths(base: TextClassifier) -> TextClassifier:
    """The same classifier as its model computes it in training."""
    return TextClassifier(
        base.plain_model,
        base.tokenizer,
        head=base.head,
        max_length=base.max_length,
        batch_size=base.batch_size,
        precision=base.precision,
        packing=False,
    )
