"""A command leaves Python's search for unused cycles of objects out of its start and its end."""

import gc
import sys

import pytest

from shortcut_guardrail.cli import main, options, running


@pytest.fixture(autouse=True)
def told(monkeypatch) -> list[str]:
    """What the garbage collector was told; it does nothing of it."""
    calls = list[str]()
    monkeypatch.setattr(running.gc, "set_threshold", lambda first, *_: calls.append(f"every {first}"))
    monkeypatch.setattr(running.gc, "freeze", lambda: calls.append("not among what is there"))
    return calls


USUAL = ["not among what is there", f"every {gc.get_threshold()[0]}"]


def test_cycles_are_rarely_looked_for_and_not_at_the_end(told, monkeypatch):
    monkeypatch.setattr(main, "call", lambda arguments: told.extend(arguments) or 3)
    monkeypatch.setattr(sys, "argv", ["shortcut-guardrail", "--version"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert told == ["every 300000", "--version", *USUAL]
    assert stopped.value.code == 3


def test_once_a_model_is_loaded_they_are_looked_for_as_usual(told, model_folder):
    options.ModelLoading().load(str(model_folder))
    assert told == USUAL
    told.clear()
    options.ModelLoading(labels="no,yes").load("made_answers:bag")
    assert told == USUAL
