"""A guard's `adapter_config.json` can make PEFT do nothing but what this library wrote it for."""

import json
import shutil

import pytest

from shortcut_guardrail import ModelError, ShortcutGuardrail


@pytest.fixture
def load(saved_guards, tmp_path):
    """Loads a copy of a guard with some of its adapter's settings replaced."""

    def copied(settings):
        folder = tmp_path / "guard"
        shutil.copytree(saved_guards / "few-shot", folder, ignore=shutil.ignore_patterns("*-manifest.json"))
        file = folder / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | settings))
        return ShortcutGuardrail.from_pretrained(folder, base=saved_guards / "base")

    return copied


REFUSED = [
    ({"modules_to_save": ["classifier"]}, "modules_to_save must be null, as this library writes it, but is a list."),
    ({"init_lora_weights": "pissa"}, 'init_lora_weights must be true, as this library writes it, but is "pissa".'),
    ({"init_lora_weights": False}, "init_lora_weights must be true"),
    *(({"target_modules": of}, "target_modules must be a list") for of in ("(a+)+$", "all-linear", [])),
    ({"target_modules": ["no_such_layer"]}, "does not fit this model"),
    ({"r": 10**6}, "r must be 4, as this library writes it, but is 1000000."),
    ({"rank_pattern": {".*": 10**6}}, "rank_pattern must be {}"),
    ({"alpha_pattern": {"query": 90}}, "alpha_pattern must be {}"),
    ({"lora_alpha": 800.0}, "lora_alpha must be 5.6"),
    ({"layer_replication": [[0, 4], [2, 5]]}, "layer_replication must be null"),
    ({"use_dora": True}, "use_dora must be false"),
    ({"lora_dropout": False}, "lora_dropout must be 0.0"),
    ({"bias": "all"}, 'bias must be "none"'),
    ({"trainable_token_indices": [1]}, "trainable_token_indices must be null"),
    ({"peft_type": "IA3"}, 'peft_type must be "LORA"'),
    ({"auto_mapping": {"parent_library": "os", "base_model_class": "system"}}, "auto_mapping must be null"),
    ({"a_setting_of_tomorrow": {"path": "x"}}, "a_setting_of_tomorrow must be null"),
]


@pytest.mark.parametrize(("settings", "sentence"), REFUSED)
def test_what_this_library_would_not_write_is_refused(load, settings, sentence):
    with pytest.raises(ModelError) as error:
        load(settings)
    assert sentence in str(error.value)
    assert str(error.value).endswith("Run fit again.")


def test_a_setting_of_another_version_of_peft_that_does_nothing_is_taken(load):
    assert load({"a_setting_of_tomorrow": None, "another": False, "peft_version": "9.9"}).debias_strength == 0.7
