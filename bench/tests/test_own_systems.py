"""Systems of other distributions: found by name, imported when made, run like the benchmark's own (the example)."""

import sys
import tomllib
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from checkout import ROOT
from harness_fakes import fake_build
from shortcut_bench import bases, own_systems
from shortcut_bench.experiments import ExperimentConfig, Setting, SystemSpec
from shortcut_bench.own_systems import GROUP
from shortcut_bench.references import Erm
from shortcut_bench.registry import built_in_systems, make_system, system_factories
from shortcut_bench.results import read_index, read_result, rows_of
from shortcut_bench.runner import run_experiment
from shortcut_bench.systems import Material
from shortcut_guardrail import ConfigError

EXAMPLE = ROOT / "examples" / "own_system"
SIZES = {"n_train": 32, "n_test": 36, "n_audit": 8, "max_tokens": 32, "epochs": 1, "n_support": 9, "n_held_out": 9}


@pytest.fixture
def install(monkeypatch):
    """Makes entry points known, as installing their distributions would."""

    def call(*named):
        found = [EntryPoint(name, value, GROUP) for name, value in named]
        monkeypatch.setattr(own_systems, "entry_points", lambda group: found if group == GROUP else [])

    return call


@pytest.fixture
def example(install, monkeypatch):
    """The example, as its pyproject.toml registers it."""
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.delitem(sys.modules, "own_system", raising=False)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((name, value),) = project["entry-points"][GROUP].items()
    install((name, value))
    return str(name)


def test_the_example_runs_beside_the_benchmarks_systems(example, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(bases, "build", fake_build)
    settings = (Setting("planted", "fake", {"strength": 1.0}, family="fake"),)
    systems = (SystemSpec("erm", "erm"), SystemSpec(example, "most frequent", {"smoothing": 0.5}))
    experiment = ExperimentConfig("made-up", "Shows.", "nothing", ("reversed",), settings, systems)
    given = {"data_dir": None, "out": tmp_path, "scale": "tiny", "seeds": (0,), "encoder": encoder}
    outcome = run_experiment(experiment, changes=SIZES, **given)
    assert (len(outcome.finished), outcome.failed) == (2, [])
    assert len(run_experiment(experiment, changes=SIZES, **given).skipped) == 2
    results = {entry.system: read_result(tmp_path, entry.run) for entry in read_index(tmp_path, "made-up")}
    found = results["most frequent"]
    assert found["config"]["system"] == {"kind": example, "smoothing": 0.5}
    assert found["system"]["needs"] == ["support"]
    assert found["system"]["info"]["labels_spent"] == 9
    assert len(set(rows_of(found).predictions.tolist())) == 1
    assert found["metrics"]["mstps_base_tokens"] == 0
    assert len(rows_of(results["erm"]).predictions) == len(rows_of(found).predictions)


def test_the_example_is_a_system(example, tmp_path):
    system = make_system(example)
    assert system.name == example
    test = fake_build("fake", data_dir=None, n_test=24).tests["reversed"]
    support = test.select(np.flatnonzero(test.labels == 1)[:6])
    handed = {"base": None, "encoder": "unused", "label_names": test.label_names}
    material = Material(**handed, support=support)
    fitted = system.fit(material, seed=0)
    assert fitted.predict_proba(["a", "b"]).tolist() == [[0.125, 0.875]] * 2
    fitted.save(tmp_path / "fitted")
    assert (tmp_path / "fitted" / "majority.json").is_file()


def test_a_system_is_imported_when_it_is_made(example):
    assert {*built_in_systems(), example} == set(system_factories())
    assert "own_system" not in sys.modules
    make_system(example)
    assert "own_system" in sys.modules
    with pytest.raises(ConfigError, match=r"The system 'majority' cannot be made with \{'colour': 'red'\}"):
        make_system(example, colour="red")
    with pytest.raises(ConfigError, match=r"There is no system 'majorty' .*Did you mean 'majority'\?"):
        make_system("majorty")


def test_two_systems_of_one_name_are_refused(install):
    install(("jtt", "theirs:JTT"))
    with pytest.raises(ConfigError, match=r"has a system 'jtt' of its own, and \(theirs:JTT\) brings another"):
        system_factories()
    install(("new", "theirs:New"), ("new", "others:New"))
    with pytest.raises(ConfigError, match=r"Two installed systems are named 'new': \(others:New\) and \(theirs:New\)"):
        make_system("erm")
    install(("new", "theirs:New"), ("newer", "theirs:New"))
    assert make_system("erm") == Erm()


def test_what_is_no_system_is_refused_with_a_sentence(install):
    for value, message in (
        ("no_such_module:New", r"cannot be loaded: No module named 'no_such_module'\."),
        ("json:New", "cannot be loaded: module 'json' has no attribute 'New'"),
        ("string:digits", "must be a class or a function that makes a system, but is a str"),
        ("builtins:dict", "makes a dict, which is no system. It lacks a method config, a method fit, a name"),
        ("types:SimpleNamespace", "It lacks .* needs, which are a frozenset of shortcut_bench.systems.Need"),
    ):
        install(("new", value))
        with pytest.raises(ConfigError, match=f"The system 'new' of \\({value}\\) .*{message}"):
            make_system("new")
