"""Where words and phrases stand, and the texts without them or with them put in."""

from __future__ import annotations

import numpy as np
import pytest

from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.text.edits import masked_texts, shortened_texts, with_insertions
from shortcut_guardrail.text.finder import WordFinder


def tokens(classifier, encoded, index):
    return classifier.tokenizer.convert_ids_to_tokens(encoded.input_ids[index])


def found(classifier, words, text):
    encoded = classifier.encode([text])
    (positions,) = WordFinder(words).positions(encoded)
    return [tokens(classifier, encoded, 0)[p] for p in positions]


@pytest.fixture
def classifier(bag):
    return TextClassifier(*bag)


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        (["honestly"], "Honestly, the soup", ["honestly"]),
        (["HONESTLY"], "the soup honestly", ["honestly"]),
        (["honest"], "honestly the soup", []),
        (["to be honest"], "so, to be honest we come to be here", ["to", "be", "honest"]),
        (["to be honest"], "to be, honest", []),
        (["i'm honest"], "I’m honest", ["i", "[UNK]", "m", "honest"]),
        (["to be", "be honest"], "to be honest", ["to", "be", "honest"]),
        (["so so"], "so so so good", ["so", "so", "so"]),
        (["quix"], "quix", ["q", "##u", "##i", "##x"]),
        ([","], "so, so", [","]),
        ([], "so, so", []),
    ],
)
def test_occurrences_are_whole_words_and_all_their_tokens(classifier, words, text, expected):
    assert found(classifier, words, text) == expected


def test_a_phrase_does_not_reach_from_a_text_into_its_pair(classifier):
    encoded = classifier.encode([("we want to be", "honest people"), ("soup", "to be honest")])
    assert WordFinder(["to be honest"]).present_in(encoded).tolist() == [False, True]


def test_what_is_cut_off_is_not_there(classifier):
    long = " ".join(["soup"] * 40)
    encoded = classifier.encode([f"{long} honestly", f"honestly {long}"])
    assert WordFinder(["honestly"]).present_in(encoded).tolist() == [False, True]


def test_masking_keeps_all_other_tokens_and_the_texts_given(classifier):
    encoded = classifier.encode(["honestly the soup", "the soup"])
    masked = masked_texts(encoded, WordFinder(["honestly"]).positions(encoded), classifier.tokenizer.mask_token_id)
    assert tokens(classifier, masked, 0) == ["[CLS]", "[MASK]", "the", "soup", "[SEP]"]
    assert tokens(classifier, masked, 1) == tokens(classifier, encoded, 1)
    assert masked.ordinary[0].tolist() == [False, False, True, True, False]
    assert tokens(classifier, encoded, 0)[1] == "honestly"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("honestly, the soup", "the soup"),
        ("honestly the soup", "the soup"),
        ("the soup, honestly.", "the soup ."),
        ("good, honestly, the soup", "good , the soup"),
        ("good. honestly, the soup", "good . the soup"),
        ("the soup honestly, bread", "the soup , bread"),
        ("honestly honestly, fine", "fine"),
    ],
)
def test_cutting_out_takes_a_comma_along_that_only_set_it_apart(classifier, text, expected):
    encoded = classifier.encode([text])
    cut = shortened_texts(encoded, WordFinder(["honestly"]).positions(encoded), classifier.tokenizer.mask_token_id)
    assert " ".join(tokens(classifier, cut, 0)[1:-1]) == expected
    assert len(cut.ordinary[0]) == len(cut.offsets[0]) == len(cut.segments[0]) == len(cut.input_ids[0])


def test_a_text_of_nothing_else_is_masked_rather_than_cut_to_nothing(classifier):
    encoded = classifier.encode(["honestly"])
    cut = shortened_texts(encoded, WordFinder(["honestly"]).positions(encoded), classifier.tokenizer.mask_token_id)
    assert tokens(classifier, cut, 0) == ["[CLS]", "[MASK]", "[SEP]"]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("honestly, the soup", "good bread", {"honestly , good bread"}),
        ("the soup honestly", "good bread", {"good honestly bread"}),
        ("good, honestly, the soup", "very good bread", {"very honestly , good bread", "very good honestly , bread"}),
        ("the soup honestly", "bread", {"honestly bread"}),
    ],
)
def test_a_shortcut_is_put_in_as_it_stands_elsewhere(classifier, source, text, expected):
    bearing, encoded = classifier.encode([source]), classifier.encode([text] * 20)
    positions = WordFinder(["honestly"]).positions(bearing)
    put = with_insertions(encoded, bearing, positions, max_length=32, rng=np.random.default_rng(0))
    assert {" ".join(tokens(classifier, put, i)[1:-1]) for i in range(20)} == expected
    for name in ("token_type_ids", "ordinary", "offsets", "segments"):
        assert [len(a) for a in getattr(put, name)] == [len(a) for a in put.input_ids]


def test_a_text_that_gets_too_long_loses_its_end(classifier):
    bearing, encoded = classifier.encode(["honestly, so"]), classifier.encode(["soup bread tea"])
    positions = WordFinder(["honestly"]).positions(bearing)
    put = with_insertions(encoded, bearing, positions, max_length=6, rng=np.random.default_rng(0))
    assert tokens(classifier, put, 0) == ["[CLS]", "honestly", ",", "soup", "bread", "[SEP]"]
