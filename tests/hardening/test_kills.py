"""A sample of the kills of `kills.py`, which takes every operation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IN_MEMORY = Path("/dev/shm")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kills forked processes")
def test_whoever_is_killed_leaves_a_whole_version(tmp_path):
    """In a process of its own, which has no threads: a process with threads cannot be forked safely."""
    rows = tmp_path / "rows.json"
    # Flushing to a real disk takes most of the time, and a kill does not show what is flushed.
    work = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else tmp_path
    sample = ("--kills", "60", "--twice", "10", "--moments", "20", "--work", work, "--json", rows)
    program = [sys.executable, "-m", "hardening.kills", *map(str, sample)]
    subprocess.run(program, cwd=ROOT / "tests", check=True, timeout=600)
    found = {row["output"]: row for row in json.loads(rows.read_text(encoding="utf-8"))}
    naive = found.pop("one by one (must be mixed)")
    assert naive["found"].get("mixed")
    assert sum(row["kills"] for row in found.values()) >= 80
    for place, row in found.items():
        states = {kind for kind, count in row["found"].items() if count}
        assert states <= ({"old", "new"} if row["in_one_step"] else {"old", "new", "absent"}), place
        assert (row["lost"], row["not_resumed"], row["left"]) == (0, 0, 0), place
    for kind in ("old", "new", "absent"):
        assert sum(row["found"].get(kind, 0) for row in found.values()), kind
