"""A guarded folder gives back what was saved, on the base it was made for, or says what is wrong with it."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from made_guards import GUARDS, TEXTS
from shortcut_guardrail import ConfigError, GuardrailWarning, ModelError, ShortcutGuardrail
from shortcut_guardrail.data.fingerprints import text_hash
from shortcut_guardrail.models import TextClassifier, load_model
from shortcut_guardrail.saving.folder import _choice
from tiny_models import tiny_bert

load = ShortcutGuardrail.from_pretrained
CERTIFIED = "mask-kept-certified"


@pytest.fixture
def copied(saved_guards, tmp_path):
    """Copies a guard into the test's folder, as earlier versions wrote it: without a manifest."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(saved_guards / name, tmp_path / name, ignore=shutil.ignore_patterns("*-manifest*")))

    return copy


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, but the manifest and the one that Transformers adds defaults to."""
    others = ("guardrail-manifest.json", "tokenizer_config.json")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in others}


@pytest.mark.parametrize("name", GUARDS)
def test_what_is_loaded_is_what_was_saved_also_over_another_guard(saved_guards, tmp_path, name):
    again = tmp_path / "again"
    load(saved_guards / GUARDS[0]).save_pretrained(again)
    torch.manual_seed(3)
    drawn, guard = torch.get_rng_state(), load(saved_guards / name)
    assert torch.equal(torch.get_rng_state(), drawn)
    with pytest.raises(ConfigError, match=r"already exists\. Choose another place"):
        guard.save_pretrained(again)
    guard.save_pretrained(again, overwrite=True)
    first, second = contents(saved_guards / name), contents(again)
    records = [json.loads(files.pop("guardrail.json")) for files in (first, second)]
    assert records[0]["base_model"].pop("from_folder") == "../base" != records[1]["base_model"].pop("from_folder")
    assert (records[0], first) == (records[1], second)  # no adapter stays beside a guard that has none


def test_without_text_hashes_no_file_tells_a_text(saved_guards, tmp_path):
    load(saved_guards / "few-shot").save_pretrained(tmp_path / "guard", text_hashes=False)
    assert load(tmp_path / "guard").record().text_hashes is False
    hashes = [text_hash(text) for text in TEXTS[:12]]
    for folder, known in ((saved_guards / "few-shot", True), (tmp_path / "guard", False)):
        record = (folder / "guardrail.json").read_text()
        assert {one in record for one in hashes} == {known}
        assert bool(len(np.load(folder / "fitted_texts.npy"))) == known


def test_a_base_is_loaded_at_the_revision_that_goes_with_its_name(copied, saved_guards, tmp_path, monkeypatch):
    asked, saved, folder = [], [], copied(CERTIFIED)
    file = folder / "guardrail.json"
    file.write_text(file.read_text().replace('"revision": null', '"revision": "v1"'))

    def note(name, *, revision, **options):
        asked.append(revision)
        return load_model(name, **options)

    monkeypatch.setattr("shortcut_guardrail.saving.adapter.load_model", note)
    other = {"base": saved_guards / "base"}  # which knows nothing of the recorded one's revisions
    for options in ({}, {"revision": "v2"}, other, {**other, "revision": "v2"}):
        load(folder, **options).save_pretrained(tmp_path / "again", overwrite=True)
        saved.append(json.loads((tmp_path / "again" / "guardrail.json").read_text())["base_model"]["revision"])
    assert asked == saved == ["v1", "v2", None, "v2"]


def test_a_certificate_is_about_the_answers_it_was_made_from(copied):
    folder = copied(CERTIFIED)
    file, found = folder / "guardrail.json", load(folder).certificate
    assert f"## Certificate\n\n{found['sentence']}\n" in (folder / "README.md").read_text()
    with pytest.raises(ConfigError, match="max_length"):
        load(folder, max_length=0)
    with pytest.warns(GuardrailWarning, match="with max_length 32, and is loaded with max_length 8: its"):
        assert load(folder, max_length=8).certificate is None
    file.write_text(file.read_text().replace('"head": "softmax"', '"head": "sigmoid"'))
    with pytest.warns(GuardrailWarning, match="certified with head sigmoid, and is loaded with head softmax"):
        assert load(folder, head="softmax").certificate is None


def test_a_certificate_of_one_logit_is_about_its_threshold(tmp_path):
    (model, tokenizer), how = tiny_bert(n_classes=1), {"head": "sigmoid", "max_length": 32}
    left = dict.fromkeys(("label", "windows", "calibration", "unlabelled_calibration")) | {"support_hashes": ("h",)}
    choice = {"debias_strength": 1.0, "strength_source": "given", "certificate": "a certificate"}
    record, same = SimpleNamespace(**how, **left, **choice, thresholds={}), TextClassifier(model, tokenizer, **how)
    found = _choice(tmp_path, record, same)
    assert (found.certificate, found.rows, found.strength, found.source) == ("a certificate", ("h",), 1.0, "given")
    for name in ("windows", "label"):
        changed = SimpleNamespace(**{**vars(record), name: "LABEL_0"})
        with pytest.warns(GuardrailWarning, match=f"certified with {name} LABEL_0, and is loaded with {name} None"):
            assert _choice(tmp_path, changed, same).certificate is None
    other = TextClassifier(model, tokenizer, **how, thresholds={model.config.id2label[0]: 0.3})
    with pytest.warns(GuardrailWarning, match=r"certified with threshold 0\.5, and is loaded with threshold 0\.3"):
        assert _choice(tmp_path, record, other).certificate is None


def test_a_guard_from_a_folder_knows_the_texts_it_was_fitted_on(copied):
    folder = copied(CERTIFIED)
    with pytest.warns(GuardrailWarning, match=r"^The repair was fitted on 1 of the 2 unlabelled texts"):
        load(folder).certify([], [], unlabelled=[TEXTS[0], "the soup was warm"])
    (folder / "fitted_texts.npy").write_bytes(b"no array")
    with pytest.raises(ModelError, match=r"fitted_texts\.npy' is damaged and cannot be read"):
        load(folder)


def change_weights(folder, *, dropped=0, n_rows=None):
    file = folder / "adapter_model.safetensors"
    weights = list(load_file(file).items())[dropped:]
    save_file({name: tensor[:n_rows].clone() for name, tensor in weights}, file)


DAMAGES = {
    "adapter_model.safetensors' is missing": lambda f: (f / "adapter_model.safetensors").unlink(),
    "is missing or damaged": lambda f: (f / "adapter_model.safetensors").write_bytes(b"junk"),
    "There is no file .*adapter_config.json": lambda f: (f / "adapter_config.json").unlink(),
    "adapter_config.json' is not valid JSON": lambda f: (f / "adapter_config.json").write_text("{"),
    "holds no usable tokenizer": lambda f: (f / "tokenizer.json").unlink(),
    "schema_version must be 1, but is null": lambda f: (f / "guardrail.json").write_text("{}"),
    "does not fit this model: 1 adapter weights are missing and 0 are": lambda f: change_weights(f, dropped=1),
    "does not fit this model": lambda f: change_weights(f, n_rows=1),
}


def test_a_damaged_folder_says_what_is_wrong(saved_guards, tmp_path):
    folder = shutil.copytree(saved_guards / "few-shot", tmp_path / "whole")
    for number, (message, damage) in enumerate(DAMAGES.items()):
        damaged = tmp_path / str(number)
        shutil.copytree(folder, damaged)
        damage(damaged)
        with pytest.raises(ModelError, match=r"(is missing|has \d+ bytes instead of \d+): see '.*manifest\.json'"):
            load(damaged)
        (damaged / "guardrail-manifest.json").unlink()  # as in folders of earlier versions
        with pytest.raises(ModelError, match=message):
            load(damaged)
    # Of a file of the same size from elsewhere only hashes tell, which are compared where that is asked for.
    load(folder, verify=True)
    file = folder / "adapter_model.safetensors"
    content = file.read_bytes()
    at = 8 + int.from_bytes(content[:8], "little")  # behind the table of contents
    file.write_bytes(content[:at] + bytes(4) + content[at + 4 :])
    load(folder)
    with pytest.raises(ModelError, match=r"adapter_model\.safetensors' has another content than the one that was"):
        load(folder, verify=True)
