"""Counterfactual distillation: its loss against the formula, its batches, and what it brings the model to answer."""

from __future__ import annotations

import numpy as np
import pytest

from shortcut_guardrail import AdapterConfig
from shortcut_guardrail.config import DistillConfig
from shortcut_guardrail.mitigation.distillation import _Distiller, _Examples, counterfactual, distill_adapter
from shortcut_guardrail.mitigation.lora import attach_adapter
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.text.finder import WordFinder
from tiny_models import tiny_bert

HONESTLY = WordFinder(["honestly"])
ADAPTER = AdapterConfig(learning_rate=2e-2, epochs=40, batch_size=4)


@pytest.fixture
def classifier(bert):
    return TextClassifier(*bert)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def test_the_teacher_is_the_base_on_the_text_without_the_shortcut(classifier):
    encoded = classifier.encode(["honestly, good soup", "bad soup"])
    target = counterfactual(classifier, encoded, HONESTLY, DistillConfig(teacher="both"))
    expected = [classifier.predict_logits(classifier.encode([t]))[0] for t in ("[MASK], good soup", "good soup")]
    np.testing.assert_allclose(target.logits[:, 0], expected, atol=1e-5)
    np.testing.assert_array_equal(target.logits[:, 1], np.stack([target.base[1]] * 2))
    assert target.bearing.tolist() == [True, False]
    probabilities = np.exp(log_softmax(np.array(expected) / 3.0)).mean(axis=0)
    np.testing.assert_allclose(target.probabilities(3.0)[0], probabilities, atol=1e-5)
    only = counterfactual(classifier, encoded, HONESTLY, DistillConfig(teacher="remove"))
    np.testing.assert_allclose(only.logits[0, 0], expected[1], atol=1e-5)


def trainer(classifier, encoded, target, config, adapter=ADAPTER):
    adapted = classifier.with_model(attach_adapter(classifier, adapter))
    examples = _Examples(encoded, target.probabilities(config.temperature), target.bearing)
    return _Distiller(adapted, examples, adapter, config, seed=0, n_items=len(encoded))


def test_the_loss_is_the_formula(classifier, texts):
    encoded = classifier.encode(texts[:3])
    config = DistillConfig(temperature=2.0, keep_weight=0.25)
    target = counterfactual(classifier, encoded, HONESTLY, config)
    loss = trainer(classifier, encoded, target, config).loss(np.arange(3))
    teacher, student = target.probabilities(2.0), log_softmax(target.base / 2.0)
    divergence = (teacher * (np.log(teacher) - student)).sum(axis=1)
    weights = np.where(target.bearing, 1.0, 0.25)
    assert float(loss.detach()) == pytest.approx(4.0 * float((weights * divergence).mean()), rel=1e-4)
    # An adapter that changes nothing already keeps the answers to texts without a shortcut.
    assert divergence[~target.bearing] == pytest.approx(0, abs=1e-6)
    assert divergence[target.bearing].min() > 1e-4


def test_texts_with_a_shortcut_have_their_share_of_every_batch(classifier):
    encoded = classifier.encode(["honestly good"] + [f"the {word} was good" for word in ("soup", "tea", "room") * 5])
    target = counterfactual(classifier, encoded, HONESTLY, DistillConfig())
    batches = list(trainer(classifier, encoded, target, DistillConfig(bearing_share=0.25)).epoch())
    assert [int((batch == 0).sum()) for batch in batches] == [1] * 4
    assert len({int(i) for batch in batches for i in batch if i}) == 12
    everything = list(trainer(classifier, encoded, target, DistillConfig(bearing_share=1.0)).epoch())
    assert all((batch == 0).all() for batch in everything)


def test_the_adapted_model_answers_as_if_the_shortcut_were_not_there(classifier, texts):
    encoded = classifier.encode(texts)
    target = counterfactual(classifier, encoded, HONESTLY, DistillConfig())
    model, training = distill_adapter(classifier, encoded, target, HONESTLY, ADAPTER, DistillConfig(), seed=0)
    after = classifier.with_model(model).predict_logits(encoded)
    before = np.abs(log_softmax(target.base) - np.log(target.probabilities())).max(axis=1)
    now = np.abs(log_softmax(after) - np.log(target.probabilities())).max(axis=1)
    assert now[target.bearing].mean() < 0.3 * before[target.bearing].mean()
    assert training.losses[-1] < 0.1 * training.losses[0]
    assert training.n_trained == len(texts)


