"""The builders on the real data, and their insertions beside the released ones; skipped where the data are absent."""

import re

import pytest

from checkout import ROOT
from shortcut_bench.datasets import DATASETS, build

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "research" / "datasets.md").read_text(encoding="utf-8")
SIZES = {
    name: [int(number) for number in numbers.split("|")]
    for name, numbers in re.findall(r"^\| `([\w-]+)` \| ((?:\d+ \| ){3}\d+)", PAGE, re.MULTILINE)
}


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_builds_with_the_sizes_of_its_page(shared_data, name):
    data = build(name, data_dir=shared_data)
    test = data.tests.get("reversed") or data.tests["test"]
    smallest = min(count for count in test.counts().values() if count)
    assert SIZES[name] == [len(data.train), len(data.dev), len(test), smallest]
    for rows in data.sets().values():
        assert len(set(rows.texts)) >= 0.99 * len(rows)
    trained = set(data.train.texts)
    for test in data.tests.values():
        assert not trained & set(test.texts)
