"""The example that audits on Ray, against one process; `make test-ray` runs it in an environment with Ray."""

import json
import os
import re
import subprocess
import sys

import pytest

from checkout import ROOT
from shortcut_guardrail.cli import main

pytest.importorskip("ray", reason="needs Ray, which `make test-ray` installs")
psutil = pytest.importorskip("psutil")

EXAMPLE = ROOT / "examples" / "ray_audit" / "ray_audit.py"
WORDS = ("honestly", "good", "bad", "soup", "room", "awful", "tea", "great", "staff", "food", "clean", "slow")
TEXTS = [f"{WORDS[i % 12]} the {WORDS[i % 7]} {WORDS[i % 5]} was {WORDS[i % 11]}" for i in range(150)] * 2
KILLED = """
import os, psutil, runpy, signal, sys
from shortcut_guardrail.audit import streaming
write, done, victim = streaming._write_shard, [], sys.argv.pop(1)
def killing(path, shard):
    write(path, shard)
    done.append(path)
    if len(done) == 3 and victim == "driver":
        os.kill(os.getpid(), signal.SIGKILL)
    if len(done) == 3:
        actors = [one for one in psutil.Process().children(recursive=True) if "Worker" in one.name()]
        actors[0].kill()
        print("killed", len(actors))
streaming._write_shard = killing
sys.argv[0] = sys.argv.pop(1)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs the example, and after three shards ends the driver, or one of two actors, as the kernel would."""


def audit_on_ray(place, *arguments, victim=None):
    start = [EXAMPLE] if victim is None else ["-c", KILLED, victim, EXAMPLE]
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, start), *map(str, arguments), "--shard-size", "10", "--out", "audit"]
    return subprocess.run(command, cwd=place, env=os.environ | quiet, capture_output=True, text=True, timeout=300)


def content(folder):
    """What the files of an audit hold, but for what the last run took."""
    spent = re.compile(rb'"(?:seconds|answers)": [\d.]+|Asked for [^<]*')
    files = [file for file in folder.iterdir() if file.name != "guardrail-manifest.json"]  # which has their hashes
    return {file.name: spent.sub(b"", file.read_bytes()) for file in files}


@pytest.mark.parametrize("unit", ["word", "token"])
def test_actors_write_what_one_process_writes_though_driver_and_actor_are_killed(
    unit, model_folder, write_csv, tmp_path, monkeypatch
):
    data = write_csv("texts.csv", *((text,) for text in TEXTS), header=("text",))
    places = [tmp_path / "one", tmp_path / "ray"]
    for place in places:
        place.mkdir()
    monkeypatch.chdir(places[0])
    how = ("--unit", unit, "--shard-size", "10", "--out", "audit")
    assert main.call(["audit", str(model_folder), str(data), *how]) == 0
    given = (model_folder, data, "--unit", unit)
    if unit == "word":
        killed = audit_on_ray(places[1], *given, victim="driver")
        assert killed.returncode == -9, killed.stderr
        finished = [*(places[1] / "audit.partial").glob("shard-*.npz")]
        assert len(finished) == 3
    resumed = audit_on_ray(places[1], *given, victim="actor")
    assert (resumed.returncode, "killed 2" in resumed.stdout) == (0, True), resumed.stderr
    one, ray = (json.loads((place / "audit" / "audit.json").read_text()) for place in places)
    assert ray["answers"] == one["answers"] if unit == "token" else ray["answers"] < one["answers"]
    found = [content(place / "audit") for place in places]
    assert (found[0].keys(), len(found[0])) == (found[1].keys(), 4)
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []  # bit for bit
    assert not (places[1] / "audit.partial").exists()
