"""MaskCL on other attributions: each beside a literal evaluation, and all else as the guardrail has it."""

import copy
import dataclasses
import warnings

import numpy as np
import pytest
import torch

from methods_toy import DEPLOYMENT, REVERSED
from shortcut_bench.methods import AttributedMaskCL, attributed, controls
from shortcut_bench.methods.attributed import attention_scores, leave_one_out_scores, top_ordinary
from shortcut_bench.registry import make_system
from shortcut_guardrail.errors import GuardrailWarning, ModelError
from shortcut_guardrail.models.classifier import TextClassifier
from tiny_models import tiny_bert

STEPS = {"min_steps": 6, "max_steps": 6, "strength": 1.0}


def fit(name_or_system, material, **options):
    system = make_system(name_or_system, **options) if isinstance(name_or_system, str) else name_or_system
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)
        return system.fit(material.for_needs(system.needs), seed=0)


def test_the_highest_ordinary_tokens_are_taken_the_earlier_of_equals_first():
    encoded = TextClassifier(*tiny_bert()).encode(["the room was good", "tea"])
    scores = [np.array([9.0, 0.2, 0.5, 0.2, 0.1, 9.0]), np.array([9.0, np.nan, 9.0])]
    assert top_ordinary(scores, encoded, 3).tolist() == [[2, 1, 3], [1, -1, -1]]


def test_attention_is_that_of_the_first_token_in_the_last_layer(texts):
    model, tokenizer = tiny_bert()
    classifier = TextClassifier(model, tokenizer)
    kind = model.config._attn_implementation
    found = attention_scores(classifier, classifier.encode(texts))
    assert classifier.plain_model.config._attn_implementation == model.config._attn_implementation == kind
    plain = copy.deepcopy(model)
    plain.set_attn_implementation("eager")
    for text, values in zip(texts, found, strict=True):
        attentions = plain(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
        assert values == pytest.approx(attentions[1][0, :, 0].mean(dim=0).detach().numpy(), abs=1e-5)
        assert values.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("name", "sentence"), [("bag", "gives no attention"), ("decoder", "as in a decoder")])
def test_a_model_whose_attention_says_nothing_is_refused(name, sentence, monkeypatch):
    model, tokenizer = tiny_bert()
    classifier = TextClassifier(model, tokenizer)
    plain = attributed.share_weights

    def copied(model):
        made = plain(model)
        forward = made.forward

        def answer(**inputs):
            output = forward(**inputs)
            only_itself = torch.zeros_like(output.attentions[-1])
            only_itself[:, :, 0, 0] = 1.0
            output.attentions = None if name == "bag" else (only_itself,)
            return output

        made.forward = answer
        return made

    monkeypatch.setattr(attributed, "share_weights", copied)
    with pytest.raises(ModelError, match=sentence):
        attention_scores(classifier, classifier.encode(["the room was good"]))


def test_leave_one_out_is_the_drop_of_the_prediction_where_a_token_is_masked(texts):
    model, tokenizer = tiny_bert()
    classifier = TextClassifier(model, tokenizer)
    encoded = classifier.encode(texts)
    for ids, ordinary, values in zip(
        encoded.input_ids, encoded.ordinary, leave_one_out_scores(classifier, encoded), strict=True
    ):
        ids = torch.tensor(ids.astype(np.int64))[None]
        predicted = model(ids).logits.argmax()
        for at, is_word in enumerate(ordinary):
            masked = ids.clone()
            masked[0, at] = tokenizer.mask_token_id
            expected = 1 - model(masked).logits.double().softmax(-1)[0, predicted]
            assert values[at] == pytest.approx(expected.item(), abs=1e-5) if is_word else np.isnan(values[at])


def test_with_its_own_attribution_it_is_the_guardrail_and_others_mask_other_tokens(material, monkeypatch):
    # In texts of more tokens than are masked.
    long = [f"{first} and {second}" for first, second in zip(DEPLOYMENT[:24], DEPLOYMENT[24:48], strict=True)]
    cut = dataclasses.replace(material, deployment=long)
    given = []
    train = controls.train_adapter
    monkeypatch.setattr(
        controls,
        "train_adapter",
        lambda base, encoded, positions, *rest, **more: (
            given.append(positions) or train(base, encoded, positions, *rest, **more)
        ),
    )
    own = fit(AttributedMaskCL(attribution="gradient", **STEPS), cut)
    guard = fit("guardrail", cut, **STEPS)
    assert np.array_equal(own.predict_proba(REVERSED.texts), guard.predict_proba(REVERSED.texts))
    assert own.info()["training"]["losses"] == guard.info()["training"]["losses"]
    costs = [
        fit(f"guardrail-{kind}", cut, **STEPS).forward_equivalents for kind in ("ig", "attention", "leave-one-out")
    ]
    n, trained = len(set(long)), own.forward_equivalents - 2 * len(set(long))
    tokens = sum(min(len(material.base.tokenizer.tokenize(text)), 14) for text in set(long))  # of 16, two are special
    assert [cost - trained for cost in costs] == [41 * n, n, n + tokens]
    assert all(positions.shape == given[0].shape == (24, 10) for positions in given)
    assert len({np.sort(positions).tobytes() for positions in given}) == 4


def test_integrated_gradients_explain_the_prediction(material, monkeypatch):
    asked = []
    plain = attributed.integrated_gradients
    monkeypatch.setattr(
        attributed, "integrated_gradients", lambda *given, **more: asked.append((given, more)) or plain(*given, **more)
    )
    fit("guardrail-ig", material, steps=3, **STEPS)
    (((classifier, encoded, labels), more),) = asked
    assert np.array_equal(labels, classifier.predict_logits(encoded).argmax(axis=1))
    assert more == {"steps": 3}
