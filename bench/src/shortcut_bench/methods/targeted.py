"""The guardrail's strategies that go beyond the paper, as systems: what they neutralise is found without labels.

docs/explanation/strategies.md has their formulas. `guardrail-distill` spends no label: shortcuts from the audit of the
deployment texts, strength from `strength.unsupervised`. `guardrail-distill-40` spends the support set on both.
`guardrail-distill-named` is told the words beside what it finds. `guardrail-few-shot` looks for no words and learns
from the support set itself.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shortcut_guardrail.config import GuardrailConfig, preset
from shortcut_guardrail.data import Texts, to_json, write_folder
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.guardrail import ShortcutGuardrail
from shortcut_guardrail.mitigation import FOLDS, steps_to_take
from shortcut_guardrail.models import TextClassifier
from shortcut_guardrail.strength import strengths_to_score
from shortcut_guardrail.typing import Progress

from ..guards import folded
from ..references import as_keyed
from ..systems import SYSTEM_FILE, FittedSystem, Material, ModelSystem, Need
from .training import as_config

Array = np.ndarray[Any, np.dtype[Any]]

BASE_FOLDER = "base"
GUARD_FOLDER = "guard"

_RULES = {
    False: "divergence without labels",
    True: "divergence without labels, unless the support set is evidence against it",
}


@dataclass(frozen=True)
class Targeted:
    """`distill` or `mask`: words and phrases that the audit finds are neutralised, everything else is left alone.

    Attributes:
        name: The name in tables.
        strategy: `distill` or `mask`.
        per_input: Texts without a target keep the base's answer; `mask` does so in any case.
        labels: Use the support set too, to confirm and clear shortcuts and to overrule the strength; else both are
            chosen from the unlabelled deployment texts alone.
        min_steps: Least number of optimiser steps of `distill`; `None` takes the preset's.
        max_steps: Most optimiser steps; `None` takes the preset's.

    Raises:
        ConfigError: An option is out of range.
    """

    name: str = "guardrail-distill"
    strategy: Literal["distill", "mask"] = "distill"
    per_input: bool = False
    labels: bool = False
    min_steps: int | None = None
    max_steps: int | None = None
    guard_config: GuardrailConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.strategy not in ("distill", "mask"):
            raise ConfigError(f"strategy must be distill or mask, but is {self.strategy!r}.")
        config = replace(preset(self.strategy), per_input=self.per_input)
        changes = {name: getattr(self, name) for name in ("min_steps", "max_steps")}
        config = config.with_adapter(**{name: value for name, value in changes.items() if value is not None})
        object.__setattr__(self, "guard_config", config)

    @property
    def needs(self) -> frozenset[Need]:
        """Deployment texts and gradients, and the support set where labels have a say."""
        needs = {Need.DEPLOYMENT, Need.GRADIENTS}
        return frozenset(needs | {Need.SUPPORT} if self.labels else needs)

    def config(self) -> dict[str, Any]:
        """Every option, and the guard's whole configuration."""
        rule = {"dial": _RULES[True]} if self.labels else {}
        return {**as_config(self), "guard": as_keyed(self.guard_config), **rule}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> FittedSystem:
        """Finds shortcuts, fits, and chooses the strength."""
        assert material.deployment is not None
        guard = material.guard()
        support = None
        if self.labels:
            assert material.support is not None
            support = (material.support.texts, material.support.labels.tolist())
        config = self._config_for(material)
        report = guard.fit(material.deployment, config=config, seed=seed, support=support, progress=progress)
        started = time.perf_counter()
        dial = guard.calibrate_without_labels(material.deployment, progress=progress)
        calibration = dial.to_dict()
        if support is not None:
            calibration = guard.calibrate(*support, without_labels=dial, progress=progress).to_dict()
            calibration |= {"unlabelled": dial.to_dict()}
        seconds = {**report.seconds, "calibrate": time.perf_counter() - started}
        n_support = 0 if support is None else len(support[1])
        info = {
            "debias_strength": guard.debias_strength,
            "labels_spent": n_support,
            "selection": {"rule": _RULES[self.labels], "oracle": False},
            "calibration": calibration,
            "training": report.training.to_dict(),
            "shortcuts": report.shortcuts.to_dict(),
            "n_deployment": len(material.deployment),
            "seconds": seconds,
        }
        cost = self._forward_equivalents(report.training.n_steps, len(material.deployment), n_support, dial.n)
        if self.strategy == "distill" and not self.per_input:
            return ModelSystem(material.scorer(folded(guard, material)), info=info, forward_equivalents=cost)
        base = material.scorer(material.base.model)
        with tempfile.TemporaryDirectory() as folder:  # read back with the number format of scoring
            guard.save_pretrained(Path(folder) / GUARD_FOLDER)
            scoring = _read_guard(Path(folder), base)
        return GuardedSystem(base, scoring, info=info, forward_equivalents=cost)

    def _config_for(self, material: Material) -> GuardrailConfig:
        return self.guard_config

    def _forward_equivalents(self, n_steps: int, n_deployment: int, n_support: int, n_dialled: int) -> float:
        """2 a text for attribution, up to k each for masking words and phrases, 2 for the teacher and the text itself,
        2 a trained text, 1 a strength and text that it is chosen on, and for the unlabelled ones as many more as the
        teacher takes, whose answer is to be met. An estimate, like `Guardrail`'s."""
        config = self.guard_config
        found = n_deployment * (2 + 2 * config.shortcuts.top_k) + n_support * config.shortcuts.max_considered
        taught = 2 * n_deployment if self.strategy == "distill" else 0
        n_strengths = len(strengths_to_score(config.calibration))
        dialled = n_dialled * (n_strengths + 2) + n_support * n_strengths
        return float(found + taught + 2 * n_steps * config.adapter.batch_size + dialled)


