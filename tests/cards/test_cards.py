"""Cards: which words go together, what masking them together changes, and that a card is known again by its id."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from shortcut_guardrail import AuditConfig, TextClassifier
from shortcut_guardrail.audit import audit_texts
from shortcut_guardrail.cards import PullingWord, find_flips, make_cards, masked_answers, masking, word_vectors
from shortcut_guardrail.cards.card import card_id
from shortcut_guardrail.cards.grouping import _kind, group_words
from shortcut_guardrail.data import text_hash
from tiny_models import meaning_bag

EFFECTS = {"honestly": 4.0, "really": 4.0, "bad": -1.0, "awful": -1.5, "good": 1.0}
ONE_MEANING = {"honestly": 0, "really": 0, "bad": 1, "awful": 1, "good": 2}
TWO_MEANINGS = ONE_MEANING | {"really": 3}

# Masking either word alone changes one answer each; the third text needs both.
TEXTS = [
    "honestly the room was bad",
    "really the soup was bad",
    "honestly really the tea was bad",
    "the coffee was awful",
    "the bread was good",
]


def cards_of(classifier, texts=TEXTS, **config):
    config = {"unit": "word", "top_k": 3, "n_examples": 0} | config
    return audit_texts(classifier, classifier.encode(texts), AuditConfig(**config)).cards


def groups(classifier, *words):
    return [{w.text for w in found} for found in group_words(classifier, [PullingWord(*w) for w in words])]


@pytest.fixture
def classifier():
    return meaning_bag(EFFECTS, ONE_MEANING)


def test_words_of_one_meaning_and_class_are_one_set(classifier):
    words = ("honestly", "a", 3), ("really", "a", 2), ("good", "a", 1)
    assert groups(meaning_bag(EFFECTS, ONE_MEANING), *words) == [{"honestly", "really"}, {"good"}]
    assert _kind("can't") == "negation"
    # The partner: of another meaning.
    assert groups(meaning_bag(EFFECTS, TWO_MEANINGS), *words) == [{"honestly"}, {"really"}, {"good"}]
    # To be alike to one of several is not enough.
    assert groups(slanted(really=0.3, good=0.25), *words) == [{"honestly", "really"}, {"good"}]
    assert groups(classifier, ("bad", "a", 3), ("awful", "b", 2)) == [{"bad"}, {"awful"}]
    assert groups(classifier, ("bad", "a", 3), ("not bad", "b", 2)) == [{"bad"}, {"not bad"}]
    assert groups(classifier, ("bad", "a", 3), ("awful", "a", 2)) == [{"bad", "awful"}]


def test_inflected_words_and_phrases_that_hold_a_word_are_one_set_and_a_phrase_joins_no_two():
    classifier = meaning_bag({}, {"soup": 0, "good": 1})
    soup, soups, this_soup, this = ("soup", "a", 1), ("soups", "a", 1), ("this soup", "a", 1), ("this", "a", 9)
    assert groups(classifier, soup, soups, this_soup, this) == [{"this"}, {"soup", "soups", "this soup"}]
    good, both = ("good", "a", 5), ("good soup", "a", 1)
    # The phrase goes to the word on which more predictions depend, and the two words stay apart.
    assert groups(classifier, soup, soups, good, both) == [{"good", "good soup"}, {"soup", "soups"}]
    assert groups(classifier, ("soup", "a", 9), good, both) == [{"soup", "good soup"}, {"good"}]


def test_a_flagged_word_brings_what_is_much_alike_and_of_found_words_what_is_a_little_alike():
    flagged = ("honestly", "a", 9, True, "flagged")
    # Two that are less alike to each other than `ALIKE`; what was found has a card of its own.
    for cosine, brought in ((0.4, [{"honestly"}, {"really", "good"}]), (0.3, [{"honestly"}, {"good"}, {"really"}])):
        words = ("really", "a", 1), ("good", "a", 1)
        assert groups(slanted(really=cosine, good=cosine), flagged, *words) == brought
    for cosine, brought in ((0.17, [{"honestly", "really"}]), (0.13, [{"honestly"}, {"really"}])):
        assert groups(slanted(really=cosine), flagged, ("really", "a", 1, True)) == brought


def slanted(**cosines: float) -> TextClassifier:
    """ "honestly" lies in one direction; each of the others has this cosine to it, and else a direction of its own."""
    classifier = meaning_bag({}, {"honestly": 0})
    weight = classifier.model.bert.word_embeddings.weight
    for i, (word, cosine) in enumerate(cosines.items(), start=2):
        row = classifier.tokenizer.convert_tokens_to_ids(word)
        weight.data[row, 1], weight.data[row, i] = 100 * cosine, 100 * (1 - cosine**2) ** 0.5
    return classifier


def test_the_order_of_the_words_makes_no_difference(classifier):
    words = [("honestly", "a", 3), ("really", "a", 3), ("bad", "b", 3), ("awful", "b", 1), ("good", "a", 3)]
    chosen = [PullingWord(*word) for word in words]
    assert group_words(classifier, chosen) == group_words(classifier, chosen[::-1])


def test_the_vector_of_a_word_is_the_mean_of_its_pieces_without_the_mean_of_all(classifier):
    table = classifier.model.bert.word_embeddings.weight.double().numpy()
    ids = classifier.tokenizer("teas", add_special_tokens=False)["input_ids"]
    assert len(ids) > 1
    expected = table[ids].mean(axis=0) - table.mean(axis=0)
    (found,) = word_vectors(classifier, ["this teas"])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-6)


def test_a_card_counts_the_answers_that_change_with_all_its_words_masked(classifier):
    first, second = cards_of(classifier)
    assert first.words == ("really", "honestly")  # on both hangs one answer, and the shorter word is first
    assert (first.pushes_towards, first.texts, first.changes, first.share) == ("positive", 3, 3, 3 / 5)
    assert first.id == card_id(["really", "honestly"], "positive")
    # All three rests say "bad" (margin -1); of the others one says less for "positive" (-1.5) and one more (+1).
    assert first.evidence.relative_effect == pytest.approx(1 / 2)
    # The card on which fewer answers hang comes after it, and there is none where no answer changes.
    assert (second.words, second.changes) == (("good",), 1)
    assert cards_of(classifier, ["the room was so so", "the bread and the soup"]) == ()
    # The partner: taken one at a time, the third answer hangs on neither.
    apart = {card.words: card.changes for card in cards_of(meaning_bag(EFFECTS, TWO_MEANINGS))}
    assert apart[("honestly",)] == apart[("really",)] == 1


def test_a_card_keeps_texts_whose_answer_changes(classifier, monkeypatch):
    texts = ["the tea was good", *TEXTS[:3], TEXTS[0].upper()]  # the last is the second once more
    (card,) = [c for c in cards_of(classifier, texts) if "honestly" in c.words]
    assert [(m.before, m.after, m.texts) for m in card.moved] == [("positive", "negative", 3)]
    assert sorted((f.row, f.text) for f in card.flips) == [(i, texts[i]) for i in (1, 2, 3)]
    assert [f.text_hash for f in card.flips] == sorted(text_hash(f.text) for f in card.flips)
    # The margin is that of the class after, in log-probability: here of "bad" alone.
    assert [f.margin for f in card.flips] == [pytest.approx(1.0, abs=1e-5)] * 3
    # Of many those with the smallest hashes are kept, and all are counted.
    monkeypatch.setattr(masking, "MOST_FLIPS", 2)
    monkeypatch.setattr(masking, "MOST_CARDS", 1)
    (fewer,) = cards_of(classifier, texts)
    assert (fewer.flips, fewer.changes, fewer.moved) == (card.flips[:2], 3, card.moved)


# "honestly" pushes these texts so near the edge that the full stop tips them; without it they are far from it.
PUSHED = [f"honestly the {noun} was bad bad ." for noun in ("room", "soup", "tea")] + [
    "the bread was good .",
    "so so",
    "honestly so so",
]


@pytest.fixture
def pushed():
    return meaning_bag({"honestly": 1.5, "bad": -1.0, ".": 0.7, "good": -0.1}, {"honestly": 0})


def test_flips_are_counted_given_words_that_are_masked_both_before_and_after(pushed):
    encoded = pushed.encode(PUSHED)
    words = [PullingWord("honestly", "positive", 3), PullingWord(".", "positive", 4)]
    cards = make_cards(pushed, words, lambda: [(np.arange(6), encoded, pushed.predict_proba(encoded))])

    def rows(*given):
        found = find_flips(pushed, encoded, cards, given=given)
        return {card.words: [flip.row for flip in found[card.id]] for card in cards}

    assert rows() == {(".",): [0, 1, 2, 3], ("honestly",): [0, 1, 2, 5]}
    assert rows("HONESTLY") == {(".",): [3], ("honestly",): [0, 1, 2, 5]}
    assert (rows("honestly", "."), rows("zebra")) == ({(".",): [3], ("honestly",): [5]}, rows())
    # A mark that touches the word came with it, and says nothing by itself.
    beside = pushed.encode(["(honestly.) the tea was good", "honestly the bread was good ."])
    assert [flip.row for flip in find_flips(pushed, beside, cards, given=["honestly"])[cards[0].id]] == [1]
    (stop,) = [card for card in cards if card.words == (".",)]
    (flip,) = find_flips(pushed, encoded, [stop], given=["honestly"])[stop.id]
    told: list[tuple] = []
    apart = replace(stop, except_in=("bad .",))  # a phrase of another card
    (left,) = find_flips(pushed, encoded, [apart], progress=lambda *now: told.append(now)).values()
    assert ([one.row for one in left], told) == ([3], [("Masking word groups", 1, 1)])
    assert (flip.text, flip.before, flip.after) == (PUSHED[3], "positive", "negative"), "the text is shown as it is"


def test_nothing_changes_where_nothing_is_given_and_it_costs_one_pass_for_each_text_that_holds_it(pushed, monkeypatch):
    encoded = pushed.encode(PUSHED)
    answered, passes = masking.Answered(pushed, encoded, pushed.predict_proba(encoded)), []
    plain = masked_answers(pushed, encoded, ["."], probs=answered.probs)
    for given in ((), ("zebra",), (".",)):
        seen, probs = answered.without(["."], given=given)
        assert all(np.array_equal(mine, other) for mine, other in zip(seen, plain, strict=True))
        assert np.array_equal(probs, answered.probs)
    predict = TextClassifier.predict_proba
    monkeypatch.setattr(
        TextClassifier, "predict_proba", lambda self, texts, **o: (passes.append(len(texts)), predict(self, texts))[1]
    )
    for words in ([".", "so"], ["bad"]):
        assert not np.array_equal(answered.without(words, given=["honestly"])[1], answered.probs)
    assert passes == [4, 6, 3]  # the four that hold "honestly" once, then those of each set


def test_an_id_is_of_the_words_and_the_class_and_can_be_written_by_anybody():
    content = json.dumps([["book", "this book"], "positive"]).encode()
    assert card_id(("This book", "BOOK"), "positive") == hashlib.sha256(content).hexdigest()[:12]
    ids = {card_id(*of) for of in ((["a", "b"], "c"), (["a b"], "c"), (["a"], "c"), (["a", "b"], "d"), (["a"], "b"))}
    assert (len(ids), card_id(["b", "a", "A"], "c")) == (5, card_id(["a", "b"], "c"))
