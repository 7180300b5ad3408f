"""What tests of questions and answers share."""

from pathlib import Path

import pytest

from shortcut_guardrail import ShortcutGuardrail
from tiny_models import SHORTCUT_TEXTS


@pytest.fixture
def run(cli, bag, monkeypatch):
    """The command line on the bag of words, whose answers are algebra; what it said, each in one line."""
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_: ShortcutGuardrail(*bag))

    def call(*arguments, status: int = 0) -> tuple[str, str]:
        found, out, err = cli(*arguments)
        assert found == status, err
        return " ".join(out.split()), " ".join(err.split())

    return call


@pytest.fixture
def data(write_csv) -> Path:
    return write_csv("data.csv", *((text,) for text in SHORTCUT_TEXTS), header=("text",))


@pytest.fixture
def support(write_csv) -> Path:
    return write_csv("support.csv", ("good soup", "positive"), ("bad soup", "negative"), ("honestly fine", "mixed"))
