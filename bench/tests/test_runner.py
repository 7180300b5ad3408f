"""Runs of an experiment on made-up data with a tiny encoder: what is written, shared, skipped, resumed and refused."""

import functools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from harness_fakes import fake_build
from shortcut_bench import bases, classifiers, references, registry, runner
from shortcut_bench.classifiers import UNFINISHED_FOLDER
from shortcut_bench.experiments import ExperimentConfig, Setting, SystemSpec, read_experiment
from shortcut_bench.finetuning.checkpoints import Checkpoints
from shortcut_bench.methods import training
from shortcut_bench.results import add_to_index, read_index, read_result, result_path, rows_of
from shortcut_bench.runner import run_experiment
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.errors import ConfigError, DataError, ModelError, RunError
from shortcut_guardrail.metrics import worst_group_accuracy

CHANGES = dict.fromkeys(("n_audit", "n_support", "n_held_out"), 8)
CHANGES |= {"n_train": 32, "n_test": 36, "max_tokens": 32, "n_deployment": 16, "epochs": 2}
GUARD = SystemSpec("guardrail", "guardrail", {"min_steps": 0, "max_steps": 3})


def experiment(*systems, **changes):
    """An experiment on the made-up data, with a setting in which the shortcut is inserted."""
    specs = tuple(spec if isinstance(spec, SystemSpec) else SystemSpec(spec, spec) for spec in systems)
    settings = (Setting("planted", "fake", {"strength": 1.0}, family="fake"),)
    return replace(ExperimentConfig("made-up", "Shows.", "nothing", ("reversed",), settings, specs), **changes)


