"""The gate of a pipeline: what can be asked, what stops it, and sentences for what cannot be read."""

import json
import re

import numpy as np
import pytest

from shortcut_guardrail.audit import Condition, Estimate, Metric, check_conditions, check_limits, common_metrics
from shortcut_guardrail.audit.conditions import newly_flagged, parse_condition, parse_limit, read_result
from shortcut_guardrail.errors import ConfigError, DataError
from shortcut_guardrail.stats.exact import exact_interval


def candidate(text: str, **numbers) -> dict:
    shares = {"flip_rate": 0.5, "mean_change": -0.25, "override_rate": 0.1, "q_value": 0.01}
    return {"text": text, "count": 20, "flagged": False, **shares} | numbers


def audit(mstps: float = 0.45, *candidates: dict) -> dict:
    return {"schema_version": 2, "n": 100, "n_truncated": 0, "mstps": mstps, "candidates": list(candidates)}


def test_what_a_condition_says():
    for expression, *said in (
        ("mstps > 0.4", Metric("mstps"), ">", 0.4),
        ("  mstps>=.4  ", Metric("mstps"), ">=", 0.4),
        ("n < 1e3", Metric("n"), "<", 1000.0),
        ("n_flagged <= 0", Metric("n_flagged"), "<=", 0.0),
        ("candidate:honestly.flip_rate > 0.1", Metric("flip_rate", "honestly"), ">", 0.1),
        ("candidate:to be honest.count > 3", Metric("count", "to be honest"), ">", 3.0),
        ("candidate:...mean_change < -0.5", Metric("mean_change", ".."), "<", -0.5),
        ("candidate:a > b.flip_rate > 0.1", Metric("flip_rate", "a > b"), ">", 0.1),
        ("candidate:i'm being.flagged >= 1", Metric("flagged", "i'm being"), ">=", 1.0),
    ):
        assert parse_condition(expression) == parse_condition(str(Condition(*said))) == Condition(*said)


CONDITIONS = (
    ("mstps", "has no comparison. Write a metric, one of >, >=, < or <=, and a number, such as 'mstps > 0.4'"),
    ("mstps == 0.4", "has no comparison"),
    ("> 0.4", "needs the name of a metric in front"),
    ("mstps >", "needs a number after '>', such as 0.1, but has ''"),
    ("mstps > nan", "but has 'nan'"),
    ("mstps > 0,4", "but has '0,4'"),
    ("mstps > 40%", "shares are written as fractions; write 0.4 for '40%'"),
    ("mstp > 0.4", "Did you mean 'mstps'?"),
    ("candidate:honestly > 0.4", "must name a candidate and one of its numbers"),
    ("candidate:.flip_rate > 0.4", "must name a candidate and one of its numbers"),
    ("candidate:honestly.flips > 0.4", "Did you mean 'flip_rate'?"),
)
LIMITS = (
    ("mstps", "has no '='"),
    ("mstps=", "needs a number after '='"),
    ("mstps=2%", "write 0.02 for '2%'"),
    ("mstps=-0.1", "must allow 0 or more, but allows -0.1"),
    ("candidate:honestly.flip=0.1", "Did you mean 'flip_rate'?"),
)


def test_what_cannot_be_read_is_a_sentence():
    for parse, source, cases in (
        (parse_condition, "The condition", CONDITIONS),
        (parse_limit, "The limit of a increase", LIMITS),
        (lambda text: parse_limit(text, "decrease"), "The limit of a decrease", LIMITS),
    ):
        for expression, sentence in cases:
            with pytest.raises(ConfigError, match=re.escape(sentence)) as error:
                parse(expression)
            assert str(error.value).startswith(f"{source} '{expression}'")


def judged(document: dict, *expressions: str):
    return check_conditions(document, map(parse_condition, expressions))


def test_a_breach_is_one_line_with_the_value():
    document = audit(0.454, candidate("honestly", flip_rate=0.716, flagged=True), candidate("lovely", flip_rate=0.02))
    verdict = judged(document, "mstps > 0.4", "candidate:honestly.flip_rate > 0.1", "candidate:lovely.flip_rate > 0.1")
    assert verdict.breaches == ("mstps > 0.4: it is 0.454.", "candidate:honestly.flip_rate > 0.1: it is 0.716.")
    assert not verdict.passed
    assert judged(document, "mstps > 0.46").passed
    for comparison, fails in ((">", False), (">=", True), ("<", False), ("<=", True)):
        assert judged(document, f"mstps {comparison} 0.454").passed is not fails
    assert judged(document, "n_flagged > 0").breaches == ("n_flagged > 0: it is 1.",)
    assert judged({**document, "n_undecided": 2}, "n_undecided > 0").breaches == ("n_undecided > 0: it is 2.",)
    assert judged(document, "candidate:honestly.flagged > 0").breaches == ("candidate:honestly.flagged > 0: it is 1.",)


