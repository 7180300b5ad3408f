"""Which texts are asked about: blind, mixed, in an order of the seed, each once; and texts without the cards' words."""

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from shortcut_guardrail.cards import Flip
from shortcut_guardrail.cards.card import Card, CardEvidence
from shortcut_guardrail.data import text_hash
from shortcut_guardrail.decisions.drawing import Drawing, draw_references

TEXTS = [f"text number {i}" for i in range(60)]
NAMES = ("negative", "positive", "mixed")
FLIPS = {"first-card": [Flip.of(i, "positive", "negative", TEXTS[i]) for i in range(30)]}
FLIPS["second-card"] = FLIPS["first-card"][20:] + [Flip.of(i, "positive", "mixed", TEXTS[i]) for i in range(5)]


def drawn(flips=FLIPS, *, asked=(), known=None, n=0, seed=0):
    return Drawing("audit-1", NAMES, asked, known or {}).of_flips(flips, n=n, seed=seed)


def test_every_flip_is_asked_about_once_however_many_cards_it_serves():
    questions, keys = drawn()
    # Ten flips serve both cards; five rows have two masked predictions, which are two questions.
    assert len(questions) == len({q.id for q in questions}) == 30 + 5
    assert Counter(Counter(key.id for key in keys).values()) == {2: 10, 1: 25}
    assert {q.id for q in questions}.isdisjoint(q.id for q in Drawing("audit-2", NAMES).of_flips(FLIPS)[0])


def test_the_key_says_which_option_is_the_masked_prediction():
    questions, keys = drawn()
    by_id = {q.id: q for q in questions}
    flips = {(card, one.row): one for card, of_card in FLIPS.items() for one in of_card}
    for key in keys:
        question = by_id[key.id]
        options = (question.option_a, question.option_b)
        one = flips[key.card, question.row]
        assert (options if key.masked_option == "a" else options[::-1]) == (one.after, one.before)
        assert key.text_hash == text_hash(TEXTS[question.row]) == text_hash(question.text)
    # Which comes first is a coin.
    _, keys = drawn({"c": [Flip.of(i, "positive", "negative", f"another text {i}") for i in range(400)]})
    assert 160 < sum(key.masked_option == "a" for key in keys) < 240


def test_a_question_tells_nothing_of_the_card_and_the_seed_fixes_the_order():
    questions, _ = drawn()
    assert {f for q in questions for f in vars(q)} == {"id", "row", "text", "option_a", "option_b"}
    renamed, _ = drawn({"renamed": FLIPS["first-card"], "second-card": FLIPS["second-card"]})
    assert drawn()[0] == questions != drawn(seed=1)[0]
    assert {q.id for q in renamed} == {q.id for q in questions} == {q.id for q in drawn(seed=1)[0]}
    # The masked prediction keeps its place, or earlier answers would mean the opposite.
    places = [{key.id: key.masked_option for key in drawn(seed=seed)[1]} for seed in (0, 1)]
    assert places[0] == places[1]


def test_flips_are_asked_about_in_a_random_order_on_which_the_evidence_rests():
    def first(seed: int, card: str = "c") -> tuple[int, ...]:
        _, keys = drawn({card: FLIPS["first-card"]}, n=3, seed=seed)
        rows = {text_hash(text): i for i, text in enumerate(TEXTS)}
        assert [key.order for key in keys] == [0, 1, 2]
        return tuple(rows[key.text_hash] for key in keys)

    seen = Counter(row for seed in range(200) for row in first(seed))
    assert set(seen) == set(range(30)), "every flip may be among the first"
    assert max(seen.values()) < 45  # of 20 on average
    assert first(0, "c") != first(0, "d"), "each card has an order of its own"


def test_cards_are_mixed_and_keep_their_order():
    questions, keys = drawn(n=10)
    place = {q.id: i for i, q in enumerate(questions)}
    for card in FLIPS:
        own = [place[key.id] for key in sorted(keys, key=lambda k: k.order) if key.card == card]
        # A text that another card asks about earlier is moved up, so the order is kept but for these.
        assert sum(a > b for a, b in itertools.pairwise(own)) <= 3
    assert {key.card for key in keys if place[key.id] < 4} == set(FLIPS)


