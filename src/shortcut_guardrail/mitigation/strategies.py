"""How to neutralise: the strategies by name, behind one interface.

`neutralise` is given what to neutralise (`Targets`), or labelled texts to learn it from, and returns a `Guard`: the
base model at any debiasing strength, where strength 0 is the base itself. Whoever predicts, audits or calibrates needs
to know no more than that.

| strategy | what training does | what strength s does |
|---|---|---|
| `maskcl` | the paper's masked contrastive learning | W_T + s W_LoRA |
| `distill` | counterfactual distillation, see `distill` | W_T + s W_LoRA |
| `few-shot` | cross-entropy on labelled texts, see `few_shot` | W_T + s W_LoRA |
| `mask` | nothing | a shortcut's word vector e becomes (1 - s) e + s e_[MASK] |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..attribution import find_important_tokens
from ..config import GuardrailConfig
from ..models import EncodedTexts, TextClassifier
from ..strength import Calibration, choose_strength, strengths_to_score
from ..text import TargetFinder
from ..typing import Array, Progress
from .distillation import counterfactual, distill_adapter
from .few_shot import cross_validated_logits, few_shot_adapter
from .guards import AdapterGuard, Guard, MaskGuard
from .maskcl import texts_drawn, train_adapter
from .training import AdapterTraining

# Training


@dataclass(frozen=True, eq=False)
class Task:
    """What a strategy is given.

    Attributes:
        base: The base model.
        encoded: N unlabelled deployment texts.
        targets: What to neutralise; `maskcl` and `few-shot` need none but for `per_input`.
        config: The strategy and all its options.
        seed: The same seed gives the same guard.
        support: n labelled texts and their class ids, shape (n,), for `few-shot`.
        lap: Told the name of every stage before the last when it is over.
        progress: Told how much of each stage is done.
    """

    base: TextClassifier
    encoded: EncodedTexts
    targets: TargetFinder
    config: GuardrailConfig
    seed: int
    support: tuple[EncodedTexts, Array] | None = None
    lap: Callable[[str], None] = lambda _stage: None
    progress: Progress | None = None

    def adapter_guard(self, model: Any) -> AdapterGuard:
        """A guard around what was trained."""
        return AdapterGuard(self.base, model, self.targets if self.config.per_input else None)


@dataclass(frozen=True, eq=False)
class Trained:
    """What a strategy returns.

    Attributes:
        guard: The guard.
        training: The record of its training.
        calibration: How its strength was chosen, where the strategy has to do that itself.
    """

    guard: Guard
    training: AdapterTraining
    calibration: Calibration | None = None


def neutralise(task: Task) -> Trained:
    """Do what the configuration's strategy does."""
    return _STRATEGIES[task.config.strategy](task)


def _maskcl(task: Task) -> Trained:
    config = task.config
    drawn = texts_drawn(task.encoded, config.adapter, seed=task.seed)
    positions = np.full((len(task.encoded), config.saliency.top_k), -1, dtype=np.int32)
    important = find_important_tokens(task.base, task.encoded.select(drawn), config.saliency, progress=task.progress)
    positions[drawn] = important.positions
    task.lap("attribute")
    model, training = train_adapter(
        task.base,
        task.encoded,
        positions,
        config.adapter,
        seed=task.seed,
        saliency=config.saliency,
        progress=task.progress,
    )
    return Trained(task.adapter_guard(model), training)


def _distill(task: Task) -> Trained:
    config, targets = task.config, task.targets
    target = counterfactual(task.base, task.encoded, targets, config.distill, progress=task.progress)
    task.lap("teacher")
    model, training = distill_adapter(
        task.base,
        task.encoded,
        target,
        targets,
        config.adapter,
        config.distill,
        seed=task.seed,
        progress=task.progress,
    )
    return Trained(task.adapter_guard(model), training)


def _few_shot(task: Task) -> Trained:
    assert task.support is not None  # fit has seen to that
    config, (texts, labels) = task.config, task.support
    grid = strengths_to_score(config.calibration)
    logits = cross_validated_logits(
        task.base, texts, labels, config.adapter, grid, seed=task.seed, progress=task.progress
    )
    calibration = replace(choose_strength(logits, labels, config.calibration), cross_validated=True)
    task.lap("cross-validate")
    model, training = few_shot_adapter(task.base, texts, labels, config.adapter, seed=task.seed, progress=task.progress)
    return Trained(task.adapter_guard(model), training, calibration)


def _mask(task: Task) -> Trained:
    return Trained(MaskGuard(task.base, task.targets), AdapterTraining.none(len(task.encoded)))


_STRATEGIES: dict[str, Callable[[Task], Trained]] = {
    "maskcl": _maskcl,
    "distill": _distill,
    "few-shot": _few_shot,
    "mask": _mask,
}
