"""Audits over weeks, what is compared and fails, and every kind of table and label; see `whole_outputs`."""

from __future__ import annotations

import gzip
import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import audits as made
from audits import candidate, card, evaluation
from shortcut_guardrail.audit import (
    Metric,
    check_conditions,
    check_limits,
    common_metrics,
    newly_flagged,
    parse_condition,
    parse_limit,
)
from shortcut_guardrail.audit.insertions import Insertion, Insertions
from shortcut_guardrail.data import (
    FileTexts,
    check_texts,
    class_names,
    label_ids,
    messages,
    of_one_label,
    open_tables,
    read_data,
    read_shortcuts_file,
    read_thresholds,
)
from shortcut_guardrail.decisions import AuditedCards, Decision, Decisions
from shortcut_guardrail.errors import GuardrailError
from shortcut_guardrail.history import read_history
from shortcut_guardrail.report import (
    label_rows,
    print_change,
    print_labels,
    render_comparison,
    render_history,
    render_labels,
)
from whole_outputs import compare, printed, told, written

CASES = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
"""Files, labels, names and conditions that are tried one by one."""


def tried(call: Callable[..., Any], *given: Any, **how: Any) -> Iterator[str]:
    """What a call gives or says, with its warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = call(*given, **how)
            yield from told(found if is_dataclass(found) else [*found.items()] if isinstance(found, dict) else found)
        except GuardrailError as error:
            yield f"{type(error).__name__}: {error}".replace("\n", " / ")
    yield from (f"warned: {one.message}" for one in said)


def week(i: int, changes: int, **values: Any) -> Any:
    """One week's audit: of a word so many of 500 texts depend, of another fewer and fewer."""
    words = [candidate("honestly", flagged=True, n_distinct=2 * changes, n_present=3 * changes, flip_rate=0.5)]
    words.append(
        candidate("soup", "negative", n_distinct=40, n_present=60, flip_rate=0.4 - 0.05 * i, collective=i == 2)
    )
    words += [candidate("frankly", flagged=True, n_distinct=20, n_present=22, flip_rate=0.05 * i)] * (i > 2)
    groups = [
        card("honestly", "frankly", status="flagged", texts=30 + i, changes=10 + i),
        card("soup", "stew", pushes_towards="negative", texts=9),
    ]
    groups.append(
        card("honestly", "truly", "really", texts=5)
        if i % 2
        else card("tea", "cup", "pot", texts=40 - i, status="flagged")
    )
    about = {"n": 600, "n_distinct": 500, "model": "ab"[i > 3] * 64, "data": f"{i}" * 64, "mstps": 0.4 + 0.03 * i}
    return made.audit(*words, **{**about, "cards": tuple(groups), **values})


def test_six_audits_with_a_new_model_a_decided_word_and_an_alarm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders, lines = [], []
    for i, changes in enumerate((10, 11, 9, 12, 40, 60)):
        folder = Path(("2026-01-31", "20260207", "2026-02-14", "2026-02-14b", "2026-02-28", "x")[i])
        folder.mkdir()
        report = week(i, changes)
        (folder / "audit.json").write_text(json.dumps(report.to_dict()), encoding="utf-8")
        if i in (1, 3, 4):
            said = (
                Decision(("Tea", "cup"), "keep", "person"),
                Decision(("soup",), None),
                Decision(("cake",), "remove_reliance", "file"),
            )
            audit = AuditedCards.of(report).id if i < 4 else "another"
            Decisions(said, audit=audit).save(folder / "decisions.json")
        folders.append(str(folder))
    for i, (chosen, words, rate) in enumerate(
        ((folders, (), 0.05), (folders[:5], ("Bread ", "soup"), 0.2), (folders[::-1][:2], ("frankly",), 0.9))
    ):
        found = read_history(chosen, words=list(words), false_alarms=rate)
        page = tmp_path / f"page{i}.html"
        page.write_text(render_history(found), encoding="utf-8")
        lines += [
            f"## {i}",
            *told(found.to_dict()),
            *told(found.trends),
            *printed(repr(found)),
            *told([t.words for t in found.new_alarms]),
        ]
    lines += [
        *tried(read_history, folders[:1]),
        *tried(read_history, folders[:1] * 2),
        *tried(read_history, folders, false_alarms=1.5),
    ]
    lines += [*written(tmp_path, but={f"{f}/{n}.json" for f in folders for n in ("audit", "decisions")})]
    compare("history", lines)


