"""The benchmark's pages name every data set and method, and their examples run and print what they say."""

import contextlib
import doctest
import io
import re

import pytest

from checkout import ROOT
from shortcut_bench.datasets import DATASETS, dataset_settings
from shortcut_bench.methods import METHODS, RULES
from shortcut_bench.methods.entropy import scaled_cosine
from shortcut_bench.references import REFERENCES
from shortcut_bench.registry import make_system
from shortcut_bench.theory import bounds, information, world

RESEARCH = ROOT / "docs" / "research"


def read(page):
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_every_data_set_and_setting_is_on_the_page():
    table = read("research/datasets.md").partition("## Sizes")[0]
    for name in DATASETS:
        row = next(line for line in table.splitlines() if line.startswith("|") and f"`{name}`" in line)
        assert set(re.findall(r"`(\w+)`", row.split("|")[-2])) == set(dataset_settings(name))


def test_every_method_and_rule_is_described():
    text = read("research/methods.md")
    rows = re.findall(r"^\| (`.*?) \| \[[^]]*\]\((methods/[\w-]+\.md)\)", text, flags=re.MULTILINE)
    named = [(name, page) for cell, page in rows for name in re.findall(r"`([a-z0-9_+-]+)`", cell)]
    assert sorted(name for name, _ in named) == sorted({*REFERENCES, *METHODS})
    for name, page in named:
        described = read(f"research/{page}")
        assert any(f"`{name}`" in heading for heading in re.findall(r"^#+ .*", described, flags=re.MULTILINE))
    assert all(f"`{name}`" in text for name in RULES)


def test_numbers_of_the_text_are_those_of_the_code():
    assert [round(scaled_cosine(0.05, c), 2) for c in (3, 4, 2)] == [0.91, 0.79, 1.0]
    numbers = {("nfl", "factor"): 15000.0, ("group_dro", "step_size"): 0.01, ("ltgr", "weight"): 0.8}
    numbers |= {("deyo", "plpd_margin"): 0.2, ("dfr", "resamples"): 20, ("jtt", "upweights"): [4, 5, 6]}
    assert {of: make_system(of[0]).config()[of[1]] for of in numbers} == numbers


@pytest.mark.parametrize("module", [information, bounds, world], ids=lambda module: module.__name__.split(".")[-1])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


def test_the_pages_of_the_theory_print_and_link_what_is_there():
    blocks = re.findall(r"```(\w*)\n(.*?)```", read("explanation/theory.md"), flags=re.DOTALL)
    position = next(i for i, (language, _) in enumerate(blocks) if language == "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks[position][1], "theory.md", "exec"), {})
    assert printed.getvalue() == blocks[position + 1][1]
    linked = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", read("research/theory-checked.md"))
    assert linked
    assert all((RESEARCH / link).is_file() for link in linked)