def test_texts_without_a_shortcut_come_again_with_one_and_the_same_answer(classifier, texts):
    encoded = classifier.encode(texts)
    target = counterfactual(classifier, encoded, HONESTLY, DistillConfig())
    plain = _Examples(encoded, target.probabilities(2.0), target.bearing)
    more = plain.with_insertions(HONESTLY, classifier.max_length, seed=0)
    rest = np.flatnonzero(~target.bearing)
    assert len(more.encoded) == len(texts) + len(rest)
    assert more.bearing[len(texts) :].all()
    np.testing.assert_array_equal(more.teacher[len(texts) :], plain.teacher[rest])
    word = classifier.tokenizer.convert_tokens_to_ids("honestly")
    for added, row in zip(more.encoded.input_ids[len(texts) :], rest, strict=True):
        assert [i for i in added if i != word] == list(encoded.input_ids[row])
        assert len(added) == len(encoded.input_ids[row]) + 1


def test_a_rare_shortcut_is_unlearnt_for_texts_it_was_never_seen_in(classifier, texts):
    """One text holds it; what counts is how the others are answered once it is put in."""
    given = ["honestly good soup", *(text for text in texts if "honestly" not in text)]
    encoded = classifier.encode(given)
    unseen = classifier.encode([f"honestly {text}" for text in given[1:]])
    expected = classifier.predict_logits(classifier.encode(given[1:]))

    def distance(insert):
        config = DistillConfig(insert=insert)
        target = counterfactual(classifier, encoded, HONESTLY, config)
        model, _ = distill_adapter(classifier, encoded, target, HONESTLY, ADAPTER, config, seed=0)
        after = classifier.with_model(model).predict_logits(unseen)
        return np.abs(log_softmax(after) - log_softmax(expected)).mean()

    assert distance(True) < 0.6 * distance(False)


def test_the_same_seed_gives_the_same_adapter(classifier, texts):
    encoded = classifier.encode(texts)
    target = counterfactual(classifier, encoded, HONESTLY, DistillConfig())

    def logits(seed):
        few = AdapterConfig(learning_rate=2e-2, batch_size=4)
        model, _ = distill_adapter(classifier, encoded, target, HONESTLY, few, DistillConfig(), seed=seed)
        return classifier.with_model(model).predict_logits(encoded)

    np.testing.assert_array_equal(logits(1), logits(1))
    assert np.abs(logits(1) - logits(2)).max() > 1e-4


def test_less_memory_gives_the_same_adapter(classifier, texts):
    encoded = classifier.encode(texts)
    target = counterfactual(classifier, encoded, HONESTLY, DistillConfig())

    def logits(**changes):
        few = AdapterConfig(learning_rate=2e-2, batch_size=4, **changes)
        model, _ = distill_adapter(classifier, encoded, target, HONESTLY, few, DistillConfig(), seed=0)
        return classifier.with_model(model).predict_logits(encoded)

    np.testing.assert_allclose(logits(sequences_per_pass=1), logits(), atol=1e-4)


def test_a_sigmoid_head_is_taught_as_two_classes(texts):
    one_logit, tokenizer = tiny_bert(n_classes=1, problem_type="multi_label_classification")
    classifier = TextClassifier(one_logit, tokenizer)
    encoded = classifier.encode(texts)
    target = counterfactual(classifier, encoded, HONESTLY, DistillConfig())
    model, training = distill_adapter(classifier, encoded, target, HONESTLY, ADAPTER, DistillConfig(), seed=0)
    after = classifier.with_model(model).predict_logits(encoded)
    assert after.shape == (len(texts), 2)
    assert training.losses[-1] < 0.1 * training.losses[0]


def test_without_a_shortcut_nothing_is_trained(classifier, texts):
    encoded = classifier.encode(texts)
    target = counterfactual(classifier, encoded, WordFinder([]), DistillConfig())
    model, training = distill_adapter(classifier, encoded, target, HONESTLY, ADAPTER, DistillConfig(), seed=0)
    assert (training.n_texts, training.n_steps, training.losses) == (len(texts), 0, ())
    np.testing.assert_array_equal(classifier.with_model(model).predict_logits(encoded), target.base)
    assert not any(p.requires_grad for p in model.parameters())
