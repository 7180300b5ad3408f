"""Statistics adaptation: deployment features get the mean and variance of the training features.

Schneider et al. (NeurIPS 2020) and Nado et al. (2020) recompute the statistics of BatchNorm on test inputs. An encoder
with LayerNorm keeps none, so this is a port to what the head reads. docs/research/methods/deployment-time.md says what
differs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import DataError
from shortcut_guardrail.typing import Progress

from ..systems import Material, ModelSystem, Need
from .heads import features, head_of, with_head
from .training import as_config, require

Array = np.ndarray[Any, np.dtype[Any]]

EPSILON = 1e-5
"""Added to variances, as PyTorch's BatchNorm does: a feature that never changes has none."""


def alignment(source: Array, target: Array, prior: float, *, mean_only: bool = False) -> tuple[Array, Array]:
    """Scale a and shift c, each of shape (H,), with which h' = a h + c has the source's mean and variance.

    h' = mu_s + (h - mu) sigma_s / sigma, where mu = (1 - w) mu_s + w mu_t and sigma^2 = (1 - w) sigma_s^2 + w sigma_t^2
    with w = n / (n + prior): the source counts as so many of the n target rows.

    Args:
        source: Features of N source rows, shape (N, H).
        target: Features of n target rows, shape (n, H).
        prior: At least 0; 0 takes the target's statistics alone.
        mean_only: Leave variances as they are, a = 1.
    """
    share = len(target) / (len(target) + prior)
    mean, variance = ((1 - share) * of(source, axis=0) + share * of(target, axis=0) for of in (np.mean, np.var))
    ratio = np.sqrt((source.var(axis=0) + EPSILON) / (variance + EPSILON))
    scale = np.ones_like(ratio) if mean_only else ratio
    return scale, source.mean(axis=0) - scale * mean


@dataclass(frozen=True)
class StatsShift:
    """Mean and variance of the head's input on deployment texts aligned with those on training texts.

    Attributes:
        name: The name in tables.
        prior: How many deployment texts the training statistics count as, at least 0.
        mean_only: Align means alone.
    """

    name: str = "stats_shift"
    prior: float = 16.0
    mean_only: bool = False

    def __post_init__(self) -> None:
        require(self.prior >= 0, f"prior must be at least 0, but is {self.prior}.")

    @property
    def needs(self) -> frozenset[Need]:
        """The weights, and texts of both times without their labels."""
        return frozenset({Need.GRADIENTS, Need.TRAIN_TEXTS, Need.DEPLOYMENT})

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Measure both sides and fold the alignment into the last layer: W' = W diag(a), b' = b + W c.

        Raises:
            DataError: There are no training texts or no deployment texts.
            ModelError: The model does not end in a linear layer.
        """
        started = time.perf_counter()
        base = material.scorer(material.base.model, fitting=True)
        texts = [self._given(given, what) for given, what in _sides(material)]
        source, target = (features(base, given, "head-input") for given in texts)
        scale, shift = alignment(source, target, self.prior, mean_only=self.mean_only)
        weight, bias = head_of(base)
        return ModelSystem(
            with_head(material.scorer(material.base.model), weight * scale, bias + weight @ shift, "head-input"),
            info={
                "labels_spent": 0,
                "selection": {"rule": "none", "oracle": False},
                "n_deployment": len(target),
                "target_share": len(target) / (len(target) + self.prior),
                "mean_distance": float(np.linalg.norm(source.mean(axis=0) - target.mean(axis=0))),
                "seconds": {"fit": time.perf_counter() - started},
            },
            forward_equivalents=float(len(source) + len(target)),
        )

    def _given(self, texts: Texts | None, what: str) -> Texts:
        """The texts, of which there has to be one."""
        assert texts is not None
        require(bool(texts), f"'{self.name}' needs {what} texts, but there are none.", DataError)
        return texts


def _sides(material: Material) -> tuple[tuple[Texts | None, str], tuple[Texts | None, str]]:
    return (material.train_texts, "training"), (material.deployment, "deployment")