def test_what_was_asked_comes_last():
    _, keys = drawn(n=10)
    more, new = drawn(n=10, asked=keys)
    of_first = [{key.id for key in some if key.card == "first-card"} for some in (keys, new)]
    assert not of_first[0] & of_first[1]
    assert sorted(key.order for key in new if key.card == "first-card") == list(range(10, 20))
    # Of 15 flips 10 were asked: the other five come, and then old ones again, whose keys stand already.
    assert len([key for key in new if key.card == "second-card"]) == 5
    assert {q.id for q in more} > {key.id for key in new}


def test_what_was_answered_is_not_asked_again_and_counts_for_other_cards():
    _, keys = drawn(n=10)
    answered = {key.id for key in keys}
    questions, new = Drawing("audit-1", NAMES, keys, answered=answered, after=20).of_flips(FLIPS, n=0)
    assert answered.isdisjoint(one.id for one in questions)
    assert {key.after for key in new} == {20}
    # What was answered for the first card is known for the second.
    both = {(key.id, key.card) for key in keys}
    others = {key.id for key in new if (key.id, key.card) not in both}
    assert {key.id for key in new} & answered == others & answered != set()


def test_two_classes_stand_in_one_order_whichever_of_them_the_mask_brings():
    ways = [("positive", "negative"), ("negative", "positive")]
    both = [drawn({"c": [Flip.of(i, *way, text) for i, text in enumerate(TEXTS)]}) for way in ways]
    assert both[0][0] == both[1][0], "the questions are the same"
    assert all(one.masked_option != other.masked_option for one, other in zip(both[0][1], both[1][1], strict=True))


def test_a_key_says_which_other_cards_its_text_holds_words_of():
    cards = [card("first"), card("number"), card("text"), card("zebra")]
    drawing = Drawing("audit-1", NAMES, cards=cards, given=["TEXT"])
    _, keys = drawing.of_flips({"first": FLIPS["first-card"][:3]}, n=0)
    assert {key.holds for key in keys} == {("number",)}, "what is given is masked in any case"
    _, keys = drawing.of_flips({"number": FLIPS["first-card"][:3]}, n=0)
    assert {key.holds for key in keys} == {()}, "its own words do not count"


def test_a_text_that_still_flips_between_the_same_classes_keeps_its_question():
    _, keys = drawn({"c": FLIPS["first-card"][:4], "other": FLIPS["first-card"][:4]})
    still = [Flip.of(0, *NAMES[:2], TEXTS[0]), Flip.of(1, "positive", "mixed", TEXTS[1]), FLIPS["first-card"][2]]
    renewed = Drawing("audit-1", NAMES, keys).renewed({"c": still})
    assert [key.id for key in renewed] == [key.id for key in keys]
    hashes = {text_hash(text): i for i, text in enumerate(TEXTS)}
    counts = {(key.card, hashes[key.text_hash]): key.counts for key in renewed}
    # The second flips to another class, and the last not at all; of the other card nothing was counted.
    of_other = {("other", i): True for i in range(4)}
    assert counts == of_other | {("c", 0): True, ("c", 1): False, ("c", 2): True, ("c", 3): False}
    turned = {hashes[key.text_hash]: key.masked_option for key in renewed if key.card == "c"}
    was = {hashes[key.text_hash]: key.masked_option for key in keys if key.card == "c"}
    assert (turned[0] != was[0], turned[2] == was[2]) == (True, True)
    again = Drawing("audit-1", NAMES, renewed).renewed({"c": FLIPS["first-card"][:4]})
    assert all(key.counts for key in again)


def test_a_total_is_spent_on_the_first_cards_as_far_as_it_may_decide_them():
    flips = {name: [Flip.of(i, "positive", "negative", f"{name} {i}") for i in range(30)] for name in "abc"}

    def asked(total, least=None, flips=flips, **how):
        least = least or dict.fromkeys(flips, 8)
        questions, keys = Drawing("audit-1", NAMES, **how).of_flips(flips, total=total, least=least)
        assert len(questions) <= total
        return Counter(key.card for key in keys)

    assert asked(100) == {"a": 16, "b": 16, "c": 16}, "the rest is for cards that stay open"
    assert asked(40) == {"a": 16, "b": 16, "c": 8}
    assert asked(39) == {"a": 16, "b": 16}, "with seven no card can be decided"
    assert asked(44, {"a": 20, "b": 8, "c": 9}) == {"a": 20, "b": 16}
    # A text that serves two cards, or has a label, is paid for once or not at all.
    assert asked(24, flips={"a": flips["a"], "b": flips["a"], "c": flips["c"]})["a"] == 16
    assert asked(12, known=dict.fromkeys(range(30), "mixed")) == {"a": 16, "b": 16, "c": 16}


