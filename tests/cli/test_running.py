"""How a command runs: what it says, and in whose words."""

import pickle
import warnings

import pytest

from shortcut_guardrail import errors
from shortcut_guardrail.cli.running import enable_debug, progress_bars, run, with_options


def test_what_is_said_on_the_way_to_a_terminal_is_not_obeyed(capsys):
    def fail():
        enable_debug(True)
        warnings.warn("a\x1b[31m", errors.GuardrailWarning, stacklevel=1)
        with progress_bars() as progress:
            progress("b\x1b[31m", 1, 1)
        raise ValueError("c\x1b[31m")

    assert run(fail) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert [said.count(f"{letter}[U+001B]") for letter in "abc"] == [1, 1, 2]


@pytest.mark.parametrize("name", [name for name in vars(errors) if name.endswith(("Error", "Warning"))])
def test_an_error_holds_nothing_that_a_terminal_obeys(name):
    error = getattr(errors, name)("column 'a\x1b[31m'\n\tb\x9b")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "column 'a[U+001B][31m'\n\tb[U+009B]"


def test_arguments_of_python_are_told_as_options():
    for said, shown in [
        ("it was written with redact=True. Run", "it was written with --redact. Run"),
        ("Choose strategy='mask' or strategy='few-shot'.", "Choose --strategy mask or --strategy few-shot."),
        ("cards='my word' means 2 cards", "--word-groups 'my word' means 2 cards"),
        ("name it with shortcuts=, or labels=.", "name it with --shortcut, or --label-column."),
    ]:
        assert with_options(said) == shown
    # What is no argument, and what a user wrote, stays.
    other = "'cards=all' is no n=3, my_cards=True or --set strategy=mask"
    assert with_options(other) == other
