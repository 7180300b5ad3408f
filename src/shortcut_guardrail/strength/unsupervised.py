"""The strength without labels: the one whose predictions are closest to those without the shortcuts.

Let t be the original model's probabilities for a text without its shortcuts, and p_s the repaired model's for the text
at strength s. The strength with the smallest mean divergence KL(t || p_s) over unlabelled texts is chosen, and the
smallest of those that are equal up to rounding. The number of equal predictions does not choose: on a few hundred texts
strengths differ by a few of them.

*Assumption.* If the original model's predictions with and without the shortcuts differ, the latter is right more often.
That is what a shortcut means. If a legitimate word was treated as one, divergence favours a harmful strength just as
readily. Only labels can show that.

Of many texts a sample is used. Only texts with a shortcut show how much reliance is left. If the sample would have
hardly any, they are sampled separately, and weighted by their share of all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np

from ..data import Count, NotEmpty, Share, Within
from ..display import Shown, Summary, spread
from ..errors import RunError
from ..typing import Array


@dataclass(frozen=True)
class Counterfactual:
    """What the original model predicts with the shortcuts erased.

    Attributes:
        logits: Its class logits on the texts without the shortcuts, or less what a word does alone, shape (N, C).
        bearing: Which texts contain a shortcut, shape (N,), bool.
        alone: Which texts, by number, contain a word that must not decide alone.
    """

    logits: Array
    bearing: Array
    alone: Sequence[int] | Array = ()

    def probabilities(self, temperature: float = 1.0) -> Array:
        """The target of training: softmax(logits / T), shape (N, C), float32."""
        import torch

        return torch.from_numpy(self.logits).div(temperature).softmax(dim=-1).numpy()


@dataclass(frozen=True)
class AgreementPoint:
    """One strength on unlabelled texts.

    Attributes:
        divergence: Mean of KL(t || p_s) over the texts, weighted as in `draw`, in nats, at least 0.
        agreement: Share of texts whose prediction is the original model's without the shortcuts.
    """

    strength: Share
    divergence: Annotated[float, Within(0)]
    agreement: Share


@dataclass(frozen=True, repr=False)
class UnlabelledCalibration(Shown):
    """The strength chosen without labels, and the curve behind it.

    Attributes:
        strength: The one with the smallest divergence, of equals the smallest.
        n_bearing: Of the n texts, those with a shortcut.
        curve: One point per strength of the grid, ascending.
    """

    strength: Share
    n: Count
    n_bearing: Count
    curve: Annotated[tuple[AgreementPoint, ...], NotEmpty()]

    def _summary(self) -> Summary:
        shown = spread(self.curve, (self.strength,))
        return Summary(
            f"UnlabelledCalibration: strength {self.strength:g}",
            {"chosen by": f"least divergence on {self.n:,} unlabelled texts, {self.n_bearing:,} with a shortcut"},
            (">strength", ">divergence", ">same answers", ""),
            [
                (f"{p.strength:g}", f"{p.divergence:.5f}", p.agreement, "chosen" if p.strength == self.strength else "")
                for p in shown
            ],
            more=len(self.curve) - len(shown),
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        return asdict(self)


LEAST_BEARING = 16
"""Of a sample with fewer texts with a shortcut these are drawn apart."""


def draw(bearing: Array, at_most: int, *, seed: int) -> tuple[Array, Array]:
    """A sample of texts among which there are some with a shortcut, where there are any.

    Args:
        bearing: Which texts hold a shortcut, shape (N,), bool.
        at_most: How many to draw, at least 1; all N if there are no more.

    Returns:
        Which, shape (n,), ascending, and how much each counts in a mean over all N texts, shape (n,), of sum 1.
    """
    n = len(bearing)
    if n <= at_most:
        return np.arange(n), np.full(n, 1 / n)
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(n, size=at_most, replace=False))
    if bearing[rows].sum() >= min(LEAST_BEARING, bearing.sum(), at_most // 2):
        return rows, np.full(at_most, 1 / at_most)
    kinds = np.flatnonzero(bearing), np.flatnonzero(~bearing)
    size = min(len(kinds[0]), at_most // 2)
    parts = [rng.choice(kind, size=m, replace=False) for kind, m in zip(kinds, (size, at_most - size), strict=True)]
    weights = [np.full(len(part), len(kind) / len(part) / n) for kind, part in zip(kinds, parts, strict=True)]
    rows, order = np.unique(np.concatenate(parts), return_index=True)
    return rows, np.concatenate(weights)[order]


_ROUNDING = 1e-5
"""Nats by which equal answers may seem to diverge: strengths are computed in different ways, in 32 or 16 bit."""


def choose_without_labels(
    logits: Array, strengths: Sequence[float], counterfactual: Counterfactual, *, weights: Array | None = None
) -> UnlabelledCalibration:
    """Compare the repaired model's predictions at every strength with the original model's without the shortcuts.

    Args:
        logits: Class logits of the repaired model, shape (S, N, C).
        counterfactual: The original model's predictions without the shortcuts, for the same N texts.
        weights: How much each text counts, shape (N,), of sum 1; all the same if not given.

    Raises:
        RunError: A logit is not finite.
    """
    from scipy.special import softmax

    bearing = counterfactual.bearing
    expected = softmax(counterfactual.logits.astype(np.float64), axis=1)
    agrees = logits.argmax(axis=2) == expected.argmax(axis=1)
    if not (np.isfinite(logits).all() and np.isfinite(expected).all()):
        raise RunError("Some logits are not finite, so no strength can be chosen. Look at the model's weights.")
    weights = np.full(len(bearing), 1 / len(bearing)) if weights is None else weights
    divergences = _divergence(expected, logits) @ weights
    curve = tuple(
        AgreementPoint(float(strength), float(divergence), float(row @ weights))
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
