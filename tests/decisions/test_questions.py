"""Questions: blind, mixed, in an order of the seed, each text once."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from shortcut_guardrail.data import text_hash
from shortcut_guardrail.decisions import draw_questions
from shortcut_guardrail.decisions.questions import Flip

TEXTS = [f"text number {i}" for i in range(60)]
NAMES = ("negative", "positive", "mixed")
FLIPS = {
    "first-card": [Flip(i, 1, 0) for i in range(30)],
    "second-card": [Flip(i, 1, 0) for i in range(20, 30)] + [Flip(i, 1, 2) for i in range(5)],
}


def drawn(**changes):
    given = {"audit": "audit-1", "n": 0, "seed": 0}
    return draw_questions(FLIPS, TEXTS, NAMES, **{**given, **changes})


def test_every_flip_is_asked_about_once_however_many_cards_it_serves():
    questions, keys = drawn()
    # Ten flips serve both cards; five rows have two masked answers, which are two questions.
    assert len(questions) == len({q.id for q in questions}) == 30 + 5
    assert len(keys) == 30 + 15
    served = Counter(key.id for key in keys)
    assert Counter(served.values()) == {2: 10, 1: 25}


def test_the_key_says_which_option_is_the_masked_answer():
    questions, keys = drawn()
    by_id = {q.id: q for q in questions}
    flips = {(card, flip.row): flip for card, of_card in FLIPS.items() for flip in of_card}
    for key in keys:
        question = by_id[key.id]
        flip = flips[key.card, question.row]
        masked, other = question.option_a, question.option_b
        if key.masked_option == "b":
            masked, other = other, masked
        assert (masked, other) == (NAMES[flip.after], NAMES[flip.before])
        assert key.text_hash == text_hash(TEXTS[question.row])


def test_which_option_comes_first_is_a_coin():
    flips = {"c": [Flip(i, 1, 0) for i in range(400)]}
    texts = [f"another text {i}" for i in range(400)]
    _, keys = draw_questions(flips, texts, NAMES, audit="a", n=0)
    first = sum(key.masked_option == "a" for key in keys)
    assert 160 < first < 240


def test_a_question_tells_nothing_of_the_card():
    questions, _ = drawn(n=5)
    assert {f for q in questions for f in vars(q)} == {"id", "row", "option_a", "option_b"}
    assert not any(card in str(q) for q in questions for card in FLIPS)
    other, _ = draw_questions(
        {"renamed": FLIPS["first-card"], "second-card": FLIPS["second-card"]}, TEXTS, NAMES, audit="audit-1", n=0
    )
    assert {q.id for q in other} == {q.id for q in drawn()[0]}


def test_the_seed_fixes_the_order():
    assert drawn() == drawn()
    assert [q.id for q in drawn()[0]] != [q.id for q in drawn(seed=1)[0]]
    assert {q.id for q in drawn()[0]} == {q.id for q in drawn(seed=1)[0]}
    # The masked answer keeps its place, or earlier answers would mean the opposite.
    sides = [{key.id: key.masked_option for key in drawn(seed=seed)[1]} for seed in (0, 1)]
    assert sides[0] == sides[1]


def test_cards_are_mixed_and_keep_their_order():
    questions, keys = drawn(n=10)
    place = {q.id: i for i, q in enumerate(questions)}
    for card in FLIPS:
        own = [place[key.id] for key in sorted(keys, key=lambda k: k.order) if key.card == card]
        # A text that another card asks about earlier is moved up, so the order is kept but for these.
        assert sum(a > b for a, b in itertools.pairwise(own)) <= 3
    half = {key.card for key in keys if place[key.id] < len(questions) / 2}
    assert half == set(FLIPS)


def test_what_was_asked_comes_last():
    questions, keys = drawn(n=10)
    more, new = drawn(n=10, asked=keys)
    first = {key.id for key in keys if key.card == "first-card"}
    second = {key.id for key in new if key.card == "first-card"}
    assert not first & second
    assert sorted(key.order for key in new if key.card == "first-card") == list(range(10, 20))
    # Of 15 flips 10 were asked: the other five come, and then old ones again, whose keys stand already.
    assert len([key for key in new if key.card == "second-card"]) == 5
    assert len(more) > len(new) - len(first & second)
    assert len(questions) <= 20


def test_a_label_answers_before_anybody_is_asked():
    labels: list[int | None] = [None] * 60
    labels[0], labels[1], labels[25] = 0, 1, 2
    questions, keys = drawn(labels=labels)
    asked = {q.row for q in questions}
    assert not asked & {0, 1, 25}
    known = {(key.card, key.text_hash): key for key in keys if key.label}
    mended = known["first-card", text_hash(TEXTS[0])]
    assert mended.label == mended.masked_option
    broken = known["first-card", text_hash(TEXTS[1])]
    assert broken.label not in (broken.masked_option, "neither")
    assert known["first-card", text_hash(TEXTS[25])].label == "neither"


@pytest.mark.parametrize("n", [1, 7])
def test_n_is_for_each_card(n):
    _, keys = drawn(n=n)
    assert Counter(key.card for key in keys) == {"first-card": n, "second-card": n}
