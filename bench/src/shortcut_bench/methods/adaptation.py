"""Test-time adaptation by entropy, on LayerNorm: Tent, EATA, SAR, DeYO.

All train the scale and shift of normalisation layers on unlabelled texts, one batch after another, with the model in
evaluation mode: BERT has dropout, which the vision models of the sources do not, and in training mode it would be part
of the entropy.
"""

from __future__ import annotations

import copy
import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortcut_guardrail.data import Texts, to_json, write_folder
from shortcut_guardrail.errors import ConfigError, DataError, ModelError, RunError
from shortcut_guardrail.models import Batch, EncodedTexts, FastPaths, TextClassifier, load_model
from shortcut_guardrail.typing import Progress

from ..systems import FittedSystem, Material, ModelSystem, Need
from .entropy import (
    deyo_loss,
    eata_loss,
    eata_selection,
    moving_average,
    plpd,
    scaled_cosine,
    scaled_entropy,
    softmax_entropy,
)
from .training import as_config, require

Array = np.ndarray[Any, np.dtype[Any]]
Mode = Literal["after", "online"]

IMAGENET_ENTROPY = math.log(1000)


def norm_parameters(model: nn.Module, *, skip_top: float = 0.0) -> dict[str, nn.Parameter]:
    """Scale and shift of the normalisation layers, by name; 38,400 numbers for the shape of BERT-base.

    Args:
        model: A Transformers model.
        skip_top: Share of the encoder's blocks, from the top, whose layers are left out, and with them a last
            normalisation after the blocks. SAR and DeYO leave out the top quarter (3 of 12), by names that BERT lacks.

    Raises:
        ModelError: There are none.
    """
    blocks = [int(found[1]) for name, _ in model.named_modules() if (found := _BLOCK.search(name))]
    n_blocks = max(blocks, default=-1) + 1
    first_skipped = n_blocks - int(skip_top * n_blocks)
    chosen: dict[str, nn.Parameter] = {}
    for name, module in model.named_modules():
        if not isinstance(module, nn.LayerNorm | nn.RMSNorm):
            continue
        block = _BLOCK.search(name)
        if block and int(block[1]) >= first_skipped:
            continue
        if skip_top and not block and "final" in name:
            continue
        chosen |= {f"{name}.{part}": value for part, value in module.named_parameters(recurse=False)}
    if not chosen:
        raise ModelError("The model has no LayerNorm or RMSNorm whose parameters could be adapted.")
    return chosen


_BLOCK = re.compile(r"\.(?:layer|layers|h|blocks?)\.(\d+)(?:\.|$)")


@dataclass
class Counts:
    """What happened to the rows of an adaptation.

    Attributes:
        rows: Rows seen.
        used: Rows whose entropy was minimised.
        steps: Optimiser steps taken; a batch of which nothing is kept takes none.
        resets: How often SAR put the model back.
        forward: Forward equivalents spent on rows.
    """

    rows: int = 0
    used: int = 0
    steps: int = 0
    resets: int = 0
    forward: float = 0.0


