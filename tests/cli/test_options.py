"""Options: the same name, help and default everywhere, and few enough to read."""

import os
import re
import subprocess
import sys

import typer.main

from shortcut_guardrail.cli.main import app

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
    panels = re.findall(r"─ ([A-Z][a-z ]+) ─", "\n".join(lines))
    assert panels == ["Arguments", "Options"]
    assert "Privacy: --no-text-hashes" in map(str.strip, lines)
    everything = shown("fit", "--help-all")
    rare = re.findall(r"─ ([A-Z][a-z ]+) ─", everything)[2:]
    assert rare == [
        "Audit and decisions",
        "Second model",
        "Any classifier",
        "Settings",
        "Privacy",
        "Columns",
        "Model and machine",
        "Output",
    ]
    assert "<bool>" not in everything
    assert "18446744073709551615" not in everything
    text = shown("--help")
    named = ("─ Find", " audit", "─ Repair", " fit", "─ Prove", " certify", "─ Research")
    places = [text.index(word) for word in named]
    assert places == sorted(places)
    assert "--install-completion" in text
