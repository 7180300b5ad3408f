"""Sorting examples into groups by label and presence of a shortcut."""

import numpy as np
import pytest

from shortcut_guardrail.errors import DataError
from shortcut_guardrail.evaluation.groups import by_label, by_shortcut


class TestGroups:
    def test_label_and_presence_in_the_order_of_the_paper(self) -> None:
        groups = by_shortcut([0, 0, 1, 1], [False, True, False, True], ["negative", "positive"])
        assert groups.ids.tolist() == [0, 1, 2, 3]
        assert groups.ids.dtype == np.int64
        assert groups.names == (
            "negative, without shortcut",
            "negative, with shortcut",
            "positive, without shortcut",
            "positive, with shortcut",
        )

    def test_empty_groups_keep_their_names(self) -> None:
        groups = by_shortcut(np.array([2], np.int32), np.array([True]), ["a", "b", "c"])
        assert (groups.ids.tolist(), len(groups.names)) == ([5], 6)

    def test_labels_alone(self) -> None:
        groups = by_label([1, 0, 1], ["negative", "positive"])
        assert (groups.ids.tolist(), groups.names) == ([1, 0, 1], ("negative", "positive"))

    def test_ids_are_no_view_of_the_labels(self) -> None:
        labels = np.array([0, 1])
        by_label(labels, ["a", "b"]).ids[0] = 1
        assert labels.tolist() == [0, 1]

    @pytest.mark.parametrize(
        ("labels", "present", "message"),
        [
            ([0, 2, -1], [True] * 3, "labels must lie in 0 to 1, but 2 do not; the first is 2, at position 1."),
            ([0, 1], [True], "present must have one entry for each of the 2 labels, but has 1."),
            ([0, 1], [0, 2], "present must be True or False for each text, but is of type int64."),
            ([0.0, 1.0], [True] * 2, "labels must be a list of class ids, but have shape (2,) and type float64."),
            ([[0, 1]], [[True] * 2], "labels must be a list of class ids, but have shape (1, 2) and type int64."),
        ],
    )
    def test_what_does_not_fit(self, labels: list[int], present: list[bool], message: str) -> None:
        with pytest.raises(DataError) as caught:
            by_shortcut(labels, present, ["a", "b"])
        assert str(caught.value) == message
