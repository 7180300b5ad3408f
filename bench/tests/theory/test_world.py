"""The enumerable world: probabilities against brute force, the learner against scikit-learn, the Markov chain."""

import itertools
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from shortcut_bench import theory
from shortcut_bench.theory import world as worlds
from shortcut_guardrail.errors import ConfigError


def test_texts_of_a_single_shortcut():
    """One token that pushes towards label 1 at strength .6: in .8 of the texts with label 1, in .2 of the others."""
    (row,) = theory.text_distribution(np.array([[1]]), 0.6)
    np.testing.assert_allclose(row, [0.5 * 0.8, 0.5 * 0.2, 0.5 * 0.2, 0.5 * 0.8])
    (reversed_row,) = theory.text_distribution(np.array([[1]]), -0.6)
    np.testing.assert_allclose(reversed_row, row[[1, 0, 3, 2]])
    (skewed,) = theory.text_distribution(np.array([[1]]), 0.6, label_1_share=0.25)
    np.testing.assert_allclose(
        theory.without_labels(skewed[None])[0], [0.75 * 0.8 + 0.25 * 0.2, 0.75 * 0.2 + 0.25 * 0.8]
    )


@pytest.mark.parametrize("num_cells", [1, 2, 4])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_samples_are_all_counts_of_that_size_once(num_cells, size):
    counts = worlds.samples(num_cells, size)
    assert len(counts) == math.comb(num_cells + size - 1, size)
    assert len({tuple(row) for row in counts}) == len(counts)
    assert (counts.sum(axis=1) == size).all()


def test_leaving_out_the_order_of_the_training_set_loses_nothing():
    """All ordered training sets of three texts, by brute force, against the counts."""
    texts = theory.text_distribution(theory.structures(1), 0.7)
    ordered = np.array(
        [
            [math.prod(row[cell] for cell in draw) for draw in itertools.product(range(len(row)), repeat=3)]
            for row in texts
        ]
    )
    counted = worlds.sample_probabilities(texts, worlds.samples(texts.shape[1], 3))
    assert ordered.shape[1] > counted.shape[1]
    assert theory.mutual_information(ordered / 3) == pytest.approx(theory.mutual_information(counted / 3), abs=1e-12)
    assert theory.bayes_error(ordered / 3) == pytest.approx(theory.bayes_error(counted / 3), abs=1e-12)


def test_the_learner_finds_what_scikit_learn_finds():
    texts = [(0, 0), (0, 1), (1, 0), (1, 1)]
    counts = np.array([[3, 1, 0, 2, 1, 0, 4, 1]])
    (weights,) = worlds.logistic_weights(counts, 2, l2=0.5)
    labelled = [(*text, 1, label) for label in (0, 1) for text in texts]
    table = np.repeat(np.array(labelled), counts[0], axis=0)
    reference = LogisticRegression(C=1 / 0.5, fit_intercept=False, tol=1e-10, max_iter=1000)
    reference.fit(table[:, :3], table[:, 3])
    np.testing.assert_allclose(weights, reference.coef_[0], atol=1e-5)
    weights = worlds.logistic_weights(worlds.samples(8, 4), 2, l2=0.01)
    assert np.isfinite(weights).all()
    with pytest.raises(ConfigError, match="l2 must be above 0"):
        worlds.logistic_weights(worlds.samples(8, 1), 2, l2=0.0)


def test_what_can_be_seen_of_a_model():
    models = np.array([[2, -3, 1], [0, 0, -1]])
    assert worlds.answers(models).tolist() == [[1, -1, 1, 0], [-1, -1, -1, -1]]
    assert worlds.most_salient_token(models).tolist() == [[1, -1], [0, 0]]


@pytest.mark.parametrize("strength", [0.5, 1.0])
@pytest.mark.parametrize("step", [0.5, 2.0])
def test_the_order_of_the_observers_in_a_small_world(strength, step):
    world = theory.enumerate_world(theory.World(num_tokens=2, train_size=5, shortcut_strength=strength, step=step))
    joints = (world.train_joint, world.parameters_joint, world.answers_joint)
    informations = [theory.mutual_information(joint) for joint in joints]
    errors = [theory.bayes_error(joint) for joint in joints]
    assert informations == sorted(informations, reverse=True)
    assert errors == sorted(errors)
    assert informations[0] > informations[1]  # this learner is coarse enough to lose something
    assert theory.mutual_information(world.audit_joint) <= informations[1]
    bounds = theory.identification_bounds(world.train_joint, world.parameters_joint)
    assert bounds.train.value <= errors[0]
    assert bounds.deploy.value <= errors[1]


def test_float_weights_lose_nothing_and_a_blind_learner_everything():
    fine, blind = (theory.enumerate_world(theory.World(2, 4, 0.8, step=step)) for step in (worlds.FLOAT_STEP, 1000.0))
    lost = theory.mutual_information(fine.train_joint) - theory.mutual_information(fine.parameters_joint)
    assert lost == pytest.approx(0, abs=1e-9)
    assert len(blind.parameters) == 1
    assert theory.mutual_information(blind.parameters_joint) == pytest.approx(0, abs=1e-12)
    assert theory.bayes_error(blind.parameters_joint) == pytest.approx(8 / 9)


@pytest.mark.parametrize("labelled", [True, False])
def test_reversed_texts_break_the_chain_and_pass_the_training_set(labelled):
    """Enough of them tell more about S* than the whole training set: no bound by I(S*; D) can hold."""
    world = theory.enumerate_world(theory.World(2, 2, 0.9, step=4.0))
    texts = theory.text_distribution(theory.structures(2), -0.9)
    joint = theory.with_deployment_texts(world, texts if labelled else theory.without_labels(texts), 6)
    observed = joint.reshape(9, -1)
    assert theory.conditional_mutual_information(joint) > 0.1
    assert theory.mutual_information(observed) > theory.mutual_information(world.parameters_joint) + 0.1
    if labelled:
        assert theory.mutual_information(observed) > theory.mutual_information(world.train_joint)
        assert theory.bayes_error(observed) < theory.bayes_error(world.train_joint)
        assert theory.identification_bounds(world.train_joint, observed).information_lost < 0


def test_one_reversed_text_without_label_tells_nothing_if_only_one_token_can_pull_and_labels_are_balanced():
    """How a set depends on S* matters: the token's frequency is the same, and there is no second token to go with."""
    balanced = theory.without_labels(theory.text_distribution(theory.structures(1), -0.9))
    skewed = theory.without_labels(theory.text_distribution(theory.structures(1), -0.9, label_1_share=0.27))
    world = theory.enumerate_world(theory.World(1, 3, 0.9))
    assert theory.conditional_mutual_information(theory.with_deployment_texts(world, balanced, 3)) == pytest.approx(
        0, abs=1e-9
    )
    assert theory.conditional_mutual_information(theory.with_deployment_texts(world, skewed, 3)) > 0.01
