"""Options: the same name, help and default everywhere, few enough to read, and handed on to what a command calls."""

import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from audits import to_review
from shortcut_guardrail import AuditConfig, CertifyConfig, ConfigError, Decisions, ShortcutGuardrail
from shortcut_guardrail.cli.main import app
from shortcut_guardrail.data import MemoryTexts

COMMANDS = {name: command for name, command in typer.main.get_command(app).commands.items() if name != "benchmark"}

OF_ITS_OWN = {"--out", "--strength", "--label-column", "--reviewer", "--word-groups", "--dry-run", "--n"}
"""Options that say what this one command makes, reads or asks."""


def options_of(command) -> dict[str, object]:
    return {p.opts[0]: p for p in command.params if p.param_type_name == "option"}


def test_an_option_is_the_same_everywhere():
    seen: dict[str, tuple[object, ...]] = {}
    for command in COMMANDS.values():
        for name, option in options_of(command).items():
            if name not in OF_ITS_OWN:
                found = (option.help, option.default, option.metavar, option.multiple)
                assert seen.setdefault(name, found) == found, name
    assert len(seen) > 30
    for name in COMMANDS.keys() - {"review"}:  # a conversation; what it gives is a file of decisions
        assert {"--json", "--quiet", "--overwrite", "--debug"} <= options_of(COMMANDS[name]).keys()
    of_fit = [option for option in options_of(COMMANDS["fit"]).values() if option.rich_help_panel is None]
    assert 8 < len(of_fit) <= 12


def shown(*arguments: str) -> str:
    program = [sys.executable, "-m", "shortcut_guardrail.cli.main", *arguments]
    narrow = {**os.environ, "COLUMNS": "80", "TERMINAL_WIDTH": ""}
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=narrow)
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


def test_help_has_groups_of_commands_and_that_of_fit_two_examples_and_panels():
    lines = shown("fit", "--help").splitlines()
    head = "\n".join(lines[: next(i for i, line in enumerate(lines) if "Arguments" in line)])
    assert head.count("shortcut-guardrail fit MODEL") == 3
    assert head.index("shortcut-guardrail fit MODEL") < head.index("DATA needs no labels")
    assert re.findall(r"─ ([A-Z][a-z ]+) ─", "\n".join(lines)) == ["Arguments", "Options"]
    assert "Privacy: --no-text-hashes" in map(str.strip, lines)
    everything = shown("fit", "--help-all")
    rare = re.findall(r"─ ([A-Z][a-z ]+) ─", everything)[2:]
    assert rare[:4] == ["Audit", "Second model", "Any classifier", "Settings"]
    assert rare[4:] == ["Privacy", "Columns", "Model and machine", "Output"]
    assert "<bool>" not in everything
    assert "18446744073709551615" not in everything
    text = shown("--help")
    named = ("─ Find", " audit", "─ Repair", " fit", "─ Prove", " certify", "─ Research")
    places = [text.index(word) for word in named]
    assert places == sorted(places)
    assert "--install-completion" in text


class Noting:
    """Stands in for a guard, and notes how it is called."""

    label, is_fitted, debias_strength, label_names = None, False, 1.0, ("negative", "positive")
    capabilities = frozenset(["adapts", "gradients", "masks", "embeddings"])

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, object]] = {}

    def label_ids(self, labels, **_):
        return [self.label_names.index(label) for label in labels]

    def __getattr__(self, name):
        def note(*arguments, **named):
            bound = inspect.signature(getattr(ShortcutGuardrail, name)).bind(self, *arguments, **named)
            self.calls[name] = dict(bound.arguments)
            raise ConfigError("noted")

        return note


AUDITED = AuditConfig("word", 3, 0.2, budget=7, compare_with="rests", erasure="cut")
IN_MEMORY = MemoryTexts(["good soup", "bad"], ["positive", "negative"], name="data.csv")
LABELLED, KEPT = {"labels": [1, 0]}, {"kept": Path("guard/answers.npz")}
QUESTIONS = {"cards": "all", "n": 7, "n_total": 20, "seed": 5, "shortcuts": ["a"]}
REPAIR = {"strategy": "distill", "strength": 0.5, "shortcuts": ["a"], "keep": ["b"], "not_alone": ["c"], "seed": 5}
SETTINGS = {"adapter": {"rank": 2}, "shortcuts": {"take_influential": True}, "per_input": True}
EXPORTED = {"format": "onnx", "int8": True, "strength": 0.5, "overwrite": True, "texts": ["good soup", "bad"]}
# A command line: the method that it calls, and with what.
HANDED_ON = {
    "audit model data.csv --out a --unit word --top-k 3 --fdr .2 --budget 7 --compare-with rests --erasure cut --yes "
    "--label-column label": ("audit", {"config": AUDITED} | LABELLED),
    "audit model data.csv --out a --shard-size 20 --resume --label-column label": (
        *("audit_in_shards", {"source": IN_MEMORY, "config": AuditConfig(shard_size=20), "resume": True}),
    ),
    "certify guard data.csv --labelled data.csv --margin .1 --confidence .9 --harm harmed --looks 3": (
        *("certify", {"config": CertifyConfig(0.1, 0.9, "harmed", 3)} | LABELLED | KEPT),
    ),
    "to-label guard data.csv --out x.csv --n 7 --seed 5": ("to_label", {"n": 7, "seed": 5} | KEPT),
    "evaluate model pairs.csv --shortcut a --shortcut b --shortcut-in pair --top-k 3 --sensitivity 9 --seed 5": (
        *("evaluate", {"shortcuts": ["a", "b"], "shortcut_in": "pair", "top_k": 3, "sensitivity": 9, "seed": 5}),
    ),
    "questions audit model data.csv --out q.csv --word-groups all --n 7 --n-total 20 --seed 5 --decisions d.json "
    "--shortcut a --label-column label": (
        *("questions", QUESTIONS | LABELLED | {"decisions": Path("d.json"), "audit": Path("audit")}),
    ),
    "export guard data.csv --out m --format onnx --int8 --strength .5 --overwrite": ("export", EXPORTED),
    "fit model data.csv --out f --strategy distill --strength .5 --shortcut a --keep b --not-alone c --per-input "
    "--support data.csv --decisions d.json --audit audit --seed 5 --set adapter.rank=2 --take-influential": (
        "repair",
        REPAIR
        | {"support": (["good soup", "bad"], [1, 0]), "report": "an audit", "decisions": Decisions(())}
        | {"config": SETTINGS},
    ),
}


