"""Ensembles with a bias-only model: what that model knows already, the main model does not learn.

Losses of Clark et al. (EMNLP 2019), with a bias model that is told the words, reads a bag of words, or is a weak
learner as in Utama et al. (EMNLP 2020). At prediction the main model answers alone.
docs/research/methods/bias-only.md says what is faithful and what differs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import DataError, GuardrailWarning
from shortcut_guardrail.metrics import balanced_accuracy
from shortcut_guardrail.text import WordFinder, check_words
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning import FinetuneConfig, Objective
from ..systems import Material, ModelSystem, Need, predict_proba
from .same_budget import smoothed_prior
from .selection import find_rule, rule_for
from .training import (
    Changes,
    Recipe,
    Stopwatch,
    Trained,
    as_config,
    check_recipe,
    model_system,
    pooled_output,
    require,
    resolve_recipe,
    selection_info,
    train,
)

Array = np.ndarray[Any, np.dtype[Any]]
Loss = Literal["product", "mixin", "reweight"]
Bias = Literal["words", "bag", "weak"]
Answer = Callable[[Array, Array], Array]
"""Given the rows to fit on and those to answer, class probabilities of the latter."""

SOURCE = FinetuneConfig(
    learning_rate=5e-5, epochs=3, batch_size=32, weight_decay=0.01, warmup_ratio=0.1, max_grad_norm=1.0
)
"""The repository's, for MultiNLI and BERT-base; 1 is the norm to which its BertAdam clips by default."""

INVERSE_STRENGTHS = {"words": 100.0, "bag": 1.0}
"""scikit-learn's C: the repository's 100 for a handful of features, its own default for thousands of words."""

FLOOR = 1e-4
"""The least probability of a class. No logarithm is infinite, and no batch has a sum of weights of 0."""

GATE = "bias_gate"
"""What the learned mixin adds to a model while it is trained, under the name that its weights have in checkpoints."""


