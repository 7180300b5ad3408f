"""Samples of `kills.py` and `full_disks.py`, which take every operation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
IN_MEMORY = Path("/dev/shm")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="writers are forked processes"),
]


def sampled(program, folder, *options):
    """The rows of a program, and those of its partner; in a process of its own, since one with threads cannot fork."""
    # Flushing to a real disk takes most of the time, and what is flushed does not show here.
    work = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else folder
    command = [sys.executable, "-m", f"hardening.{program}", *options, "--work", str(work)]
    done = subprocess.run(command, cwd=TESTS, check=True, timeout=600, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    partner = [row for row in rows if row["output"].startswith("one by one")]
    rows = [row for row in rows if row not in partner]
    for row in rows:
        states = {kind for kind, count in row["found"].items() if count}
        assert states <= ({"old", "new"} if row["in_one_step"] else {"old", "new", "absent"}), row
        assert (row["lost"], row["not_resumed"], row["left"]) == (0, 0, 0), row
    assert sum(row["kills"] for row in rows) >= 25
    return rows, partner


def test_whoever_is_killed_leaves_a_whole_version(tmp_path):
    rows, partner = sampled("kills", tmp_path, "--kills", "36", "--twice", "6", "--moments", "12")
    assert any(row["found"].get("mixed") for row in partner)
    for kind in ("old", "new", "absent"):
        assert sum(row["found"].get(kind, 0) for row in rows), kind


def test_a_full_disk_is_said_and_leaves_a_whole_version(tmp_path):
    rows, partner = sampled("full_disks", tmp_path, "--trials", "30")
    assert any(row["problems"] for row in partner)
    assert not [row["problems"] for row in rows if row["problems"]]
