"""What results show of themselves: never wider than a terminal, never longer than a look, and nothing obeyed."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from audits import CALIBRATION, HOSTILE, NAN, audit, candidate, evaluation, group
from shortcut_guardrail import FitReport, Repair, Shortcut, ShortcutGuardrail, Shortcuts, StrengthChoice, display
from shortcut_guardrail.audit import ShardedAudit
from shortcut_guardrail.config import preset, updated
from shortcut_guardrail.display import Summary, cell, cut, interval, number, p_value, percent, some, spread
from shortcut_guardrail.mitigation.training import AdapterTraining
from shortcut_guardrail.strength.certificate import Certificate, CertifiedStrength
from shortcut_guardrail.strength.unsupervised import AgreementPoint, UnlabelledCalibration

ODD = [
    *HOSTILE,
    *("", " ", "很好" * 60, "お茶はとても美味しかったです。" * 10, "한국어" * 40, "می\u200cخواهم", "$x^2$ \\frac"),
    *("x" * 20_000, "👩\u200d🚒❤\ufe0f" * 50, "e" + "\u0301" * 5000, "a\u202eb\x1b[31m\x07\r\n\t\u2028\ud83d"),
]


def lines_of(shown: str) -> list[str]:
    """Its lines, each of which has to fit."""
    lines = shown.splitlines()
    assert [line for line in lines if cell_len(line.encode("utf-8", "replace").decode()) > 80] == []
    assert not any(mark in shown for mark in "\x1b\x07\r\t\u2028\u202e\ud83d")
    return lines


def odd_summary(*words: str) -> Summary:
    facts, columns = {"named": words[0], "all": ", ".join(words)}, ("word", ">texts", ">95 %", "pushes towards")
    rows = [(word, 12, (0.1, 0.5), words[0]) for word in words]
    return Summary(" ".join(words), facts, columns, rows, notes=(f"A note on {words[-1]}.",))


def test_numbers_and_a_table_in_full():
    assert [number(0.12345), number(-0.5, signed=True), number(NAN), number(None)] == ["0.123", "-0.500", "-", "-"]
    assert [number(0.5, signed=True), number(-0.0001, signed=True), number(-0.0001)] == ["+0.500", "+0.000", "0.000"]
    assert [interval(0.1, 0.954), interval(NAN, NAN)] == ["0.10 to 0.95", "-"]
    assert [p_value(p) for p in (None, 0.0001, 0.001, 0.04)] == ["-", "<0.001", "0.001", "0.040"]
    assert [cell(value) for value in (3, 0.5, None, (0.1, 0.2), "a")] == ["3", "0.500", "-", "0.10 to 0.20", "a"]
    counts = [("one", 1), ("very", 22)]
    summary = Summary("Result: 3 texts", {"a": "1", "long": "2"}, ("word", ">n"), counts, 5, ("So.",))
    facts, rows = ["a     1", "long  2"], ["word   n", "one    1", "very  22"]
    assert summary.text().splitlines() == ["Result: 3 texts", *facts, *rows, "... and 5 more", "So."]
    html = summary.html()
    assert ("... and 5 more" in html, html.count("<td")) == (True, 6)  # those of the facts too
    assert html.count("right") == 3  # numbers and their head
    assert len(replace(summary, notes=("so " * 400,)).text().splitlines()) == 1 + 2 + 3 + 1 + 6
    assert display.template("report/summary.j2").environment.filters["code"]("`|`") == "`'/'`"
    assert "more" not in replace(summary, more=0).text()
    assert "... and 1,004 more" in replace(summary, more=1004).text()
    assert (Summary("Nothing").text(), "<table" not in Summary("Nothing").html()) == ("Nothing", True)


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
    assert max(map(cell_len, shown.split("\n"))) <= 80
    assert len(shown.split("\n")) <= 1 + 2 + 1 + 12 + 6


def test_what_is_too_wide_is_cut_where_it_stops_fitting():
    assert [cut("honestly", 8), cut("honestly", 7)] == ["honestly", "honest…"]
    assert [cut("很好很好", 8), cut("很好很好", 7)] == ["很好很好", "很好很…"]
    # One character of a thousand accents takes one column, and is cut as well.
    assert (len(cut("e" + "\u0301" * 1000, 10)), some(list("abcdefgh"))) == (41, "a, b, c, d, e and 3 more")
    assert some(["x" * 100]) == "x" * 29 + "…"


def test_markup_arrives_escaped():
    shown = odd_summary(*HOSTILE).html()
    assert not re.search("<script|<img", shown.lower())
    assert "&lt;script&gt;" in shown
    # The partner: what is ours is not escaped.
    assert "<td" in shown
    assert "color" not in shown
    # Notebooks take what stands between dollar signs for formulas, unless told not to.
    assert shown.startswith('<div class="tex2jax_ignore mathjax_ignore">')


@pytest.mark.parametrize("n", [1, 11, 12, 13, 19, 500])
def test_points_are_spread_and_the_chosen_one_is_among_them(n):
    points = [SimpleNamespace(strength=i / n) for i in range(n)]
    for chosen in points:
        few = spread(points, (chosen.strength,))
        assert few == sorted(few, key=lambda point: point.strength)
        assert {points[0].strength, chosen.strength, points[-1].strength} <= {point.strength for point in few}
        assert len(few) == min(n, 11)


def odd_results(*words: str) -> list[Any]:
    """One result of each kind, with the words wherever a text, a name or a label may stand."""
    candidates = [candidate(word, pushes_towards=words[-1], flagged=i < 2) for i, word in enumerate(words)]
    names, notes = (words[0], words[-1] + "!"), (f"The model never predicts {words[0]!r}.",)
    found = audit(*candidates, label_names=names, n_truncated=3, notes=notes)
    taken = (Shortcut(word, "found", "flagged", 12, 0.5, words[-1], 0.01, n_support=4, fixed=2) for word in words)
    weighed = Shortcuts(tuple(taken))
    training = AdapterTraining(9, 8, 7, 1, 0.1, (0.7, 0.3), ("query",), 5, 0.1, 0.2, 1.5)
    fitted = FitReport(training, preset("distill"), 0, 2, {}, weighed)
    dial = UnlabelledCalibration(0.3, 40, 12, tuple(AgreementPoint(i / 99, 0.1, 0.9) for i in range(100)))
    repair = Repair("distill", f"It was {words[0]}.", fitted, StrengthChoice(0.3, "agreement"))
    shards = ShardedAudit(found, Path("shards"), 2, None)
    return [found, shards, evaluation(*words), CALIBRATION, dial, certificate(), weighed, fitted, repair]


def certificate() -> Certificate:
    points = (CertifiedStrength(i / 10, 5 * i, i, 1, 2, 0.04, False, 50, None) for i in range(1, 11))
    return Certificate(0.02, 0.95, "net", "exact", 1000, 40, 1, tuple(points), in_use=0.3, strength=0.0)


@pytest.mark.parametrize("word", [word for word in ODD if word])
def test_results_with_odd_words_are_short_and_escaped(word):
    for result in odd_results(word, *(f"{word}{i}" for i in range(20))):
        assert repr(result).startswith(type(result).__name__)
        # Where a character carries thousands of accents, a note is broken between them.
        assert len(lines_of(repr(result))) <= 17 + 4 * ("\u0301" in word)
        assert len(repr(result)) < 2500 + 2 * 4 * 80 * 15 * (len(word) > 1000)
        shown = result._repr_html_()
        assert not re.search("<(?!/?(div|p|strong|table|thead|tbody|tr|th|td)[ >])", shown)
        assert len(shown) < 25_000


def test_an_evaluation_says_how_good_on_how_many_and_where_it_is_worst():
    shown = repr(evaluation("negative, without", "negative, with", "positive, with"))
    assert "accuracy     0.500 (0.41 to 0.60), balanced 0.400; majority class 0.600" in shown
    assert "worst group  0.700 (n = 10): negative, with" in shown
    assert "negative, without   0         -             -" in shown
    assert "recall" not in repr(evaluation("a", recall=False))
    # Of many groups the worst are shown, and an empty one is none of them.
    many = replace(evaluation(), groups=(group("empty", 0, 0), *(group(f"g{i}", 40, 40 - i) for i in range(20))))
    assert repr(many).splitlines()[-9].split()[:2] == ["g19", "40"]
    assert repr(many).endswith("... and 13 more")
    assert "worst group  -\n" in repr(evaluation())


def test_a_calibration_says_who_chose():
    assert "chosen by  accuracy on 40 labelled rows\n" in repr(CALIBRATION)
    assert "rows, cross-validated\n" in repr(replace(CALIBRATION, cross_validated=True))
    overruled = repr(replace(CALIBRATION, without_labels=1.0, p_value=0.01))
    assert "chosen by  unlabelled texts (1); 40 labelled rows overrule it (p 0.010)\n" in overruled
    assert "... and 89 more" in repr(odd_results("a")[4])


def test_a_guard_says_what_it_is_and_what_it_does(bag, texts):
    guard = ShortcutGuardrail(*bag)
    model = ["model     BagForSequenceClassification", "classes   negative, positive"]
    strategy = "strategy  none yet: call fit or repair"
    assert repr(guard).splitlines() == ["ShortcutGuardrail", *model, strategy]
    report = guard.fit(texts, config=updated(preset("mask"), {"shortcuts": {"named": ["honestly"]}}))
    strength = "strength   1 until another is chosen"
    assert repr(report).splitlines()[1:] == ["trained    nothing", "shortcuts  honestly", strength]
    assert repr(guard).splitlines()[3:] == ["strategy   mask", "strength   1 (fixed)", "shortcuts  honestly"]
    guard.debias_strength = 0.5
    assert "0.5 (set)" in guard._repr_html_()
    guard.certify([], [], unlabelled=[f"{text} again" for text in texts])
    assert repr(guard).splitlines()[-1] == "certified  loss of at most 2% with 95% confidence"


def test_progress_is_shown_where_it_is_asked_for(model_folder, texts, capsys):
    guard = ShortcutGuardrail.from_pretrained(model_folder)
    for call in (guard.audit, guard.predict):
        capsys.readouterr()
        call(texts, progress=False)
        call(texts)
        assert capsys.readouterr() == ("", "")
        call(texts, progress=True)
        out, shown = capsys.readouterr()
        assert out == ""
        assert re.search(r"\d+%\|.*\| \d+/\d+", shown)
        assert shown.endswith("\r")  # the last bar is gone, and what comes next begins a line
        told = []
        call(texts, progress=lambda stage, *_, told=told: told.append(stage))
        assert told
        assert all(f"{stage}: " in shown for stage in told)


def test_a_bar_goes_with_its_stage_and_a_stage_may_start_over(capsys):
    bar = display.shown_progress(True)
    for done in (1, 4, 2, 4):
        bar("Masking", done, 4)
    bar("Reading", 5, 9)
    shown = capsys.readouterr().err
    assert (len(re.findall("Masking: +0%", shown)), "Reading: " in shown) == (2, True)
    assert display.shown_progress(print) is print


def test_halves_are_rounded_up_on_every_page():
    assert display.asked_for(3701, 2.0, 2) == "3,701 predictions (1850.5 a text) in 2.0 s"
    assert [percent(x) for x in (0.7125, 0.7124, 0.0005, 1, 0.2885)] == ["71.3%", "71.2%", "0.1%", "100.0%", "28.9%"]
    assert [percent(x, 0) for x in (0.125, 0.005, 0.375)] == ["13%", "1%", "38%"]
