"""DFR: refit the last layer on features as they are (Kirichenko et al., ICLR 2023)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shortcut_guardrail.errors import DataError, GuardrailWarning, RunError
from shortcut_guardrail.metrics import worst_group_accuracy
from shortcut_guardrail.typing import Progress

from ..datasets.types import HIDDEN_GROUP, LabelledTexts
from ..systems import Material, ModelSystem, Need
from .heads import Feature, features, head_system, with_head
from .selection import best_index, missing_groups
from .training import Stopwatch, as_config, require

Array = np.ndarray[Any, np.dtype[Any]]

INVERSE_STRENGTHS = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
"""C of the L1 penalty: the grid of both repositories."""

RESAMPLES = 20
SHARE_OF_TRAIN = 0.05
MOST_DRAWS = 100
"""How often halves are drawn again when a class is missing from one of them."""


@dataclass(frozen=True)
class Standardiser:
    """Subtracts a mean and divides by a standard deviation, feature by feature, as scikit-learn's `StandardScaler`.

    Attributes:
        mean: Shape (H,).
        scale: Shape (H,); 1 where a feature is constant.
    """

    mean: Array
    scale: Array

    @classmethod
    def of(cls, values: Array) -> Standardiser:
        """That of the rows of `values`, shape (N, H)."""
        from sklearn.preprocessing import StandardScaler

        fitted = StandardScaler().fit(values)
        return cls(fitted.mean_, fitted.scale_)

    def __call__(self, values: Array) -> Array:
        """Standardised rows, shape (N, H)."""
        standardised: Array = (values - self.mean) / self.scale
        return standardised

    def fold(self, weight: Array, bias: Array) -> tuple[Array, Array]:
        """The linear map on raw features that equals (weight, bias) on standardised ones."""
        raw = weight / self.scale
        return raw, bias - raw @ self.mean


def fit_head(values: Array, labels: Array, n_classes: int, inverse_strength: float) -> tuple[Array, Array]:
    """L1-regularised logistic regression, as a weight (C, H) and a bias (C,).

    With two classes the first row is 0 and the second scikit-learn's, so that a softmax gives its probabilities. With
    more, one regression for each class against the rest, which is what liblinear did for DFR before scikit-learn
    stopped letting it; the most probable class is that of the highest score. A softmax of these scores is not what
    scikit-learn's `predict_proba` gives, which divides the C sigmoids by their sum: answers are the same,
    probabilities, and MSTPS with them, are not.

    Args:
        values: Features, shape (N, H).
        labels: Class ids, shape (N,); each of the C classes occurs.
        n_classes: C.
        inverse_strength: scikit-learn's C.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    regression = LogisticRegression(l1_ratio=1.0, C=inverse_strength, solver="liblinear", random_state=0)
    if n_classes == 2:
        regression.fit(values, labels)
        return np.vstack([np.zeros_like(regression.coef_), regression.coef_]), np.append(0.0, regression.intercept_)
    several = OneVsRestClassifier(regression).fit(values, labels)
    weight = np.vstack([one.coef_ for one in several.estimators_])
    return weight, np.concatenate([one.intercept_ for one in several.estimators_])


def answers(values: Array, weight: Array, bias: Array) -> Array:
    """The class of the highest score, shape (N,)."""
    return np.asarray((values @ weight.T + bias).argmax(axis=1))


def balanced_rows(groups: Array, rng: np.random.Generator) -> Array:
    """As many rows of every group that occurs as the smallest of them has, drawn without replacement.

    Args:
        groups: Group ids, shape (N,).
        rng: Draws.
    """
    present = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    size = min(map(len, present))
    return np.concatenate([rng.permutation(rows)[:size] for rows in present])


