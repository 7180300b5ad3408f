"""Bases with an adapter of PEFT: merged into a copy, whatever way they come, and recorded as such."""

import dataclasses
import json
import re
import shutil
import warnings

import numpy as np
import pytest
import torch
from peft import IA3Config, LoraConfig, PromptTuningConfig, get_peft_model
from transformers import AutoModelForSequenceClassification

from checkout import ROOT
from shortcut_guardrail import ConfigError, GuardrailWarning, ModelError, ShortcutGuardrail
from shortcut_guardrail.classifiers import open_classifiers
from shortcut_guardrail.models import architecture_of, load_model
from shortcut_guardrail.models.adapters import n_labels_of
from tiny_models import SHORTCUT_TEXTS, tiny_bert

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),  # PEFT's, about Transformers
    pytest.mark.filterwarnings("ignore:.*no effect.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PEFT config's `base_model_name_or_path` was renamed:UserWarning"),
]
PAGE = (ROOT / "docs/howto/models.md").read_text(encoding="utf-8")
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


def guard_of(found, **more):
    """From a folder, an id or a model and its tokenizer."""
    return ShortcutGuardrail.from_pretrained(found) if isinstance(found, str) else ShortcutGuardrail(*found, **more)


def test_every_way_to_an_adapter_answers_as_it_does_and_leaves_the_model_alone(made, tmp_path, monkeypatch):
    folder, adapted, tokenizer = made
    place = tmp_path / "models--me--lora"
    shutil.copytree(folder / "adapter", place / "snapshots" / ("0" * 40))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path), raising=False)
    expected, plain = probabilities(adapted, tokenizer), ShortcutGuardrail.from_pretrained(folder / "base")
    before = {name: p.clone() for name, p in adapted.named_parameters()}
    assert (torch.from_numpy(plain.predict_proba(list(SHORTCUT_TEXTS))) - expected).abs().max() > 1e-2
    prints = set()
    folders, own = (str(folder / "adapter"), str(folder / "both"), "me/lora"), (adapted, adapted.get_base_model())
    for found in (*folders, *((model, tokenizer) for model in own)):
        guard = guard_of(found)
        answers = torch.from_numpy(guard.predict_proba(list(SHORTCUT_TEXTS)))
        torch.testing.assert_close(answers, expected, atol=1e-5, rtol=0)
        merged = guard._base.merged
        assert (merged.base, merged.base_fingerprint) == (str(folder / "base"), plain._base.fingerprint())
        prints.add((guard._base.record()["merged"]["adapter_fingerprint"], guard._base.fingerprint()))
    assert len({one for one, _ in prints}) == 1
    assert all(torch.equal(before[name], p) for name, p in adapted.named_parameters())
    adapted.merge_adapter()
    try:
        answers = torch.from_numpy(guard_of((adapted, tokenizer)).predict_proba(list(SHORTCUT_TEXTS)))
    finally:
        adapted.unmerge_adapter()
    torch.testing.assert_close(answers, expected, atol=1e-5, rtol=0)
    with adapted.disable_adapter():
        guard = guard_of((adapted, tokenizer))
    answers = torch.from_numpy(guard.predict_proba(list(SHORTCUT_TEXTS)))
    torch.testing.assert_close(answers, probabilities(plain._base.model, tokenizer), atol=1e-5, rtol=0)


def test_what_transformers_loads_with_its_adapter_and_other_kinds_of_adapters(made):
    folder, _, tokenizer = made
    by_transformers = AutoModelForSequenceClassification.from_pretrained(folder / "both")
    base = AutoModelForSequenceClassification.from_pretrained(folder / "base")
    other = get_peft_model(base, IA3Config(target_modules=["query"], feedforward_modules=[], init_ia3_weights=False))
    for model in (by_transformers, other):
        answers = torch.from_numpy(ShortcutGuardrail(model, tokenizer).predict_proba(list(SHORTCUT_TEXTS)))
        torch.testing.assert_close(answers, probabilities(model, tokenizer), atol=1e-5, rtol=0)
    virtual = PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=2)
    with pytest.raises(ModelError, match=r"puts tokens before a text\. It cannot be merged"):
        ShortcutGuardrail(get_peft_model(tiny_bert()[0], virtual), tokenizer)


def test_the_base_of_an_adapter_is_read_at_the_revision_that_goes_with_its_name(made, tmp_path, monkeypatch):
    asked = []

    def note(_, name, *, options, **__):
        asked.append((name, options["revision"]))
        raise ModelError("noted")

    monkeypatch.setattr("shortcut_guardrail.models.loading._load", note)
    file = shutil.copytree(made[0] / "adapter", tmp_path / "adapter") / "adapter_config.json"
    named = {"base_model_name_or_path": "me/base", "revision": "v1"}
    file.write_text(json.dumps(json.loads(file.read_text()) | named))
    for base in (None, "me/other"):
        with pytest.raises(ModelError, match="noted"):
            load_model(file.parent, base=base)
    assert asked == [("me/base", "v1"), ("me/other", "main")]


