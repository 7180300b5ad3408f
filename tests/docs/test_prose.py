"""Pages for users are short, in short sentences, with their figures in tables."""

from __future__ import annotations

import doctest

import pytest

import prose

PAGES = prose.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(prose.ROOT).as_posix())
def test_a_sentence_is_short_and_has_one_figure(page) -> None:
    found = list(prose.sentences(page.read_text(encoding="utf-8")))
    assert found
    assert [one.text for one in found if one.words > prose.MOST_WORDS_OF_A_SENTENCE] == []
    assert [one.text for one in found if one.figures > prose.MOST_FIGURES_OF_A_SENTENCE] == []


def test_all_pages_are_read_in_an_hour() -> None:
    words = sum(one.words for page in PAGES for one in prose.sentences(page.read_text(encoding="utf-8")))
    assert words <= prose.MOST_WORDS


def test_what_is_too_much_is_seen() -> None:
    (long,) = prose.sentences("It is " + "very " * 34 + "long.")
    assert long.words == 37
    (figures,) = prose.sentences("It rose from .81\nto 92 % in\n[3 steps](a.md).")
    assert figures.figures == 2
    assert [one.words for one in prose.sentences("| a | b |\n\n```\na b\n```\n\n- One.\n- And two.\n")] == [1, 2]


def test_a_comment_is_not_there() -> None:
    page = "It closes .48<!-- a.json: b.c -->\nof 2<!-- a.json: d --> % more.\n\n<!-- checked: test_a -->\n| 1 |\n"
    (one,) = prose.sentences(page)
    assert (one.text, one.words, one.figures) == ("It closes .48 of 2 % more.", 6, 2)


def test_examples() -> None:
    assert doctest.testmod(prose).failed == 0
