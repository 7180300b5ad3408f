"""A world small enough to enumerate: shortcut structures, training sets, a learner, and what is seen at deployment.

A text is a set of tokens out of a vocabulary of V, with one of two labels. The shortcut structure S* says for every
token whether it pushes towards label 0, to label 1, or to neither, so there are K = 3^V structures. Every possible
training set is listed with its exact probability under every structure, every one of them is learnt from, and all
information and all errors follow by summation: nothing is sampled.

Letters: V tokens, K = 3^V structures, X = 2^V texts, C = 2X cells (a text with a label), T training sets.
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

from shortcut_guardrail.errors import ConfigError, RunError

from .information import FloatArray, check_channel, joint_distribution, push_forward

IntArray = NDArray[np.int64]

MAX_TABLE_CELLS = 20_000_000
"""Largest structures-by-training-sets table that is built (160 MB of doubles)."""
FLOAT_STEP = 1e-6
"""Spacing of weights that stands for not quantising at all: finer than what Newton's iterations leave as noise."""
_NEWTON_STEPS = 60


def structures(num_tokens: int) -> IntArray:
    """Every shortcut structure over a vocabulary of `num_tokens`.

    Returns:
        Shape (K, V) with K = 3^V: -1 where the token pushes towards label 0, +1 where it pushes towards label 1, 0 for
        neither.

    Raises:
        ConfigError: `num_tokens` is not a whole number from 1 to 4.
    """
    if num_tokens not in (1, 2, 3, 4):
        raise ConfigError(f"num_tokens must be 1, 2, 3 or 4 to be enumerable, but is {num_tokens}.")
    return np.array(list(itertools.product((-1, 0, 1), repeat=num_tokens)), dtype=np.int64)


def token_sets(num_tokens: int) -> IntArray:
    """Every text: shape (X, V) with X = 2^V, 1 where the token is present."""
    return np.array(list(itertools.product((0, 1), repeat=num_tokens)), dtype=np.int64)


def text_distribution(shortcuts: IntArray, strength: float, *, label_1_share: float = 0.5) -> FloatArray:
    """How probable each labelled text is under each structure.

    A token that pushes towards a label occurs in (1 + strength) / 2 of the texts with that label and in (1 - strength)
    / 2 of the others; every other token occurs in half of all texts. Given the label, tokens are independent.

    Args:
        shortcuts: Structures as `structures` makes them, shape (K, V).
        strength: The shortcut strength lambda, in [-1, 1]: 1 is a perfect shortcut, 0 none, and a negative one reverses
            the correlation, as an anti-test set does.
        label_1_share: Probability of label 1, in [0, 1].

    Returns:
        Row-stochastic, shape (K, C): first the X texts with label 0, then the X texts with label 1.

    Raises:
        ConfigError: `strength` or `label_1_share` is out of range.
    """
    if not -1 <= strength <= 1:
        raise ConfigError(f"strength must lie between -1 and 1, but is {strength}.")
    if not 0 <= label_1_share <= 1:
        raise ConfigError(f"label_1_share must lie between 0 and 1, but is {label_1_share}.")
    present = token_sets(shortcuts.shape[1])[None]  # (1, X, V)
    halves = []
    for label_sign, share in ((-1, 1 - label_1_share), (1, label_1_share)):
        token_share = (1 + strength * label_sign * shortcuts[:, None]) / 2  # (K, 1, V)
        halves.append(share * np.where(present == 1, token_share, 1 - token_share).prod(axis=2))
    return np.concatenate(halves, axis=1)


def without_labels(texts: FloatArray) -> FloatArray:
    """The distribution of texts alone: (K, C) of labelled texts to (K, X)."""
    half = texts.shape[1] // 2
    return texts[:, :half] + texts[:, half:]


def samples(num_cells: int, size: int) -> IntArray:
    """Every sample of `size` draws from `num_cells` outcomes, without regard to order.

    The order of independent draws carries no information, so leaving it out loses nothing and shortens the list.

    Returns:
        Counts, shape (T, num_cells), each row summing to `size`; T = binomial(num_cells + size - 1, size).

    Raises:
        ConfigError: `size` is negative or no whole number.
    """
    _check_size(size)
    draws = np.array(list(itertools.combinations_with_replacement(range(num_cells), size)), dtype=np.int64)
    counts = np.zeros((len(draws), num_cells), dtype=np.int64)
    np.add.at(counts, (np.arange(len(draws))[:, None], draws.reshape(len(draws), size)), 1)
    return counts


