"""FairFlow: a text of which much is destroyed is to get no decided answer (Cheng and Amiri, EMNLP 2024).

The repository has a README and no code, and of the paper only what the README says was read.
docs/research/methods/fairflow.md says what is ours.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import GuardrailWarning
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning import Objective
from ..systems import Material, ModelSystem, Need
from .bias_only import SOURCE
from .heads import last_linear_of
from .selection import find_rule, rule_for
from .supcon import supcon_loss
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
from .views import Change, halve, shuffle, view_of

View = Literal["half", "shuffle", "zero"]
Target = Literal["contrastive", "uniform", "both"]

_OF_WORDS: Mapping[str, Change] = {"half": halve, "shuffle": shuffle}


def divergence_from_uniform(logits: Tensor) -> Tensor:
    """mean_i KL(U || p_i) = -log C - mean_ic log p_i(c), a scalar, 0 or more.

    Args:
        logits: Shape (B, C).
    """
    return -math.log(logits.shape[1]) - logits.float().log_softmax(dim=-1).mean()


class Undecided(Objective):
    """CE(z(x), y) + weight * (what views of x are asked for).

    With `contrastive` that is the supervised contrastive loss over the B texts, with their labels, and all their views,
    which share one more label, "undecided". With `uniform` it is the divergence of the head's answers to the views from
    the uniform distribution. With `both` it is their sum. A text is represented by what the last linear layer reads.

    Args:
        rows: All N rows.
        views: Which views there are.
        target: What is asked of them.
        weight: Of that, beside cross-entropy.
        temperature: tau of the contrastive loss.
        max_length: Tokens per input.
        seed: Decides the views.
    """

    def __init__(
        self,
        rows: LabelledTexts,
        *,
        views: tuple[str, ...],
        target: Target,
        weight: float,
        temperature: float,
        max_length: int,
        seed: int,
    ) -> None:
        self._texts, self._views, self._target = rows.texts, views, target
        self._undecided = len(rows.label_names)
        self._weight, self._temperature, self._max_length = weight, temperature, max_length
        self._generator = torch.Generator().manual_seed(seed)
        self._tokenizer: Any = None
        self._head: Any = None

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Finds the layer whose input represents a text."""
        self._tokenizer = tokenizer
        self._head = model.get_submodule(last_linear_of(model, model.config.name_or_path))

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch."""
        labels = inputs.pop("labels")
        with self._head_input() as read:
            logits = model(**inputs).logits
        own = read[0].float()
        views = self._represented(model, own, self.changed(rows.tolist()))
        loss = F.cross_entropy(logits.float(), labels)
        if self._target != "uniform":
            undecided = labels.new_full((len(views),), self._undecided)
            everything, classes = torch.cat([own, views]), torch.cat([labels, undecided])
            loss = loss + self._weight * supcon_loss(everything, classes, self._temperature)
        if self._target != "contrastive" and len(views):
            answers = F.linear(views, self._head.weight, self._head.bias)
            loss = loss + self._weight * divergence_from_uniform(answers)
        return loss

    def changed(self, rows: list[int]) -> Texts:
        """The views of these texts that are texts themselves, drawn anew; one that equals its text is left out."""
        texts = [self._texts[row] for row in rows]
        found = []
        for change in (_OF_WORDS[view] for view in self._views if view in _OF_WORDS):
            views = [view_of(text, change, self._generator) for text in texts]
            # "Good" is positive: it is not to be undecided as well.
            found += [view for view, text in zip(views, texts, strict=True) if view != text]
        return cast(Texts, found)

    def _represented(self, model: Any, own: Tensor, texts: Texts) -> Tensor:
        """Representations of all views, shape (V, H): those of changed texts, and the texts' own with half zeroed."""
        parts = [own[:0]]
        if texts:
            columns = [texts] if isinstance(texts[0], str) else [list(side) for side in zip(*texts, strict=True)]
            encoded = self._tokenizer(
                *columns, truncation=True, max_length=self._max_length, padding=True, return_tensors="pt"
            )
            with self._head_input() as read:
                model(**encoded.to(own.device))
            parts.append(read[0].float())
        if "zero" in self._views:
            order = torch.rand(own.shape, generator=self._generator).argsort(dim=1)
            parts.append(own * (order >= own.shape[1] // 2).to(own.device))
        return torch.cat(parts)

    @contextmanager
    def _head_input(self) -> Iterator[list[Tensor]]:
        """Within the block what the last layer reads is collected."""
        read: list[Tensor] = []
        handle = self._head.register_forward_pre_hook(lambda _module, given: read.append(given[0]))
        try:
            yield read
        finally:
            handle.remove()

    def state(self) -> dict[str, Tensor]:
        """Where the draws are."""
        return {"generator": self._generator.get_state()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self._generator.set_state(state["generator"].cpu())


@dataclass(frozen=True)
class FairFlow:
    """Training in which destroyed texts are undecided.

    Attributes:
        name: The name in tables.
        views: What is destroyed: `half` of the words is dropped, words are `shuffle`d, half of the representation is
            `zero`. The first two cost a pass each.
        target: What is asked of a view: `contrastive`, `uniform` or `both`; see `Undecided`.
        weight: Of what is asked, beside cross-entropy; above 0.
        temperature: tau of the contrastive loss, above 0.
        recipe: See `training.resolve_recipe`.
        select: Which epoch is kept.
    """

    name: str = "fairflow"
    views: tuple[View, ...] = ("half", "shuffle", "zero")
    target: Target = "contrastive"
    weight: float = 1.0
    temperature: float = 0.3
    recipe: Recipe = "source"
    select: str = "last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", tuple(self.views))
        known, targets = get_args(View), get_args(Target)
        require(
            bool(self.views) and set(self.views) <= set(known) and len(set(self.views)) == len(self.views),
            f"views must be one or more of {', '.join(known)}, each once, but are {', '.join(self.views) or 'none'}.",
        )
        require(self.target in targets, f"target must be one of {', '.join(targets)}, but is {self.target!r}.")
        require(self.weight > 0, f"weight must be above 0, but is {self.weight}.")
        require(self.temperature > 0, f"temperature must be above 0, but is {self.temperature}.")
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
        """Train the encoder on texts and their views.

        Raises:
            ModelError: The encoder's head does not end in a linear layer.
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        of_words = [view for view in self.views if view in _OF_WORDS]
        short = sum(not _has_words(text) for text in rows.texts)
        if of_words and short == len(rows):
            warnings.warn(
                f"No training text has two words between white space, so '{self.name}' cannot drop or shuffle any.",
                GuardrailWarning,
                stacklevel=2,
            )
        asked = Undecided(
            rows,
            views=self.views,
            target=self.target,
            weight=self.weight,
            temperature=self.temperature,
            max_length=min(recipe.max_length, material.max_length),
            seed=seed,
        )
        changes = Changes(objective=asked, pass_cost=TRAIN_PASS * (1 + len(of_words)))
        with watch.time("train"):
            how: dict[str, Any] = {"stage": "encoder", "watch": watch, "seed": seed, "progress": progress}
            trained = train(material, rows, recipe, rule, changes=changes, **how)
        info = {"selection": selection_info(rule, material), "n_without_words": short}
        return model_system(material, trained, info, cost=trained.cost, seconds=watch.seconds)


def _has_words(text: str | tuple[str, str]) -> bool:
    """Whether there are two words to drop or shuffle."""
    return any(len(side.split()) > 1 for side in ([text] if isinstance(text, str) else text))
