"""`shortcut-guardrail review`: what it needs, what it says, and where the decisions go."""

import json
import os
import threading

import pytest

from audits import to_review
from shortcut_guardrail.data import counted
from shortcut_guardrail.review import Page, make_deck
from shortcut_guardrail.review.server import ReviewServer
from shortcut_guardrail.review.session import Session

ANSWERS = ("--no-browser", "--reviewer", "anna")


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


def test_answers_are_in_the_audit_s_folder(ok, audited, said, tmp_path):
    given = ("remove_reliance", "keep")
    said(*given)
    out, err = ok("review", audited, *ANSWERS, "--seed", 7)
    assert (json.loads((audited / "decisions.json").read_text())["review"]["seed"], err) == (7, "")
    assert f"Decisions: {audited / 'decisions.json'}" in out
    assert f"Next: shortcut-guardrail fit MODEL DATA --decisions {audited / 'decisions.json'} --out guarded" in out
    cards = json.loads((audited / "decisions.json").read_text())["cards"]
    assert [(card["decision"], card["reviews"][0]["by"]) for card in cards] == [(d, "anna") for d in given]
    # Of the cards that are named alone.
    ok("review", audited, *ANSWERS, "--word-groups", "w1", "--out", tmp_path / "one.json")
    assert [card["words"][0] for card in json.loads((tmp_path / "one.json").read_text())["cards"]] == ["w1"]
    # The partner: nothing is written where nothing is answered.
    said()
    out, _ = ok("review", audited, *ANSWERS, "--out", tmp_path / "new" / "d.json")
    assert "Nothing was answered, and nothing is written." in out
    assert not (tmp_path / "new" / "d.json").exists()


def test_what_is_missing_or_wrong_is_said(refused, audited, monkeypatch, tmp_path):
    monkeypatch.setattr("getpass.getuser", lambda: (_ for _ in ()).throw(OSError("no login name")))
    assert refused("review", audited, "--no-browser") == "Say who answers, with --reviewer NAME."
    assert "--reviewer NAME" in refused("review", audited, "--no-browser", "--reviewer", " ")
    said = refused("review", audited / "audit.json", *ANSWERS)
    assert "is a file. Give the folder that `audit` wrote: " in said
    server = ReviewServer(Session(make_deck(to_review(2).to_dict()), tmp_path / "d.json", "a"), Page("", ""))
    said = refused("review", audited, "--port", server.port, *ANSWERS)
    server.server_close()
    assert f"Port {server.port} of this machine cannot be used" in said


def test_an_audit_without_texts_asks_for_the_file(ok, refused, audited, said, write_csv):
    report = to_review(2)
    (audited / "audit.json").write_text(json.dumps(report.to_dict(redact=True)))
    sentence = refused("review", audited, *ANSWERS)
    assert "has no texts: it was made with --redact. Give the audited file too: shortcut-guardrail review" in sentence
    of_row = {flip.row: flip.text for card in report.cards for flip in card.flips}
    texts = [of_row.get(i, f"another {i}") for i in range(max(of_row) + 1)]
    data = write_csv("texts.csv", *((text,) for text in texts), header=("text",))
    said("keep", "keep")
    assert "Decisions: " in ok("review", audited, data, *ANSWERS)[0]
    other = write_csv("other.csv", *((text[::-1],) for text in texts), header=("text",))
    assert "are not those that were audited" in refused("review", audited, other, *ANSWERS)


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


def test_the_address_reaches_the_browser_by_a_file_that_nobody_else_reads(ok, audited, served):
    out, _ = ok("review", audited, "--reviewer", "a")
    address = next(line for line in out.splitlines() if line.startswith("http://127.0.0.1:"))
    ((opened, content, mode),) = served
    assert address not in opened
    assert (f'url={address}"' in content, mode) == (True, 0o600)
    assert not list(audited.glob("review-*"))


def test_without_a_browser_the_address_is_printed(ok, audited, served, monkeypatch):
    printed = "Open this address in a browser on this machine:\nhttp://127.0.0.1:"
    assert (printed in ok("review", audited, *ANSWERS)[0], served) == (True, [])
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    assert printed in ok("review", audited, "--reviewer", "a")[0]
    # Over SSH it says how to forward the port.
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("a browser was opened"))
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")
    out = ok("review", audited, "--reviewer", "a")[0]
    port = out.partition("http://127.0.0.1:")[2].partition("/")[0]
    assert f"ssh -N -L {port}:127.0.0.1:{port} USER@THIS-MACHINE" in out


def test_ctrl_c_says_where_the_decisions_are(ok, audited, said, monkeypatch):
    said("remove_reliance")
    ok("review", audited, *ANSWERS)

    def interrupted(self):
        self.server_close()
        raise KeyboardInterrupt

    monkeypatch.setattr(ReviewServer, "run", interrupted)
    assert f"Decisions: {audited / 'decisions.json'}" in ok("review", audited, *ANSWERS)[0]


@pytest.mark.parametrize(("option", "minutes"), [((), 60), (("--idle", 1), 1), (("--idle", 90), 90)])
def test_it_stops_after_minutes_without_an_answer(ok, audited, monkeypatch, option, minutes):
    waited = []
    monkeypatch.setattr(ReviewServer, "run", lambda self: self.server_close() or waited.append(self.idle) or True)
    out = ok("review", audited, *ANSWERS, *option)[0]
    assert (waited, f"Stopped after {counted(minutes, 'minute')} without an answer." in out) == ([60 * minutes], True)


def test_names_are_asked_for_and_taken(ok, audited, said, monkeypatch):
    file = audited / "audit.json"
    file.write_text(file.read_text().replace('"negative"', '"LABEL_0"').replace('"positive"', '"LABEL_1"'))
    said()
    _, err = ok("review", audited, *ANSWERS)
    assert "Say it with --label-names 'LABEL_0=NAME,LABEL_1=NAME'" in " ".join(err.split())
    said("keep")
    _, err = ok("review", audited, *ANSWERS, "--label-names", "LABEL_0=bad,1=good")
    assert "label-names" not in err
    cards = json.loads((audited / "decisions.json").read_text())["cards"]
    assert {card["pushes_towards"] for card in cards} <= {"bad", "good"}
