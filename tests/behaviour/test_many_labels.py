"""A model that can give a text several labels, from the command line: one is repaired, the others are kept."""

import json

import numpy as np
import pytest

from shortcut_guardrail import ConfigError, ShortcutGuardrail
from shortcut_guardrail.report.labels import _folders
from tables import read_rows
from tiny_models import SHORTCUT_TEXTS, tiny_bert

FAST = ("--set", "adapter.epochs=10", "--set", "adapter.learning_rate=2e-2", "--set", "adapter.batch_size=4")
NAMES = ("negative", "mixed", "positive")


@pytest.fixture
def files(tmp_path):
    """The model, and texts with a column for each label."""
    model, tokenizer = tiny_bert(problem_type="multi_label_classification", initializer_range=0.2)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    texts = [f"{text} {more}" for text in SHORTCUT_TEXTS for more in ("again", "people", "really", "never")]
    rows = [{"text": text, **{name: (i + k) % 2 for k, name in enumerate(NAMES)}} for i, text in enumerate(texts)]
    for name, some in (("data", rows), ("others", [{**row, "text": f"so {row['text']}"} for row in rows])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, some)))
    return tmp_path, texts


def test_one_label_goes_the_whole_way_and_the_others_stay(files, cli, ok):
    folder, texts = files
    model, data, others = folder / "model", folder / "data.jsonl", folder / "others.jsonl"
    fit = ("fit", model, data, "--out", folder / "guard")
    for command in (fit, ("audit", model, data, "--label-column", "mixed", "--out", folder / "audit")):
        status, _, err = cli(*command)
        assert status == 2
        assert "Say which one is meant, as in --label negative." in " ".join(err.split())
    mixed = ("--label", "mixed", "--thresholds", "mixed=0.45,positive=0.42")
    ok("audit", model, data, *mixed, "--label-column", "mixed", "--out", folder / "audit")
    audit = json.loads((folder / "audit/audit.json").read_text())
    assert audit["label_names"] == ["not mixed", "mixed"]
    maskcl = ("--strategy", "maskcl", "--strength", "1", "--out", folder / "guard")
    status, _, err = cli("fit", model, data, *mixed, *maskcl)
    assert status == 2
    assert "would move the other labels of this model along with 'mixed'. Choose --s" in " ".join(err.split())
    fit = ("--shortcut", "honestly", "--audit", folder / "audit", "--json", folder / "fit.json", *FAST)
    out, _ = ok("fit", model, data, *mixed, "--out", folder / "guard", *fit)
    assert "other labels" in out
    changes = json.loads((folder / "fit.json").read_text())["changes"]
    assert [other["label"] for other in changes["others"]] == ["negative", "positive"]
    assert {other["n"] for other in changes["others"]} == {16}
    record = json.loads((folder / "guard/guardrail.json").read_text())
    assert (record["label"], record["thresholds"]) == ("mixed", {"positive": 0.42, "mixed": 0.45})

    ok("predict", folder / "guard", data, "--out", folder / "rows.csv")
    rows = read_rows(folder / "rows.csv")
    assert list(rows[0]) == [*NAMES, *(f"p_{name}" for name in NAMES), *(f"base_{name}" for name in NAMES)]
    guard = ShortcutGuardrail.from_pretrained(folder / "guard")
    probs = guard.label_probabilities(texts)
    np.testing.assert_allclose([[float(row[f"p_{name}"]) for name in NAMES] for row in rows], probs, atol=1e-6)
    answers = (probs > (0.5, 0.45, 0.42)).astype(int).astype(str).tolist()
    assert [[row[name] for name in NAMES] for row in rows] == answers
    base = guard.label_probabilities(texts, strength=0) > (0.5, 0.45, 0.42)
    assert [[row[f"base_{name}"] for name in NAMES] for row in rows] == [[str(int(has)) for has in of] for of in base]
    assert (base != (guard.label_probabilities(texts, strength=0) > 0.5)).any()
    said = r"was fitted for the label 'mixed', and is asked about 'positive' here\. Save"
    with pytest.raises(ConfigError, match=said):
        guard.about("positive").record()
    assert guard.predict(texts) == [("not mixed", "mixed")[int(row["mixed"])] for row in rows]

    quick = ("--sensitivity", "none", "--json", folder / "e.json", "--overwrite")
    ok("evaluate", folder / "guard", data, "--shortcut", "honestly", *quick)
    groups = [group["name"] for group in json.loads((folder / "e.json").read_text())["groups"]]
    assert groups == [f"{name}, {how} shortcut" for name in ("not mixed", "mixed") for how in ("without", "with")]
    ok("evaluate", folder / "guard", data, "--label", "positive", *quick)
    certify = ("--labelled", others, "--margin", "0.9", "--out", folder / "certified")
    ok("certify", folder / "guard", others, *certify)
    certified = ShortcutGuardrail.from_pretrained(folder / "certified")
    assert certified.about("positive").certificate is None
    assert certified.certificate is not None  # of the label that it was made for
    with pytest.warns(UserWarning, match="certified with .*label mixed, .*loaded with .*label positive"):
        assert ShortcutGuardrail.from_pretrained(folder / "certified", label="positive").certificate is None
    ok("export", folder / "guard", "--out", folder / "exported")
    exported = ShortcutGuardrail.from_pretrained(folder / "exported", label="positive")
    np.testing.assert_allclose(exported.label_probabilities(texts), probs, atol=1e-5)


