"""Figures of pages of evidence come from results that the page rests on, or stand in its list of those that do not."""

from __future__ import annotations

import doctest

import pytest

import figures

NO_EVIDENCE = {
    "benchmark.md",  # how to run it
    "corrections.md",  # results/corrections.csv, by hand
    "datasets.md",  # bench/tests/datasets/test_docs.py
    "leaderboard.md",  # generated
    "reproduction.md",  # bench/tests/test_reproduction.py
}


# What `methods.md` and the pages beside `methods/measured.md` show are settings of the methods, from their sources.


def pages() -> list[str]:
    return [page.name for page in figures.RESEARCH.glob("*.md") if page.name not in NO_EVIDENCE]


def test_every_page_of_evidence_is_checked() -> None:
    assert set(pages()) - {"methods.md"} == set(figures.RESTS_ON) - {"methods/measured.md"}


@pytest.mark.parametrize("name", figures.RESTS_ON)
def test_every_figure_is_of_a_result_or_said_not_to_be(name: str) -> None:
    assert figures.untraced(name) == []


@pytest.mark.parametrize("name", figures.RESTS_ON)
def test_what_is_said_to_be_of_no_result_is_shown_elsewhere_on_the_page(name: str) -> None:
    page = (figures.RESEARCH / name).read_text(encoding="utf-8")
    body = figures._NOT_STORED.sub("", page)
    assert {figure for figure in figures.not_stored(page) if figure not in body} == set()


def test_a_figure_of_no_result_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    page = tmp_path / "defaults.md"
    monkeypatch.setattr(figures, "RESEARCH", tmp_path)
    page.write_text("It was .123456 of 7,654,321.\n")
    assert [one.figure for one in figures.untraced("defaults.md")] == [".123456", "7,654,321"]
    page.write_text("It was .123456.\n\n<!-- not stored -->\n- Read once: .123456.\n<!-- end -->\n")
    assert figures.untraced("defaults.md") == []


def test_examples() -> None:
    assert doctest.testmod(figures).failed == 0
