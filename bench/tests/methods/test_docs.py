"""docs/research/methods.md leads to a description of every method that there is; numbers are those of the code."""

import re

from checkout import ROOT
from shortcut_bench.methods import METHODS, RULES
from shortcut_bench.methods.entropy import scaled_cosine
from shortcut_bench.references import REFERENCES
from shortcut_bench.registry import make_system

PAGE = ROOT / "docs" / "research" / "methods.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_method_and_rule_is_described():
    rows = re.findall(r"^\| (`.*?) \| \[[^]]*\]\((methods/[\w-]+\.md)\)", TEXT, flags=re.MULTILINE)
    named = [(name, page) for cell, page in rows for name in re.findall(r"`([a-z0-9_-]+)`", cell)]
    assert sorted(name for name, _ in named) == sorted({*REFERENCES, *METHODS})
    for name, page in named:
        described = (PAGE.parent / page).read_text(encoding="utf-8")
        assert any(f"`{name}`" in heading for heading in re.findall(r"^#+ .*", described, flags=re.MULTILINE))
    assert all(f"`{name}`" in TEXT for name in RULES)


def test_numbers_of_the_text_are_those_of_the_code():
    assert [round(scaled_cosine(0.05, c), 2) for c in (3, 4, 2)] == [0.91, 0.79, 1.0]
    assert make_system("jtt").config()["upweights"] == [4, 5, 6]
    assert make_system("nfl").config()["factor"] == 15000.0
    assert make_system("group_dro").config()["step_size"] == 0.01
    assert make_system("ltgr").config()["weight"] == 0.8
    assert make_system("deyo").config()["plpd_margin"] == 0.2
    assert make_system("dfr").config()["resamples"] == 20
