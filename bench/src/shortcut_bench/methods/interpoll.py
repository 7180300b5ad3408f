"""InterpoLL: mix what stands for a majority text with what stands for a minority text of its class, in training.

Korakakis, Vlachos and Weller (ACL 2025). No code is known, and of the paper only the abstract was read: formulas are
written down from memory. docs/research/methods/interpoll.md says what is open.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shortcut_guardrail.errors import GuardrailWarning
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning import FinetuneConfig, Objective
from ..systems import Material, ModelSystem, Need
from .bias_only import cross_fitted, weak_learner
from .heads import last_linear_of
from .selection import find_rule, rule_for
from .training import (
    TRAIN_PASS,
    Changes,
    Recipe,
    Stopwatch,
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
    learning_rate=5e-5, epochs=3, batch_size=32, weight_decay=0.01, warmup_ratio=0.1, max_grad_norm=1.0
)
"""Ours, for BERT-base: the paper's was not read."""


class Interpolation(Objective):
    """Cross-entropy of the head on (1 - lambda) b(x_i) + lambda b(x_j), with y_i = y_j, and lambda ~ U(0, most).

    x_i is a row that the weak learner gets right, x_j a random row of its class that it gets wrong, drawn anew each
    time. b is what the last linear layer reads. Rows that it gets wrong, and rows of a class without any, are not
    mixed.

    Args:
        rows: All N rows.
        minority: Whether each is a minority row, shape (N,).
        most: The largest lambda.
        detach: Keep gradients from going through b(x_j).
        max_length: Tokens per input.
    """

    def __init__(self, rows: LabelledTexts, minority: Array, *, most: float, detach: bool, max_length: int) -> None:
        self._texts, self._most, self._detach, self._max_length = rows.texts, most, detach, max_length
        of_class = {label: np.flatnonzero(minority & (rows.labels == label)) for label in set(rows.labels.tolist())}
        self._partners = {
            row: found
            for row, label in enumerate(rows.labels.tolist())
            if not minority[row] and len(found := of_class[label])
        }
        self._model: Any = None
        self._tokenizer: Any = None
        self._head: Any = None

    @property
    def n_mixed(self) -> int:
        """How many rows are mixed."""
        return len(self._partners)

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Finds the layer whose input is mixed."""
        self._model, self._tokenizer = model, tokenizer
        self._head = model.get_submodule(last_linear_of(model, model.config.name_or_path))

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch."""
        labels = inputs.pop("labels")
        places = [place for place, row in enumerate(rows.tolist()) if row in self._partners]
        if not places:
            return F.cross_entropy(model(**inputs).logits.float(), labels)
        partners, shares = self.drawn([int(rows[place]) for place in places])
        with torch.set_grad_enabled(not self._detach), self._head_input() as read:
            model(**self._encoded(partners, labels.device))
        share = shares.to(labels.device)[:, None]

        def mixed(own: Tensor) -> Tensor:
            mix = (1 - share) * own[places].float() + share * read[0].float()
            return own.index_copy(0, torch.tensor(places, device=own.device), mix.to(own.dtype))

        with self._head_input(mixed):
            logits = model(**inputs).logits
        return F.cross_entropy(logits.float(), labels)

    def drawn(self, rows: list[int]) -> tuple[list[int], Tensor]:
        """A minority row for each of these majority rows, and its share lambda, shape (M,).

        Both come from PyTorch's generator, whose state is kept in checkpoints.
        """
        chosen = [self._partners[row][int(torch.randint(len(self._partners[row]), ()))] for row in rows]
        return [int(row) for row in chosen], torch.rand(len(rows)) * self._most

    def _encoded(self, rows: list[int], device: torch.device) -> dict[str, Tensor]:
        texts = [self._texts[row] for row in rows]
        columns = [texts] if isinstance(texts[0], str) else [list(side) for side in zip(*texts, strict=True)]
        encoded = self._tokenizer(
            *columns, truncation=True, max_length=self._max_length, padding=True, return_tensors="pt"
        )
        return dict(encoded.to(device))

    @contextmanager
    def _head_input(self, change: Any = None) -> Iterator[list[Tensor]]:
        """Within the block what the last layer reads is changed, and collected."""
        read: list[Tensor] = []

        def look(_module: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            own = given[0] if change is None else change(given[0])
            read.append(own)
            return (own, *given[1:])

        handle = self._head.register_forward_pre_hook(look)
        try:
            yield read
        finally:
            handle.remove()


@dataclass(frozen=True)
class InterpoLL:
    """Interpolated learning.

    Attributes:
        name: The name in tables.
        most: The largest share of the minority text, at most 0.5, so that the majority text keeps the larger one.
        detach: Keep gradients from going through the minority text.
        folds: How many parts the rows are dealt out to; a weak learner is trained on one and answers the next.
        weak_epochs: Passes of the weak learner.
        weak_rate: Its learning rate; `None` takes the recipe's.
        recipe: Of the main model, and but for passes and rate of the weak learner; see `training.resolve_recipe`.
        select: Which epoch of the main model is kept.
    """

    name: str = "interpoll"
    most: float = 0.5
    detach: bool = False
    folds: int = 5
    weak_epochs: int = 5
    weak_rate: float | None = None
    recipe: Recipe = "source"
    select: str = "last"

    def __post_init__(self) -> None:
        require(0 < self.most <= 0.5, f"most must be above 0 and at most 0.5, but is {self.most}.")
        require(self.folds >= 2, f"folds must be at least 2, but is {self.folds}.")
        require(self.weak_epochs >= 1, f"weak_epochs must be at least 1, but is {self.weak_epochs}.")
        require(self.weak_rate is None or self.weak_rate > 0, f"weak_rate must be above 0, but is {self.weak_rate}.")
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, and what the rule reads."""
        return frozenset({Need.TRAIN}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Find minority rows by the errors of a weak learner, then train the encoder on mixed texts.

        Where no row can be mixed, a warning says that what follows is ordinary training.

        Raises:
            ModelError: The encoder's head does not end in a linear layer.
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        rate = recipe.learning_rate if self.weak_rate is None else self.weak_rate
        short = replace(recipe, epochs=self.weak_epochs, learning_rate=rate)
        spent = [0.0]
        with watch.time("weak learner"):
            answer = weak_learner(material, rows, short, watch=watch, seed=seed, spend=spent.append, progress=progress)
            n_classes = len(material.label_names)
            probs = cross_fitted(answer, rows.labels, n_classes, n_folds=self.folds, seed=seed, weak=True)
        minority = probs.argmax(axis=1) != rows.labels
        length = min(recipe.max_length, material.max_length)
        mixing = Interpolation(rows, minority, most=self.most, detach=self.detach, max_length=length)
        _warn(self.name, mixing.n_mixed, minority)
        with watch.time("train"):
            trained = train(
                material,
                rows,
                recipe,
                rule,
                stage="encoder",
                watch=watch,
                seed=seed,
                changes=Changes(objective=mixing),
                progress=progress,
            )
        more = (1 if self.detach else TRAIN_PASS) * recipe.epochs * mixing.n_mixed
        return model_system(
            material,
            trained,
            {"selection": selection_info(rule, material), **_described(rows, minority, mixing.n_mixed)},
            cost=sum(spent) + trained.cost + more,
            seconds=watch.seconds,
        )


def _warn(name: str, n_mixed: int, minority: Array) -> None:
    n, errors = len(minority), int(minority.sum())
    if n_mixed and errors <= n / 2:
        return
    what = f"The weak learner of {name} answered {errors} of {n} training rows wrongly"
    if n_mixed:
        rest = "it has hardly learned, so its errors do not say which rows are of a minority. Take more weak_epochs."
    else:
        rest = "no class has rows of both kinds, so nothing is mixed and this is ordinary training."
    warnings.warn(f"{what}: {rest}", GuardrailWarning, stacklevel=3)


def _described(rows: LabelledTexts, minority: Array, n_mixed: int) -> dict[str, Any]:
    names = rows.label_names
    without = [names[label] for label in np.unique(rows.labels) if not minority[rows.labels == label].any()]
    return {"n_minority": int(minority.sum()), "n_mixed": n_mixed, "classes_without_minority": without}
