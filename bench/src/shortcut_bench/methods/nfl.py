"""NFL: fine-tune without forgetting the language model (Chew et al., Findings of EACL 2024)."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortcut_guardrail.typing import Progress

from ..finetuning import FinetuneConfig, Objective, finetune_model, load_encoder
from ..systems import Material, ModelSystem, Need
from .prompts import add_prompt, train_prompt_only
from .selection import find_rule, rule_for, search
from .training import (
    TRAIN_PASS,
    Changes,
    Recipe,
    Stopwatch,
    Trained,
    as_config,
    check_recipe,
    model_system,
    require,
    resolve_recipe,
    selection_info,
    train,
)

Variant = Literal["CP", "CO", "F", "PT"]

SOURCE = FinetuneConfig(
    learning_rate=5e-5, epochs=6, batch_size=32, weight_decay=0.0, warmup_ratio=0.0, max_grad_norm=1.0
)
"""The repository's: Trainer's defaults, 6 epochs, 8 texts a step with gradients accumulated over 4 steps."""

FACTORS = {"CP": 15000.0, "CO": 1.0}
"""The weight of the penalty. The code's default is 15000 in one of its public versions and 1 in the other, for CP and
CO alike; the paper of this library says "default" and not which, and its NFL hardly moves, as under the former."""

PASS_COST = {"CP": TRAIN_PASS, "CO": TRAIN_PASS + 1, "F": 1, "PT": 2}
"""Forward equivalents of a training pass: CO encodes once more with the initial model; F needs no backward pass through
the encoder, PT one to activations."""


def weight_distance(encoder: nn.Module, initial: nn.Module) -> Tensor:
    """Sum over all linear and embedding layers of ||W - W_0||_F^2; biases and normalisation layers do not count.

    Args:
        encoder: The encoder as trained so far; gradients flow to its weights.
        initial: The same architecture with the pretrained weights.
    """
    total = torch.zeros((), device=next(encoder.parameters()).device)
    for module, start in zip(encoder.modules(), initial.modules(), strict=True):
        if type(module) in (nn.Linear, nn.Embedding):
            total = total + (module.weight - start.weight).pow(2).sum()  # type: ignore[operator]
    return total


def output_distance(hidden: Tensor, initial: Tensor, attention_mask: Tensor) -> Tensor:
    """Mean over texts of 1 - the mean over their tokens of cos(h_t, h_t^0).

    Args:
        hidden: Last hidden states, shape (B, L, H).
        initial: Those of the pretrained model, shape (B, L, H).
        attention_mask: 1 on tokens, 0 on padding, shape (B, L).
    """
    similarity = F.cosine_similarity(hidden.float(), initial.float(), dim=2) * attention_mask
    return (1 - similarity.sum(dim=-1) / attention_mask.sum(dim=-1)).mean()


class ConstrainedParameters(Objective):
    """NFL-CP: cross-entropy + factor * `weight_distance` of the encoder. The head is free."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._initial: Any = None
        self._model: Any = None

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Keeps a copy of the encoder as it starts."""
        self._initial = copy.deepcopy(model.base_model).requires_grad_(False)
        self._model = model

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The penalised loss of a batch."""
        loss: Tensor = model(**inputs).loss
        return loss + self._factor * weight_distance(self._model.base_model, self._initial)


class ConstrainedOutputs(Objective):
    """NFL-CO: cross-entropy + factor * `output_distance` of the last layer.

    Args:
        factor: Weight of the penalty.
        attend_padding: Run the initial model without an attention mask, as the official code does: its tokens then
            attend to the padding of their batch. Off by default, since what is held on to would depend on the batch.
    """

    def __init__(self, factor: float, *, attend_padding: bool) -> None:
        self._factor = factor
        self._attend_padding = attend_padding
        self._initial: Any = None

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Keeps a copy of the encoder as it starts, without dropout."""
        self._model = model
        self._initial = copy.deepcopy(model.base_model).requires_grad_(False).eval()

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The penalised loss of a batch."""
        with _seen_autocast(self._model.base_model) as autocast:
            output = model(**inputs, output_hidden_states=True)
        known = {name: value for name, value in inputs.items() if name != "labels"}
        if self._attend_padding:
            known["attention_mask"] = torch.ones_like(known["attention_mask"])
        # In the number format of the model in training, around which alone mixed precision is wrapped: the distance
        # would otherwise hold the difference between two formats.
        with torch.no_grad(), torch.autocast(**autocast):
            initial = self._initial(**known).last_hidden_state
        distance = output_distance(output.hidden_states[-1], initial, inputs["attention_mask"])
        loss: Tensor = output.loss
        return loss + self._factor * distance


