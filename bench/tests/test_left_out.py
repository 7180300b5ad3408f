"""Every system that the paper names has a row, and what the row says is there is there."""

import re

import pytest

from checkout import ROOT
from shortcut_bench.methods import METHODS
from shortcut_bench.references import REFERENCES

PAGE = ROOT / "docs" / "research" / "left-out.md"
PAPER = ROOT.parent / "shared" / "paper" / "shortcut_guardrail.tex"
SECTIONS = (
    r"\section{Background",
    r"\paragraph{Baselines.}",
    r"\subsection{Baseline Methods}",
    r"\section{Extended Rel",
)

CITED = {
    "sagawa2020distributionally": "Group DRO",
    "liu2021just_train_twice": "JTT",
    "kirichenko2023last_layer": "DFR",
    "chew2024nfl": "NFL",
    "du2021towards": "LTGR",
    "choi2022c2l": "C2L",
    "wang2021tent": "Tent",
    "niu2022eata": "EATA",
    "gao2021simcse": "SimCSE",
    "li2016understanding": "Gradient × input",
    "zhou2024navigating": "Shortcuts of tunable strength",
    "sundararajan2017axiomatic": "Integrated gradients",
    "clark2019dont_take_easy": "Bias-only ensembles",
    "korakakis2025mitigating": "InterpoLL",
    "cheng2024fairflow": "FairFlow",
    "du2022defi": "DeFI",
    "cheng2021fairfil": "FairFil",
    "du2023less_learn_shortcut": "Less-learn-shortcut",
    "wang2022identifying": "Identify and mitigate",
    "sun2020test": "Test-time training",
    "schneider2020improving": "Statistics of normalisation layers",
    "nado2020evaluating": "Statistics of normalisation layers",
    "chen2020simclr": "SimCLR",
    "khosla2020supervised": "Supervised contrastive learning",
}
"""What the paper cites in these sections, and the row that it has."""
NO_SYSTEMS = {
    *("geirhos2020shortcut", "du2022shortcut_survey", "tu2020empirical", "zhao2023pitfalls", "zhou2024concept"),
    *("gururangan2018annotation", "mccoy2019right", "devlin2019bert"),
}
"""Surveys, analyses, data and the encoder."""


def rows():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_what_is_built_can_be_run_or_has_a_page():
    found = {state: [where for _, is_, where in rows() if is_ == state] for state in ("built", "in part", "left out")}
    assert sum(map(len, found.values())) == len(rows())
    known = {*METHODS, *REFERENCES}
    for where in [*found["built"], *found["in part"]]:
        names, pages = re.findall(r"`([^`]+)`", where), re.findall(r"\]\(([^)#]+)", where)
        assert names or pages, where
        assert set(names) <= known, where
        assert all((PAGE.parent / page).is_file() for page in pages), where
    assert all(len(why) > 20 for why in found["left out"])


def test_every_system_has_one_row_and_no_more():
    systems = [system for system, *_ in rows()]
    named = [next(system for system in systems if system.startswith(name)) for name in CITED.values()]
    assert {"ordinary fine-tuning", *named} == set(systems)
    assert len(set(systems)) == len(systems)


def test_the_paper_names_no_other():
    if not PAPER.is_file():
        pytest.skip("needs the paper's text beside the checkout")
    text = PAPER.read_text(encoding="utf-8")
    parts = [re.split(r"\\(?:sub)*section", text[text.index(start) + len(start) :])[0] for start in SECTIONS]
    cited = {
        key.strip()
        for part in parts
        for keys in re.findall(r"\\cite\w*(?:\[[^]]*\])*{([^}]*)}", part)
        for key in keys.split(",")
    }
    assert len(cited) > 25
    assert cited == {*CITED, *NO_SYSTEMS}
