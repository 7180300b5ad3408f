"""Trains the LoRA adapter on unlabelled deployment texts (paper Section 3.3)."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .config import AdapterConfig, SaliencyConfig
from .encoder import Batch, EncodedTexts, Progress, TextClassifier, share_weights
from .errors import ConfigError, DataError, GuardrailWarning, RunError
from .losses import flat_contrastive_loss, masked_contrastive_loss
from .masking import mask_variants
from .processes import gather_shares, own_share, sum_gradients
from .saliency import find_important_tokens
from .sentences import counted

Array = np.ndarray[Any, np.dtype[Any]]

NEGLIGIBLE_CHANGE = 0.01
"""Predicted relative weight change below which no measured run had a visible effect; see docs/defaults.md."""


@dataclass(frozen=True)
class AdapterTraining:
    """What happened while an adapter was trained.

    Attributes:
        n_texts: Texts given.
        n_trained: Distinct texts with at least one ordinary token, which training ran on.
        n_steps: Optimiser steps taken.
        n_epochs: Passes over the texts, the last one possibly cut short.
        learning_rate: Peak learning rate used.
        losses: Loss of every step; each is 0 or more, and log(B) is the value of uninformative embeddings.
        target_modules: Names of the adapted layers.
        n_trainable: Number of trained parameters.
        predicted_change: Upper estimate, made before training, of the relative size of the weight change
            |scale * BA| / |W|, averaged over adapted layers; NaN for optimisers without a bounded step.
        relative_change: The same as measured after training.
        seconds: Wall-clock time of the training loop.
    """

    n_texts: int
    n_trained: int
    n_steps: int
    n_epochs: int
    learning_rate: float
    losses: tuple[float, ...]
    target_modules: tuple[str, ...]
    n_trainable: int
    predicted_change: float
    relative_change: float
    seconds: float

    @classmethod
    def none(cls, n_texts: int) -> AdapterTraining:
        """The record of a strategy, or a run, that had nothing to train."""
        return cls(
            n_texts=n_texts,
            n_trained=0,
            n_steps=0,
            n_epochs=0,
            learning_rate=0.0,
            losses=(),
            target_modules=(),
            n_trainable=0,
            predicted_change=0.0,
            relative_change=0.0,
            seconds=0.0,
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; an undefined number is `None`."""
        values = asdict(self)
        values["losses"] = [round(loss, 6) for loss in self.losses]
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}


def attach_adapter(classifier: TextClassifier, config: AdapterConfig) -> Any:
    """A PEFT model: the classifier's weights, shared and frozen, with fresh LoRA layers on query and value.

    No PEFT task type is set: the one for sequence classification would make the head trainable. LoRA starts at zero
    change, and draws its other factor from PyTorch's global generator.

    Raises:
        ConfigError: `target_modules` names no layer of this model.
    """
    from peft import LoraConfig

    lora = LoraConfig(
        r=config.rank,
        lora_alpha=cast(int, config.lora_alpha),
        target_modules=list(config.target_modules or classifier.lora_targets()),
        lora_dropout=0.0,
        bias="none",
    )
    try:
        model = wrap_with_lora(classifier, lora)
    except ValueError as error:
        raise ConfigError(f"target_modules {list(lora.target_modules)} cannot be adapted: {error}") from error
    outside = [name for name, p in model.named_parameters() if p.requires_grad and ".lora_" not in name]
    assert not outside, f"only LoRA weights may be trained, but these ask for gradients: {outside}"
    return model.eval()


def untrained_adapter(classifier: TextClassifier, config: AdapterConfig, *, seed: int) -> Any:
    """A PEFT model whose adapter changes nothing, for guards that found nothing to train for."""
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
        torch.manual_seed(seed)
        return attach_adapter(classifier, config).requires_grad_(False)


def wrap_with_lora(classifier: TextClassifier, lora: Any) -> Any:
    """PEFT's wrapper around a weight-sharing copy of the classifier's model."""
    from peft import get_peft_model

    with warnings.catch_warnings():
        # PEFT asks Transformers for an attribute that Transformers is renaming; nothing the user could do about it.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        return get_peft_model(share_weights(classifier.plain_model), lora)


