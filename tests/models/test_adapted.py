"""A user's own model with an adapter: told before anything is computed, with advice that holds."""

import copy
import shutil

import pytest
import torch
from peft import IA3Config, LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForSequenceClassification

from shortcut_guardrail import ModelError, ShortcutGuardrail
from shortcut_guardrail.classifiers import open_classifiers
from shortcut_guardrail.cli.main import call
from tiny_models import SHORTCUT_TEXTS, tiny_bert

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),  # PEFT's, about Transformers
    pytest.mark.filterwarnings("ignore:.*no effect.*:UserWarning"),
]
LORA = LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False, task_type="SEQ_CLS")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A base, an adapter that was trained on it, both in one folder, and the model in memory."""
    folder = tmp_path_factory.mktemp("adapted")
    model, tokenizer = tiny_bert()
    model.save_pretrained(folder / "base")
    model = AutoModelForSequenceClassification.from_pretrained(folder / "base")
    adapted = get_peft_model(model, LORA)
    with torch.no_grad():
        adapted.base_model.model.classifier.modules_to_save["default"].weight += 0.5
    for name in ("base", "adapter", "both"):
        tokenizer.save_pretrained(folder / name)
    adapted.save_pretrained(folder / "adapter")
    shutil.copytree(folder / "base", folder / "both", dirs_exist_ok=True)
    adapted.save_pretrained(folder / "both")
    return folder, adapted, tokenizer


def probabilities(model, tokenizer):
    with torch.no_grad():
        logits = [model.eval()(**tokenizer(text, return_tensors="pt")).logits for text in SHORTCUT_TEXTS]
    return torch.cat(logits).softmax(-1)


ALONE, BESIDE = "and not a whole model. Load it with PEFT", "beside a whole model. Move adapter_config.json"


@pytest.mark.parametrize(("name", "said"), [("adapter", ALONE), ("both", BESIDE)])
def test_a_folder_with_an_adapter_is_told_of_by_every_door(made, tmp_path, capsys, name, said):
    folder = made[0] / name
    for door in (ShortcutGuardrail.from_pretrained, lambda given: open_classifiers([given], ["a", "b", "c"])):
        with pytest.raises(ModelError, match=said):
            door(str(folder))
    (data := tmp_path / "data.jsonl").write_text('{"text": "the soup was cold"}\n' * 20)
    for command in ("audit", "predict", "fit"):
        out = tmp_path / ("predicted.jsonl" if command == "predict" else "out")
        assert call([command, str(folder), str(data), "--out", str(out)]) == 2
        printed = capsys.readouterr()
        assert said in " ".join(printed.err.split())
        assert printed.err.count("error:") == 1
        assert not out.exists()


def test_an_adapter_on_the_hub_is_told_of(made, tmp_path, monkeypatch):
    place = tmp_path / "models--me--lora"
    shutil.copytree(made[0] / "adapter", place / "snapshots" / ("0" * 40))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=f"'me/lora' holds an adapter of PEFT .* {ALONE}"):
        ShortcutGuardrail.from_pretrained("me/lora")


def test_a_model_in_memory_with_an_adapter_is_told_of(made):
    folder, adapted, tokenizer = made
    by_transformers = AutoModelForSequenceClassification.from_pretrained(folder / "both")
    other = get_peft_model(
        AutoModelForSequenceClassification.from_pretrained(folder / "base"),
        IA3Config(target_modules=["query"], feedforward_modules=[]),
    )
    for model in (adapted, adapted.get_base_model(), by_transformers, other):
        with pytest.raises(ModelError, match=r"with an adapter of PEFT\. .* give what merge_and_unload\(\) returns"):
            ShortcutGuardrail(model, tokenizer)


def test_the_advice_holds(made, tmp_path):
    folder, adapted, tokenizer = made
    expected = probabilities(adapted, tokenizer)
    # Of a model in memory and an adapter alone.
    merged = [copy.deepcopy(adapted).merge_and_unload()]
    # Of both in one folder, word by word.
    place = tmp_path / "both"
    shutil.copytree(folder / "both", place)
    (tmp_path / "adapter").mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.move(place / name, tmp_path / "adapter" / name)
    base = AutoModelForSequenceClassification.from_pretrained(place)
    assert (probabilities(base, tokenizer) - expected).abs().max() > 1e-2
    merged.append(PeftModel.from_pretrained(base, tmp_path / "adapter").merge_and_unload())
    for at, model in enumerate(merged):
        assert len(ShortcutGuardrail(model, tokenizer).predict(["the soup"])) == 1
        model.save_pretrained(tmp_path / f"merged-{at}")
        tokenizer.save_pretrained(tmp_path / f"merged-{at}")
        guard = ShortcutGuardrail.from_pretrained(tmp_path / f"merged-{at}")
        found = torch.from_numpy(guard.predict_proba(list(SHORTCUT_TEXTS))).float()
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
