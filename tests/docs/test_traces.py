"""Figures of tables of evidence come from results that the page rests on, or stand in its list of those that do not."""

from __future__ import annotations

import doctest

import pytest

import figures
import table_rows

NO_EVIDENCE = {
    "benchmark.md",  # how to run it
    "corrections.md",  # results/corrections.csv, by hand
    "datasets.md",  # bench/tests/datasets/test_docs.py
    "leaderboard.md",  # generated
    "reproduction.md",  # bench/tests/test_reproduction.py
}


# What `methods.md` and the pages beside `methods/measured.md` show are settings of the methods, from their sources.


def pages() -> list[str]:
    return [page.name for page in table_rows.RESEARCH.glob("*.md") if page.name not in NO_EVIDENCE]


def test_every_page_of_evidence_is_checked() -> None:
    texts = {name: (figures.RESEARCH / name).read_text(encoding="utf-8") for name in figures.TRACED}
    compared = {name for name, text in texts.items() if not figures.uncompared(text)}
    assert set(pages()) - {"methods.md"} == (compared & set(pages())) | set(table_rows.RESTS_ON)


@pytest.mark.parametrize("name", table_rows.RESTS_ON)
def test_every_figure_is_of_a_result_or_said_not_to_be(name: str) -> None:
    assert table_rows.untraced(name) == []


@pytest.mark.parametrize("name", table_rows.RESTS_ON)
def test_what_is_said_to_be_of_no_result_is_shown_elsewhere_on_the_page(name: str) -> None:
    page = (table_rows.RESEARCH / name).read_text(encoding="utf-8")
    body = table_rows._NOT_STORED.sub("", page)
    assert {figure for figure in table_rows.not_stored(page) if figure not in body} == set()


def test_a_figure_of_no_result_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    page = tmp_path / "speed.md"
    monkeypatch.setattr(table_rows, "RESEARCH", tmp_path)
    page.write_text("It was .123456 of 7,654,321.\n")
    assert [one.figure for one in table_rows.untraced("speed.md")] == [".123456", "7,654,321"]
    page.write_text("It was .123456.\n\n<!-- not stored -->\n- Read once: .123456.\n<!-- end -->\n")
    assert table_rows.untraced("speed.md") == []


def test_examples() -> None:
    assert doctest.testmod(table_rows).failed == 0