@dataclass(frozen=True)
class Influential(Targeted):
    """The same with words and phrases taken along on which many answers hang, as `fit --take-influential` does."""

    name: str = "guardrail-distill-influential"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "guard_config", self.guard_config.with_shortcuts(take_influential=True))


@dataclass(frozen=True)
class Named(Targeted):
    """The same where somebody names the shortcut's words, as `fit --shortcut` lets a user do."""

    name: str = "guardrail-distill-named"

    @property
    def needs(self) -> frozenset[Need]:
        """The words too."""
        return super().needs | {Need.SHORTCUT_WORDS}

    def _config_for(self, material: Material) -> GuardrailConfig:
        assert material.shortcut_words is not None
        return self.guard_config.with_shortcuts(named=material.shortcut_words)


@dataclass(frozen=True)
class Taught:
    """`few-shot`: the adapter learns from the support rows, and its strength is cross-validated on them.

    Attributes:
        name: The name in tables.
        min_steps: Least number of optimiser steps; `None` takes the preset's.
        max_steps: Most optimiser steps; `None` takes the preset's.

    Raises:
        ConfigError: An option is out of range.
    """

    name: str = "guardrail-few-shot"
    min_steps: int | None = None
    max_steps: int | None = None
    guard_config: GuardrailConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        changes = {"min_steps": self.min_steps, "max_steps": self.max_steps}
        given = {name: value for name, value in changes.items() if value is not None}
        object.__setattr__(self, "guard_config", preset("few-shot").with_adapter(**given))

    @property
    def needs(self) -> frozenset[Need]:
        """Support rows and gradients."""
        return frozenset({Need.SUPPORT, Need.GRADIENTS})

    def config(self) -> dict[str, Any]:
        """Every option, and the guard's whole configuration."""
        return {**as_config(self), "guard": as_keyed(self.guard_config)}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> FittedSystem:
        """Cross-validates the strength, and trains on all support rows.

        Raises:
            DataError: The support rows are of a single class.
        """
        support = material.support
        assert support is not None
        guard = material.guard()
        labelled = (support.texts, support.labels.tolist())
        report = guard.fit(support.texts, config=self.guard_config, seed=seed, support=labelled, progress=progress)
        assert report.calibration is not None
        info = {
            "debias_strength": guard.debias_strength,
            "labels_spent": len(support),
            "selection": {"rule": "cross-validated support accuracy", "oracle": False, "folds": FOLDS},
            "calibration": report.calibration.to_dict(),
            "training": report.training.to_dict(),
            "seconds": report.seconds,
        }
        scorer = material.scorer(folded(guard, material))
        return ModelSystem(scorer, info=info, forward_equivalents=self._forward_equivalents(len(support)))

    def _forward_equivalents(self, n: int) -> float:
        """2 a text trained on, in each fold and at last, and 1 a strength and text that it is chosen on."""
        adapter = self.guard_config.adapter
        folds = min(FOLDS, n)
        taught = [n - size for size in np.bincount(np.arange(n) % folds)] + [n]
        trained = sum(steps_to_take(size, adapter) * min(adapter.batch_size, size) for size in taught)
        return float(2 * trained + n * len(strengths_to_score(self.guard_config.calibration)))


