"""Test-time training with masked words: an auxiliary task without labels is trained at deployment as well.

Sun et al. (ICML 2020) rotate images; this is a port to text. docs/research/methods/test-time-training.md says what
differs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import DataError, ModelError
from shortcut_guardrail.typing import Progress

from ..finetuning import FinetuneConfig, Objective, seeded, train_in_place
from ..systems import Material, ModelSystem, Need
from .bias_only import SOURCE
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

WORD_HEAD = "masked_word_head"
"""What a model has beside its own head while masked words are trained, under the name of its weights in checkpoints."""


def drawn_places(may: Tensor, share: float) -> Tensor:
    """Which tokens are masked, shape (B, L), bool: a random share of each text's, rounded, at least one of any.

    The draws come from PyTorch's generator on the CPU, whose state is kept in checkpoints.

    Args:
        may: Which may be masked, shape (B, L), bool, on the CPU.
        share: Above 0 and at most 1.
    """
    counts = may.sum(dim=1, keepdim=True)
    wanted = (counts * share).round().long().clamp(min=1)
    order = torch.where(may, torch.rand(may.shape), 2.0).argsort(dim=1).argsort(dim=1)
    return may & (order < wanted)


class MaskedWords(Objective):
    """supervised * CE(z(x), y) + weight * mean over masked tokens t of CE(E A h_t(x'), x_t).

    x' is x with a share of its tokens replaced by [MASK], h the encoder's last states, E the word embeddings, and A a
    linear map that is trained along.

    Args:
        share: Of a text's ordinary tokens that are masked.
        weight: Of the masked words.
        supervised: Whether the labels are trained as well.
        dropout: Whether dropout is on.
    """

    def __init__(self, *, share: float, weight: float, supervised: bool, dropout: bool) -> None:
        self._share, self._weight, self._supervised, self._dropout = share, weight, supervised, dropout
        self._model: Any = None
        self._mask = 0
        self._special: list[int] = []

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Puts the map A on the model, unless one is there.

        Raises:
            ModelError: The tokenizer has no mask token.
        """
        if tokenizer.mask_token_id is None:
            name = model.config.name_or_path
            raise ModelError(f"The tokenizer of '{name}' has no mask token, so no word can be masked. Take an encoder.")
        self._model, self._mask, self._special = model, tokenizer.mask_token_id, sorted(tokenizer.all_special_ids)
        if not hasattr(model, WORD_HEAD):
            width = model.get_input_embeddings().weight.shape[1]
            head = nn.Linear(model.config.hidden_size, width, device="cpu")
            model.add_module(WORD_HEAD, head.to(model.get_input_embeddings().weight.device))

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch."""
        if not self._dropout:
            model.eval()
        labels = inputs.pop("labels")
        loss = self._weight * self.masked_loss(model, inputs)
        if self._supervised:
            loss = loss + F.cross_entropy(model(**inputs).logits.float(), labels)
        return loss

    def masked_loss(self, model: Any, inputs: dict[str, Tensor]) -> Tensor:
        """Mean cross-entropy of the masked tokens, a scalar; 0 where no token can be masked."""
        ids = inputs["input_ids"]
        there = ids.cpu()
        may = inputs["attention_mask"].cpu().bool() & ~torch.isin(there, torch.tensor(self._special))
        places = drawn_places(may, self._share).to(ids.device)
        with self._states() as found:
            model(**{**inputs, "input_ids": ids.masked_fill(places, self._mask)})
        embeddings = self._model.get_input_embeddings().weight
        logits = getattr(self._model, WORD_HEAD)(found[0][places].float()) @ embeddings.T
        return F.cross_entropy(logits, ids[places], reduction="sum") / places.sum().clamp(min=1)

    @contextmanager
    def _states(self) -> Iterator[list[Tensor]]:
        """Within the block the encoder's last states are collected, shape (B, L, H). Texts take the way through the
        whole model, since autocast is wrapped around that."""
        found: list[Tensor] = []
        encoder = self._model.base_model
        handle = encoder.register_forward_hook(lambda _module, _given, output: found.append(output.last_hidden_state))
        try:
            yield found
        finally:
            handle.remove()


def without_word_head(model: Any) -> Any:
    """The model as it predicts: in evaluation mode, frozen, and without the map of the masked words."""
    if hasattr(model, WORD_HEAD):
        delattr(model, WORD_HEAD)
    return model.requires_grad_(False).eval()


@dataclass(frozen=True)
class MaskedAdaptation:
    """The deployed model trained on the masked words of deployment texts, its head left alone.

    Its masked-word head is new, so it is first trained by itself, before the encoder moves.

    Attributes:
        name: The name in tables.
        share: Of a text's tokens that are masked, above 0 and at most 1.
        learning_rate: Of the adaptation, constant; AdamW without weight decay.
        epochs: Passes of the adaptation over the deployment texts.
        batch_size: Texts per step.
        head_rate: Learning rate of the new head by itself.
        head_epochs: Passes of the new head by itself; 0 trains it along with the encoder only.
    """

    name: str = "masked_adaptation"
    share: float = 0.15
    learning_rate: float = 2e-5
    epochs: int = 1
    batch_size: int = 16
    head_rate: float = 1e-3
    head_epochs: int = 3

    def __post_init__(self) -> None:
        require(0 < self.share <= 1, f"share must be above 0 and at most 1, but is {self.share}.")
        require(self.learning_rate > 0, f"learning_rate must be above 0, but is {self.learning_rate}.")
        require(self.epochs >= 1, f"epochs must be at least 1, but is {self.epochs}.")
        require(self.batch_size >= 1, f"batch_size must be at least 1, but is {self.batch_size}.")
        require(self.head_rate > 0, f"head_rate must be above 0, but is {self.head_rate}.")
        require(self.head_epochs >= 0, f"head_epochs must be at least 0, but is {self.head_epochs}.")

    @property
    def needs(self) -> frozenset[Need]:
        """The weights and deployment texts."""
        return frozenset({Need.GRADIENTS, Need.DEPLOYMENT})

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Adapt a copy of the base classifier.

        Raises:
            DataError: There are no deployment texts.
            ModelError: The tokenizer has no mask token.
            RunError: The loss stopped being finite.
        """
        texts, watch, model = _deployment(material, self.name), Stopwatch(), copy.deepcopy(material.base.model)
        with watch.time("adapt"):
            losses = self.adapt(model, material.base.tokenizer, material, texts, seed=seed, progress=progress)
        return ModelSystem(
            material.scorer(model),
            info={
                "labels_spent": 0,
                "selection": {"rule": "none", "oracle": False},
                "masked_word_losses": losses,
                "n_deployment": len(texts),
                "seconds": watch.seconds,
            },
            forward_equivalents=self.cost(len(texts)),
        )

    def cost(self, n: int) -> float:
        """Forward equivalents of adapting on n texts."""
        return float(n * (self.head_epochs + TRAIN_PASS * self.epochs))

    def adapt(
        self, model: Any, tokenizer: Any, material: Material, texts: Texts, *, seed: int, progress: Progress | None
    ) -> list[float]:
        """Train a model in place, without dropout; the mean loss of every pass."""
        objective = MaskedWords(share=self.share, weight=1.0, supervised=False, dropout=False)
        model.requires_grad_(False)
        with seeded(seed):
            objective.begin(model, tokenizer)  # a head that is not there yet
        losses: list[float] = []
        for whole, epochs, rate in ((False, self.head_epochs, self.head_rate), (True, self.epochs, self.learning_rate)):
            if not epochs:
                continue
            getattr(model, WORD_HEAD).requires_grad_(True)
            model.base_model.requires_grad_(whole)
            recipe = FinetuneConfig(
                learning_rate=rate,
                epochs=epochs,
                batch_size=self.batch_size,
                weight_decay=0.0,
                warmup_ratio=0.0,
                max_length=material.scorer(model, tokenizer).max_length,
                precision=material.precision,
                scheduler="constant",
            )
            losses += train_in_place(model, tokenizer, texts, objective, config=recipe, seed=seed, progress=progress)
        without_word_head(model)
        return losses


@dataclass(frozen=True)
class TestTimeTraining:
    """Classes and masked words trained together, then masked words on deployment texts.

    Attributes:
        name: The name in tables.
        weight: Of the masked words beside the classes in training, above 0.
        share: Of a text's tokens that are masked.
        learning_rate: Of the adaptation.
        epochs: Passes of the adaptation over the deployment texts.
        batch_size: Texts per step of the adaptation.
        recipe: Of the training; see `training.resolve_recipe`.
        select: Which epoch of the training is kept.
    """

    __test__ = False

    name: str = "ttt"
    weight: float = 1.0
    share: float = 0.15
    learning_rate: float = 2e-5
    epochs: int = 1
    batch_size: int = 16
    recipe: Recipe = "source"
    select: str = "last"

    def __post_init__(self) -> None:
        require(self.weight > 0, f"weight must be above 0, but is {self.weight}.")
        self._adaptation()
        check_recipe(self.recipe)
        find_rule(self.select)

    def _adaptation(self) -> MaskedAdaptation:
        names = ("share", "learning_rate", "epochs", "batch_size")
        return MaskedAdaptation(self.name, **{name: getattr(self, name) for name in names}, head_epochs=0)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, deployment texts, and what the rule reads."""
        return frozenset({Need.TRAIN, Need.DEPLOYMENT}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Train the pretrained encoder on both tasks, then on masked words of deployment texts.

        Raises:
            DataError: There are no deployment texts.
            ModelError: The tokenizer has no mask token.
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        texts = _deployment(material, self.name)
        both = MaskedWords(share=self.share, weight=self.weight, supervised=True, dropout=True)
        changes = Changes(objective=both, pass_cost=2 * TRAIN_PASS)
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        with watch.time("train"):
            how: dict[str, Any] = {"stage": "encoder", "watch": watch, "seed": seed, "progress": progress}
            trained = train(material, rows, recipe, rule, changes=changes, **how)
        model, adaptation = trained.result.model, self._adaptation()
        with watch.time("adapt"):
            losses = adaptation.adapt(model, trained.result.tokenizer, material, texts, seed=seed, progress=progress)
        info = {
            "selection": selection_info(rule, material),
            "masked_word_losses": losses,
            "n_deployment": len(texts),
        }
        cost = trained.cost + adaptation.cost(len(texts))
        return model_system(material, trained, info, cost=cost, seconds=watch.seconds)


def _deployment(material: Material, name: str) -> Texts:
    """The deployment texts, of which there has to be one."""
    texts = material.deployment
    assert texts is not None
    require(bool(texts), f"'{name}' needs deployment texts, but there are none.", DataError)
    return texts
