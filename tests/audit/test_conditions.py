"""The gate of a pipeline: what can be asked, what stops it, and sentences for what cannot be read."""

import json
import re

import pytest

from shortcut_guardrail.audit.conditions import parse_condition, parse_limit, read_result
from shortcut_guardrail.errors import ConfigError, DataError


def candidate(text: str, **numbers) -> dict:
    shares = {"flip_rate": 0.5, "mean_change": -0.25, "override_rate": 0.1, "q_value": 0.01}
    return {"text": text, "count": 20, "flagged": False, **shares} | numbers


def audit(mstps: float = 0.45, *candidates: dict) -> dict:
    return {"schema_version": 2, "n": 100, "n_truncated": 0, "mstps": mstps, "candidates": list(candidates)}


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
