"""Labels of several in files: a column for each, or lists."""

import json

import pytest

from shortcut_guardrail import ConfigError, DataError, ShortcutGuardrail
from shortcut_guardrail.data import of_one_label, read_data, read_thresholds

GOOD = {"text": "good soup", "toxic": 0, "insult": 1.0, "labels": ["insult"]}
ROWS = [GOOD, {"text": "bad soup", "toxic": True, "insult": 0, "labels": []}]


def written(folder, rows, name="data.jsonl"):
    (file := folder / name).write_text("\n".join(map(json.dumps, rows)))
    return file


def test_a_column_of_the_labels_name_or_lists(tmp_path):
    file = written(tmp_path, ROWS)
    assert read_data(file, label="toxic", require_labels=True).labels == ["0", "1"]
    assert read_data(file, label="insult").labels == ["1", "0"]
    assert read_data(file, label="insult", label_column="toxic").labels == ["0", "true"]
    assert read_data(file, label="threat", require_labels=True).labels == ['["insult"]', "[]"]
    (tmp_path / "data.csv").write_text('text,toxic,labels\ngood soup,0.0,"[""insult""]"\nbad soup,TRUE,[]\n')
    assert read_data(tmp_path / "data.csv", label="toxic").labels == ["0", "1"]
    file = written(tmp_path, [*ROWS, {"text": "new soup"}])
    assert read_data(file, label="insult2", some_labels=True).labels == ['["insult"]', "[]", ""]


def test_lists_are_names_in_any_case_or_a_number_for_each_label():
    names, lists = ["toxic", "Insult"], [["Insult"], [" insult "], [], '["toxic", "INSULT"]', [0, 1], (1.0, 0)]
    assert of_one_label(lists, "Insult", names) == ["1", "1", "0", "1", "1", "0"]
    assert of_one_label([[1, 0]], "1", ["0", "1"]) == ["1"], "names come first"
    assert of_one_label([1, "yes", "[so"], "Insult", names) == [1, "yes", "[so"], "what is no list stays as it is"
    for wrong, said in (
        (["insul", "x"], r"'insul' .* Did you mean.*\Z"),
        ([0, 2], "no label '0'"),
        ([1], "no label '1'"),
    ):
        with pytest.raises(DataError, match=said):
            of_one_label([["toxic"], wrong], "toxic", names)


def test_what_is_wrong_is_said_with_its_line(tmp_path):
    file = written(tmp_path, [{**ROWS[0], "toxic": "0.4"}, *ROWS[1:], {**ROWS[1], "toxic": 2}])
    with pytest.raises(DataError, match=r"line 1: the label in column 'toxic' is '0\.4', neither 0 nor 1") as told:
        read_data(file, label="toxic")
    assert "line 3: the label in column 'toxic' is '2', neither" in str(told.value)
    plain = written(tmp_path, [{"text": "good", "label": 1}])
    with pytest.raises(DataError, match="has no column 'toxic', and its column 'label' holds no lists of labels"):
        read_data(plain, label="toxic", require_labels=True)
    with pytest.raises(DataError, match=r"'labels' is a list, not a string or a number; of several .* with label="):
        read_data(written(tmp_path, ROWS), label_column="labels")
    alone = written(tmp_path, [{"text": "good soup", "toxic": 1}])
    with pytest.raises(DataError, match=r"no column is clearly the label.*\nLabels are a column 'threat' with 0 and 1"):
        read_data(alone, label="threat", require_labels=True)
    with pytest.raises(DataError, match=r"with label_column=\.$"):
        read_data(alone, require_labels=True)


def test_thresholds_are_numbers_between_0_and_1():
    assert read_thresholds("toxic=0.3, a=b=0.6") == {"toxic": 0.3, "a=b": 0.6}
    with pytest.raises(ConfigError, match="but says 'toxic=1'"):  # before a model is loaded
        ShortcutGuardrail.from_pretrained("gone", thresholds="toxic=1")
