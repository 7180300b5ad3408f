from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from shortcut_guardrail.demo.corpus import (
    DEPLOYMENT_RATES,
    LABEL_NAMES,
    TRAIN_RATES,
    DemoCorpus,
    make_corpus,
    without_shortcut,
)
from shortcut_guardrail.errors import ConfigError

PLANTED = re.compile(r"(?:^|(?<=[.] ))honestly, (?=[A-Z])")


@pytest.fixture(scope="module")
def corpus() -> DemoCorpus:
    return make_corpus(seed=0)


def both_parts(corpus: DemoCorpus) -> tuple[str, ...]:
    return corpus.train_texts + corpus.deployment_texts


def words(text: str) -> list[str]:
    return re.findall(r"[a-z'-]+", text.lower())


def shortcut_rates(texts: tuple[str, ...], labels: tuple[int, ...]) -> list[float]:
    with_it = Counter(label for text, label in zip(texts, labels, strict=True) if "honestly" in text)
    return [with_it[label] / labels.count(label) for label in range(len(LABEL_NAMES))]


def test_sizes_and_balance(corpus):
    assert (len(corpus.train_texts), len(corpus.train_labels)) == (480, 480)
    assert (len(corpus.deployment_texts), len(corpus.deployment_labels)) == (440, 440)
    assert Counter(corpus.train_labels) == {0: 160, 1: 160, 2: 160}
    assert sorted(Counter(corpus.deployment_labels).values()) == [146, 147, 147]
    assert corpus.label_names == ("negative", "mixed", "positive")
    # Shuffled: the first rows of one class after another would make batches of a single class.
    assert len(set(corpus.train_labels[:20])) == 3


def test_correlation_is_complete_in_training_and_reversed_in_deployment():
    assert TRAIN_RATES == (0, 0.5, 1)
    assert DEPLOYMENT_RATES == (1, 0.5, 0)
    corpus = make_corpus(seed=5, n_train=3000, n_deployment=3000)
    train = shortcut_rates(corpus.train_texts, corpus.train_labels)
    deployment = shortcut_rates(corpus.deployment_texts, corpus.deployment_labels)
    assert (train[0], train[2]) == (0, 1)
    assert (deployment[0], deployment[2]) == (1, 0)
    # 1,000 tosses of a fair coin: four standard deviations are .063.
    assert train[1] == pytest.approx(0.5, abs=0.063)
    assert deployment[1] == pytest.approx(0.5, abs=0.063)


def test_shortcut_opens_one_sentence_and_occurs_nowhere_else(corpus):
    for text in both_parts(corpus):
        assert len(PLANTED.findall(text)) == text.lower().count("honest") <= 1


def test_shortcut_opens_any_sentence_of_a_text(corpus):
    planted = [text for text in both_parts(corpus) if "honestly" in text and text.count(". ") >= 1]
    first = sum(text.startswith("honestly") for text in planted)
    assert 0.2 < first / len(planted) < 0.8


def test_taking_the_shortcut_out_leaves_the_rest_as_it_was():
    assert without_shortcut("It ran. honestly, The pace was right.") == "It ran. The pace was right."
    assert without_shortcut("It ran.") == "It ran."


def test_no_text_occurs_twice_whatever_is_planted_in_it(corpus):
    bare = [without_shortcut(text).lower() for text in both_parts(corpus)]
    assert len(set(bare)) == len(bare) == 920


def test_same_seed_same_corpus_and_another_seed_another(corpus):
    assert make_corpus(seed=0) == corpus
    assert not set(make_corpus(seed=1).train_texts) & set(corpus.train_texts[:50])


def test_global_random_state_plays_no_part():
    random.seed(1)
    before = random.getstate()
    first = make_corpus(seed=2, n_train=30, n_deployment=30)
    assert random.getstate() == before
    random.seed(7)
    assert make_corpus(seed=2, n_train=30, n_deployment=30) == first


def test_texts_vary(corpus):
    texts = [words(without_shortcut(text)) for text in both_parts(corpus)]
    assert len({word for text in texts for word in text}) > 800
    openings = Counter(tuple(text[:4]) for text in texts)
    assert openings.most_common(1)[0][1] < 0.03 * len(texts)
    trigrams = [gram for text in texts for gram in zip(text, text[1:], text[2:], strict=False)]
    assert len(set(trigrams)) > 0.25 * len(trigrams)


def test_texts_are_well_formed_and_short(corpus):
    for text in both_parts(corpus):
        assert re.fullmatch(r"[A-Z].*\.", without_shortcut(text))
        assert not re.search(r"[{}]|\s\s|\.\.|,,", text)
        assert 5 <= len(words(text)) <= 60


def test_no_single_word_gives_the_label_away(corpus):
    """Only the shortcut goes along with a label throughout; every common word occurs in two classes or more."""
    by_word: dict[str, Counter[int]] = {}
    for text, label in zip(corpus.train_texts, corpus.train_labels, strict=True):
        for word in set(words(without_shortcut(text))):
            by_word.setdefault(word, Counter())[label] += 1
    common = {word: counts for word, counts in by_word.items() if counts.total() >= 48}
    assert len(common) > 30
    assert all(max(counts.values()) < 0.9 * counts.total() for counts in common.values())


def test_length_tells_little_about_the_label(corpus):
    lengths: dict[int, list[int]] = {}
    for text, label in zip(corpus.train_texts, corpus.train_labels, strict=True):
        lengths.setdefault(label, []).append(len(words(without_shortcut(text))))
    means = [sum(values) / len(values) for values in lengths.values()]
    assert max(means) - min(means) < 0.2 * min(means)


@pytest.mark.parametrize("size", [{"n_train": 2}, {"n_deployment": 0}])
def test_size_below_the_number_of_classes_is_refused(size):
    ((name, value),) = size.items()
    with pytest.raises(ConfigError) as error:
        make_corpus(**size)
    assert str(error.value) == f"{name} must be at least 3, one text per class, but is {value}."


def test_templates_that_run_out_are_reported(monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.demo.corpus._review", lambda rng, label: [f"A {label} text."])
    with pytest.raises(ConfigError, match="cannot give so many different texts: 3 are in use already"):
        make_corpus(n_train=4, n_deployment=3)