@pytest.fixture
def run(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr(bases, "build", fake_build)

    def call(config, seeds=(0,), **options):
        changes = {**CHANGES, **options.pop("changes", {})}
        given = {"data_dir": None, "out": tmp_path, "scale": "tiny", "seeds": seeds, "encoder": encoder, **options}
        return run_experiment(config, changes=changes, **given)

    return call


def results_of(out, name="made-up"):
    return {(e.system, e.test, e.seed): read_result(out, e.run) for e in read_index(out, name)}


def made_up():
    """The data of the runs with seed 0."""
    return fake_build("fake", data_dir=None, n_train=32, n_test=36, seed=0)


def test_a_result_says_what_was_found_and_how(run, tmp_path):
    run(experiment("erm", GUARD), command="the command")
    found = results_of(tmp_path)
    assert len(found) == 2
    for result in found.values():
        rows, metrics = rows_of(result), result["metrics"]
        assert metrics["n"] == 36 - 8 == len(rows.labels) == sum(group["n"] for group in result["groups"])
        assert metrics["accuracy"] == pytest.approx(rows.right.mean())
        worst = worst_group_accuracy(rows.predictions, rows.labels, rows.groups)
        assert metrics["worst_group_accuracy"] == pytest.approx(worst)
        assert len(rows.sensitivity) == 8 == metrics["n_audited"]
        assert np.allclose(rows.probs.sum(axis=1), 1, atol=1e-3)
        assert (rows.probs.argmax(axis=1) == rows.predictions).all()
        assert (result["config"]["seed"], result["command"]) == (0, "the command")
        assert {"python", "torch", "shortcut-guardrail"} <= result["versions"].keys()
        assert set(result["data"]["fingerprints"]) >= {"train", "reversed"}
        text = json.dumps(result)
        assert not any(row in text for row in made_up().tests["reversed"].texts)
        assert "honestly" in text, "the partner: what the shortcut is may be said"
    erm, guard = found["erm", "reversed", 0], found["guardrail", "reversed", 0]
    assert erm["cost"]["forward_equivalents"] == 0 < guard["cost"]["forward_equivalents"]
    assert erm["metrics"]["mstps"] == erm["metrics"]["mstps_base_tokens"]
    assert {"attribute", "adapt", "calibrate"} <= guard["seconds"]["fit_stages"].keys()
    assert guard["system"]["info"]["labels_spent"] == 8
    assert erm["base"]["forward_equivalents"] == 3 * 32 * 2
    assert rows_of(erm).index.tolist() == rows_of(guard).index.tolist()


def test_support_rows_are_not_scored_and_are_the_same_for_all_systems(run, tmp_path, monkeypatch):
    seen, fit = [], references.Guardrail.fit
    monkeypatch.setattr(references.Guardrail, "fit", lambda *a, **how: seen.append(a[1]) or fit(*a, **how))
    run(experiment(GUARD, replace(GUARD, label="again", options={**GUARD.options, "rank": 2})))
    first, second = (list(given.support.texts) for given in seen)
    assert first == second
    scored = set(rows_of(results_of(tmp_path)["again", "reversed", 0]).index.tolist())
    assert len(scored) == 28
    assert sorted(made_up().tests["reversed"].texts[i] for i in set(range(36)) - scored) == sorted(first)


def test_the_same_seed_gives_the_same_result_and_another_another(run, tmp_path, encoder):
    config = experiment("erm", GUARD)
    run(config, seeds=(0, 1))
    run(config, out=tmp_path / "again")
    first, again = results_of(tmp_path), results_of(tmp_path / "again")
    for key, result in again.items():
        assert (result["rows"], result["metrics"]) == (first[key]["rows"], first[key]["metrics"])
        assert first[key[0], key[1], 1]["rows"] != result["rows"]


def test_finished_runs_are_skipped_and_the_classifier_is_trained_once(run, tmp_path, monkeypatch):
    counting = Mock(wraps=classifiers.finetune_classifier)
    monkeypatch.setattr(classifiers, "finetune_classifier", counting)
    run(experiment("erm", GUARD))
    assert counting.call_count == 1
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/result.json")}
    outcome = run(experiment("erm", GUARD, "oracle", name="another"))
    assert (len(outcome.finished), len(outcome.skipped)) == (1, 2)
    assert counting.call_count == 1, "another experiment takes the classifier too"
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert len(read_index(tmp_path, "another")) == 3
    assert len(run(experiment("erm"), overwrite=True).finished) == 1
    assert counting.call_count == 1


def test_the_learning_rate_is_the_one_with_the_lowest_loss_on_dev(run, tmp_path):
    run(experiment("erm"), changes={"learning_rates": [1e-5, 3e-3]})
    base = results_of(tmp_path)["erm", "reversed", 0]["base"]
    trials = {trial["learning_rate"]: trial["loss"] for trial in base["selection"]}
    assert base["recipe"]["learning_rate"] == min(trials, key=lambda rate: trials[rate])
    assert len(trials) == 2
    assert len(list((tmp_path / ".cache/classifiers").iterdir())) == 1, "the other classifier is not kept"


def test_oracle_and_clean_read_what_they_should(run, tmp_path):
    """The oracle is asked about the texts without the word; its groups are still those of the texts with it."""
    run(experiment("erm", "oracle", "clean"))
    found = results_of(tmp_path)
    erm, oracle = found["erm", "reversed", 0], found["oracle", "reversed", 0]
    assert oracle["groups"] != erm["groups"] or oracle["rows"]["probs"] != erm["rows"]["probs"]
    assert all(oracle["rows"][name] == erm["rows"][name] for name in ("groups", "labels"))
    plain = [made_up().oracle_tests["reversed"].texts[i] for i in rows_of(oracle).index]
    folders = [path.parent for path in (tmp_path / ".cache/classifiers").glob("*/model.safetensors")]
    assert len(folders) == 2, "the base classifier and the one trained without the shortcut"
    answers = [ShortcutGuardrail.from_pretrained(p).predict_proba(plain).argmax(axis=1) for p in folders]
    assert any((rows_of(oracle).predictions == answer).all() for answer in answers)
    assert found["clean", "reversed", 0]["cost"]["forward_equivalents"] == 3 * 32 * 2


def test_what_a_setting_cannot_have_is_left_out_with_the_reason(run):
    sampled = Setting("sampled", "fake", {"inserted": False}, family="fake")
    outcome = run(experiment("erm", "oracle", "clean", settings=(sampled,), tests=("reversed", "test")))
    assert len(outcome.finished) == 1
    reasons = " ".join(outcome.left_out)
    for system in ("oracle", "clean"):
        assert f"sampled, {system}, reversed, seed 0: no shortcut is inserted" in reasons
    assert "sampled, erm, test, seed 0: the data have no test set 'test'" in reasons


def test_a_costly_system_is_fitted_once_for_all_test_sets(run, tmp_path):
    run(experiment("clean"))
    outcome = run(experiment("clean", name="there", tests=("in_distribution",)))
    assert (len(outcome.finished), len(outcome.skipped)) == (0, 1)
    outcome = run(experiment("erm", name="there", tests=("in_distribution",)))
    assert len(outcome.finished) == 1, "the partner: what costs nothing is not made in advance"


def test_a_model_is_scored_once_however_many_systems_it_is(run, tmp_path, monkeypatch):
    def at(strength, label):
        return replace(GUARD, label=label, options={**GUARD.options, "strength": strength})

    score = Mock(wraps=runner.score)
    monkeypatch.setattr(runner, "score", score)
    run(experiment("erm", "oracle", at(0.0, "off"), at(1.0, "full"), at(1.0, "same")))
    # erm and "off" are one model, "full" and "same" another; the oracle is the first one, asked about other texts.
    assert score.call_count == 3
    found = {system: result for (system, _, _), result in results_of(tmp_path).items()}
    assert found["off"]["rows"] == found["erm"]["rows"]
    assert found["full"]["rows"]["probs"] != found["erm"]["rows"]["probs"]
    run(experiment(at(1.0, "full")), out=tmp_path / "alone")
    again = results_of(tmp_path / "alone")["full", "reversed", 0]
    assert (again["rows"], again["metrics"]) == (found["full"]["rows"], found["full"]["metrics"])


def test_folds_have_a_classifier_each(run, tmp_path):
    run(experiment("erm"), changes={"folds": 3})
    entries = read_index(tmp_path, "made-up")
    assert [(entry.fold, entry.folds) for entry in entries] == [(0, 3), (1, 3), (2, 3)]
    assert len({read_result(tmp_path, entry.run)["data"]["fingerprint"] for entry in entries}) == 3


@pytest.mark.parametrize("kind", [RunError, torch.OutOfMemoryError, MemoryError])
def test_a_system_that_fails_does_not_keep_the_others_from_running(run, tmp_path, monkeypatch, kind):
    def broken(self, *_, **__):
        raise kind("It went wrong.")

    monkeypatch.setattr(references.Guardrail, "fit", broken)
    outcome = run(experiment(GUARD, "erm"))
    assert outcome.failed == ["planted, guardrail, reversed, seed 0: It went wrong."]
    assert list(results_of(tmp_path)) == [("erm", "reversed", 0)]


def test_a_support_set_of_one_class_gets_a_row_of_another(run, tmp_path, monkeypatch):
    def lopsided(*args, **options):
        data = fake_build(*args, **options)
        test = data.tests["reversed"]
        keep = np.concatenate([np.flatnonzero(test.labels == 0), np.flatnonzero(test.labels == 1)[:1]])
        return replace(data, tests={"reversed": test.select(keep)})

    monkeypatch.setattr(bases, "build", lopsided)
    outcome = run(experiment(GUARD), seeds=(0, 1, 2), changes={"n_support": 4, "n_held_out": 4})
    assert (len(outcome.finished), outcome.failed) == (3, [])


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"data_dir": Path("nowhere")}, DataError, "--data-dir must be a folder .*'nowhere' is none"),
        ({"systems": ["gardrail"]}, ConfigError, "Did you mean 'guardrail'"),
        ({"settings": ["other"]}, ConfigError, "There is no setting 'other' here"),
        ({"encoder": "."}, ModelError, "holds no .safetensors file"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(run, tmp_path, options, kind, sentence):
    with pytest.raises(kind, match=sentence):
        run(experiment("erm"), **options)
    assert not list(tmp_path.iterdir())


def test_every_option_that_decides_is_in_the_hash(encoder):
    found = classifiers.find_encoder(encoder)

    def hashes(config, **changes):
        given = {"scale": "tiny", "encoder": found, "seeds": (0,), "changes": {**CHANGES, **changes}}
        return [run.hash for run in runner.plan_runs(config, **given)]

    (same,) = hashes(experiment("erm"))
    assert hashes(experiment(SystemSpec("erm", "another label"), name="other")) == [same]
    other = {"epochs": 1, "n_train": 20, "max_tokens": 31, "learning_rates": [2e-4], "precision": "bfloat16"}
    other |= {"n_audit": 7, "n_support": 7, "n_deployment": 15}
    different = [hashes(experiment("erm"), **{name: value})[0] for name, value in other.items()]
    different += hashes(experiment("erm", tests=("in_distribution",)))
    different += hashes(experiment("erm", settings=(Setting("planted", "fake", {"strength": 0.5}),)))
    different += hashes(experiment(GUARD)) + hashes(experiment(replace(GUARD, options={"rank": 2})))
    assert len({same, *different}) == 1 + len(different)


OWN = {"train": "mine.csv", "words": ["honestly"], "how": "insert", "strength": 1.0}


@pytest.fixture
def run_own(run, tmp_path):
    """Runs systems on files of a user's own, in a data folder."""
    rows = fake_build("fake", data_dir=None, n_train=90, strength=0.0).clean_train
    lines = [f"{text} {i},{rows.label_names[rows.labels[i]]}" for i, text in enumerate(rows.texts)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")

    def call(options, *kinds):
        config = experiment(*kinds, settings=(Setting("mine", bases.OWN_FILES, options),))
        return run(config, data_dir=tmp_path / "data", changes={"n_train": None, "n_test": None})

    return call


def test_a_users_own_files_are_a_setting_too(run_own, tmp_path):
    assert len(run_own(OWN, "erm", "oracle", "clean").finished) == 3
    result = results_of(tmp_path)["erm", "reversed", 0]
    assert result["data"]["shortcuts"] == ["honestly"]
    assert str(tmp_path) not in json.dumps(result)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({**OWN, "strength": 2.0}, "strength must lie between 0 and 1, but is 2.0"),
        ({**OWN, "train": "none.csv"}, "none.csv"),
        ({**OWN, "colour": "red"}, "The setting 'mine' has no option colour"),
        ({"train": "mine.csv"}, "The setting 'mine' with data 'own-files' needs words"),
    ],
)
def test_own_files_that_will_not_do_are_refused(run_own, tmp_path, options, sentence):
    with pytest.raises((ConfigError, DataError), match=sentence):
        run_own(options, "erm")
    assert not (tmp_path / "runs").exists()