def test_a_candidate_that_is_not_there_is_said_rather_than_passed_over():
    twice = audit(0.4, candidate("Honestly", flip_rate=0.9), candidate("honestly", flip_rate=0.0))
    assert judged(twice, "candidate:HONESTLY.flip_rate > 0.5").breaches  # the first, whatever its capital letters
    verdict = judged(audit(0.4, candidate("soup")), "candidate:honestly.flip_rate > 0.1")
    assert verdict.passed
    said = "not judged, since 'honestly' is not among the candidates of the audit."
    assert verdict.notes == (f"candidate:honestly.flip_rate > 0.1: {said}",)
    undefined = judged(audit(0.4, candidate("soup", q_value=None)), "candidate:soup.q_value < 0.1")
    assert undefined.notes == ("candidate:soup.q_value < 0.1: not judged, since it is undefined in the audit.",)


def change(old: dict, new: dict, *increases: str, decreases: tuple[str, ...] = ()):
    limits = [parse_limit(text) for text in increases] + [parse_limit(text, "decrease") for text in decreases]
    return check_limits(old, new, limits)


def test_a_rise_beyond_the_limit():
    verdict = change(audit(0.40), audit(0.43), "mstps=0.02")
    assert verdict.breaches == ("mstps went from 0.4 to 0.43; it may increase by 0.02 at most.",)
    assert change(audit(0.40), audit(0.41), "mstps=0.02").passed
    assert change(audit(0.43), audit(0.30), "mstps=0.02").passed
    assert change(audit(0.43), audit(0.30), decreases=("mstps=0.02",)).breaches
    assert 0.32 - 0.30 > 0.02  # in floating point, which must not stop a pipeline
    assert change(audit(0.30), audit(0.32), "mstps=0.02").passed
    assert not change(audit(0.30), audit(0.3201), "mstps=0.02").passed


def test_a_condition_holds_where_its_interval_shows_it():
    counts = {"flip_rate": 0.7, "opposed_rate": 0.5, "count": 400, "n_present": 40}
    sure = candidate("honestly", **counts, interval={"flip_rate": [0.6, 0.8]})
    unsure = candidate("once", flip_rate=1.0, interval={"flip_rate": [0.03, 1.0], "mean_change": [None, None]})
    estimates = {"n": 9_999, "n_distinct": 100, "sensitivity_histogram": [0, 30, 40, 30, 0]}
    document = audit(0.5, sure, unsure) | estimates
    shown = {
        "candidate:honestly.flip_rate > 0.5": True,
        "candidate:honestly.flip_rate > 0.65": False,
        "candidate:honestly.flip_rate >= 0.65": False,
        "candidate:honestly.flip_rate < 0.9": True,
        "candidate:honestly.flip_rate <= 0.75": False,
        "candidate:honestly.flip_rate < 0.75": False,
        "candidate:honestly.opposed_rate > 0.3": True,
        "candidate:honestly.opposed_rate > 0.4": False,
        "candidate:once.flip_rate > 0.1": False,
        "candidate:once.mean_change < 0": False,
        "candidate:once.q_value < 0.05": True,  # no estimate, but a test's result
        "mstps > 0.4": True,
        "mstps > 0.45": False,
    }
    for condition, holds in shown.items():
        verdict = judged(document, condition)
        assert (len(verdict.breaches), len(verdict.notes)) == (holds, not holds), condition
    few = "candidate:once.flip_rate > 0.1: too few texts to tell; it is 1 (0.03 to 1 with 95 % confidence)."
    assert judged(document, "candidate:once.flip_rate > 0.1").notes == (few,)
    assert judged(document, "candidate:honestly.flip_rate > 0.85") == judged(document)  # not even as it is seen


