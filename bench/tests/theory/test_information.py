"""Exact information theory: known values, refusals, and the inequalities over random chains."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import entropy as scipy_entropy

from shortcut_bench import theory
from shortcut_guardrail.errors import DataError

TOLERANCE = 1e-9


def distributions(size):
    """Distributions over `size` outcomes, some of them with exact zeros."""
    weights = st.one_of(st.just(0.0), st.floats(1e-3, 1.0))
    return arrays(np.float64, size, elements=weights).filter(lambda w: w.sum() > 0).map(lambda w: w / w.sum())


def channels(inputs, outputs):
    return st.lists(distributions(outputs), min_size=inputs, max_size=inputs).map(np.stack)


@st.composite
def chains(draw):
    """A prior and two channels: S* -> D -> theta."""
    n_structures, n_sets, n_models = (draw(st.integers(low, 6)) for low in (3, 1, 1))
    return draw(distributions(n_structures)), draw(channels(n_structures, n_sets)), draw(channels(n_sets, n_models))


def brute_force_information(joint):
    """I(row; column) in bits by the sum in the textbook, cell by cell."""
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    cells = itertools.product(range(joint.shape[0]), range(joint.shape[1]))
    return sum(joint[i, j] * math.log2(joint[i, j] / (rows[i] * columns[j])) for i, j in cells if joint[i, j] > 0)


def test_entropy_of_coins_and_dice():
    assert theory.entropy([1.0]) == 0.0
    assert theory.entropy([0.5, 0.5]) == pytest.approx(1.0)
    assert theory.entropy([0.5, 0.5], unit="nats") == pytest.approx(math.log(2))
    assert theory.entropy([1 / 6] * 6) == pytest.approx(math.log2(6))
    assert theory.entropy([[0.25, 0.25], [0.5, 0.0]]) == pytest.approx(1.5)


def test_a_noisy_binary_channel_loses_the_entropy_of_its_noise():
    joint = theory.joint_distribution([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    noise = -(0.9 * math.log2(0.9) + 0.1 * math.log2(0.1))
    assert theory.mutual_information(joint) == pytest.approx(1 - noise)
    assert theory.conditional_entropy(joint) == pytest.approx(noise)
    assert theory.bayes_error(joint) == pytest.approx(0.1)


def test_what_is_no_distribution_is_refused():
    for values, sentence in (
        ([0.5, 0.6], "probabilities must sum to 1, but the sum is 1.1. Divide counts by their total first."),
        ([0.5, 0.5 - 1e-6], "must sum to 1"),
        ([1.5, -0.5], "must not be negative anywhere, but its smallest value is -0.5"),
        ([math.nan, 1.0], "must hold finite numbers, but 1 are NaN or infinite"),
        ([], "is empty"),
        (["a", "b"], "must hold real numbers"),
        ([[0.5], [0.25, 0.25]], "rows of equal length"),
    ):
        with pytest.raises(DataError) as refusal:
            theory.entropy(values)
        assert sentence in str(refusal.value)
    with pytest.raises(DataError, match=r"row 1 sums to 0\.9 \(1 of 2 rows are wrong\)"):
        theory.check_channel([[0.5, 0.5], [0.5, 0.4]])


@given(joint=st.integers(1, 5).flatmap(lambda n: distributions(4 * n).map(lambda p: p.reshape(4, n))))
def test_information_agrees_with_brute_force_and_scipy(joint):
    literal = brute_force_information(joint)
    assert theory.mutual_information(joint) == pytest.approx(literal, abs=TOLERANCE)
    assert theory.mutual_information(joint, unit="nats") == pytest.approx(literal * math.log(2), abs=TOLERANCE)
    assert theory.bayes_error(joint) == pytest.approx(1 - joint.max(axis=0).sum(), abs=TOLERANCE)
    assert theory.entropy(joint.sum(axis=1)) == pytest.approx(scipy_entropy(joint.sum(axis=1), base=2), abs=TOLERANCE)
    chain_rule = theory.entropy(joint) - theory.entropy(joint.sum(axis=0))
    assert theory.conditional_entropy(joint) == pytest.approx(chain_rule, abs=TOLERANCE)


@given(chain=chains())
def test_along_a_markov_chain_information_falls_and_errors_rise(chain):
    prior, train_channel, learner = chain
    train, deploy = (
        theory.joint_distribution(prior, train_channel),
        theory.joint_distribution(prior, theory.compose(train_channel, learner)),
    )
    assert -TOLERANCE <= theory.mutual_information(deploy) <= theory.mutual_information(train) + TOLERANCE
    assert theory.mutual_information(train) <= theory.entropy(prior) + TOLERANCE
    assert theory.bayes_error(train) <= theory.bayes_error(deploy) + TOLERANCE
    whole = prior[:, None, None] * train_channel[:, :, None] * learner[None]
    assert theory.conditional_mutual_information(whole) == pytest.approx(0, abs=TOLERANCE)
    # No bound exceeds the best possible error.
    bounds = theory.identification_bounds(train, deploy)
    assert bounds.deploy.value >= bounds.train.value - TOLERANCE
    for joint, bound in ((train, bounds.train), (deploy, bounds.deploy)):
        sharp = theory.sharp_fano_bound(max(0.0, theory.conditional_entropy(joint)), len(prior))
        assert bound.value - 1e-7 <= sharp <= theory.bayes_error(joint) + 1e-7


@given(chain=chains(), data=st.data())
def test_a_lossless_step_loses_nothing(chain, data):
    prior, train_channel, _ = chain
    train = theory.joint_distribution(prior, train_channel)
    order = data.draw(st.permutations(range(train.shape[1])))
    renamed = theory.push_forward(train, np.array(order))
    assert theory.mutual_information(renamed) == pytest.approx(theory.mutual_information(train), abs=TOLERANCE)
    assert theory.bayes_error(renamed) == pytest.approx(theory.bayes_error(train), abs=TOLERANCE)
    assert theory.identification_bounds(train, renamed).information_lost == pytest.approx(0, abs=TOLERANCE)


def test_a_third_variable_that_is_no_function_of_the_second_can_know_more():
    """The middle one is blind, the last one a copy of S*: the inequality of the theorem fails by all of H(S*)."""
    whole = np.zeros((3, 2, 3))
    for structure in range(3):
        whole[structure, :, structure] = 1 / 6
    assert theory.mutual_information(whole.sum(axis=2)) == pytest.approx(0, abs=TOLERANCE)
    assert theory.mutual_information(whole.sum(axis=1)) == pytest.approx(math.log2(3))
    assert theory.conditional_mutual_information(whole) == pytest.approx(math.log2(3))
