"""Applies the debiasing strength to an adapter: W_T + strength * W_LoRA (paper Section 3.4)."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from ..config import check_strength
from ..models import Batch, EncodedTexts, TextClassifier
from ..typing import Array, Progress
from .lora import adapted_layers


@contextmanager
def scaled(model: Any, factor: float | torch.Tensor) -> Iterator[None]:
    """Within the block the adapter of a PEFT model is scaled by a factor, or by one for each token."""
    held: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for _, layer in adapted_layers(model):
            for name in layer.active_adapters:
                held.append((layer.scaling, name, layer.scaling[name]))
                layer.scaling[name] = factor * layer.scaling[name]
        yield
    finally:
        for scaling, name, scale in held:
            scaling[name] = scale


def strength_of_each(classifier: TextClassifier, batch: Batch) -> AbstractContextManager[None]:
    """Within the block each sequence of a batch has its own strength, `batch.strengths`; see `takes_strength_of_each`.

    LoRA adds `scale * BA x` to a layer's output, so a scale for each token is a strength for each sequence.
    """
    assert batch.strengths is not None
    return scaled(classifier.model, classifier.per_sequence(batch.strengths, batch))


@torch.inference_mode()
def takes_strength_of_each(classifier: TextClassifier) -> bool:
    """Whether every adapted layer sees the tokens of the batch, so that each sequence can have its own strength.

    DeBERTa-v3 also sends the relative positions through its query and key layers, which no sequence owns. Longformer
    swaps sequences and tokens. One forward pass of three short sequences tells.
    """
    batch = classifier.collate(classifier.encode(["a", "a b c", "a b c d e"]), range(3))
    shape = classifier.per_sequence(torch.ones(3, device=classifier.device), batch).shape[:2]
    fits: list[bool] = []

    def check(_: Any, inputs: tuple[Any, ...]) -> None:
        seen = inputs[0].shape
        fits.append(len(seen) == 3 and seen[0] == shape[0] and shape[1] in (1, seen[1]))

    hooks = [layer.register_forward_pre_hook(check) for _, layer in adapted_layers(classifier.model)]
    try:
        classifier.logits(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return all(fits)


@contextmanager
def merged(base: TextClassifier, model: Any, strength: float) -> Iterator[None]:
    """Within the block the base classifier's own layers hold `W_T + strength * W_LoRA`, at no cost per text.

    The weights (paper Section 3.4) come back after the block; they are replaced rather than written into, since they
    are shared. The PEFT model is at its trained scale.
    """
    check_strength(strength)
    held: list[tuple[Any, nn.Parameter]] = []
    try:
        for name, layer in adapted_layers(model):
            own = base.model.get_submodule(name.removeprefix("base_model.model."))
            held.append((own, own.weight))
            with torch.no_grad():
                delta = sum(layer.get_delta_weight(adapter) for adapter in layer.active_adapters)
                own.weight = nn.Parameter(own.weight + strength * delta.to(own.weight.dtype), requires_grad=False)
        yield
    finally:
        for own, weight in held:
            own.weight = weight


def logits_by_strength(
    classifier: TextClassifier, encoded: EncodedTexts, strengths: Sequence[float], *, progress: Progress | None = None
) -> Array:
    """Class logits of every text at every strength, shape (S, N, C).

    Strength 0 is computed with the adapter switched off. The others share their forward passes, each sequence with a
    scale of its own, where the model takes that.

    Args:
        classifier: Around a PEFT model.
    """
    out = np.empty((len(strengths), len(encoded), classifier.n_classes), dtype=np.float32)
    shared = [i for i, strength in enumerate(strengths) if strength != 0]
    if len(shared) < len(strengths):
        with classifier.model.disable_adapter():
            out[[i for i in range(len(strengths)) if i not in shared]] = classifier.predict_logits(encoded)
        if progress is not None:
            progress("Calibrating", len(strengths) - len(shared), len(strengths))
    if shared:
        score = _logits_together if takes_strength_of_each(classifier) else _logits_one_by_one
        out[shared] = score(classifier, encoded, [strengths[i] for i in shared])
        if progress is not None:
            progress("Calibrating", len(strengths), len(strengths))
    return out


def _logits_one_by_one(classifier: TextClassifier, encoded: EncodedTexts, strengths: Sequence[float]) -> Array:
    out = []
    for strength in strengths:
        with scaled(classifier.model, strength):
            out.append(classifier.predict_logits(encoded))
    return np.stack(out)


@torch.inference_mode()
def _logits_together(classifier: TextClassifier, encoded: EncodedTexts, strengths: Sequence[float]) -> Array:
    n = len(strengths)
    out = np.empty((n, len(encoded), classifier.n_classes), dtype=np.float32)
    for batch in classifier.batches(encoded, sequences_per_text=n):
        b = len(batch.indices)
        rows = torch.arange(b, device=batch.input_ids.device).repeat(n)
        copies = batch.copies(batch.input_ids[rows], rows)._replace(
            strengths=torch.tensor(strengths, device=rows.device).repeat_interleave(b)
        )
        with strength_of_each(classifier, copies):
            logits = classifier.logits(copies)
        out[:, batch.indices] = logits.view(n, b, -1).cpu().numpy()
    return out
