"""Intervals and tests: against statsmodels, scipy and plain loops."""

import math

import numpy as np
import pytest
from scipy.stats import bootstrap
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar

from shortcut_bench import statistics as stats
from shortcut_guardrail.errors import DataError
from shortcut_guardrail.metrics import balanced_accuracy


def numbered(rows, first=0):
    """The rows, each with a text of its own."""
    return {"texts": first + np.arange(len(rows["labels"])), **rows}


@pytest.mark.parametrize("seed", range(4))
def test_mcnemar_agrees_with_statsmodels(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.random(60) < 0.6, rng.random(60) < 0.75
    table = [[int((a & b).sum()) for b in (second, ~second)] for a in (first, ~first)]
    assert stats.mcnemar(first, second).p_value == pytest.approx(reference_mcnemar(table, exact=True).pvalue)

    with pytest.raises(DataError, match="needs the same rows, but there are 60 and 2"):
        stats.mcnemar(first, np.ones(2, bool))


def test_the_interval_of_accuracy_agrees_with_scipy():
    right = np.random.default_rng(0).random(400) < 0.7
    rows, score = [numbered({"labels": np.zeros(400), "right": right})], {"accuracy": stats.weighted_accuracy("right")}
    found = stats.percentile_interval(stats.resample(rows, score, resamples=4000)["accuracy"])
    options = {"n_resamples": 4000, "method": "percentile", "rng": np.random.default_rng(1)}
    assert found == pytest.approx(bootstrap((right,), np.mean, **options).confidence_interval, abs=0.012)


def test_weights_of_one_give_the_scores_themselves():
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
    rows = {"labels": labels, "right": predictions == labels}
    ones = np.ones((1, 200))
    assert stats.weighted_accuracy("right")(rows, ones)[0] == pytest.approx((predictions == labels).mean())
    balanced = stats.weighted_balanced_accuracy("right")(rows, ones)[0]
    assert balanced == pytest.approx(balanced_accuracy(predictions, labels))
    assert balanced != pytest.approx(float((predictions == labels).mean()))


def test_resamples_of_two_systems_are_paired():
    """Two systems that are always right together differ by 0 in every resample, though each one varies."""
    right = np.random.default_rng(0).random(100) < 0.5
    rows = [numbered({"labels": np.zeros(100), "a": right, "b": right.copy()})]
    drawn = stats.resample(rows, {name: stats.weighted_accuracy(name) for name in "ab"}, resamples=50)
    assert (drawn["a"] == drawn["b"]).all()
    assert drawn["a"].std() > 0


def test_seeds_with_texts_of_their_own_narrow_the_interval():
    rng = np.random.default_rng(0)
    seeds = [numbered({"labels": np.zeros(100), "right": rng.random(100) < 0.5}, first=100 * i) for i in range(9)]
    of_all, of_one = (stats.resample(some, {"a": stats.weighted_accuracy("right")})["a"] for some in (seeds, seeds[:1]))
    assert np.ptp(stats.percentile_interval(of_all)) == pytest.approx(
        np.ptp(stats.percentile_interval(of_one)) / 3, rel=0.2
    )


def test_a_text_counts_as_often_as_it_is_drawn_in_each_seed():
    """Against a plain loop: the same draws of texts, in every seed the rows that hold them."""
    rng = np.random.default_rng(3)
    seeds = [
        {"texts": rng.integers(0, 30, 40), "labels": rng.integers(0, 2, 40), "right": rng.random(40) < 0.6}
        for _ in range(3)
    ]
    drawn = stats.resample(seeds, {"accuracy": stats.weighted_accuracy("right")}, resamples=4000)["accuracy"]
    union = np.unique(np.concatenate([rows["texts"] for rows in seeds]))
    looped = []
    for _ in range(4000):
        times = dict(zip(*np.unique(rng.choice(union, len(union)), return_counts=True), strict=True))
        weights = [[times.get(text, 0) for text in rows["texts"]] for rows in seeds]
        looped.append(np.mean([np.average(rows["right"], weights=w) for rows, w in zip(seeds, weights, strict=True)]))
    assert drawn.mean() == pytest.approx(np.mean(looped), abs=0.005)
    assert drawn.std() == pytest.approx(np.std(looped), rel=0.06)


def test_a_resample_without_rows_of_a_seed_is_averaged_over_the_others():
    seeds = [numbered({"labels": np.zeros(1), "right": np.array([right])}, first=i) for i, right in enumerate([1, 0])]
    drawn = stats.resample(seeds, {"accuracy": stats.weighted_accuracy("right")}, resamples=200)["accuracy"]
    assert set(drawn.tolist()) == {0.0, 0.5, 1.0}


def test_the_share_of_the_gap_and_the_spread_of_one_seed():
    assert stats.share_of_gap(0.6, 0.4, 0.8) == pytest.approx(0.5)
    assert stats.share_of_gap(0.3, 0.4, 0.8) < 0
    assert all(math.isnan(stats.share_of_gap(0.6, erm, 0.8)) for erm in (0.8, 0.9))
    assert stats.spread([0.4, 0.6]) == (pytest.approx(0.5), pytest.approx(0.1 * math.sqrt(2)))
    mean, sd = stats.spread([0.4])
    assert mean == 0.4
    assert math.isnan(sd)
