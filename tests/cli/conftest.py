"""What tests of questions and answers share."""

import pytest

from shortcut_guardrail import ShortcutGuardrail


@pytest.fixture
def run(cli, bag, monkeypatch):
    """The command line on the bag of words, whose answers are algebra; what it said, each in one line."""
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_: ShortcutGuardrail(*bag))

    def call(*arguments, status: int = 0) -> tuple[str, str]:
        found, out, err = cli(*arguments)
        assert found == status, err
        return " ".join(out.split()), " ".join(err.split())

    return call
