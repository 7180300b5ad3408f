"""Scores against algebra, the margin against cross-entropy, and what may be chosen."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortcut_guardrail import SaliencyConfig, TextClassifier
from shortcut_guardrail.attribution.saliency import (
    find_important_tokens,
    margin,
    pad_units,
    token_scores,
    top_positions,
)
from shortcut_guardrail.text.units import words_as_units
from tiny_models import tiny_bert


def test_scores_of_a_bag_of_words_are_one_line_of_algebra(bag):
    classifier = TextClassifier(*bag)
    encoded = classifier.encode(["honestly good soup"])
    batch = classifier.collate(encoded, [0])
    result = token_scores(classifier, batch)
    # logits = W @ sum(e): the margin's gradient is W[1] - W[0] = (1, 0) for every token.
    vectors = classifier.model.get_input_embeddings()(batch.input_ids)[0]
    torch.testing.assert_close(result.scores[0], vectors[:, 0].abs())
    found = find_important_tokens(classifier, encoded, SaliencyConfig(top_k=2))
    assert [encoded.token_text(0, p) for p in found.positions[0]] == ["honestly", "good"]
    np.testing.assert_allclose(found.margin_scores, [[4, 1]], rtol=1e-5)
    np.testing.assert_allclose(found.scores, found.margin_scores / (1 + np.exp(5)), rtol=1e-5)
    sure = find_important_tokens(classifier, classifier.encode(["honestly " * 5]))  # 1 - p rounds to 0 in 32 bit
    np.testing.assert_allclose(sure.scores[0, :5], 4 * np.exp(-20), rtol=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 5))
def test_the_margin_form_equals_the_cross_entropy_gradient(seed, n_classes):
    model, tokenizer = tiny_bert(n_classes=n_classes, seed=seed)
    model = model.double()
    classifier = TextClassifier(model, tokenizer)
    batch = classifier.collate(classifier.encode(["honestly the soup was not very good", "we would come back"]), [0, 1])
    # Both sides in 64 bit, where cross-entropy has not lost its gradient yet.
    with classifier.word_embedding_leaf() as leaves:
        logits = classifier.model(**batch.model_inputs()).logits
        loss = torch.nn.functional.cross_entropy(logits, logits.argmax(-1), reduction="sum")
        (of_loss,) = torch.autograd.grad(loss, leaves[0], retain_graph=True)
        (of_margin,) = torch.autograd.grad(margin(logits).sum(), leaves[0])
    probability = logits.softmax(-1).max(-1).values
    torch.testing.assert_close(of_loss, -(1 - probability)[:, None, None] * of_margin, rtol=1e-6, atol=1e-12)


def test_a_confident_prediction_keeps_its_ranking_with_the_margin_only(texts):
    # With two classes the margin is linear in the head, so a head 1,000 times larger has scores 1,000 times larger.
    model, tokenizer = tiny_bert(n_classes=2)
    classifier = TextClassifier(model, tokenizer)
    batch = classifier.collate(classifier.encode(texts), range(len(texts)))
    reference = token_scores(classifier, batch).scores
    with torch.no_grad():
        model.classifier.weight *= 1000
        model.classifier.bias *= 1000
    torch.testing.assert_close(token_scores(classifier, batch).scores / 1000, reference, rtol=1e-3, atol=1e-4)
    # The formula as printed: 1 - p rounds to 0, and every score with it.
    literal = token_scores(classifier, batch, SaliencyConfig(gradient="cross_entropy")).scores
    assert float(literal.max()) == 0.0


def test_ties_go_to_the_earlier_token():
    scores, ordinary = torch.tensor([[9.0, 1.0, 2.0, 1.0, 2.0]]), torch.tensor([[False, True, True, True, True]])
    assert top_positions(scores, ordinary, 3).tolist() == [[2, 4, 1]]


def test_what_a_guard_took_out_of_a_batch_is_of_no_unit(bag):
    classifier = TextClassifier(*bag)
    encoded = classifier.encode(["honestly good soup"])
    batch, units = classifier.collate(encoded, [0]), words_as_units(encoded)
    assert pad_units(units, batch).tolist() == [[-1, 0, 1, 2, -1]]
    batch.ordinary[0, 1] = False
    assert pad_units(units, batch).tolist() == [[-1, -1, 1, 2, -1]]