def product_loss(logits: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """mean_i CE(log softmax(z_i) + beta_i, y_i), a scalar.

    Args:
        logits: z, shape (B, C).
        bias: beta, log-probabilities by the bias model, shape (B, C); a constant added to a row changes nothing.
        labels: y, shape (B,).
    """
    return F.cross_entropy(logits.float().log_softmax(dim=-1) + bias, labels)


def mixin_loss(logits: Tensor, bias: Tensor, labels: Tensor, gate: Tensor, penalty: float) -> Tensor:
    """The product with g_i beta_i, g = softplus(gate), and `penalty` times the mean entropy of softmax(g_i beta_i).

    The entropy is added, so that training keeps g from 0, at which the bias model would be ignored.

    Args:
        logits: Shape (B, C).
        bias: Shape (B, C).
        labels: Shape (B,).
        gate: Shape (B,).
        penalty: H, the weight of the entropy.
    """
    scaled = F.softplus(gate.float())[:, None] * bias
    log_probs = scaled.log_softmax(dim=-1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=-1).mean()
    return product_loss(logits, scaled, labels) + penalty * entropy


def reweighted_loss(logits: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """sum_i w_i CE(z_i, y_i) / sum_i w_i with w_i = 1 - exp(beta_i,y_i), a scalar.

    Args:
        logits: Shape (B, C).
        bias: Shape (B, C), log-probabilities of which none is 0.
        labels: Shape (B,).
    """
    weights = 1 - bias.gather(1, labels[:, None])[:, 0].exp()
    return (weights * F.cross_entropy(logits.float(), labels, reduction="none")).sum() / weights.sum()


def annealed(bias: Tensor, theta: float) -> Tensor:
    """log p^theta / sum_c p_c^theta of log-probabilities, shape (B, C) (Utama et al., 2020)."""
    return (theta * bias).log_softmax(dim=-1)


class Ensemble(Objective):
    """One of the three losses; the bias model's answers are fixed before.

    Args:
        bias: beta of all N rows, shape (N, C).
        loss: `product`, `mixin` or `reweight`.
        penalty: Of the mixin.
        last_theta: The exponent at the last step, to which it goes from 1 in equal steps.
        n_steps: All steps of the training.
    """

    def __init__(self, bias: Tensor, loss: Loss, *, penalty: float, last_theta: float, n_steps: int) -> None:
        self._bias, self._loss, self._penalty = bias, loss, penalty
        self._thetas = np.linspace(1.0, last_theta, n_steps)
        self._step = 0
        self._model: Any = None

    def begin(self, model: Any, tokenizer: Any) -> None:
        """For the mixin put a linear gate on the model, so that it is optimised and kept in checkpoints."""
        self._model = model
        if self._loss == "mixin":
            gate = nn.Linear(model.config.hidden_size, 1)
            nn.init.normal_(gate.weight, std=getattr(model.config, "initializer_range", 0.02))
            nn.init.zeros_(gate.bias)
            model.add_module(GATE, gate.to(model.device))

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch."""
        labels = inputs.pop("labels")
        bias = annealed(self._bias[rows.cpu()].to(labels.device), float(self._thetas[self._step]))
        self._step += 1
        if self._loss == "mixin":
            output, pooled = pooled_output(model, self._model.base_model, inputs)
            gate = getattr(self._model, GATE)(pooled.float())[:, 0]
            return mixin_loss(output.logits, bias, labels, gate, self._penalty)
        loss = product_loss if self._loss == "product" else reweighted_loss
        return loss(model(**inputs).logits, bias, labels)

    def state(self) -> dict[str, Tensor]:
        """How many steps were taken."""
        return {"step": torch.tensor(self._step)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self._step = int(state["step"])


def dealt(labels: Array, n_folds: int, seed: int) -> Array:
    """The fold of each row, shape (N,): rows in random order, class after class, are dealt out to the folds."""
    order = np.random.default_rng([seed, len(labels)]).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(len(labels), dtype=np.int64)
    folds[order] = np.arange(len(labels)) % n_folds
    return folds


def parts(folds: Array, *, out_of_fold: bool, weak: bool) -> Iterator[tuple[Array, Array]]:
    """Row numbers to fit on, and row numbers to answer; each row is answered once.

    A strong learner is fitted on all folds but the one that it answers, a weak one on a single fold, and it answers the
    next. Without crossing a strong one is fitted on what it answers, and one fold's weak learner answers all rows.

    Args:
        folds: The fold of each row, shape (N,).
        out_of_fold: Whether no row is answered by a model that was fitted on it.
        weak: Whether the learner is to see few rows.
    """
    present, everything = np.unique(folds), np.arange(len(folds))
    if not out_of_fold:
        yield (np.flatnonzero(folds == present[0]) if weak else everything), everything
        return
    for fold, following in zip(present, np.roll(present, -1), strict=True):
        if weak:
            yield np.flatnonzero(folds == fold), np.flatnonzero(folds == following)
        else:
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)


def cross_fitted(
    answer: Answer, labels: Array, n_classes: int, *, n_folds: int, seed: int, weak: bool, out_of_fold: bool = True
) -> Array:
    """Class probabilities of every row, shape (N, C). Rows of one class teach nothing but that it is frequent.

    Args:
        answer: Fits and answers.
        labels: Shape (N,).
        n_classes: C.
        n_folds: See `dealt`.
        seed: Deals.
        weak: See `parts`.
        out_of_fold: See `parts`.
    """
    probs = np.empty((len(labels), n_classes))
    for fitted, answered in parts(dealt(labels, n_folds, seed), out_of_fold=out_of_fold, weak=weak):
        known = len(set(labels[fitted].tolist())) > 1
        probs[answered] = answer(fitted, answered) if known else smoothed_prior(labels[fitted], n_classes)[None]
    return probs


def weak_learner(
    material: Material,
    rows: LabelledTexts,
    recipe: FinetuneConfig,
    *,
    watch: Stopwatch,
    seed: int,
    spend: Callable[[float], None],
    progress: Progress | None,
) -> Answer:
    """The pretrained encoder fine-tuned on some of the rows, which answers others; its last epoch is kept.

    Args:
        material: Holds the encoder.
        rows: All N rows.
        recipe: How, with the few passes that make it weak.
        watch: Running.
        seed: Decides head, order and dropout.
        spend: Told the cost.
        progress: Told how many steps are done.
    """

    def answer(fitted: Array, answered: Array) -> Array:
        trained = train(
            material,
            rows.select(fitted),
            recipe,
            find_rule("last"),
            stage="weak learner",
            watch=watch,
            seed=seed,
            spend=spend,
            progress=progress,
        )
        spend(float(len(answered)))
        scorer = material.scorer(trained.result.model, trained.result.tokenizer)
        return predict_proba(scorer, rows.select(answered).texts)

    return answer


def log_bias(probs: Array) -> Array:
    """Logarithms of probabilities of at least `FLOOR`, each row normalised again, shape (N, C)."""
    floored = np.maximum(probs, FLOOR)
    return np.asarray(np.log(floored / floored.sum(axis=1, keepdims=True)))


def word_features(texts: Texts, words: Sequence[str]) -> Array:
    """Whether each text, or either of a pair, holds each of K words or phrases, shape (N, K), 0 or 1."""
    finders = [WordFinder([word]) for word in check_words(words)]
    sides = [(text,) if isinstance(text, str) else text for text in texts]
    return np.array([[float(any(map(finder.present, text))) for finder in finders] for text in sides])


def bag_features(texts: Texts) -> Any:
    """Whether each text, or either of a pair, holds each word that any does, a sparse matrix of shape (N, K).

    Raises:
        DataError: No text holds a word.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    whole = [text if isinstance(text, str) else "\n".join(text) for text in texts]
    try:
        return CountVectorizer(binary=True, token_pattern=r"(?u)\b\w+\b").fit_transform(whole)
    except ValueError as error:  # an empty vocabulary
        raise DataError("A bag of words needs words, but no training text has one.") from error


def regression(features: Any, labels: Array, n_classes: int, inverse_strength: float) -> Answer:
    """A logistic regression in which classes weigh the same, as in the repository.

    Args:
        features: Of all N rows, shape (N, K).
        labels: Shape (N,).
        n_classes: C.
        inverse_strength: scikit-learn's C.
    """
    from sklearn.linear_model import LogisticRegression

    def answer(fitted: Array, answered: Array) -> Array:
        model = LogisticRegression(C=inverse_strength, class_weight="balanced", max_iter=1000)
        model.fit(features[fitted], labels[fitted])
        probs = np.zeros((len(answered), n_classes))
        probs[:, model.classes_] = model.predict_proba(features[answered])
        return probs

    return answer


@dataclass(frozen=True)
class BiasOnly:
    """A bias-only model, and the main model trained in an ensemble with it.

    Attributes:
        name: The name in tables.
        loss: `product` of experts, learned `mixin`, or `reweight`.
        bias: What the bias model is: `words`, a logistic regression that is told the shortcut's words; `bag`, one on
            all words; `weak`, a copy of the encoder fine-tuned for few passes over few rows.
        folds: How many parts the training rows are dealt out to; a weak learner is trained on one of them.
        out_of_fold: Answer every row by a model that was not fitted on it. In sample, as the papers do with many
            thousand rows, a bag of words knows the labels of few rows by heart, and nothing is left to learn.
        inverse_strength: C of the regression; `None` takes `INVERSE_STRENGTHS`.
        weak_epochs: Passes of the weak learner.
        weak_rate: Its learning rate; `None` takes the recipe's.
        penalty: H, the weight of the mixin's entropy.
        last_theta: The exponent of the bias model's probabilities at the last step, to which it goes from 1; Utama et
            al. anneal to 0.8. 1 leaves it out.
        recipe: Of the main model, and but for passes and rate of the weak learner; see `training.resolve_recipe`.
        select: Which epoch of the main model is kept.
    """

    name: str = "poe"
    loss: Loss = "product"
    bias: Bias = "words"
    folds: int = 5
    out_of_fold: bool = True
    inverse_strength: float | None = None
    weak_epochs: int = 5
    weak_rate: float | None = None
    penalty: float = 0.03
    last_theta: float = 1.0
    recipe: Recipe = "source"
    select: str = "last"

    def __post_init__(self) -> None:
        for option, known in (("loss", ("product", "mixin", "reweight")), ("bias", ("words", "bag", "weak"))):
            value = getattr(self, option)
            require(value in known, f"{option} must be one of {', '.join(known)}, but is {value!r}.")
        require(self.folds >= 2, f"folds must be at least 2, but is {self.folds}.")
        require(self.weak_epochs >= 1, f"weak_epochs must be at least 1, but is {self.weak_epochs}.")
        require(self.weak_rate is None or self.weak_rate > 0, f"weak_rate must be above 0, but is {self.weak_rate}.")
        strength = self.inverse_strength
        require(strength is None or strength > 0, f"inverse_strength must be above 0, but is {strength}.")
        require(self.penalty >= 0, f"penalty must be at least 0, but is {self.penalty}.")
        require(0 <= self.last_theta <= 1, f"last_theta must lie between 0 and 1, but is {self.last_theta}.")
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, what the rule reads, and the words for a bias model that is told them."""
        told = {Need.SHORTCUT_WORDS} if self.bias == "words" else set()
        return frozenset({Need.TRAIN, *told}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option, the regression's C as used."""
        return as_config(self) | {"inverse_strength": self._inverse_strength()}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Fit the bias model, then train the pretrained encoder beside its answers.

        A bias model that tells no classes apart is warned about: what follows is then ordinary training.

        Raises:
            DataError: There is no word to make a bag of.
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        with watch.time("bias model"):
            bias, bias_cost = self._bias_of(material, rows, recipe, watch=watch, seed=seed, progress=progress)
        self._warn(bias, rows)
        n_steps = recipe.epochs * math.ceil(len(rows) / recipe.batch_size)
        ensemble = Ensemble(
            torch.from_numpy(bias).float(), self.loss, penalty=self.penalty, last_theta=self.last_theta, n_steps=n_steps
        )
        with watch.time("ensemble"):
            trained = train(
                material,
                rows,
                recipe,
                rule,
                stage="ensemble",
                watch=watch,
                seed=seed,
                changes=Changes(objective=ensemble),
                progress=progress,
            )
        return model_system(
            material,
            _without_gate(trained),
            {"selection": selection_info(rule, material), "bias": _described(bias, rows)},
            cost=bias_cost + trained.cost,
            seconds=watch.seconds,
        )

    def _inverse_strength(self) -> float | None:
        return INVERSE_STRENGTHS.get(self.bias) if self.inverse_strength is None else self.inverse_strength

    def _bias_of(
        self,
        material: Material,
        rows: LabelledTexts,
        recipe: FinetuneConfig,
        *,
        watch: Stopwatch,
        seed: int,
        progress: Progress | None,
    ) -> tuple[Array, float]:
        """beta of every row, shape (N, C), and what it cost in forward equivalents."""
        n_classes, spent = len(material.label_names), [0.0]
        if self.bias == "weak":
            rate = recipe.learning_rate if self.weak_rate is None else self.weak_rate
            short = replace(recipe, epochs=self.weak_epochs, learning_rate=rate)
            answer = weak_learner(material, rows, short, watch=watch, seed=seed, spend=spent.append, progress=progress)
        else:
            words, strength = material.shortcut_words or (), self._inverse_strength()
            assert strength is not None
            features = word_features(rows.texts, words) if self.bias == "words" else bag_features(rows.texts)
            answer = regression(features, rows.labels, n_classes, strength)
        probs = cross_fitted(
            answer,
            rows.labels,
            n_classes,
            n_folds=self.folds,
            seed=seed,
            weak=self.bias == "weak",
            out_of_fold=self.out_of_fold,
        )
        return log_bias(probs), sum(spent)

    def _warn(self, bias: Array, rows: LabelledTexts) -> None:
        n_classes = len(np.unique(rows.labels))
        if balanced_accuracy(bias.argmax(axis=1), rows.labels) > 1 / n_classes:
            return
        warnings.warn(
            f"The bias model of {self.name} tells no classes of '{rows.name}' apart: its balanced accuracy is not "
            f"above 1 / {n_classes}, so the ensemble is ordinary training. "
            + (
                "Take more weak_epochs or a higher weak_rate."
                if self.bias == "weak"
                else "The words that it reads do not go with any class."
            ),
            GuardrailWarning,
            stacklevel=3,
        )


def _without_gate(trained: Trained) -> Trained:
    """The same without the mixin's gate, which is no part of the model that predicts."""
    if hasattr(trained.result.model, GATE):
        delattr(trained.result.model, GATE)
    return trained


def _described(bias: Array, rows: LabelledTexts) -> dict[str, float]:
    """How much the bias model knows: its accuracy, the mean probability of the label, and how many rows the weights
    1 - p_y amount to, as a share of all, (sum w)^2 / (N sum w^2)."""
    right = np.exp(bias[np.arange(len(rows)), rows.labels])
    weights = 1 - right
    return {
        "accuracy": float((bias.argmax(axis=1) == rows.labels).mean()),
        "balanced_accuracy": balanced_accuracy(bias.argmax(axis=1), rows.labels),
        "mean_probability": float(right.mean()),
        "effective_share": float(weights.sum() ** 2 / (len(rows) * (weights**2).sum())),
    }
