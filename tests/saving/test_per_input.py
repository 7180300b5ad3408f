"""A guard that leaves some texts to its base is no adapter that others may take for the whole."""

import json

import numpy as np
import pytest
from peft import AutoPeftModelForSequenceClassification, PeftModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from made_guards import TEXTS
from shortcut_guardrail import ShortcutGuardrail


@pytest.mark.parametrize("strategy", ["distill", "mask"])
def test_others_find_no_adapter_alone(saved_guards, tmp_path, strategy):
    guard = ShortcutGuardrail.from_pretrained(saved_guards / "base")
    config = {"adapter": {"epochs": 2, "learning_rate": 1e-2, "batch_size": 8}, "per_input": True}
    config = config if strategy == "distill" else {}
    guard.repair(TEXTS, strategy=strategy, shortcuts=["honestly"], strength=0.7, config=config)
    guard.save_pretrained(folder := tmp_path / "guard")
    expected = guard.predict_proba(TEXTS)
    assert np.abs(expected - guard.predict_proba(TEXTS, strength=0)).max() > 1e-3
    base = AutoModelForSequenceClassification.from_pretrained(saved_guards / "base")
    for load in (
        lambda: PeftModel.from_pretrained(base, folder),
        lambda: AutoPeftModelForSequenceClassification.from_pretrained(folder),
        lambda: AutoModelForSequenceClassification.from_pretrained(folder),
    ):
        with pytest.raises((ValueError, OSError)):
            load()
    assert AutoTokenizer.from_pretrained(folder)(TEXTS[0])
    np.testing.assert_array_equal(ShortcutGuardrail.from_pretrained(folder).predict_proba(TEXTS), expected)
    if strategy == "distill":  # a guard of before, with the names of PEFT
        (folder / "guardrail-manifest.json").unlink()
        for name in ("config.json", "model.safetensors"):
            (folder / f"per_input_{name}").rename(folder / f"adapter_{name}")
        assert json.loads((folder / "adapter_config.json").read_text())["lora_alpha"]
        np.testing.assert_array_equal(ShortcutGuardrail.from_pretrained(folder).predict_proba(TEXTS), expected)
        ShortcutGuardrail.from_pretrained(folder).save_pretrained(tmp_path / "new")
        assert not list((tmp_path / "new").glob("adapter_*"))
