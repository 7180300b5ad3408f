"""What the guardrail's label budget buys without it: the same 40 labelled target rows, spent in the ordinary ways."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import DataError, GuardrailWarning, RunError
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning import FinetuneConfig, Objective, finetune_model
from ..systems import Material, ModelSystem, Need, predict_proba
from .dfr import INVERSE_STRENGTHS, Standardiser, answers, fit_head
from .heads import features, head_of, head_system, with_head
from .selection import best_index
from .training import TRAIN_PASS, Recipe, as_config, check_recipe, require, resolve_recipe

Array = np.ndarray[Any, np.dtype[Any]]

FEW_SHOT = FinetuneConfig(
    learning_rate=2e-5, epochs=20, batch_size=16, weight_decay=0.01, warmup_ratio=0.1, max_grad_norm=1.0
)
"""Mosbach et al. (ICLR 2021): 20 epochs, a rate of 2e-5 and a tenth of warm-up make small fine-tunings stable."""

NEVER = -1e4
"""The logit of a class that a support set without it can say nothing about."""

FOLDS = 5


def support_rows(material: Material, name: str) -> LabelledTexts:
    """The support rows of a method.

    Raises:
        DataError: They are of a single class, or there is none.
    """
    support = material.support
    assert support is not None
    require(
        len(set(support.labels.tolist())) > 1,
        f"'{name}' needs support rows of at least two classes, but all {len(support)} are of one or there is none.",
        DataError,
    )
    return support


@dataclass(frozen=True)
class LastLayer:
    """The last layer fitted anew to the support rows: logistic regression on the base classifier's features.

    The regression is DFR's (L1, standardised features, the same grid for its strength), its strength is chosen by
    cross-validated accuracy on the support rows. A class without support rows is never answered, which a warning says.

    Attributes:
        name: The name in tables.
        inverse_strengths: The grid for C.
    """

    name: str = "last_layer"
    inverse_strengths: tuple[float, ...] = INVERSE_STRENGTHS

    def __post_init__(self) -> None:
        object.__setattr__(self, "inverse_strengths", tuple(self.inverse_strengths))
        require(bool(self.inverse_strengths) and min(self.inverse_strengths) > 0, "inverse_strengths must be above 0.")

    @property
    def needs(self) -> frozenset[Need]:
        """Support rows, and the weights for their features."""
        return frozenset({Need.SUPPORT, Need.GRADIENTS})

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Read the features of the support rows, choose C, refit.

        Raises:
            DataError: The support rows are of a single class.
        """
        started, support = time.perf_counter(), support_rows(material, self.name)
        base = material.scorer(material.base.model)
        values = features(base, support.texts, "head-input")
        present, labels = np.unique(support.labels, return_inverse=True)
        scores = [cross_validated(values, labels, strength, seed) for strength in self.inverse_strengths]
        chosen = self.inverse_strengths[best_index(scores)]
        standardise = Standardiser.of(values)
        weight, bias = standardise.fold(*fit_head(standardise(values), labels, len(present), chosen))
        full = np.zeros((len(support.label_names), weight.shape[1])), np.full(len(support.label_names), NEVER)
        full[0][present], full[1][present] = weight, bias
        if absent := sorted(set(range(len(support.label_names))) - set(present.tolist())):
            names = ", ".join(support.label_names[label] for label in absent)
            warnings.warn(
                f"No support row is of class {names}, so '{self.name}' will never answer it.",
                GuardrailWarning,
                stacklevel=2,
            )
        return head_system(
            with_head(base, *full, "head-input"),
            "head-input",
            info={
                "labels_spent": len(support),
                "selection": {"rule": "support-cross-validation", "oracle": False, "folds": _folds(labels)},
                "inverse_strength": chosen,
                "trials": [
                    {"point": {"inverse_strength": s}, "score": score, "diverged": None}
                    for s, score in zip(self.inverse_strengths, scores, strict=True)
                ],
                "classes_never_answered": [support.label_names[label] for label in absent],
                "seconds": {"fit": time.perf_counter() - started},
            },
            forward_equivalents=float(len(support)),
        )


def _folds(labels: Array) -> int:
    """As many folds as every class has rows for, at most `FOLDS`; 0 where a class has one row alone."""
    smallest = int(np.unique(labels, return_counts=True)[1].min())
    return min(FOLDS, smallest) if smallest > 1 else 0


