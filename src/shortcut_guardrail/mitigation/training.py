"""The loop that trains an adapter, whatever the strategy."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..config import AdapterConfig
from ..data import counted
from ..errors import ConfigError, GuardrailWarning, RunError
from ..models import Batch, EncodedTexts, TextClassifier, gather_shares, own_share, sum_gradients
from ..typing import Array, Progress
from .lora import adapted_layers, attach_adapter, predicted_change, relative_change, seeded

NEGLIGIBLE_CHANGE = 0.01
"""Predicted relative weight change below which no measured run had a visible effect; see docs/research/defaults.md."""


@dataclass(frozen=True)
class AdapterTraining:
    """A record of an adapter's training; all 0 if nothing was trained.

    Attributes:
        n_trained: Distinct texts with at least one ordinary token, which were trained on.
        n_epochs: Passes over the texts, the last one possibly cut short.
        losses: Loss of every step; each is 0 or more, and log(B) is the value of uninformative embeddings.
        predicted_change: Upper estimate, made before training, of the relative size of the weight change
            `|scale * BA| / |W|`, averaged over adapted layers.
        relative_change: The same as measured after training.
    """

    n_texts: int
    n_trained: int = 0
    n_steps: int = 0
    n_epochs: int = 0
    learning_rate: float = 0.0
    losses: tuple[float, ...] = ()
    target_modules: tuple[str, ...] = ()
    n_trainable: int = 0
    predicted_change: float = 0.0
    relative_change: float = 0.0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        return {**asdict(self), "losses": [round(loss, 6) for loss in self.losses]}


def run_training(
    classifier: TextClassifier,
    config: AdapterConfig,
    loop: Callable[[TextClassifier], TrainingLoop],
    *,
    seed: int,
    n_texts: int,
    progress: Progress | None = None,
) -> tuple[Any, AdapterTraining]:
    """Attach a fresh adapter and train it; the random state of the process is left as it was.

    Args:
        seed: Decides LoRA's start.
        n_texts: How many texts were given, for the record.

    Raises:
        RunError: The loss became NaN, or frozen weights changed.
    """
    before = classifier.fingerprint()
    with seeded(seed):
        model = attach_adapter(classifier, config)
        result = loop(classifier.with_model(model)).run(progress, n_texts=n_texts)
    if classifier.with_model(model).fingerprint() != before:
        raise RunError(
            "Frozen weights changed during training; the adapter is not usable. Please report this as a bug."
        )
    return model, result


def first_of_equals(encoded: EncodedTexts, rows: Array) -> Array:
    """The first of each set of texts, among some in ascending order, that are equal to the model, ascending."""
    first = {encoded.input_ids[i].tobytes(): i for i in reversed(rows)}
    return np.array(sorted(first.values()), dtype=np.int64)


def steps_to_take(n: int, config: AdapterConfig) -> int:
    """Optimiser steps for n items: `epochs` passes, at least `min_steps`, at most `max_steps`."""
    steps = max(config.epochs * len(_batch_bounds(n, config.batch_size)), config.min_steps)
    return min(steps, config.max_steps) if config.max_steps else steps


def _batch_bounds(n: int, size: int) -> list[tuple[int, int]]:
    """Batches of `size`; a last one of a single item joins the one before, since alone it has no negative."""
    starts = list(range(0, n, size))
    if len(starts) > 1 and n - starts[-1] == 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], n], strict=True))


def length_chunks(lengths: Array, *, fill: float) -> list[Array]:
    """Split a batch into chunks of similar length, longest first, so that little is spent on padding.

    Args:
        lengths: Tokens of each text of the batch, shape (B,).
        fill: A text joins a chunk if it is at least this share of the chunk's longest.

    Returns:
        Positions within the batch, one array for each chunk.
    """
    chunks: list[list[int]] = []
    for i in np.argsort(-lengths, kind="stable"):
        if not chunks or lengths[i] < fill * lengths[chunks[-1][0]]:
            chunks.append([])
        chunks[-1].append(int(i))
    return [np.array(chunk) for chunk in chunks]


class TrainingLoop(ABC):
    """Optimiser steps on an adapter; a subclass says on what.

    Args:
        classifier: Around the PEFT model.
        seed: Decides the order of the texts.
        n_items: What an epoch passes over, if it is not each text once.
    """

    def __init__(
        self,
        classifier: TextClassifier,
        encoded: EncodedTexts,
        config: AdapterConfig,
        seed: int,
        n_items: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.encoded = encoded
        self.config = config
        self.n_items = len(encoded) if n_items is None else n_items
        self.rng = np.random.default_rng(seed)
        self.parameters = [p for p in classifier.model.parameters() if p.requires_grad]

    @abstractmethod
    def loss(self, chosen: Array) -> Tensor:
        """The loss of a batch, given as what `epoch` yields; with several processes it is that of all of them."""

    def epoch(self) -> Iterator[Array]:
        """One shuffled pass over the items, in batches of indices."""
        order = self.rng.permutation(self.n_items)
        for start, end in _batch_bounds(len(order), self.config.batch_size):
            yield order[start:end]

    def run(self, progress: Progress | None, *, n_texts: int) -> AdapterTraining:
        """All steps; `n_texts` is how many texts were given, for the record."""
        started = time.perf_counter()
        config, model = self.config, self.classifier.model
        total = steps_to_take(self.n_items, config)
        effective_steps = _effective_steps(config, total)
        if not effective_steps:
            raise ConfigError(
                f"The schedule {config.scheduler!r} with warmup_ratio {config.warmup_ratio} has a rate of 0 in all of "
                f"{counted(total, 'step')}. Use a smaller warmup_ratio, or more steps (min_steps, epochs)."
            )
        per_unit = predicted_change(model, 1.0, effective_steps)
        learning_rate = config.target_change / per_unit if config.target_change else config.learning_rate
        expected = learning_rate * per_unit
        optimizer, scheduler = _optimizer(self.parameters, config, learning_rate, total)
        if expected < NEGLIGIBLE_CHANGE:
            warnings.warn(
                f"This run is predicted to change next to nothing: {total} steps at learning rate "
                f"{learning_rate:g} move the adapted weights by at most {expected:.2%}. Take more steps "
                "(epochs, min_steps or a smaller batch_size), a higher learning_rate, or the preset 'default'.",
                GuardrailWarning,
                stacklevel=5,
            )
        losses: list[float] = []
        epochs = 0
        model.train(config.dropout)
        while len(losses) < total:
            for chosen in self.epoch():
                losses.append(self._step(chosen, optimizer, scheduler))
                if progress is not None:
                    progress("Adapting", len(losses), total)
                if len(losses) == total:
                    break
            epochs += 1
        model.eval()
        return AdapterTraining(
            n_texts=n_texts,
            n_trained=len(self.encoded),
            n_steps=total,
            n_epochs=epochs,
            learning_rate=learning_rate,
            losses=tuple(losses),
            target_modules=tuple(sorted({name.rpartition(".")[2] for name, _ in adapted_layers(model)})),
            n_trainable=sum(p.numel() for p in self.parameters),
            predicted_change=expected,
            relative_change=relative_change(model),
            seconds=time.perf_counter() - started,
        )

    def _step(self, chosen: Array, optimizer: Any, scheduler: Any) -> float:
        loss = self.loss(chosen)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise RunError(
                f"The training loss became {value}. Lower learning_rate or target_change, or use precision float32."
            )
        if loss.requires_grad:
            torch.autograd.backward(loss)
        sum_gradients(self.parameters)
        if self.config.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.max_grad_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        return value

    def forward(self, batch: Batch, compute: Callable[[Batch], Tensor]) -> Tensor:
        """What is computed of each of a batch's sequences, such as their embeddings, shape (m, H): a row for each, 32
        bit, in as many passes as padding and memory ask for."""
        parts = self._parts(batch)
        if len(parts) == 1:
            return compute(batch).float()
        rows = torch.cat([self._part(batch.select(part.to(batch.input_ids.device)), compute) for part in parts])
        return rows[torch.argsort(torch.cat(parts)).to(rows.device)]

    def answers(self, chosen: Array) -> Tensor:
        """Logits of a batch of texts, shape (B, Q, C), see `TextClassifier`; each process computes its share."""
        rows, classifier = chosen[own_share(len(chosen))], self.classifier
        if not len(rows):  # more processes than texts in the batch
            own = torch.zeros((0, classifier.heads.n_questions, classifier.n_classes), device=classifier.device)
        else:
            own = self.forward(classifier.collate(self.encoded, rows), classifier.answers)
        return gather_shares(own, len(chosen))

    def _part(self, batch: Batch, compute: Callable[[Batch], Tensor]) -> Tensor:
        if not self.config.sequences_per_pass:
            return compute(batch).float()
        # Gradient caching (Gao et al. 2021): activations are computed again when the part's gradient is due.
        rows: Tensor = checkpoint(
            lambda: compute(batch).float(), use_reentrant=False, preserve_rng_state=self.config.dropout
        )
        return rows

    def _parts(self, batch: Batch) -> list[Tensor]:
        """Which sequences share a forward pass: similar lengths where padding costs, and no more than memory allows."""
        lengths = batch.attention_mask.sum(dim=1).cpu().numpy()
        chunks = length_chunks(lengths, fill=0.0 if self.classifier.packs else 0.9)
        most = self.config.sequences_per_pass or len(lengths)
        return [torch.from_numpy(c[i : i + most]) for c in chunks for i in range(0, len(c), most)]


def _optimizer(
    parameters: list[nn.Parameter], config: AdapterConfig, learning_rate: float, total: int
) -> tuple[Any, Any]:
    """Optimiser and schedule."""
    from transformers import get_scheduler

    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=config.weight_decay)
    warmup = math.ceil(config.warmup_ratio * total)
    return optimizer, get_scheduler(config.scheduler, optimizer, num_warmup_steps=warmup, num_training_steps=total)


def _effective_steps(config: AdapterConfig, total: int) -> float:
    """The sum of the schedule's multipliers over a run: steps at the peak rate that would move as far."""
    optimizer, scheduler = _optimizer([nn.Parameter(torch.zeros(1))], config, 1.0, total)
    effective = 0.0
    for _ in range(total):
        effective += optimizer.param_groups[0]["lr"]
        optimizer.step()  # without gradients nothing moves; PyTorch wants it before the schedule's step
        scheduler.step()
    return effective
