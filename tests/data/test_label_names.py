"""Names for classes: every way to give them, and a sentence for each way that fails."""

import pytest

from shortcut_guardrail.data import class_names, label_ids, warn_without_names
from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning

OWN = ("LABEL_0", "LABEL_1", "LABEL_2")


def test_names_by_id_by_own_name_in_order_and_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.json").write_text('{"2": "fear", "LABEL_0": "joy", "1": "anger"}')
    (tmp_path / "n.toml").write_text('0 = "joy"\nLABEL_1 = "anger"\n2 = "fear"\n')
    (tmp_path / "n.csv").write_text("class,name\n1,anger\n0,joy\nLABEL_2,fear\n")
    by_id = {0: "joy", 1: "anger", 2: "fear"}
    for given in (by_id, ["joy", "anger", "fear"], "2=fear, LABEL_0=joy,1= anger", "n.json", "n.toml", "n.csv"):
        assert class_names(given, OWN) == ("joy", "anger", "fear")
    # A name of the model's own comes before a class id, as for labels.
    assert class_names("1=one,2=two", ("1", "2")) == ("one", "two")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({0: "joy", 1: "anger", 2: None}, "must give class '2' a name"),
        *[(name, f"{name} is no mapping: it needs two columns") for name in ("wide.csv", "ragged.csv")],
    ],
)
def test_what_is_wrong_with_names_is_said(given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.json").write_text('["joy", "anger", "fear"]')
    (tmp_path / "broken.toml").write_text("0: joy")
    (tmp_path / "wide.csv").write_text("class,name,more\n0,joy,a\n")
    (tmp_path / "ragged.csv").write_text("class,name\n0,joy\n1,anger\n2\n2,fear\n")
    with pytest.raises(ConfigError, match=said) as refused:
        class_names(given, OWN)
    assert "Name each class once, as in label_names='0=joy,1=anger'" in str(refused.value)
    for name, wrong in (
        ("gone.json", r"gone\.json cannot be read: there is no such file"),
        ("list.json", r"list\.json must hold a table of names, such as"),
        *[("broken.toml", r"broken\.toml is no TOML: .*line 1"), ("gone.csv", r"There is no file gone\.csv")],
    ):
        with pytest.raises(DataError, match=wrong):
            class_names(name, OWN)


def test_labels_in_files_have_either_name():
    names = ("good", "bad")
    assert label_ids(["bad", "Good"], names, own_names=("LABEL_0", "LABEL_1")) == [1, 0]
    assert label_ids(["LABEL_1", "label_0"], names, own_names=("LABEL_0", "LABEL_1")) == [1, 0]
    assert label_ids(["bad"], names, own_names=("bad", "good")) == [1]  # the new name is what is meant
    # The model's own names may be numbers. Labels that are all among them are no class ids.
    stars, own = ("awful", "bad", "so so", "good"), ("1", "2", "3", "4")
    for written, ids in ((["1", "3"], [0, 2]), ([4, 1.0], [3, 0]), (["0", "3"], [0, 3]), (["GOOD", "bad"], [3, 1])):
        assert label_ids(written, stars, own_names=own) == ids
    assert label_ids(["1", "3"], ("4", "3", "2", "1"), own_names=own) == [3, 1]
    with pytest.raises(DataError, match="it has: good, bad"):
        label_ids(["LABEL_1", "bad"], names)


@pytest.mark.parametrize("names", [OWN, ("label 1", "class_2"), "0123", "01234"])
def test_names_are_asked_for_where_they_are_numbers(names, recwarn):
    said = ",".join(f"{name}=NAME" for name in names[:4]) + r",\.\.\." * (len(names) > 4)
    with pytest.warns(GuardrailWarning, match=rf"tells nobody .* label_names='{said}', or a JSON"):
        warn_without_names(names)
    recwarn.clear()
    warn_without_names(("0", "positive"))
    assert not recwarn
