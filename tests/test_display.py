"""What results show of themselves: never wider than a terminal, never longer than a look, and nothing obeyed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from audits import HOSTILE, NAN
from shortcut_guardrail.display import Shown, Summary, cell, columns_of, cut, interval, number, p_value, some, spread

ODD = [
    *HOSTILE,
    "",
    " ",
    "很好" * 60,
    "お茶はとても美味しかったです。" * 10,
    "한국어" * 40,
    "x" * 100_000,
    "👩\u200d🚒❤\ufe0f" * 50,
    "e" + "\u0301" * 5000,
    "a\u202eb\x1b[31m\x07\r\n\t\u2028\ud83d",
    "می\u200cخواهم",
    "$x^2$ \\frac",
]


def lines_of(shown: str) -> list[str]:
    """Its lines, each of which has to fit."""
    lines = shown.splitlines()
    assert [line for line in lines if cell_len(line.encode("utf-8", "replace").decode()) > 80] == []
    assert not any(mark in shown for mark in "\x1b\x07\r\t\u2028\u202e\ud83d")
    return lines


def odd_summary(*words: str) -> Summary:
    return Summary(
        " ".join(words),
        {"named": words[0], "all": ", ".join(words)},
        ("word", ">texts", ">95 %", "pulls to"),
        [(word, 12, (0.1, 0.5), words[0]) for word in words],
        notes=(f"A note on {words[-1]}.",),
    )


def test_numbers():
    assert [number(0.12345), number(-0.5, signed=True), number(NAN), number(None)] == ["0.123", "-0.500", "-", "-"]
    assert [number(0.5, signed=True), number(-0.0001, signed=True), number(-0.0001)] == ["+0.500", "+0.000", "0.000"]
    assert [interval(0.1, 0.954), interval(NAN, NAN)] == ["0.10 to 0.95", "-"]
    assert [p_value(None), p_value(0.0001), p_value(0.04)] == ["-", "<0.001", "0.040"]
    assert [cell(value) for value in (3, 0.5, None, (0.1, 0.2), "a")] == ["3", "0.500", "-", "0.10 to 0.20", "a"]


def test_a_table_in_full():
    summary = Summary(
        "Result: 3 texts", {"a": "1", "long": "2"}, ("word", ">n"), [("one", 1), ("very", 22)], 5, ("So.",)
    )
    assert summary.text().splitlines() == [
        "Result: 3 texts",
        "a     1",
        "long  2",
        "word   n",
        "one    1",
        "very  22",
        "... and 5 more",
        "So.",
    ]
    assert Summary("Nothing").text() == "Nothing"
    assert "<table" not in Summary("Nothing").html()


@pytest.mark.parametrize("word", ODD)
def test_odd_words_fit(word):
    lines = lines_of(odd_summary(word, "plain").text())
    assert len(lines) <= 13
    head = next(i for i, line in enumerate(lines) if line.startswith("word"))
    assert ["12" in line and "0.10 to 0.50" in line for line in lines[head + 1 : head + 3]] == [True, True]
    assert len(odd_summary(word, "plain").html()) < 12_000


@given(st.lists(st.text(max_size=120), min_size=1, max_size=12))
def test_whatever_the_words_are_the_lines_fit(words):
    shown = odd_summary(*words).text()
    assert max(map(columns_of, shown.split("\n"))) <= 80
    assert len(shown.split("\n")) <= 1 + 2 + 1 + 12 + 6


@pytest.mark.parametrize("text", [text for text in ODD if text.isprintable()])
def test_columns_are_not_underestimated(text):
    assert columns_of(text) >= cell_len(text)


def test_what_is_too_wide_is_cut_where_it_stops_fitting():
    assert [cut("honestly", 8), cut("honestly", 7), cut("很好很好", 7), cut("很好很好", 8)] == [
        "honestly",
        "honest…",
        "很好很…",
        "很好很好",
    ]
    # One character of a thousand accents takes one column, and is cut as well.
    assert len(cut("e" + "\u0301" * 1000, 10)) == 41


def test_markup_arrives_escaped():
    shown = odd_summary(*HOSTILE).html()
    assert "<script" not in shown.lower()
    assert "<img" not in shown.lower()
    assert "&lt;script&gt;" in shown
    # The partner: what is ours is not escaped.
    assert "<td" in shown
    assert "color" not in shown


def test_the_rows_beyond_the_first_are_counted():
    summary = Summary("R", columns=("n",), rows=[(i,) for i in range(8)], more=1004)
    assert summary.text().splitlines()[-2:] == ["7", "... and 1,004 more"]
    assert "... and 1,004 more" in summary.html()
    assert summary.html().count("<td") == 8
    assert "more" not in replace(summary, more=0).text()


def test_names_beyond_the_first_are_counted():
    assert some(list("abcdefgh")) == "a, b, c, d, e and 3 more"
    assert some(["x" * 100]) == "x" * 29 + "…"


@pytest.mark.parametrize("n", [1, 11, 12, 13, 19, 500])
def test_points_are_spread_and_the_chosen_one_is_among_them(n):
    points = [SimpleNamespace(strength=i / n) for i in range(n)]
    for chosen in points:
        few = spread(points, (chosen.strength,))
        assert few == sorted(few, key=lambda point: point.strength)
        assert {points[0].strength, chosen.strength, points[-1].strength} <= {point.strength for point in few}
        assert len(few) == min(n, 11)


def test_a_result_says_what_and_is_shown_both_ways():
    class Result(Shown):
        def _summary(self) -> Summary:
            return Summary("Result: <b>")

    assert repr(Result()) == "Result: <b>"
    assert "Result: &lt;b&gt;" in Result()._repr_html_()
