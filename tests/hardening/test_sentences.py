"""Every way on which a model cannot be loaded, or a machine cannot go on, has its sentence."""

import json
import math
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
UNUSABLE = [
    ({"id2label": {"0": "a", "2": "b", "5": "c"}}, "id2label has 3 classes, but none is numbered 1"),
    ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "Several classes of the model are called 'a'"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers must be a whole number from 0 to 1000, but is 1000000000."),
    ({"num_attention_heads": -1}, "num_attention_heads must be a whole number from 0 to 10000, but is -1."),
    *(
        ({"hidden_dropout_prob": share}, "hidden_dropout_prob must be a number from 0 to 1")
        for share in (7.0, math.nan)
    ),
    *((of, NOT_LOADED) for of in ({"id2label": {"x": "a"}}, {"hidden_size": 10**9}, {"model_type": "no such"})),
]


@pytest.mark.parametrize(("settings", "sentence"), UNUSABLE)
def test_a_configuration_that_cannot_be_used(broken, settings, sentence):
    with pytest.raises(ModelError, match=sentence):
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


ALLOCATION = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError(ALLOCATION)])
def test_a_machine_out_of_memory(cli, model_folder, write_csv, tmp_path, monkeypatch, error):
    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(ShortcutGuardrail, "from_pretrained", fail)
    data = write_csv("data.csv", ("the tea was cold", "x"))
    status, _, err = cli("predict", model_folder, data, "--out", tmp_path / "out.csv")
    assert (status, err) == (1, "error: Out of memory. Lower --batch-size or --max-length and try again.\n")


def test_no_seconds_come_from_a_clock_that_may_jump():
    """Only the date in a record, and the answer of a server that names one, are asked of the wall clock."""
    package = Path(options.__file__).parents[1]
    asks = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if "time.time()" in path.read_text()}
    assert asks == {"classifiers/requests.py"}
