"""Every figure in the prose of a page is that of a result or of the code, and a slip in one is noticed."""

from __future__ import annotations

import doctest
import re

import pytest

import expressions
import figures

PAGES = figures.pages()


def page(name: str) -> str:
    return (figures.DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_of_prose_is_that_of_a_result(name: str) -> None:
    assert [f"{one.figure.text}: {one.why}" for one in figures.problems(page(name))] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_row_of_a_table_with_figures_is_compared(name: str) -> None:
    assert figures.uncompared(page(name)) == []


def slip(text: str, shown: list[figures.Figure]) -> str:
    """The page with another last digit in each of these figures."""
    for one in shown:
        end = one.start + len(re.sub(r"e.*", "", one.text))
        text = text[: end - 1] + str((int(text[end - 1]) + 1) % 10) + text[end:]
    return text


@pytest.mark.parametrize("name", PAGES)
def test_another_last_digit_is_noticed(name: str) -> None:
    text = page(name)
    in_prose = [one for one in figures.figures(text) if not one.is_exempt and (one.source or not one.in_table)]
    for shown in (in_prose, [one for _, row in figures.of_rows(text) for one in row]):
        noticed = {one.figure.start for one in figures.problems(slip(text, shown))}
        assert [f"{one.text} in {one.line[:80]}" for one in shown if one.start not in noticed] == []


def test_what_is_no_result_is_seen() -> None:
    text = "It was .5, 12 %, 7<!-- not stored: a choice --> % and 11<!-- not stored --> of 2024 in `9.9`.\n"
    assert [one.figure.text for one in figures.problems(text)] == [".5", "12", "11"]
    assert [one.why for one in figures.problems("2<!-- 2 -->\n% more.")] == [
        "the site drops a line that starts so: break it elsewhere"
    ]
    assert [one.why for one in figures.problems("It <!-- a.json: b --> was.")] == [
        "follows no figure: put it right behind one, on the same line"
    ]


def test_a_figure_is_rewritten_as_the_result_has_it() -> None:
    text = "<!-- let half = 1 / 2 -->\n\n.4<!-- half -->, 7<!-- half --> %, +.50<!-- half --> and 2,000<!-- 4000 -->.\n"
    assert figures.written(text).splitlines()[2] == (
        ".5<!-- half -->, 50<!-- half --> %, +.50<!-- half --> and 4,000<!-- 4000 -->."
    )
    assert list(figures.problems(figures.written(text))) == []


def test_a_row_is_that_of_its_expression() -> None:
    row = "| 5 | **.5** (.{}) | 3<!-- row: [1 / 2, 1 / 4, 3] --> |\n"
    assert list(figures.problems(row.format("25"))) == []
    assert figures.written(row.format("26")) == row.format("25")
    assert [one.why for one in figures.problems(row.format("25").replace(", 3]", "]"))] == [
        "`[1 / 2, 1 / 4]` has 2 numbers, the row 3: [0.5, 0.25]"
    ]


def test_a_figure_of_a_checked_table_needs_no_expression() -> None:
    table = "\n\n<!-- checked: name -->\n| a | b |\n|---|---|\n| .81 | {} |\n"
    assert list(figures.problems("It was .81." + table.format(".92"))) == []
    assert len(list(figures.problems("It was .81." + table.format(".82")))) == 1
    assert len(list(figures.problems("It was .81.\n\n# Another\n" + table.format(".92")))) == 1
    assert len(list(figures.problems("It was .81." + table.format(".92").replace("checked", "")))) == 1


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("nowhere.json: a", "there is no results/nowhere.json"),
        ("review_effort.json: nothing", "there is no 'nothing'; there are "),
        ("review_effort.json: __import__('os')", "is no function"),
        ("review_effort.json: file.__class__", "there is no '__class__'"),
        ("review_effort.json: (lambda: 1)()", "is no function"),
        ("review_effort.json: mean(1)", "expected a list"),
        ("flips.json: results.at(seed=0)", "records, where one was expected"),
        ("flips.json: 1 +", "SyntaxError"),
    ],
)
def test_what_an_expression_cannot_say(expression: str, said: str) -> None:
    (problem,) = figures.problems(f"It was 12<!-- {expression} -->.")
    assert said in problem.why


def test_results_and_code_are_read() -> None:
    assert expressions.value_of("code shortcut_guardrail.decisions: MOST_QUESTIONS") == 40
    assert expressions.value_of("code shortcut_guardrail: AuditConfig.fdr") == 0.05
    assert expressions.value_of("speed/*.json: count(file)") == 1
    table = 'natural-shortcuts/natural-shortcuts.md: at(setting="Amazon", system="ltgr").accuracy[0]'
    runs = 'natural-shortcuts/runs.json: mean(runs.where(setting="Amazon", system="ltgr").each(metrics.accuracy))'
    assert expressions.value_of(table) == pytest.approx(expressions.value_of(runs), abs=0.0005)


def test_examples() -> None:
    assert doctest.testmod(expressions).failed == 0
    assert doctest.testmod(figures).failed == 0