def draw_with_all_classes(
    labels: Array,
    n_classes: int,
    draw: Callable[[], tuple[Array, ...]],
    what: str,
    enough: Callable[[tuple[Array, ...]], bool] = lambda parts: True,
) -> tuple[tuple[Array, ...], int]:
    """Draw until the first part holds every class that occurs at all.

    Args:
        labels: Class ids, shape (N,).
        n_classes: C.
        draw: Gives parts, each row numbers.
        what: What is drawn, for the message.
        enough: What else is asked of the parts; where no draw grants it, the last one that holds all classes is taken.

    Returns:
        The parts, and how many times was drawn: 1 unless a class, or what else is asked, was missing at first.

    Raises:
        DataError: A class has no row at all, or no draw held them all.
    """
    absent = sorted(set(range(n_classes)) - set(labels.tolist()))
    require(not absent, f"DFR needs rows of every class in {what}, but there are none of class {absent}.", DataError)
    kept: tuple[Array, ...] | None = None
    for n_draws in range(1, MOST_DRAWS + 1):
        parts = draw()
        if len(set(labels[parts[0]].tolist())) == n_classes:
            kept = parts
            if enough(parts):
                return parts, n_draws
    if kept is not None:
        return kept, MOST_DRAWS
    counts = np.bincount(labels, minlength=n_classes).tolist()
    raise DataError(
        f"DFR needs every class in the half of {what} that it fits on, but {MOST_DRAWS} draws of {len(labels)} rows "
        f"(of the classes {counts}) left one out each time. Give more rows of the rare classes."
    )


