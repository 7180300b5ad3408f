"""What needs no fine-tuning, beside its formulas evaluated word by word and text by text."""

import dataclasses
import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from methods_toy import NAMES, REVERSED, SUPPORT, TRAIN, fit
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.finetuning.training import load_encoder
from shortcut_bench.methods import BagOfWords, FrozenHead, MostFrequent, ZeroShot, load_fitted
from shortcut_bench.methods.last_resort import logistic
from shortcut_bench.systems import Need
from shortcut_guardrail.errors import ConfigError, DataError


def softmax(values):
    powers = np.exp(values - np.max(values))
    return powers / powers.sum()


def test_every_text_gets_the_shares_of_the_training_rows(material):
    uneven = TRAIN.select(np.flatnonzero((TRAIN.labels == 1) | (np.arange(len(TRAIN)) % 3 == 0)))
    shares = [sum(label == one for label in uneven.labels) / len(uneven) for one in (0, 1)]
    found = fit(MostFrequent(), dataclasses.replace(material, train=uneven)).predict_proba(REVERSED.texts)
    assert found == pytest.approx(np.tile(shares, (len(REVERSED), 1)))
    assert shares[0] < shares[1]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_logistic_regression_is_where_its_penalised_likelihood_is_flat(n_classes):
    rng = np.random.default_rng(0)
    values, labels, strength = rng.normal(size=(60, 4)), rng.integers(0, n_classes, size=60), 3.0
    weight, bias = logistic(values, labels, n_classes, strength)

    def objective(moved, at):
        losses = [-math.log(softmax(moved @ row + at)[y]) for row, y in zip(values, labels, strict=True)]
        # With two classes the penalty is on the one vector between them, which the first row's zeros stand for.
        return strength * sum(losses) + (moved**2).sum() / 2

    least = objective(weight, bias)
    for step in (-1e-2, 1e-2):
        for c in range(1 if n_classes == 2 else 0, n_classes):
            assert objective(weight, bias + step * np.eye(n_classes)[c]) > least
            for h in range(4):
                moved = weight.copy()
                moved[c, h] += step
                assert objective(moved, bias) > least


def terms_of(text):
    words = re.findall(r"\w\w+", text.lower())
    return [*words, *(" ".join(pair) for pair in pairwise(words))]


def test_a_bag_of_words_is_tf_idf_and_a_linear_map(material, tmp_path):
    pairs = [(text, f"and {text} again") for text in TRAIN.texts]
    given = dataclasses.replace(material, train=dataclasses.replace(TRAIN, texts=pairs))
    system = fit(BagOfWords(), given)
    documents = [Counter(terms_of(" ".join(pair))) for pair in pairs]
    held = Counter(term for counts in documents for term in counts)
    assert set(system.vocabulary) == {term for term, n in held.items() if n >= 2}
    idf = {term: math.log((1 + len(pairs)) / (1 + held[term])) + 1 for term in system.vocabulary}

    def vector(text):
        counts = Counter(terms_of(text))
        raw = [(1 + math.log(counts[t])) * idf[t] if counts[t] else 0.0 for t in system.vocabulary]
        return np.array(raw) / max(math.sqrt(sum(value * value for value in raw)), 1e-12)

    head = logistic(np.stack([vector(" ".join(pair)) for pair in pairs]), TRAIN.labels, 2, 4.0)
    texts = ["the honestly rude soup", "nothing of it known"]
    expected = np.stack([softmax(head[0] @ vector(text) + head[1]) for text in texts])
    assert system.predict_proba(texts) == pytest.approx(expected, abs=1e-4)
    assert abs(expected[0, 0] - expected[1, 0]) > 0.05
    assert system.predict_proba([]).shape == (0, 2)
    system.save(tmp_path / "words")
    assert np.array_equal(load_fitted(tmp_path / "words").predict_proba(texts), system.predict_proba(texts))
    (tmp_path / "words" / "words.safetensors").write_bytes(b"cut")
    with pytest.raises(ConfigError, match="was not written by save"):
        load_fitted(tmp_path / "words")


def sentence_vector(model, tokenizer, text):
    """The mean of the last hidden states of one text by itself, over its length."""
    with torch.no_grad():
        states = model.bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
    mean = sum(states) / len(states)
    return mean / np.linalg.norm(mean)


@pytest.mark.parametrize("rows", ["train", "support"])
def test_a_frozen_head_reads_mean_vectors_of_the_pretrained_encoder(rows, material):
    method = FrozenHead(rows=rows)
    assert method.needs == {Need(rows)}
    system = fit(method, material)
    given = {"train": TRAIN, "support": SUPPORT}[rows]
    assert system.info()["labels_spent"] == (40 if rows == "support" else 0)
    assert system.forward_equivalents == len(given)
    start = load_encoder(material.encoder, NAMES, seed=0)
    vectors = np.stack([sentence_vector(*start, text) for text in given.texts])
    weight, bias = logistic(vectors, given.labels, 2, 10.0)
    expected = [softmax(weight @ sentence_vector(*start, text) + bias) for text in REVERSED.texts[:9]]
    assert system.predict_proba(REVERSED.texts)[:9] == pytest.approx(np.stack(expected), abs=1e-3)
    assert np.ptp(expected, axis=0).max() > 0.05


def test_zero_shot_is_a_softmax_of_cosines_with_the_names(material):
    system = fit(ZeroShot(), material)
    assert ZeroShot().needs == frozenset()
    start = load_encoder(material.encoder, NAMES, seed=0)
    names = [sentence_vector(*start, name) for name in NAMES]
    expected = [softmax([20 * (name @ sentence_vector(*start, text)) for name in names]) for text in REVERSED.texts[:9]]
    assert system.predict_proba(REVERSED.texts[:9]) == pytest.approx(np.stack(expected), abs=1e-4)
    assert fit(ZeroShot(sharpness=1.0), material).predict_proba(REVERSED.texts[:9]) != pytest.approx(
        np.stack(expected), abs=1e-3
    )


def test_a_class_without_rows_is_never_answered(material):
    three = ("negative", "positive", "cold")
    given = dataclasses.replace(SUPPORT, label_names=three)
    system = fit(FrozenHead(rows="support"), dataclasses.replace(material, support=given, label_names=three))
    found = system.predict_proba(REVERSED.texts)
    assert found.shape == (len(REVERSED), 3)
    assert found[:, 2].max() == 0
    assert found[:, :2].min() > 0


@pytest.mark.parametrize("method", [BagOfWords(), FrozenHead(), FrozenHead(rows="support")])
def test_rows_of_a_single_class_are_refused(method, material):
    single = SUPPORT.select(np.flatnonzero(SUPPORT.labels == 0))
    with pytest.raises(DataError, match="needs rows of at least two classes, but all 20"):
        fit(method, dataclasses.replace(material, train=single, support=single))


def test_rows_without_a_common_word_are_refused(material):
    rows = LabelledTexts("few", ["one", "two"], np.array([0, 1]), NAMES, np.array([-1, -1]), ())
    with pytest.raises(DataError, match="needs words that two rows of 'few' hold"):
        fit(BagOfWords(), dataclasses.replace(material, train=rows))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FrozenHead(rows="dev"), "rows must be train or support"),
        (lambda: FrozenHead(inverse_strength=0.0), "inverse_strength must be above 0"),
        (lambda: BagOfWords(inverse_strength=-1.0), "inverse_strength must be above 0"),
        (lambda: ZeroShot(sharpness=0.0), "sharpness must be above 0"),
    ],
)
def test_options_out_of_range_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
