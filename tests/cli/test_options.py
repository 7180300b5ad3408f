"""Options: the same name, help and default everywhere, few enough to read, and the old names for one version."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import typer.main

from shortcut_guardrail.cli.main import app
from shortcut_guardrail.cli.renamed import FLAGS, GONE, RENAMED, current_names
from shortcut_guardrail.errors import ConfigError, GuardrailWarning

COMMANDS = {name: command for name, command in typer.main.get_command(app).commands.items() if name != "benchmark"}

OF_ITS_OWN = {
    "--out",  # a folder, a table or a page, by what the command makes
    "--label-column",  # of `audit` and `flips`, which read labels only where they are asked for
    "--reviewer",  # one in `review`, one or one for each file in `judge`
    "--cards",  # `review` shows flagged ones too
    "--dry-run",  # says what this command would do
    "--n",  # texts in all, or for each card
}


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


def test_every_command_can_speak_to_programs_and_be_quiet():
    assert COMMANDS
    for name, command in COMMANDS.items():
        if name != "review":  # a conversation; what it gives is a file of decisions
            assert {"--json", "--quiet", "--overwrite", "--debug"} <= options_of(command).keys()


def test_fit_shows_at_most_twenty_options_outside_its_panels():
    shown = [option for option in options_of(COMMANDS["fit"]).values() if option.rich_help_panel is None]
    assert 10 < len(shown) + 1 <= 20  # and --help


def shown(*arguments: str) -> str:
    program = [sys.executable, "-m", "shortcut_guardrail.cli.main", *arguments, "--help"]
    done = subprocess.run(
        program, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "80", "TERMINAL_WIDTH": ""}
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


def test_help_of_fit_opens_with_two_examples_and_has_panels():
    lines = shown("fit").splitlines()
    head = "\n".join(lines[: next(i for i, line in enumerate(lines) if "Arguments" in line)])
    assert head.count("shortcut-guardrail fit MODEL") == 2
    assert head.index("shortcut-guardrail fit MODEL") < head.index("DATA needs no labels")
    panels = re.findall(r"─ ([A-Z][a-z ]+) ─", "\n".join(lines))
    assert panels == ["Arguments", "Options", "Second opinion", "Privacy", "Columns", "Model and machine"]


def test_the_commands_stand_in_groups():
    text = shown()
    places = [
        text.index(word) for word in ("─ Find", " audit", "─ Repair", " fit", "─ Prove", " certify", "─ Research")
    ]
    assert places == sorted(places)
    assert "--install-completion" in text


# Names of the version before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fit M D --preset paper", "fit M D --strategy paper"),
        ("fit M D --preset default", "fit M D --strategy maskcl"),
        ("fit M D --preset=paper-flat", "fit M D --strategy paper --set adapter.pairing=flat"),
        ("fit M D --auto-strength --out x", "fit M D --strength auto --out x"),
        ("fit M D --rank 8 --epochs 2", "fit M D --set adapter.rank=8 --set adapter.epochs=2"),
        ("fit M D --train-batch-size=4", "fit M D --set adapter.batch_size=4"),
        ("fit M D --learning-rate 1e-3", "fit M D --set adapter.learning_rate=1e-3"),
        ("fit M D --top-k 3", "fit M D --set saliency.top_k=3 --set shortcuts.top_k=3"),
        ("fit M D --temperature 2", "fit M D --set adapter.temperature=2"),
        ("fit M D --strategy distill --temperature 2", "fit M D --strategy distill --set distill.temperature=2"),
        ("audit M D --alpha 0.1", "audit M D --fdr 0.1"),
        ("certify G D --report p.html", "certify G D --html p.html"),
    ],
)
def test_old_names_are_rewritten_with_a_warning_that_names_the_new(old, new):
    with pytest.warns(GuardrailWarning, match="is now --"):
        assert current_names(old.split()) == new.split()


@pytest.mark.parametrize("line", ["audit M D --top-k 3 --fdr 0.1", "fit M D --out x -- --rank", "--help", ""])
def test_names_of_today_stay(line, recwarn):
    assert current_names(line.split()) == line.split()
    assert not recwarn.list


@pytest.mark.parametrize("option", GONE["fit"])
def test_what_is_gone_names_the_command_that_has_it(option):
    with pytest.raises(ConfigError, match=f"`fit {option}` is gone"):
        current_names(["fit", "M", "D", option, "1"])


def test_old_names_are_no_options_of_today():
    for table in (RENAMED, FLAGS, GONE):
        for name, old in table.items():
            assert not old.keys() & options_of(COMMANDS[name]).keys()


def test_an_old_command_line_still_runs(cli, model_folder, write_csv, tmp_path):
    data = write_csv(
        "data.csv", *[(f"{word} soup", "negative") for word in ("good", "bad", "honestly good", "honestly bad")]
    )
    options = ("--preset", "paper", "--rank", 2, "--epochs", 1, "--strength", 0.5, "--out", tmp_path / "out")
    status, _, err = cli("fit", model_folder, data, "--text-column", "text", *options)
    assert status == 0, err
    assert "warning: `fit --rank` is now --set adapter.rank=2" in err
    config = json.loads((tmp_path / "out" / "guardrail.json").read_text())["config"]
    assert (config["preset"], config["adapter"]["rank"]) == ("paper", 2)
