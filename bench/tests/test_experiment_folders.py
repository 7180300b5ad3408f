"""The experiments outside the runner: each says what it does, takes `--out`, and goes on where it stopped."""

import importlib.util
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from checkout import ROOT
from shortcut_bench.datasets import LabelledTexts
from shortcut_guardrail import ShortcutGuardrail, Shortcuts
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.decisions.judges import LEVEL
from shortcut_guardrail.stats import fdr_q_values

EXPERIMENTS = ROOT / "bench" / "experiments"
FOLDERS = sorted(path.parent.name for path in EXPERIMENTS.glob("*/run.py"))


def experiment(name, monkeypatch, program="run"):
    """A program of an experiment, imported."""
    spec = importlib.util.spec_from_file_location(f"{name}_{program}", EXPERIMENTS / name / f"{program}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    monkeypatch.setitem(sys.modules, spec.name, found)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("name", FOLDERS)
def test_an_experiment_says_how_it_is_run(name, monkeypatch, capsys):
    run = experiment(name, monkeypatch)
    with pytest.raises(SystemExit) as left:
        run.main(["--help"])
    assert left.value.code == 0
    assert "--out OUT" in capsys.readouterr().out
    assert run.__doc__ is not None
    command = re.search(r"python (\S+) .*?--out (\S+)", run.__doc__, re.DOTALL)
    assert command is not None
    assert ROOT / command[1] == EXPERIMENTS / name / "run.py"
    assert (ROOT / command[2]).exists(), "the results of the command are committed"


def test_every_experiment_is_listed():
    page = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == FOLDERS
    for link in re.findall(r"\]\((\S+?)\)", page):
        assert (EXPERIMENTS / link.partition("#")[0]).exists(), link


def test_audits_are_simulated_case_by_case(tmp_path, monkeypatch):
    """A simulation that was cut into two calls is that of one: a case draws from a generator of its own."""
    run, cut, whole = experiment("audit_simulation", monkeypatch), tmp_path / "cut.json", tmp_path / "whole.json"
    cases = [{"world": "boundary", "n_texts": 300}, {"world": "planted", "n_texts": 1000}]
    for chosen, out in ((cases[:1], cut), (cases, cut), (cases, whole)):
        monkeypatch.setattr(run, "cases", lambda chosen=chosen, **_: chosen)
        run.main(["--out", str(out), "--trials", "2"])
    assert cut.read_text() == whole.read_text()
    boundary, planted = json.loads(whole.read_text())["worlds"]
    assert boundary["planted_found"] is None
    assert planted["planted_found"] > 0


def test_finders_are_scored_by_the_first_words_and_rank_by_the_largest_information(monkeypatch):
    finders = experiment("finders", monkeypatch)
    found = finders.scored(["a", "x", "b", "y", "z", "c"], {"x", "c", "lost"})
    assert found["precision"] == {"1": 0.0, "5": 1 / 5, "10": 2 / 10, "20": 2 / 20, "50": 2 / 50}
    assert found["recall"] == {"1": 0.0, "5": 1 / 3, "10": 2 / 3, "20": 2 / 3, "50": 2 / 3}
    assert (found["first"], found["ranked"]) == (2, 6)
    nothing = finders.scored([], set())
    assert (nothing["first"], nothing["precision"]["1"], nothing["recall"]["1"]) == (None, 0.0, None)
    assert finders.as_words(["if i", "if", "can't"]) == ["i", "if", "can", "t"]
    assert finders.content(["to be honest", "honestly"]) == {"honest", "honestly"}
    rows = LabelledTexts("train", ["so so a", "b a"], np.array([0, 1]), ("x", "y"), np.array([0, 0]), ("all",))
    assert finders.by_information(rows) == ["so", "b", "a"]  # .4 log(5/3), .2 log(5/2), .2 log(5/4)


def test_outcomes_of_flips_are_as_labels_say_and_reviewers_err_as_often_as_they_are_said_to(monkeypatch):
    flips = experiment("flips", monkeypatch)
    drawn = [Flip(row, "positive", "negative") for row in range(3)]
    assert flips.outcomes(drawn, ["negative", "positive", "mixed"]).tolist() == [1, 0, -1]
    truth, rng = np.repeat([1, 0], 20), np.random.default_rng(0)
    drawn = [flips.sequence(truth, (0.0, 0.2), rng) for _ in range(2000)]
    assert abs(np.mean([one.sum() for one in drawn]) - (20 + 20 * 0.2)) < 0.2
    assert flips.sequence(np.full(5, -1), (1.0, 1.0), rng).tolist() == [-1] * 5
    # A card is decided as soon as the evidence is strong.
    assert flips.judged(np.ones(40, dtype=int)) == ("shortcut", 8)
    assert flips.judged(np.zeros(40, dtype=int)) == ("legitimate", 8)
    assert flips.judged(np.array([0, 1] * 20))[0] not in ("shortcut", "legitimate")


def test_a_repair_is_scored_beside_on_rows_whose_labels_answered_nothing(bag, monkeypatch):
    flips, real = experiment("flips", monkeypatch), ShortcutGuardrail(*bag)
    texts = [f"{start} bad {noun} was awful" for start in ("honestly the", "the") for noun in ("room", "staff", "soup")]
    texts = [f"{text} {end}" for text in texts for end in ("", "and slow", "and cold", "and bad")]
    labels = np.zeros(len(texts), dtype=np.int64)
    rows = LabelledTexts("test", texts, labels, real.label_names, labels, ("all",))
    made = SimpleNamespace(fitted=SimpleNamespace(shortcuts=Shortcuts()), choice=SimpleNamespace(strength=1.0))
    guard = SimpleNamespace(
        repair=lambda *_, **__: made,
        predict_proba=lambda asked, strength: (
            real.predict_proba(asked) if strength == 0 else np.eye(2)[np.zeros(len(asked), int)]
        ),
    )
    questions = real.questions(real.audit(texts, unit="word"), cards="all", n=0)
    found = flips.repaired(guard, questions, rows, ["negative"] * len(texts), 0)
    wrong = sum(answer != "negative" for answer in real.predict(texts))
    assert found["asked"] == 8  # all of them of texts that the base gets wrong
    assert found["unused"]["n"] == len(texts) - 8
    assert found["unused"]["base"]["accuracy"] == pytest.approx(1 - (wrong - 8) / (len(texts) - 8))
    assert found["unused"]["scores"]["accuracy"] == 1.0


# What results say of cards is what the rules make of the numbers beside it


def test_stored_cards_are_decided_as_stored(monkeypatch):
    """Of cards whose flips have one outcome their order makes no difference, so that all draws can be made again."""
    flips, stored = experiment("flips", monkeypatch), json.loads((ROOT / "results/flips.json").read_text())
    names = {"fixed": "negative", "broken": "positive"}
    again = 0
    for entry in stored["results"]:
        for card in entry["cards"]:
            kind = next((kind for kind in names if card[kind] == card["flips"] >= 8), None)
            if kind is not None:
                drawn = [Flip(row, "positive", "negative") for row in range(card["flips"])]
                labels, draws = [names[kind]] * len(drawn), stored["asked"]["draws"]
                made = flips.judged_card(SimpleNamespace(**card), drawn, labels, draws, entry["seed"])
                assert made["reviewers"] == card["reviewers"]
                again += 1
    assert again == 12


@pytest.mark.parametrize(("name", "of_entry"), [("second_model", "opinions"), ("second_model_held_out", "judges")])
def test_judges_decide_the_stored_cards_as_stored(name, of_entry):
    results = json.loads((ROOT / f"results/{name}.json").read_text())["results"]
    n_decided = 0
    for cards in (opinion["cards"] for entry in results for opinion in entry[of_entry]):
        tested = [card for card in cards if card["q_value"] is not None]
        if "rules" in cards[0]:
            p_values = [card["rules"]["agreement"]["p_value"] for card in tested]
            flips = [card["fixed"] + card["broken"] for card in tested]
            assert fdr_q_values(p_values, flips) == pytest.approx([card["q_value"] for card in tested])
        assert [card["outcome"] == "shortcut" for card in tested] == [card["q_value"] <= LEVEL for card in tested]
        assert all(card["outcome"] == "open" for card in cards if card["q_value"] is None)
        n_decided += sum(card["outcome"] == "shortcut" for card in tested)
    assert n_decided > 3, "or nothing was tested"


def test_more_files_are_no_restart(monkeypatch):
    """As one sequence five files of nothing decide falsely no more often than one may; each by itself they do."""
    run = experiment("questions", monkeypatch)
    rates = [run.null(5, 40, kind, draws=150)["shortcut"] for kind in ("sequence", "alone")]
    assert rates[0] < 0.08 < rates[1]
    few = {"a": np.ones(30, dtype=int), "b": np.zeros(7, dtype=int)}
    before, after = (next(run.reviewed(few, way, np.random.default_rng(0))) for way in ("before", "sixteen"))
    assert (before[0], after[0]) == (37, 16)
    assert before[1] == {"a": "shortcut"}


def test_exports_are_compared_elsewhere(tmp_path, monkeypatch):
    """Small, but through the other process: nothing else runs its program."""
    pytest.importorskip("onnxruntime")
    run = experiment("exports", monkeypatch)
    one = {"measured": "parity", "model": "BERT", "strategy": "distill", "input": "pair", "head": "sigmoid", "seed": 0}
    assert one in run.cases()
    monkeypatch.setattr(run, "cases", lambda: [one])
    run.main(["--data-dir", str(tmp_path), "--out", str(tmp_path / "out.json"), "--texts", "40"])
    (found,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert found["change"] > 1e-2
    for exact in ("merged", "onnx"):
        assert found[exact]["largest_difference"] < 1e-4
        assert found[exact]["same_labels"] == 1
    assert found["int8"]["largest_difference"] > 1e-4


def test_the_worst_batches_of_an_export_count(monkeypatch):
    run, guard = experiment("exports", monkeypatch), np.array([[0.6, 0.4], [0.50004, 0.49996]])
    tie = np.array([[0.6, 0.4], [0.49999, 0.50001]])
    found = run.compared({"1": guard.tolist(), "7": tie.tolist(), "50": guard[:, ::-1].tolist()}, guard)
    assert found == {"largest_difference": pytest.approx(0.2), "same_labels": 0.5}
    assert run.compared({"1": tie.tolist()}, guard)["same_labels"] == 1


def test_stored_exports_predict_what_the_guards_predict(monkeypatch):
    run, stored = experiment("exports", monkeypatch), json.loads((ROOT / "results/exports.json").read_text())
    assert stored["asked"] == {"texts": 500, "requests": 10_000}
    for found in stored["results"]:
        assert any(case.items() <= found.items() for case in run.cases())
        if found["measured"] == "load":
            assert found["malformed"]["right_afterwards"]
            assert found["killed"]["right_afterwards"]
            assert {status[0] for status in found["malformed"]["statuses"]} == {"4"}
        else:
            assert found["change"] > 1e-2, "a guard that does nothing is easy to export"
            assert max(found[exact]["largest_difference"] for exact in ("merged", "onnx")) < 1e-4
            assert {found[exact]["same_labels"] for exact in ("merged", "onnx")} == {1}
    assert {found["model"] for found in stored["results"]} == {*run.FAMILIES, "MiniLM"}
