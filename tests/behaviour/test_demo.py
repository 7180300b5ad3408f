"""The demo's stages and files, on a tiny encoder; `make demo` runs it on the real one."""

import json

import pytest
import torch

from shortcut_guardrail import NothingToRepairError, ShortcutGuardrail, read_data
from shortcut_guardrail.cli.demo import show
from shortcut_guardrail.demo import SHORTCUT
from shortcut_guardrail.demo import run as demo_run
from shortcut_guardrail.demo.training import Recipe
from shortcut_guardrail.display import number
from tiny_models import tiny_bert

SMALL = {"train": 60, "deployment": 24, "support": 20, "reversed": 40, "in_distribution": 20}
FEW_STEPS = {"auto": {"adapter": {"min_steps": 10}}, "paper": None}
SYSTEMS = ("original", "paper", "repaired")


def encoder_in(folder):
    model, tokenizer = tiny_bert(max_position_embeddings=64)
    tokenizer.model_max_length = 64
    model.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run(encoder, *, seed=3, sizes=SMALL, epochs=2):
    """The demo on a tiny encoder, which learns too little for the audit to find the word: here a person names it.

    Few steps: the adapters that are trained here have to be the same again, not good.
    """
    repair = ShortcutGuardrail.repair

    def named(guard, *data, strategy="auto", **options):
        words = [SHORTCUT] if strategy == "auto" else []
        return repair(guard, *data, strategy=strategy, shortcuts=words, config=FEW_STEPS[strategy], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShortcutGuardrail, "repair", named)
        patch.setattr(demo_run, "AUDITED", 20)
        patch.setattr(demo_run, "MEASURED", 30)
        recipe = Recipe(epochs=epochs, learning_rate=1e-3)
        return demo_run.run_demo(seed=seed, sizes=sizes, encoder=encoder, recipe=recipe)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run(encoder_in(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    made = tmp_path_factory.mktemp("demo") / "demo-output"
    demo_run.write_demo(result, made)
    return made


def test_the_rows_that_are_scored_chose_nothing_and_only_the_paper_sees_labels(result):
    corpus, repairs = result.corpus, result.repairs
    chose = {*corpus.train.texts, *corpus.deployment.texts, *corpus.support.texts}
    assert not chose & {*corpus.reversed.texts, *corpus.in_distribution.texts}
    assert {evaluation.n for evaluation in result.evaluations.values()} == {40}
    assert {evaluation.n for evaluation in result.in_distribution.values()} == {20}
    measured = [{one.sensitivity.n for one in of.values()} for of in (result.evaluations, result.in_distribution)]
    assert (measured, {(audit.n, audit.unit) for audit in result.audits.values()}) == ([{30}, {0}], {(20, "word")})
    assert (repairs["repaired"].strategy, repairs["repaired"].choice.calibration) == ("distill", None)
    assert {repair.fitted.seed for repair in repairs.values()} == {result.seed} == {3}
    assert repairs["paper"].strategy == repairs["paper"].fitted.config.preset == "paper"
    assert repairs["paper"].choice.calibration.n == 20


def test_a_model_in_which_nothing_is_found_is_not_repaired(tmp_path):
    recipe = Recipe(epochs=1, learning_rate=1e-4)
    with pytest.raises(NothingToRepairError):
        demo_run.run_demo(seed=3, sizes=SMALL, encoder=encoder_in(tmp_path), recipe=recipe)


@pytest.mark.filterwarnings("ignore:Small groups")
def test_base_is_the_biased_model(result, folder):
    guard = ShortcutGuardrail.from_pretrained(folder / "biased-model", max_length=64, precision="auto")
    for file, scores in (("test", result.evaluations), ("in-distribution", result.in_distribution)):
        rows = read_data(folder / f"{file}.csv", require_labels=True)
        again = guard.evaluate(rows.texts, rows.labels, shortcuts=[SHORTCUT], sensitivity="none")
        assert again.to_dict()["groups"] == scores["original"].to_dict()["groups"]
    assert result.evaluations["repaired"].mstps != result.evaluations["original"].mstps


def test_the_files_hold_what_was_found(result, folder):
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    for model in SYSTEMS:
        assert metrics[model] == json.loads(json.dumps(result.evaluations[model].to_dict()))
        assert metrics["in_distribution"][model].keys() == metrics[model].keys()
    assert metrics["in_distribution"]["original"]["n"] == metrics["sizes"]["in_distribution"] == 20
    assert (metrics["words_found"], metrics["repairs"]["paper"]["calibration"]["n"]) == ([SHORTCUT], 20)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(f'<th scope="col">{name}' in page for name in SYSTEMS)
    assert f"accuracy is {result.in_distribution['original'].accuracy:.3f} (original)" in page
    deployment = read_data(folder / "deployment.csv")
    support = read_data(folder / "support.csv", require_labels=True)
    assert (tuple(deployment.texts), deployment.labels) == (result.corpus.deployment.texts, None)
    assert (len(support), {*support.labels}) == (20, {"negative", "positive"})


def test_the_table_fits_80_columns(result, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    show(result)
    lines = capsys.readouterr().out.splitlines()
    said = [sum(part in line for line in lines) for part in ("worst group", "strength", "always the same label")]
    assert said == [1, 1, 2]
    assert max(map(len, lines)) <= 80
    scores = [line.split()[1:] for line in lines if line.split()[:1] == ["accuracy"]]
    models = (result.evaluations, result.in_distribution)
    assert scores == [[number(of[name].accuracy) for name in SYSTEMS] for of in models]


def test_the_same_seed_gives_the_same_demo_and_leaves_the_random_state_alone(result, tmp_path):
    encoder = encoder_in(tmp_path)
    torch.manual_seed(11)
    expected = torch.rand(1)
    torch.manual_seed(11)
    again = run(encoder)
    assert torch.equal(torch.rand(1), expected)
    assert again.evaluations == result.evaluations
    assert all(again.repairs[name].choice == result.repairs[name].choice for name in again.repairs)
    fewer = {**SMALL, "train": 20, "support": 6, "reversed": 8, "in_distribution": 4}
    other = run(encoder, seed=4, sizes=fewer, epochs=1)
    losses = [demo.repairs["paper"].fitted.training.losses for demo in (result, again, other)]
    assert losses[0] == losses[1] != losses[2]
