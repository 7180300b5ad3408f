"""Counterfactual distillation: its loss against the formula, its batches, and what it brings the model to answer."""

import numpy as np
import pytest
import torch

from shortcut_guardrail import AdapterConfig, DistillConfig, GuardrailConfig, Shortcut, Shortcuts, TextClassifier
from shortcut_guardrail.mitigation import AdapterTraining, attach_adapter, distillation
from shortcut_guardrail.mitigation.distillation import counterfactual, with_insertions_beside
from tiny_models import tiny_bert

HONESTLY = Shortcuts((Shortcut("honestly", "named"),))
ADAPTER = AdapterConfig(learning_rate=2e-2, epochs=40, batch_size=4)


@pytest.fixture
def classifier(bert):
    return TextClassifier(*bert)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def distilled(classifier, encoded, adapter=ADAPTER, seed=0):
    """The adapted model, and the record of its training."""
    target, config = counterfactual(classifier, encoded, HONESTLY), GuardrailConfig(adapter=adapter)
    model, training = distillation.distill_adapter(classifier, encoded, target, HONESTLY.finder, config, seed=seed)
    return classifier.with_model(model), training


def trainer(classifier, encoded):
    target = counterfactual(classifier, encoded, HONESTLY)
    adapted = classifier.with_model(attach_adapter(classifier, ADAPTER))
    config = GuardrailConfig(adapter=ADAPTER, distill=DistillConfig(temperature=3.0))
    examples = encoded, target.probabilities(3.0)[:, None], target.bearing
    return distillation.Distiller(adapted, examples, config, seed=0, n_items=len(encoded))


def test_the_teacher_is_the_base_on_the_text_without_the_shortcut(classifier):
    target = counterfactual(classifier, classifier.encode(["honestly, good soup", "bad soup"]), HONESTLY)
    expected = classifier.predict_logits(classifier.encode(["good soup", "bad soup"]))
    np.testing.assert_allclose(target.logits, expected, atol=1e-5)
    assert target.bearing.tolist() == [True, False]
    np.testing.assert_allclose(target.probabilities(3.0), np.exp(log_softmax(expected / 3.0)), atol=1e-5)


def test_the_loss_is_the_formula(classifier, texts):
    encoded = classifier.encode(texts[:3])
    target, loss = counterfactual(classifier, encoded, HONESTLY), trainer(classifier, encoded).loss(np.arange(3))
    teacher, student = log_softmax(target.logits / 3.0), log_softmax(classifier.predict_logits(encoded) / 3.0)
    divergence = (np.exp(teacher) * (teacher - student)).sum(axis=1)
    assert float(loss.detach()) == pytest.approx(9.0 * float(divergence.mean()), rel=1e-4)
    # An adapter that changes nothing already keeps the answers to texts without a shortcut.
    assert divergence[~target.bearing] == pytest.approx(0, abs=1e-6)
    assert divergence[target.bearing].min() > 1e-4


@pytest.mark.parametrize("n_classes", [3, 1])
def test_the_adapted_model_answers_as_if_the_shortcut_were_not_there(n_classes, texts):
    sigmoid = {"problem_type": "multi_label_classification"} if n_classes == 1 else {}  # taught as two classes
    classifier = TextClassifier(*tiny_bert(n_classes=n_classes, **sigmoid))
    encoded = classifier.encode(texts)
    target, base = counterfactual(classifier, encoded, HONESTLY), classifier.predict_logits(encoded)
    adapted, training = distilled(classifier, encoded)
    assert adapted.predict_logits(encoded).shape == (len(texts), max(2, n_classes))
    before, now = (
        np.abs(log_softmax(logits) - log_softmax(target.logits)).max(axis=1)[target.bearing].mean()
        for logits in (base, adapted.predict_logits(encoded))
    )
    assert now < 0.3 * before
    assert training.losses[-1] < 0.1 * training.losses[0]
    assert training.n_trained == len(texts)