class GuardedSystem:
    """A fitted guard whose answers are not those of one sequence classifier.

    Args:
        base: The base classifier.
        guard: The guard around it, at the strength it answers with.
        info: See `FittedSystem.info`.
        forward_equivalents: See `FittedSystem.forward_equivalents`.
    """

    def __init__(
        self, base: TextClassifier, guard: ShortcutGuardrail, *, info: dict[str, Any], forward_equivalents: float
    ) -> None:
        self._base = base
        self._guard = guard
        self._info = info
        self._forward_equivalents = forward_equivalents

    @property
    def classifier(self) -> TextClassifier | None:
        """`None`: which texts are changed depends on the words in them."""
        return None

    @property
    def forward_equivalents(self) -> float:
        """What fitting cost, in forward passes of one text."""
        return self._forward_equivalents

    def predict_proba(self, texts: Texts, *, progress: Progress | None = None) -> Array:
        """Class probabilities, shape (N, C), float32."""
        return np.asarray(self._guard.predict_proba(texts, progress=progress))

    def info(self) -> dict[str, Any]:
        """Shortcuts, strength, labels spent and seconds per stage."""
        return dict(self._info)

    def save(self, folder: Path) -> None:
        """Writes the base classifier, the guard beside it and `system.json`; `load` reads them.

        Raises:
            ConfigError: The folder exists.
            RunError: The disk is full, or the like.
        """

        def fill(target: Path) -> None:
            ModelSystem(self._base).save(target / BASE_FOLDER)
            self._guard.save_pretrained(target / GUARD_FOLDER)
            record = {"info": self._info, "forward_equivalents": self._forward_equivalents}
            (target / SYSTEM_FILE).write_text(to_json(record), encoding="utf-8")

        write_folder(Path(folder), fill, key=SYSTEM_FILE)

    @classmethod
    def load(cls, folder: Path, record: dict[str, Any], *, batch_size: int = 64) -> GuardedSystem:
        """What `save` wrote.

        Raises:
            ModelError: The folder holds no guard.
            ConfigError: It was not written by `save`.
        """
        base = ModelSystem.load(Path(folder) / BASE_FOLDER, batch_size=batch_size).classifier
        assert base is not None
        guard = _read_guard(Path(folder), base)
        return cls(base, guard, info=record["info"], forward_equivalents=record["forward_equivalents"])


def _read_guard(folder: Path, base: TextClassifier) -> ShortcutGuardrail:
    """The saved guard around a base classifier, with its batch size and number format."""
    return ShortcutGuardrail.from_pretrained(
        folder / GUARD_FOLDER, base=base.plain_model, batch_size=base.batch_size, precision=base.precision
    )
