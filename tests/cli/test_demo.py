"""What the command says and shows at the end; tests/behaviour/test_demo.py has the demo itself."""

import json
from types import SimpleNamespace

import pytest

from shortcut_guardrail.cli.demo import on_desktop


@pytest.fixture
def opened(monkeypatch):
    """The command with a demo that takes no time; the pages that were opened."""
    result = SimpleNamespace(to_dict=lambda: {"seed": 5})
    monkeypatch.setattr("shortcut_guardrail.demo.run_demo", lambda **_: result)
    monkeypatch.setattr("shortcut_guardrail.demo.write_demo", lambda _result, out, **_: out.mkdir())
    monkeypatch.setattr("shortcut_guardrail.cli.demo.show", lambda _result: None)
    pages: list[str] = []
    monkeypatch.setattr("webbrowser.open", pages.append)
    return pages


def test_it_ends_with_the_report_and_the_next_command(cli, opened, tmp_path):
    status, out, err = cli("demo", "--out", tmp_path / "demo", "--seed", 5)
    assert (status, err, opened) == (0, "", [])  # nobody looks at a test's output
    assert out.startswith(f"Report: {tmp_path / 'demo' / 'report.html'}\n")
    assert out.endswith("  shortcut-guardrail fit MODEL texts.csv --out guarded\n")


def test_a_desktop_shows_the_report_unless_told_not_to(cli, opened, tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.cli.demo.on_desktop", lambda *_: True)
    assert (cli("demo", "--out", tmp_path / "a")[0], opened) == (0, [(tmp_path / "a" / "report.html").as_uri()])
    assert cli("demo", "--out", tmp_path / "b", "--no-open")[0] == 0
    assert cli("demo", "--out", tmp_path / "c", "--quiet")[:2] == (0, "")
    status, out, _ = cli("demo", "--out", tmp_path / "d", "--json", "-")
    assert (status, json.loads(out), len(opened)) == (0, {"seed": 5}, 1)


def test_what_counts_as_a_desktop():
    yes = [({"DISPLAY": ":0"}, "linux"), ({"WAYLAND_DISPLAY": "wayland-0"}, "linux"), ({}, "darwin"), ({}, "win32")]
    no = [({}, "linux"), ({"SSH_CONNECTION": "10.0.0.1"}, "darwin"), ({"CI": "true"}, "darwin")]
    no += [({"CI": "true", "DISPLAY": ":0"}, "linux")]
    for environment, platform, expected in [*((*of, True) for of in yes), *((*of, False) for of in no)]:
        assert on_desktop(SimpleNamespace(isatty=lambda: True), environment, platform) is expected
        assert not on_desktop(SimpleNamespace(isatty=lambda: False), environment, platform)