def test_a_label_answers_before_anybody_is_asked():
    questions, keys = drawn(known={0: "negative", 1: "positive", 25: "mixed"})
    assert not {q.row for q in questions} & {0, 1, 25}
    known = {(key.card, key.text_hash): key for key in keys if key.label}
    fixed, broken, neither = (known["first-card", text_hash(TEXTS[i])] for i in (0, 1, 25))
    assert fixed.label == fixed.masked_option
    assert broken.label not in (broken.masked_option, "neither")
    assert neither.label == "neither"
    all_known = drawn(n=7, known=dict.fromkeys(range(60), "mixed"))[1]
    assert Counter(key.card for key in all_known) == dict.fromkeys(FLIPS, 7)


def named(number: int) -> str:
    """A word of its own; texts that differ in digits alone are one."""
    return "".join("bcdfghklmn"[int(digit)] for digit in f"{number:03}")


def card(word: str, *, status="undecided", changes=20) -> Card:
    return Card(word, (word,), "positive", 40, changes, 0.1, CardEvidence(status, (), 1.0, 0.7))


def references(*, reach=1.0, sizes=(450, 450), n_flips=20, the=0.0, seed=0):
    """Texts ever farther from the boundary, negative ones first; the nearest negative ones hold "book" and are flips.

    A share of the texts of either side holds "the", which is a word of another card, flagged.
    """
    margins = np.concatenate([-0.01 * np.arange(1, sizes[0] + 1), 0.01 * np.arange(1, sizes[1] + 1)])
    texts = [f"plain {named(i)}" + " the" * (i % 100 < 100 * the) for i in range(len(margins))]
    texts[:n_flips] = [f"book {text}" for text in texts[:n_flips]]
    flips = [Flip.of(i, "negative", "positive", texts[i], reach if i == 3 else 0.1) for i in range(n_flips)]
    probs = np.stack([1 / (1 + np.exp(margins)), 1 / (1 + np.exp(-margins)), np.full(len(margins), 1e-9)], axis=1)
    cards = [card("book"), card("the", status="flagged", changes=3)]
    return draw_references(SimpleNamespace(texts=texts), probs, cards, {"book": flips, "the": []}, NAMES, seed=seed)


def count(found, answer: str) -> tuple[int, int]:
    """How many texts are drawn, and how many near."""
    own = [one for one in found if one.answer == answer]
    return sum(one.drawn for one in own), sum(one.near for one in own)


def test_reference_texts_hold_no_word_of_a_card_that_can_be_decided_or_is_flagged():
    found = references()
    assert {(one.answer, one.other) for one in found} == {("negative", "positive"), ("positive", "negative")}
    assert not any("book" in one.text or one.holds for one in found)
    assert references(n_flips=7) == [], "without flips of a card that can be decided there is no pair of classes"
    assert not any("the" in one.text.split() for one in references(the=0.7))
    kept = references(the=0.9)
    assert {one.holds for one in kept} == {(), ("the",)}, "where too few texts would be left, the word stays"
    assert all((one.holds == ("the",)) == ("the" in one.text.split()) for one in kept)
    # Of 120 texts, 50 without the word are enough, and 40 are not; words on which more predictions hang go first.
    assert [any(one.holds for one in references(sizes=(220, 120), the=the)) for the in (0.5, 0.6)] == [False, True]
    assert {one.holds for one in references(n_flips=250, the=0.6)} == {(), ("the",)}


def test_texts_are_drawn_at_random_and_near_the_boundary_on_both_sides():
    found = references()
    # Flips reach 1.00 from the boundary; the nearest 20 negative texts hold the word.
    assert (count(found, "negative"), count(found, "positive")) == ((100, 80), (100, 100))
    assert all(one.near == (one.margin <= 1.0) for one in found)
    assert all(one.margin == pytest.approx(0.01 * (one.row % 450 + 1)) for one in found)
    rows = [{one.row for one in references(seed=seed) if one.drawn} for seed in (0, 1)]
    assert rows[0] == {one.row for one in found if one.drawn} != rows[1]
    assert np.mean([row % 450 for row in rows[0]]) == pytest.approx(235, abs=40)
    # However far flips reach, near are 150 at most, and no more than the nearer half where that is 75 or more.
    for sizes, near in (((450, 450), (150, 150)), ((220, 120), (100, 75))):
        far = references(reach=9, sizes=sizes)
        assert [count(far, name) for name in ("negative", "positive")] == [(100, n) for n in near]
