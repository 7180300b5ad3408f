"""Group DRO: minimise the loss of the worst group, found on the way (Sagawa et al., ICLR 2020)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shortcut_guardrail.errors import DataError, GuardrailWarning
from shortcut_guardrail.typing import Progress

from ..datasets.types import HIDDEN_GROUP, LabelledTexts
from ..finetuning import FinetuneConfig, Objective
from ..systems import Material, ModelSystem, Need
from .selection import find_rule, missing_groups, named, rule_for, search
from .training import (
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

Array = np.ndarray[Any, np.dtype[Any]]

SOURCE = FinetuneConfig(
    learning_rate=2e-5, epochs=20, batch_size=32, weight_decay=0.0, warmup_ratio=0.0, max_grad_norm=1.0
)
"""The recipe for MultiNLI of the paper's repository and its maintainer."""


def group_losses(losses: Tensor, groups: Tensor, n_groups: int) -> Tensor:
    """Mean loss of every group in a batch, shape (G,); 0 for a group that is not in it, as in the official code.

    Args:
        losses: Shape (B,).
        groups: Group ids, shape (B,), in [0, G).
        n_groups: G.
    """
    sums = losses.new_zeros(n_groups).index_add(0, groups, losses)
    counts = torch.bincount(groups, minlength=n_groups)
    return sums / counts.clamp(min=1)


def updated_weights(weights: Tensor, losses: Tensor, step_size: float) -> Tensor:
    """q_g exp(eta L_g), normalised: the exponentiated-gradient step on the group weights, shape (G,).

    Args:
        weights: q, shape (G,), summing to 1.
        losses: L, adjusted where an adjustment is used, shape (G,).
        step_size: eta.
    """
    grown = weights * torch.exp(step_size * losses.detach())
    return grown / grown.sum()


