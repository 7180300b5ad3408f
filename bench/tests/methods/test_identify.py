"""Identify and mitigate: scores of words beside a literal evaluation, what is masked, and whose attention is read."""

import math

import numpy as np
import pytest
import torch

from methods_toy import QUICK, TRAIN, fit
from shortcut_bench.methods import IdentifyMitigate
from shortcut_bench.methods.identify import (
    attended_words,
    corpus_scores,
    masked_texts,
    ranked_words,
    word_importance,
    word_scores,
)
from shortcut_bench.systems import Need
from shortcut_guardrail.models import TextClassifier
from tiny_models import tiny_bert

WORDS = [[("a", 0.5), ("b", 0.2), ("a", 0.1)], [("a", 0.4), ("c", 0.3)], [("b", 0.6)]]


def test_importance_is_what_one_class_has_beyond_the_others_an_occurrence():
    two = word_importance(WORDS, np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]))
    assert two["a"] == (pytest.approx(abs(0.6 * 0.9 - 0.4 * 0.8) / 3), 3)
    assert two["b"] == (pytest.approx((0.2 * 0.9 + 0.6 * 0.7) / 2), 2)
    assert two["c"] == (pytest.approx(0.3 * 0.8), 1)
    three = word_importance(WORDS, np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.0], [0.3, 0.2, 0.5]]))
    assert three["a"] == (pytest.approx((0.6 * 0.9 - 0.4 * 0.8 / 2) / 3), 3)
    assert three["b"] == (pytest.approx((0.6 * 0.5 - 0.2 * 0.9 / 2) / 2), 2)


def test_scores_are_logarithms_less_rarity_and_a_second_corpus_is_taken_off():
    raw = {"x": math.log(0.6) - 4 / math.log(4), "y": math.log(0.3) - 4 / math.log(11)}
    raw["z"] = math.log(0.1) - 4 / math.log(2)
    found = word_scores({"x": (1.2, 3), "y": (0.6, 10), "z": (0.2, 1), "nil": (0.0, 5)})
    low, high = min(raw.values()), max(raw.values())
    assert found == pytest.approx({word: (value - low) / (high - low) for word, value in raw.items()})
    assert max(found, key=found.get) == "y"
    assert word_scores({"nil": (0.0, 5)}) == {}
    assert ranked_words({"y": 1.0, "x": 0.75, "z": 0.0}, {"y": 0.5, "other": 1.0}) == [
        ("x", 0.75),
        ("y", 0.5),
        ("z", 0.0),
    ]


def test_attention_of_a_word_is_the_first_tokens_to_its_pieces():
    model, tokenizer = tiny_bert(n_classes=2, initializer_range=0.2)
    classifier = TextClassifier(model.eval(), tokenizer, max_length=16)
    text = "the Room was good, the room"
    (found,) = attended_words(classifier, classifier.encode([text]))
    model.set_attn_implementation("eager")
    given = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    spans = given.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        attention = model(**given, output_attentions=True).attentions[-1][0, :, 0].mean(dim=0)
    at, literal = 0, []
    for word in ("the", "Room", "was", "good", "the", "room"):
        at = text.index(word, at)
        inside = [
            float(a) for a, (s, e) in zip(attention, spans, strict=True) if e > s and at <= s and e <= at + len(word)
        ]
        literal.append((word.lower(), pytest.approx(sum(inside), abs=1e-5)))
        at += len(word)
    assert found == literal


def test_every_occurrence_is_masked_and_texts_are_counted():
    texts, n = masked_texts(["Honestly good, honestly!", "so good"], ["honestly", "bad"], "[MASK]")
    assert (texts, n) == (["[MASK] good, [MASK]!", "so good"], 1)
    assert masked_texts([("bad", "x"), ("x", "y")], ["bad"], "[M]") == ([("[M]", "x"), ("x", "y")], 1)


def test_the_words_are_the_first_of_the_ranking_and_it_costs_what_the_page_says(material):
    method = IdentifyMitigate(recipe=QUICK, n_words=3)
    base = material.base.text_classifier()
    source, other = (corpus_scores(base, texts) for texts in (TRAIN.texts, material.deployment))
    found = fit(method, material)
    info = found.info()
    assert info["words"] == [word for word, _ in ranked_words(source, other)[:3]]
    assert info["masked_texts"] == masked_texts(TRAIN.texts, info["words"], "[MASK]")[1] > 0
    assert found.forward_equivalents == 2 * (len(TRAIN) + len(material.deployment)) + 3 * len(TRAIN)
    alone = IdentifyMitigate(recipe=QUICK, n_words=3, second_corpus=False)
    assert alone.needs == {Need.TRAIN, Need.GRADIENTS}
    assert fit(alone, material).info()["words"] == [word for word, _ in ranked_words(source)[:3]]
