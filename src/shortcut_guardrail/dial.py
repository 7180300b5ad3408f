"""The strength without labels: the one whose answers come closest to those without the shortcuts.

With t the base's probabilities for the counterfactual text (the text with its shortcuts neutralised, or the text itself
if it has none) and p_s the guarded model's for the text at strength s, the strength is chosen whose mean divergence
KL(t || p_s) over unlabelled texts is smallest; of those that are as good but for rounding, the smallest. How many
answers are the same is in the curve too, but does not choose: on a few hundred texts strengths differ by a few of them.

*Assumption.* Where the base's answers to a text and to its counterfactual differ, the latter is right more often. It is
what calling a word a shortcut means. If a genuine word was taken for one, divergence asks for harm just as readily, and
this dial cannot tell; labels can. If nothing is taken for a shortcut, strength 0 diverges nowhere and is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .distill import Counterfactual

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class AgreementPoint:
    """One strength on unlabelled texts.

    Attributes:
        strength: In [0, 1].
        divergence: Mean of KL(t || p_s) over the texts, in nats, at least 0.
        agreement: Share of texts answered as the base answers their counterfactual.
        agreement_bearing: The same among texts with a shortcut; NaN without any.
        agreement_rest: The same among the others, where it is the share that keeps the base's answer; NaN without any.
    """

    strength: float
    divergence: float
    agreement: float
    agreement_bearing: float
    agreement_rest: float


@dataclass(frozen=True)
class UnlabelledCalibration:
    """The strength chosen without labels, and the curve behind it.

    Attributes:
        strength: The one with the smallest divergence, of equals the smallest.
        n: Number of texts.
        n_bearing: Of those, texts with a shortcut.
        curve: One point per strength of the grid, ascending.
    """

    strength: float
    n: int
    n_bearing: int
    curve: tuple[AgreementPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; an undefined share is `None`."""
        points = [{k: None if v != v else v for k, v in asdict(point).items()} for point in self.curve]
        return {**asdict(self), "curve": points}


_ROUNDING = 1e-5
"""Nats by which equal answers may seem to diverge: strengths are computed in different ways, in 32 or 16 bit."""


def choose_without_labels(
    logits: Array, strengths: Sequence[float], counterfactual: Counterfactual
) -> UnlabelledCalibration:
    """Compare the guarded answers at every strength with those without the shortcuts.

    Args:
        logits: Guarded class logits, shape (S, N, C).
        strengths: The S strengths, ascending.
        counterfactual: What the base answers without the shortcuts, for the same N texts.
    """
    from scipy.special import softmax

    bearing = counterfactual.bearing
    expected = softmax(counterfactual.logits.astype(np.float64), axis=2).mean(axis=0)
    agrees = logits.argmax(axis=2) == expected.argmax(axis=1)
    divergences = _divergence(expected, logits).mean(axis=1)
    curve = tuple(
        AgreementPoint(
            float(strength), float(divergence), float(row.mean()), _share(row[bearing]), _share(row[~bearing])
        )
        for strength, divergence, row in zip(strengths, divergences, agrees, strict=True)
    )
    # The strengths ascend.
    least = min(point.divergence for point in curve)
    best = next(point for point in curve if point.divergence <= least + _ROUNDING)
    return UnlabelledCalibration(best.strength, len(bearing), int(bearing.sum()), curve)


def _divergence(expected: Array, logits: Array) -> Array:
    """KL(t || p_s) of probabilities (N, C) and the softmax of logits (S, N, C), in nats, at least 0, shape (S, N)."""
    from scipy.special import log_softmax, xlogy

    log_probs = log_softmax(logits.astype(np.float64), axis=2)  # finite, where the probability itself may be 0
    divergence: Array = (xlogy(expected, expected) - expected * log_probs).sum(axis=2)
    return np.maximum(divergence, 0.0)


def _share(agrees: Array) -> float:
    return float(agrees.mean()) if len(agrees) else float("nan")
