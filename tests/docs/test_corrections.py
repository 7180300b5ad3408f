"""The tables of corrections.md: every cell is that of `results/corrections.csv`."""

from __future__ import annotations

import re

import pytest

import page_tables
from expressions import load
from page_tables import rows_of

PAGE = "corrections.md"


def plain(text: str) -> str:
    """Without the deviation and without zeros before a point."""
    return re.sub(r"(?<!\d)0\.", ".", re.sub(r" \([\d.]+\)", "", text))


def test_intervals_of_the_base_that_changed() -> None:
    rows = []
    for name, experiment, setting in (
        ("GoEmo-ST, shortcut reversed", "shifted", "GoEmo-ST"),
        ("GoEmo-Syn, shortcut reversed", "shifted", "GoEmo-Syn"),
        ("SST-2", "real-world", "SST-2"),
    ):
        key = (experiment, setting, "erm", "accuracy")
        (found,) = (
            one
            for one in load("corrections.csv")
            if (one["experiment"], one["setting"], one["system"], one["quantity"]) == key
        )
        rows.append([name, *(re.sub(r".*\[", "[", plain(found[which])) for which in ("old", "new"))])
    assert rows_of(PAGE, "| base classifier (ERM), accuracy |") == rows


def excludes_zero(text: str) -> bool:
    low, high = (float(end) for end in re.findall(r"-?[\d.]+", text)[-2:])
    return low > 0 or high < 0


def test_what_no_longer_excludes_zero() -> None:
    """Differences to the base and shares of the gap, those of one experiment that another repeats once."""
    found: dict[tuple[str, ...], list[str]] = {}
    for one in load("corrections.csv"):
        if "erm" not in one["quantity"] and "share of gap" not in one["quantity"]:
            continue
        assert excludes_zero(one["old"]) or not excludes_zero(one["new"])
        if excludes_zero(one["old"]) and not excludes_zero(one["new"]):
            cells = (one["setting"], one["system"], one["quantity"], plain(one["old"]), plain(one["new"]))
            found.setdefault(cells, []).append(one["experiment"])
    shown = rows_of(PAGE, "| experiment | setting | system | quantity |")
    assert sorted(shown) == sorted([", ".join(experiments), *cells] for cells, experiments in found.items())


@pytest.mark.parametrize(("page", "test"), page_tables.compared_by(globals()))
def test_another_last_digit_in_a_checked_table_is_noticed(page: str, test: str, monkeypatch) -> None:
    assert page_tables.unnoticed(page, globals()[test], monkeypatch) == []