class GroupDroLoss(Objective):
    """sum_g q_g L_g, with q updated before every step.

    Args:
        groups: Group id of every training row, shape (N,).
        counts: Rows of each group, shape (G,).
        step_size: eta.
        adjustment: C of the generalisation adjustment C / sqrt(n_g), which enters the update of q alone; the official
            code adds it to the loss too, where it is a constant without gradient.
    """

    def __init__(self, groups: Array, counts: Array, *, step_size: float, adjustment: float) -> None:
        self._groups = torch.from_numpy(groups)
        present = torch.from_numpy(counts > 0)
        self._adjustment = torch.where(
            present, adjustment / torch.from_numpy(counts).clamp(min=1).sqrt(), torch.zeros(())
        ).float()
        # A group without rows can never be drawn; the official code cannot have one.
        self.weights = present.float() / present.sum()
        self.batches_without = torch.zeros(len(counts), dtype=torch.long)
        self._step_size = step_size

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The weighted loss of a batch."""
        labels = inputs.pop("labels")
        losses = F.cross_entropy(model(**inputs).logits.float(), labels, reduction="none")
        return self.weighted(losses, self._groups[rows.cpu()].to(losses.device))

    def state(self) -> dict[str, Tensor]:
        """q, and in how many batches each group was not."""
        return {"weights": self.weights, "batches_without": self.batches_without}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self.weights, self.batches_without = state["weights"], state["batches_without"]

    def weighted(self, losses: Tensor, groups: Tensor) -> Tensor:
        """Update q by the losses of a batch, and weight them by it.

        A group that is not in the batch has loss 0 there, so its weight shrinks by the normalisation, as in the
        official code: with group-uniform drawing each is absent equally often. `batches_without` counts for every
        group the batches in which it was not.

        Args:
            losses: Shape (B,).
            groups: Shape (B,).
        """
        mean = group_losses(losses, groups, len(self.weights))
        self.batches_without += (torch.bincount(groups.cpu(), minlength=len(self.weights)) == 0).long()
        adjusted = mean.detach() + self._adjustment.to(mean.device)
        self.weights = updated_weights(self.weights.to(mean.device), adjusted, self._step_size)
        return mean @ self.weights


def group_uniform_weights(groups: Array, n_groups: int) -> Array:
    """Sampling weights under which every group that has rows is drawn equally often, shape (N,)."""
    counts = np.bincount(groups, minlength=n_groups)
    return 1.0 / counts[groups]


@dataclass(frozen=True)
class GroupDRO:
    """Group distributionally robust optimisation.

    Attributes:
        name: The name in tables.
        step_size: eta, of the group weights.
        adjustment: C of the generalisation adjustment; 0 leaves it out.
        adjustments: A grid for C, instead of `adjustment`, chosen by `select`; the paper's is 0 to 5.
        reweight_groups: Draw groups equally often, which the official code needs `--reweight_groups` for.
        recipe: See `training.resolve_recipe`.
        select: Which epoch, and which point of the grid, is kept.
    """

    name: str = "group_dro"
    step_size: float = 0.01
    adjustment: float = 0.0
    adjustments: tuple[float, ...] | None = None
    reweight_groups: bool = True
    recipe: Recipe = "source"
    select: str = "dev-worst-group"

    def __post_init__(self) -> None:
        if self.adjustments is not None:
            object.__setattr__(self, "adjustments", tuple(self.adjustments))
        require(self.step_size >= 0, f"step_size must be at least 0, but is {self.step_size}.")
        require(
            min((self.adjustment, *(self.adjustments or ()))) >= 0,
            "adjustment must be at least 0, everywhere in its grid.",
        )
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows with groups, and what the rule reads."""
        return frozenset({Need.TRAIN, Need.TRAIN_GROUPS}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Train once for every point of the grid.

        Groups without training rows are left out of the weights, warned about and named in the result: nothing can be
        minimised on them.

        Raises:
            DataError: The groups are hidden, or only one has rows.
            RunError: Training diverged at every point.
        """
        rows = material.train
        assert rows is not None
        _check_groups(rows)
        counts = np.bincount(rows.groups, minlength=len(rows.group_names))
        rule, recipe, watch = (
            rule_for(self.select, material.dev),
            resolve_recipe(self.recipe, SOURCE, material),
            Stopwatch(),
        )
        spent: list[float] = []

        def fit_point(point: Any) -> tuple[tuple[Trained, GroupDroLoss], float | None]:
            loss = GroupDroLoss(rows.groups, counts, step_size=self.step_size, adjustment=point["adjustment"])
            with watch.time("train"):
                trained = train(
                    material,
                    rows,
                    recipe,
                    rule,
                    stage=f"adjustment {point['adjustment']}",
                    watch=watch,
                    seed=seed,
                    changes=Changes(
                        objective=loss,
                        sampling_weights=group_uniform_weights(rows.groups, len(counts))
                        if self.reweight_groups
                        else None,
                    ),
                    spend=spent.append,
                    progress=progress,
                )
            return (trained, loss), trained.score

        chosen = search([{"adjustment": c} for c in self.adjustments or (self.adjustment,)], fit_point, rule)
        trained, loss = chosen.fitted
        return model_system(
            material,
            trained,
            {
                "selection": selection_info(rule, material),
                "point": chosen.point,
                "trials": [trial.to_dict() for trial in chosen.trials],
                "group_weights": dict(zip(rows.group_names, loss.weights.tolist(), strict=True)),
                "batches_without_group": dict(zip(rows.group_names, loss.batches_without.tolist(), strict=True)),
                "train_groups_without_rows": missing_groups(rows),
            },
            cost=sum(spent),
            seconds=watch.seconds,
        )


def _check_groups(rows: LabelledTexts) -> None:
    require(
        not (rows.groups == HIDDEN_GROUP).any(),
        f"Group DRO needs the groups of '{rows.name}', but they are hidden; declare train-groups.",
        DataError,
    )
    require(
        len(np.unique(rows.groups)) > 1,
        f"Group DRO needs rows of at least two groups, but all {len(rows)} of '{rows.name}' are in one.",
        DataError,
    )
    if missing := missing_groups(rows):
        warnings.warn(
            f"Group DRO cannot do anything for {named(missing)}, of which '{rows.name}' has no row.",
            GuardrailWarning,
            stacklevel=3,
        )
