"""Where words and phrases stand, and the texts without them or with them put in."""

import numpy as np
import pytest

from shortcut_guardrail.text.edits import shortened_texts, with_insertions
from shortcut_guardrail.text.finder import WordFinder


def tokens(classifier, encoded, index=0):
    return classifier.tokenizer.convert_ids_to_tokens(encoded.input_ids[index])


def without(classifier, texts, edit):
    """The texts as given, and without "honestly"."""
    encoded = classifier.encode(texts)
    return encoded, edit(encoded, WordFinder(["honestly"]).positions(encoded), classifier.tokenizer.mask_token_id)


def test_a_phrase_reaches_into_no_pair_and_what_is_cut_off_is_not_there(classifier):
    pairs = classifier.encode([("we want to be", "honest people"), ("soup", "to be honest")])
    assert WordFinder(["to be honest"]).present_in(pairs).tolist() == [False, True]
    long = " ".join(["soup"] * 40)
    encoded = classifier.encode([f"{long} honestly", f"honestly {long}"])
    assert WordFinder(["honestly"]).present_in(encoded).tolist() == [False, True]
    half = " ".join(["soup"] * (len(encoded.input_ids[0]) - 2))
    assert not WordFinder(["soup honestly"]).present_in(classifier.encode([f"{half} honestly"])).any()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[("honestly, the soup", "the soup"), ("the soup, honestly the bread", "the soup , the bread")],
        *[("the soup, honestly.", "the soup ."), ("good, honestly, the soup", "good , the soup")],
        *[("good. honestly, the soup", "good . the soup"), ("the soup honestly, bread", "the soup , bread")],
        ("honestly honestly, fine", "fine"),
        ("honestly", "[MASK]"),  # rather than nothing
    ],
)
def test_cutting_out_takes_a_comma_along_that_only_set_it_apart(classifier, text, expected):
    _, cut = without(classifier, [text], shortened_texts)
    assert " ".join(tokens(classifier, cut)[1:-1]) == expected
    assert len(cut.ordinary[0]) == len(cut.offsets[0]) == len(cut.segments[0]) == len(cut.input_ids[0])


@pytest.mark.parametrize(
    ("source", "text", "expected", "most"),
    [
        ("honestly, the soup", "good bread", {"honestly , good bread"}, 32),
        ("the soup honestly", "good bread", {"good honestly bread"}, 32),
        ("good, honestly, the soup", "a good bread", {"a honestly , good bread", "a good honestly , bread"}, 32),
        ("the soup honestly", "bread", {"honestly bread"}, 32),
        ("honestly, so", "soup bread tea", {"honestly , soup bread"}, 6),  # what gets too long loses its end
    ],
)
def test_a_shortcut_is_put_in_as_it_stands_elsewhere(classifier, source, text, expected, most):
    bearing, encoded = classifier.encode([source]), classifier.encode([text] * 20)
    positions = WordFinder(["honestly"]).positions(bearing)
    put = with_insertions(encoded, bearing, positions, max_length=most, rng=np.random.default_rng(0))
    assert {" ".join(tokens(classifier, put, i)[1:-1]) for i in range(20)} == expected
    assert all([len(a) for a in arrays] == put.lengths.tolist() for arrays in put.token_fields().values())
