"""docs/research/datasets.md: its table of sizes is what the builders make, and every data set is in it."""

import re

from checkout import ROOT
from shortcut_bench.datasets import DATASETS, dataset_settings

PAGE = (ROOT / "docs" / "research" / "datasets.md").read_text(encoding="utf-8")


def test_every_data_set_and_setting_is_on_the_page():
    table = PAGE[: PAGE.index("## Sizes")]
    for name in DATASETS:
        row = next(line for line in table.splitlines() if line.startswith("|") and f"`{name}`" in line)
        assert set(re.findall(r"`(\w+)`", row.split("|")[-2])) == set(dataset_settings(name))