def cross_validated(values: Array, labels: Array, inverse_strength: float, seed: int) -> float:
    """Share of rows answered rightly by the fits that did not see them, in [0, 1].

    With a class of a single row no split holds it on both sides: each row is then left out in turn, except where it is
    its class's only one, since nothing could answer it.

    Args:
        values: Features, shape (N, H).
        labels: Class ids from 0, shape (N,); each occurs.
        inverse_strength: C of the penalty.
        seed: Splits.
    """
    from sklearn.model_selection import LeaveOneOut, StratifiedKFold

    folds = _folds(labels)
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed) if folds else LeaveOneOut()
    n_classes, right, scored = len(np.unique(labels)), 0, 0
    for fitted, held_out in splitter.split(values, labels):
        if len(set(labels[fitted].tolist())) < n_classes:
            continue
        standardise = Standardiser.of(values[fitted])
        head = fit_head(standardise(values[fitted]), labels[fitted], n_classes, inverse_strength)
        right += int((answers(standardise(values[held_out]), *head) == labels[held_out]).sum())
        scored += len(held_out)
    return right / scored if scored else 0.0


@dataclass(frozen=True)
class FewShot:
    """The base classifier fine-tuned further on the support rows, all weights.

    Attributes:
        name: The name in tables.
        recipe: See `training.resolve_recipe`.
    """

    name: str = "few_shot"
    recipe: Recipe = "source"

    def __post_init__(self) -> None:
        check_recipe(self.recipe)

    @property
    def needs(self) -> frozenset[Need]:
        """Support rows, and the weights."""
        return frozenset({Need.SUPPORT, Need.GRADIENTS})

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Train a copy; the last epoch is kept, since no row is left to choose by.

        Raises:
            DataError: The support rows are of a single class.
            RunError: Training diverged.
        """
        support = support_rows(material, self.name)
        recipe, objective = self._how(material, len(support))
        result = finetune_model(
            material.base.model,
            material.base.tokenizer,
            support.texts,
            support.labels.tolist(),
            config=recipe,
            seed=seed,
            objective=objective,
            progress=progress,
        )
        return ModelSystem(
            material.scorer(result.model),
            info={
                "labels_spent": len(support),
                "selection": {"rule": "last", "oracle": False},
                "training": result.to_dict(),
                "seconds": {"train": result.seconds},
            },
            forward_equivalents=float(TRAIN_PASS * recipe.epochs * len(support)),
        )

    def _how(self, material: Material, n_rows: int) -> tuple[FinetuneConfig, Objective | None]:
        """The recipe for so many rows, and what is minimised; `None` is cross-entropy."""
        return resolve_recipe(self.recipe, FEW_SHOT, material), None


Estimate = Literal["support", "em", "bias"]


def smoothed_prior(labels: Array, n_classes: int) -> Array:
    """Class shares with one more row of every class (Laplace), shape (C,)."""
    counts = np.bincount(labels, minlength=n_classes) + 1.0
    return np.asarray(counts / counts.sum())


def em_prior(probs: Array, source_prior: Array, *, tolerance: float = 1e-8, most_steps: int = 10_000) -> Array:
    """The class prior of unlabelled texts by expectation maximisation (Saerens et al., 2002), shape (C,).

    pi_c <- mean_i of p_i(c) pi_c / pi_0c, normalised over c for every i; from pi = pi_0.

    Args:
        probs: Predicted class probabilities, shape (N, C).
        source_prior: pi_0, the prior of the training set, all above 0.
        tolerance: Stops when no share moves by more.
        most_steps: Stops after so many steps.
    """
    prior = source_prior.copy()
    for _ in range(most_steps):
        weighted = probs * (prior / source_prior)
        new = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        moved, prior = np.abs(new - prior).max(), new
        if moved < tolerance:
            break
    return prior


def bias_fit(log_probs: Array, labels: Array, *, penalty: float = 1.0) -> Array:
    """The shift b of log-probabilities that minimises sum_i CE(log p_i + b, y_i) + penalty/2 |b|^2, shape (C,).

    The penalty is that of one row or so: without it a class that no row has would be shifted out of sight.

    Args:
        log_probs: Shape (N, C).
        labels: Shape (N,).
        penalty: Weight of the squared norm.

    Raises:
        RunError: The search for the minimum failed.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax, softmax

    def objective(shift: Array) -> tuple[float, Array]:
        shifted = log_probs + shift
        loss = -log_softmax(shifted, axis=1)[np.arange(len(labels)), labels].sum()
        gradient = softmax(shifted, axis=1).sum(axis=0) - np.bincount(labels, minlength=shifted.shape[1])
        return float(loss + penalty / 2 * (shift**2).sum()), gradient + penalty * shift

    found = minimize(objective, np.zeros(log_probs.shape[1]), jac=True, method="L-BFGS-B")
    if not found.success:
        raise RunError(f"The bias could not be fitted: {found.message}")
    return np.asarray(found.x)


