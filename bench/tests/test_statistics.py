"""Intervals and tests: against statsmodels, scipy and plain loops."""

import math

import numpy as np
import pytest
from scipy.stats import bootstrap
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar

from checkout import ROOT
from shortcut_bench.results import read_index, read_result
from shortcut_bench.statistics import (
    mcnemar,
    percentile_interval,
    resample,
    share_of_gap,
    spread,
    weighted_accuracy,
    weighted_balanced_accuracy,
)
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
    assert mcnemar(first, second).p_value == pytest.approx(reference_mcnemar(table, exact=True).pvalue)


def test_a_paired_test_needs_the_same_rows():
    with pytest.raises(DataError, match="needs the same rows, but there are 3 and 2"):
        mcnemar(np.ones(3, bool), np.ones(2, bool))


def test_the_interval_of_accuracy_agrees_with_scipy():
    right = np.random.default_rng(0).random(400) < 0.7
    drawn = resample(
        [numbered({"labels": np.zeros(400), "right": right})], {"accuracy": weighted_accuracy("right")}, resamples=4000
    )["accuracy"]
    low, high = percentile_interval(drawn)
    reference = bootstrap(
        (right,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert low == pytest.approx(reference.low, abs=0.012)
    assert high == pytest.approx(reference.high, abs=0.012)


def test_weights_of_one_give_the_scores_themselves():
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
    rows = {"labels": labels, "right": predictions == labels}
    ones = np.ones((1, 200))
    assert weighted_accuracy("right")(rows, ones)[0] == pytest.approx((predictions == labels).mean())
    balanced = weighted_balanced_accuracy("right")(rows, ones)[0]
    assert balanced == pytest.approx(balanced_accuracy(predictions, labels))
    assert balanced != pytest.approx(float((predictions == labels).mean()))


def test_resamples_of_two_systems_are_paired():
    """Two systems that are always right together differ by 0 in every resample, though each one varies."""
    right = np.random.default_rng(0).random(100) < 0.5
    drawn = resample(
        [numbered({"labels": np.zeros(100), "a": right, "b": right.copy()})],
        {name: weighted_accuracy(name) for name in "ab"},
        resamples=50,
    )
    assert (drawn["a"] == drawn["b"]).all()
    assert drawn["a"].std() > 0


def width(seeds):
    low, high = percentile_interval(resample(seeds, {"accuracy": weighted_accuracy("right")})["accuracy"])
    return high - low


def test_seeds_with_texts_of_their_own_narrow_the_interval():
    rng = np.random.default_rng(0)
    rights = [rng.random(100) < 0.5 for _ in range(9)]
    apart = [numbered({"labels": np.zeros(100), "right": right}, first=100 * i) for i, right in enumerate(rights)]
    assert width(apart) == pytest.approx(width(apart[:1]) / 3, rel=0.2)


def test_a_text_counts_as_often_as_it_is_drawn_in_each_seed():
    """Against a plain loop: the same draws of texts, in every seed the rows that hold them."""
    rng = np.random.default_rng(3)
    seeds = [
        {"texts": rng.integers(0, 30, 40), "labels": rng.integers(0, 2, 40), "right": rng.random(40) < 0.6}
        for _ in range(3)
    ]
    drawn = resample(seeds, {"accuracy": weighted_accuracy("right")}, resamples=4000)["accuracy"]
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
    drawn = resample(seeds, {"accuracy": weighted_accuracy("right")}, resamples=200)["accuracy"]
    assert set(drawn.tolist()) == {0.0, 0.5, 1.0}


def test_the_share_of_the_gap():
    assert share_of_gap(0.6, 0.4, 0.8) == pytest.approx(0.5)
    assert share_of_gap(0.3, 0.4, 0.8) < 0
    assert math.isnan(share_of_gap(0.6, 0.8, 0.8))
    assert math.isnan(share_of_gap(0.6, 0.9, 0.8))


def test_the_spread_of_one_seed_is_unknown():
    assert spread([0.4, 0.6]) == (pytest.approx(0.5), pytest.approx(0.1 * math.sqrt(2)))
    mean, sd = spread([0.4])
    assert mean == 0.4
    assert math.isnan(sd)


# Intervals of the committed tables, recomputed from the stored answers in a few lines.


def base_rows(experiment, setting):
    """Of each seed, by text, which of its rows the base classifier answers rightly."""
    seeds = []
    for entry in read_index(ROOT / "results", experiment):
        if (entry.setting, entry.system) == (setting, "erm"):
            rows = read_result(ROOT / "results", entry.run)["rows"]
            by_text = {}
            for text, label, answer in zip(rows["texts"], rows["labels"], rows["predictions"], strict=True):
                by_text.setdefault(text, []).append(label == answer)
            seeds.append(by_text)
    assert len(seeds) == 3
    return seeds


def test_a_published_interval_draws_texts_once_for_all_seeds():
    """Right answers and rows of each text, as matrices, so that a resample is a product with how often texts come."""
    seeds, rng = base_rows("leaderboard", "GoEmo-ST"), np.random.default_rng(1)
    union = sorted(set().union(*seeds))
    right, rows = (np.array([[of(s.get(text, [])) for s in seeds] for text in union], float) for of in (sum, len))

    def times(held):
        return rng.multinomial(held.sum(), held / held.sum(), size=1500).astype(float)

    of_all = times(np.ones(len(union)))
    together = (of_all @ right / (of_all @ rows)).mean(axis=1)
    published = (0.188, 0.250)
    assert np.quantile(together, [0.025, 0.975]).tolist() == pytest.approx(published, abs=0.004)
    # The old way, which drew them for each seed apart, gives another interval.
    alone = [times(rows[:, i] > 0) for i in range(3)]
    apart = np.mean([(drawn @ right[:, i]) / (drawn @ rows[:, i]) for i, drawn in enumerate(alone)], axis=0)
    assert np.quantile(apart, [0.025, 0.975]).tolist() != pytest.approx(published, abs=0.004)
    table = (ROOT / "results/leaderboard/leaderboard.md").read_text(encoding="utf-8")
    row = next(line for line in table.splitlines() if line.startswith("| GoEmo-ST | erm |"))
    assert f"[{published[0]:.3f}, {published[1]:.3f}]" in row
