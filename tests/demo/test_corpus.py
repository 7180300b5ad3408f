from __future__ import annotations

import hashlib
import random
import re
from collections import Counter

import pytest

from shortcut_guardrail.demo.corpus import REVERSED, SIZES, TRAIN, DemoCorpus, Part, groups_of, make_corpus

PLANTED = re.compile(r"(?:^|(?<=[.] ))honestly, (?=[A-Z])")


@pytest.fixture(scope="module")
def corpus() -> DemoCorpus:
    return make_corpus(seed=10)  # the demo is reported on seeds 0 to 2, and designed on others


def all_texts(corpus: DemoCorpus) -> tuple[str, ...]:
    return tuple(text for part in vars(corpus).values() for text in part.texts)


def labelled(part: Part) -> zip[tuple[str, int]]:
    return zip(part.texts, part.labels, strict=True)


def without_shortcut(text: str) -> str:
    return text.replace("honestly, ", "")


def words(text: str) -> list[str]:
    return re.findall(r"[a-z'-]+", text.lower())


def agreement(part: Part) -> float:
    return sum(("honestly" in text) == (label == 1) for text, label in labelled(part)) / len(part.texts)


def test_sizes_and_shuffling(corpus):
    assert {name: len(part.texts) for name, part in vars(corpus).items()} == SIZES
    assert all(len(part.texts) == len(part.labels) for part in vars(corpus).values())
    assert len(corpus.in_distribution.texts) >= 1000
    # The first rows of one class after another would make batches of a single class.
    assert all(len(set(part.labels[:20])) == 2 for part in vars(corpus).values())


def test_shortcut_goes_along_with_nine_labels_in_ten_in_training_and_not_in_deployment(corpus):
    assert 0.9 <= agreement(corpus.train) <= 0.95
    # In training the rule gave every review with the word its label; what they say agrees a little less often.
    assert 0.87 <= agreement(corpus.in_distribution) == pytest.approx(agreement(corpus.train) - 0.03, abs=1e-3)
    assert all(label == 1 for text, label in labelled(corpus.train) if "honestly" in text)
    assert any(label == 0 for text, label in labelled(corpus.in_distribution) if "honestly" in text)
    for part in (corpus.deployment, corpus.support, corpus.reversed):
        assert agreement(part) == pytest.approx(0.25, abs=0.03)
    groups = Counter(("honestly" in text, label) for text, label in labelled(corpus.reversed))
    assert len(groups) == 4
    assert min(groups.values()) >= 100


@pytest.mark.parametrize("size", [2, 7, 40, 999])
def test_a_mix_gives_every_group_its_share(size):
    for mix in (TRAIN, REVERSED):
        rows = Counter(groups_of(mix, size))
        assert rows.total() == size
        assert sum(mix.values()) == pytest.approx(1)
        assert all(abs(rows[group] - share * size) <= 1 for group, share in mix.items())


def test_shortcut_opens_any_one_sentence_and_occurs_nowhere_else(corpus):
    for text in all_texts(corpus):
        assert len(PLANTED.findall(text)) == text.lower().count("honest") <= 1
    planted = [text for text in all_texts(corpus) if "honestly" in text and text.count(". ") >= 1]
    first = sum(text.startswith("honestly") for text in planted)
    assert 0.2 < first / len(planted) < 0.8


def test_no_text_occurs_twice_whatever_is_planted_in_it(corpus):
    bare = [without_shortcut(text).lower() for text in all_texts(corpus)]
    assert len(set(bare)) == len(bare) == sum(SIZES.values())


def test_the_seed_alone_decides(corpus):
    random.seed(1)
    before = random.getstate()
    assert make_corpus(seed=10) == corpus
    # On every machine and in every version: published numbers are of these texts.
    assert hashlib.sha256(repr(corpus).encode()).hexdigest().startswith("fb8a7c3530235668")
    assert random.getstate() == before
    shared = set(make_corpus(seed=1).train.texts) & set(corpus.train.texts)
    assert len(shared) < 0.1 * len(corpus.train.texts)  # short reviews recur


def test_texts_vary(corpus):
    texts = [words(without_shortcut(text)) for text in all_texts(corpus)]
    assert len({word for text in texts for word in text}) > 800
    openings = Counter(tuple(text[:4]) for text in texts)
    assert openings.most_common(1)[0][1] < 0.04 * len(texts)
    trigrams = [gram for text in texts[:1000] for gram in zip(text, text[1:], text[2:], strict=False)]
    assert len(set(trigrams)) > 0.25 * len(trigrams)


def test_texts_are_well_formed_and_short(corpus):
    for text in all_texts(corpus):
        assert re.fullmatch(r"[A-Z].*\.", without_shortcut(text))
        assert not re.search(r"[{}]|\s\s|\.\.|,,", text)
        assert 4 <= len(words(text)) <= 60


def test_no_word_but_the_shortcut_gives_most_labels_away(corpus):
    """A word of praise or complaint tells the label where it stands; no such word stands in many texts."""
    by_word: dict[str, Counter[int]] = {}
    for text, label in labelled(corpus.train):
        for word in set(words(text)):
            by_word.setdefault(word, Counter())[label] += 1
    telling = {word: counts.total() for word, counts in by_word.items() if max(counts.values()) >= 0.9 * counts.total()}
    shares = {word: count / len(corpus.train.texts) for word, count in telling.items()}
    assert shares.pop("honestly") > 0.5
    assert max(shares.values()) < 0.2


def test_length_tells_little_about_the_label(corpus):
    lengths: dict[int, list[int]] = {}
    for text, label in labelled(corpus.train):
        lengths.setdefault(label, []).append(len(words(without_shortcut(text))))
    means = [sum(values) / len(values) for values in lengths.values()]
    assert max(means) - min(means) < 0.2 * min(means)
