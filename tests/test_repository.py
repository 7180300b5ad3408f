"""What is tracked stays small: a clone is to take seconds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LARGEST = 1_000_000
ALL = 12_000_000


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("needs a git checkout")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return {str(file.relative_to(ROOT)): file.stat().st_size for file in files if file.is_file()}


def test_no_tracked_file_is_over_a_megabyte(sizes: dict[str, int]) -> None:
    assert sizes
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def test_all_tracked_files_are_under_twelve_megabytes(sizes: dict[str, int]) -> None:
    assert sum(sizes.values()) < ALL


def test_raw_runs_are_not_tracked(sizes: dict[str, int]) -> None:
    assert not [name for name in sizes if name.startswith("results/runs/")]
