"""What the training-time methods share: a recipe, a fine-tuning with the epoch chosen by a rule, and its cost."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortcut_guardrail.errors import ConfigError, GuardrailError, RunError
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning import (
    Checkpoints,
    FinetuneConfig,
    FinetuneResult,
    Objective,
    Resumable,
    finetune_classifier,
)
from ..systems import Material, ModelSystem, Need
from .selection import Rule, missing_groups

Array = np.ndarray[Any, np.dtype[Any]]
Recipe = str | Mapping[str, Any]
"""`source`, `base`, or fields of `FinetuneConfig` that replace those of the source's recipe."""

TRAIN_PASS = 3
"""Forward equivalents of a training pass over one text: one forward, and a backward to weights and activations."""


def resolve_recipe(recipe: Recipe, source: FinetuneConfig, material: Material) -> FinetuneConfig:
    """The recipe to train with.

    Args:
        recipe: `source` takes the values of the method's own paper or code, which are for BERT-base and many thousand
            texts; `base` takes what the base classifier was trained with, so that a comparison differs in the method
            alone; a mapping replaces single fields of the source's.
        source: The source's values.
        material: Says how long inputs are and how matrices are multiplied, and knows the base's recipe.

    Raises:
        ConfigError: It is none of these, or a field is unknown or out of range.
    """
    if recipe == "base":
        return material.base.recipe
    changes: dict[str, Any] = {"max_length": material.max_length, "precision": material.precision}
    if isinstance(recipe, Mapping):
        changes |= dict(recipe)
    try:
        return dataclasses.replace(source, **changes)
    except TypeError as error:
        known = ", ".join(field.name for field in dataclasses.fields(FinetuneConfig))
        raise ConfigError(f"recipe has a field that does not exist ({error}); the fields are {known}.") from error


def check_recipe(recipe: Recipe) -> None:
    """Refuse what `resolve_recipe` would, as far as it shows without material.

    Raises:
        ConfigError: It is no known name and no mapping, or a field is unknown or out of range.
    """
    if isinstance(recipe, Mapping):
        try:
            FinetuneConfig(**recipe)
        except TypeError as error:
            raise ConfigError(f"recipe has a field that does not exist ({error}).") from error
    elif recipe not in ("source", "base"):
        raise ConfigError(f"recipe must be source, base or a table of FinetuneConfig fields, but is {recipe!r}.")


@dataclass(frozen=True)
class Trained:
    """A classifier from one fine-tuning, at the epoch that the rule chose.

    Attributes:
        result: The fine-tuning; its model holds the weights of the chosen epoch.
        score: The rule's score of that epoch; `None` where the rule compares nothing.
        epoch: The chosen epoch, from 0.
        scores: The rule's score of every epoch.
        cost: Forward equivalents of training and of scoring.
    """

    result: FinetuneResult
    score: float | None
    epoch: int
    scores: tuple[float, ...]
    cost: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"epoch": self.epoch, "epoch_scores": list(self.scores), **self.result.to_dict()}


@dataclass(frozen=True)
class Changes:
    """What a method changes about fine-tuning the pretrained encoder by cross-entropy.

    Attributes:
        objective: What is minimised; cross-entropy by default.
        sampling_weights: See `finetune.finetune_classifier`.
        on_epoch_end: Called after each epoch, before it is scored.
        pass_cost: Forward equivalents of training on one text once.
        fit: The fine-tuning, where it is not that of the pretrained encoder; takes the arguments of
            `finetune.finetune_classifier` but encoder and label names.
        tokenizer: Its tokenizer, where that is not the base classifier's.
    """

    objective: Objective | None = None
    sampling_weights: Array | None = None
    on_epoch_end: Callable[[int, Any], None] | None = None
    pass_cost: float = TRAIN_PASS
    fit: Callable[..., FinetuneResult] | None = None
    tokenizer: Any | None = None


def train(
    material: Material,
    rows: LabelledTexts,
    recipe: FinetuneConfig,
    rule: Rule,
    *,
    stage: str,
    watch: Stopwatch,
    seed: int,
    changes: Changes | None = None,
    spend: Callable[[float], None] = lambda cost: None,
    progress: Progress | None = None,
) -> Trained:
    """Fine-tune, score the model on the rule's rows after every epoch, and keep the best epoch, the first of equals.

    Args:
        material: Holds the encoder to start from, and the dev or support set that the rule reads.
        rows: What to train on.
        recipe: How.
        rule: Which epoch is kept.
        stage: What tells this fine-tuning from the others of the method; with recipe, rows and seed the name of its
            checkpoints.
        watch: Running; told what the fine-tuning took before it went on from a checkpoint.
        seed: Decides head, order and dropout.
        changes: What the method changes; nothing by default.
        spend: Told the cost, of a training that diverged as well: its epochs up to that in which it did.
        progress: Told how many steps are done.

    Raises:
        RunError: The loss, or a logit on the rule's rows, is not finite.
    """
    how = changes or Changes()
    keeper = _EpochKeeper(material, rule, how.on_epoch_end, how.tokenizer)
    plain = functools.partial(finetune_classifier, encoder=material.encoder, label_names=material.label_names)

    def cost(epochs: int) -> float:
        return how.pass_cost * epochs * len(rows) + len(keeper.scores) * len(rule.rows(material) or ())

    try:
        result = (how.fit or plain)(
            rows.texts,
            rows.labels.tolist(),
            config=recipe,
            seed=seed,
            objective=how.objective,
            sampling_weights=how.sampling_weights,
            on_epoch_end=keeper,
            checkpoints=_checkpoints(material, rows, recipe, stage, seed, watch),
            progress=progress,
        )
    except RunError:
        spend(cost(min(keeper.epochs + 1, recipe.epochs)))
        raise
    spend(cost(recipe.epochs))
    return keeper.chosen(result, last=recipe.epochs - 1, cost=cost(recipe.epochs))


