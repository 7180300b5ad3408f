"""The tables of methods/measured.md: every cell is that of a result."""

from __future__ import annotations

import re

import pytest

import page_tables
from expressions import load
from page_tables import rows_of, short

PAGE = "methods/measured.md"
REVERSED = "leaderboard/leaderboard.md"
HOLDS = "leaderboard-in-distribution/leaderboard-in-distribution.md"
BOTH = ("GoEmo-ST", "GoEmo-Syn")
SYSTEMS = [
    *("erm", "oracle", "jtt-sg-paper", "jtt", "dfr", "dfr-sg-paper", "group_dro", "ltgr", "c2l"),
    *("nfl", "nfl, factor 1", "nfl-co", "nfl-f", "nfl-pt", "tent", "eata", "sar", "deyo", "deyo-biased"),
    *("last_layer", "few_shot", "mask_average", "mask_top1", "random_maskcl", "guardrail", "guardrail-few-shot"),
    *("guardrail-distill", "guardrail-mask", "guardrail-per-input"),
]


def of(table: str, setting: str, system: str) -> dict[str, str]:
    (found,) = (one for one in load(table) if (one["setting"], one["system"]) == (setting, system))
    return found


def cell(text: str) -> str:
    """Mean and deviation, without the interval; of one seed the mean alone."""
    mean, *deviation = re.findall(r"[\d.]+", text.partition("[")[0])
    return short(float(mean)) + (f" ({short(float(deviation[0]))})" if deviation else "")


def test_methods_on_the_word_and_its_synonyms() -> None:
    rows = []
    for system in SYSTEMS:
        cells = [f"`{system}`"]
        for setting in BOTH:
            record = of(REVERSED, setting, system)
            cells += [cell(record["accuracy"]), cell(record["balanced_accuracy"])]
        cells += [cell(of(HOLDS, setting, system)["accuracy"]) for setting in BOTH]
        rows.append(cells)
    assert rows_of(PAGE, "| system | word: accuracy") == rows


def test_recipes_of_the_sources() -> None:
    rows = []
    for system in ("jtt-sg-paper", "jtt", "nfl", "group_dro"):
        records = [of("source-recipes/source-recipes.md", "GoEmo-ST", name) for name in (system, f"{system}, source")]
        shown = [cell(one["accuracy"]) for one in records]
        cost = [f"{float(one['f_per_text'].split()[0]):.0f}" for one in records]
        rows.append([f"`{system}`", *shown, *cost])
    assert rows_of(PAGE, "| system | the base's recipe") == rows


@pytest.mark.parametrize(("page", "test"), page_tables.compared_by(globals()))
def test_another_last_digit_in_a_checked_table_is_noticed(page: str, test: str, monkeypatch) -> None:
    assert page_tables.unnoticed(page, globals()[test], monkeypatch) == []