OPENED = """
shows = "Shows."
paper = "nothing"
tests = ["reversed"]
systems = ["erm"]
[[settings]]
name = "planted"
data = "fake"
options = { strength = 1.0 }
"""


@pytest.fixture
def opened(tmp_path, encoder):
    """The setting of the runs with seed 1, opened from a file."""
    (tmp_path / "mine.toml").write_text(OPENED)

    def call(name="planted", **changes):
        given = {"data_dir": None, "cache": tmp_path / ".cache", "scale": "tiny", "encoder": encoder}
        return bases.open_setting(str(tmp_path / "mine.toml"), name, 1, changes={**CHANGES, **changes}, **given)

    return call


@pytest.mark.parametrize("select", ["each", "seed 0"])
def test_an_opened_setting_has_the_data_and_the_classifier_of_the_runs(run, opened, tmp_path, monkeypatch, select):
    changes = {"learning_rates": [1e-5, 3e-3], "select": select}
    run(experiment("erm"), seeds=(1,), changes=changes)
    monkeypatch.setattr(classifiers, "finetune_classifier", lambda *_, **__: pytest.fail("trained again"))
    result = results_of(tmp_path)["erm", "reversed", 1]
    for name in ("planted", "fake"):
        setting = opened(name, **changes)
        assert setting.data.tests["reversed"].fingerprint() == result["data"]["fingerprints"]["reversed"]
        base = setting.train()
        assert base.to_dict() == result["base"]
        guard = ShortcutGuardrail(base.model, base.tokenizer, max_length=32)
        rows, names = rows_of(result), setting.data.label_names
        texts = [setting.data.tests["reversed"].texts[i] for i in rows.index]
        assert [names.index(name) for name in guard.predict(texts)] == rows.predictions.tolist()


