"""How to take a shortcut's effect away: one object a strategy, with what it needs and does.

A strategy is given shortcuts, or labelled texts to learn from, and returns a `Guard`: the base model at any
debiasing strength, where strength 0 is the base itself. Whoever predicts, audits or calibrates needs to know no more.

| strategy | what training does | what strength s does |
|---|---|---|
| `maskcl` | the paper's masked contrastive learning | W_T + s W_LoRA |
| `distill` | counterfactual distillation, see `distillation` | W_T + s W_LoRA |
| `few-shot` | cross-entropy on labelled texts, see `few_shot` | W_T + s W_LoRA |
| `mask` | nothing | a shortcut's word vector e becomes (1 - s) e + s e_[MASK] |
| `mask` of what only answers | nothing | log-probabilities are mixed with those of the text without shortcuts |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..attribution import find_important_tokens
from ..classifiers import require
from ..config import GuardrailConfig
from ..models import EncodedTexts, Reader, TextClassifier
from ..shortcuts import Shortcuts
from ..strength import Calibration, choose_strength, strengths_to_score
from ..text import WordFinder
from ..typing import Array, Capability, Progress
from .distillation import counterfactual, distill_adapter
from .few_shot import cross_validated_logits, few_shot_adapter
from .guards import AdapterGuard, CutGuard, Guard, MaskGuard
from .maskcl import texts_drawn, train_adapter
from .training import AdapterTraining


@dataclass(frozen=True, eq=False)
class Task:
    """What a strategy is given.

    Attributes:
        encoded: N unlabelled deployment texts.
        shortcuts: Words to remove reliance on; `maskcl` and `few-shot` need none but for `per_input`.
        support: n labelled texts and their class ids, shape (n,), for `few-shot`.
        asked: The base, which keeps what it answers; the base itself otherwise.
        lap: Told the name of every stage before the last when it is over.
    """

    base: TextClassifier
    encoded: EncodedTexts
    shortcuts: Shortcuts
    config: GuardrailConfig
    seed: int
    support: tuple[EncodedTexts, Array] | None = None
    asked: Reader | None = None
    lap: Callable[[str], None] = lambda _stage: None
    progress: Progress | None = None


Trained = tuple[Any | None, AdapterTraining, Calibration | None]
"""What a strategy returns: the PEFT model, where it trains one, the record of its training, and how its strength was
chosen, where it has to do that itself."""


class Strategy(ABC):
    """One way to take a shortcut's effect away.

    Attributes:
        card: What a guard of this kind is, a sentence for its model card.
        needs_shortcuts: Whether it has to know which words are shortcuts.
        needs: What the base model has to be able to do.
        learns_from_labels: Whether it learns from labelled texts, and from nothing else. It then chooses its strength
            itself, by cross-validation.
    """

    name: ClassVar[str]
    card: ClassVar[str]
    needs_shortcuts: ClassVar[bool] = False
    learns_from_labels: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    needs: ClassVar[tuple[Capability, ...]] = ("adapts",)

    @abstractmethod
    def train(self, task: Task) -> Trained:
        """Do what the strategy does, with the task's configuration."""

    def guard(self, base: Any, config: GuardrailConfig, finder: WordFinder, model: Any | None) -> Guard:
        """The guard around what was trained, now or before; arguments as in `Task`, and the model."""
        return AdapterGuard(base, model, finder if config.per_input else None)


class _MaskCL(Strategy):
    name = "maskcl"
    card = "A LoRA adapter that lowers a text classifier's reliance on shortcut tokens."
    needs = ("adapts", "masks")

    def train(self, task: Task) -> Trained:
        """Masked contrastive learning, on the tokens that saliency finds important (paper Sections 3.2 and 3.3)."""
        config = task.config
        drawn = texts_drawn(task.encoded, config.adapter, seed=task.seed)
        positions = np.full((len(task.encoded), config.saliency.top_k), -1, dtype=np.int32)
        important = find_important_tokens(
            task.base, task.encoded.select(drawn), config.saliency, progress=task.progress
        )
        positions[drawn] = important.positions
        task.lap("attribute")
        model, training = train_adapter(
            task.base, task.encoded, positions, config.adapter, seed=task.seed, progress=task.progress
        )
        return model, training, None


class _Distill(Strategy):
    name = "distill"
    card = "A LoRA adapter that makes a text classifier predict as if known shortcut words were not there."
    needs_shortcuts = True

    def train(self, task: Task) -> Trained:
        """Distillation of the base's answers to texts without the shortcuts."""
        asked, progress = task.asked or task.base, task.progress
        target = counterfactual(asked, task.encoded, task.shortcuts, seed=task.seed, progress=progress)
        task.lap("teacher")
        config, finder = task.config, task.shortcuts.finder
        model, training = distill_adapter(
            task.base, task.encoded, target, finder, config, seed=task.seed, progress=task.progress
        )
        return model, training, None


class _FewShot(Strategy):
    name = "few-shot"
    card = "A LoRA adapter that a few labelled texts taught a text classifier what to rely on."
    learns_from_labels = True

    def train(self, task: Task) -> Trained:
        """Cross-entropy on the support set; cross-validation on it chooses the strength."""
        assert task.support is not None  # fit has seen to that
        config, (texts, labels) = task.config, task.support
        grid = strengths_to_score(config.calibration)
        logits = cross_validated_logits(
            task.base, texts, labels, config.adapter, grid, seed=task.seed, progress=task.progress
        )
        calibration = replace(choose_strength(logits, labels, config.calibration), cross_validated=True)
        task.lap("cross-validate")
        model, training = few_shot_adapter(
            task.base, texts, labels, config.adapter, seed=task.seed, progress=task.progress
        )
        return model, training, calibration


class _Mask(Strategy):
    name = "mask"
    card = "A filter that removes known shortcut words from a text before a classifier sees it."
    needs_shortcuts = True
    trains = False
    needs = ()

    def train(self, task: Task) -> Trained:
        """Nothing is trained: words are masked when the guard answers."""
        return None, AdapterTraining(len(task.encoded)), None

    def guard(self, base: Any, _config: GuardrailConfig, finder: WordFinder, _model: Any | None) -> Guard:
        """See `Strategy`."""
        if "adapts" not in base.capabilities:
            return CutGuard(base, finder)
        require(base, "masks", "the strategy 'mask'", otherwise="strategy='distill' does without. ")
        return MaskGuard(base, finder)


STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in (_MaskCL(), _Distill(), _FewShot(), _Mask())}


def strategy_of(config: GuardrailConfig) -> Strategy:
    """The strategy that a configuration names."""
    return STRATEGIES[config.strategy]


def uses_shortcuts(config: GuardrailConfig) -> bool:
    """Whether the guard has to know which words and phrases are shortcuts."""
    return strategy_of(config).needs_shortcuts or config.per_input
