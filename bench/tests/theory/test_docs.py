"""The examples in the docstrings and in docs/explanation/theory.md run and print what they say."""

import contextlib
import doctest
import io
import re

import pytest

from checkout import ROOT
from shortcut_bench.theory import bounds, information, world

PAGE = ROOT / "docs" / "explanation" / "theory.md"
CHECKED = ROOT / "docs" / "research" / "theory-checked.md"


@pytest.mark.parametrize("module", [information, bounds, world], ids=lambda module: module.__name__.split(".")[-1])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


def test_the_page_prints_what_it_shows():
    blocks = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    position = next(i for i, (language, _) in enumerate(blocks) if language == "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks[position][1], str(PAGE), "exec"), {})
    assert printed.getvalue() == blocks[position + 1][1]


def test_the_figures_of_the_page_with_checks_exist():
    linked = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", CHECKED.read_text(encoding="utf-8"))
    assert linked
    assert all((CHECKED.parent / link).is_file() for link in linked)
