"""Both at once: a training-time method's classifier, repaired on the deployment texts as any deployed one would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from shortcut_guardrail.typing import Progress

from ..systems import Material, ModelSystem, Need, System
from .bias_only import BiasOnly
from .c2l import C2L
from .targeted import Targeted
from .training import as_config, require

TRAINERS: dict[str, Callable[..., System]] = {
    "poe-bow": partial(BiasOnly, name="poe-bow", bias="bag"),
    "c2l": C2L,
}
"""The training-time methods that come first, none of which is told words or groups."""


@dataclass(frozen=True)
class TrainedThenGuarded:
    """A training-time method, and `guardrail-distill` on what it trained; no label of the target is read.

    Attributes:
        name: The name in tables.
        trainer: The method that comes first, one of `TRAINERS`.
        options: Its options.
        min_steps: Least number of optimiser steps of `distill`; `None` takes the preset's.
        max_steps: Most optimiser steps of `distill`; `None` takes the preset's.

    Raises:
        ConfigError: The method is unknown, or an option is out of range.
    """

    name: str = "poe-bow+distill"
    trainer: str = "poe-bow"
    options: Mapping[str, Any] = field(default_factory=dict)
    min_steps: int | None = None
    max_steps: int | None = None
    first: System = field(init=False, repr=False)
    repair: Targeted = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = ", ".join(TRAINERS)
        require(self.trainer in TRAINERS, f"trainer must be one of {known}, but is {self.trainer!r}.")
        try:
            first = TRAINERS[self.trainer](**self.options)
        except TypeError as error:
            require(False, f"options has one that {self.trainer} does not take: {error}.")
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "repair", Targeted(min_steps=self.min_steps, max_steps=self.max_steps))

    @property
    def needs(self) -> frozenset[Need]:
        """What the method that comes first needs, and the deployment texts. The repaired model is its own."""
        return self.first.needs | {Need.DEPLOYMENT}

    def config(self) -> dict[str, Any]:
        """Every option of both."""
        return {**as_config(self), "options": self.first.config(), "repair": self.repair.config()}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Train on the training rows alone, then find words in the deployment texts and repair what was trained.

        Raises:
            RunError: Training diverged.
        """
        trained = self.first.fit(material.for_needs(self.first.needs), seed=seed, progress=progress)
        classifier = trained.classifier
        assert classifier is not None
        base = replace(material.base, model=classifier.plain_model, tokenizer=classifier.tokenizer)
        repaired = self.repair.fit(replace(material, base=base), seed=seed, progress=progress)
        assert repaired.classifier is not None
        before, after = trained.info(), repaired.info()
        rules = [info["selection"]["rule"] for info in (before, after)]
        seconds = {**before["seconds"], **{f"repair, {name}": took for name, took in after["seconds"].items()}}
        return ModelSystem(
            repaired.classifier,
            info={
                "labels_spent": before["labels_spent"] + after["labels_spent"],
                "debias_strength": after["debias_strength"],
                "selection": {**before["selection"], "rule": ", then ".join(rules)},
                "trained": before,
                "repaired": after,
                "seconds": seconds,
            },
            forward_equivalents=trained.forward_equivalents + repaired.forward_equivalents,
        )
