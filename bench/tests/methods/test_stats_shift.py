"""Statistics adaptation beside its formula, feature by feature and text by text."""

import dataclasses
import math

import numpy as np
import pytest

from methods_toy import DEPLOYMENT, REVERSED, TRAIN, fit
from shortcut_bench.methods import StatsShift
from shortcut_bench.methods.heads import features, head_of
from shortcut_bench.methods.stats_shift import alignment
from shortcut_guardrail.errors import ConfigError, DataError


def moments(values):
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / len(values)


def aligned(value, source, target, prior, mean_only):
    """One feature of one text."""
    (m_s, v_s), (m_t, v_t), n = moments(source), moments(target), len(target)
    m, v = ((prior * s + n * t) / (prior + n) for s, t in ((m_s, m_t), (v_s, v_t)))
    return m_s + (value - m) * (1 if mean_only else math.sqrt((v_s + 1e-5) / (v + 1e-5)))


@pytest.mark.parametrize("mean_only", [False, True])
@pytest.mark.parametrize("prior", [0, 16])
def test_answers_are_the_heads_on_aligned_features(prior, mean_only, material):
    base = material.base.text_classifier()
    source, target, asked = (features(base, texts, "head-input") for texts in (TRAIN.texts, DEPLOYMENT, REVERSED.texts))
    weight, bias = head_of(base)
    expected = []
    for row in asked:
        changed = [aligned(row[h], source[:, h], target[:, h], prior, mean_only) for h in range(len(row))]
        powers = np.exp(weight @ np.array(changed) + bias)
        expected.append(powers / powers.sum())
    system = fit(StatsShift(prior=prior, mean_only=mean_only), material)
    assert system.predict_proba(REVERSED.texts) == pytest.approx(np.array(expected), abs=1e-5)
    assert system.forward_equivalents == len(TRAIN) + len(DEPLOYMENT)
    assert system.info()["target_share"] == len(DEPLOYMENT) / (len(DEPLOYMENT) + prior)


def test_without_a_prior_both_moments_are_the_sources_and_equal_sides_change_nothing():
    rng = np.random.default_rng(0)
    source, target = rng.normal(2, 3, size=(50, 4)), rng.normal(-1, 0.5, size=(20, 4))
    scale, shift = alignment(source, target, 0)
    assert (target * scale + shift).mean(axis=0) == pytest.approx(source.mean(axis=0))
    assert (target * scale + shift).var(axis=0) == pytest.approx(source.var(axis=0), rel=1e-3)
    constant = np.ones((3, 4))
    for same in (source, constant):
        scale, shift = alignment(same, same, 16)
        assert scale == pytest.approx(1)
        assert shift == pytest.approx(0)


def test_what_cannot_be_aligned_is_refused(material):
    with pytest.raises(ConfigError, match=r"prior must be at least 0, but is -1\."):
        StatsShift(prior=-1)
    with pytest.raises(DataError, match="'stats_shift' needs deployment texts, but there are none"):
        fit(StatsShift(), dataclasses.replace(material, deployment=[]))
