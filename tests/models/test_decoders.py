"""Decoders with a head on the last token: shapes, padding, gradients, and a repair that PEFT alone loads."""

import copy

import numpy as np
import pytest
import torch

from shortcut_guardrail import ModelError, SaliencyConfig, ShortcutGuardrail, TextClassifier
from shortcut_guardrail.attribution import find_important_tokens
from shortcut_guardrail.attribution.saliency import token_scores
from tiny_models import SHORTCUT_TEXTS, tiny_decoder

FAMILIES = ("llama", "qwen3", "gemma3_text", "gpt2")
TEXTS = list(SHORTCUT_TEXTS)


@pytest.fixture(scope="module", params=FAMILIES)
def decoder(request):
    """Without a mask token, as published ones are."""
    return without_mask(request.param)


def without_mask(family):
    model, tokenizer = tiny_decoder(family)
    tokenizer.mask_token = None
    return model, tokenizer


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_last_token_of_each_text_is_read_whatever_the_padding(decoder, side):
    model, tokenizer = decoder
    classifier = TextClassifier(model, tokenizer, batch_size=8)
    together = classifier.predict_logits(classifier.encode(TEXTS))
    alone = np.concatenate([classifier.predict_logits(classifier.encode([text])) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert np.ptp(alone, axis=0).min() > 1e-3  # or else any token would do
    tokenizer.padding_side = side
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    places = (batch["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)  # of GPT-2, which counts padding otherwise
    with torch.inference_mode():
        served = model(**batch, position_ids=places).logits.numpy()
    np.testing.assert_allclose(together, served, atol=1e-4)


def test_gradients_reach_every_token_and_no_padding_and_none_is_left(decoder):
    classifier = TextClassifier(*decoder, batch_size=8)
    encoded = classifier.encode(TEXTS)
    batch = classifier.collate(encoded, range(len(TEXTS)))
    scores = token_scores(classifier, batch).scores
    assert (scores[batch.attention_mask == 0] == 0).all()
    assert (scores[batch.ordinary] > 0).float().mean() > 0.95
    one = token_scores(classifier, classifier.collate(encoded, [3])).scores[0]
    torch.testing.assert_close(scores[3, : len(one)], one, atol=1e-3, rtol=1e-3)
    assert all(parameter.grad is None for parameter in classifier.model.parameters())
    assert (find_important_tokens(classifier, encoded, SaliencyConfig(top_k=3)).positions >= 0).all()


@pytest.mark.filterwarnings("ignore:Small groups")
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's, about Transformers
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning")  # PEFT's, about GPT-2's layers
def test_it_is_audited_by_cutting_and_distilled_and_loaded_by_peft_alone(decoder, tmp_path):
    from peft import PeftModel

    model, tokenizer = decoder
    guard = ShortcutGuardrail(model, tokenizer, batch_size=8)
    report = guard.audit(TEXTS)
    assert (report.erasure, report.erasures.mask) == ("cut", None)
    before, evaluated = guard.predict_proba(TEXTS), guard.evaluate(TEXTS, guard.predict(TEXTS))
    assert (evaluated.accuracy, evaluated.sensitivity.n, 0 < evaluated.mstps < 1) == (1.0, len(TEXTS), True)
    settings = {"adapter": {"learning_rate": 0.01, "min_steps": 8, "target_change": 0.0}}
    guard.repair(TEXTS, strategy="distill", shortcuts=["honestly"], strength=0.5, config=settings)
    np.testing.assert_array_equal(guard.predict_proba(TEXTS, strength=0), before)
    after = guard.predict_proba(TEXTS)
    assert np.abs(after - before).max() > 1e-4
    guard.save_pretrained(tmp_path / "guard")
    again = ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=model)
    np.testing.assert_allclose(again.predict_proba(TEXTS), after, atol=1e-5)
    merged = PeftModel.from_pretrained(copy.deepcopy(model), tmp_path / "guard").merge_and_unload()
    np.testing.assert_allclose(TextClassifier(merged, tokenizer).predict_proba(TEXTS), after, atol=1e-4)


@pytest.mark.parametrize("strategy", ["mask", "maskcl"])
def test_what_masks_is_refused_with_the_way_that_does_not(strategy):
    guard = ShortcutGuardrail(*without_mask("gpt2"))
    named = {} if strategy == "maskcl" else {"shortcuts": ["honestly"]}
    with pytest.raises(ModelError, match=r"has no mask token.*strategy='distill'"):
        guard.repair(TEXTS, strategy=strategy, strength=1.0, **named)
