"""The tables of audit-measured.md: every cell is that of a result."""

from __future__ import annotations

import math
from typing import Any

import pytest

import page_tables
from page_tables import result, rows_of, short

PAGE = "audit-measured.md"
WORLDS = {
    "strewn at random": "boundary",
    "strewn at random, fickle": "fickle",
    "strewn at random, 30 rare ones, all of one class and decisive": "alike",
    "fitting": "genuine",
    "fitting, half of them bystanders": "bystanders",
    "fitting, and a planted one": "planted",
    "fitting, and a planted one that the model waits for": "reversed",
    "fitting, and fifteen that take turns, likewise": "synonyms",
    "the same, those counted that take turns with flagged ones": "synonyms",
    "twelve decisive ones strewn beside a planted one": "beside",
    "the same, but never in one text with it or each other": "exclusive",
    "strewn at random, fifty decisive ones of one class, never two in a text": "rare",
    "the same with `--compare-with rests`": "rare, rests",
    "strewn at random, 34 decisive ones of one class in some ten texts each, never two in a text": "scarce",
}


def percentage(share: float) -> str:
    """To a tenth below 10 %, a half rounded up; a plain 0 where it never happened."""
    digits = 1 if share < 0.1 else 0
    rounded = math.floor(100 * share * 10**digits + 0.5 + 1e-9) / 10**digits
    return f"{rounded:.{digits}f} %" if share else "0"


def planted_found(record: dict[str, Any], *, taking_turns: bool) -> str:
    found = (record["with_those_that_take_turns"] if taking_turns else record)["planted_found"]
    return "" if found is None else f"{math.floor(100 * found + 0.5 + 1e-9)} %"


def test_false_alarms_in_simulated_corpora() -> None:
    rows = []
    for shown, name in WORLDS.items():
        records = [one for one in result("audit/simulation.json")["worlds"] if one["world"] == name]
        turns = shown.startswith("the same, those")
        alarms = " / ".join(percentage(one["corpora_with_a_false_alarm"]) for one in records)
        found = " / ".join(planted_found(one, taking_turns=turns) for one in records)
        texts = " / ".join(f"{one['n_texts']:,}" for one in records)
        rows.append([shown, texts, "" if turns else alarms, found.strip(" /")])
    assert rows_of(PAGE, "| words | texts | corpora with a false alarm") == rows


AUDITS = {
    "GoEmo-ST, planted with 1": "goemo-st-1",
    "GoEmo-ST, planted with .8 †": "goemo-st-0.8",
    "GoEmo-ST, planted with .6 †": "goemo-st-0.6",
    "GoEmo-Syn, planted with 1": "goemo-syn-1",
    "GoEmo-Syn, planted with .8 †": "goemo-syn-0.8",
    "GoEmo-Syn, planted with .6 †": "goemo-syn-0.6",
    "Yelp-ST, planted with 1 †": "yelp-st",
    "Yelp-Syn, planted with 1": "yelp-syn",
    'Amazon testbed, "book" †': "amazon-testbed",
    "CivilComments, identity terms": "civil",
    "GoEmo, trained on clean texts": "goemo-clean",
}


def by_seed(values: list[str]) -> str:
    """One value where all seeds have the same."""
    return values[0] if len(set(values)) == 1 else ", ".join(values)


def number_found(audit: dict[str, Any], key: str) -> str:
    return str(len(audit[key])) if key in audit else "-"


def share_found(audit: dict[str, Any], key: str) -> str:
    value = audit.get(key)
    return "-" if value is None else f"{value:g}" if value in (0, 1) else short(value, 2)


def p_of_a_set(audit: dict[str, Any]) -> str:
    value = audit.get("group_p_value")
    return "-" if value is None else "1" if value == 1 else short(float(f"{value:.2g}"), 3 if value < 0.1 else 2)


def audit_row(name: str, file: str) -> list[str]:
    found = result(f"audit/{file}.json")
    audits = found["audits"]
    assert [one["seed"] for one in audits] == [0, 1, 2]
    assert not any(one["false_alarms"] or one.get("false_takes_turns") for one in audits)
    assert all(bool(one.get("collective")) == (file == "yelp-syn" and one["seed"] == 0) for one in audits)
    sizes = {one["n"] for one in audits}
    return [
        name,
        by_seed([one["unit"] for one in audits]),
        f"{found['n_train']:,}, {sizes.pop():,}",
        by_seed([str(one["planted_rank"] or "-") for one in audits]),
        by_seed([number_found(one, "flagged") for one in audits]),
        by_seed([share_found(one, "recall") for one in audits]),
        by_seed([number_found(one, "takes_turns") for one in audits]),
        by_seed([share_found(one, "recall_with_takes_turns") for one in audits]),
        by_seed([p_of_a_set(one) for one in audits]),
    ]


def test_audits_of_real_models() -> None:
    assert rows_of(PAGE, "| set | unit | texts: training, audited |") == [audit_row(*one) for one in AUDITS.items()]


@pytest.mark.parametrize(("page", "test"), page_tables.compared_by(globals()))
def test_another_last_digit_in_a_checked_table_is_noticed(page: str, test: str, monkeypatch) -> None:
    assert page_tables.unnoticed(page, globals()[test], monkeypatch) == []
