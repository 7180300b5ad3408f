"""Audits over weeks: what is shown of them, what raises an alarm, and sentences for what cannot be compared."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom

import audits as made
from audits import HOSTILE, candidate, card
from shortcut_guardrail import Decisions
from shortcut_guardrail.audit.erasures import Erasures
from shortcut_guardrail.decisions import Decision
from shortcut_guardrail.errors import ConfigError, DataError
from shortcut_guardrail.history import History, Rate, read_history
from shortcut_guardrail.report.history import MOST_TRENDS, render_history
from shortcut_guardrail.stats import rise_evidence

N = 1_000
QUIET, RISEN = (10, 11, 9, 10, 10, 12), (40, 42, 45)
"""Texts of 1,000 whose prediction depends on the word."""


def word(changes: int, text: str = "honestly", **values: Any):
    counts = {"n_distinct": 2 * changes, "n_present": 3 * changes, "flip_rate": 0.5}
    return candidate(text, **{"flagged": True, **counts, **values})


@pytest.fixture
def weeks(tmp_path):
    """Writes audits, a folder each, and gives their folders; each is of other texts."""

    def write(*reports, names: Any = None) -> list[Path]:
        folders = []
        for i, report in enumerate(reports):
            folder = tmp_path / (names[i] if names else f"2026-01-{i + 1:02d}")
            folder.mkdir()
            report = replace(report, data=report.data or f"texts {i}")
            (folder / "audit.json").write_text(json.dumps(report.to_dict()), encoding="utf-8")
            folders.append(folder)
        return folders

    return write


def audit(*candidates: Any, **values: Any):
    return made.audit(*candidates, **{"n": 2 * N, "n_distinct": N, "model": "a" * 64, **values})


def risen(weeks) -> list[Path]:
    weekly = [audit(word(k), word(9, "soup"), mstps=0.4 + 0.01 * k) for k in (*QUIET, *RISEN)]
    return weeks(*(replace(one, model="ab"[i > 2] * 64) for i, one in enumerate(weekly)))


def test_evidence_for_a_rise_is_for_a_rise_alone():
    assert rise_evidence((5, 5, 60, 60), (500,) * 4)[-1] > 1e3
    assert max(rise_evidence((30, 30, 5, 5), (500,) * 4)) <= 1
    assert max(rise_evidence((0, 0, 0), (500,) * 3)) <= 1
    assert rise_evidence((0, 500), (0, 500)) == [1, 1]  # with nothing before it, nothing has risen
    assert rise_evidence((5, 30, 30), (500,) * 3, first=2)[:2] == [1, 1]
    assert rise_evidence((0, 10**6), (10**6,) * 2)[-1] < float("inf")


def test_evidence_reaches_twenty_once_in_twenty_histories_at_most():
    counts = np.random.default_rng(0).binomial(2_000, 0.02, size=(300, 26))
    over = sum(max(rise_evidence(of, [2_000] * 26)) >= 20 for of in counts)
    assert over <= 300 / 20
    # By a test each week at one in twenty most histories have an alarm.
    over = sum(any(hypergeom.sf(k - 1, 4_000, of[0] + k, 2_000) <= 1 / 20 for k in of[1:]) for of in counts)
    assert over > 300 / 20


def test_a_rise_is_an_alarm_and_what_stays_is_none(weeks):
    found = read_history(risen(weeks))
    first, second = found.trends
    assert (first.words, first.known, first.alarm, second.alarm) == (("honestly",), 0, 6, None)
    assert found.alarms == (first,)
    assert not found.new_alarms
    assert first.level == second.level == 0.05 / 2 / 2
    assert (first.seen[6].affected, first.seen[6].exposure) == (Rate(40, N), Rate(120, N))
    assert first.seen[6].flip_rate == Rate(40, 80)
    since = "since 2026-01-07: 4.0% of the texts, and 1.0% before."
    assert found.said(first) == f"More predictions depend on 'honestly' {since}"
    shown = " ".join(repr(found).split())
    assert (
        "alarms honestly word known since affected, first last 95 % alarm honestly 2026-01-01 1.0% 4.5% 3.3% to"
        in shown
    )
    assert "MSTPS 0.500 to 0.850 new words none model changed 2026-01-04" in shown
    assert "... and" not in repr(replace(found, trends=(first,) * 9)), "all with an alarm are shown"
    assert max(map(len, repr(found).splitlines())) <= 80
    assert read_history(risen_until(found, 7)).new_alarms == (read_history(risen_until(found, 7)).trends[0],)


def risen_until(history: History, n: int) -> list[str]:
    return [one.name for one in history.audits[:n]]


def test_spellings_classes_dates_and_decisions_as_they_come(weeks):
    spelt = [word(9, text, pushes_towards=side) for text, side in (("Soup", "negative"), ("soup", "positive"))]
    tea = [
        candidate("tea", n_distinct=100, n_texts=n, flip_rate=0.29, collective=i > 0) for i, n in enumerate((0, 300))
    ]
    reports = [audit(*spelt, tea[0], n_candidates=99), audit(tea[1], label_names=("positive", "negative"))]
    folders = weeks(
        *reports,
        audit(spelt[1], candidate("rain", alternative_wording=True)),
        names=["2025-01-01 to 2026-03-01", "2026-01-02", "2026-02-01"],
    )
    Decisions((Decision(("Bread",), "keep", "person"),)).save(folders[1] / "decisions.json")
    found = read_history(folders, words=["cake"])
    said = "The audits were not given in the order of the dates in their paths; the dates count."
    assert ([one.date for one in found.audits], found.notes) == (["2026-01-02", "2026-02-01", "2026-03-01"], (said,))
    of = {one.words[0]: one for one in found.trends}
    assert {name: one.known for name, one in of.items()} == {"cake": 0, "tea": 0, "bread": 0, "soup": 1, "rain": 1}
    assert (of["soup"].pushes_towards, of["tea"].pushes_towards) == ("negative", "positive")
    counts = [[one.affected for one in of[name].seen] for name in ("tea", "cake")]
    assert counts == [[Rate(29, 300), Rate(0, N), Rate(29, N)], [Rate(0, N), Rate(0, N), None]]
    assert [one.decision for one in of["bread"].seen] == ["keep", "", ""]
    undated = weeks(audit(*(word(9, f"w{i}") for i in range(12))), audit(data="b"), names=["a", "b"])
    found = read_history(undated)
    assert found.notes == ("No path of an audit has a date (2026-01-31), so the audits stand in the order given.",)
    assert "... and 4 more" in repr(found)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"unit": "word"}, "cannot be compared: their units differ (token and word)"),
        ({"top_k": 5}, "their important words a text differ (10 and 5)"),
        ({"label_names": ("negative", "neutral")}, "their classes differ"),
        ({"data": "texts 0"}, "are of the same model and the same texts. Give one of them."),
    ],
)
def test_audits_that_cannot_be_compared_are_refused(weeks, change, sentence):
    with pytest.raises(DataError, match=re.escape(sentence)):
        read_history(weeks(audit(word(9)), audit(word(9), **change)))


def test_what_is_no_history_is_a_sentence(weeks, tmp_path, refused):
    (folder,) = weeks(audit(word(9)))
    assert "A history needs two audits or more, but 1 was given." in refused("history", folder)
    assert "is no folder that `audit` wrote: it has no audit.json." in refused("history", folder, tmp_path)
    (tmp_path / "x.json").write_text("{}")
    assert "is no result of this program" in refused("history", folder, tmp_path / "x.json")
    assert "--csv must end in .csv" in refused("history", folder, "--csv", "x.xls")
    with pytest.raises(ConfigError, match="false_alarms must lie between 0 and 1, but is 1"):
        read_history([folder, folder], false_alarms=1)
    for i, (changed, note) in enumerate(
        (
            ({"fdr": 0.1}, "The false-discovery rates of the audits differ"),
            ({"min_relative_effect": 0.7}, "The least effects of the audits differ"),
            ({"erasures": Erasures("cut", 100, 40, 4, 9)}, "Words were not taken out in one way (cut, mask)"),
        ),
        start=2,
    ):
        other = weeks(audit(word(9), data="others", **changed), names=[f"2026-01-{i:02d}"])
        assert note in read_history([folder, *other]).notes[0]


def test_the_command_writes_page_rows_and_status(cli, weeks, tmp_path):
    folders, page, rows = risen(weeks), tmp_path / "t.html", tmp_path / "t.csv"
    status, out, err = cli("history", *folders[:7], "--out", page, "--csv", rows, "--fail-on-alarm")
    assert status == 1
    assert err.startswith("failed: More predictions depend on 'honestly' since 2026-01-07")
    assert max(map(len, (line for line in out.splitlines() if str(tmp_path) not in line))) <= 80
    found = list(csv.DictReader(rows.read_text(encoding="utf-8").splitlines()))
    assert len(found) == 7 * 3
    last = found[-2]
    assert (last["date"], last["kind"], last["name"], last["alarm"]) == ("2026-01-07", "word", "honestly", "1")
    assert float(last["affected_low"]) < float(last["affected"]) == 0.04 < float(last["affected_high"])
    assert "alarm since 2026-01-07" in page.read_text(encoding="utf-8")
    status, out, _ = cli("history", *folders, "--fail-on-alarm", "--json", "-")
    assert status == 0  # an old alarm stops nothing
    document = json.loads(out)
    assert [(one["word"], one["audit"]) for one in document["alarms"]] == [("honestly", 6)]
    assert document["rows"][0]["evidence"] is None


def test_nothing_of_a_page_is_run(weeks):
    hostile = [word(9, text) for text in HOSTILE]
    groups = (card(*HOSTILE, status="flagged", texts=12, pushes_towards=HOSTILE[0]),)
    page = render_history(read_history(weeks(*[audit(*hostile, cards=groups)] * 2)))
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in re.sub(r"http-equiv|http://evil\.example", "", page)


def test_a_word_with_an_alarm_has_its_charts_however_many_stand_before_it(weeks):
    found = read_history(risen(weeks))
    risen_word, quiet = found.trends
    charts = [
        render_history(replace(found, trends=(quiet,) * MOST_TRENDS + more)).count("<svg")
        for more in ((), (quiet,), (risen_word,))
    ]
    assert charts[0] == charts[1] < charts[2]