@pytest.mark.parametrize("name", ["bias_fit", "tent"])
def test_an_opened_setting_hands_a_method_what_the_run_does(run, opened, tmp_path, name):
    run(experiment("erm", name), seeds=(1,))
    setting, method = opened(), registry.make_system(name)
    fitted = method.fit(setting.material("reversed").for_needs(method.needs), seed=1)
    rows, unlike = (rows_of(results_of(tmp_path)[kind, "reversed", 1]) for kind in (name, "erm"))
    scored, order = setting.scored("reversed"), np.argsort(rows.index)
    assert scored.labels.tolist() == rows.labels[order].tolist()
    assert len(scored) < len(setting.data.tests["reversed"])
    probs = fitted.predict_proba(scored.texts)
    assert probs == pytest.approx(rows.probs[order], abs=1e-4)
    assert probs != pytest.approx(unlike.probs[order], abs=1e-4)
    for ask in (setting.material, setting.scored):
        with pytest.raises(ConfigError, match=r"'planted' has no test set 'test' \(it has: .*reversed"):
            ask("test")


def test_a_setting_is_found_by_its_name_or_by_data_that_no_other_has():
    config = read_experiment("lambda-sweep")
    assert config.setting(config.settings[1].name) is config.settings[1]
    with pytest.raises(ConfigError, match=f"Several settings here have the data set '{config.settings[0].data}'"):
        config.setting(config.settings[0].data)
    assert read_experiment("shifted").setting("goemo-syn").name == "GoEmo-Syn"


