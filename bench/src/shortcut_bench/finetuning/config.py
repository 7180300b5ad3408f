"""How a classifier is fine-tuned, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from torch import Tensor

from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.models import Precision

STAGE = "fine-tune"


class Objective:
    """What a fine-tuning minimises: cross-entropy here, something else in a subclass.

    One object serves one fine-tuning. `begin` and `loss` see the Transformers model itself or, within mixed precision,
    Accelerate's view of it.
    """

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Called once before the optimizer is made: the place to freeze parameters or to keep a copy of them.

        Args:
            model: The model about to be trained, on its device.
            tokenizer: Its tokenizer.
        """

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch, a scalar that gradients flow from.

        Args:
            model: The model, in training mode.
            inputs: Its arguments, `labels` of shape (B,) included.
            rows: Which of the texts the batch holds, shape (B,).
        """
        loss: Tensor = model(**inputs).loss
        return loss

    def state(self) -> dict[str, Tensor]:
        """What `loss` has changed in this object: a checkpoint keeps it. Nothing here."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave; called after `begin` where a fine-tuning goes on from a checkpoint."""


OnEpochEnd = Callable[[int, Any], None]
"""Called after each epoch with its number, from 0, and the model in evaluation mode.

One that remembers something is `checkpoints.Resumable` too: where a fine-tuning goes on from a checkpoint, it is not
called for the epochs before that.
"""


@dataclass(frozen=True)
class FinetuneConfig:
    """How a classifier is fine-tuned: by default AdamW with linear warm-up and decay, all weights trained.

    The defaults fit a small encoder (22 million parameters) on about a thousand texts: they bring the training loss
    of MiniLM on 1,124 GoEmotions texts to 0.01. Encoders of BERT-base size want a learning rate near 2e-5.

    Attributes:
        learning_rate: Highest learning rate, reached after the warm-up; above 0.
        epochs: Passes over the training texts, at least 1.
        batch_size: Texts per step, at least 1.
        weight_decay: Decoupled weight decay of all weights but biases and normalisation layers, at least 0.
        warmup_ratio: Share of all steps over which the learning rate rises from 0, in [0, 1].
        max_grad_norm: The gradient is scaled down to this norm; 0 switches that off.
        max_length: Longest input in tokens, special tokens included, at least 3; longer texts are truncated. Where
            the encoder takes less, its limit holds.
        precision: `float32`, `bfloat16` for mixed precision (weights stay float32; autocast), or `auto`, which takes
            bfloat16 where the hardware computes in it; elsewhere it is slower.
        group_by_length: Fill batches with texts of similar length: less padding, but less random batches.
        optimizer: `adamw`, or `sgd` with momentum 0.9, which decays all weights alike.
        scheduler: What follows the warm-up: `linear` decay to 0 or a `constant` rate.
    """

    learning_rate: float = 1e-4
    epochs: int = 8
    batch_size: int = 16
    weight_decay: float = 0.01
    warmup_ratio: float = 0.06
    max_grad_norm: float = 1.0
    max_length: int = 128
    precision: Precision = "float32"
    group_by_length: bool = False
    optimizer: Literal["adamw", "sgd"] = "adamw"
    scheduler: Literal["linear", "constant"] = "linear"

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be {expected}, but is {getattr(self, name)!r}."
            for name, expected, holds in (
                ("learning_rate", "above 0", self.learning_rate > 0 and math.isfinite(self.learning_rate)),
                ("epochs", "at least 1", self.epochs >= 1),
                ("batch_size", "at least 1", self.batch_size >= 1),
                ("weight_decay", "at least 0", self.weight_decay >= 0),
                ("warmup_ratio", "between 0 and 1", 0 <= self.warmup_ratio <= 1),
                ("max_grad_norm", "at least 0", self.max_grad_norm >= 0),
                ("max_length", "at least 3", self.max_length >= 3),
                ("precision", " or ".join(get_args(Precision)), self.precision in get_args(Precision)),
                ("optimizer", "adamw or sgd", self.optimizer in ("adamw", "sgd")),
                ("scheduler", "linear or constant", self.scheduler in ("linear", "constant")),
            )
            if not holds
        ]
        if problems:
            raise ConfigError(" ".join(problems))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON types; `FinetuneConfig(**...)` reads them back."""
        return asdict(self)


@dataclass(frozen=True)
class FinetuneResult:
    """A fine-tuned classifier and how it came about.

    Attributes:
        model: The Transformers sequence classifier, in evaluation mode, float32, on the device it was trained on.
        tokenizer: Its tokenizer.
        train_loss: Mean cross-entropy over the steps of each epoch, in nats; as many as epochs.
        n_steps: Optimizer steps taken.
        seconds: Wall-clock time, loading and tokenizing included, and what it took up to the checkpoint that it went on
            from, if it did.
        config: The configuration used.
        seed: The seed used.
        seconds_before: The part of `seconds` up to that checkpoint; 0 without one.
    """

    model: Any
    tokenizer: Any
    train_loss: tuple[float, ...]
    n_steps: int
    seconds: float
    config: FinetuneConfig
    seed: int
    seconds_before: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The configuration and how it went, as JSON types."""
        return {
            "config": self.config.to_dict(),
            "seed": self.seed,
            "train_loss": list(self.train_loss),
            "n_steps": self.n_steps,
            "seconds": self.seconds,
        }
