"""Samples of `kills.py` and `full_disks.py`, which take every operation."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
IN_MEMORY = Path("/dev/shm")
PROGRAM = """
import json, sys
from pathlib import Path
from hardening import full_disks, kills
work = Path(sys.argv[1])
print(json.dumps({"kills": kills.run(36, 6, 12, 0, work), "full disks": full_disks.tried(30, 0, work)}))
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="writers are forked processes")]


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """Rows by program; both in one process of their own, since one with threads cannot fork."""
    # Flushing to a real disk takes most of the time, and what is flushed does not show here.
    near = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else tmp_path_factory.mktemp("work")
    with tempfile.TemporaryDirectory(dir=near) as work:
        command = [sys.executable, "-c", PROGRAM, os.path.realpath(work)]
        done = subprocess.run(command, cwd=TESTS, check=True, timeout=600, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def whole(rows):
    """The rows of the partner; in those of all others there is nothing half."""
    partner = [row for row in rows if row["output"].startswith("one by one")]
    rows = [row for row in rows if row not in partner]
    for row in rows:
        states = {kind for kind, count in row["found"].items() if count}
        assert states <= ({"old", "new"} if row["in_one_step"] else {"old", "new", "absent"}), row
        assert (row["lost"], row["not_resumed"], row["left"]) == (0, 0, 0), row
    assert sum(row["kills"] for row in rows) >= 25
    return rows, partner


def test_whoever_is_killed_leaves_a_whole_version(sampled):
    rows, partner = whole(sampled["kills"])
    assert any(row["found"].get("mixed") for row in partner)
    for kind in ("old", "new", "absent"):
        assert sum(row["found"].get(kind, 0) for row in rows), kind


def test_a_full_disk_is_said_and_leaves_a_whole_version(sampled):
    rows, partner = whole(sampled["full disks"])
    assert any(row["problems"] for row in partner)
    assert not [row["problems"] for row in rows if row["problems"]]