def train_adapter(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    positions: Array,
    config: AdapterConfig,
    *,
    seed: int,
    saliency: SaliencyConfig | None = None,
    progress: Progress | None = None,
) -> tuple[Any, AdapterTraining]:
    """Train an adapter with masked contrastive learning.

    The random state of the process is left as it was.

    Args:
        classifier: The base model.
        encoded: N deployment texts.
        positions: Their important tokens on the base model, shape (N, K), -1 for an empty slot; those of texts that are
            not drawn (see `texts_drawn`) do not matter.
        config: How to train.
        seed: Decides LoRA's start and the order of the texts; the same seed gives the same adapter.
        saliency: How important tokens are found again, for `refresh="epoch"`.
        progress: Told how many steps are done.

    Returns:
        The PEFT model and the record of its training.

    Raises:
        DataError: Fewer than two distinct texts have a token to mask.
        RunError: The loss became NaN, or frozen weights changed.
    """
    kept = _trained(encoded, config)
    if len(kept) < 2:
        raise DataError(
            "Adaptation needs at least 2 distinct texts with a token that can be masked, "
            f"but {len(kept)} of {len(encoded)} {'is' if len(kept) == 1 else 'are'}. Give more deployment texts."
        )

    def trainer(adapted: TextClassifier) -> TrainingLoop:
        return MaskedContrastiveLearning(adapted, encoded.select(kept), positions[kept], config, seed, saliency)

    return run_training(classifier, config, trainer, seed=seed, n_texts=len(encoded), progress=progress)


def run_training(
    classifier: TextClassifier,
    config: AdapterConfig,
    trainer: Callable[[TextClassifier], TrainingLoop],
    *,
    seed: int,
    n_texts: int,
    progress: Progress | None = None,
) -> tuple[Any, AdapterTraining]:
    """Attach a fresh adapter and train it; the random state of the process is left as it was.

    Args:
        classifier: The base model.
        config: How to train.
        trainer: Makes the training loop around the classifier with its adapter.
        seed: Decides LoRA's start.
        n_texts: How many texts were given, for the record.
        progress: Told how many steps are done.

    Returns:
        The PEFT model and the record of its training.

    Raises:
        RunError: The loss became NaN, or frozen weights changed.
    """
    before = classifier.fingerprint()
    # An explicit list, because PyTorch warns about an implicit one on machines with many GPUs.
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
        torch.manual_seed(seed)
        model = attach_adapter(classifier, config)
        result = trainer(classifier.with_model(model)).run(progress, n_texts=n_texts)
    if classifier.with_model(model).fingerprint() != before:
        raise RunError(
            "Frozen weights changed during training; the adapter is not usable. Please report this as a bug."
        )
    return model, result


def texts_drawn(encoded: EncodedTexts, config: AdapterConfig, *, seed: int) -> Array:
    """Indices of the texts that training with masked contrastive learning will draw, ascending.

    These alone need to be attributed: where the steps do not suffice for one pass, most texts of a large corpus are
    never seen. Of equal texts one is drawn. All are where pairs are drawn rather than texts, since pairs have to be
    counted first.

    Args:
        encoded: N texts.
        config: How it will train.
        seed: The seed it will train with.
    """
    kept = _trained(encoded, config)
    if config.pairing != "grouped":
        return kept
    n_seen = steps_to_take(len(kept), config) * config.batch_size + 1  # a last batch of one joins the one before
    order = np.random.default_rng(seed).permutation(len(kept))  # as the loop draws its first pass
    return np.sort(kept[order[:n_seen]])


def _trained(encoded: EncodedTexts, config: AdapterConfig) -> Array:
    """Indices of the texts to train on: those with a token to mask, the first of each set of equal texts."""
    usable = np.flatnonzero([ordinary.any() for ordinary in encoded.ordinary])
    if not config.deduplicate:
        return usable
    return first_of_equals(encoded, usable)


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


def length_chunks(lengths: Array, *, fill: float = 0.9) -> list[Array]:
    """Split a batch into chunks of similar length, longest first, so that little is spent on padding.

    The loss still sees the whole batch: only what shares a forward pass changes.

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


def adapted_layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Every layer that carries LoRA factors, with its name."""
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and hasattr(module, "base_layer"):
            yield name, module


