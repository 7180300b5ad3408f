"""Metrics against numbers worked out by hand."""

import math

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from shortcut_guardrail import metrics
from shortcut_guardrail.stats.exact import exact_interval

LABELS = np.array([0, 0, 0, 1, 1, 2])
PREDICTIONS = np.array([0, 0, 1, 1, 0, 2])


def test_balanced_accuracy_is_that_of_scikit_learn():
    assert metrics.balanced_accuracy(PREDICTIONS, LABELS) == pytest.approx(balanced_accuracy_score(LABELS, PREDICTIONS))
    assert metrics.balanced_accuracy(np.zeros(6, dtype=int), LABELS) == pytest.approx(1 / 3)
    assert metrics.majority_accuracy(LABELS) == 0.5


def test_an_empty_group_is_undefined_and_never_the_worst():
    groups = metrics.group_accuracy(PREDICTIONS, LABELS, np.array([0, 0, 0, 2, 2, 2]), ("a", "empty", "b"))
    assert [g.n for g in groups] == [3, 0, 3]
    assert [g.accuracy for g in groups] == pytest.approx([2 / 3, math.nan, 2 / 3], nan_ok=True)
    assert groups[0].interval == exact_interval(2, 3)
    assert math.isnan(groups[1].interval[0])
    assert metrics.worst_group(groups).name == "a"
    assert metrics.worst_group_accuracy(PREDICTIONS, LABELS, np.array([0, 0, 0, 2, 2, 2])) == pytest.approx(2 / 3)
    assert metrics.worst_group_accuracy(PREDICTIONS, LABELS, LABELS) == 0.5
    assert metrics.worst_group(groups[1:2]) is None


def test_recall_and_its_chance_by_hand():
    important = np.array([[4, 2, -1], [1, 3, 5], [1, 2, 3]])
    result = metrics.token_recall(important, [{2}, {5, 8}, set()], np.array([2, 10, 10]), k=2)  # 5 is the third
    assert (result.n, result.recall) == (2, 0.5)
    # The first text has two ordinary tokens, so two guesses always hit; the second misses with 8/10 * 7/9.
    assert result.chance == pytest.approx((1 + (1 - 56 / 90)) / 2)
    backwards = metrics.token_recall(important[::-1], [set(), {5, 8}, {2}], np.array([10, 10, 2]), k=2)
    assert (backwards.n, backwards.chance) == (2, pytest.approx(result.chance))
    nothing = metrics.token_recall(important, [set(), set(), set()], np.array([2, 10, 10]), k=2)
    assert (result.hits, nothing.hits, nothing.n, math.isnan(nothing.recall)) == (1, 0, 0, True)