@pytest.mark.parametrize("line", HANDED_ON)
def test_what_an_option_says_reaches_the_call(refused, write_csv, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    write_csv("data.csv", ("good soup", "positive"), ("bad", "negative"))
    write_csv("pairs.csv", ("a", "b", "positive"), ("c", "d", "negative"), header=("premise", "hypothesis", "label"))
    for name, content in (("guard/guardrail.json", "{}"), ("d.json", '{"cards": []}')):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    guard, (method, said) = Noting(), HANDED_ON[line]
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_, **__: guard)
    monkeypatch.setattr("shortcut_guardrail.cli.fit._given", lambda *_: "an audit")
    assert (refused(*line.split()), {name: guard.calls[method].get(name) for name in said}) == ("noted", said)


@pytest.mark.parametrize(
    ("line", "function", "said"),
    [
        ("history a b --shortcut x --false-alarms .2", "history.read_history", {"words": ["x"], "false_alarms": 0.2}),
        ("demo --out d --seed 5 --device cpu", "demo.run_demo", {"seed": 5, "device": "cpu"}),
        (
            "review audit --reviewer anna --port 9000 --idle 3 --seed 5 --no-browser --out d.json",
            "review.review_in_browser",
            {"by": "anna", "port": 9000, "minutes": 3, "seed": 5, "browser": False, "out": Path("d.json")},
        ),
    ],
)
def test_what_an_option_says_reaches_the_function(refused, tmp_path, monkeypatch, line, function, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.json").write_text(json.dumps(to_review(2).to_dict()))
    called, calls = inspect.signature(pkgutil.resolve_name(f"shortcut_guardrail.{function}")), []

    def note(*arguments, **named):
        calls.append(called.bind(*arguments, **named).arguments)
        raise ConfigError("noted")

    monkeypatch.setattr(f"shortcut_guardrail.{function}", note)
    assert (refused(*line.split()), {name: calls[0].get(name) for name in said}) == ("noted", said)


READING = "--head sigmoid --label l --thresholds l=.3 --max-length 9 --windows max --overlap 5 --label-names 0=a"
HOW = "--revision r --device cpu --batch-size 3 --precision bfloat16 --allow-pickle --trust-remote-code --base b "
HOW += "--segmenter jieba --kept-answers kept"


def test_how_a_model_is_loaded_is_as_the_options_say(refused, write_csv, tmp_path, monkeypatch):
    calls: list[dict[str, object]] = []

    def note(*arguments, **named):
        calls.append({"source": arguments[0], "names": arguments[1:]} | named)
        raise ConfigError("noted")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "guardrail.json").write_text("{}")
    write_csv("data.csv", ("good soup", "positive"), ("bad", "negative"))
    for name in ("from_pretrained", "around"):
        monkeypatch.setattr(ShortcutGuardrail, name, note)
    predict = ("predict", "model", "data.csv", "--out", "x.csv")
    certify = ("certify", "guard", "data.csv", *HOW.split())
    around = ("predict", "a:b", "data.csv", "--out", "x.csv", "--labels", "x, y", *HOW.split()[-4:])
    for line in (predict, (*predict, *f"{READING} {HOW} --verify".split()), certify, around):
        assert refused(*line) == "noted"
    reading = {"head": "sigmoid", "label": "l", "thresholds": "l=.3", "max_length": 9, "windows": "max", "overlap": 5}
    how = {"revision": "r", "device": "cpu", "batch_size": 3, "precision": "bfloat16", "allow_pickle": True}
    how |= {"trust_remote_code": True, "base": "b", "segmenter": "jieba", "cache": Path("kept"), "names": ()}
    plain = dict.fromkeys(reading | how) | {"overlap": 64, "batch_size": 32, "precision": "float32", "names": ()}
    plain |= dict.fromkeys(("allow_pickle", "trust_remote_code", "verify"), False)
    assert calls == [
        {"source": "model", "label_names": None, **plain},
        {"source": "model", "label_names": "0=a", **reading, **how, "verify": True},
        {"source": "guard", "label_names": None, **how, "verify": True},  # what is certified is what was saved
        {"source": "a:b", "names": (["x", "y"],), "segmenter": "jieba", "cache": Path("kept")},
    ]
