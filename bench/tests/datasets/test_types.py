"""What a data set is: counts, selections, fingerprints, and what is refused."""

import json

import numpy as np

from shortcut_bench.datasets import HIDDEN_GROUP, BenchmarkData, DataCard, LabelledTexts, OverlappingGroups


def make(**changes):
    values = {
        "name": "train",
        "texts": ["one", "two", "three"],
        "labels": np.array([0, 1, 1]),
        "label_names": ("negative", "positive"),
        "groups": np.array([0, 3, 3]),
        "group_names": ("negative, without x", "negative, with x", "positive, without x", "positive, with x"),
    }
    return LabelledTexts(**{**values, **changes})


def test_a_selection_keeps_rows_together_and_hidden_groups_are_not_told():
    members = np.array([[True], [False], [True]])
    rows = make(overlapping=OverlappingGroups(members, ("some",))).select([2, 0])
    assert (rows.texts, rows.labels.tolist(), rows.groups.tolist()) == (["three", "one"], [1, 0], [3, 0])
    assert rows.overlapping.members.tolist() == [[True], [True]]
    assert rows.overlapping.counts() == {"some": 2}
    hidden = make(overlapping=OverlappingGroups(np.ones((3, 1), dtype=bool), ("some",))).without_groups()
    assert hidden.groups.tolist() == [HIDDEN_GROUP] * 3
    assert hidden.overlapping is None
    assert set(hidden.counts().values()) == {0}
    assert hidden.labels.tolist() == [0, 1, 1]


def test_the_fingerprint_follows_texts_labels_and_order_but_not_groups():
    rows = make()
    assert rows.fingerprint() == make(name="other").without_groups().fingerprint()
    assert len(rows.fingerprint()) == 64
    others = [{"texts": ["one", "two", "three."]}, {"texts": [("one", ""), ("two", ""), ("three", "")]}]
    others += [{"labels": np.array([0, 1, 0])}, {"label_names": ("no", "yes")}]
    prints = {one.fingerprint() for one in (rows, rows.select([1, 0, 2]), *(make(**changes) for changes in others))}
    assert len(prints) == 6


def test_what_a_result_says_about_its_data_is_json_and_holds_no_text():
    card = DataCard("A set", "Texts.", "made up", "none", "nobody", ("A note.",))
    train = make(texts=["secret a", "secret b", "secret c"])
    data = BenchmarkData("a-set", train, train, {"test": train}, {"test": train}, train, ("x",), card, {"seed": 0})
    shown = json.dumps(data.to_dict())
    assert "secret" not in shown
    assert data.to_dict()["counts"].keys() == {"train", "dev", "test", "test, oracle", "clean_train"}
    assert data.to_dict()["card"]["notes"] == ["A note."]
    assert data.label_names == ("negative", "positive")