class Adapter:
    """Adapts a copy of a classifier batch by batch: Tent here, the others as subclasses.

    Args:
        classifier: Around a private copy of the model.
        method: The options.
    """

    def __init__(self, classifier: TextClassifier, method: Tent) -> None:
        self.classifier = classifier
        self.counts = Counts()
        self.method = method
        self.n_classes = classifier.n_classes
        classifier.model.requires_grad_(False).eval()
        self.parameters = norm_parameters(classifier.plain_model, skip_top=method.skip_top)
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)
        self.start = {name: value.detach().clone() for name, value in self.parameters.items()}
        self.optimizer = self._make_optimizer()

    def _make_optimizer(self) -> torch.optim.Optimizer:
        values, rate = list(self.parameters.values()), self.method.learning_rate
        if self.method.optimizer == "adam":
            return torch.optim.Adam(values, lr=rate, betas=(0.9, 0.999), weight_decay=0.0)
        return torch.optim.SGD(values, lr=rate, momentum=0.9)

    def step(self, batch: Batch) -> Tensor:
        """Adapt on a batch; the logits from before the update, shape (B, C)."""
        self.counts.rows += len(batch.indices)
        with torch.enable_grad():
            logits = self.classifier.logits(batch)
            self.counts.forward += len(batch.indices)
            self._update(batch, logits)
        return logits.detach()

    def relative_change(self) -> float:
        """How far the trained numbers are from where they started, as a share of their norm."""
        moved = torch.stack([(value.detach() - self.start[name]).norm() for name, value in self.parameters.items()])
        return float(moved.norm() / torch.stack([value.norm() for value in self.start.values()]).norm())

    def _update(self, batch: Batch, logits: Tensor) -> None:
        self._descend(softmax_entropy(logits).mean(), len(batch.indices), len(batch.indices))

    def _descend(self, loss: Tensor, used: int, backward: int) -> None:
        """One optimiser step.

        Raises:
            RunError: The loss is not finite.
        """
        self._backward(loss, used, backward)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.counts.steps += 1

    def _backward(self, loss: Tensor, used: int, backward: int) -> None:
        if not math.isfinite(float(loss.detach())):
            raise RunError(
                f"The entropy of '{self.method.name}' became {float(loss.detach())} after {self.counts.steps} steps. "
                "Lower its learning_rate."
            )
        torch.autograd.backward(loss)
        self.counts.used += used
        # Only normalisation parameters are trained, so a backward pass is one to activations.
        self.counts.forward += backward


class EataAdapter(Adapter):
    """EATA: certain and unlike rows, weighted by certainty, held to the source by Fisher information."""

    method: EATA

    def __init__(self, classifier: TextClassifier, method: EATA, source: EncodedTexts | None) -> None:
        super().__init__(classifier, method)
        self.entropy_margin = scaled_entropy(method.entropy_margin * IMAGENET_ENTROPY, self.n_classes)
        self.cosine_margin = scaled_cosine(method.cosine_margin, self.n_classes)
        self.mean_probs: Tensor | None = None
        self.fisher = {} if source is None else self._fisher(source)

    def _fisher(self, source: EncodedTexts) -> dict[str, Tensor]:
        """Mean over batches of the squared gradient of CE by the model's own answers, name by name."""
        total = {name: torch.zeros_like(value) for name, value in self.parameters.items()}
        chunks = list(_in_order(self.classifier, source, self.method.batch_size))
        for batch in chunks:
            with torch.enable_grad():
                logits = self.classifier.logits(batch)
                loss = F.cross_entropy(logits, logits.argmax(dim=-1))
            gradients = torch.autograd.grad(loss, list(self.parameters.values()))
            for (_name, value), gradient in zip(total.items(), gradients, strict=True):
                value += gradient.detach() ** 2
            self.counts.forward += 2 * len(batch.indices)
        return {name: value / len(chunks) for name, value in total.items()}

    def penalty(self) -> Tensor:
        """beta * sum_k F_k (theta_k - theta_0k)^2, a scalar."""
        terms = [(self.fisher[name] * (self.parameters[name] - self.start[name]) ** 2).sum() for name in self.fisher]
        return self.method.fisher_weight * torch.stack(terms).sum()

    def _update(self, batch: Batch, logits: Tensor) -> None:
        rows, self.mean_probs = eata_selection(
            logits, self.mean_probs, entropy_margin=self.entropy_margin, cosine_margin=self.cosine_margin
        )
        if not len(rows):
            return
        loss = eata_loss(softmax_entropy(logits[rows]), self.entropy_margin)
        self._descend(loss + self.penalty() if self.fisher else loss, len(rows), len(rows))


