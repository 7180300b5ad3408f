"""Cards: which words go together, what masking them together changes, and that a card is known again by its id."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortcut_guardrail import AuditConfig, TextClassifier
from shortcut_guardrail.audit import audit_texts
from shortcut_guardrail.cards import PullingWord, find_flips, make_cards, masked_answers, masking, word_vectors
from shortcut_guardrail.cards.card import card_id
from shortcut_guardrail.cards.grouping import _grown, group_words
from shortcut_guardrail.data import text_hash
from shortcut_guardrail.text import WordFinder, content_words, stems
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


def test_content_and_stems():
    assert content_words("this book") == content_words("book") == ("book",)
    assert stems("this book") == stems("books") == stems("the BOOK's")
    assert stems("frankly") == stems("to be frank") != stems("speaking")
    assert stems("this") != stems("this book")


@pytest.fixture
def classifier():
    return meaning_bag(EFFECTS, ONE_MEANING)


def test_inflections_and_phrases_around_one_word_are_one_set(classifier):
    found = groups(classifier, ("tea", "a", 5), ("teas", "a", 2), ("this tea", "a", 3), ("this", "a", 9))
    # The function word of the phrase brings nothing in.
    assert found == [{"tea", "teas", "this tea"}, {"this"}]


def test_a_phrase_goes_with_one_of_the_words_it_holds_and_joins_no_two(classifier):
    words = ("good", "a", 9), ("soup", "a", 4), ("good soup", "a", 3), ("the good soup", "a", 1)
    assert groups(classifier, *words) == [{"good", "good soup", "the good soup"}, {"soup"}]
    lighter = ("good", "a", 2), *words[1:]
    assert groups(classifier, *lighter) == [{"soup", "good soup", "the good soup"}, {"good"}]


def test_words_of_one_meaning_and_class_are_one_set(classifier):
    words = ("honestly", "a", 3), ("really", "a", 2), ("good", "a", 1)
    assert groups(meaning_bag(EFFECTS, ONE_MEANING), *words) == [{"honestly", "really"}, {"good"}]
    # The partner: of another meaning.
    assert groups(meaning_bag(EFFECTS, TWO_MEANINGS), *words) == [{"honestly"}, {"really"}, {"good"}]
    # To be alike to one of several is not enough.
    assert groups(slanted(really=0.3, good=0.25), *words) == [{"honestly", "really"}, {"good"}]
    assert groups(classifier, ("bad", "a", 3), ("awful", "b", 2)) == [{"bad"}, {"awful"}]
    assert groups(classifier, ("bad", "a", 3), ("not bad", "b", 2)) == [{"bad"}, {"not bad"}]
    assert groups(classifier, ("bad", "a", 3), ("awful", "a", 2)) == [{"bad", "awful"}]


def test_function_words_stand_alone_and_negations_together():
    words = ("the", "was", "but", "never", "nobody", "isn't")
    pieces = dict.fromkeys((*words[:-1], "is", "##n", "'", "t"), 0)
    found = groups(meaning_bag({}, pieces), *((word, "a", 1) for word in words))
    assert sorted(map(sorted, found)) == [["but"], ["isn't", "never", "nobody"], ["the"], ["was"]]


def slanted(**cosines: float) -> TextClassifier:
    """ "honestly" lies in one direction; each of the others has this cosine to it, and else a direction of its own."""
    classifier = meaning_bag({}, {"honestly": 0})
    weight = classifier.model.bert.word_embeddings.weight
    for i, (word, cosine) in enumerate(cosines.items(), start=2):
        row = classifier.tokenizer.convert_tokens_to_ids(word)
        weight.data[row, 1], weight.data[row, i] = 100 * cosine, 100 * (1 - cosine**2) ** 0.5
    return classifier


def test_the_card_of_a_flagged_word_grows_further_by_words_that_were_found_too():
    classifier = slanted(really=0.18, good=0.18, tea=0.4)
    words = [PullingWord("honestly", "a", 9, status="flagged", found=True), PullingWord("really", "a", 3, found=True)]
    words += [PullingWord("good", "a", 2), PullingWord("tea", "a", 1)]

    def sets(first, really, *others):
        return [{word.text for word in found} for found in group_words(classifier, [first, really, *others])]

    assert sets(*words) == [{"honestly", "really"}, {"good"}, {"tea"}]
    # The partners: neither found, none flagged, or of another class.
    assert sets(words[0], replace(words[1], found=False), *words[2:]) == [{"honestly"}, {"really"}, {"good"}, {"tea"}]
    assert {"honestly", "tea"} in sets(*(replace(word, status="not_flagged", found=False) for word in words))
    assert sets(words[0], replace(words[1], pushes_towards="b"), *words[2:])[1] == {"really"}


def test_what_joins_moves_the_mean():
    classifier = slanted()
    weight = classifier.model.bert.word_embeddings.weight
    for word, degrees in (("really", 50), ("good", 85)):
        row, angle = classifier.tokenizer.convert_tokens_to_ids(word), np.deg2rad(degrees)
        weight.data[row, 1], weight.data[row, 2] = 100 * np.cos(angle), 100 * np.sin(angle)
    words = [PullingWord("honestly", "a", 9, status="flagged", found=True), PullingWord("good", "a", 2, found=True)]
    assert len(group_words(classifier, words)) == 2  # cosine .09
    really = PullingWord("really", "a", 1, found=True)
    assert len(group_words(classifier, [*words, really])) == 1  # cosine .5 to the two together


def test_words_beside_a_flagged_one_are_a_card_of_their_own():
    classifier = slanted(really=0.5, good=0.5, tea=0.5)
    words = [PullingWord("honestly", "a", 9, status="flagged", found=True), PullingWord("really", "a", 3, found=True)]
    words += [PullingWord("good", "a", 4), PullingWord("tea", "a", 4)]
    found = [[word.text for word in group] for group in group_words(classifier, words)]
    assert found == [["honestly", "really"], ["tea", "good"]]
    # They are there by a cosine of .35 to the flagged word, and not by their own, which is at most .16 here.
    for cosine, beside in ((0.4, [["tea", "good"]]), (0.3, [["good"], ["tea"]])):
        grouped = group_words(slanted(good=cosine, tea=cosine), [words[0], *words[2:]])
        assert [[word.text for word in group] for group in grouped] == [["honestly"], *beside]


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


def test_a_word_that_is_like_two_found_ones_is_on_one_card():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.71, 0.7]])
    assert _grown(vectors, [0, 1], np.full(3, 0.6)) == [[0, 2], [1]]


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


def test_near_identical_texts_count_once(classifier):
    cards = cards_of(classifier, [*TEXTS, TEXTS[0], "Honestly, the ROOM was bad!"])
    assert (cards[0].texts, cards[0].changes, cards[0].share) == (3, 3, 3 / 5)
    for tail, changes in (("bad", 4), ("good", 3)):
        more = cards_of(classifier, [*TEXTS, f"honestly the place was {tail}"])
        assert (more[0].texts, more[0].changes, more[0].share) == (4, changes, changes / 6)


def test_the_status_is_the_strongest_of_the_words(classifier):
    rooms = ("room", "soup", "tea", "coffee", "bread", "hotel", "place", "visit", "food", "staff", "people", "service")
    texts = [f"honestly the {word} was bad and {tail}" for word in rooms for tail in ("awful", "slow")]
    texts += [f"the {word} was {tail}" for word in rooms for tail in ("good", "good and fine")]
    texts += ["really the room was bad and awful"]
    by_words = {card.words: card.evidence for card in cards_of(classifier, texts)}
    # Nobody who decides about a flagged word decides about the words beside it.
    assert (by_words[("honestly",)].status, by_words[("honestly",)].flagged) == ("flagged", ("honestly",))
    assert (by_words[("really",)].status, by_words[("really",)].flagged) == ("not_flagged", ())
    # The smallest q-value is that of the card, wherever it is.
    encoded = classifier.encode(texts)
    words = [PullingWord("honestly", "positive", 9, q_value=0.3), PullingWord("really", "positive", 1, q_value=0.01)]
    pieces = [(np.arange(len(texts)), encoded, classifier.predict_proba(encoded))]
    assert make_cards(classifier, words, lambda: pieces)[0].evidence.q_value == 0.01
    assert {c.evidence.status for c in cards_of(classifier)} == {"not_flagged"}


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


def test_a_word_within_a_phrase_of_another_card_belongs_to_the_phrase(classifier):
    encoded = classifier.encode(["honestly the room was bad", "an honestly bad tea", "a hotel"])
    pieces = [(np.arange(3), encoded, classifier.predict_proba(encoded))]
    word, phrase = PullingWord("honestly", "positive", 1), PullingWord("honestly bad", "negative", 1)

    def counts(*words):
        return {c.words: (c.except_in, c.texts, c.changes) for c in make_cards(classifier, words, lambda: pieces)}

    # An even margin, as without "honestly bad", is answered with the first class.
    assert counts(word, phrase) == {("honestly",): (("honestly bad",), 1, 1), ("honestly bad",): ((), 1, 1)}
    assert counts(word) == {("honestly",): ((), 2, 2)}
    flips = find_flips(classifier, encoded, make_cards(classifier, (word, phrase), lambda: pieces))
    assert [[flip.row for flip in of_card] for of_card in flips.values()] == [[0], [1]]
    assert masked_answers(classifier, encoded, ["honestly"], kept=["honestly bad"]).rows.tolist() == [0]
    # A text that repeats another is no second flip, and a word that alone changes nothing is on no card.
    repeats = classifier.encode([*encoded.texts, "Honestly, the ROOM was bad!"])
    (flips,) = find_flips(classifier, repeats, make_cards(classifier, (word,), lambda: pieces)).values()
    assert ([flip.row for flip in flips], counts(replace(word, changes=0))) == ([0, 1], {})


def test_pairs(classifier):
    pairs = [("the room was bad", text) for text in TEXTS[:3]] + [("honestly", "the tea was bad")]
    (first, *_) = cards_of(classifier, pairs)
    assert (set(first.words), first.texts) == ({"honestly", "really"}, 4)


def test_tokens_that_are_pieces_of_words_are_on_no_card():
    classifier = meaning_bag({"##z": 4.0, "bad": -1.0, "honestly": 4.0}, {"honestly": 0})
    texts = ["dz the room was bad", "honestly the tea was bad"]
    report = audit_texts(classifier, classifier.encode(texts), AuditConfig(unit="token", top_k=3))
    assert {c.text for c in report.candidates if c.flip_rate == 1} == {"##z", "honestly"}
    assert [card.words for card in report.cards] == [("honestly",)]


def test_flips_are_those_of_a_slow_loop(bert):
    classifier = TextClassifier(*bert)
    texts = ["honestly the soup was cold", "no soup", "good tea and bad tea", "the tea was good", "rude"]
    encoded = classifier.encode(texts)
    words = ["soup", "bad tea", "good"]
    found = masked_answers(classifier, encoded, words)
    assert found.rows.tolist() == [0, 1, 2, 3]
    finder = WordFinder(words)
    for row, before, after in zip(*found, strict=True):
        ids = torch.tensor(encoded.input_ids[row])[None].long()
        expected = []
        for hidden in (np.zeros(len(ids[0]), dtype=bool), finder.tokens(encoded, int(row))):
            masked = ids.clone()
            masked[0, torch.tensor(hidden)] = classifier.tokenizer.mask_token_id
            with torch.no_grad():
                expected.append(bert[0](masked).logits.softmax(-1)[0].numpy())
        np.testing.assert_allclose([before, after], expected, atol=1e-5)
    assert found.changed.tolist() == (found.before.argmax(1) != found.after.argmax(1)).tolist()


def test_flips_with_answers_that_are_known(classifier, monkeypatch):
    encoded = classifier.encode(TEXTS)
    probs = classifier.predict_proba(encoded)
    found = masked_answers(classifier, encoded, ["honestly", "really"])
    assert (found.rows.tolist(), found.changed.all()) == ([0, 1, 2], True)
    alone = masked_answers(classifier, encoded, ["honestly"])
    assert (alone.rows.tolist(), alone.changed.tolist()) == ([0, 2], [True, False])
    passes = []
    predict = TextClassifier.predict_proba
    monkeypatch.setattr(
        TextClassifier, "predict_proba", lambda self, texts, **o: (passes.append(len(texts)), predict(self, texts))[1]
    )
    known = masked_answers(classifier, encoded, ["honestly", "really"], probs=probs)
    assert passes == [3]
    np.testing.assert_allclose(known.before, found.before, atol=1e-6)
    np.testing.assert_allclose(known.after, found.after, atol=1e-6)
    assert [values.shape for values in masked_answers(classifier, encoded, ["hotel"])] == [(0,), (0, 2), (0, 2)]


# "honestly" pushes these texts so near the edge that the full stop tips them; without it they are far from it.
PUSHED = [f"honestly the {noun} was bad bad ." for noun in ("room", "soup", "tea")] + [
    "the bread was good .",
    "so so",
    "honestly so so",
]


@pytest.fixture
def pushed():
    return meaning_bag({"honestly": 1.5, "bad": -1.0, ".": 0.7, "good": -0.1}, {"honestly": 0})


def test_what_changes_only_next_to_a_found_word_makes_no_card(pushed):
    encoded = pushed.encode(PUSHED)
    pieces = [(np.arange(6), encoded, pushed.predict_proba(encoded))]

    def counts(found):
        words = [PullingWord("honestly", "positive", 3, found=found), PullingWord(".", "positive", 4)]
        return {card.words: card for card in make_cards(pushed, words, lambda: pieces)}

    # The partner: with nothing found the full stop changes those answers too.
    free, given = counts(False), counts(True)
    assert {words: card.changes for words, card in free.items()} == {(".",): 4, ("honestly",): 4}
    assert {words: card.changes for words, card in given.items()} == {("honestly",): 4, (".",): 1}
    assert given["honestly",].flips == free["honestly",].flips, "its own words are not given to a card"
    assert ([flip.row for flip in given[".",].flips], given[".",].texts, len(given[".",].moved)) == ([3], 4, 1)
    # With "honestly" masked on both sides: three rests below both others, and one as good as even with them.
    assert given[".",].evidence.relative_effect == 3.5 / 4
    assert free[".",].evidence.relative_effect == (3 * 2 + 1 + 0.5) / 8


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