@pytest.mark.parametrize("written", [False, True])
def test_a_run_that_was_cut_short_loses_nothing_that_was_finished(run, tmp_path, monkeypatch, written):
    """It ends before or after the fifth result is written, whose place in the list is then missing."""
    config, write, results = experiment("erm", "oracle", GUARD), runner.write_result, []

    def write_until_killed(out, name, result):
        results.append(name)
        if written or len(results) < 5:
            write(out, name, result)
        if len(results) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(runner, "write_result", write_until_killed)
    with pytest.raises(KeyboardInterrupt):
        run(config, seeds=(0, 1))
    monkeypatch.setattr(runner, "write_result", write)
    finished = {path: path.read_bytes() for path in tmp_path.glob("runs/*/result.json")}
    assert len(finished) == 4 + written
    outcome = run(config, seeds=(0, 1))
    assert (len(outcome.skipped), len(outcome.finished), outcome.failed) == (len(finished), 6 - len(finished), [])
    assert all(path.read_bytes() == content for path, content in finished.items()), "nothing finished was touched"
    systems = ("erm", "oracle", "guardrail")
    assert set(results_of(tmp_path)) == {(system, "reversed", seed) for system in systems for seed in (0, 1)}


@pytest.mark.filterwarnings("ignore:Group DRO cannot do anything")
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_training_that_was_cut_short_goes_on_from_its_checkpoint(run, tmp_path, monkeypatch, overwrite):
    spec = SystemSpec("group_dro", "group_dro", {"recipe": {"epochs": 4, "batch_size": 8}, "select": "last"})
    run(experiment(spec), out=tmp_path / "whole")
    for module in (classifiers, training):
        monkeypatch.setattr(module, "Checkpoints", functools.partial(Checkpoints, every=0))
    cache = tmp_path / "cache"

    def steps(stop_at=-1, **options):
        seen = []

        def progress(stage, done, total):
            if stage == "fine-tune":
                seen.append((done, total))
                if len(seen) == stop_at:
                    raise KeyboardInterrupt

        try:
            run(experiment(spec), progress=progress, cache=cache, **options)
        except KeyboardInterrupt:
            assert any((cache / UNFINISHED_FOLDER).rglob("checkpoint-*"))
        return seen

    assert steps(stop_at=4)[-1] == (3, 4)  # of the base classifier: two epochs of two steps
    seen = steps(stop_at=3 + 14)
    assert seen[0] == (2, 4)
    assert seen[-1] == (13, 16)  # of the method
    seen = steps(overwrite=overwrite)
    assert seen[0] == ((0, 16) if overwrite else (12, 16))
    assert seen[-1] == (16, 16)
    assert not any((cache / UNFINISHED_FOLDER).rglob("*.*"))
    resumed, whole = results_of(tmp_path), results_of(tmp_path / "whole")
    assert resumed["group_dro", "reversed", 0]["rows"] == whole["group_dro", "reversed", 0]["rows"]


def test_several_processes_may_list_their_runs_at_once_and_a_damaged_list_is_refused(run, tmp_path):
    run(experiment("erm"))
    (entry,) = read_index(tmp_path, "made-up")
    entries = [entry, *(replace(entry, seed=seed, run=f"{seed:016x}") for seed in range(1, 25))]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: add_to_index(tmp_path, "made-up", [one], command="again"), entries))
    assert sorted(one.seed for one in read_index(tmp_path, "made-up")) == list(range(25))
    result_path(tmp_path, entry.run).write_text("{")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        read_result(tmp_path, entry.run)
    (tmp_path / "made-up/runs.json").write_text("[]")
    with pytest.raises(DataError, match="is no list of runs"):
        read_index(tmp_path, "made-up")
