"""Which texts are asked about: blind, mixed, in an order of the seed, each once; and texts without the cards' words."""

from collections import Counter
from dataclasses import replace

import numpy as np

from audits import card
from shortcut_guardrail import TextClassifier
from shortcut_guardrail.cards import Flip
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


def test_a_text_that_serves_two_cards_is_paid_for_once():
    drawing = Drawing("audit-1", NAMES)
    all_of_them, keys = drawing.of_flips(FLIPS, n=0, total=100)
    shared = Counter(key.id for key in keys).most_common(1)[0][1]
    assert (shared, len(all_of_them)) == (2, len({key.id for key in keys}))
    assert drawing.of_flips(FLIPS, n=0, total=len(all_of_them)) == (all_of_them, keys)
    assert len(drawing.of_flips(FLIPS, n=0, total=len(all_of_them) - 1)[0]) == len(all_of_them) - 1


def test_a_question_counts_while_its_prediction_changes_and_again_when_it_does_once_more():
    _, keys = drawn({"first-card": FLIPS["first-card"][:2]})
    for flips, counts in ((FLIPS["first-card"][:1], [True, False]), (FLIPS["first-card"][:2], [True, True])):
        keys = Drawing("audit-1", NAMES, keys).renewed({"first-card": flips})
        asked = {text_hash(TEXTS[i]): i for i in range(2)}
        assert [key.counts for key in sorted(keys, key=lambda key: asked[key.text_hash])] == counts
    assert Drawing("audit-1", NAMES, keys).renewed({"second-card": []}) == keys  # not counted anew


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


def test_texts_near_the_boundary_are_no_farther_than_masked_flips(bag):
    texts = [f"bread soup {'good ' * i}" for i in range(80)]
    second = 1 / (1 + np.exp(-np.arange(1, 81) / 20))  # text i is ahead by (i + 1) / 20
    flips = {"so": [Flip.of(i, "positive", "negative", f"so {i}", 1.02) for i in range(20)]}
    labels = ("negative", "positive")
    probs = np.stack([1 - second, second], axis=1)
    found = draw_references(TextClassifier(*bag).encode(texts), probs, [replace(card("so"), id="so")], flips, labels)
    assert sorted(one.row for one in found if one.near) == [*range(20)]
    assert {one.row for one in found if one.drawn} == set(range(80))


def test_reference_texts_are_without_words_of_flagged_groups_though_few_predictions_change(bag):
    classifier = TextClassifier(*bag)
    texts = [f"{word} soup {'good ' * (i % 9)}" for i in range(40) for word in ("honestly", "so", "bread")]
    probs = np.tile([0.4, 0.6], (len(texts), 1))
    flips = {"so": [Flip.of(i, "positive", "negative", texts[i], 0.1) for i in range(1, 60, 3)]}
    cards = [card("honestly", status="flagged"), replace(card("so"), id="so")]
    encoded = classifier.encode(texts)
    drawn = draw_references(encoded, probs, cards, flips, ("negative", "positive"))
    assert drawn
    assert not [one.text for one in drawn if "honestly" in one.text]
    others = [replace(cards[0], evidence=card("honestly").evidence), cards[1]]  # not flagged, and with no changes
    assert [
        one
        for one in draw_references(encoded, probs, others, flips, ("negative", "positive"))
        if "honestly" in one.text
    ]
