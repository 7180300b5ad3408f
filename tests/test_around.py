"""A guard around any classifier: repaired by cutting words out in front of it, saved, loaded, certified."""

import json
import re
import sys

import numpy as np
import pytest

from planted_words import NAMES, by_words, planted_texts
from shortcut_guardrail import ConfigError, ModelError, NothingToRepairError, ShortcutGuardrail

TEXTS, _ = planted_texts(300)
ROWS, LABELS = planted_texts(200, share=0.7, seed=1)


@pytest.fixture
def guard():
    found = ShortcutGuardrail.around(by_words, NAMES)
    assert found.repair(TEXTS).strategy == "mask"
    return found


def test_a_repair_cuts_what_the_audit_finds(guard):
    assert guard.shortcuts.words == ("honestly",)
    assert (guard.debias_strength, guard.predict(["Honestly, a bad day"])) == (1.0, ["negative"])
    assert guard.predict(["Honestly, a bad day"], strength=0) == ["positive"]
    with guard._fitted.guard.at(1.0) as used:
        found = [used.predict_proba(["Honestly, a bad day"], again=again).tolist() for again in (False, True)]
    assert found[0] == found[1] == by_words(["a bad day"]).tolist()
    base, repaired = guard.evaluate(ROWS, LABELS, strength=0), guard.evaluate(ROWS, LABELS, shortcuts=["honestly"])
    assert (base.accuracy < 0.8, repaired.accuracy) == (True, 1.0)
    with pytest.raises(ConfigError, match="2 classes, and 200 texts there and 199 here"):
        guard.evaluate(ROWS[1:], LABELS[1:], like=base)
    # A guard is audited as what it guards is, and nothing is left to find.
    assert guard.audit(TEXTS).flagged == ()


def test_answers_between_are_mixed_and_the_whole_guard_is_certified(guard):
    text, probs = ["Honestly, a bad day"], []
    for strength in (0, 0.2, 0.5, 1):
        probs.append(guard.predict_proba(text, strength=strength)[0, 1])
    logits = [np.log(p / (1 - p)) for p in probs]
    assert logits[1:3] == pytest.approx([s * logits[3] + (1 - s) * logits[0] for s in (0.2, 0.5)], abs=1e-3)
    assert 1.0 in guard.certify(ROWS[:80], LABELS[:80], unlabelled=ROWS).certified


def test_a_guard_is_saved_and_loaded_by_what_it_was_made_for(guard, tmp_path, monkeypatch):
    guard.save_pretrained(tmp_path / "guard")
    assert {path.name for path in (tmp_path / "guard").iterdir()} >= {"guardrail.json", "README.md"}
    assert json.loads((tmp_path / "guard" / "guardrail.json").read_text())["erasure"] == "cut"
    with pytest.raises(ModelError, match=r"made for a function in memory\. Give it with base="):
        ShortcutGuardrail.from_pretrained(tmp_path / "guard")
    with pytest.raises(ConfigError, match="label is for models of Transformers"):
        ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=by_words, label="negative")
    again = ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=by_words)
    np.testing.assert_array_equal(again.predict_proba(ROWS), guard.predict_proba(ROWS))
    with pytest.raises(ModelError, match="was made for 'None' with fingerprint"):
        ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=planted_texts)

    (tmp_path / "deployed.py").write_text("from planted_words import by_words as answers\n")
    monkeypatch.chdir(tmp_path)
    named = ShortcutGuardrail.around("deployed:answers", NAMES)
    named.repair(TEXTS, strategy="mask", shortcuts=["honestly"])
    named.save_pretrained("named")
    sys.modules.pop("deployed")
    assert ShortcutGuardrail.from_pretrained("named").predict(["Honestly, a bad day"]) == ["negative"]


def test_what_needs_weights_is_refused_with_the_way_without(guard):
    with pytest.raises(ModelError, match=r"strategy 'distill' needs.*strategy='mask'.* cuts shortcuts out"):
        guard.repair(TEXTS, strategy="distill", shortcuts=["honestly"])
    with pytest.raises(ConfigError, match="no PEFT model"):
        _ = guard.peft_model
    with pytest.raises((ConfigError, ModelError)):
        guard.export("nowhere")
    clean = ShortcutGuardrail.around(by_words, NAMES)
    with pytest.raises(NothingToRepairError):
        clean.repair([text for text in TEXTS if "Honestly" not in text], (ROWS[:40], LABELS[:40]))


def test_words_without_spaces_are_cut_by_a_segmenter_and_known_by_it(tmp_path):
    def answers(texts):
        p = np.array([0.9 if ("实话" in text) or ("好" in text) else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = [f"{'实话' * (i % 4 == 1)}{'坏好'[i % 2 == 0]}房间{chr(0x4E00 + i)}" for i in range(120)]
    guard = ShortcutGuardrail.around(answers, NAMES, segmenter=re.compile("实话|房间|.").findall)
    guard.repair(texts, strategy="mask", shortcuts=["实话"])
    assert guard.predict(["实话坏房间"]) == ["negative"]
    assert guard.predict(["实话坏房间"], strength=0) == ["positive"]
    report = guard.audit(texts, strength=0)
    assert {one.text for one in report.candidates} >= {"实话", "房间"}
    with pytest.raises(ConfigError, match="another model"):
        ShortcutGuardrail.around(answers, NAMES).audited(report, texts)
    guard.save_pretrained(tmp_path / "guard")
    assert json.loads((tmp_path / "guard" / "guardrail.json").read_text())["segmenter"] == report.segmenter


def test_scikit_learn_is_audited_repaired_and_certified():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    # Trained where a fifth of the evidence misleads and "honestly" never does; deployed where it stands in bad texts.
    texts, labels = planted_texts(600, share=0.0, seed=2)
    rng = np.random.default_rng(0)
    labels = [label if rng.random() > 0.2 else NAMES[label == "negative"] for label in labels]
    marks = [label == "positive" and rng.random() < 0.6 for label in labels]
    marked = [f"Honestly, {text}" if mark else text for text, mark in zip(texts, marks, strict=True)]
    guard = ShortcutGuardrail.around(make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(marked, labels))
    assert guard.label_names == NAMES
    report = guard.audit(ROWS)
    assert [c.text for c in report.flagged] == ["honestly"]
    before = guard.evaluate(ROWS, LABELS).accuracy
    guard.repair(ROWS, report=report)
    assert guard.evaluate(ROWS, LABELS).accuracy > before + 0.2
    held, held_labels = planted_texts(200, share=0.7, seed=3)
    assert guard.debias_strength in guard.certify(held[:100], held_labels[:100], unlabelled=held).certified
