"""The strength without labels: divergence from the answers without the shortcuts."""

import itertools

import numpy as np
import pytest

from shortcut_guardrail.errors import RunError
from shortcut_guardrail.strength.unsupervised import LEAST_BEARING, Counterfactual, choose_without_labels, draw


def test_a_sample_has_texts_with_a_shortcut_where_there_are_any():
    for n_bearing, at_most, seed in itertools.product([0, 1, 15, 16, 300, 990], [1, 2, 3, 40, 256], range(20)):
        bearing = np.zeros(1000, dtype=bool)
        bearing[np.random.default_rng(n_bearing).permutation(1000)[:n_bearing]] = True
        rows, weights = draw(bearing, at_most, seed=seed)
        assert (rows.tolist(), len(rows)) == (sorted(set(rows.tolist())), at_most)
        assert bearing[rows].sum() >= min(LEAST_BEARING, n_bearing, at_most // 2)
        assert (weights.sum(), draw(bearing, at_most, seed=seed)[0].tolist()) == (pytest.approx(1), rows.tolist())


def test_a_weighted_sample_estimates_the_mean_over_all_texts():
    rng = np.random.default_rng(0)
    bearing = np.arange(2000) % 100 == 0  # 20, of which a sample of 256 has two or three
    values = np.where(bearing, 50 + rng.normal(size=2000), rng.normal(size=2000))
    samples = [draw(bearing, 256, seed=seed) for seed in range(200)]
    assert all(bearing[rows].sum() == 20 for rows, _ in samples)
    means = np.array([values[rows] @ weights for rows, weights in samples])
    assert means.mean() == pytest.approx(values.mean(), abs=0.02)
    plain = [values[np.random.default_rng(seed).choice(2000, 256, replace=False)].mean() for seed in range(200)]
    assert means.std() < np.std(plain) / 3


def test_a_class_of_no_probability_diverges_finitely_and_logits_that_are_no_numbers_are_refused():
    sure = np.array([[2000.0, 0.0]], dtype=np.float32)
    expected = Counterfactual(sure[:, ::-1], np.array([True]))
    chosen = choose_without_labels(np.stack([sure, sure / 2]), [0.0, 1.0], expected)
    assert ([point.divergence for point in chosen.curve], chosen.strength) == ([2000.0, 1000.0], 1.0)
    with pytest.raises(RunError, match="Some logits are not finite"):
        choose_without_labels(np.full((1, 1, 2), np.nan, dtype=np.float32), [0.0], expected)
