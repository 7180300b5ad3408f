"""How a command runs: what it says, and in whose words."""

from __future__ import annotations

from shortcut_guardrail.cli.running import with_options


def test_arguments_of_python_are_told_as_options():
    for said, shown in [
        ("it was written with redact=True. Run", "it was written with --redact. Run"),
        ("Choose strategy='mask' or strategy='few-shot'.", "Choose --strategy mask or --strategy few-shot."),
        ("cards='my word' means 2 cards", "--cards 'my word' means 2 cards"),
        ("name it with shortcuts=, or labels=.", "name it with --shortcut, or --label-column."),
    ]:
        assert with_options(said) == shown
    # What is no argument, and what a user wrote, stays.
    other = "'cards=all' is no n=3, my_cards=True or --set strategy=mask"
    assert with_options(other) == other
