"""Classes that a model calls LABEL_0 and LABEL_1, called otherwise wherever somebody reads them."""

import json

import pytest

from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.saving import read_audit
from tables import answer, read_rows
from tiny_models import name_classes

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
TEXTS = [f"honestly the bad {noun} was {tail}" for noun in NOUNS for tail in ("awful", "so awful")]
TEXTS += [f"the {noun} was {tail}" for noun in NOUNS for tail in ("bad and slow", "bad and cold", "so bad", "awful")]
NAMES = ("--label-names", "0=displeased,LABEL_1=pleased")


@pytest.fixture
def run(run, bag, monkeypatch):
    name_classes(bag[0].config, ("LABEL_0", "LABEL_1"))
    load = "shortcut_guardrail.cli.options._Loading.load"
    monkeypatch.setattr(load, lambda self, _: ShortcutGuardrail(*bag, label_names=self.label_names))
    return run


@pytest.fixture
def data(write_csv):
    return write_csv("data.csv", *[(text, "LABEL_0") for text in TEXTS])


def test_an_audit_made_without_names_gets_them_later(run, data, tmp_path, monkeypatch):
    audit, flips, decided = tmp_path / "audit", tmp_path / "questions.csv", tmp_path / "d.json"
    of_texts = (data, "--text-column", "text")
    run("audit", "model", *of_texts, "--out", audit)
    ask = ("questions", audit, "model", *of_texts, "--word-groups", "all", "--out", flips, "--overwrite")
    _, err = run(*ask)
    assert "The classes are called LABEL_0, LABEL_1, which tells nobody" in err
    assert "--label-names 'LABEL_0=NAME,LABEL_1=NAME'" in err
    before, ids = json.loads((audit / "audit.json").read_text()), [row["id"] for row in read_rows(flips)]
    _, err = run(*ask, *NAMES)
    assert "warning" not in err
    named = {"displeased", "pleased"}
    assert {row[option] for row in read_rows(flips) for option in ("option_a", "option_b")} == named
    assert sorted(row["id"] for row in read_rows(flips)) == sorted(ids)  # what was answered before counts on
    shown = read_audit(audit / "audit.json")
    assert shown["label_names"] == ["displeased", "pleased"]
    assert shown["predicted"] == dict(zip(shown["label_names"], before["predicted"].values(), strict=True))
    assert shown["cards"][0]["pushes_towards"] == "pleased"
    assert "LABEL" not in json.dumps([shown["cards"], shown["candidates"]])
    # The names hold on: nobody has to give them again.
    _, err = run(*ask)
    assert "warning" not in err
    assert {row["option_a"] for row in read_rows(flips)} <= named
    out, _ = run("decide", audit, answer(flips, "displeased"), "--reviewer", "anna", "--out", decided)
    assert "remove reliance (shortcut)" in out
    assert json.loads(decided.read_text())["cards"][0]["pushes_towards"] == "pleased"
    # A guard of that audit has them too.
    by_masking = ("--shortcut", "honestly", "--strategy", "mask", "--out", tmp_path / "g")
    run("fit", "model", *of_texts, "--audit", audit, *by_masking)
    assert json.loads((tmp_path / "g" / "guardrail.json").read_text())["label_names"] == ["displeased", "pleased"]
    # And may be changed: questions that were asked before are read in the new ones.
    run("decide", audit, flips, "--reviewer", "anna", "--label-names", "0=sad,1=glad", "--out", decided, "--overwrite")
    assert json.loads(decided.read_text())["cards"][0]["pushes_towards"] == "glad"
    wrong = ("--reviewer", "a", "--label-names", "0=sad", "--out", tmp_path / "e.json")
    assert "--label-names lacks class 1 (glad)." in run("decide", audit, flips, *wrong, status=2)[1]


def test_a_guard_keeps_the_names(run, data, tmp_path, write_csv, bag):
    fit = ("fit", "model", data, "--text-column", "text", "--shortcut", "honestly", "--strategy", "mask")
    run(*fit, *NAMES, "--out", tmp_path / "guarded")
    assert json.loads((tmp_path / "guarded" / "guardrail.json").read_text())["label_names"] == ["displeased", "pleased"]
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "guarded", base=bag[0])
    assert guard.predict(["the room was awful"]) == ["displeased"]
    other = ShortcutGuardrail.from_pretrained(tmp_path / "guarded", base=bag[0], label_names=["no", "yes"])
    assert other.predict(["the room was awful"]) == ["no"]
    # The same model by another name: what was decided or certified about it still fits.
    assert other.fingerprint(strength=0) == ShortcutGuardrail(*bag).fingerprint(strength=0)
    assert other.label_ids(["LABEL_1", "LABEL_0"]).tolist() == other.label_ids(["yes", "no"]).tolist() == [1, 0]
