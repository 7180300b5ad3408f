"""What a file says is held to the types it was written from, and what does not fit is said in sentences."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, NotRequired

import pytest
from typing_extensions import TypedDict

from shortcut_guardrail import ConfigError, DataError
from shortcut_guardrail.data import Count, Defined, NotEmpty, Share, Within, Word, checked, counted, parse_json


@dataclass(frozen=True)
class Point:
    share: Share
    kind: Literal["one", "other"] = "one"
    defined: Annotated[Share, Defined()] = 0.5

    def __post_init__(self):
        if self.kind == "other" and self.share == 1:
            raise ConfigError("another cannot be all.")


class Document(TypedDict):
    version: NotRequired[Literal[1]]
    n: Count
    points: Annotated[tuple[Point, ...], NotEmpty()]
    words: NotRequired[dict[str, Word]]
    text: NotRequired[str | tuple[str, str]]
    one: NotRequired[Point | None]
    pair: NotRequired[tuple[Count, Count]]
    above: NotRequired[Annotated[float, Within(above=0, high=1)]]


FULL = {"n": 3, "points": [{"share": 0.5}]}


def read(document, **how):
    return checked(document, Document, "a.json", **how)


def refusal(document, **how):
    with pytest.raises(DataError) as error:
        read(document, **how)
    return str(error.value)


def test_lists_become_tuples_and_objects_what_they_were_written_from():
    found = read({**FULL, "one": {"share": 1}, "text": ["a", "b"], "words": {"a": "b"}})
    assert found == {**FULL, "points": (Point(0.5),), "one": Point(1), "text": ("a", "b"), "words": {"a": "b"}}
    assert read({**FULL, "one": None, "text": "a"})["one"] is None


def test_what_does_not_fit_is_said_with_its_place():
    for change, sentence in (
        ({"n": "3"}, 'n must be a whole number, 0 or more, but is "3".'),
        ({"n": True}, "n must be a whole number, 0 or more, but is true."),
        ({"n": 3.0}, "n must be a whole number, 0 or more, but is 3.0."),
        ({"n": -(10**50)}, "n must be a whole number, 0 or more, but is a number of more than 40 digits."),
        ({"version": True}, "version must be 1, but is true."),
        ({"above": 0}, "above must be a number above 0 and at most 1, but is 0."),
        ({"pair": [1]}, "pair[1] is missing."),
        ({"pair": [1, 2, 3]}, "pair must be a list of 2, but has 3 entries."),
        ({"points": []}, "points must be a list that is not empty."),
        ({"points": {}}, "points must be a list, but is an object."),
        ({"points": [3]}, "points[0] must be an object, but is 3."),
        ({"points": [{"share": 1.2}]}, "points[0].share must be a number from 0 to 1, but is 1.2."),
        ({"points": [{"share": 1, "kind": "other"}]}, "points[0]: another cannot be all."),
        ({"words": {"a": " "}}, 'words.a must be a string that is not empty, but is " ".'),
        ({"text": 3}, "text must be a string or a list, but is 3."),
        ({"one": {"share": "x"}}, 'one.share must be a number from 0 to 1, but is "x".'),
        ({"nn": 3}, "nn is no field that is known. Did you mean 'n'?"),
        ({"points": [{"share": 0, "kindd": 1}]}, "points[0].kindd is no field that is known. Did you mean 'kind'?"),
        ({"points": [{"share": 0, "z": 1}]}, "points[0].z is no field that is known. Known are share, kind, defined."),
        ({"points": [{"share": 0, "kind": "Othr"}]}, "one of one, other, but is \"Othr\". Did you mean 'other'?"),
    ):
        said = refusal({**FULL, **change})
        assert said.startswith("a.json: ")
        assert said.endswith(sentence)


def test_all_that_does_not_fit_is_said_together():
    said = refusal({"n": -1, "points": [{"share": 0.5}, {"kind": "one"}]}, advice="Write it again.")
    one, other = "n must be a whole number, 0 or more, but is -1.", "points[1].share is missing."
    assert said == f"a.json: {one} {other} Write it again."


def test_shares_may_have_been_rounded_and_what_json_has_not_or_nests_too_deeply_is_refused():
    assert read({"n": 1, "points": [{"share": 1 + 1e-9}]})["points"][0].share > 1
    assert "but is 1.001" in refusal({"n": 1, "points": [{"share": 1.001}]})
    assert parse_json("[" * 64 + "]" * 64)
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 65 + "]" * 65)
    for content, said in (('{"a": NaN}', "NaN is no"), ('{"a": 1, "a": 2}', "'a' occurs twice"), ("{", "line 1")):
        with pytest.raises(ValueError, match=said):
            parse_json(content)
    assert [counted(number, "field") for number in (0, 1, 2)] == ["0 fields", "1 field", "2 fields"]


def test_null_stands_for_nan_where_that_is_said_and_a_number_need_not_be_defined():
    document = {"n": 1, "points": [{"share": None}]}
    assert math.isnan(read(document, null_is_nan=True)["points"][0].share)
    assert "points[0].share must be a number from 0 to 1, but is null." in refusal(document)
    undefined = {"n": 1, "points": [{"share": 0, "defined": None}]}
    assert "points[0].defined must be a number from 0 to 1, but is null." in refusal(undefined, null_is_nan=True)


def test_unknown_fields_may_be_passed_over_and_defaults_asked_for():
    assert read({**FULL, "more": 1}, open_ended=True) == read(FULL)
    assert refusal(FULL, complete=True) == "a.json: points[0].kind is missing. points[0].defined is missing."


def test_half_a_surrogate_pair_is_no_obstacle_in_a_value_and_no_name():
    assert read({**FULL, "words": {"a": "\ud83d"}})["words"] == {"a": "\ud83d"}
    assert "points[0] must be text that names" in refusal({**FULL, "points": [{"share": 0, "\ud83d": 1}]})