def test_a_base_with_an_adapter_goes_the_whole_way(made, tmp_path, monkeypatch, ok):
    base = made[0] / "adapter"
    rows = [{"text": f"{text} {i}", "label": i % 3} for i in range(4) for text in SHORTCUT_TEXTS]
    (data := tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    fast = ("--set", "adapter.min_steps=4", "--set", "adapter.max_steps=4", "--set", "adapter.batch_size=4")
    ok("audit", base, data, "--out", tmp_path / "audit")
    ok("fit", base, data, "--audit", tmp_path / "audit", "--shortcut", "honestly", "--out", tmp_path / "guard", *fast)
    record = json.loads((tmp_path / "guard/guardrail.json").read_text())["base_model"]
    assert record["name"] == str(base)
    plain = ShortcutGuardrail.from_pretrained(made[0] / "base")._base.fingerprint()
    assert record["merged"]["base"].endswith("base")
    assert record["merged"]["base_fingerprint"] == plain != record["fingerprint"]
    out, _ = ok("evaluate", tmp_path / "guard", data, "--sensitivity", "none")
    assert "repaired" in out
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "guard")
    answers = guard.predict_proba(list(SHORTCUT_TEXTS))
    assert np.abs(answers - guard.predict_proba(list(SHORTCUT_TEXTS), strength=0)).max() > 1e-3
    # The page's program, word for word, where the three folders lie.
    for name in ("base", "adapter"):
        (tmp_path / name).symlink_to(made[0] / name)
    monkeypatch.chdir(tmp_path)
    (program,) = (block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "PeftModel" in block)
    exec(program, ran := {})
    served = [{one["label"]: one["score"] for one in scores} for scores in ran["serve"](list(SHORTCUT_TEXTS))]
    found = [[one[name] for name in ("negative", "mixed", "positive")] for one in served]
    np.testing.assert_allclose(found, answers, atol=1e-5)
    assert "its own adapter merged" in (tmp_path / "guard/README.md").read_text()
    # A guard is no base, whoever is given it as one.
    for door in (lambda given: load_model(given), lambda given: open_classifiers([given], ["a", "b", "c"])):
        with pytest.raises(ModelError, match="was written by fit, and is no original model"):
            door(str(tmp_path / "guard"))


def test_an_adapter_that_brings_the_head_of_a_bare_encoder(made, tmp_path):
    tokenizer = made[2]
    tiny_bert()[0].bert.save_pretrained(tmp_path / "encoder")
    encoder = AutoModelForSequenceClassification.from_pretrained(tmp_path / "encoder", num_labels=4)
    other = get_peft_model(encoder, dataclasses.replace(LORA, base_model_name_or_path=None))
    other.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "encoder")
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "adapter")
    answers = torch.from_numpy(guard.predict_proba(list(SHORTCUT_TEXTS)))
    torch.testing.assert_close(answers, probabilities(other, tokenizer), atol=1e-5, rtol=0)
    shapes = {"classifier.dense": (16, 16), "classifier.out_proj": (4, 16), "query": (2, 16)}  # as RoBERTa's
    weights = {f"m.{name}.weight": torch.zeros(shape) for name, shape in shapes.items()}
    assert n_labels_of(weights, {"modules_to_save": ["classifier"]}) == 4


def test_an_adapter_on_another_base_or_on_none_is_told_of(made, tmp_path, monkeypatch):
    folder, _, tokenizer = made
    wider, _ = tiny_bert(hidden_size=32)
    wider.save_pretrained(tmp_path / "wider")
    tokenizer.save_pretrained(tmp_path / "wider")
    with pytest.raises(ModelError, match=r"could not be put on its base '.*wider': .*size mismatch.* with base="):
        ShortcutGuardrail.from_pretrained(folder / "adapter", base=tmp_path / "wider")
    monkeypatch.chdir(folder)
    with warnings.catch_warnings(action="error", category=GuardrailWarning):
        ShortcutGuardrail.from_pretrained("adapter", base="base")  # the same by another name
    assert architecture_of("adapter") == "SequenceClassification"
    shutil.copytree(folder / "base", tmp_path / "moved")
    with pytest.warns(GuardrailWarning, match="names '.*base' as its base, but is on '.*moved' here"):
        ShortcutGuardrail.from_pretrained(folder / "adapter", base=tmp_path / "moved")
    shutil.copytree(folder / "adapter", tmp_path / "nameless")
    config = json.loads((tmp_path / "nameless/adapter_config.json").read_text())
    for name, said in ((None, "does not say which model"), (str(tmp_path / "gone"), "There is no folder '.*gone'")):
        (tmp_path / "nameless/adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": name}))
        with pytest.raises(ModelError, match=said):
            ShortcutGuardrail.from_pretrained(tmp_path / "nameless")
    with pytest.raises(ConfigError, match=r"base= is for folders that fit wrote and for adapters, but '.*wider' is"):
        ShortcutGuardrail.from_pretrained(tmp_path / "wider", base=folder / "base")