class SarAdapter(Adapter):
    """SAR: certain rows, at the worst point nearby, and back to the start when the entropy collapses."""

    method: SAR

    def __init__(self, classifier: TextClassifier, method: SAR) -> None:
        super().__init__(classifier, method)
        self.entropy_margin = scaled_entropy(method.entropy_margin * IMAGENET_ENTROPY, self.n_classes)
        self.reset_below = scaled_entropy(method.reset_below, self.n_classes)
        self.average: float | None = None

    def _update(self, batch: Batch, logits: Tensor) -> None:
        entropies = softmax_entropy(logits)
        rows = (entropies < self.entropy_margin).nonzero()[:, 0]
        if not len(rows):
            return
        self._backward(entropies[rows].mean(), 0, len(rows))
        shifts = self._climb()
        again = softmax_entropy(self.classifier.logits(batch))[rows]
        self.counts.forward += len(batch.indices)
        kept = again[again < self.entropy_margin]
        if len(kept):
            loss = kept.mean()
            self._backward(loss, len(kept), len(kept))
            self.average = moving_average(self.average, float(loss.detach()))
        self._return(shifts)
        if len(kept):
            self.optimizer.step()
            self.counts.steps += 1
        self.optimizer.zero_grad()
        if self.average is not None and self.average < self.reset_below:
            self._reset()

    @torch.no_grad()
    def _climb(self) -> list[Tensor]:
        """Move by rho along the gradient; the shift of every parameter."""
        values = list(self.parameters.values())
        gradients = [torch.zeros_like(v) if v.grad is None else v.grad for v in values]
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        shifts = [gradient * (self.method.radius / (norm + 1e-12)) for gradient in gradients]
        for value, shift in zip(values, shifts, strict=True):
            value.add_(shift)
        self.optimizer.zero_grad()
        return shifts

    @torch.no_grad()
    def _return(self, shifts: list[Tensor]) -> None:
        for value, shift in zip(self.parameters.values(), shifts, strict=True):
            value.sub_(shift)

    @torch.no_grad()
    def _reset(self) -> None:
        for name, value in self.parameters.items():
            value.copy_(self.start[name])
        self.optimizer = self._make_optimizer()
        self.average = None
        self.counts.resets += 1


class DeyoAdapter(Adapter):
    """DeYO: certain rows whose answer needs the text to be whole."""

    method: DeYO

    def __init__(self, classifier: TextClassifier, method: DeYO, rng: np.random.Generator) -> None:
        super().__init__(classifier, method)
        self.filter_margin = scaled_entropy(method.filter_margin * IMAGENET_ENTROPY, self.n_classes)
        self.entropy_margin = scaled_entropy(method.entropy_margin * IMAGENET_ENTROPY, self.n_classes)
        self._rng = rng

    def _update(self, batch: Batch, logits: Tensor) -> None:
        entropies = softmax_entropy(logits)
        rows = (entropies < self.filter_margin).nonzero()[:, 0]
        if not len(rows):
            return
        destroyed = destroy(
            batch, rows, self._rng, how=self.method.destroy, mask_token_id=self.classifier.tokenizer.mask_token_id
        )
        with torch.no_grad():
            differences = plpd(logits[rows], self.classifier.logits(destroyed))
        self.counts.forward += len(rows)
        keep = differences > self.method.plpd_margin
        if not keep.any():
            return
        loss = deyo_loss(entropies[rows][keep], differences[keep], self.entropy_margin)
        self._descend(loss, int(keep.sum()), int(keep.sum()))


def destroy(
    batch: Batch, rows: Tensor, rng: np.random.Generator, *, how: Literal["shuffle", "mask"], mask_token_id: int
) -> Batch:
    """Some texts of a batch with their ordinary tokens shuffled, or half of them masked; the rest stays in place.

    Args:
        batch: B texts.
        rows: Which of them, shape (S,).
        rng: Shuffles, or chooses.
        how: `shuffle` is the text's counterpart of DeYO's shuffled patches; `mask` of its occlusion.
        mask_token_id: What masks.
    """
    copies = batch.input_ids[rows].clone()
    for row, ordinary in zip(copies, batch.ordinary[rows], strict=True):
        places = ordinary.nonzero()[:, 0]
        order = torch.from_numpy(rng.permutation(len(places))).to(places.device)
        if how == "shuffle":
            row[places] = row[places[order]]
        else:
            row[places[order[: math.ceil(len(places) / 2)]]] = mask_token_id
    return batch.copies(copies, rows)


def _in_order(
    classifier: TextClassifier, encoded: EncodedTexts, size: int, order: Array | None = None
) -> Iterator[Batch]:
    order = np.arange(len(encoded)) if order is None else order
    for start in range(0, len(order), size):
        yield classifier.collate(encoded, order[start : start + size])


