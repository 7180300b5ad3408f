"""Exact information theory: known values, refusals, and the inequalities over random chains."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import entropy as scipy_entropy

from shortcut_bench.theory import (
    bayes_error,
    check_channel,
    compose,
    conditional_entropy,
    conditional_mutual_information,
    entropy,
    fano_bound,
    identification_bounds,
    joint_distribution,
    mutual_information,
    push_forward,
    sharp_fano_bound,
)
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
    structures, training_sets, models = (draw(st.integers(low, 6)) for low in (3, 1, 1))
    return (
        draw(distributions(structures)),
        draw(channels(structures, training_sets)),
        draw(channels(training_sets, models)),
    )


def brute_force_information(joint):
    """I(row; column) in bits by the sum in the textbook, cell by cell."""
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    cells = itertools.product(range(joint.shape[0]), range(joint.shape[1]))
    return sum(joint[i, j] * math.log2(joint[i, j] / (rows[i] * columns[j])) for i, j in cells if joint[i, j] > 0)


def test_entropy_of_coins_and_dice():
    assert entropy([1.0]) == 0.0
    assert entropy([0.5, 0.5]) == pytest.approx(1.0)
    assert entropy([0.5, 0.5], unit="nats") == pytest.approx(math.log(2))
    assert entropy([1 / 6] * 6) == pytest.approx(math.log2(6))
    assert entropy([[0.25, 0.25], [0.5, 0.0]]) == pytest.approx(1.5)


def test_a_noisy_binary_channel_loses_the_entropy_of_its_noise():
    joint = joint_distribution([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    noise = -(0.9 * math.log2(0.9) + 0.1 * math.log2(0.1))
    assert mutual_information(joint) == pytest.approx(1 - noise)
    assert conditional_entropy(joint) == pytest.approx(noise)
    assert bayes_error(joint) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([0.5, 0.6], "probabilities must sum to 1, but the sum is 1.1. Divide counts by their total first."),
        ([0.5, 0.5 - 1e-6], "must sum to 1"),
        ([3, 5], "must sum to 1, but the sum is 8"),
        ([1.5, -0.5], "must not be negative anywhere, but its smallest value is -0.5"),
        ([math.nan, 1.0], "must hold finite numbers, but 1 are NaN or infinite"),
        ([math.inf, 1.0], "must hold finite numbers"),
        ([], "is empty"),
        (["a", "b"], "must hold real numbers"),
        ([True, False], "must hold real numbers"),
        ([1.0 + 0j], "must hold real numbers"),
        ([[0.5], [0.25, 0.25]], "rows of equal length"),
    ],
)
def test_what_is_no_distribution_is_refused(values, sentence):
    with pytest.raises(DataError) as refusal:
        entropy(values)
    assert sentence in str(refusal.value)


def test_a_channel_is_refused_by_row():
    with pytest.raises(DataError, match=r"row 1 sums to 0\.9 \(1 of 2 rows are wrong\)"):
        check_channel([[0.5, 0.5], [0.5, 0.4]])


@given(joint=st.integers(1, 5).flatmap(lambda n: distributions(4 * n).map(lambda p: p.reshape(4, n))))
def test_information_agrees_with_brute_force_and_scipy(joint):
    assert mutual_information(joint) == pytest.approx(brute_force_information(joint), abs=TOLERANCE)
    assert mutual_information(joint, unit="nats") == pytest.approx(
        brute_force_information(joint) * math.log(2), abs=TOLERANCE
    )
    assert entropy(joint.sum(axis=1)) == pytest.approx(scipy_entropy(joint.sum(axis=1), base=2), abs=TOLERANCE)
    chain_rule = entropy(joint) - entropy(joint.sum(axis=0))
    assert conditional_entropy(joint) == pytest.approx(chain_rule, abs=TOLERANCE)


@given(joint=distributions(12).map(lambda p: p.reshape(4, 3)))
def test_bayes_error_is_one_minus_the_best_guess(joint):
    assert bayes_error(joint) == pytest.approx(1 - joint.max(axis=0).sum(), abs=TOLERANCE)


@given(chain=chains())
def test_along_a_markov_chain_information_falls_and_errors_rise(chain):
    prior, train_channel, learner = chain
    train, deploy = joint_distribution(prior, train_channel), joint_distribution(prior, compose(train_channel, learner))
    assert -TOLERANCE <= mutual_information(deploy) <= mutual_information(train) + TOLERANCE
    assert mutual_information(train) <= entropy(prior) + TOLERANCE
    assert bayes_error(train) <= bayes_error(deploy) + TOLERANCE
    whole = prior[:, None, None] * train_channel[:, :, None] * learner[None]
    assert conditional_mutual_information(whole) == pytest.approx(0, abs=TOLERANCE)


@given(chain=chains())
def test_no_bound_exceeds_the_best_possible_error(chain):
    prior, train_channel, learner = chain
    train, deploy = joint_distribution(prior, train_channel), joint_distribution(prior, compose(train_channel, learner))
    bounds = identification_bounds(train, deploy)
    assert bounds.deploy.value >= bounds.train.value - TOLERANCE
    for joint, bound in ((train, bounds.train), (deploy, bounds.deploy)):
        sharp = sharp_fano_bound(max(0.0, conditional_entropy(joint)), len(prior))
        assert bound.value <= sharp + 1e-7
        assert sharp <= bayes_error(joint) + 1e-7


@given(chain=chains(), data=st.data())
def test_a_lossless_step_loses_nothing(chain, data):
    prior, train_channel, _ = chain
    train = joint_distribution(prior, train_channel)
    order = data.draw(st.permutations(range(train.shape[1])))
    renamed = push_forward(train, np.array(order))
    assert mutual_information(renamed) == pytest.approx(mutual_information(train), abs=TOLERANCE)
    assert bayes_error(renamed) == pytest.approx(bayes_error(train), abs=TOLERANCE)
    assert identification_bounds(train, renamed).information_lost == pytest.approx(0, abs=TOLERANCE)


def test_a_third_variable_that_is_no_function_of_the_second_can_know_more():
    """The middle one is blind, the last one a copy of S*: the inequality of the theorem fails by all of H(S*)."""
    whole = np.zeros((3, 2, 3))
    for structure in range(3):
        whole[structure, :, structure] = 1 / 6
    assert mutual_information(whole.sum(axis=2)) == pytest.approx(0, abs=TOLERANCE)
    assert mutual_information(whole.sum(axis=1)) == pytest.approx(math.log2(3))
    assert conditional_mutual_information(whole) == pytest.approx(math.log2(3))


def test_fano_accepts_what_rounding_leaves_below_zero():
    assert fano_bound(math.log2(3), -1e-15, 3).value == pytest.approx(math.log2(3) - 1)