def sample_probabilities(outcomes: FloatArray, counts: IntArray) -> FloatArray:
    """Multinomial probability of every sample under every structure.

    Args:
        outcomes: Row-stochastic, shape (K, cells): one draw.
        counts: Samples of one size, as `samples` lists them, shape (T, cells).

    Returns:
        Row-stochastic if `counts` holds every sample of its size, shape (K, T).

    Raises:
        DataError: `outcomes` is not row-stochastic.
    """
    one_draw = check_channel(outcomes, name="outcomes")
    orders = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
    possible = one_draw > 0
    log_probability = np.log(one_draw, out=np.zeros_like(one_draw), where=possible) @ counts.T + orders
    impossible = (~possible).astype(np.float64) @ counts.T > 0
    return np.where(impossible, 0.0, np.exp(log_probability))


def logistic_weights(counts: IntArray, num_tokens: int, *, l2: float) -> FloatArray:
    """The converged parameters of a regularised logistic regression, for every training set at once.

    Minimises the summed log loss plus l2 / 2 times the squared weights (bias included, which keeps the optimum finite
    and unique) by Newton's method.

    Args:
        counts: Training sets, shape (T, C).
        num_tokens: V.
        l2: Strength of the regularisation, above 0.

    Returns:
        Shape (T, V + 1): one weight per token, then the bias. A positive weight pushes towards label 1.

    Raises:
        ConfigError: `l2` is not above 0.
        RunError: Newton's method did not converge for some training set.
    """
    if not l2 > 0:
        raise ConfigError(f"l2 must be above 0 (without it a separable training set has no optimum), but is {l2}.")
    texts = token_sets(num_tokens)
    features = np.concatenate([texts, np.ones((len(texts), 1), dtype=np.int64)], axis=1).astype(np.float64)  # (X, V+1)
    totals = (counts[:, : len(texts)] + counts[:, len(texts) :]).astype(np.float64)  # (T, X)
    positives = counts[:, len(texts) :].astype(np.float64)
    outer = features[:, :, None] * features[:, None, :]  # (X, V+1, V+1)
    weights = np.zeros((len(counts), features.shape[1]))
    for _ in range(_NEWTON_STEPS):
        probs = expit(weights @ features.T)  # (T, X)
        gradient = (totals * probs - positives) @ features + l2 * weights
        if np.abs(gradient).max() < 1e-12:
            return weights
        hessian = np.einsum("tx,xij->tij", totals * probs * (1 - probs), outer) + l2 * np.eye(features.shape[1])
        weights = weights - np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    if (worst := float(np.abs(gradient).max())) > 1e-9:
        raise RunError(f"Newton's method left a gradient of {worst:.2g} with l2 = {l2}; use a larger l2.")
    return weights


def quantised(weights: FloatArray, step: float) -> IntArray:
    """Every weight as the nearest whole multiple of `step`: a learner with coarse parameters.

    Args:
        weights: Any shape.
        step: Spacing of the values a parameter can take, above 0. `FLOAT_STEP` stands for not quantising.

    Raises:
        ConfigError: `step` is not above 0.
    """
    if not step > 0:
        raise ConfigError(f"step must be above 0, but is {step}.")
    # Rounding to 1e-9 first keeps equal optima equal although Newton's last digits differ.
    return np.rint(np.round(weights, 9) / step).astype(np.int64)


