"""Sorting examples into groups by label and presence of a shortcut."""

from __future__ import annotations

import numpy as np

from shortcut_guardrail.evaluation.groups import by_label, by_shortcut


def test_label_and_presence_in_the_order_of_the_paper():
    groups = by_shortcut([0, 0, 1, 1], [False, True, False, True], ["negative", "positive"])
    assert groups.ids.tolist() == [0, 1, 2, 3]
    assert groups.ids.dtype == np.int64
    assert groups.names == (
        "negative, without shortcut",
        "negative, with shortcut",
        "positive, without shortcut",
        "positive, with shortcut",
    )
    # A group without examples keeps its name.
    some = by_shortcut(np.array([2], np.int32), np.array([True]), ["a", "b", "c"])
    assert (some.ids.tolist(), len(some.names)) == ([5], 6)


def test_labels_alone():
    labels = np.array([1, 0, 1])
    groups = by_label(labels, ["negative", "positive"])
    assert (groups.ids.tolist(), groups.names) == ([1, 0, 1], ("negative", "positive"))
    groups.ids[0] = 0
    assert labels.tolist() == [1, 0, 1]  # no view of them
