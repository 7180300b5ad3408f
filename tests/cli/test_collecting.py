"""A command leaves Python's search for unused cycles of objects out of its start and its end."""

import gc
import sys

import pytest

from shortcut_guardrail.cli import main, options, running

USUAL = gc.get_threshold()


@pytest.fixture(autouse=True)
def told(monkeypatch) -> list[str]:
    """What the garbage collector was told; it does nothing of it but remember its numbers."""
    calls, numbers = list[str](), [USUAL]

    def change(*new: int) -> None:
        calls.append(f"every {new[0]}")
        numbers.append(new)

    monkeypatch.setattr(running.gc, "set_threshold", change)
    monkeypatch.setattr(running.gc, "get_threshold", lambda: numbers[-1])
    monkeypatch.setattr(running.gc, "freeze", lambda: calls.append("not among what is there"))
    return calls


def test_cycles_are_rarely_looked_for_and_not_at_the_end(told, monkeypatch):
    monkeypatch.setattr(main, "call", lambda arguments: told.extend(arguments) or 3)
    monkeypatch.setattr(sys, "argv", ["shortcut-guardrail", "--version"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert told == ["every 300000", "--version", "not among what is there"]
    assert stopped.value.code == 3


@pytest.mark.parametrize("source", ["a model's folder", "made_answers:bag"])
def test_once_a_model_is_loaded_they_are_looked_for_as_usual(source, told, model_folder):
    names = "no,yes" if ":" in source else None
    loading = options.ModelLoading(labels=names)
    loading.load(source if names else str(model_folder))
    assert told == [], "whoever calls from Python is left alone"
    running.collect_rarely()
    loading.load(source if names else str(model_folder))
    assert told == ["every 300000", "not among what is there", f"every {USUAL[0]}"]
