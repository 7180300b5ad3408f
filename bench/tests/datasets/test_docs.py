"""docs/research/datasets.md: its table of sizes is what the builders make, and every data set is in it."""

from __future__ import annotations

import re

import pytest

from checkout import ROOT
from shortcut_bench.datasets import DATASETS, build, dataset_settings

PAGE = (ROOT / "docs" / "research" / "datasets.md").read_text(encoding="utf-8")
SIZES = {
    name: [int(number) for number in numbers.split("|")]
    for name, numbers in re.findall(r"^\| `([\w-]+)` \| ((?:\d+ \| ){3}\d+)", PAGE, re.MULTILINE)
}


def test_every_data_set_and_setting_is_on_the_page():
    assert set(SIZES) == set(DATASETS)
    table = PAGE[: PAGE.index("## Sizes")]
    for name in DATASETS:
        row = next(line for line in table.splitlines() if line.startswith("|") and f"`{name}`" in line)
        assert set(re.findall(r"`(\w+)`", row.split("|")[-2])) == set(dataset_settings(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", DATASETS)
def test_sizes_are_those_that_are_built(shared_data, name):
    data = build(name, data_dir=shared_data)
    test = data.tests.get("reversed") or data.tests["test"]
    smallest = min(count for count in test.counts().values() if count)
    assert SIZES[name] == [len(data.train), len(data.dev), len(test), smallest]
