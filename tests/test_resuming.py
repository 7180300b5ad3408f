"""Scripts that are called again go on only with what was measured with the same options."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from resuming import ASKED, finished


def test_entries_of_an_earlier_call_are_kept(tmp_path):
    file, asked = tmp_path / "results.json", {"unit": ("word", "phrase"), "draws": 3}
    assert finished(file, asked, "runs") == []
    file.write_text(json.dumps({ASKED: {"unit": ["word", "phrase"], "draws": 3}, "runs": [{"seed": 0}]}))
    assert finished(file, asked, "runs") == [{"seed": 0}]


@pytest.mark.parametrize("asked", [{"draws": 4}, {"draws": 3, "unit": "word"}, {}])
def test_other_options_are_refused(tmp_path, asked):
    file = tmp_path / "results.json"
    file.write_text(json.dumps({ASKED: {"draws": 3}, "runs": [{"seed": 0}]}))
    with pytest.raises(SystemExit, match=r"was begun with the options \{'draws': 3\}, but these are"):
        finished(file, asked, "runs")
    file.write_text(json.dumps({"runs": []}))
    with pytest.raises(SystemExit, match="was begun with the options None"):
        finished(file, asked, "runs")
