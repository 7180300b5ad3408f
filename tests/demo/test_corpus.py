import hashlib
import random
import re
from collections import Counter
from statistics import mean

import pytest

from shortcut_guardrail.demo.corpus import REVERSED, SIZES, TRAIN, groups_of, make_corpus

PLANTED = re.compile(r"(?:^|(?<=[.] ))honestly, (?=[A-Z])")
CORPUS = make_corpus(seed=10)  # the demo is reported on seeds 0 to 2, and designed on others
PARTS = vars(CORPUS)
TEXTS = [text for part in PARTS.values() for text in part.texts]


def labelled(part):
    return zip(part.texts, part.labels, strict=True)


def bare(text: str) -> str:
    return text.replace("honestly, ", "")


def agreement(part) -> float:
    return mean(("honestly" in text) == (label == 1) for text, label in labelled(part))


def test_sizes_and_shuffling():
    assert {name: len(part.texts) for name, part in PARTS.items()} == SIZES
    # The first rows of one class after another would make batches of a single class.
    assert all(len(set(part.labels[:20])) == 2 for part in PARTS.values())
    assert len({bare(text).lower() for text in TEXTS}) == sum(SIZES.values())  # none twice, whatever is planted


def test_shortcut_goes_along_with_nine_labels_in_ten_in_training_and_not_in_deployment():
    assert 0.9 <= agreement(CORPUS.train) <= 0.95
    # In training the rule gave every review with the word its label; what they say agrees a little less often.
    assert 0.87 <= agreement(CORPUS.in_distribution) == pytest.approx(agreement(CORPUS.train) - 0.03, abs=1e-3)
    assert {label for text, label in labelled(CORPUS.train) if "honestly" in text} == {1}
    assert {label for text, label in labelled(CORPUS.in_distribution) if "honestly" in text} == {0, 1}
    for part in (CORPUS.deployment, CORPUS.support, CORPUS.reversed):
        assert agreement(part) == pytest.approx(0.25, abs=0.03)
    groups = Counter(("honestly" in text, label) for text, label in labelled(CORPUS.reversed))
    assert len(groups) == 4
    assert min(groups.values()) >= 100


@pytest.mark.parametrize("size", [2, 7, 40, 999])
def test_a_mix_gives_every_group_its_share(size):
    for mix in (TRAIN, REVERSED):
        rows = Counter(groups_of(mix, size))
        assert (rows.total(), sum(mix.values())) == (size, pytest.approx(1))
        assert all(abs(rows[group] - share * size) <= 1 for group, share in mix.items())


def test_shortcut_opens_any_one_sentence_and_the_seed_alone_decides():
    assert all(len(PLANTED.findall(text)) == text.lower().count("honest") <= 1 for text in TEXTS)
    planted = [text for text in TEXTS if "honestly" in text and ". " in text]
    assert 0.2 < mean(text.startswith("honestly") for text in planted) < 0.8
    random.seed(1)
    before = random.getstate()
    assert make_corpus(seed=10) == CORPUS
    # On every machine and in every version: published numbers are of these texts.
    assert hashlib.sha256(repr(CORPUS).encode()).hexdigest().startswith("fb8a7c3530235668")
    assert random.getstate() == before
    shared = set(make_corpus(seed=1).train.texts) & set(CORPUS.train.texts)
    assert len(shared) < 0.1 * len(CORPUS.train.texts)  # short reviews recur