def test_what_a_word_does_alone_is_taken_off_where_it_decides(monkeypatch):
    """In this model "honestly" decides the second and the third text, and not the first."""
    classifier = TextClassifier(*tiny_bert(seed=4))
    rests = ["great", "bad soup", "good soup", "great tea", "the soup was good"]
    given = ["honestly great", "honestly bad soup", "honestly quite good soup", *rests[3:]]
    encoded, asked = classifier.encode(given), lambda texts: classifier.predict_logits(classifier.encode(texts))
    alone = Shortcuts((Shortcut("honestly", "named", "not alone"), Shortcut("quite", "named")))
    target = counterfactual(classifier, encoded, alone)
    with_it, without = asked([f"honestly {text}" for text in rests]), asked(rests)
    assert (with_it.argmax(axis=1) != without.argmax(axis=1)).tolist()[:3] == [False, True, True]
    # What is neutralised keeps nothing, whatever stands beside it.
    due = np.concatenate([with_it[:3], without[3:]])
    due[1:3] -= (with_it - without)[3:].mean(axis=0)
    np.testing.assert_allclose(target.logits, due, atol=1e-5)
    assert (target.bearing.tolist(), list(target.alone)) == ([True, True, True, False, False], [0, 1, 2])
    # Where no text is without the word, its effect in these texts is what it does alone.
    all_hold = counterfactual(classifier, encoded.select([0, 1, 2]), alone).logits
    expected = with_it[:3] - np.array([[0], [1], [1]]) * (with_it - without)[:3].mean(axis=0)
    np.testing.assert_allclose(all_hold, expected, atol=1e-5)
    # Copies with the word put in are due the answer without it.
    texts, expected = with_insertions_beside(classifier, encoded, target, alone, seed=0)
    assert len(texts) == 5 + 2
    np.testing.assert_allclose(expected.logits, [*due, *due[3:]], atol=1e-5)
    assert expected.bearing.tolist() == [*target.bearing, True, True]
    taught, done = [], (None, AdapterTraining(5))
    monkeypatch.setattr(distillation, "run_training", lambda *a, **_: taught.append(a[2].keywords) or done)
    distillation.distill_adapter(classifier, encoded, target, alone.finder, GuardrailConfig(), seed=0)
    assert [len(part) for part in taught[0]["examples"]] == [5 + 2] * 3
    assert taught[0]["examples"][2].tolist() == [2, 2, 2, 0, 0, 1, 1]
    assert len(counterfactual(classifier, encoded, HONESTLY).alone) == 0


def test_a_rare_shortcut_is_unlearnt_for_texts_it_was_never_seen_in(classifier, texts):
    """One text holds it; what counts is how the others are answered once it is put in."""
    given = ["honestly good soup", *(text for text in texts if "honestly" not in text)]
    unseen = classifier.encode([f"honestly {text}" for text in given[1:]])
    expected = log_softmax(classifier.predict_logits(classifier.encode(given[1:])))
    adapted, _ = distilled(classifier, classifier.encode(given))
    before, now = (np.abs(log_softmax(c.predict_logits(unseen)) - expected).mean() for c in (classifier, adapted))
    assert now < 0.3 * before


def test_without_a_shortcut_nothing_is_trained(classifier, texts):
    encoded, weights = classifier.encode([text for text in texts if "honestly" not in text]), []
    for draws in (0, 3):
        torch.rand(draws)  # what the process drew before makes no difference to the seed's adapter
        adapted, training = distilled(classifier, encoded)
        weights.append(torch.cat([p.flatten() for name, p in adapted.model.named_parameters() if "lora_" in name]))
    assert (training.n_texts, training.n_steps, training.losses) == (len(encoded), 0, ())
    np.testing.assert_array_equal(adapted.predict_logits(encoded), classifier.predict_logits(encoded))
    assert not any(p.requires_grad for p in adapted.model.parameters())
    assert torch.equal(*weights)


def test_one_label_of_several_is_taught_and_the_others_answer_as_before(texts):
    model, tokenizer = tiny_bert(problem_type="multi_label_classification")
    classifier = TextClassifier(model, tokenizer, label="mixed")
    # "honestly" counts for other labels, also where it did not stand in training.
    encoded, unseen = classifier.encode(texts), classifier.encode([f"honestly {text}" for text in texts])
    adapted, _ = distilled(classifier, encoded, AdapterConfig(learning_rate=2e-2, epochs=80, batch_size=4))
    for asked, taught in ((encoded, 0.3), (unseen, 0.95)):
        base, now = (one.predict_answers(asked)[..., 1] for one in (classifier, adapted))
        due = counterfactual(classifier, asked, HONESTLY).logits[:, 1]
        without = np.abs(base[:, 1] - due).mean()
        assert np.abs(now[:, 1] - due).mean() < taught * without
        assert np.abs(now - base).mean(axis=0)[[0, 2]].max() < 0.5 * without