def test_a_change_is_shown_by_the_interval_of_the_difference():
    a, b = Estimate(0.40, 0.39, 0.42), Estimate(0.45, 0.42, 0.49)
    moved, back = a.change_to(b), b.change_to(a)
    assert moved.value == pytest.approx(0.05)
    # The lower end of the new one meets the upper end of the old one.
    ends = 0.05 - np.hypot(0.03, 0.02), 0.05 + np.hypot(0.04, 0.01)
    assert (moved.low, moved.high) == pytest.approx(ends) == (-back.high, -back.low)
    assert (a.verdict(b), b.verdict(a), a.verdict(a)) == ("changed", "changed", "not shown to have changed")
    # What may have moved by a tenth, up or down, is not told.
    told = [a.verdict(Estimate(0.4, low, high)) for low, high in ((0.33, 0.43), (0.28, 0.43), (0.39, 0.52))]
    assert told == ["not shown to have changed", *["too few texts to tell"] * 2]
    assert str(Estimate(0.0, 0.0, 0.3)) == "0 (0 to 0.3 with 95 % confidence)"
    assert Estimate(1, 1, 1).verdict(Estimate(2, 2, 2)) == ""
    word = {"interval": {"flip_rate": [0.42, 0.48]}, "flip_rate": 0.45}
    old = audit(0.4, candidate("honestly", flip_rate=0.40, interval={"flip_rate": [0.38, 0.42]}))
    for limit, fails in ((0.01, True), (0.02, False), (0.06, False)):
        verdict = change(old, audit(0.4, candidate("honestly", **word)), f"candidate:honestly.flip_rate={limit}")
        assert (not verdict.passed, bool(verdict.notes)) == (fails, limit == 0.02)
    assert (
        "too few texts to tell: candidate:honestly.flip_rate went from 0.4 (0.38 to 0.42"
        in change(old, audit(0.4, candidate("honestly", **word)), "candidate:honestly.flip_rate=0.02").notes[0]
    )
    right = {"schema_version": 1, "mstps": 0.4, "n": 100, "accuracy": 0.9, "worst_group": "b"}
    right |= {
        "worst_group_accuracy": 0.5,
        "groups": [{"name": "b", "interval": [0.2, 0.8]}],
        "mstps_interval": [0.3, 0.5],
    }
    found = [Metric(key).estimate(right) for key in ("mstps", "worst_group_accuracy", "accuracy")]
    assert [(one.low, one.high) for one in found if one] == [(0.3, 0.5), (0.2, 0.8), exact_interval(90, 100)]


def test_a_new_candidate_is_a_rise_from_nothing():
    new = audit(0.4, candidate("honestly", flip_rate=0.7))
    verdict = change(audit(0.4), new, "candidate:honestly.flip_rate=0.1")
    assert verdict.breaches == ("candidate:honestly.flip_rate went from 0 to 0.7; it may increase by 0.1 at most.",)
    assert change(new, audit(0.4), "candidate:honestly.flip_rate=0.1").passed
    neither = change(audit(0.4), audit(0.4), "candidate:honestly.flip_rate=0.1")
    assert neither.passed
    assert neither.notes
    for key in ("count", "flip_rate", "override_rate", "mean_change", "flagged", "q_value"):
        verdict = change(audit(0.4), new, f"candidate:honestly.{key}=0.1")
        assert bool(verdict.notes) == (key == "q_value"), key  # no candidate, no test


def test_limits_hold_for_evaluations_too():
    old = {"schema_version": 1, "n": 5_000, "mstps": 0.4, "accuracy": 0.9}
    old |= {"worst_group": "a", "worst_group_accuracy": 0.7}
    new = old | {"accuracy": 0.85, "worst_group_accuracy": None}
    assert change(old, new, decreases=("accuracy=0.02",)).breaches
    assert "undefined in the new result" in change(old, new, decreases=("worst_group_accuracy=0",)).notes[0]
    assert common_metrics(old, new) == ("n", "mstps", "accuracy", "worst_group_accuracy")
    with pytest.raises(ConfigError, match=r"no number 'acuracy' .*Did you mean 'accuracy'\?"):
        change(old, new, "acuracy=0.1")
    unmeasured = change(old, new | {"mstps": None, "sensitivity_n": 0}, "mstps=0.02")
    said = "not judged, since it was not measured in the new result; evaluate with sensitivity=."
    assert unmeasured.notes == (f"mstps: {said}",)


def test_what_is_newly_flagged():
    old = audit(0.4, candidate("lol", flagged=True), candidate("honestly"))
    new = audit(0.4, candidate("honestly", flagged=True), candidate("lol", flagged=True))
    assert (newly_flagged(old, new), newly_flagged(new, old)) == (("honestly",), ())


def test_a_result_comes_back_from_its_file_and_nothing_else_is_one(tmp_path):
    document, path = audit(0.4, candidate("honestly")), tmp_path / "audit.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert read_result(path) == document
    for content, sentence in (
        ('{"schema_version": 1, "mstps"', "is not valid JSON (line 1: "),
        ("[1, 2]", "is no result of this program"),
        ('{"mstps": 0.4}', "is no result of this program"),
        ('{"schema_version": 1, "mstps": 0.4, "candidates": [3]}', "candidates[0] must be an object, but is 3."),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=rf"audit\.json.*{re.escape(sentence)}"):
            read_result(path)
