"""What PEFT and Transformers make of a guarded folder, for every way in which they load one."""

import shutil

import pytest
import torch
from peft import AutoPeftModelForSequenceClassification, PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from shortcut_guardrail import AdapterConfig, GuardrailConfig, ModelError, SaliencyConfig, ShortcutGuardrail
from shortcut_guardrail.saving import place_of
from tiny_models import SHORTCUT_TEXTS, build_family

TEXTS = [text[:25] for text in SHORTCUT_TEXTS]  # some tokenizers make a token of each letter
FAMILIES = [
    ("bert", ["query", "value"], "SEQ_CLS"),
    ("distilbert", ["q_lin", "v_lin"], "SEQ_CLS"),  # whose head has two layers with names that end alike
    ("roberta", ["query", "value"], "SEQ_CLS"),  # whose head is a module of layers
    ("modernbert", ["Wqkv"], "SEQ_CLS"),
    ("roberta", ["query", "dense"], None),  # of which one is in the head
]


def probabilities(model, tokenizer):
    with torch.no_grad():
        return torch.cat([model.eval()(**tokenizer(text, return_tensors="pt")).logits for text in TEXTS])


@pytest.mark.parametrize(("family", "layers", "task"), FAMILIES)
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's, about Transformers
@pytest.mark.filterwarnings("ignore::shortcut_guardrail.GuardrailWarning")
def test_peft_and_transformers_answer_as_the_guard(tmp_path, family, layers, task):
    model, tokenizer = build_family(family)
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "base")
    adapter = AdapterConfig(learning_rate=2e-2, epochs=2, batch_size=4, target_modules=tuple(layers))
    guard.fit(TEXTS, config=GuardrailConfig("test", saliency=SaliencyConfig(top_k=3), adapter=adapter))
    guard.save_pretrained(folder := tmp_path / "guard")
    expected = torch.from_numpy(guard.predict_proba(TEXTS)).float()
    loaded = [
        PeftModel.from_pretrained(AutoModelForSequenceClassification.from_pretrained(tmp_path / "base"), folder),
        AutoModelForSequenceClassification.from_pretrained(folder),
    ]
    if task is not None:
        loaded.append(AutoPeftModelForSequenceClassification.from_pretrained(folder))
        loaded.append(AutoPeftModelForSequenceClassification.from_pretrained(folder).merge_and_unload())
    for by_peft in loaded:
        torch.testing.assert_close(probabilities(by_peft, tokenizer).softmax(-1), expected, atol=1e-5, rtol=0)
    assert (probabilities(model, tokenizer).softmax(-1) - expected).abs().max() > 1e-3
    assert loaded[0].peft_config["default"].task_type == task
    again = ShortcutGuardrail.from_pretrained(folder).predict_proba(TEXTS)
    torch.testing.assert_close(torch.from_numpy(again).float(), expected, atol=1e-6, rtol=0)
    if task is not None:
        weights = load_file(file := folder / "adapter_model.safetensors")
        weights[next(name for name in weights if "classifier" in name)] += 1
        save_file(weights, file, metadata={"format": "pt"})
        (folder / "guardrail-manifest.json").unlink()
        with pytest.raises(ModelError, match="does not fit this model: its head is another one"):
            ShortcutGuardrail.from_pretrained(folder)


def test_weights_of_an_adapter_that_the_model_does_not_know_are_refused(saved_guards, tmp_path):
    folder = tmp_path / "guard"
    shutil.copytree(saved_guards / "few-shot", folder)
    weights = load_file(file := folder / "adapter_model.safetensors")
    name = next(name for name in weights if "lora_A" in name)
    save_file(weights | {name.replace("layer.0", "layer.9"): weights[name].clone()}, file)
    (folder / "guardrail-manifest.json").unlink()
    with pytest.raises(ModelError, match="0 adapter weights are missing and 1 are unknown"):
        ShortcutGuardrail.from_pretrained(folder, base=saved_guards / "base")


def test_the_place_of_a_model_holds_from_everywhere(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert place_of("model") == str(tmp_path.resolve() / "model")
    assert place_of("me/model") == "me/model"
