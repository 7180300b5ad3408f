"""Which texts are asked about: blind, mixed, in an order of the seed, each once; and texts without the cards' words."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from audits import card
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.data import text_hash
from shortcut_guardrail.decisions.drawing import Drawing, ReferenceText, _of_side, _without, draw_references

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
    first = {"first-card": FLIPS["first-card"]}
    assert [len(drawing.of_flips(first, n=0, total=40, least={"first-card": n})[0]) for n in (8, 20)] == [16, 20]
    soup, tea = card("soup"), card("tea", "green tea")
    for given, holds in (["TEA"], (tea.id,)), (["tea", "green  tea"], ()):
        drawing = Drawing("audit-1", NAMES, cards=(soup, tea), given=given)
        assert drawing.placed(replace(keys[0], card=soup.id), ("soup", "green Tea")).holds == holds


def test_a_question_counts_while_its_prediction_changes_and_again_when_it_does_once_more():
    _, keys = drawn({"first-card": FLIPS["first-card"][:2]})
    for flips, counts in ((FLIPS["first-card"][:1], [True, False]), (FLIPS["first-card"][:2], [True, True])):
        keys = Drawing("audit-1", NAMES, keys).renewed({"first-card": flips})
        asked = {text_hash(TEXTS[i]): i for i in range(2)}
        assert [key.counts for key in sorted(keys, key=lambda key: asked[key.text_hash])] == counts
        assert Drawing("audit-1", NAMES, keys).renewed({"second-card": []}) == keys  # not counted anew
    back = [Flip.of(i, "negative", "positive", TEXTS[i]) for i in range(2)]  # the same question, and the other answer
    now = Drawing("audit-1", NAMES, keys).renewed({"first-card": back})
    assert [key.masked_option for key in now] == [{"a": "b", "b": "a"}[key.masked_option] for key in keys]


def test_a_question_tells_nothing_of_the_card_and_the_seed_fixes_the_order():
    questions, _ = drawn()
    assert {f for q in questions for f in vars(q)} == {"id", "row", "text", "option_a", "option_b"}
    renamed, _ = drawn({"renamed": FLIPS["first-card"], "second-card": FLIPS["second-card"]})
    assert drawn()[0] == questions != drawn(seed=1)[0]
    assert {q.id for q in renamed} == {q.id for q in questions} == {q.id for q in drawn(seed=1)[0]}
    # The masked prediction keeps its place, or earlier answers would mean the opposite.
    places = [{key.id: key.masked_option for key in drawn(seed=seed)[1]} for seed in (0, 1)]
    assert places[0] == places[1]


def test_reference_texts_are_of_both_sides_and_near_where_masked_flips_are():
    kinds = [f"soup tea {'so ' * i}{'room' * (i == 6)}" for i in range(30)]
    probs = np.exp([[i / 10 * (i % 3 == c) for c in range(3)] for i in range(30)])  # i / 10 ahead of both others
    margins = {"soup": [0.5, 2.05, *[None] * 6], "tea": [9.0] * 7}  # seven flips decide nothing, whatever they say
    other = {"soup": "negative", "tea": "mixed"}
    flips = {w: [Flip.of(i, "positive", other[w], f"x {i}", m) for i, m in enumerate(of)] for w, of in margins.items()}
    cards = [*(replace(card(word), id=word) for word in flips), card("room", status="flagged")]
    found = draw_references(SimpleNamespace(texts=kinds), probs / probs.sum(1, keepdims=True), cards, flips, NAMES)
    near = {one.row: one.near for one in found if one.drawn}
    assert (near, len(found)) == ({i: i <= 20 for i in range(30) if i % 3 < 2 and i != 6}, 19), "no flagged words"
    (fourth,) = (one for one in found if one.row == 4)
    assert replace(fourth, margin=round(fourth.margin, 6)) == ReferenceText(
        4, kinds[4], "positive", "negative", 0.4, drawn=True, near=True, holds=("soup",)
    )


def test_so_many_texts_are_drawn_and_near_on_each_side():
    for n, n_near in ((320, 150), (199, 100), (100, 75), (60, 60)):
        logs = np.stack([np.zeros(n), np.arange(n, 0, -1) / n], axis=1)  # the last is the nearest
        one, other = (_of_side(logs, np.arange(n), (1, 0), 1.0, np.random.default_rng(seed)) for seed in (0, 1))
        assert [i for i, _, near in one if near] == [*range(n - n_near, n)]
        assert (sum(drawn for _, drawn, _ in one), one == other) == (min(n, 100), n <= 100)


def test_words_without_which_too_few_texts_of_a_class_are_left_stay():
    texts, answers = np.arange(310), np.repeat([0, 1], [300, 10])
    less, more = card("b", changes=10), card("a", changes=30)
    holding = {less.id: texts == 300, more.id: (texts < 200) | (texts >= 304)}  # 100 and 4 texts hold no "a"
    assert _without(texts, [less, more], holding, answers).tolist() == [*range(200, 304)]