@dataclass(frozen=True)
class Tent:
    """Test entropy minimisation on LayerNorm.

    Attributes:
        name: The name in tables.
        learning_rate: Of the optimiser.
        optimizer: `adam`, or `sgd` with momentum 0.9.
        batch_size: Texts per step; the batch is part of the method.
        epochs: Passes over the deployment texts in mode `after`.
        mode: `after` adapts on the deployment texts and then answers with the adapted model, as the guardrail does, so
            that a comparison differs in the method alone. `online` is the sources' protocol: the model starts anew with
            every call, and answers each batch of the texts it is asked about before it adapts on it.
        skip_top: Share of the blocks, from the top, that are left as they are.
    """

    name: str = "tent"
    learning_rate: float = 1e-3
    optimizer: Literal["adam", "sgd"] = "adam"
    batch_size: int = 64
    epochs: int = 1
    mode: Mode = "after"
    skip_top: float = 0.0

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, f"learning_rate must be above 0, but is {self.learning_rate}.")
        require(self.optimizer in ("adam", "sgd"), f"optimizer must be adam or sgd, but is {self.optimizer!r}.")
        require(self.batch_size >= 1, f"batch_size must be at least 1, but is {self.batch_size}.")
        require(self.epochs >= 1, f"epochs must be at least 1, but is {self.epochs}.")
        require(self.mode in ("after", "online"), f"mode must be after or online, but is {self.mode!r}.")
        require(0 <= self.skip_top < 1, f"skip_top must be at least 0 and below 1, but is {self.skip_top}.")

    @property
    def needs(self) -> frozenset[Need]:
        """The weights; and deployment texts, unless it adapts on what it is asked about."""
        needs = {Need.GRADIENTS} if self.mode == "online" else {Need.GRADIENTS, Need.DEPLOYMENT}
        return frozenset(needs | self._further_needs())

    def _further_needs(self) -> set[Need]:
        return set()

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> FittedSystem:
        """Adapts a copy of the base classifier, or, `online`, prepares to.

        Raises:
            ModelError: The model has no normalisation layer.
            RunError: The entropy stopped being finite.
        """
        if self.mode == "online":
            return OnlineSystem(_Start.of(self, material, seed), {"labels_spent": 0, "seconds": {}})
        assert material.deployment is not None
        require(bool(material.deployment), f"'{self.name}' needs deployment texts, but there are none.", DataError)
        started = time.perf_counter()
        adapter = self._adapter(_Start.of(self, material, seed))
        encoded = adapter.classifier.encode(material.deployment)
        rng = np.random.default_rng(seed)
        total = self.epochs * len(encoded)
        for _ in range(self.epochs):
            for batch in _in_order(adapter.classifier, encoded, self.batch_size, rng.permutation(len(encoded))):
                adapter.step(batch)
                if progress is not None:
                    progress("Adapting", adapter.counts.rows, total)
        adapter.classifier.model.requires_grad_(False)
        return ModelSystem(
            material.scorer(adapter.classifier.plain_model),
            info={
                "labels_spent": 0,
                "seconds": {"adapt": time.perf_counter() - started},
                "adaptation": adaptation_info(adapter),
                "n_deployment": len(encoded),
            },
            forward_equivalents=adapter.counts.forward,
        )

    def _adapter(self, start: _Start) -> Adapter:
        return Adapter(start.classifier(), self)


def adaptation_info(adapter: Adapter) -> dict[str, Any]:
    """Rows, steps, resets, trained numbers, how far they moved, and the thresholds as used, as JSON types."""
    thresholds = {
        name: value
        for name in ("entropy_margin", "filter_margin", "cosine_margin", "reset_below")
        if (value := getattr(adapter, name, None)) is not None
    }
    return {
        "rows": adapter.counts.rows,
        "rows_used": adapter.counts.used,
        "steps": adapter.counts.steps,
        "resets": adapter.counts.resets,
        "relative_change": adapter.relative_change(),
        "trained_parameters": sum(value.numel() for value in adapter.parameters.values()),
        "thresholds": thresholds,
    }


def _check_shares(method: Tent, *names: str) -> None:
    for name in names:
        value = getattr(method, name)
        require(value > 0, f"{name} must be above 0, but is {value}.")


