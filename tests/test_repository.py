"""What is tracked stays small: a clone is to take seconds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_no_tracked_file_is_over_a_megabyte_and_all_are_under_twelve() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("needs a git checkout")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    sizes = {str(file.relative_to(ROOT)): file.stat().st_size for file in files if file.is_file()}
    assert sizes
    assert {name: size for name, size in sizes.items() if size > 1_000_000} == {}
    assert sum(sizes.values()) < 12_000_000
    assert not [name for name in sizes if name.startswith("results/runs/")]  # raw runs
