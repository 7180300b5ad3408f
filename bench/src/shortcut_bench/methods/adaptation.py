"""Test-time adaptation by entropy, on LayerNorm: Tent, and what `eata`, `sar` and `deyo` build on it.

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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from shortcut_guardrail.data import Texts, to_json, write_folder
from shortcut_guardrail.errors import ConfigError, DataError, ModelError, RunError
from shortcut_guardrail.models import Batch, EncodedTexts, TextClassifier, load_model
from shortcut_guardrail.typing import Progress

from ..systems import FittedSystem, Material, ModelSystem, Need
from .entropy import softmax_entropy
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


def in_order(
    classifier: TextClassifier, encoded: EncodedTexts, size: int, order: Array | None = None
) -> Iterator[Batch]:
    """Batches of so many texts each, in an order that is given or as they come."""
    order = np.arange(len(encoded)) if order is None else order
    for start in range(0, len(order), size):
        yield classifier.collate(encoded, order[start : start + size])


@dataclass(frozen=True)
class Tent:
    """Test entropy minimisation on LayerNorm.

    The defaults are those of the authors' public example (CIFAR-10-C: Adam, rate 1e-3, one step a batch) but for the
    batch, which is 200 there. For ImageNet-C others run Tent (the code of EATA) with SGD, rate 2.5e-4, momentum 0.9 and
    batches of 64: `optimizer="sgd", learning_rate=2.5e-4`. Scale `small` takes batches of 16 and three passes, at the
    same rate.

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
            return OnlineSystem(Start.of(self, material, seed), {"labels_spent": 0, "seconds": {}})
        assert material.deployment is not None
        require(bool(material.deployment), f"'{self.name}' needs deployment texts, but there are none.", DataError)
        started = time.perf_counter()
        adapter = self._adapter(Start.of(self, material, seed))
        encoded = adapter.classifier.encode(material.deployment)
        rng = np.random.default_rng(seed)
        total = self.epochs * len(encoded)
        for _ in range(self.epochs):
            for batch in in_order(adapter.classifier, encoded, self.batch_size, rng.permutation(len(encoded))):
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

    def _adapter(self, start: Start) -> Adapter:
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


def check_shares(method: Tent, *names: str) -> None:
    """Refuses options that must be above 0 and are not."""
    for name in names:
        value = getattr(method, name)
        require(value > 0, f"{name} must be above 0, but is {value}.")


@dataclass(frozen=True)
class Start:
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
    def of(cls, method: Tent, material: Material, seed: int) -> Start:
        """With the settings of the material."""
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
            packing=False,
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

    def __init__(self, start: Start, info: dict[str, Any]) -> None:
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
        for batch in in_order(adapter.classifier, encoded, self._start.method.batch_size):
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

        write_folder(Path(folder), fill, key="system.json")

    @classmethod
    def load(cls, folder: Path, kinds: Iterable[type[Tent]]) -> OnlineSystem:
        """What `save` wrote.

        Args:
            folder: Where.
            kinds: The methods that it may be of.

        Raises:
            ModelError: The folder holds no classifier.
            ConfigError: It was not written by `save`.
        """
        model, tokenizer = load_model(folder)
        known = {kind.__name__: kind for kind in kinds}
        try:
            record = json.loads((Path(folder) / "system.json").read_text(encoding="utf-8"))
            method = known[record["method"]](**record["options"])
            start = Start(
                method=method,
                model=model,
                tokenizer=tokenizer,
                **{name: record[name] for name in ("max_length", "precision", "batch_size", "seed")},
            )
            return cls(start, record["info"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"'{folder}' was not written by save ({error}).") from error
