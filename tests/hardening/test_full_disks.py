"""A sample of the full disks of `full_disks.py`, which takes every operation."""

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
@pytest.mark.skipif(sys.platform != "linux", reason="writers are forked processes")
def test_a_full_disk_is_said_and_leaves_a_whole_version(tmp_path):
    rows = tmp_path / "rows.json"
    work = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else tmp_path
    program = [sys.executable, "-m", "hardening.full_disks", "--trials", "40", "--work", work, "--json", rows]
    subprocess.run(list(map(str, program)), cwd=ROOT / "tests", check=True, timeout=600)
    found = json.loads(rows.read_text(encoding="utf-8"))
    naive = [row for row in found if row["output"].startswith("one by one")]
    assert any(row["problems"] for row in naive)
    found = [row for row in found if row not in naive]
    assert sum(row["trials"] for row in found) >= 30
    for row in found:
        where = (row["output"], row["disk"])
        assert row["problems"] == [], where
        in_one_step = row["way"] in ("rename", "exchange")
        states = {kind for kind, count in row["found"].items() if count}
        assert states <= ({"old", "new"} if in_one_step else {"old", "new", "absent"}), where
        assert (row["lost"], row["not_resumed"], row["left"]) == (0, 0, 0), where
