"""Heads that can give a text several labels: one is asked about, all are read."""

import numpy as np
import pytest
import torch

from shortcut_guardrail import ConfigError, DataError, ShortcutGuardrail, TextClassifier
from shortcut_guardrail.audit.auditing import model_digest
from tiny_models import tiny_bert


@pytest.mark.parametrize("asked", [{}, {"head": "sigmoid"}])
def test_each_label_is_a_question_of_its_own(texts, asked):
    model, tokenizer = tiny_bert(**({} if asked else {"problem_type": "multi_label_classification"}))
    classifier = TextClassifier(model, tokenizer, **asked, label="mixed", thresholds="mixed=0.9")
    assert (classifier.head, classifier.heads.own_thresholds) == ("sigmoid", {"mixed": 0.9})
    assert classifier.label_names == ("not mixed", "mixed")
    with torch.no_grad():
        raw = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.sigmoid().numpy()
    encoded = classifier.encode(texts)
    found = classifier.heads.probabilities(torch.from_numpy(classifier.predict_answers(encoded)))[..., 1]
    np.testing.assert_allclose(found, raw, atol=1e-5, rtol=1e-4)
    # The threshold decides, of the label that is asked about and of others.
    for label, place, threshold in (("mixed", 1, 0.9), ("positive", 2, 0.5)):
        decided = classifier.about(label).predict_logits(encoded).argmax(axis=1)
        np.testing.assert_array_equal(decided, raw[:, place] > threshold)
        assert (decided != (raw[:, place] > 0.5)).any() == (threshold != 0.5)
    twins = (classifier, classifier.about("positive"), TextClassifier(model, tokenizer, **asked, label="mixed"))
    assert (len({model_digest(twin) for twin in twins}), len({twin.fingerprint() for twin in twins})) == (3, 1)
    with pytest.raises(ConfigError, match="one question"):
        ShortcutGuardrail(*tiny_bert()).about("positive")


def test_labels_are_read_from_lists_of_them():
    classifier = TextClassifier(*tiny_bert(problem_type="multi_label_classification"), label="mixed")
    for labels in (
        [["mixed"], [], ["positive", "Mixed "], ["negative"]],
        ['["mixed"]', "[]", '["positive", "mixed"]', '["negative"]'],
        *[np.array([[0, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 0]]), ["mixed", "not mixed", "Mixed", "not mixed"]],
        [1, 0, 1, 0],
    ):
        assert classifier.label_ids(labels).tolist() == [1, 0, 1, 0]
    for labels, said in (
        ([["mixd"], []], r"position 0: the model has no label 'mixd' \(it has: negative, mixed, positive\).*'mixed'"),
        ([[0, 1], []], "position 0: the model has no label '0' .* List names of labels, or 3 numbers 0 and 1"),
        ([[], [0, 1, 2]], "position 1: the model has no label '0'"),
    ):
        with pytest.raises(DataError, match=said):
            classifier.label_ids(labels)