def predicted_change(model: nn.Module, learning_rate: float, effective_steps: float) -> float:
    """Upper estimate of |scale * BA| / |W| after some steps of Adam, averaged over adapted layers.

    Adam moves an entry by about the learning rate a step, at most. B starts at zero, so after T steps its entries are
    within lr * T; with independent signs, |BA| is at most lr * T * sqrt(d_out) * |A|.
    """
    ratios = []
    for _, layer in adapted_layers(model):
        (name,) = layer.active_adapters
        factor_a, factor_b = layer.lora_A[name].weight.detach(), layer.lora_B[name].weight
        moved = learning_rate * effective_steps * math.sqrt(factor_b.shape[0])
        ratios.append(layer.scaling[name] * moved * float(factor_a.norm()) / float(layer.base_layer.weight.norm()))
    return float(np.mean(ratios))


def relative_change(model: nn.Module) -> float:
    """|scale * BA| / |W| averaged over adapted layers, at full strength."""
    with torch.no_grad():
        ratios = [
            float(layer.get_delta_weight(name).norm() / layer.base_layer.weight.norm())
            for _, layer in adapted_layers(model)
            for name in layer.active_adapters
        ]
    return float(np.mean(ratios))


class TrainingLoop(ABC):
    """Optimiser steps on an adapter; a subclass says on what.

    Args:
        classifier: Around the PEFT model.
        encoded: The texts to train on.
        config: How to train.
        seed: Decides the order of the texts.
    """

    def __init__(self, classifier: TextClassifier, encoded: EncodedTexts, config: AdapterConfig, seed: int) -> None:
        self.classifier = classifier
        self.encoded = encoded
        self.config = config
        self.rng = np.random.default_rng(seed)
        self.parameters = [p for p in classifier.model.parameters() if p.requires_grad]

    @abstractmethod
    def n_items(self) -> int:
        """What an epoch passes over."""

    @abstractmethod
    def loss(self, chosen: Array) -> Tensor:
        """The loss of a batch, given as what `epoch` yields; with several processes it is that of all of them."""

    def epoch(self) -> Iterator[Array]:
        """One shuffled pass over the items, in batches of indices."""
        order = self.rng.permutation(self.n_items())
        for start, end in _batch_bounds(len(order), self.config.batch_size):
            yield order[start:end]

    def between_epochs(self) -> None:  # noqa: B027 - most have nothing to do
        """What is to be done before every epoch but the first."""

    def run(self, progress: Progress | None, *, n_texts: int) -> AdapterTraining:
        """All steps; `n_texts` is how many texts were given, for the record."""
        started = time.perf_counter()
        config, model = self.config, self.classifier.model
        total = steps_to_take(self.n_items(), config)
        effective_steps = _effective_steps(config, total)
        if not effective_steps:
            raise ConfigError(
                f"The schedule {config.scheduler!r} with warmup_ratio {config.warmup_ratio} has a rate of 0 in all of "
                f"{counted(total, 'step')}. Use a smaller warmup_ratio, or more steps (min_steps, epochs)."
            )
        learning_rate, expected = self._learning_rate(effective_steps)
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
            if epochs:
                self.between_epochs()
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

    def _learning_rate(self, effective_steps: float) -> tuple[float, float]:
        """The peak learning rate, and the relative weight change predicted for it."""
        config = self.config
        if config.optimizer != "adamw":
            return config.learning_rate, math.nan
        per_unit = predicted_change(self.classifier.model, 1.0, effective_steps)
        learning_rate = config.target_change / per_unit if config.target_change else config.learning_rate
        return learning_rate, learning_rate * per_unit

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
        """A row for each of a batch's sequences, 32 bit, in as many passes as padding and memory ask for.

        Args:
            batch: M sequences.
            compute: The rows of a part of them, e.g. their embeddings, shape (m, H).
        """
        parts = self._parts(batch)
        if len(parts) == 1:
            return compute(batch).float()
        rows = torch.cat([self._part(batch.select(part.to(batch.input_ids.device)), compute) for part in parts])
        return rows[torch.argsort(torch.cat(parts)).to(rows.device)]

    def class_logits(self, chosen: Array) -> Tensor:
        """Class logits of a batch of texts, shape (B, C); each process computes its share of them."""
        rows = chosen[own_share(len(chosen))]
        if not len(rows):  # more processes than texts in the batch
            own = torch.zeros((0, self.classifier.n_classes), device=self.classifier.device)
        else:
            own = self.forward(self.classifier.collate(self.encoded, rows), self.classifier.logits)
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
        whole = np.argsort(-lengths, kind="stable")
        chunks = [whole] if self.classifier.packs else length_chunks(lengths)
        most = self.config.sequences_per_pass or len(lengths)
        return [torch.from_numpy(c[i : i + most]) for c in chunks for i in range(0, len(c), most)]


