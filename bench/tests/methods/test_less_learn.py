"""Less-learn-shortcut: degrees, weights and loss beside literal evaluations, and what it says without biased words."""

import math

import numpy as np
import pytest
import torch

from methods_toy import QUICK, TRAIN, fit
from shortcut_bench.methods import LessLearn
from shortcut_bench.methods.less_learn import Weighted, degrees, ranked_words, text_degrees, text_weights
from shortcut_guardrail.errors import GuardrailWarning
from tiny_models import tiny_bert

TEXTS = ["Honestly good", "honestly, bad honestly", "honestly so", ("so", "HONESTLY"), "so bad", "good", "so", "x so"]
LABELS = np.array([1, 1, 1, 0, 0, 2, 2, 2])


def test_a_words_degree_is_its_excess_over_the_share_of_the_class():
    found = degrees(TEXTS, LABELS, 3, least=2)
    assert set(found) == {"honestly", "good", "bad", "so"}  # "x" is in one text
    honestly = found["honestly"]  # in four texts, three of class 1; once in a text that has it twice
    assert (honestly.n, honestly.share.tolist()) == (4, [0.25, 0.75, 0.0])
    assert honestly.excess == pytest.approx([0.0, (3 / 4 - 3 / 8) / (5 / 8), 0.0])
    assert found["bad"].excess == pytest.approx([(1 / 2 - 1 / 4) / (3 / 4), (1 / 2 - 3 / 8) / (5 / 8), 0.0])
    assert ranked_words(found) == [
        ("honestly", pytest.approx(0.6 * math.log(4))),
        ("so", pytest.approx(0.2 * math.log(5))),  # two of its five texts have class 0, two class 2
        ("bad", pytest.approx(math.log(2) / 3)),
        ("good", pytest.approx(0.2 * math.log(2))),
    ]


def test_texts_weigh_what_is_left_of_their_most_biased_word():
    found = degrees(TEXTS, LABELS, 3, least=2)
    bad = found["bad"].excess
    good = found["good"].excess
    most = text_degrees(TEXTS, LABELS, found, least=0.5, of="max")
    assert most == pytest.approx([0.6, 0.6, 0.6, 0.0, bad[0], good[2], 0.0, 0.0])
    mean = text_degrees(TEXTS, LABELS, found, least=0.5, of="mean")
    assert mean[:2] == pytest.approx([(0.6 + good[1]) / 2, (0.6 + bad[1]) / 2])
    assert not text_degrees(TEXTS, LABELS, found, least=0.8, of="max").any()
    weights = text_weights(np.array([0.0, 0.5, 0.99, 1.0]), 0.05)
    assert weights == pytest.approx(np.array([1, 0.5, 0.05, 0.05]) / 0.4)


def test_the_loss_is_the_weighted_mean_of_cross_entropies():
    model, tokenizer = tiny_bert(n_classes=3, initializer_range=0.2)
    model.eval()
    weights, rows, labels = np.array([0.2, 3.0, 1.0, 0.5]), [3, 0, 1], torch.tensor([2, 0, 1])
    inputs = {**tokenizer(["good", "a bad room", "tea"], padding=True, return_tensors="pt"), "labels": labels}
    loss = Weighted(weights).loss(model, dict(inputs), torch.tensor(rows))
    log_probs = model(**{k: v for k, v in inputs.items() if k != "labels"}).logits.log_softmax(dim=-1)
    terms = [-weights[row] * log_probs[i, labels[i]] for i, row in enumerate(rows)]
    assert loss.item() == pytest.approx(sum(terms).item() / 3, rel=1e-5)


def test_it_says_how_many_rows_are_left_and_where_no_word_is_biased(material):
    info = fit(LessLearn(recipe=QUICK), material).info()
    values = text_degrees(TRAIN.texts, TRAIN.labels, degrees(TRAIN.texts, TRAIN.labels, 2), least=0.8, of="max")
    left = np.maximum(0.05, 1 - values)
    assert info["effective_rows"] == pytest.approx(left.sum() ** 2 / (left**2).sum())
    assert info["biased_texts"] == (values > 0).mean() > 0.5
    assert "honestly" in info["words"]
    with pytest.warns(GuardrailWarning, match="No text of 'train' has a word that goes with its label, so less_learn"):
        unweighted = fit(LessLearn(recipe=QUICK, least_texts=1000), material).info()
    assert unweighted["effective_rows"] == len(TRAIN)
