"""What the README says is that of results, and what pages say of defaults and of the code is so.

Figures of pages are checked by `test_traced.py`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from checkout import ROOT
from expressions import load
from shortcut_guardrail import AdapterConfig, AuditConfig, CertifyConfig
from shortcut_guardrail.decisions import LEAST_FLIPS
from shortcut_guardrail.stats import THRESHOLD


def page(name: str) -> str:
    """A page's text without comments, a blank between two words."""
    return " ".join(re.sub(r"<!--.*?-->", "", (ROOT / name).read_text(encoding="utf-8")).split())


DEFAULTS: list[tuple[str, str, Any]] = [
    ("docs/explanation/audit.md", "| `{}` (the default) |", AuditConfig().unit),
    ("docs/howto/certify.md", "| `--harm` | `{}` |", CertifyConfig().harm),
    ("docs/explanation/how-it-works.md", "| `adapter.batch_size` | {} |", AdapterConfig().batch_size),
    ("README.md", "Evidence of {:.0f} decides", THRESHOLD),
]


@pytest.mark.parametrize(("name", "sentence", "value"), DEFAULTS, ids=[sentence for _, sentence, _ in DEFAULTS])
def test_a_default_is_that_of_the_code(name: str, sentence: str, value: Any) -> None:
    assert sentence.format(value) in page(name)


def test_long_files_are_as_long_as_is_said() -> None:
    source = ROOT / "src" / "shortcut_guardrail"
    corpus = len((source / "demo" / "corpus.py").read_text(encoding="utf-8").splitlines())
    guardrail = len((source / "guardrail.py").read_text(encoding="utf-8").splitlines())
    text = page("docs/explanation/architecture.md")
    assert f"`demo/corpus.py` ({corpus})" in text
    assert f"`guardrail.py` of some 450 lines | some {round(guardrail, -2):,} |" in text


def test_eight_flips_is_what_the_code_asks_for() -> None:
    assert LEAST_FLIPS == 8
    assert "fewer than eight flips cannot be decided" in page("docs/howto/decide.md")


SYSTEMS = {
    "base": "erm",
    "the paper's method": "guardrail",
    "`distill`, the default": "guardrail-distill",
    "`few-shot`": "guardrail-few-shot",
    "the words removed by hand": "oracle",
}


def test_the_results_of_the_readme_are_those_of_the_leaderboard() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = {one["system"]: one for one in load("leaderboard/leaderboard.md") if one["setting"] == "GoEmo-ST"}
    table = re.search(r"^\| \| labels \|.*\n.*\n((?:\|.*\n)+)", readme, re.MULTILINE)
    assert table
    shown = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    expected = [["always the majority class", "0", rows["erm"]["majority_class"].split()[0], f"{1 / 4:.3f}"]]
    for name, system in SYSTEMS.items():
        means = (re.sub(r" \[.*", "", rows[system][key]) for key in ("accuracy", "balanced_accuracy"))
        expected.append([name, "-" if system == "oracle" else rows[system]["target_labels"], *means])
    plain = [[re.sub(r"\b0\.", ".", cell) for cell in row] for row in expected]
    assert [[cell.replace("**", "") for cell in row] for row in shown] == plain
    assert f"(standard deviation), {rows['erm']['n']} rows." in page("README.md")
    (parameters,) = re.findall(r"\(([\d.]+ million parameters)\)", page("results/leaderboard/leaderboard.md"))
    assert f"MiniLM, {parameters}." in page("README.md")
