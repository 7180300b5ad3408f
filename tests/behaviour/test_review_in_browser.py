"""The review in a real headless browser: the way to a guard, by keys, by touch, in two tabs, without a server."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from accessibility import violations
from audits import HOSTILE, card, to_review
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.cards.card import Flip, Moved
from shortcut_guardrail.report import render_audit, render_review
from shortcut_guardrail.review import Page, make_deck
from shortcut_guardrail.review.server import ReviewServer
from shortcut_guardrail.review.session import Session
from tiny_models import meaning_bag

pytestmark = pytest.mark.slow

HEADING = "(document.querySelector('#review :is(h2, h3)')?.textContent ?? '')"
HEIGHTS = "[...document.querySelectorAll('#review button')].map(e => e.getBoundingClientRect().height)"
SAID, NEWS, PROBLEM = (f"document.getElementById('{of}').textContent" for of in ("said", "news", "problem"))
TABLE = "[...document.querySelectorAll('.decisions tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
STEPS = "document.querySelectorAll('.steps button')"
ANSWERED = "document.querySelectorAll('.steps .answered').length"
BUTTON = "document.querySelector('#review button[value"
MAIN = "document.querySelector('#review button.main')"


def session_of(report, file, by="anna"):
    return Session(make_deck(report.to_dict()), file, by)


@pytest.fixture
def serve(browser, tmp_path):
    """Serves the review of an audit, by default of so many cards: its session, what opens a tab, and its server."""
    running = []

    def start(report, by="anna"):
        session = session_of(to_review(report) if isinstance(report, int) else report, tmp_path / "d.json", by)
        server = ReviewServer(session, Page(*render_review()))
        running.append(server)
        threading.Thread(target=server.run, daemon=True).start()

        def opened(*size, **how):
            page = browser.visit(server.address, *size, **how)
            page.wait("!!document.querySelector('#review :is(h2, h3)')")
            return page

        return session, opened, server

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def report(browser, tmp_path):
    """Opens the report of an audit from disk, and reads what it lets one download."""

    def opened(audit, **how):
        file = tmp_path / "report.html"
        file.write_text(render_audit(audit), encoding="utf-8")
        page = browser.open(file, **how)
        page.wait("!!document.querySelector('#question')")
        return page

    return opened


def heading(page, start):
    page.wait(f"{HEADING}.startsWith({json.dumps(start)})")


def press(page, *keys):
    """Press keys, each when the answer before is saved and the next question stands there."""
    shown = f"document.querySelector('.steps').outerHTML + {HEADING}"
    for key in keys:
        before = page.evaluate(shown)
        page.press(key)
        page.wait(f"{shown} !== {json.dumps(before)}")


def downloaded(browser, folder, page, button):
    """The file that a button lets one download."""
    folder.mkdir(exist_ok=True)
    browser.save_downloads(folder)
    page.evaluate(f"{button}.click()")
    file, deadline = folder / "decisions.json", time.monotonic() + 10
    while not file.exists() or not file.read_text():
        assert time.monotonic() < deadline, "nothing is downloaded"
        time.sleep(0.05)
    return json.loads(file.read_text())


def without_times(document):
    if isinstance(document, dict):
        return {key: without_times(value) for key, value in document.items() if key != "at"}
    return [without_times(one) for one in document] if isinstance(document, list) else document


NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
TEXTS = [f"honestly the bad {noun} was {tail}" for noun in NOUNS for tail in ("awful", "so awful")]
TEXTS += [f"the {noun} was {tail}" for noun in NOUNS for tail in ("bad and slow", "so bad", "awful", "good", "great")]


def new_guard():
    """Around a bag of words in which each word means something else, so that each is a card of its own."""
    effects = {"honestly": 4.0, "good": 1.0, "great": 1.5, "bad": -1.0, "awful": -1.5}
    classifier = meaning_bag(effects, {word: i for i, word in enumerate(effects)})
    return ShortcutGuardrail(classifier.model, classifier.tokenizer)


@contextmanager
def command(audit):
    """`shortcut-guardrail review` as a process of its own, and the address that it prints."""
    arguments = ["-m", "shortcut_guardrail.cli.main", "review", str(audit), "--reviewer", "anna", "--no-browser"]
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, next(line for line in process.stdout if line.startswith("http://")).strip()
        finally:
            process.kill()


def answer_by_label(page):
    """Say of the text that is shown what somebody says who can read: all that hold "honestly" are bad."""
    options = page.evaluate("[...document.querySelectorAll('.choices bdi')].map(b => b.textContent)")
    press(page, "a" if options[0] == "negative" else "b")


def test_the_whole_way_from_an_audit_to_a_guard(browser, ok, write_csv, tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_: new_guard())
    data = write_csv("data.csv", *((text,) for text in TEXTS), header=("text",))
    ok("audit", "model", data, "--out", tmp_path / "audit")
    decisions = tmp_path / "audit" / "decisions.json"
    with command(tmp_path / "audit") as (process, address):
        page = browser.visit(address)
        heading(page, "1 of 3: “honestly”")
        press(page, "3", "2")
        heading(page, "3 of 3: ")
        press(page, "z")  # "great" should count after all
        heading(page, "2 of 3: ")
        press(page, "1", "1")
        heading(page, "Text 1: which prediction is right?")
        answer_by_label(page)
        answer_by_label(page)
        page.close()
        os.kill(process.pid, signal.SIGKILL)
    with command(tmp_path / "audit") as (process, address):
        page = browser.visit(address)
        heading(page, "Text 3: which prediction is right?")
        assert page.evaluate(NEWS) == "Resuming: 3 of 3 word groups answered before."
        press(page, "z")  # what was answered before the kill
        heading(page, "Text 2")
        while page.evaluate(HEADING).startswith("Text"):
            answer_by_label(page)
        assert page.evaluate(TABLE)[0][1] == "reliance removed (texts: shortcut, 8 fixed, 0 broken of 8)"
        at_once = downloaded(browser, tmp_path, page, "document.querySelector('.actions .main')")
        assert without_times(at_once) == without_times(json.loads(decisions.read_text()))
        page.evaluate("[...document.querySelectorAll('.actions button')].at(-1).click()")
        heading(page, "The server has stopped")
        assert ("Next: shortcut-guardrail fit" in process.stdout.read(), process.wait(20)) == (True, 0)
    ok("fit", "model", data, "--decisions", decisions, "--strategy", "mask", "--out", tmp_path / "guarded")
    record = json.loads((tmp_path / "guarded" / "guardrail.json").read_text())
    words = {one["text"]: one["verdict"] == "kept" for one in record["shortcuts"] if one["verdict"] != "cleared"}
    assert words == {"good": True, "great": True, "honestly": False}
    guards = new_guard(), new_guard(), new_guard()
    guards[0].repair(TEXTS, strategy="mask", decisions=decisions)
    guards[1].repair(TEXTS, strategy="mask", shortcuts=("honestly",), keep=("good", "great"))
    answers = [guard.predict_proba(TEXTS).tolist() for guard in guards]
    assert answers[0] == answers[1] != answers[2]
    assert record["debias_strength"] == guards[1].debias_strength


def test_the_page_without_a_server_downloads_the_file_that_a_server_writes(browser, report, tmp_path):
    audit = to_review(3)
    page = report(audit)
    heading(page, "1 of 3: “w0”")
    page.click("document.getElementById('reviewer')")
    page.evaluate("document.getElementById('reviewer').select()")
    page.type("anna")
    page.press("Tab")
    page.click(f"{BUTTON}=remove_reliance]')")
    heading(page, "2 of 3: ")
    press(page, "2", "z", "1")
    page.close()
    page = report(audit)  # goes on where it was left
    heading(page, "3 of 3: ")
    page.click("document.querySelector('#review h3')")
    press(page, "s")
    assert page.evaluate(TABLE)[0][1:] == ["reliance removed", "30 predictions: 30 from positive to negative"]
    found = downloaded(browser, tmp_path / "downloads", page, MAIN)
    session = session_of(audit, tmp_path / "decisions.json")
    for one, decision in zip(session.deck.cards, ("remove_reliance", "keep", "unsure"), strict=True):
        session.save({"card": one.id, "decision": decision}, session.revision)
    wanted = json.loads(session.file.read_text())
    for document in (found, wanted):
        document["review"].pop("revision")
    assert without_times(found) == without_times(wanted)
    asked = {event["request"]["url"].partition(":")[0] for event in page.events("Network.requestWillBeSent")}
    assert asked <= {"file", "blob"}
    assert not page.events("Log.entryAdded")
    again = Session(session.deck, tmp_path / "downloads" / "decisions.json", "anna")
    assert again.state()["said"] == session.state()["said"]


def test_the_report_says_what_the_audit_decides_and_downloads_at_any_time(browser, report, tmp_path):
    taken = {"fit_would_take": [{"text": word, "verdict": "flagged", "reason": None} for word in ("w0", "w0s")]}
    assert "shortcut-guardrail review AUDIT DATA" in render_audit(to_review(3), redact=True)  # no texts, no form
    page = report(to_review(2).to_dict() | taken)
    page.click("document.querySelector('#review h3')")
    press(page, "3")
    assert page.evaluate(SAID).endswith("not sure; the audit decides: reliance removed, 30 predictions.")
    last = "[...document.querySelectorAll('.actions button')].at(-1)"
    (card,) = downloaded(browser, tmp_path / "downloads", page, last)["cards"]
    assert (card["words"], card["decision"]) == (["w0", "w0s"], "unsure")
    page.click("document.querySelector('#review h3')")
    press(page, "3")
    changes = "30 predictions: 30 from positive to negative"
    assert page.evaluate(TABLE) == [
        ["“w0”, “w0s”", "not sure; the audit decides: reliance removed", changes],
        ["“w1”, “w1s”", "not sure; the audit decides: left as it is", "none"],
    ]


def test_with_single_keys_off_tab_arrows_and_enter_do(serve):
    session, opened, _ = serve(1)
    page, value = opened(), "document.activeElement.value"
    page.click("document.querySelector('#review > details summary')")
    page.click("document.getElementById('keys')")
    for key in "12z":
        page.press(key)
    page.evaluate("document.querySelector('#review h2').focus()")
    while page.evaluate(value) != "remove_reliance":
        page.press("Tab")
    assert session.revision == 0
    page.press("Enter")
    heading(page, "All word groups are answered")
    assert page.evaluate("document.activeElement.tagName") == "H2"
    assert session.state()["said"] == {session.deck.cards[0].id: "remove_reliance"}


def test_nothing_is_preselected_and_back_leads_to_the_group_before(serve):
    session, opened, _ = serve(2)
    page = opened()
    pressed = "[...document.querySelectorAll('.choices [aria-pressed=true]')].map(b => b.value)"
    back = "[...document.querySelectorAll('.actions button')].find(b => b.textContent === 'Back')"
    for out_of_a_button in ("document.querySelector('#review h2').focus()", "document.activeElement.blur()"):
        page.evaluate(out_of_a_button)
        page.press("Enter")
    time.sleep(0.2)
    assert (session.revision, page.evaluate(pressed), page.evaluate(f"{back}.disabled")) == (0, [], True)
    page.click(f"{BUTTON}=remove_reliance]')")
    heading(page, "2 of 2: ")
    assert page.evaluate(pressed) == []
    page.click(back)
    heading(page, "1 of 2: ")
    assert (session.revision, page.evaluate(pressed)) == (1, ["remove_reliance"])  # back takes nothing back
    press(page, "1")
    page.click(back)
    assert page.evaluate(pressed) == ["keep"]
    page.press("z")
    page.wait(f"{NEWS} === 'The last answer is undone.'")
    assert page.evaluate(pressed) == ["remove_reliance"]


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_answers_are_seen_however_long_a_text_is(serve, size):
    flips = (Flip.of(0, "positive", "negative", "w0 " + "a long word " * 400),)
    _, opened, _ = serve(to_review(0, cards=(card("w0", flips=flips),)))
    page = opened(*size)
    page.evaluate("document.querySelectorAll('#review details').forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollHeight") > size[1]
    for top in (0, 300):
        page.evaluate(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
        places = page.evaluate(HEIGHTS.replace("height", "bottom").replace("#review", ".choices"))
        assert max(places) <= size[1]


def test_a_key_that_is_held_down_answers_once(serve):
    session, opened, _ = serve(3)
    page, how = opened(), {"key": "1", "windowsVirtualKeyCode": 49}
    for repeated in (False, *[True] * 5):
        page.call("Input.dispatchKeyEvent", type="keyDown", text="1", autoRepeat=repeated, **how)
    page.call("Input.dispatchKeyEvent", type="keyUp", **how)
    heading(page, "2 of 3: ")
    time.sleep(0.2)
    assert session.revision == 1


def test_each_answer_says_what_would_change(serve):
    page = serve(3)[1]()
    press(page, "n")
    line = "reliance removed. 30 predictions would change: 30 from positive to negative."
    assert page.evaluate(SAID) == f"“w0” and 1 more: {line}"
    assert not page.evaluate("!!document.getElementById('follows')")
    page.evaluate(f"{STEPS}[0].click()")  # what an answer brings stands on the word group that it is about
    assert page.evaluate("document.getElementById('follows').textContent") == f"Your answer: {line}"
    labels = "[...document.querySelectorAll('.choices span')].map(s => s.textContent)"
    shorts = ["nothing changes", "30 predictions change", "you judge texts", "up to 30 change"]
    assert page.evaluate(labels) == shorts
    press(page, "2", "2", "1")
    assert "In all at most 59 of 400 predictions change." in page.evaluate("document.body.textContent")
    assert page.evaluate("document.getElementById('said').getAttribute('role')") == "status"


def test_a_phone(serve):
    session, opened, _ = serve(2)
    page = opened(360, 740)

    def fits():
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert min(page.evaluate(HEIGHTS)) >= 40

    fits()
    page.click(f"{BUTTON}=unsure]')")
    heading(page, "2 of 2: ")
    page.click(f"{BUTTON}=keep]')")
    heading(page, "Text 1")
    fits()
    while (before := page.evaluate(HEADING)).startswith("Text"):
        page.click("document.querySelector('.choices button')")
        page.wait(f"{HEADING} !== {json.dumps(before)}")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert session.state()["end"]


@pytest.mark.parametrize(("dark", "size"), [(False, (1200, 900)), (True, (390, 844))], ids=["desk", "dark phone"])
def test_axe_finds_nothing(serve, tmp_path, dark, size):
    audit = to_review(3)
    deck = make_deck(audit.to_dict())
    opinion = {"judges": ["gemma"], "rule": "agreement", "fixed": 7, "broken": 2, "unanswered": 0, "outcome": "open"}
    opinion |= {"bound": 0.6, "p_value": 0.2, "reason": "Not clearly more."}
    second = {"id": deck.cards[0].id, "words": ["w0", "w0s"], "second_model": opinion}
    (tmp_path / "d.json").write_text(json.dumps({"audit": deck.audited.id, "cards": [second]}))
    ben = session_of(audit, tmp_path / "d.json", "ben")
    for one in ben.deck.cards:
        ben.save({"card": one.id, "decision": "keep"}, ben.revision)
    page = serve(audit)[1](*size, dark=dark)
    for keys in ("", "2", "33"):
        press(page, *keys)
        assert violations(page) == []
    assert page.evaluate(HEADING).startswith("Text 1")
    while page.evaluate(HEADING).startswith("Text"):
        press(page, "a")
    columns = page.evaluate("document.querySelector('.decisions thead').textContent")
    assert all(by in columns for by in ("second model", "ben"))
    assert violations(page) == []
    # The partner: what axe is there for is found.
    page.evaluate("document.querySelector('#review').append(document.createElement('button'))")
    assert [one.partition(" |")[0] for one in violations(page)] == ["button-name"]


def test_two_tabs_lose_nothing(serve):
    session, opened, _ = serve(3)
    one, two = opened(), opened()
    press(two, "2")
    one.front()
    one.evaluate(f"{STEPS}[2].click()")
    press(one, "2")  # to an older state, and merged
    assert one.evaluate(ANSWERED) == 2
    two.front()
    press(two, "1")
    assert sorted(session.state()["said"].values()) == ["keep", "remove_reliance", "remove_reliance"]
    # An undo after another tab's answer asks once more.
    one.front()
    one.press("z")
    one.wait(f"{PROBLEM}.startsWith('Another tab answered meanwhile')")
    assert len(session.answers.said) == 3
    press(one, "z")
    assert len(session.answers.said) == 2


def test_what_is_not_saved_is_said_and_can_be_given_again(serve, monkeypatch):
    session, opened, server = serve(3)
    page = opened()

    def full(*_args, **_how):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    page.press("1")
    page.wait(f"{PROBLEM}.includes('the disk is full')")
    assert page.evaluate(HEADING).startswith("1 of 3: ")
    monkeypatch.undo()
    press(page, "1")
    assert (page.evaluate(PROBLEM), len(session.answers.said)) == ("", 1)
    press(page, "2", "z")
    assert page.evaluate(NEWS) == "The last answer is undone."
    server.stop()
    for key in "z1":
        page.press(key)
        page.wait(f"{PROBLEM}.startsWith('Not saved: the server does not answer')")
        assert page.evaluate(SAID) == ""  # what it said of the answer before
    assert page.evaluate(HEADING).startswith("2 of 3: ")
    assert page.evaluate(ANSWERED) == 1


def test_an_address_without_its_token_shows_nothing(browser, serve):
    page = browser.visit(serve(3)[2].address.partition("#")[0])
    page.wait("document.getElementById('review').textContent.includes('The address is incomplete')")
    assert "w0" not in page.evaluate("document.documentElement.outerHTML.replace(/<script>.*/s, '')")


def test_what_came_from_data_stays_text(serve, report):
    cards, moved = [], (Moved(HOSTILE[0], HOSTILE[1], 12),)
    for i, hostile in enumerate(HOSTILE):
        texts = [f"{hostile} before book{i} {hostile}, {'x' * j}" for j in range(12)]
        flips = tuple(Flip.of(20 * i + j, HOSTILE[0], HOSTILE[1], text) for j, text in enumerate(texts))
        cards.append(card(f"book{i}", hostile, pushes_towards=HOSTILE[0], flips=flips, moved=moved))
    audit = to_review(0, cards=tuple(cards), label_names=(HOSTILE[0], HOSTILE[1]))
    in_file = report(audit)
    assert HOSTILE[0] in in_file.evaluate(HEADING)
    _, opened, server = serve(audit, by=HOSTILE[0])
    page = opened()
    press(page, *["3"] * len(cards), *["a"] * 5)
    page.evaluate(f"{STEPS}[0].click()")
    for shown in (page, in_file):
        assert shown.evaluate("document.querySelectorAll('#review :is(img, script, style)').length") == 0
        assert shown.evaluate("document.title") != "run"
        assert HOSTILE[0] in shown.evaluate("document.querySelector('#review .said').textContent")
        assert not shown.events("Runtime.exceptionThrown")
        assert not shown.events("Log.entryAdded")
    # And no other address is asked for anything.
    asked = {event["request"]["url"] for event in page.events("Network.requestWillBeSent")}
    asked = {url for url in asked if not url.startswith("data:")}
    assert asked
    assert all(url.startswith(f"http://{server.hosts[0]}/") for url in asked)
