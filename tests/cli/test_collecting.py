"""A command leaves Python's search for cycles of objects out of its start and its end."""

import sys

import pytest

from shortcut_guardrail.cli import main


def test_cycles_are_rarely_looked_for_and_never_at_the_end(monkeypatch):
    told = []
    monkeypatch.setattr(main.gc, "set_threshold", lambda *n: told.append(("seldom", n[0] > 100_000)))
    monkeypatch.setattr(main.gc, "freeze", lambda: told.append("kept"))
    monkeypatch.setattr(main, "call", lambda arguments: told.append(arguments) or 3)
    monkeypatch.setattr(sys, "argv", ["shortcut-guardrail", "--version"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert told == [("seldom", True), ["--version"], "kept"]
    assert stopped.value.code == 3