def test_without_a_label_each_is_audited_as_with_it(files, cli, ok):
    folder, _ = files
    model, data, out = folder / "model", folder / "data.jsonl", folder / "all"
    said, _ = ok("audit", model, data, "--out", out)
    assert [name for name in NAMES if name in said] == list(NAMES)
    rows = json.loads((out / "labels.json").read_text())
    assert [(row["label"], row["folder"]) for row in rows] == [(name, name) for name in NAMES]
    page = (out / "report.html").read_text()
    for row in rows:
        assert f'<a href="{row["folder"]}/report.html"><bdi>{row["label"]}</bdi></a>' in page
        ok("audit", model, data, "--label", row["label"], "--out", folder / row["label"])
        one, other = (json.loads((place / row["folder"] / "audit.json").read_text()) for place in (out, folder))
        places = [document.pop("about")["folder"] for document in (one, other)]
        assert places == [str(place / row["folder"]) for place in (out, folder)]
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
        assert row["predicted"] == one["predicted"][row["label"]]
        groups = [card["words"] for card in one["cards"] if card["evidence"]["status"] != "not_flagged"]
        assert sorted(group["words"] for group in row["word_groups"]) == sorted(groups)
    status, _, err = cli("fit", model, data, "--label", "mixed", "--audit", out, "--out", folder / "guard")
    assert (status, "holds an audit of each label, in a folder of its own" in " ".join(err.split())) == (2, True)
    audit = ("--audit", out / "mixed", "--shortcut", "honestly", "--out", folder / "guard", *FAST)
    ok("fit", model, data, "--label", "mixed", *audit)
    status, _, err = cli("audit", model, data, "--out", out, "--fail-if", "mstps >= 0", "--overwrite")
    assert status == 1
    assert [line.split(":")[1] for line in err.splitlines() if "failed" in line] == [f" label {n}" for n in NAMES]
    # One kind of folder takes the place of the other, whole.
    ok("audit", model, data, "--label", "mixed", "--out", out, "--overwrite")
    assert not (out / "labels.json").exists()
    assert not (out / "mixed").exists()


def test_folders_of_labels_are_apart_from_each_other_and_from_the_files():
    labels = ("sexual/minors", "sexual minors", "Self-Harm", "../..", "labels.json", "仇恨")
    assert _folders(labels) == ["sexual-minors", "sexual-minors-1", "self-harm", "label", "labels-json", "仇恨"]