def distinct_rows(table: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct rows of a table, and for every row of the table which of them it is."""
    rows, image = np.unique(table, axis=0, return_inverse=True)
    return rows, image.reshape(-1).astype(np.int64)


def answers(parameters: IntArray) -> IntArray:
    """The label that each model gives to each text: what someone sees who can query the model but not open it.

    Args:
        parameters: Quantised weights and bias, shape (M, V + 1).

    Returns:
        Shape (M, X): 1 for label 1, -1 for label 0, and 0 where the model is undecided (a logit of exactly zero).
    """
    texts = token_sets(parameters.shape[1] - 1)
    labels: IntArray = np.sign(parameters[:, :-1] @ texts.T + parameters[:, -1:])
    return labels


def most_salient_token(parameters: IntArray) -> IntArray:
    """What a one-line audit of each model reports: its most salient token and the label that the token pushes towards.

    In a linear model, gradient times input of a token that is present is its weight.

    Args:
        parameters: Quantised weights and bias, shape (M, V + 1).

    Returns:
        Shape (M, 2): the token with the largest absolute weight (the first of equals) and the sign of its weight; 0 for
        a model whose token weights are all zero.
    """
    weights = parameters[:, :-1]
    token = np.abs(weights).argmax(axis=1)
    return np.stack([token, np.sign(weights[np.arange(len(weights)), token])], axis=1)


@dataclass(frozen=True)
class World:
    """One setting of the enumerable world.

    Attributes:
        num_tokens: V, from 1 to 4; there are 3^V structures.
        train_size: Texts in a training set, from 0 on.
        shortcut_strength: lambda in the training data, in [0, 1].
        step: Spacing of the values that a model parameter can take; larger is coarser.
        l2: Regularisation of the learner.
    """

    num_tokens: int = 3
    train_size: int = 4
    shortcut_strength: float = 0.8
    step: float = 0.5
    l2: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.shortcut_strength <= 1:
            raise ConfigError(f"shortcut_strength must lie between 0 and 1, but is {self.shortcut_strength}.")
        num_structures = len(structures(self.num_tokens))
        _check_size(self.train_size)
        num_sets = math.comb(2 * 2**self.num_tokens + self.train_size - 1, self.train_size)
        if num_structures * num_sets > MAX_TABLE_CELLS:
            raise ConfigError(
                f"A world with num_tokens {self.num_tokens} and train_size {self.train_size} has {num_sets}"
                f" training sets and {num_structures} structures, too many to enumerate. Make one of the two smaller."
            )


@dataclass(frozen=True)
class EnumeratedWorld:
    """Every joint distribution with S* that a world has, for a uniform prior over structures.

    Attributes:
        world: The setting.
        train_joint: S* and the training set, shape (K, T).
        parameters: The distinct quantised models, shape (M, V + 1).
        parameters_joint: S* and the model's parameters, shape (K, M).
        answers_joint: S* and the model's labels on all texts, shape (K, .).
        audit_joint: S* and the most salient token with its label, shape (K, .).
    """

    world: World
    train_joint: FloatArray
    parameters: IntArray
    parameters_joint: FloatArray
    answers_joint: FloatArray
    audit_joint: FloatArray


def enumerate_world(world: World) -> EnumeratedWorld:
    """Lists every training set of a world, trains on each, and adds up.

    Raises:
        ConfigError: The world is too large or a setting is out of range.
        RunError: The learner did not converge.
    """
    shortcuts = structures(world.num_tokens)
    texts = text_distribution(shortcuts, world.shortcut_strength)
    training_sets, weights = _trained(world.num_tokens, world.train_size, world.l2)
    prior = np.full(len(shortcuts), 1 / len(shortcuts))
    train_joint = joint_distribution(prior, sample_probabilities(texts, training_sets))
    parameters, learnt = distinct_rows(quantised(weights, world.step))
    parameters_joint = push_forward(train_joint, learnt)
    return EnumeratedWorld(
        world=world,
        train_joint=train_joint,
        parameters=parameters,
        parameters_joint=parameters_joint,
        answers_joint=push_forward(parameters_joint, distinct_rows(answers(parameters))[1]),
        audit_joint=push_forward(parameters_joint, distinct_rows(most_salient_token(parameters))[1]),
    )


@lru_cache(maxsize=16)
def _trained(num_tokens: int, train_size: int, l2: float) -> tuple[IntArray, FloatArray]:
    """All training sets and their optima: what worlds that differ in strength or step have in common."""
    training_sets = samples(2 * 2**num_tokens, train_size)
    weights = logistic_weights(training_sets, num_tokens, l2=l2)
    training_sets.flags.writeable = weights.flags.writeable = False
    return training_sets, weights


def with_deployment_texts(enumerated: EnumeratedWorld, deployment: FloatArray, size: int) -> FloatArray:
    """Joint distribution of S*, the parameters, and `size` texts that arrive at deployment.

    Training set and deployment texts are independent once S* is given. If the deployment texts do not depend on S* (all
    rows of `deployment` equal), S* -> parameters -> (parameters, texts) is the paper's Markov chain; if they do, it is
    not.

    Args:
        enumerated: A world.
        deployment: One deployment text under each structure, row-stochastic, shape (K, cells); with or without labels.
        size: How many texts arrive.

    Returns:
        Joint distribution with axes S*, parameters, texts; shape (K, M, samples of that size).

    Raises:
        ConfigError: The table would be too large.
        DataError: `deployment` is not row-stochastic.
    """
    _check_size(size)
    num_samples = math.comb(deployment.shape[1] + size - 1, size)
    if (cells := enumerated.parameters_joint.size * num_samples) > MAX_TABLE_CELLS:
        raise ConfigError(f"{size} deployment texts give a table of {cells:.3g} cells, too large. Choose fewer texts.")
    arrivals = sample_probabilities(deployment, samples(deployment.shape[1], size))  # (K, samples)
    return enumerated.parameters_joint[:, :, None] * arrivals[:, None, :]


def _check_size(size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise ConfigError(f"A number of texts must be a whole number from 0 on, but is {size}.")
