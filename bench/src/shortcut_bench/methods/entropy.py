"""The losses and selection rules of test-time adaptation by entropy: tensors in, tensors out."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

IMAGENET_CLASSES = 1000
"""The number of classes that the constants of EATA, SAR and DeYO were chosen for."""


def softmax_entropy(logits: Tensor) -> Tensor:
    """Entropy of the predicted distribution of each text, shape (B,), in nats, in [0, ln C]."""
    return -(logits.softmax(dim=-1) * logits.log_softmax(dim=-1)).sum(dim=-1)


def scaled_entropy(value: float, n_classes: int, *, reference: int = IMAGENET_CLASSES) -> float:
    """An entropy threshold for C classes, the same share of ln C as it was of the reference's.

    Args:
        value: The threshold at `reference` classes.
        n_classes: C.
        reference: Classes it was chosen for.
    """
    return value * math.log(n_classes) / math.log(reference)


def scaled_cosine(value: float, n_classes: int, *, reference: int = IMAGENET_CLASSES) -> float:
    """A threshold on the cosine of two predicted distributions for C classes, at most 1.

    A certain prediction and a balanced mean have cosine 1 / sqrt(C), so a threshold that lets 1000 classes through
    (0.05 there, where that cosine is 0.032) rejects everything for few. It is kept at the same multiple of it; at two
    classes that is above 1, and the filter lets everything pass.
    """
    return min(1.0, value * math.sqrt(reference / n_classes))


class Selection(NamedTuple):
    """What EATA keeps of a batch.

    Attributes:
        rows: Kept rows, shape (S,).
        mean_probs: The running mean of predicted distributions after the batch, shape (C,); `None` until a row passes.
    """

    rows: Tensor
    mean_probs: Tensor | None


def eata_selection(
    logits: Tensor, mean_probs: Tensor | None, *, entropy_margin: float, cosine_margin: float
) -> Selection:
    """Rows that are certain (entropy below the margin) and unlike the running mean (|cosine| below the margin).

    Args:
        logits: Shape (B, C).
        mean_probs: p-bar, shape (C,), or `None` before the first row.
        entropy_margin: E_0.
        cosine_margin: epsilon.
    """
    logits = logits.detach()
    rows = (softmax_entropy(logits) < entropy_margin).nonzero()[:, 0]
    probs = logits.softmax(dim=-1)
    if mean_probs is not None and cosine_margin < 1:
        unlike = F.cosine_similarity(mean_probs[None], probs[rows], dim=1).abs() < cosine_margin
        rows = rows[unlike]
    if not len(rows):
        return Selection(rows, mean_probs)
    mean = probs[rows].mean(dim=0)
    return Selection(rows, mean if mean_probs is None else 0.9 * mean_probs + 0.1 * mean)


def eata_loss(entropies: Tensor, entropy_margin: float) -> Tensor:
    """Mean of exp(E_0 - E) E over the kept rows, the weight without gradient.

    Args:
        entropies: Shape (S,), S at least 1.
        entropy_margin: E_0.
    """
    return (entropies * torch.exp(entropy_margin - entropies.detach())).mean()


def plpd(logits: Tensor, destroyed_logits: Tensor) -> Tensor:
    """P(y_hat | x) - P(y_hat | x'), shape (B,): how much the predicted class loses when the text is destroyed.

    Args:
        logits: Of the texts, shape (B, C).
        destroyed_logits: Of the destroyed texts, shape (B, C).
    """
    predicted = logits.argmax(dim=-1, keepdim=True)
    before, after = logits.softmax(dim=-1), destroyed_logits.softmax(dim=-1)
    return (before.gather(1, predicted) - after.gather(1, predicted))[:, 0].detach()


def deyo_loss(entropies: Tensor, differences: Tensor, entropy_margin: float) -> Tensor:
    """Mean of (exp(E_0 - E) + exp(PLPD)) E over the kept rows, the weight without gradient.

    Args:
        entropies: Shape (S,), S at least 1.
        differences: PLPD, shape (S,).
        entropy_margin: E_0 of the weight; the filter has another one.
    """
    weights = torch.exp(entropy_margin - entropies.detach()) + torch.exp(differences)
    return (entropies * weights).mean()


def moving_average(average: float | None, value: float) -> float:
    """0.9 of the old and 0.1 of the new; the first value as it is."""
    return value if average is None else 0.9 * average + 0.1 * value
