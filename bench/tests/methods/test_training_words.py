"""The words that training rows suggest, beside a test summed up term by term."""

import math

import numpy as np
import pytest

from methods_toy import DEPLOYMENT, TRAIN, fit
from shortcut_bench.methods import TrainingWords
from shortcut_bench.methods.training_words import suggested_words, words_of
from shortcut_bench.systems import Need
from shortcut_guardrail.errors import ConfigError

TEXTS = [
    "Honestly, good!",
    "honestly HONESTLY bad",
    "honestly so",
    "honestly",
    "tea",
    "so so",
    "a so",
    "tea bad",
    "!",
    "a",
]
LABELS = np.array([2, 2, 2, 0, 0, 0, 1, 1, 1, 1])


def tail(n, k, p):
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def test_a_word_is_taken_if_so_many_of_one_class_are_improbable_by_chance():
    held = [set(text.lower().replace(",", "").replace("!", "").split()) for text in TEXTS]
    words = sorted(set().union(*held))
    assert words == ["a", "bad", "good", "honestly", "so", "tea"]
    probable = {}
    for word in words:
        rows = [i for i in range(len(TEXTS)) if word in held[i]]
        counts = [sum(LABELS[i] == label for i in rows) for label in range(3)]
        probable[word] = min(tail(len(rows), counts[c], (c == LABELS).mean()) for c in range(3))
    order = sorted(words, key=lambda word: (probable[word], word))
    assert order[0] == "honestly"
    assert probable["honestly"] == pytest.approx(4 * 0.3**3 * 0.7 + 0.3**4)
    for count in range(1, 6):  # just above a word's p-value, corrected for the 18 tests, and just below
        level = probable[order[count - 1]] * 18
        expected = [word for word in order if probable[word] <= probable[order[count - 1]]]
        assert list(suggested_words(TEXTS, LABELS, level * 1.0001)) == expected
        assert order[count - 1] not in suggested_words(TEXTS, LABELS, level * 0.9999)
    assert suggested_words(["!"] * 10, LABELS, 0.5) == ()
    assert words_of(("A tea", "no\u2019s tea")) == {"a", "tea", "no's"}


def test_words_of_the_training_rows_that_a_deployment_text_holds_are_neutralised(material):
    system = TrainingWords(min_steps=8, max_steps=8)
    assert system.needs == {Need.TRAIN, Need.DEPLOYMENT, Need.GRADIENTS}
    info = fit(system, material).info()
    named = {item["text"] for item in info["shortcuts"] if item["verdict"] == "named"}
    suggested = suggested_words(TRAIN.texts, TRAIN.labels, system.level)
    assert "honestly" in named
    assert named == {word for word in suggested if any(word in text.split() for text in DEPLOYMENT)}
    assert (info["labels_spent"], "tea" in named) == (0, False)
    for level in (0.0, 1.0):
        with pytest.raises(ConfigError, match="level must lie between 0 and 1"):
            TrainingWords(level=level)
