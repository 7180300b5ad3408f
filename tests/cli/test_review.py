"""`shortcut-guardrail review`: what it needs, what it says, and where the decisions go."""

from __future__ import annotations

import json
import os
import threading

import pytest

from audits import to_review
from shortcut_guardrail.review.server import ReviewServer


@pytest.fixture
def audited(tmp_path):
    folder = tmp_path / "audit"
    folder.mkdir()
    (folder / "audit.json").write_text(json.dumps(to_review(2).to_dict()), encoding="utf-8")
    return folder


@pytest.fixture
def said(monkeypatch):
    """What the person answers to the first cards before the server stops."""

    def answers(*decisions: str) -> None:
        def run(self):
            for card, decision in zip(self.session.deck.cards, decisions, strict=False):
                self.session.save({"card": card.id, "decision": decision}, self.session.revision)
            self.server_close()
            return False

        monkeypatch.setattr(ReviewServer, "run", run)

    return answers


def test_answers_are_in_the_audit_s_folder(cli, audited, said):
    said("neutralise", "keep")
    status, out, err = cli("review", audited, "--no-browser", "--reviewer", "anna")
    assert (status, err) == (0, "")
    assert f"Decisions: {audited / 'decisions.json'}" in out
    assert f"Next: shortcut-guardrail fit MODEL DATA --decisions {audited / 'decisions.json'} --out guarded" in out
    cards = json.loads((audited / "decisions.json").read_text())["cards"]
    assert [(card["decision"], card["reviews"][0]["by"]) for card in cards] == [
        ("neutralise", "anna"),
        ("keep", "anna"),
    ]


def test_nothing_is_written_where_nothing_is_answered(cli, audited, said, tmp_path):
    said()
    status, out, _ = cli("review", audited, "--no-browser", "--out", tmp_path / "new" / "d.json", "--reviewer", "a")
    assert status == 0
    assert "Nothing was answered, and nothing is written." in out
    assert not (tmp_path / "new" / "d.json").exists()


def test_somebody_answers(cli, audited, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: (_ for _ in ()).throw(OSError("no login name")))
    assert "Say who answers, with --reviewer NAME." in cli("review", audited, "--no-browser")[2]
    assert cli("review", audited, "--no-browser", "--reviewer", " ")[0] == 2


def test_an_audit_without_texts_asks_for_the_file(cli, audited, said, write_csv):
    report = to_review(2)
    (audited / "audit.json").write_text(json.dumps(report.to_dict(redact=True)))
    status, _, err = cli("review", audited, "--no-browser", "--reviewer", "a")
    assert status == 2
    assert (
        "has no texts: it was made with --redact. Give the audited file too: shortcut-guardrail review AUDIT DATA"
        in err
    )
    of_row = {flip.row: flip.text for card in report.cards for flip in card.flips}
    texts = [of_row.get(i, f"another {i}") for i in range(max(of_row) + 1)]
    data = write_csv("texts.csv", *((text,) for text in texts), header=("text",))
    said("keep", "keep")
    status, out, err = cli("review", audited, data, "--no-browser", "--reviewer", "a")
    assert status == 0, err
    assert "Decisions: " in out
    other = write_csv("other.csv", *((text[::-1],) for text in texts), header=("text",))
    assert "are not those that were audited" in cli("review", audited, other, "--no-browser", "--reviewer", "a")[2]


def test_a_file_is_not_taken_for_the_folder(cli, audited):
    status, _, err = cli("review", audited / "audit.json", "--no-browser", "--reviewer", "a")
    assert status == 2
    assert "is a file. Give the folder that `audit` wrote: " in " ".join(err.split())


@pytest.fixture
def served(monkeypatch):
    """The server starts and stops at once; what was opened, and who could read it."""
    opened = []

    def run(self):
        threading.Thread(target=self.shutdown).start()
        self.serve_forever()
        self.server_close()
        return False

    def open_(address):
        path = address.removeprefix("file://")
        with open(path, encoding="utf-8") as file:
            opened.append((address, file.read(), os.stat(path).st_mode & 0o777))
        return True

    monkeypatch.setattr(ReviewServer, "run", run)
    monkeypatch.setattr("webbrowser.open", open_)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return opened


def test_the_address_reaches_the_browser_by_a_file_that_nobody_else_reads(cli, audited, served):
    status, out, _ = cli("review", audited, "--reviewer", "a")
    assert status == 0
    address = next(line for line in out.splitlines() if line.startswith("http://127.0.0.1:"))
    ((opened, content, mode),) = served
    assert address not in opened
    assert f'url={address}"' in content
    assert mode == 0o600
    assert not list(audited.glob("review-*"))


def test_without_a_browser_the_address_is_printed(cli, audited, served, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    assert (
        "Open this address in a browser on this machine:\nhttp://127.0.0.1:"
        in cli("review", audited, "--reviewer", "a")[1]
    )
    assert "Open this address" in cli("review", audited, "--reviewer", "a", "--no-browser")[1]
    assert served == []


def test_over_ssh_it_says_how_to_forward_the_port(cli, audited, served, monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")
    out = cli("review", audited, "--reviewer", "a")[1]
    port = out.partition("http://127.0.0.1:")[2].partition("/")[0]
    assert f"ssh -N -L {port}:127.0.0.1:{port} USER@THIS-MACHINE" in out
    assert served == []


def test_a_port_that_is_taken(cli, audited, tmp_path):
    from shortcut_guardrail.review import Page, make_deck
    from shortcut_guardrail.review.session import Session

    server = ReviewServer(Session(make_deck(to_review(2).to_dict()), tmp_path / "d.json", "a"), Page("", ""))
    status, _, err = cli("review", audited, "--port", server.port, "--reviewer", "a", "--no-browser")
    server.server_close()
    assert status == 2
    assert f"Port {server.port} of this machine cannot be used" in err


def test_ctrl_c_says_where_the_decisions_are(cli, audited, said, monkeypatch):
    said("neutralise")
    cli("review", audited, "--no-browser", "--reviewer", "a")

    def interrupted(self):
        self.server_close()
        raise KeyboardInterrupt

    monkeypatch.setattr(ReviewServer, "run", interrupted)
    status, out, _ = cli("review", audited, "--reviewer", "a", "--no-browser")
    assert status == 0
    assert f"Decisions: {audited / 'decisions.json'}" in out
