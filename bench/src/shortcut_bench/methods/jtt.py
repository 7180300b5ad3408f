"""JTT: train once, count the rows it got wrong several times, train again (Liu et al., ICML 2021)."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from shortcut_guardrail.errors import GuardrailWarning, RunError
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning import FinetuneConfig, Objective
from ..systems import Material, ModelSystem, Need
from .selection import Point, find_rule, rule_for, search
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

OFFICIAL = FinetuneConfig(
    learning_rate=1e-5, epochs=5, batch_size=32, weight_decay=0.1, warmup_ratio=0.0, max_grad_norm=1.0
)
"""The second stage of the repository's commands for MultiNLI."""

SG_PAPER = FinetuneConfig(
    learning_rate=1e-5, epochs=10, batch_size=16, weight_decay=0.01, warmup_ratio=0.0, max_grad_norm=1.0
)
"""T2, batch size and weight decay of the paper's Appendix on baselines."""

IDENTIFICATION_RATE = 2e-5
"""The learning rate of the first stage in the repository's commands for MultiNLI and CivilComments."""


def upweighted(n_rows: int, errors: Array, upweight: int, *, variant: str) -> Array:
    """Row numbers of the second stage's training set.

    The official code concatenates the training set with `upweight` copies of the error set, so that an error counts
    `upweight + 1` times; the text of the paper weights it by `upweight`.

    Args:
        n_rows: N.
        errors: Row numbers of the error set, shape (E,), in [0, N).
        upweight: lambda_up, at least 1.
        variant: `official` or `sg-paper`.

    Returns:
        Shape (N + copies * E,), the rows in order and then the copies.
    """
    copies = upweight if variant == "official" else upweight - 1
    return np.concatenate([np.arange(n_rows), np.tile(np.sort(errors), copies)]).astype(np.int64)


