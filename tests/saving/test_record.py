"""A guarded folder's record is checked before it is believed, and its model card says what a reader needs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from audits import CALIBRATION
from shortcut_guardrail import ModelError, Shortcut, preset
from shortcut_guardrail.data.fingerprints import text_hash
from shortcut_guardrail.mitigation.training import AdapterTraining
from shortcut_guardrail.saving.adapter import label_of
from shortcut_guardrail.saving.model_card import model_card, what_labels_said
from shortcut_guardrail.saving.record import GuardrailRecord, is_guarded_folder, read_record
from shortcut_guardrail.strength.calibration import Calibration, CurvePoint
from shortcut_guardrail.strength.certificate import Certificate, CertifiedStrength
from shortcut_guardrail.strength.unsupervised import AgreementPoint, UnlabelledCalibration


def test_a_hash_recognises_a_text_and_tells_a_pair_from_its_halves():
    assert text_hash("a b") == text_hash(" a  b\n")  # a row that was spaced anew is no fresh one
    assert (text_hash(("a b", "c")), len(text_hash("a b"))) == (text_hash(("a b ", "c")), 32)
    assert len({text_hash(text) for text in ("a b", "ab", ("a", "b"), ("b", "a"), '["a", "b"]')}) == 5


POINT = CurvePoint(0.3, score=0.75, accuracy=0.75, interval=(0.2, 0.99), gained=1, lost=0, p_value=1.0)
READ = {"label_names": ("bad", "good"), "head": "softmax", "max_length": 32, "precision": "float32"}
USED = {"debias_strength": 0.3, "strength_source": "calibrated"}
USED |= {"calibration": Calibration(0.3, 4, "accuracy", (POINT,))}
MADE = {"strategy": "maskcl", "plain_peft_equivalent": True, "config": preset("paper"), "support_hashes": ("ab",)}
MADE |= {"seed": 0, "seconds": {"adapt": 1.0}, "versions": {"shortcut-guardrail": "0.1.0"}}
BASE = {"name": "owner/model", "revision": None, "fingerprint": "f" * 64}
TRAINED = AdapterTraining(9, n_trained=8, n_steps=2, n_trainable=64, target_modules=("query", "value"))
RECORD = GuardrailRecord(**READ, **USED, **MADE, base_model=BASE, training=TRAINED)

AT = CertifiedStrength(0.5, 3, 2, 1, 0, loss_bound=0.1, certified=False, labels_needed=9, unlabelled_needed=None)
CERTIFICATE = Certificate(0.02, 0.95, "net", "tests", 90, 0, 1, (AT,))


def written(folder: Path, **changes) -> Path:
    values = RECORD.to_dict() | changes
    kept = {name: value for name, value in values.items() if value is not None or name not in changes}
    (folder / "guardrail.json").write_text(json.dumps(kept))
    return folder


def test_a_record_survives_its_file(tmp_path):
    assert not is_guarded_folder(tmp_path)
    restored = read_record(written(tmp_path))
    assert json.dumps(restored.to_dict()) == json.dumps(RECORD.to_dict())
    assert restored.label_names == RECORD.label_names
    assert is_guarded_folder(tmp_path)
    assert (label_of(written(tmp_path, label="mixed")), label_of(tmp_path / "none")) == ("mixed", None)
    # What has a default may be left out.
    names = ("shortcuts", "shortcut_rows", "certificate", "unlabelled_calibration")
    restored = read_record(written(tmp_path, **dict.fromkeys(names)))
    assert (restored.shortcuts, restored.words, restored.certificate) == ((), (), None)


def test_a_newer_schema_is_refused(tmp_path):
    with pytest.raises(ModelError) as error:
        read_record(written(tmp_path, schema_version=2))
    assert str(error.value) == (
        f"'{tmp_path / 'guardrail.json'}' has schema version 2, but this version of Shortcut Guardrail reads 1. "
        "Use the version that wrote it: {'shortcut-guardrail': '0.1.0'}."
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema_version": None}, "schema_version must be 1, but is null."),
        ({"schema_version": True}, "schema_version must be 1, but is true."),
        *[({"label_names": None}, "label_names is missing."), ({"seed": None}, "seed is missing.")],
        ({"extra": 1}, "extra is no field that is known."),
        ({"base_model": {"name": "a"}}, "base_model.revision is missing."),
        ({"debias_strength": 3}, "debias_strength must be a number from 0 to 1, but is 3."),
        ({"config": {"adapter": {"rank": "four"}}}, "config.adapter.rank must be a whole number from 1 to 256"),
        ({"config": {"adapter": {"rnk": 4}}}, "config.adapter.rnk is no field that is known. Did you mean 'rank'?"),
        ({"shortcuts": [{"text": "honestly"}]}, "shortcuts[0].verdict is missing."),
        ({"certificate": {"margin": 0.02}}, "certificate.confidence is missing."),
        ({"calibration": {**RECORD.calibration.to_dict(), "n": "x"}}, "calibration.n must be a whole number"),
        ({"certificate": {**CERTIFICATE.to_dict(), "points": []}}, "certificate.points must be a list that is"),
        ({"certificate": {**CERTIFICATE.to_dict(), "certified": [0, 0.5]}}, "certificate.certified does not follow"),
        ({"certificate": {**CERTIFICATE.to_dict(), "sentence": ["x"]}}, "certificate.sentence does not follow"),
    ],
)
def test_a_damaged_record_says_what_is_wrong(tmp_path, changes, reason):
    with pytest.raises(ModelError) as error:
        read_record(written(tmp_path, **changes))
    assert "guardrail.json" in str(error.value)
    assert reason in str(error.value)
    assert str(error.value).endswith("un fit again.")


def test_half_a_record_is_damaged(tmp_path):
    for content in (json.dumps(RECORD.to_dict())[:100], "[1]"):
        (tmp_path / "guardrail.json").write_text(content)
        with pytest.raises(ModelError, match=r"guardrail.json.* [Rr]un fit again"):
            read_record(tmp_path)


def test_the_model_card_states_what_a_reader_needs():
    card = model_card(RECORD)
    for part in ("owner/model", "f" * 64, "`bad`, `good`", "9 given, 8 used for training"):
        assert part in card
    assert "0.3 (calibrated)" in card
    assert "| 0.3 | 0.750" in card
    assert "was not checked with labels" not in card
    unchecked = replace(RECORD, calibration=None, strength_source="fixed")
    assert "The strength was not checked with labels" in model_card(unchecked)


def test_the_model_card_says_what_is_neutralised_and_certified():
    unlabelled = UnlabelledCalibration(0.5, 9, 3, (AgreementPoint(0.5, divergence=0.125, agreement=0.75),))
    certificate = CERTIFICATE
    shortcuts = Shortcut("to be | honest`", "named"), Shortcut("happy", "cleared")
    values = {"unlabelled_calibration": unlabelled, "certificate": certificate, "shortcuts": shortcuts}
    values |= {"strategy": "mask", "plain_peft_equivalent": False, "training": AdapterTraining(9), "calibration": None}
    mask = replace(RECORD, **values)
    card = model_card(mask)
    for part in (
        "| Shortcut words | `to be / honest'` |",
        "| Texts without them | keep the original model's prediction |",
        f"## Certificate\n\n{certificate.sentence}\n\nMethod: tests.\n\n{certificate.assumptions}\n\n| strength",
        "| strength | changed predictions in 90 unlabelled texts | in 0 labelled texts |",
        "| 0.5 | 3 | 2 | 1 | 0 | 0.100 | - |  |",
        "## Strength chosen without labels on 9 texts: 0.5",
        *["| 0.5 | 0.12500 | 0.750 |", "was not measured", "PEFT and Transformers alone cannot serve this repair"],
    ):
        assert part in card
    labelled = replace(mask, certificate=replace(certificate, n_labels=40), unlabelled_calibration=None)
    assert "No labelled rows" not in model_card(labelled)  # 40 were used, for the certificate
    assert "peft" not in card.split("---")[1]  # nothing for PEFT to load
    assert "library_name: peft" in model_card(RECORD)
    assert "Steps" not in card
    assert "happy" not in card
    assert "Certificate" not in model_card(RECORD)


FEW = "Strength 0.3 predicts more of the labelled ones rightly, but the difference is too small to overrule it"
FEW += " (p = 0.5)."
MORE = "which the labels overrule: strength 0.3, or the original model, predicts more of them rightly (p = 0.01)."


@pytest.mark.parametrize(
    ("strength", "before", "p_value", "said"),
    [
        (1.0, 1.0, 0.5, f"Unlabelled texts chose it. {FEW}"),
        (0.3, 1.0, 0.01, f"Unlabelled texts chose 1, {MORE}"),
        (0.3, 0.3, 1.0, "Unlabelled texts chose it, and no strength predicts more of the labelled ones rightly."),
        (0.3, None, None, ""),
    ],
)
def test_what_labels_said_of_the_strength_that_unlabelled_texts_chose(strength, before, p_value, said):
    found = replace(CALIBRATION, strength=strength, without_labels=before, p_value=p_value)
    assert what_labels_said(found) == said
    both = (*CALIBRATION.curve[:2], replace(CALIBRATION.curve[1], strength=1.0))  # of which either is the best
    found = replace(found, curve=both, strength=1.0, without_labels=1.0, p_value=1.0)
    assert what_labels_said(found).endswith("no strength predicts more of the labelled ones rightly.")
    none = replace(found, curve=CALIBRATION.curve[:1], strength=0.0, p_value=0.01)
    assert "chose 1, which the labels overrule: strength 0 predicts more" in what_labels_said(none)


def test_the_hub_reads_what_a_repair_belongs_to_and_what_was_measured_at_its_strength():
    def top(**values):
        return model_card(replace(RECORD, **values)).split("---")[1]

    for part in ("base_model: owner/model", "base_model_relation: adapter", "value: 0.75"):
        assert part in top()
    masks = top(strategy="mask", plain_peft_equivalent=False)
    assert ("base_model: owner/model" in masks, "relation" in masks, "lora" in masks) == (True, False, False)
    assert "base_model" not in top(base_model=RECORD.base_model | {"name": str(Path.cwd())})
    assert "4 labelled texts that had a say in the strength" in " ".join(top().split())
    assert "value:" not in top(debias_strength=0.5)