@dataclass(frozen=True)
class PriorShift:
    """p'(c | x) proportional to p(c | x) pi_target(c) / pi_source(c): the answers of another class mixture.

    What changes under a shortcut shift is not the class mixture, or not it alone; this says how much of a gain could be
    had by supposing that it is.

    Attributes:
        name: The name in tables.
        estimate: Where the ratio comes from. `support`: shares in the support rows (smoothed) over shares in the
            training rows. `em`: shares in the deployment texts, estimated without labels (Saerens et al., 2002), over
            shares in the training rows. `bias`: fitted to the support rows by maximum likelihood, with no source prior.
    """

    name: str = "prior_shift"
    estimate: Estimate = "support"

    def __post_init__(self) -> None:
        require(
            self.estimate in ("support", "em", "bias"), f"estimate must be support, em or bias, not {self.estimate!r}."
        )

    @property
    def needs(self) -> frozenset[Need]:
        """The weights, for the bias; and by estimate support rows and the class counts of the training rows, deployment
        texts and these counts, or support rows."""
        return {
            "support": frozenset({Need.GRADIENTS, Need.SUPPORT, Need.TRAIN_CLASS_COUNTS}),
            "em": frozenset({Need.GRADIENTS, Need.DEPLOYMENT, Need.TRAIN_CLASS_COUNTS}),
            "bias": frozenset({Need.GRADIENTS, Need.SUPPORT}),
        }[self.estimate]

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Estimate the ratio and add its logarithm to the bias of the last layer.

        Raises:
            DataError: The training rows lack a class, or the support rows are of a single one.
        """
        started = time.perf_counter()
        base = material.scorer(material.base.model)
        shift, cost, labels = self._shift(material)
        weight, bias = head_of(base)
        return ModelSystem(
            with_head(base, weight, bias + shift, "head-input"),
            info={
                "labels_spent": labels,
                "shift": dict(zip(material.label_names, shift.tolist(), strict=True)),
                "selection": {"rule": "none", "oracle": False},
                "seconds": {"fit": time.perf_counter() - started},
            },
            forward_equivalents=cost,
        )

    def _shift(self, material: Material) -> tuple[Array, float, int]:
        """log(pi_target / pi_source), what it cost, and the labels it took."""
        n_classes = len(material.label_names)
        base = material.scorer(material.base.model)
        if self.estimate == "bias":
            support = support_rows(material, self.name)
            log_probs = _log_probs(base, support.texts)
            return bias_fit(log_probs, support.labels), float(len(support)), len(support)
        source = self._source_prior(material)
        if self.estimate == "support":
            support = support_rows(material, self.name)
            return np.log(smoothed_prior(support.labels, n_classes) / source), 0.0, len(support)
        assert material.deployment is not None
        probs = predict_proba(base, material.deployment).astype(np.float64)
        target = em_prior(probs, source)
        # A share that EM sends to 0 is a class never answered; its logarithm has to stay a number.
        ratio = np.maximum(target, np.finfo(np.float32).tiny) / source
        return np.maximum(np.log(ratio), NEVER), float(len(material.deployment)), 0

    def _source_prior(self, material: Material) -> Array:
        counts = material.train_class_counts
        assert counts is not None
        absent = [material.label_names[label] for label in np.flatnonzero(counts == 0)]
        require(
            not absent,
            f"'{self.name}' divides by the share of each class in the training rows, but there is none of "
            f"{', '.join(absent)}.",
            DataError,
        )
        return np.asarray(counts / counts.sum())


def _log_probs(base: Any, texts: Texts) -> Array:
    logits = torch.from_numpy(base.predict_logits(base.encode(texts))).double()
    return logits.log_softmax(dim=-1).numpy()