class TrainPassErrors(Objective):
    """Cross-entropy that notes which rows were answered wrongly while they were trained on, epoch by epoch.

    As the official code writes them: in training mode, dropout on, with weights that change along the epoch.
    """

    def __init__(self) -> None:
        self._wrong: list[dict[int, bool]] = [{}]

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """Cross-entropy; the predictions are read off on the way."""
        output = model(**inputs)
        wrong = output.logits.detach().argmax(dim=-1) != inputs["labels"]
        self._wrong[-1].update(zip(rows.tolist(), wrong.tolist(), strict=True))
        loss: Tensor = output.loss
        return loss

    def state(self) -> dict[str, Tensor]:
        """Rows and whether they were answered wrongly, of every epoch."""
        return {
            f"{epoch}.{name}": torch.tensor(list(values), dtype=torch.long)
            for epoch, wrong in enumerate(self._wrong)
            for name, values in (("rows", wrong.keys()), ("wrong", wrong.values()))
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self._wrong = [
            dict(zip(state[f"{epoch}.rows"].tolist(), map(bool, state[f"{epoch}.wrong"].tolist()), strict=True))
            for epoch in range(len(state) // 2)
        ]

    def next_epoch(self, epoch: int, model: Any) -> None:
        """To be called after every epoch."""
        self._wrong.append({})

    def errors(self, epoch: int) -> Array:
        """Rows answered wrongly during an epoch, ascending."""
        return np.array(sorted(row for row, wrong in self._wrong[epoch].items() if wrong), dtype=np.int64)


@dataclass(frozen=True)
class JTT:
    """Just Train Twice.

    Attributes:
        name: The name in tables.
        variant: `official` follows the repository: the first stage is plain SGD (momentum 0.9, constant rate, no
            clipping, no decay), errors are recorded during its last training pass, and count `upweight + 1` times.
            `sg-paper` follows the text of the paper that this library implements: the first stage is trained as the
            second, errors are those of the finished model, and count `upweight` times.
        identification_epochs: T1, passes of the first stage; the grid tries every one.
        upweights: lambda_up; the grid tries every one.
        learning_rates: Of the second stage (and, for `sg-paper`, of the first); the grid tries every one. `None` takes
            the recipe's.
        identification_rate: Learning rate of the first stage of `official`.
        recipe: Of the second stage; see `training.resolve_recipe`.
        select: Which point of the grid, and which epoch of it, is kept.
    """

    name: str = "jtt"
    variant: Literal["official", "sg-paper"] = "official"
    identification_epochs: tuple[int, ...] = (2,)
    upweights: tuple[int, ...] = (4, 5, 6)
    learning_rates: tuple[float, ...] | None = None
    identification_rate: float = IDENTIFICATION_RATE
    recipe: Recipe = "source"
    select: str = "dev-worst-group"

    def __post_init__(self) -> None:
        for option in ("identification_epochs", "upweights", "learning_rates"):
            value = getattr(self, option)
            object.__setattr__(self, option, None if value is None else tuple(value))
        require(self.variant in ("official", "sg-paper"), f"variant must be official or sg-paper, not {self.variant}.")
        require(bool(self.upweights) and min(self.upweights) >= 1, "upweights must be whole numbers of at least 1.")
        require(
            bool(self.identification_epochs) and min(self.identification_epochs) >= 1,
            "identification_epochs must be whole numbers of at least 1.",
        )
        require(self.identification_rate > 0, f"identification_rate must be above 0, not {self.identification_rate}.")
        check_recipe(self.recipe)
        find_rule(self.select)

    @classmethod
    def full_grid(cls, **options: Any) -> JTT:
        """The 18 points of the paper's Appendix: rates 1e-3, 1e-4, 1e-5, T1 1 and 2, weights 4, 5, 6."""
        grid = {"learning_rates": (1e-3, 1e-4, 1e-5), "identification_epochs": (1, 2), "upweights": (4, 5, 6)}
        return cls(**{"name": "jtt-grid", **grid, **options})

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, and what the rule reads."""
        return frozenset({Need.TRAIN}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Both stages at every point of the grid; the first is shared by points that differ in the weight alone.

        An empty error set leaves nothing to count twice: the second stage is then ordinary training, which a warning
        and the result's `n_errors` of 0 say.

        Raises:
            RunError: Training diverged at every point.
        """
        run = _Run(self, material, seed, progress)
        rule = rule_for(self.select, material.dev)
        chosen = search(self._grid(material), run.fit_point, rule)
        return model_system(
            material,
            chosen.fitted,
            {
                "selection": selection_info(rule, material),
                "point": chosen.point,
                "n_errors": len(run.errors(chosen.point)),
                "error_share": len(run.errors(chosen.point)) / run.n_rows,
                "trials": [trial.to_dict() for trial in chosen.trials],
            },
            cost=run.cost,
            seconds=run.watch.seconds,
        )

    def _grid(self, material: Material) -> list[Point]:
        rates = self.learning_rates or (self._recipe(material).learning_rate,)
        return [
            {"learning_rate": rate, "identification_epochs": epochs, "upweight": upweight}
            for rate, epochs, upweight in itertools.product(rates, self.identification_epochs, self.upweights)
        ]

    def _recipe(self, material: Material) -> FinetuneConfig:
        return resolve_recipe(self.recipe, OFFICIAL if self.variant == "official" else SG_PAPER, material)


class _Run:
    """One fit: what its points share, and what all of it cost."""

    def __init__(self, method: JTT, material: Material, seed: int, progress: Progress | None) -> None:
        assert material.train is not None
        self.watch = Stopwatch()
        self.cost = 0.0
        self._method, self._material, self._seed, self._progress = method, material, seed, progress
        self._rows: LabelledTexts = material.train
        self._recipe = method._recipe(material)
        self._errors: dict[tuple[float, int], Array | RunError] = {}
        self._without_errors: dict[float, tuple[Trained, float | None]] = {}

    @property
    def n_rows(self) -> int:
        """N, the training rows."""
        return len(self._rows)

    def fit_point(self, point: Point) -> tuple[Trained, float | None]:
        errors = self.errors(point)
        if not len(errors):
            return self._plain(point)
        rows = upweighted(len(self._rows), errors, point["upweight"], variant=self._method.variant)
        return self._second_stage(rows, point)

    def errors(self, point: Point) -> Array:
        """The error set of a point's first stage, which is trained when it is first asked for."""
        # The rate of the second stage is no matter of the official first one.
        rate = self._method.identification_rate if self._method.variant == "official" else point["learning_rate"]
        key = (rate, point["identification_epochs"])
        if key not in self._errors:
            self._errors[key] = self._identified(*key)
        found = self._errors[key]
        if isinstance(found, RunError):
            raise found
        return found

    def _identified(self, rate: float, epochs: int) -> Array | RunError:
        """The error set; or why there is none, which holds for every point of that first stage."""
        try:
            with self.watch.time("identification"):
                errors = self._identify(rate, epochs)
        except RunError as error:
            return error
        self._warn(len(errors))
        return errors

    def _spend(self, cost: float) -> None:
        self.cost += cost

    def _warn(self, n_errors: int) -> None:
        """Say so if the error set does not tell rows apart."""
        n, name = self.n_rows, self._method.name
        if n_errors and n_errors <= n / 2:
            return
        if n_errors:
            reason = (
                f"The first stage of {name} answered {n_errors} of {n} training rows wrongly: it has hardly learned, "
                "so its errors do not say which rows are hard. Take more identification_epochs or a higher rate."
            )
        else:
            reason = (
                f"The first stage of {name} answered all {n} training rows rightly, so its error set is empty and the "
                "second stage is ordinary training. Take fewer identification_epochs or a lower rate."
            )
        warnings.warn(reason, GuardrailWarning, stacklevel=7)

    def _identify(self, rate: float, epochs: int) -> Array:
        official = self._method.variant == "official"
        changes: dict[str, Any] = {"learning_rate": rate, "epochs": epochs}
        if official:
            changes |= {"optimizer": "sgd", "scheduler": "constant", "max_grad_norm": 0.0, "weight_decay": 0.0}
            changes |= {"warmup_ratio": 0.0}
        recorder = TrainPassErrors()
        trained = train(
            self._material,
            self._rows,
            _replaced(self._recipe, changes),
            find_rule("last"),
            stage="identification",
            watch=self.watch,
            seed=self._seed,
            changes=Changes(objective=recorder, on_epoch_end=recorder.next_epoch),
            spend=self._spend,
            progress=self._progress,
        )
        if official:
            return recorder.errors(epochs - 1)
        self.cost += len(self._rows)
        scorer = self._material.scorer(trained.result.model, trained.result.tokenizer)
        predictions = scorer.predict_logits(scorer.encode(self._rows.texts)).argmax(axis=1)
        return np.flatnonzero(predictions != self._rows.labels)

    def _plain(self, point: Point) -> tuple[Trained, float | None]:
        """The second stage without errors, which does not depend on the weight."""
        rate = point["learning_rate"]
        if rate not in self._without_errors:
            self._without_errors[rate] = self._second_stage(np.arange(len(self._rows)), point)
        return self._without_errors[rate]

    def _second_stage(self, rows: Array, point: Point) -> tuple[Trained, float | None]:
        with self.watch.time("second stage"):
            trained = train(
                self._material,
                self._rows.select(rows),
                _replaced(self._recipe, {"learning_rate": point["learning_rate"]}),
                find_rule(self._method.select),
                stage="second stage",
                watch=self.watch,
                seed=self._seed,
                spend=self._spend,
                progress=self._progress,
            )
        return trained, trained.score


def _replaced(recipe: FinetuneConfig, changes: dict[str, Any]) -> FinetuneConfig:
    return FinetuneConfig(**{**recipe.to_dict(), **changes})