@contextmanager
def _seen_autocast(module: Any) -> Iterator[dict[str, Any]]:
    """The arguments of `torch.autocast` under which a module runs within the block; filled when it has run."""
    found: dict[str, Any] = {}

    def see(_module: Any, _args: Any, _kwargs: Any) -> None:
        kind = module.device.type
        found.update(device_type=kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind))

    handle = module.register_forward_pre_hook(see, with_kwargs=True)
    try:
        yield found
    finally:
        handle.remove()


class FrozenEncoder(Objective):
    """NFL-F: cross-entropy, only what is outside the encoder trained."""

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Freezes the encoder."""
        model.base_model.requires_grad_(False)


@dataclass(frozen=True)
class NFL:
    """doNt Forget your Language.

    Attributes:
        name: The name in tables.
        variant: `CP` constrains weights, as the paper that this library implements uses it; `CO` constrains outputs;
            `F` freezes the encoder; `PT` freezes it and trains a prompt.
        factor: Weight of the penalty of `CP` or `CO`; `None` takes `FACTORS`.
        factors: A grid for it, chosen by `select`.
        prompt_length: Prompt tokens of `PT`.
        attend_padding: For `CO`; see `ConstrainedOutputs`.
        recipe: See `training.resolve_recipe`.
        select: Which epoch, and which point of the grid, is kept.
    """

    name: str = "nfl"
    variant: Variant = "CP"
    factor: float | None = None
    factors: tuple[float, ...] | None = None
    prompt_length: int = 20
    attend_padding: bool = False
    recipe: Recipe = "source"
    select: str = "dev-accuracy"

    def __post_init__(self) -> None:
        if self.factors is not None:
            object.__setattr__(self, "factors", tuple(self.factors))
        require(self.variant in PASS_COST, f"variant must be CP, CO, F or PT, but is {self.variant!r}.")
        given = [f for f in (self.factor, *(self.factors or ())) if f is not None]
        require(not given or self.variant in FACTORS, f"variant {self.variant} has no penalty, so factor is no option.")
        require(all(factor >= 0 for factor in given), "factor must be at least 0, everywhere in its grid.")
        require(self.prompt_length >= 1, f"prompt_length must be at least 1, but is {self.prompt_length}.")
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, and what the rule reads."""
        return frozenset({Need.TRAIN}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option, the penalty's weight as used."""
        return as_config(self) | {"factor": self._factors()[0]}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Train once for every point of the grid.

        Raises:
            RunError: Training diverged at every point.
        """
        rule, watch = rule_for(self.select, material.dev), Stopwatch()
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        spent: list[float] = []

        def fit_point(point: Any) -> tuple[Trained, float | None]:
            with watch.time("train"):
                trained = self._train(
                    material, recipe, point["factor"], seed=seed, watch=watch, spend=spent.append, progress=progress
                )
            return trained, trained.score

        chosen = search([{"factor": factor} for factor in self._factors()], fit_point, rule)
        return model_system(
            material,
            chosen.fitted,
            {
                "selection": selection_info(rule, material),
                "point": chosen.point,
                "trials": [trial.to_dict() for trial in chosen.trials],
            },
            cost=sum(spent),
            seconds=watch.seconds,
        )

    def _factors(self) -> tuple[float | None, ...]:
        if self.factors:
            return self.factors
        return (FACTORS.get(self.variant) if self.factor is None else self.factor,)

    def _train(
        self,
        material: Material,
        recipe: FinetuneConfig,
        factor: float | None,
        *,
        seed: int,
        watch: Stopwatch,
        spend: Callable[[float], None],
        progress: Progress | None,
    ) -> Trained:
        assert material.train is not None
        if self.variant == "PT":
            model, tokenizer = load_encoder(material.encoder, material.label_names, seed=seed)
            model, tokenizer, ids = add_prompt(model, tokenizer, self.prompt_length, seed=seed)
            changes = Changes(
                objective=train_prompt_only(ids),
                fit=functools.partial(finetune_model, model, tokenizer),
                tokenizer=tokenizer,
            )
            # Decay would move the frozen rows of the embedding table, which have no gradient of their own.
            recipe = FinetuneConfig(**{**recipe.to_dict(), "weight_decay": 0.0})
        elif self.variant == "F":
            changes = Changes(objective=FrozenEncoder())
        elif self.variant == "CP":
            assert factor is not None
            changes = Changes(objective=ConstrainedParameters(factor))
        else:
            assert factor is not None
            changes = Changes(objective=ConstrainedOutputs(factor, attend_padding=self.attend_padding))
        return train(
            material,
            material.train,
            recipe,
            find_rule(self.select),
            stage=f"factor {factor}",
            watch=watch,
            seed=seed,
            changes=replace(changes, pass_cost=PASS_COST[self.variant]),
            spend=spend,
            progress=progress,
        )