def _checkpoints(
    material: Material, rows: LabelledTexts, recipe: FinetuneConfig, stage: str, seed: int, watch: Stopwatch
) -> Checkpoints | None:
    if material.checkpoints is None:
        return None
    identity = json.dumps([stage, rows.fingerprint(), recipe.to_dict(), seed], sort_keys=True)
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return Checkpoints(material.checkpoints / name, on_resume=watch.credit)


class _EpochKeeper:
    """Scores the model after every epoch and remembers the weights of the best one."""

    def __init__(self, material: Material, rule: Rule, then: Callable[[int, Any], None] | None, tokenizer: Any) -> None:
        self.epochs = 0
        self.scores: list[float] = []
        self.best = 0
        self._material = material
        self._rule = rule
        self._then = then
        self._tokenizer = tokenizer
        self._weights: dict[str, torch.Tensor] = {}

    def __call__(self, epoch: int, model: Any) -> None:
        self.epochs = epoch + 1
        if self._then is not None:
            self._then(epoch, model)
        if self._rule.score is None:
            return
        rows = self._rule.rows(self._material)
        assert rows is not None
        scorer = self._material.scorer(model, self._tokenizer)
        predictions = scorer.predict_logits(scorer.encode(rows.texts)).argmax(axis=1)
        self.scores.append(self._rule.score(predictions, rows))
        if self.scores[-1] > max(self.scores[:-1], default=-np.inf):
            self.best = epoch
            self._weights = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}

    def chosen(self, result: FinetuneResult, *, last: int, cost: float) -> Trained:
        """The classifier with the weights of the best epoch, which is the last where nothing is compared."""
        if self._weights:
            result.model.load_state_dict(self._weights)
        best = self.best if self.scores else last
        return Trained(result, max(self.scores, default=None), best, tuple(self.scores), cost)

    def state(self) -> dict[str, torch.Tensor]:
        """Scores and best weights so far, and what `then` remembers."""
        memory = {
            "epochs": torch.tensor(self.epochs),
            "best": torch.tensor(self.best),
            "scores": torch.tensor(self.scores, dtype=torch.float64),
            **{f"weights.{name}": value for name, value in self._weights.items()},
        }
        if isinstance(self._then, Resumable):
            memory |= {f"then.{name}": value for name, value in self._then.state().items()}
        return memory

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take over what `state` gave."""
        self.epochs, self.best = int(state["epochs"]), int(state["best"])
        self.scores = state["scores"].tolist()
        self._weights = _under("weights.", state)
        if isinstance(self._then, Resumable):
            self._then.restore(_under("then.", state))


def _under(prefix: str, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def pooled_output(model: Any, encoder: Any, inputs: dict[str, Tensor]) -> tuple[Any, Tensor]:
    """A model's output for B texts, and their embeddings, shape (B, H): the pooler's output, before dropout and head,
    or the first token's state where there is no pooler.

    Texts take the way through the whole model. Autocast is wrapped around it: its encoder alone would compute in 32
    bit, and a distance between two embeddings would hold the difference between two number formats.

    Args:
        model: As an `Objective` is handed it.
        encoder: Its encoder, `base_model` of the Transformers model.
        inputs: Its arguments.
    """
    outputs: list[Any] = []
    handle = encoder.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    try:
        output = model(**inputs)
    finally:
        handle.remove()
    pooled: Tensor | None = getattr(outputs[0], "pooler_output", None)
    return output, outputs[0].last_hidden_state[:, 0] if pooled is None else pooled


def model_system(
    material: Material, trained: Trained, info: Mapping[str, Any], *, cost: float, seconds: Mapping[str, float]
) -> ModelSystem:
    """The fitted system around a trained model.

    Args:
        material: Its settings for scoring.
        trained: The classifier.
        info: What the method has to say beyond it; the rows of the support set that its `selection` read are the labels
            that it spent.
        cost: All forward equivalents spent.
        seconds: Per stage.
    """
    labels = info.get("selection", {}).get("support_rows", 0)
    return ModelSystem(
        material.scorer(trained.result.model, trained.result.tokenizer),
        info={"labels_spent": labels, "seconds": dict(seconds), "training": trained.to_dict(), **info},
        forward_equivalents=cost,
    )


def selection_info(rule: Rule, material: Material) -> dict[str, Any]:
    """What a result says about how a candidate was chosen; `support_rows` is there where target labels chose it."""
    of_target = Need.SUPPORT in rule.needs
    rows = rule.rows(material)
    dev = None if of_target else rows
    info = {
        "rule": rule.name,
        "oracle": rule.oracle,
        "dev_rows": 0 if dev is None else len(dev),
        "dev_groups_without_rows": [] if dev is None else missing_groups(dev),
    }
    return info | {"support_rows": len(rows or ())} if of_target else info


class Stopwatch:
    """Seconds per stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stage: str | None = None

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """The time that the block takes is added to a stage."""
        started, outer = time.perf_counter(), self._stage
        self._stage = stage
        try:
            yield
        finally:
            self._stage = outer
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started

    def credit(self, seconds: float) -> None:
        """Add what the running stage took in an earlier process."""
        assert self._stage is not None
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + seconds


def as_config(method: Any) -> dict[str, Any]:
    """The options of a method, a dataclass, as JSON types."""
    values = {field.name: getattr(method, field.name) for field in dataclasses.fields(method) if field.init}
    return {name: _plain(value) for name, value in values.items() if name != "name"}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def require(condition: bool, message: str, kind: type[GuardrailError] = ConfigError) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise kind(message)
