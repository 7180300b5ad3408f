"""Every way on which a model cannot be loaded, or a machine cannot go on, has its sentence."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from shortcut_guardrail import ModelError, ShortcutGuardrail
from shortcut_guardrail.cli import options


@pytest.fixture
def broken(model_folder, tmp_path):
    """A copy of the model with some settings of its configuration replaced."""

    def copy(**settings):
        folder = tmp_path / "model"
        shutil.copytree(model_folder, folder)
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | settings))
        return folder

    return copy


NOT_LOADED = "could not be loaded as a text classifier"


@pytest.mark.parametrize("settings", [{"id2label": {"x": "a"}}, {"hidden_size": 10**9}, {"model_type": "no such"}])
def test_a_configuration_that_cannot_be_used(broken, settings):
    with pytest.raises(ModelError, match=NOT_LOADED):
        ShortcutGuardrail.from_pretrained(broken(**settings))


class Code:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_pickled_weights_are_weights_or_a_sentence(broken, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = broken()
    weights = ShortcutGuardrail.from_pretrained(folder)._base.model.state_dict()
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    for content in (b"junk", pickle.dumps(Code()), b""):
        file.write_bytes(content)
        for allowed, said in ((False, r"holds no .safetensors file"), (True, NOT_LOADED)):
            with pytest.raises(ModelError, match=said):
                ShortcutGuardrail.from_pretrained(folder, allow_pickle=allowed)
    assert not (tmp_path / "ran").exists()
    torch.save(weights, file)
    assert ShortcutGuardrail.from_pretrained(folder, allow_pickle=True).predict(["the tea was cold"])


def test_remote_code_that_fails(broken):
    folder = broken(auto_map={"AutoModelForSequenceClassification": "code.Model"})
    (folder / "code.py").write_text("raise ZeroDivisionError('on purpose')\n")
    with pytest.raises(ModelError, match=f"{NOT_LOADED}: on purpose"):
        ShortcutGuardrail.from_pretrained(folder, trust_remote_code=True)


def test_no_seconds_come_from_a_clock_that_may_jump():
    """Only the date in a record, and the answer of a server that names one, are asked of the wall clock."""
    package = Path(options.__file__).parents[1]
    asks = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if "time.time()" in path.read_text()}
    assert asks == {"classifiers/requests.py"}