class MaskedContrastiveLearning(TrainingLoop):
    """Masked contrastive learning."""

    def __init__(
        self,
        classifier: TextClassifier,
        encoded: EncodedTexts,
        positions: Array,
        config: AdapterConfig,
        seed: int,
        saliency: SaliencyConfig | None,
    ) -> None:
        super().__init__(classifier, encoded, config, seed)
        self.positions = positions
        self.saliency = saliency or SaliencyConfig(top_k=positions.shape[1])

    def n_items(self) -> int:
        """Inputs, or single pairs."""
        return len(self.encoded) if self.config.pairing == "grouped" else int((self.positions >= 0).sum())

    def between_epochs(self) -> None:
        """Find the important tokens again, where that is asked for."""
        if self.config.refresh == "epoch":
            self._refresh()

    def loss(self, chosen: Array) -> Tensor:
        """See `losses`."""
        return self._grouped_loss(chosen) if self.config.pairing == "grouped" else self._flat_loss(chosen)

    def _grouped_loss(self, rows: Array) -> Tensor:
        """Paper Section 3.3: B anchors and all their variants."""
        own = rows[own_share(len(rows))]
        positions = self._positions(own)
        anchors, variants = self._embed_with_variants(own, positions)
        positives = anchors.new_zeros((*positions.shape, anchors.shape[-1]))
        positives[positions >= 0] = variants
        return masked_contrastive_loss(
            gather_shares(anchors, len(rows)),
            gather_shares(positives, len(rows)),
            self._positions(rows) >= 0,
            temperature=self.config.temperature,
        )

    def _flat_loss(self, chosen: Array) -> Tensor:
        """A batch of (input, slot) pairs; the anchor is encoded once for each."""
        own = np.argwhere(self.positions >= 0)[chosen[own_share(len(chosen))]]
        slots = torch.from_numpy(own[:, 1:]).to(self.classifier.device)
        anchors, variants = self._embed_with_variants(own[:, 0], self._positions(own[:, 0]).gather(1, slots))
        return flat_contrastive_loss(
            gather_shares(anchors, len(chosen)),
            gather_shares(variants, len(chosen)),
            temperature=self.config.temperature,
        )

    def _embed_with_variants(self, rows: Array, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of some texts, shape (b, H), and of their variants, row by row and slot by slot, shape (m, H)."""
        if not len(rows):  # more processes than texts in the batch
            nothing = torch.zeros((0, self.classifier.encoder.config.hidden_size), device=self.classifier.device)
            return nothing, nothing
        batch = self.classifier.collate(self.encoded, rows)
        variants = mask_variants(batch.input_ids, positions, self.classifier.tokenizer.mask_token_id)
        own_rows = torch.arange(len(batch.indices), device=batch.input_ids.device)
        everything = batch.copies(
            torch.cat([batch.input_ids, variants.input_ids]), torch.cat([own_rows, variants.rows])
        )
        embeddings = self.forward(everything, lambda part: self.classifier.embed(part, self.config.embedding))
        return embeddings[: len(own_rows)], embeddings[len(own_rows) :]

    def _positions(self, rows: Array) -> Tensor:
        return torch.from_numpy(self.positions[rows].astype(np.int64)).to(self.classifier.device)

    def _refresh(self) -> None:
        training = self.classifier.model.training
        self.classifier.model.eval()
        self.positions = find_important_tokens(self.classifier, self.encoded, self.saliency).positions
        self.classifier.model.train(training)


def _optimizer(
    parameters: list[nn.Parameter], config: AdapterConfig, learning_rate: float, total: int
) -> tuple[Any, Any]:
    """Optimiser and schedule."""
    from transformers import get_scheduler

    kind: Any = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.SGD
    optimizer = kind(parameters, lr=learning_rate, weight_decay=config.weight_decay)
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
