"""Questions and decisions on a terminal: each figure under its head, and every sentence."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from audits import to_review
from shortcut_guardrail.decisions import Decision, Decisions
from shortcut_guardrail.decisions.record import Judge, Qualification, SecondModelResult
from shortcut_guardrail.models import Cost
from shortcut_guardrail.report import print_costs, print_decided, print_questions


@pytest.fixture
def printed(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")

    def call(show, *given, **named):
        show(*given, **named)
        return " ".join(capsys.readouterr().out.replace("─", "").split())

    return call


SOUP = SecondModelResult(("gemma",), "agreement", 72, 16, 1, 0.68, 0.001, "shortcut", q_value=0.012)
SOUP = replace(SOUP, at_stake=(0.026, 0.109))
REST = replace(SOUP, rule="reference", fixed=20, bound=0.6, q_value=0.2, outcome="open", reason="Why.", at_stake=None)
LESS = replace(REST, judges=(), fixed=3, broken=9, bound=None, reason="")
PAIRS = (
    Qualification(("bad", "good"), 50, 0.812, 0.03, qualified=True),
    Qualification(("a", "b"), 9, 0.5, 0.1, qualified=False, reason="It agrees too seldom."),
)
COUNTS = {"asked": 14, "fixed": 8, "broken": 1, "neither": 2, "unclear": 3, "outcome": "shortcut"}
DECIDED = Decisions(
    (
        Decision(("book",), "remove_reliance", "answers", "1", e_value=25.63, survives_e_bh=True, **COUNTS),
        Decision(("film",), "keep", "answers", "2", asked=9, broken=9, e_value=38.4, outcome="legitimate", waiting=2),
        Decision(
            ("tea",), None, "answers", "3", asked=3, fixed=2, broken=1, e_value=1.125, survives_e_bh=True, waiting=1
        ),
        Decision(("soup",), "remove_reliance", "machine", "4", asked=1, fixed=1, second_model=SOUP),
        Decision(("rest",), None, "machine", "5", second_model=REST),
        Decision(("less",), None, "machine", "6", second_model=LESS),
    ),
    judges=(Judge("gemma", {}, PAIRS, 88),),
)


def test_what_was_decided_and_by_whom(printed):
    said = printed(print_decided, DECIDED, Path("d.json"), "fit it", undecidable=2)
    first, _, last = said.partition("word group fixed broken answered e-value decision book 8 1 14 25.6 ")
    assert first.startswith(
        "Second model gemma (bad / good): qualified, agrees with your model on 0.81 of texts without the words Second "
        "model gemma (a / b): not qualified: It agrees too seldom. words second model fixed broken bound q says soup "
        "gemma 72 16 0.68 (agreement) 0.012 shortcut rest gemma 20 16 0.60 (reference) 0.2 open less - 3 9 - 0.2 open "
        "At stake: masking “soup” would bring 2.6 to 10.9 more right predictions in 100, by the second model's "
        "estimate. Open: “rest”. Why. Fixed: the second model agrees"
    )
    assert first.endswith("answers would help most here: questions --word-groups 5. ")
    assert last.startswith(
        "remove reliance (shortcut) film 0 9 9 38.4 keep (legitimate) tea 2 1 3 1.12 open soup 1 0 1 - remove reliance "
        "(second model) Fixed: the prediction is right only with the words masked; broken: only with the words. "
    )
    assert "among all decisions, 1 of them need more answers (`--keep-asking`). `fit` applies all." in last
    assert "2 word groups with fewer than 8 prediction changes cannot" in last
    assert "3 answers cannot count yet" in last
    assert last.endswith("Written: d.json Next: fit it")
    # The partner: nothing was decided, and nobody but people was asked.
    said = printed(print_decided, Decisions(DECIDED.cards[2:3]), Path("d.json"), "fit it")
    head = "word group fixed broken answered e-value decision"
    assert said.startswith(f"{head} tea 2 1 3 1.12 open Fixed: the prediction")
    assert said.endswith("it recounts without these words. Written: d.json")
    assert "keep-asking" not in said


def test_what_can_be_asked_and_what_it_costs(printed):
    cards = to_review(4).cards
    few, limit, many, _ = (card.id for card in cards)
    asked = SimpleNamespace(audited=SimpleNamespace(cards=cards), asked=[1, 2, 3], shows_its_group=False)
    said = printed(print_questions, asked, {few: 7, limit: 8, many: 1234}, Path("q.csv"), Path("audit"), n_total=5)
    rows = f"{few} w0, w0s positive 7 {limit} w1, w1s positive 8 {many} w2, w2s positive 1234 1 word group with fewer"
    assert f"id word group towards changes {rows}" in said
    assert "Written: q.csv (3 questions) 2 questions of 5 are left for word groups that stay open." in said
    assert " are left " not in printed(print_questions, asked, {few: 8}, Path("q.csv"), Path("audit"), n_total=3)
    costs = {"gemma": Cost(1234, 5678, 90, 1.6), "other": Cost(1, None, 2, None)}
    assert printed(print_costs, 12, 34, costs) == (
        "A second model is asked about 12 prediction changes and 34 texts without the words in question. second model "
        "texts tokens calls seconds, about gemma 1,234 5,678 90 2 other 1 ? 2 ?"
    )
