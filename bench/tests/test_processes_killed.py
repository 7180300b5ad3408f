"""The program that kills one of two processes, and what it found."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from checkout import ROOT
from test_experiment_folders import experiment

WRITE = "import pathlib, sys, time; time.sleep(float(sys.argv[2])); pathlib.Path(sys.argv[1]).write_text(sys.argv[3])"


@pytest.mark.parametrize(
    ("seconds", "writes", "left", "alive", "same"),
    [
        ((60, 0), "right", "whole", True, True),
        ((0, 60), "", "none", False, False),
        ((60, 0), "half", "other", True, False),
    ],
)
def test_a_kill_is_told_from_what_is_left_and_from_the_next_run(
    tmp_path, monkeypatch, seconds, writes, left, alive, same
):
    run = experiment("processes", monkeypatch)
    monkeypatch.setattr(run, "LONGEST_S", 1)
    out = tmp_path / "out"

    def start():
        files = (tmp_path / "victim", out)
        commands = [
            [sys.executable, "-c", WRITE, str(file), str(s), writes] for file, s in zip(files, seconds, strict=True)
        ]
        return [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]

    def again():
        out.write_text("right" if same else "wrong")
        return True

    place = SimpleNamespace(out=out, start=start, run=again, undisturbed=(["right"], 1.5))
    place.written = lambda: out.read_text().splitlines() if out.exists() else None
    found = run.measure("predict", 0, places={"predict": place})
    assert (found["left"], found["alive"], found["same"], found["error"]) == (left, alive, same, None)
    assert (found["wait_s"] is None) == (seconds[1] == 60)


def test_no_process_that_was_killed_left_a_half_or_a_partner_that_waits():
    found = json.loads((ROOT / "results/processes_killed.json").read_text())["results"]
    assert sorted(one["command"] for one in found) == ["evaluate"] * 20 + ["predict"] * 20
    for one in found:
        assert one["left"] in ("none", "whole")
        assert one["same"]
        assert one["wait_s"] is not None
        assert one["left"] == "whole" or "Another of the processes ended too early" in one["error"]
