"""Judging cards: the first crossing decides, and everything else is counted as said."""

from dataclasses import replace

from shortcut_guardrail.decisions.drawing import Key
from shortcut_guardrail.decisions.people import judge_cards


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
    late = judged("u" * 40 + "m" * 8, keep_asking=True)  # evidence, but no decision after the 40th
    assert (late.outcome, late.asked, late.e_value, late.unclear) == ("open", 48, 1.5**8, 40)
    held = judge_cards(keys(9, holds=("d",)), dict.fromkeys(("c0", "c1"), "a"), shortcuts=["d"])[0]
    assert (held.asked, held.waiting) == (0, 2)


def ask(card: str, n: int, start: int = 0, **how) -> list[Key]:
    return [Key(f"{card}{i}", card, "a", f"{card}{i}", i, **how) for i in range(start, start + n)]


def test_a_decision_stays_whatever_is_decided_later():
    """Texts that hold "d" decide "c"; then "d" is decided, and other texts speak for the other side."""
    of_card, other = [*ask("c", 8, holds=("d",)), *ask("c", 8, start=8)], ask("d", 8)
    answers = {key.id: "b" for key in of_card[:8]} | {key.id: "a" for key in (*of_card[8:], *other)}
    arrived = {key.id: 8 * (key in other) + 16 * (key in of_card[8:]) for key in (*of_card, *other)}
    found = judge_cards([*other, *of_card], answers, arrived=arrived)
    assert [(one.outcome, one.asked) for one in found] == [("shortcut", 8), ("legitimate", 8)]
    # The partner: of a question that was drawn later its answer comes later.
    later = [replace(key, after=20) for key in of_card[:8]]
    found = judge_cards([*other, *later, *of_card[8:]], answers, arrived=arrived)
    assert [one.outcome for one in found] == ["shortcut", "shortcut"]
    came = {key.id: 9 for key in of_card[:8]}  # and of one that was answered later
    assert judge_cards(of_card, answers, arrived=came)[0].outcome == "shortcut"


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
