"""What is tracked stays small: a clone is to take seconds. The Makefile names the files that it means."""

import re
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


def test_the_makefile_names_every_file_with_tests_for_a_gpu() -> None:
    found = re.search("^GPU_TESTS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    files = [file for folder in ("tests", "bench/tests") for file in (ROOT / folder).rglob("test_*.py")]
    marked = [file for file in files if re.search(r"\bmark\.gpu\b", file.read_text(encoding="utf-8"))]
    assert {ROOT / name for name in found[1].split()} == set(marked)