@dataclass(frozen=True)
class EATA(Tent):
    """Efficient anti-forgetting test-time adaptation.

    Attributes:
        entropy_margin: Rows count whose entropy is below this share of ln C.
        cosine_margin: epsilon at 1000 classes; see `entropy.scaled_cosine`.
        fisher_weight: beta; 0 leaves the anchor out (the paper's ETA), and needs no source texts.
        fisher_rows: Source texts that the Fisher information is estimated on: dev texts.
    """

    name: str = "eata"
    learning_rate: float = 2.5e-4
    optimizer: Literal["adam", "sgd"] = "sgd"
    entropy_margin: float = 0.4
    cosine_margin: float = 0.05
    fisher_weight: float = 2000.0
    fisher_rows: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_shares(self, "entropy_margin")
        require(self.cosine_margin > 0, f"cosine_margin must be above 0, but is {self.cosine_margin}.")
        require(self.fisher_weight >= 0, f"fisher_weight must be at least 0, but is {self.fisher_weight}.")
        require(self.fisher_rows >= 1, f"fisher_rows must be at least 1, but is {self.fisher_rows}.")

    def _further_needs(self) -> set[Need]:
        return {Need.DEV_TEXTS} if self.fisher_weight else set()

    def _adapter(self, start: _Start) -> Adapter:
        classifier = start.classifier()
        if not self.fisher_weight:
            return EataAdapter(classifier, self, None)
        require(
            bool(start.source),
            f"'{self.name}' needs source texts to hold on to, but there are none. Give dev texts, or set fisher_weight "
            "to 0.",
            DataError,
        )
        return EataAdapter(classifier, self, classifier.encode(start.source[: self.fisher_rows]))


@dataclass(frozen=True)
class SAR(Tent):
    """Sharpness-aware and reliable entropy minimisation.

    Attributes:
        entropy_margin: Rows count whose entropy is below this share of ln C.
        radius: rho of the sharpness-aware step.
        reset_below: The moving average of the entropy below which the model starts again, at 1000 classes; the official
            code has this 0.2 for any number of classes, which with few resets for ever.
    """

    name: str = "sar"
    learning_rate: float = 1e-3
    optimizer: Literal["adam", "sgd"] = "sgd"
    skip_top: float = 0.25
    entropy_margin: float = 0.4
    radius: float = 0.05
    reset_below: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_shares(self, "entropy_margin")
        require(self.radius >= 0, f"radius must be at least 0, but is {self.radius}.")
        require(self.reset_below >= 0, f"reset_below must be at least 0, but is {self.reset_below}.")

    def _adapter(self, start: _Start) -> Adapter:
        return SarAdapter(start.classifier(), self)


@dataclass(frozen=True)
class DeYO(Tent):
    """Destroy your object, for text.

    The defaults are what the official code takes for ImageNet-C under mixed shifts and a ViT. `biased` is what it takes
    for data with a spurious correlation (Waterbirds).

    Attributes:
        plpd_margin: Rows count whose answer loses more probability than this when the text is destroyed.
        filter_margin: Rows count whose entropy is below this share of ln C.
        entropy_margin: E_0 of the weight 1 / exp(E - E_0), as a share of ln C.
        destroy: `shuffle` the ordinary tokens, or `mask` half of them.
    """

    name: str = "deyo"
    learning_rate: float = 1e-3
    optimizer: Literal["adam", "sgd"] = "sgd"
    skip_top: float = 0.25
    plpd_margin: float = 0.2
    filter_margin: float = 0.5
    entropy_margin: float = 0.4
    destroy: Literal["shuffle", "mask"] = "shuffle"

    @classmethod
    def biased(cls, **options: Any) -> DeYO:
        """The official code's values for data with a spurious correlation: five times the rate, a margin of .5."""
        return cls(**{"name": "deyo-biased", "learning_rate": 5e-3, "plpd_margin": 0.5, **options})

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_shares(self, "filter_margin", "entropy_margin")
        require(-1 <= self.plpd_margin < 1, f"plpd_margin must be at least -1 and below 1, but is {self.plpd_margin}.")
        require(self.destroy in ("shuffle", "mask"), f"destroy must be shuffle or mask, but is {self.destroy!r}.")

    def _adapter(self, start: _Start) -> Adapter:
        return DeyoAdapter(start.classifier(), self, np.random.default_rng(start.seed))


