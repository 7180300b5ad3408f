"""Judging cards: the first crossing decides, and everything else is counted as said."""

from collections import Counter

import numpy as np
import pytest

from shortcut_guardrail.decisions.drawing import Key
from shortcut_guardrail.decisions.people import FOLLOWS, judge_cards


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


def ask(card: str, n: int, start: int = 0, **how) -> list[Key]:
    return [Key(f"{card}{i}", card, "a", f"{card}{i}", i, **how) for i in range(start, start + n)]


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


def test_of_what_came_together_labels_come_first():
    """Seven answers for one side, and eight labels for the other, which decide before these are looked at."""
    of_card = [*ask("c", 7), *ask("c", 8, start=7, label="b")]
    found = judge_cards(of_card, {key.id: "a" for key in of_card[:7]})[0]
    assert (found.outcome, found.asked) == ("legitimate", 8)


def test_each_direction_is_a_family_of_its_own():
    """Three decisions at 25.6: of three cards asked, one in a direction needs 60, two need 30 each, and three 20."""
    of = {card: ask(card, 8) for card in "cde"}
    answers = {key.id: "a" if card == "c" else "b" for card, some in of.items() for key in some}
    found = judge_cards([key for some in of.values() for key in some], answers)
    assert [(one.outcome, one.survives_e_bh) for one in found] == [("shortcut", False), *[("legitimate", False)] * 2]
    found = judge_cards([key for some in of.values() for key in some], dict.fromkeys(answers, "b"))
    assert [(one.outcome, one.survives_e_bh) for one in found] == [("legitimate", True)] * 3