@dataclass(frozen=True)
class DFR:
    """Deep feature reweighting of the base classifier.

    With three or more classes its MSTPS has a caveat: probabilities are a softmax of one-against-rest scores, see
    `fit_head`.

    Attributes:
        name: The name in tables.
        variant: `original` is the paper's DFR on validation data: C is chosen by worst-group accuracy on one half of
            the dev set after a group-balanced fit on the other, and the head is the mean of `resamples` group-balanced
            fits on all of it. `sg-paper` is the re-implementation that the paper of this library used: a random 5 % of
            the training set, no balancing, C by accuracy on half of it, one fit; its features come before the pooler.
        inverse_strengths: The grid for C. Of a grid of one `original` sets no half apart.
        resamples: Fits that are averaged by `original`.
        share: Share of the training set that `sg-paper` draws.
        standardise_on: `train` standardises `original`'s last fits by the training set's features, as its code does;
            `dev` by the dev set's, for when there is no training set to be had.
    """

    name: str = "dfr"
    variant: Literal["original", "sg-paper"] = "original"
    inverse_strengths: tuple[float, ...] = INVERSE_STRENGTHS
    resamples: int = RESAMPLES
    share: float = SHARE_OF_TRAIN
    standardise_on: Literal["train", "dev"] = "train"

    def __post_init__(self) -> None:
        object.__setattr__(self, "inverse_strengths", tuple(self.inverse_strengths))
        require(self.variant in ("original", "sg-paper"), f"variant must be original or sg-paper, not {self.variant}.")
        require(self.standardise_on in ("train", "dev"), f"standardise_on is train or dev, not {self.standardise_on}.")
        require(bool(self.inverse_strengths) and min(self.inverse_strengths) > 0, "inverse_strengths must be above 0.")
        require(self.resamples >= 1, f"resamples must be at least 1, but is {self.resamples}.")
        require(0 < self.share <= 1, f"share must be above 0 and at most 1, but is {self.share}.")

    @property
    def needs(self) -> frozenset[Need]:
        """The weights, for the features. `original`: dev rows with groups, and training texts unless it standardises on
        dev. `sg-paper`: training rows."""
        if self.variant == "sg-paper":
            return frozenset({Need.TRAIN, Need.GRADIENTS})
        dev = frozenset({Need.DEV, Need.DEV_GROUPS, Need.GRADIENTS})
        return dev | {Need.TRAIN_TEXTS} if self.standardise_on == "train" else dev

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Read the features once, choose C, refit the head.

        Groups without rows in the dev set cannot be balanced: `original` balances those there are and names the others
        in the result, as it does those with rows in one half only.

        Raises:
            DataError: A class has no rows to fit on, or the groups are hidden.
        """
        fit = self._fit_original if self.variant == "original" else self._fit_sg_paper
        feature: Feature = "head-input" if self.variant == "original" else "cls"
        base = material.scorer(material.base.model)
        weight, bias, info, cost = fit(material, feature, np.random.default_rng(seed))
        return head_system(
            with_head(base, weight, bias, feature),
            feature,
            info={"labels_spent": 0, "feature": feature, **info},
            forward_equivalents=cost,
        )

    def _fit_original(
        self, material: Material, feature: Feature, rng: np.random.Generator
    ) -> tuple[Array, Array, dict[str, Any], float]:
        dev, watch = material.dev, Stopwatch()
        assert dev is not None
        require(
            not (dev.groups == HIDDEN_GROUP).any(),
            f"DFR needs the groups of '{dev.name}', but they are hidden; declare dev-groups, or take variant sg-paper.",
            DataError,
        )
        base = material.scorer(material.base.model)
        with watch.time("features"):
            values = features(base, dev.texts, feature)
            cost = float(len(dev))
            if self.standardise_on == "train":
                assert material.train_texts is not None
                standardise = Standardiser.of(features(base, material.train_texts, feature))
                cost += len(material.train_texts)
            else:
                standardise = Standardiser.of(values)
        with watch.time("fit"):
            scores: Sequence[float | None] = [None]
            one_sided: list[str] = []
            draws = chosen = 0
            if len(self.inverse_strengths) > 1:  # a single one needs no rows set apart to choose by
                tuned, one_sided, draws = self.tune(values, dev, rng)
                scores, chosen = tuned, best_index(tuned)
            inverse_strength = self.inverse_strengths[chosen]
            weight, bias, resamples = self.average(standardise(values), dev, inverse_strength, rng)
        weight, bias = standardise.fold(weight, bias)
        return (
            weight,
            bias,
            {
                "selection": {
                    "rule": "dev-worst-group" if draws else "fixed",
                    "oracle": False,
                    "dev_rows": len(dev),
                    "dev_groups_without_rows": missing_groups(dev),
                    "dev_groups_in_one_half": one_sided,
                    "draws": {"halves": draws, "resamples": resamples},
                },
                "inverse_strength": inverse_strength,
                "trials": _trials(self.inverse_strengths, scores),
                "seconds": watch.seconds,
            },
            cost,
        )

    def tune(self, values: Array, rows: LabelledTexts, rng: np.random.Generator) -> tuple[list[float], list[str], int]:
        """Worst-group accuracy of every C: fitted on a balanced half of the rows, scored on the other half.

        Halves are drawn again until every group that has rows has some in both, which a group of a single row cannot.

        Args:
            values: Features, shape (N, H).
            rows: Their labels and groups.
            rng: Splits and balances.

        Returns:
            The score of every C; the names of groups that have rows in one half only, which a warning says as well; and
            how many times halves were drawn.
        """

        def draw() -> tuple[Array, ...]:
            order = rng.permutation(len(rows))
            return order[len(rows) // 2 :], order[: len(rows) // 2]

        def lacking(halves: tuple[Array, ...]) -> list[int]:
            first, second = (set(rows.groups[half].tolist()) for half in halves)
            return sorted(first ^ second)

        n_classes = len(rows.label_names)
        halves, n_draws = draw_with_all_classes(
            rows.labels, n_classes, draw, f"'{rows.name}'", enough=lambda parts: not lacking(parts)
        )
        one_sided = [rows.group_names[group] for group in lacking(halves)]
        if one_sided:
            warnings.warn(
                f"Of '{rows.name}' {', '.join(one_sided)} has rows in only one of the halves by which DFR chooses C, "
                "so that choice does not know how well it is answered. Give more rows of it.",
                GuardrailWarning,
                stacklevel=4,
            )
        fitted, held_out = halves
        fitted = fitted[balanced_rows(rows.groups[fitted], rng)]
        standardise = Standardiser.of(values[fitted])
        scores = []
        for inverse_strength in self.inverse_strengths:
            head = fit_head(standardise(values[fitted]), rows.labels[fitted], n_classes, inverse_strength)
            guesses = answers(standardise(values[held_out]), *head)
            scores.append(worst_group_accuracy(guesses, rows.labels[held_out], rows.groups[held_out]))
        return scores, one_sided, n_draws

    def average(
        self, values: Array, rows: LabelledTexts, inverse_strength: float, rng: np.random.Generator
    ) -> tuple[Array, Array, int]:
        """Mean weight and bias over `resamples` group-balanced fits on all rows, and how many samples they took.

        Args:
            values: Standardised features, shape (N, H).
            rows: Their labels and groups.
            inverse_strength: C.
            rng: Balances.
        """
        n_classes = len(rows.label_names)
        heads, n_draws = [], 0
        for _ in range(self.resamples):
            (chosen,), drawn = draw_with_all_classes(
                rows.labels, n_classes, lambda: (balanced_rows(rows.groups, rng),), f"'{rows.name}'"
            )
            n_draws += drawn
            heads.append(fit_head(values[chosen], rows.labels[chosen], n_classes, inverse_strength))
        weight, bias = (np.mean(parts, axis=0) for parts in zip(*heads, strict=True))
        return weight, bias, n_draws

    def _fit_sg_paper(
        self, material: Material, feature: Feature, rng: np.random.Generator
    ) -> tuple[Array, Array, dict[str, Any], float]:
        train, watch = material.train, Stopwatch()
        assert train is not None
        n_classes, size = len(train.label_names), int(np.ceil(self.share * len(train)))

        def draw() -> tuple[Array, ...]:
            probe = rng.permutation(len(train))[:size]
            return probe[size // 2 :], probe[: size // 2]

        (fitted, held_out), n_draws = draw_with_all_classes(
            train.labels, n_classes, draw, f"{self.share:.0%} of '{train.name}' ({size} rows)"
        )
        probe = train.select(np.concatenate([fitted, held_out]))
        with watch.time("features"):
            values = features(material.scorer(material.base.model), probe.texts, feature)
        with watch.time("fit"):
            weight, bias, scores = fit_probe(values, probe.labels, len(fitted), n_classes, self.inverse_strengths)
        return (
            weight,
            bias,
            {
                "selection": {
                    "rule": "probe-accuracy",
                    "oracle": False,
                    "dev_rows": 0,
                    "dev_groups_without_rows": [],
                    "draws": {"halves": n_draws},
                },
                "inverse_strength": self.inverse_strengths[best_index(scores)],
                "trials": _trials(self.inverse_strengths, scores),
                "probe_rows": size,
                "seconds": watch.seconds,
            },
            float(size),
        )


def fit_probe(
    values: Array, labels: Array, n_fitted: int, n_classes: int, inverse_strengths: Sequence[float]
) -> tuple[Array, Array, list[float]]:
    """C by accuracy on the rows after the first `n_fitted`, fitted on those; then one fit on all, standardised anew.

    Args:
        values: Features, shape (N, H).
        labels: Class ids, shape (N,).
        n_fitted: Rows of the first half.
        n_classes: C of the classes.
        inverse_strengths: The grid; of equals the first.

    Returns:
        Weight (C, H) and bias (C,) on raw features, and the accuracy of every point.

    Raises:
        RunError: There is nothing to score on.
    """
    if n_fitted >= len(values):
        raise RunError(f"All {len(values)} rows are fitted on, so none is left to choose C by.")
    standardise = Standardiser.of(values[:n_fitted])
    scores = []
    for inverse_strength in inverse_strengths:
        head = fit_head(standardise(values[:n_fitted]), labels[:n_fitted], n_classes, inverse_strength)
        scores.append(float((answers(standardise(values[n_fitted:]), *head) == labels[n_fitted:]).mean()))
    standardise = Standardiser.of(values)
    weight, bias = fit_head(standardise(values), labels, n_classes, inverse_strengths[best_index(scores)])
    return *standardise.fold(weight, bias), scores


def _trials(inverse_strengths: Sequence[float], scores: Sequence[float | None]) -> list[dict[str, Any]]:
    return [
        {"point": {"inverse_strength": strength}, "score": score, "diverged": None}
        for strength, score in zip(inverse_strengths, scores, strict=True)
    ]
