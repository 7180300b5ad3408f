"""Judging cards: the first crossing decides, and everything else is counted as said."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from shortcut_guardrail.decisions import agreed_decision
from shortcut_guardrail.decisions.drawing import Key
from shortcut_guardrail.decisions.people import FOLLOWS, agreed, fewest, judge_cards
from shortcut_guardrail.stats import paired_e_value


def keys(n: int, card: str = "c", **changes) -> list[Key]:
    return [Key(f"{card}{i}", card, "a", f"h{i}", i, **changes) for i in range(n)]


def judged(answers: str, n: int | None = None, **options):
    """`answers` has a letter a question: m fixed, b broken, n neither, u unclear, - unanswered."""
    meaning = {"m": "a", "b": "b", "n": "neither", "u": "unclear"}
    given = {f"c{i}": meaning[letter] for i, letter in enumerate(answers) if letter != "-"}
    return judge_cards(keys(n or len(answers)), given, **options)[0]


def test_the_first_crossing_decides():
    for answers, outcome, asked in (
        *[("m" * 7, "open", 7), ("m" * 8, "shortcut", 8), ("b" * 8, "legitimate", 8)],
        ("mmmmmmmmbbbbbbbbbbbbbbbbbbbbbb", "shortcut", 8),  # final, whatever comes after
        *[("mbmbmbmb", "open", 8), ("nununu" + "m" * 8, "shortcut", 14)],
        ("-" * 33 + "m" * 8, "shortcut", 8),  # what nobody answered does not count
        ("u" * 50 + "m" * 8, "open", 40),
    ):
        found = judged(answers)
        assert (found.outcome, found.asked) == (outcome, asked)


def test_counts_are_those_at_the_decision_and_keep_asking_counts_on_and_decides_as_before():
    found = judged("mbnuu" + "m" * 20)
    assert (found.fixed, found.broken, found.neither, found.unclear, found.e_value) == (10, 1, 1, 2, 1.5**10 * 0.5)
    assert (judged("b" * 9).e_value, len(found.text_hashes)) == (1.5**8, 14)
    found = judged("m" * 8 + "b" * 30, keep_asking=True)
    assert (found.outcome, found.fixed, found.broken) == ("shortcut", 8, 30)
    assert found.e_value < 1
    late = judged("u" * 40 + "m" * 8, keep_asking=True)
    assert late.outcome == "open"  # after 40 it is open, however much is asked


def test_the_order_of_the_key_counts_and_not_that_of_the_answers_and_labels_come_first():
    # In the order of the keys eight fixed come first, and decide; in a file they come last.
    turned = [Key(f"q{i}", "c", "a", f"h{i}", 15 - i) for i in range(16)]
    answers = {f"q{i}": "b" if i < 8 else "a" for i in range(16)}
    assert judge_cards(turned, answers) == judge_cards(turned[::-1], answers)
    assert judge_cards(turned, answers)[0].outcome == "shortcut"
    known = [Key(f"l{i}", "c", "b", f"l{i}", 100 + i, label="b") for i in range(8)]
    found = judge_cards([*keys(8), *known], {f"c{i}": "b" for i in range(8)})[0]
    assert (found.outcome, found.asked, found.fixed) == ("shortcut", 8, 8)


def ask(card: str, n: int, start: int = 0, **how) -> list[Key]:
    return [Key(f"{card}{i}", card, "a", f"{card}{i}", i, **how) for i in range(start, start + n)]


def test_what_came_first_counts_first_whatever_its_place():
    # Six broken came first, though their questions come last; then eight fixed, and labels that were known later.
    of_card = [*ask("c", 14), Key("l", "c", "a", "l", 0, label="b", after=6)]
    answers = {f"c{i}": "a" if i < 8 else "b" for i in range(14)}
    arrived = {f"c{i}": 6 if i < 8 else 0 for i in range(14)}
    assert judge_cards(of_card, answers)[0].outcome == "shortcut", "the label, and then those of the first places"
    found = judge_cards(of_card, answers, arrived=arrived)[0]
    assert (found.outcome, found.asked, found.fixed, found.broken) == ("open", 15, 8, 7)
    assert found.text_hashes[:8] == ("c8", "c9", "c10", "c11", "c12", "c13", "l", "c0")


def test_answers_to_texts_with_a_word_of_a_shortcut_wait_once_it_is_decided():
    shortcut, other = ask("s", 8), [*ask("o", 3), *ask("o", 9, 3, holds=("s",))]
    answers = {key.id: "a" for key in (*shortcut, *other)}
    found = {one.id: one for one in judge_cards([*shortcut, *other], answers)}
    assert [found[card].outcome for card in "so"] == ["shortcut", "open"]
    assert (found["o"].fixed, found["o"].asked, found["o"].waiting, found["s"].waiting) == (3, 3, 9, 0)
    # The partners: the first is open, or legitimate, or comes after the other; or the texts were counted without it.
    unclear = answers | {key.id: "unclear" for key in shortcut}
    legitimate = answers | {key.id: "b" for key in shortcut}
    for said in (unclear, legitimate):
        assert judge_cards([*shortcut, *other], said)[1].outcome == "shortcut"
    assert judge_cards([*other, *shortcut], answers)[0].outcome == "shortcut"
    assert judge_cards([*shortcut, *ask("o", 12)], answers)[1].outcome == "shortcut"
    # Of what is decided nothing waits.
    decided = judge_cards([*shortcut, *ask("o", 8), *ask("o", 4, 8, holds=("s",))], answers)[1]
    assert (decided.outcome, decided.fixed, decided.waiting) == ("shortcut", 8, 0)
    # Somebody calls it one whatever the answers say.
    assert judge_cards([*shortcut, *other], unclear, shortcuts=["s"])[1].waiting == 9


def test_a_decision_stays_whatever_is_decided_later():
    shortcut, other = ask("s", 8), ask("o", 8, holds=("s",))
    answers, late = {key.id: "a" for key in (*shortcut, *other)}, {key.id: 8 for key in shortcut}
    found = judge_cards([*shortcut, *other], answers, arrived=late)
    assert [(one.outcome, one.fixed) for one in found] == [("shortcut", 8)] * 2
    # Its answers go on being those that decided it, and the evidence of all is that of all.
    more = [*other, *ask("o", 2, 8)]
    for keep_asking, fixed in ((False, 8), (True, 10)):
        answers |= {"o8": "a", "o9": "a"}
        found = judge_cards([*shortcut, *more], answers, arrived=late | {"o8": 16, "o9": 16}, keep_asking=keep_asking)
        assert (found[1].outcome, found[1].fixed) == ("shortcut", fixed)


def test_what_does_not_flip_any_more_says_nothing():
    keys_ = [replace(key, counts=key.order % 2 == 0) for key in ask("c", 16)]
    found = judge_cards(keys_, {key.id: "a" if key.counts else "b" for key in keys_})[0]
    assert (found.fixed, found.broken, found.waiting) == (8, 0, 0)


@pytest.mark.parametrize("files", [1, 2, 3, 5])
def test_more_files_in_any_order_are_no_more_often_wrong(files):
    rng, of_card = np.random.default_rng(files), ask("c", 12 * files)
    wrong: Counter[str] = Counter()
    for _ in range(1000):
        right = rng.random(len(of_card)) < 0.5
        answers = {key.id: "ba"[is_right] for key, is_right in zip(of_card, right.tolist(), strict=True)}
        arrived: dict[str, int] = {}
        ever: set[str] = set()
        for file in rng.permutation(files):
            arrived |= {key.id: len(arrived) for key in of_card[12 * file : 12 * file + 12]}
            said = {id_: answers[id_] for id_ in arrived}
            ever.add(judge_cards(of_card, said, arrived=arrived)[0].outcome)
        wrong.update(ever)
    # Of 1,000; judged each on its own, five files come to 150 and more.
    assert all(10 < wrong[outcome] < 60 for outcome in FOLLOWS)


def test_decisions_among_many_cards():
    of_cards = [key for card in "xyz" for key in keys(40, card)]
    answers = {f"x{i}": "a" for i in range(8)} | {f"y{i}": "b" for i in range(40)} | {f"z{i}": "a" for i in range(40)}
    found = {one.id: one for one in judge_cards(of_cards, answers, keep_asking=True)}
    assert {card: one.outcome for card, one in found.items()} == {"x": "shortcut", "y": "legitimate", "z": "shortcut"}
    # 25.6 is below 3 / (.05 * 2) = 30, so that x alone does not survive; the others do.
    assert {card: one.survives_e_bh for card, one in found.items()} == {"x": False, "y": True, "z": True}


def test_two_reviewers_count_once_and_unclear_where_they_disagree():
    together = agreed([{"1": "a", "2": "b"}, {"1": "a", "2": "a", "3": "neither"}, {"2": "b"}])
    assert together == {"1": "a", "2": "unclear", "3": "neither"}
    assert agreed_decision(["keep"]) == agreed_decision(["keep", "unsure"]) == "keep"
    assert not any(map(agreed_decision, (["keep", "remove_reliance"], ["unsure"], [])))


def test_the_fewest_answers_that_decide():
    for fixed, broken in ((0, 0), (3, 0), (5, 4), (0, 7), (8, 0)):
        more = fewest(fixed, broken)
        most, least = max(fixed, broken), min(fixed, broken)
        assert paired_e_value(most + more, least) >= 20
        assert not more or paired_e_value(most + more - 1, least) < 20