def test_what_changed_and_what_fails(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    added = Insertion(60, 30, 6, 0.5, (0.37, 0.63), 0.001, 0.004, found=True)
    old = week(0, 10, insertions=Insertions(9, 2, 90))
    more = [
        replace(c, insertion=replace(added, flip_rate=0.1 * j, found=j != 2))
        for j, c in enumerate(week(4, 60).candidates)
    ]
    new = replace(
        week(4, 60, n_truncated=3, n_undecided=2, insertions=Insertions(9, 3, 90)),
        candidates=(*more, candidate("Tea!", flagged=True, interval=made.UNTESTED["interval"])),
    )
    a, b = old.to_dict(), new.to_dict()
    lines = [*told(common_metrics(a, b)), *told(newly_flagged(a, b)), *told(newly_flagged(b, a))]
    scores = [evaluation("negative, with", "b", "c", accuracy=x).to_dict() for x in (0.5, 0.8)]
    scores[1] |= {"worst_group": "b", "sensitivity_n": 0, "mstps": None}
    for x, y in ((a, b), scores):
        for key in common_metrics(x, y):
            both = [Metric(key).estimate(one) for one in (x, y)]
            lines.append(
                f"{key}: {both[0]}; {both[1]}"
                + (f"; {both[0].verdict(both[1])}; {both[0].change_to(both[1])}" if all(both) else "")
            )
        print_change(x, y)
        lines += printed(capsys.readouterr().out)
        keys = [*common_metrics(x, y), *CASES["limits"]]
        for amount in (0, 0.01, 0.05, 0.3):
            limits = [parse_limit(f"{key}={amount}", way) for key in keys for way in ("increase", "decrease")]
            lines += told(check_limits(x, y, limits), f"{amount}")
    for sign in (">", ">=", "<", "<="):
        values = (0, 0.1, "3e-1", 0.5, 2, 3, 1000)
        conditions = [parse_condition(f"{key} {sign} {value}") for key in CASES["comparisons"] for value in values]
        lines += [*told(check_conditions(b, conditions), sign), *told(check_conditions(a, conditions), f"old {sign}")]
    page = tmp_path / "page.html"
    gate = check_limits(a, b, [parse_limit("mstps=0"), parse_limit("n_flagged=0")])
    page.write_text(
        render_comparison(
            {"old": a, "new": b},
            {"x": evaluation("g", "h"), "y": evaluation("g", "h", accuracy=0.9)},
            title="What changed",
            main="new",
            outcome_of_gate=gate,
        ),
        encoding="utf-8",
    )
    rows = label_rows(
        {
            "sexual/minors": a,
            "Sexual minors": b,
            "!!": week(1, 5, cards=tuple(card(f"w{i}", status="undecided") for i in range(8))).to_dict(),
            "none": week(1, 5, cards=()).to_dict(),
        }
    )
    print_labels(rows, fdr=0.05, n_truncated=2)
    (tmp_path / "labels.html").write_text(render_labels(rows, fdr=0.05), encoding="utf-8")
    compare("changes", [*lines, *printed(capsys.readouterr().out), *told(rows), *written(tmp_path)])


def test_tables_of_every_kind_and_readings_of_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = []
    for name, content in CASES["files"].items():
        with (gzip.open if name.endswith("gz") else open)(name, "wt", encoding="utf-8", newline="") as file:
            file.write(content)
        for how in CASES["hows"]:
            lines += [f"## {name} {how}", *tried(read_data, name, **how)]
        lines += tried(lambda: [*FileTexts(name).chunks()])  # noqa: B023
        lines += tried(lambda: [[t.columns, list(t.rows), t.problems] for t in open_tables(name, size=2)])  # noqa: B023
    for names, given in itertools.product(CASES["names"], CASES["labels"]):
        how = {"own_names": ["0", "x"], "source": "file", "rows": range(7, 7 + len(given)), "row_word": "line"}
        lines += [f"{names} {given}", *tried(label_ids, given, names), *tried(label_ids, given, names, **how)]
    for one, label in itertools.product(CASES["lists"], "xy"):
        lines += tried(of_one_label, [one, one], label, ["x", "y"])
    for call, key, more in (
        (class_names, "classes", [["x", "y"]]),
        (read_thresholds, "thresholds", []),
        (check_texts, "texts", []),
    ):
        lines += itertools.chain.from_iterable(tried(call, one, *more) for one in CASES[key])
    Path("none.txt").write_text("# none\n\n", encoding="utf-8")
    Path("words.txt").write_text("# all\nto be honest # so\n\n C# \n#x\nfilm\n", encoding="utf-8")
    lines += [*tried(read_shortcuts_file, "words.txt"), *tried(read_shortcuts_file, "none.txt")]
    many = [f"n{i}" for i in range(25)]
    lines += [say(many[:n]) for say in (messages.listed, messages.enumerated) for n in (0, 1, 2, 20, 21, 25)]
    near = ("Positiv", "max_cuont", "n", "zzz", 3, "p" * 101)
    lines += [messages.did_you_mean(one, ["positive", "max count", "N"]) for one in near]
    lines += [messages.counted(n, "text") for n in (0, 1, 2, 1234)] + [
        messages.shortened("x" * n, 10) for n in (9, 10, 11)
    ]
    lines += [messages.sentence("f", range(3, 3 + n), "row", "it", "Do.") for n in (1, 2, 5, 6, 9)]
    compare("tables", [*lines, *messages.first_few(many[:5]), *messages.first_few(many[:6])])
