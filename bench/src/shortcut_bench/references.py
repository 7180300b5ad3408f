"""The systems that belong to the harness itself.

`erm` is the base classifier as it is, `oracle` the base classifier on texts from which the known shortcut was removed,
`clean` the same encoder trained without the shortcut. And there is the guardrail.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from shortcut_guardrail.config import GuardrailConfig, check_strength, preset
from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.guardrail import ShortcutGuardrail
from shortcut_guardrail.strength import strengths_to_score
from shortcut_guardrail.typing import Progress

from .guards import folded
from .systems import Material, ModelSystem, Need, System


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


def as_keyed(config: GuardrailConfig) -> dict[str, Any]:
    """A configuration as runs are known by; those from before a setting was one went by its default."""
    values = config.to_dict()
    for name, default in (("erasure", "auto"), ("not_alone", ())):
        if getattr(config.shortcuts, name) == default:
            del values["shortcuts"][name]
    return values


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
        return {"guard": as_keyed(self.guard_config), "strength": self.strength, "n_support": self.n_support}

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
                return guard, {"training": asdict(record.training), "seconds": record.seconds}
        guard = material.guard()
        report = guard.fit(deployment, config=self.guard_config, seed=seed, progress=progress).to_dict()
        if folder is not None:
            guard.save_pretrained(folder, overwrite=True)  # another process may have made the same in the meantime
        return guard, report

    def _key(self, material: Material, deployment: Texts, seed: int) -> str:
        identity = {
            "base": material.scorer(material.base.model).fingerprint(),
            "deployment": hashlib.sha256(json.dumps(deployment, ensure_ascii=False).encode()).hexdigest(),
            "guard": as_keyed(self.guard_config),
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


REFERENCES: dict[str, Callable[..., System]] = {
    "erm": Erm,
    "oracle": Oracle,
    "clean": Clean,
    "guardrail": Guardrail,
    "guardrail-paper": lambda **options: Guardrail(**{"name": "guardrail-paper", "preset": "paper", **options}),
}
"""The references by name."""
