"""Experiments outside the runner: what was measured alike is kept, and the file is whole after every case."""

import json

import pytest

from shortcut_bench.standalone import ASKED, finished, grow, settings_cases, settings_parser

CASES = [{"setting": "a", "seed": 0}, {"setting": "a", "seed": 1}, {"setting": "b", "seed": 0}]


def test_entries_of_an_earlier_call_with_the_same_options_are_kept(tmp_path):
    file, asked = tmp_path / "results.json", {"unit": ("word", "phrase"), "draws": 3}
    assert finished(file, asked, "runs") == []
    file.write_text(json.dumps({ASKED: {"unit": ["word", "phrase"], "draws": 3}, "runs": [{"seed": 0}]}))
    assert finished(file, asked, "runs") == [{"seed": 0}]
    for others in ({**asked, "draws": 4}, {**asked, "more": 1}, {"draws": 3}, {}):
        with pytest.raises(SystemExit, match=r"was begun with the options \{.*'draws': 3\}, but these are"):
            finished(file, others, "runs")
    file.write_text(json.dumps({"runs": [{"seed": 0}]}))
    assert finished(file, {}, "runs") == [{"seed": 0}]
    with pytest.raises(SystemExit, match=r"was begun with the options \{\}, but these are \{'draws': 3\}"):
        finished(file, {"draws": 3}, "runs")


def measured(file, cases, *, stop_at=None):
    """The cases that one call measures; it is cut short before the case of that number."""
    called = []

    def measure(setting, seed):
        if len(called) == stop_at:
            raise KeyboardInterrupt
        called.append({"setting": setting, "seed": seed})
        return {"accuracy": seed / 2}

    try:
        list(grow(file, cases, measure, asked={"draws": 3}, beside=lambda entries: {"n": len(entries)}))
    except KeyboardInterrupt:
        assert stop_at is not None
    return called


def test_a_call_that_was_cut_short_goes_on(tmp_path):
    cut, whole = tmp_path / "cut.json", tmp_path / "whole.json"
    assert measured(cut, CASES, stop_at=2) == CASES[:2]
    assert json.loads(cut.read_text())["n"] == 2
    assert measured(cut, CASES) == CASES[2:]
    assert measured(cut, CASES) == []
    assert measured(whole, CASES) == CASES
    assert cut.read_text() == whole.read_text()
    assert json.loads(whole.read_text())["results"][1] == {"setting": "a", "seed": 1, "accuracy": 0.5}
    assert measured(cut, [{"setting": "a", "seed": 2}]) == [{"setting": "a", "seed": 2}]


def test_every_setting_goes_with_every_seed():
    parser = settings_parser("What it does.", settings=("a", "b"), seeds=(0,), draws=30)
    given = ["--data-dir", "data", "--out", "out.json"]
    assert settings_cases(parser.parse_args(given)) == [CASES[0], CASES[2]]
    assert settings_cases(parser.parse_args([*given, "--settings", "a", "--seeds", "0", "1"])) == CASES[:2]
