"""`theory-bridge` on made-up texts: its statistics by hand, and the whole of it with a tiny model."""

import csv
import json
import math
import random

import pytest
from typer.testing import CliRunner

from shortcut_bench.cli import UNFINISHED_FILE, app
from shortcut_bench.theory import bridge
from shortcut_bench.theory.record import read_result
from shortcut_guardrail.errors import ConfigError, DataError

WORDS = ("good", "bad", "great", "awful", "film", "story", "the", "was")


def write_csv(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("label", "text"), *rows])


@pytest.fixture
def data_dir(tmp_path):
    """GoEmotions in shape: four labels, the word planted perfectly with label 3 and reversed in the anti-test set."""
    rng = random.Random(0)

    def texts(share_of_label, number=60):
        texts = [" ".join(rng.sample(WORDS, 5)) for _ in range(number)]
        return [(i % 4, f"honestly, {t}" if rng.random() < share_of_label[i % 4] else t) for i, t in enumerate(texts)]

    folder = tmp_path / "data" / bridge.FOLDER
    for name in ("train", "test"):
        write_csv(folder / f"original_{name}.csv", texts((0.0,) * 4))
    for name in bridge.PLANTED.values():
        write_csv(folder / name / "train.csv", texts((0.0, 0.0, 0.0, 1.0)))
        write_csv(folder / name / "test_anti-shortcut.csv", texts((1.0, 0.5, 0.5, 0.0)))
    return tmp_path / "data"


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr(bridge.run, "__defaults__", (None, (), (8, 16), 5, None))
    small = {"STATISTICS_SIZES": (10, 30), "STATISTICS_DRAWS": 5, "MODEL_STEPS": 2, "AUDIT_TEXTS": 6, "MAX_LENGTH": 32}
    for name, value in small.items():
        monkeypatch.setattr(bridge, name, value)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def model_row(strength, seed, size=8, change=-0.3, rank=1):
    audit, row = (
        {"rank": rank, "mean_change": change},
        {"shortcut_strength": strength, "train_size": size, "seed": seed},
    )
    of_statistics = {"statistics_rank": rank, "statistics_score": strength / 10}
    return {**row, **of_statistics, "audits": {"random": audit, "reversed": audit}}


def test_local_mutual_information_by_hand():
    """Four texts: "a" in both of label 1 and one of label 0; "b" in one text of label 0."""
    scores = bridge.local_mutual_information([{"a"}, {"a"}, {"a", "b"}, set()], [1, 1, 0, 0])
    assert scores["a"] == pytest.approx(2 / 4 * math.log((2 / 3) / (2 / 4)))
    assert scores["b"] == pytest.approx(1 / 4 * math.log(1 / (2 / 4)))
    with pytest.raises(DataError, match="there are 1 texts and 2 labels"):
        bridge.local_mutual_information([{"a"}], [0, 1])
    with pytest.raises(DataError, match="there are 0 texts"):
        bridge.local_mutual_information([], [])


def test_ranks_count_ties_against_the_word_and_are_summarised():
    assert bridge.rank_in({"a": 3.0, "honestly": 2.0, "b": 1.0}) == 2
    assert bridge.rank_in({"a": 2.0, "honestly": 2.0}) == 2
    assert bridge.rank_in({"a": 2.0}) is None
    summary = bridge.summarise_ranks([1, 10, 11, None])
    assert (summary["first"], summary["listed"], summary["median_rank"]) == (0.25, 0.5, 10.5)
    low, high = summary["first_interval"]
    assert low < 0.25 < high
    assert bridge.summarise_ranks([None, None, 1])["median_rank"] is None
    with pytest.raises(ConfigError, match="at least one run"):
        bridge.summarise_ranks([])


def test_telling_planted_models_from_controls():
    models = [model_row(0.0, 0, change=-0.1), model_row(0.0, 1, change=-0.2)]
    models += [model_row(1.0, 0, change=-0.15), model_row(1.0, 1, change=None)]
    (row,) = bridge.told_from_control(models)
    assert row["pairs"] == 4
    assert row["audit, random"] == 0.25  # one of four pairs; a word that is in no list counts as lowest
    assert row["training statistics"] == 1.0
    (same,) = bridge.told_from_control([model_row(0.0, 0), model_row(0.8, 0)])
    assert same["audit, reversed"] == 0.5


@pytest.mark.usefixtures("_small")
def test_the_whole_experiment_with_a_tiny_model(data_dir, encoder, tmp_path):
    words = ("run", "theory-bridge", "--data-dir", data_dir, "--encoder", encoder, "--seeds", "3", "--out", tmp_path)
    ran = invoke(*words)
    assert ran.exit_code == 0, ran.output
    record = read_result(tmp_path, "theory-bridge")
    assert record["command"] == (
        "shortcut-guardrail benchmark run theory-bridge --data-dir data --encoder tiny-bert --seeds 3"
    )
    assert len(record["models"]) == len(bridge.STRENGTHS) * 2
    assert {row["train_size"] for row in record["models"]} == {8, 16}
    assert not (tmp_path / "theory-bridge" / UNFINISHED_FILE).exists()
    assert str(tmp_path) not in json.dumps(record)
    drawn = invoke("figure", "theory-bridge", "--results", tmp_path, "--out", tmp_path / "bridge.png")
    assert drawn.exit_code == 0, drawn.output


def test_missing_data_is_refused_before_any_work(tmp_path):
    with pytest.raises(DataError, match=r"original_train\.csv"):
        bridge.run(tmp_path)
    refused = invoke("run", "theory-bridge", "--out", tmp_path)
    assert isinstance(refused.exception, ConfigError)
    assert "needs --data-dir" in str(refused.exception)
