"""The demo's stages and files, on a tiny encoder; `make demo` runs it on the real one."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.demo import run as demo_run
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.finetuning.config import FinetuneConfig
from shortcut_guardrail.report.terminal import print_repair
from tiny_models import tiny_bert


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    model, tokenizer = tiny_bert(max_position_embeddings=64)
    tokenizer.model_max_length = 64
    model.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return demo_run.run_demo(
        seed=3,
        n_train=60,
        n_deployment=70,
        encoder=folder,
        finetune=FinetuneConfig(epochs=2, learning_rate=1e-3, max_length=64),
    )


@pytest.fixture
def folder(result, tmp_path):
    demo_run.write_demo(result, tmp_path / "demo-output")
    return tmp_path / "demo-output"


pytestmark = pytest.mark.filterwarnings("ignore:Small groups")


def test_the_rows_that_choose_the_strength_are_not_scored(result):
    assert len(result.support) == 40
    assert sorted([*result.support, *result.held_out]) == list(range(70))
    assert {evaluation.n for evaluation in result.evaluations.values()} == {30}


def test_base_is_strength_0_and_guarded_the_chosen_one(result, folder):
    guard = ShortcutGuardrail.from_pretrained(folder / "biased-model", max_length=64, precision="auto")
    test = read_data(folder / "test.csv", require_labels=True)
    scores = guard.evaluate(test.texts, test.labels, shortcuts=[result.corpus.shortcut])
    assert scores.accuracy == result.evaluations["base"].accuracy
    assert scores.mstps == pytest.approx(result.evaluations["base"].mstps, abs=1e-3)
    assert result.evaluations["guarded"].mstps != result.evaluations["base"].mstps


def test_metrics_have_the_keys_of_evaluate(result, folder):
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    for model in ("base", "guarded"):
        assert metrics[model] == json.loads(json.dumps(result.evaluations[model].to_dict()))
    assert metrics["debias_strength"] == result.calibration.strength
    assert metrics["calibration"]["n"] == 40


def test_the_page_stands_alone(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "synthetic" in page
    assert "://" not in page
    assert page.count("<script") == page.count("<script>") == 1
    assert "src=" not in page


def test_the_files_of_the_three_commands_are_there(result, folder):
    deployment = read_data(folder / "deployment.csv")
    support = read_data(folder / "support.csv", require_labels=True)
    assert tuple(deployment.texts) == result.corpus.deployment_texts
    assert deployment.labels is None
    assert len(support) == 40
    assert set(support.labels) <= set(result.corpus.label_names)


def test_the_table_fits_80_columns(result, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    parts = result.evaluations, result.audits, result.calibration
    print_repair(*parts, shortcut=result.corpus.shortcut, seconds=sum(result.seconds.values()))
    lines = capsys.readouterr().out.splitlines()
    assert any("worst-group accuracy" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_the_same_seed_gives_the_same_demo(result, tmp_path):
    model, tokenizer = tiny_bert(max_position_embeddings=64)
    tokenizer.model_max_length = 64
    model.bert.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = FinetuneConfig(epochs=2, learning_rate=1e-3, max_length=64)
    again = demo_run.run_demo(seed=3, n_train=60, n_deployment=70, encoder=tmp_path, finetune=config)
    assert again.calibration == result.calibration
    assert again.fit.training.losses == result.fit.training.losses
    other = demo_run.run_demo(seed=4, n_train=60, n_deployment=70, encoder=tmp_path, finetune=config)
    assert other.fit.training.losses != result.fit.training.losses


def test_an_existing_folder_is_refused(result, folder):
    before = (folder / "metrics.json").read_bytes()
    with pytest.raises(ConfigError, match="already exists"):
        demo_run.write_demo(result, folder)
    assert (folder / "metrics.json").read_bytes() == before


def test_the_random_state_is_left_alone(tmp_path):
    torch.manual_seed(11)
    expected = torch.rand(1)
    torch.manual_seed(11)
    np.random.seed(5)
    model, tokenizer = tiny_bert(max_position_embeddings=64, seed=0)
    torch.manual_seed(11)
    tokenizer.model_max_length = 64
    model.bert.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = FinetuneConfig(epochs=1, max_length=64)
    demo_run.run_demo(seed=0, n_train=12, n_deployment=46, encoder=tmp_path, finetune=config)
    assert torch.equal(torch.rand(1), expected)