@dataclass(frozen=True)
class _Start:
    """Where an adaptation starts, as often as it is started."""

    method: Tent
    model: Any
    tokenizer: Any
    max_length: int
    precision: Any
    batch_size: int
    seed: int
    source: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, method: Tent, material: Material, seed: int) -> _Start:
        return cls(
            method=method,
            model=material.base.model,
            tokenizer=material.base.tokenizer,
            max_length=material.max_length,
            precision=material.precision,
            batch_size=material.batch_size,
            seed=seed,
            source=material.dev_texts,
        )

    def classifier(self) -> TextClassifier:
        """Around a private copy, whose normalisation layers may change."""
        classifier = TextClassifier(
            self.model,
            self.tokenizer,
            max_length=self.max_length,
            batch_size=self.batch_size,
            precision=self.precision,
            fast=FastPaths.none(),
        )
        classifier.model = copy.deepcopy(classifier.model)
        return classifier


class OnlineSystem:
    """A fitted system that adapts to the texts it is asked about, from the base classifier at every call.

    Args:
        start: Where it starts.
        info: See `FittedSystem.info`.
    """

    depends_on_batch = True
    """An answer depends on the texts that were asked about before it, so that masking one text has no answer."""

    def __init__(self, start: _Start, info: dict[str, Any]) -> None:
        self._start = start
        self._info = info

    @property
    def classifier(self) -> TextClassifier | None:
        """`None`: the model is another one for every batch."""
        return None

    @property
    def forward_equivalents(self) -> float:
        """0: all is spent on answering."""
        return 0.0

    def predict_proba(self, texts: Texts, *, progress: Progress | None = None) -> Array:
        """Class probabilities, shape (N, C): each batch's from before the model adapts to it."""
        adapter = self._start.method._adapter(self._start)
        encoded = adapter.classifier.encode(texts)
        before = adapter.counts.forward
        probs = np.empty((len(encoded), adapter.n_classes), dtype=np.float32)
        for batch in _in_order(adapter.classifier, encoded, self._start.method.batch_size):
            probs[batch.indices] = adapter.step(batch).softmax(dim=-1).cpu().numpy()
            if progress is not None:
                progress("Predicting", adapter.counts.rows, len(encoded))
        self._info["adaptation"] = adaptation_info(adapter)
        self._info["forward_equivalents_per_text"] = (adapter.counts.forward - before) / max(1, len(encoded))
        return probs

    def info(self) -> dict[str, Any]:
        """Labels spent, seconds, and what the last answer took."""
        return copy.deepcopy(self._info)

    def save(self, folder: Path) -> None:
        """Writes the base model, the source texts' part left out, and the options; `load` reads them.

        Raises:
            ConfigError: The folder exists, or the method needs source texts, which are not written.
            RunError: The disk is full, or the like.
        """
        start = self._start
        if start.source is not None:
            raise ConfigError(
                f"'{start.method.name}' in mode online needs source texts whenever it starts, and texts are not saved. "
                "Save it in mode after, or with fisher_weight 0."
            )

        def fill(target: Path) -> None:
            start.model.save_pretrained(target)
            start.tokenizer.save_pretrained(target)
            record = {
                "method": type(start.method).__name__,
                "options": {"name": start.method.name, **start.method.config()},
                "max_length": start.max_length,
                "precision": start.precision,
                "batch_size": start.batch_size,
                "seed": start.seed,
                "info": self._info,
            }
            (target / "system.json").write_text(to_json(record), encoding="utf-8")

        write_folder(Path(folder), fill)

    @classmethod
    def load(cls, folder: Path) -> OnlineSystem:
        """What `save` wrote.

        Raises:
            ModelError: The folder holds no classifier.
            ConfigError: It was not written by `save`.
        """
        model, tokenizer = load_model(folder)
        kinds = {kind.__name__: kind for kind in (Tent, EATA, SAR, DeYO)}
        try:
            record = json.loads((Path(folder) / "system.json").read_text(encoding="utf-8"))
            method = kinds[record["method"]](**record["options"])
            start = _Start(
                method=method,
                model=model,
                tokenizer=tokenizer,
                **{name: record[name] for name in ("max_length", "precision", "batch_size", "seed")},
            )
            return cls(start, record["info"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"'{folder}' was not written by save ({error}).") from error
