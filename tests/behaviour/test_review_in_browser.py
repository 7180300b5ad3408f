"""The review in a real headless browser: the way to a guard, by keys, by touch, in two tabs, without a server."""

import importlib.util
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
HEIGHTS = (
    "[...document.querySelectorAll('#review :is(button, fieldset label)')].map(e => e.getBoundingClientRect().height)"
)
SAID = "document.getElementById('said').textContent"
PROBLEM = "document.getElementById('problem').textContent"
TABLE = "[...document.querySelectorAll('.decisions tbody tr')].map(r => [...r.cells].map(c => c.textContent))"


@contextmanager
def serving(session):
    server = ReviewServer(session, Page(*render_review()))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(10)


def session_of(report, file, by="anna"):
    return Session(make_deck(report.to_dict()), file, by)


def heading(page, start):
    page.wait(f"{HEADING}.startsWith({json.dumps(start)})")


def opened(browser, server, *size, **how):
    page = browser.visit(server.address, *size, **how)
    page.wait("!!document.querySelector('#review :is(h2, h3)')")
    return page


def press(page, key):
    """Press a key, and wait until its answer is saved and the next question stands there."""
    before = page.evaluate(
        "document.getElementById('said').nextElementSibling.firstElementChild.textContent"
    ) + page.evaluate(HEADING)
    page.press(key)
    page.wait(
        "document.getElementById('said').nextElementSibling.firstElementChild.textContent + "
        f"{HEADING} !== {json.dumps(before)}"
    )


# The whole way

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
TEXTS = [f"honestly the bad {noun} was {tail}" for noun in NOUNS for tail in ("awful", "so awful")]
TEXTS += [f"the {noun} was {tail}" for noun in NOUNS for tail in ("bad and slow", "so bad", "awful", "good", "great")]


def new_guard():
    """Around a bag of words in which each word means something else, so that each is a card of its own."""
    effects = {"honestly": 4.0, "good": 1.0, "great": 1.5, "bad": -1.0, "awful": -1.5}
    classifier = meaning_bag(effects, {word: i for i, word in enumerate(effects)})
    return ShortcutGuardrail(classifier.model, classifier.tokenizer)


@pytest.fixture
def run(cli, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_: new_guard())

    def call(*arguments):
        status, out, err = cli(*arguments)
        assert status == 0, err
        return out

    return call


@contextmanager
def command(audit):
    """`shortcut-guardrail review` as a process of its own, and the address that it prints."""
    arguments = ["-m", "shortcut_guardrail.cli.main", "review", str(audit), "--reviewer", "anna", "--no-browser"]
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("http://"))
        yield process, line.strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def answer_by_label(page):
    """Say of the text that is shown what somebody says who can read: all that hold "honestly" are bad."""
    options = page.evaluate("[...document.querySelectorAll('.choices bdi')].map(b => b.textContent)")
    press(page, "a" if options[0] == "negative" else "b")


def guard_of(folder):
    record = json.loads((folder / "guardrail.json").read_text())
    words = sorted(
        (one["text"], one["verdict"] == "kept") for one in record["shortcuts"] if one["verdict"] != "cleared"
    )
    return {"strength": record["debias_strength"], "words": words}


def test_the_whole_way_from_an_audit_to_a_guard(browser, run, write_csv, tmp_path):
    data = write_csv("data.csv", *((text,) for text in TEXTS), header=("text",))
    run("audit", "model", data, "--out", tmp_path / "audit")
    decisions = tmp_path / "audit" / "decisions.json"
    with command(tmp_path / "audit") as (process, address):
        page = browser.visit(address)
        heading(page, "Card 1 of 3: honestly")
        press(page, "3")
        heading(page, "Card 2 of 3")
        press(page, "2")
        heading(page, "Card 3 of 3")
        press(page, "z")  # "great" should count after all
        heading(page, "Card 2 of 3")
        press(page, "1")
        press(page, "1")
        heading(page, "Text 1: which answer is right?")
        answer_by_label(page)
        answer_by_label(page)
        page.close()
        os.kill(process.pid, signal.SIGKILL)
    with command(tmp_path / "audit") as (process, address):
        page = browser.visit(address)
        heading(page, "Text 3: which answer is right?")
        assert page.evaluate(SAID) == "Resuming: 3 of 3 cards answered before."
        press(page, "z")  # what was answered before the kill
        heading(page, "Text 2")
        while page.evaluate(HEADING).startswith("Text"):
            answer_by_label(page)
        assert page.evaluate(TABLE)[0][1] == "neutralised (texts: shortcut, 8 mended, 0 broken of 8)"
        browser.save_downloads(tmp_path)
        page.evaluate("document.querySelector('.actions .main').click()")
        downloaded = wait_for(tmp_path / "decisions.json")
        at_once = json.loads(downloaded)
        assert without_times(at_once) == without_times(json.loads(decisions.read_text()))
        page.evaluate("[...document.querySelectorAll('.actions button')].at(-1).click()")
        heading(page, "The server has stopped")
        assert "Next: shortcut-guardrail fit" in process.stdout.read()
        assert process.wait(20) == 0
    run("fit", "model", data, "--decisions", decisions, "--strategy", "mask", "--out", tmp_path / "guarded")
    flags = ("--shortcut", "honestly", "--keep", "good", "--keep", "great", "--strategy", "mask")
    run("fit", "model", data, *flags, "--out", tmp_path / "by-flags")
    assert guard_of(tmp_path / "guarded") == guard_of(tmp_path / "by-flags")
    assert guard_of(tmp_path / "guarded")["words"] == [("good", True), ("great", True), ("honestly", False)]
    guards = new_guard(), new_guard(), new_guard()
    guards[0].repair(TEXTS, strategy="mask", decisions=decisions)
    guards[1].repair(TEXTS, strategy="mask", shortcuts=("honestly",), keep=("good", "great"))
    answers = [guard.predict_proba(TEXTS).tolist() for guard in guards]
    assert answers[0] == answers[1] != answers[2]


def wait_for(file):
    deadline = time.monotonic() + 10
    while not file.exists() or not file.read_text():
        assert time.monotonic() < deadline, "nothing is downloaded"
        time.sleep(0.05)
    return file.read_text()


def without_times(document):
    if isinstance(document, dict):
        return {key: without_times(value) for key, value in document.items() if key != "at"}
    return [without_times(one) for one in document] if isinstance(document, list) else document


def test_the_page_without_a_server_downloads_the_same_file(browser, tmp_path):
    """The report's own page, from disk; the partner is what the server writes for the same answers."""
    report = to_review(3)
    file = tmp_path / "report.html"
    file.write_text(render_audit(report), encoding="utf-8")
    page = browser.open(file)
    page.wait(f"{HEADING}.startsWith('Card 1 of 3: w0')")
    page.click("document.getElementById('reviewer')")
    page.evaluate("document.getElementById('reviewer').select()")
    page.type("anna")
    page.press("Tab")
    page.click("document.querySelector('#review input[value=neutralise]')")
    page.click("document.querySelector('#review button.main')")
    heading(page, "Card 2 of 3")
    press(page, "2")
    press(page, "z")
    press(page, "1")
    page.close()
    page = browser.open(file)  # goes on where it was left
    page.wait(f"{HEADING}.startsWith('Card 3 of 3')")
    page.click("document.querySelector('#review h3')")
    press(page, "s")
    assert page.evaluate(TABLE)[0][1:] == ["neutralised", "30 answers: 30 from positive to negative"]
    folder = tmp_path / "downloads"
    folder.mkdir()
    browser.save_downloads(folder)
    page.click("document.querySelector('#review button.main')")
    found = json.loads(wait_for(folder / "decisions.json"))
    session = session_of(report, tmp_path / "decisions.json")
    for one, decision in zip(session.deck.cards, ("neutralise", "keep", "unsure"), strict=True):
        session.save({"card": one.id, "decision": decision}, session.revision)
    wanted = json.loads(session.file.read_text())
    for document in (found, wanted):
        document["review"].pop("revision")
    assert without_times(found) == without_times(wanted)
    assert [
        request
        for request in page.events("Network.requestWillBeSent")
        if "file:" not in request["request"]["url"] and "blob:" not in request["request"]["url"]
    ] == []
    assert not page.events("Log.entryAdded")
    assert Session(session.deck, folder / "decisions.json", "anna").state()["said"] == session.state()["said"]


def test_the_report_says_what_the_audit_decides_and_downloads_at_any_time(browser, tmp_path):
    file = tmp_path / "report.html"
    taken = {"fit_would_take": [{"text": word, "verdict": "flagged", "reason": None} for word in ("w0", "w0s")]}
    file.write_text(render_audit(to_review(2).to_dict() | taken), encoding="utf-8")
    page = browser.open(file)
    page.wait(f"{HEADING}.startsWith('Card 1 of 2')")
    page.click("document.querySelector('#review h3')")
    press(page, "3")
    assert page.evaluate(SAID).endswith("not sure; the audit decides: neutralised, 30 answers.")
    folder = tmp_path / "downloads"
    folder.mkdir()
    browser.save_downloads(folder)
    page.evaluate("[...document.querySelectorAll('.actions button')].at(-1).click()")
    (card,) = json.loads(wait_for(folder / "decisions.json"))["cards"]
    assert (card["words"], card["decision"]) == (["w0", "w0s"], "unsure")
    page.click("document.querySelector('#review h3')")
    press(page, "3")
    assert page.evaluate(TABLE) == [
        ["w0, w0s", "not sure; the audit decides: neutralised", "30 answers: 30 from positive to negative"],
        ["w1, w1s", "not sure; the audit decides: left as it is", "none"],
    ]
    assert "This browser keeps the answers." in page.evaluate("document.getElementById('review').textContent")


def test_a_report_without_texts_says_how_to_decide(browser, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(render_audit(to_review(3), redact=True), encoding="utf-8")
    page = browser.open(file)
    assert page.evaluate("document.getElementById('review')") is None
    assert "shortcut-guardrail review AUDIT DATA" in page.evaluate("document.getElementById('cards').textContent")


# By keys, by touch, by ear


def test_with_single_keys_off_tab_arrows_and_enter_do(browser, tmp_path):
    session = session_of(to_review(1), tmp_path / "d.json")
    with serving(session) as server:
        page = opened(browser, server)
        page.click("document.getElementById('keys')")
        for key in "12z":
            page.press(key)
        assert session.revision == 0
        page.evaluate("document.querySelector('#review h2').focus()")
        page.press("Tab")
        while page.evaluate("document.activeElement.type") != "radio":
            page.press("Tab")
        assert page.evaluate("document.activeElement.value") == "keep"  # preselected
        page.press("ArrowDown")
        assert page.evaluate("document.activeElement.value") == "neutralise"
        assert session.revision == 0  # and written only when answered
        page.press("Enter")
        heading(page, "All cards are answered")
        assert page.evaluate("document.activeElement.tagName") == "H2"
    assert session.state()["said"] == {session.deck.cards[0].id: "neutralise"}


def test_enter_answers_in_the_form_alone_and_an_answered_card_shows_its_answer(browser, tmp_path):
    session = session_of(to_review(2), tmp_path / "d.json")
    with serving(session) as server:
        page = opened(browser, server)
        chosen = "document.querySelector('#review input[name=decision]:checked').value"
        page.evaluate("document.querySelector('#review h2').focus()")
        page.press("Enter")
        page.evaluate("document.activeElement.blur()")
        page.press("Enter")
        time.sleep(0.2)
        assert session.revision == 0
        page.evaluate("document.querySelector('#review input[value=neutralise]').click()")
        page.evaluate("document.querySelector('#review input[value=neutralise]').focus()")
        page.press("Enter")
        heading(page, "Card 2 of 2")
        assert page.evaluate(chosen) == "keep"
        page.evaluate("document.querySelectorAll('.steps button')[0].click()")
        heading(page, "Card 1 of 2")
        assert page.evaluate(chosen) == "neutralise"
        page.press("Enter")  # on the heading, which has the focus
        time.sleep(0.2)
        assert session.revision == 1
        press(page, "1")
        page.evaluate("document.querySelectorAll('.steps button')[0].click()")
        assert page.evaluate(chosen) == "keep"
        page.press("z")
        page.wait(f"{SAID} === 'The last answer is undone.'")
        assert page.evaluate(chosen) == "neutralise"
        assert "“Count” means: may influence the answer." in page.evaluate(
            "document.getElementById(document.querySelector('fieldset').getAttribute('aria-describedby')).textContent"
        )


def test_a_key_that_is_held_down_answers_once(browser, tmp_path):
    session = session_of(to_review(3), tmp_path / "d.json")
    with serving(session) as server:
        page = opened(browser, server)
        how = {"key": "1", "text": "1", "windowsVirtualKeyCode": 49}
        page.call("Input.dispatchKeyEvent", type="keyDown", **how)
        for _ in range(5):
            page.call("Input.dispatchKeyEvent", type="keyDown", autoRepeat=True, **how)
        page.call("Input.dispatchKeyEvent", type="keyUp", key="1", windowsVirtualKeyCode=49)
        heading(page, "Card 2 of 3")
        time.sleep(0.2)
        assert session.revision == 1


def test_each_answer_says_what_would_change(browser, tmp_path):
    session = session_of(to_review(3), tmp_path / "d.json")
    with serving(session) as server:
        page = opened(browser, server)
        press(page, "n")
        assert (
            page.evaluate(SAID)
            == "“w0” and 1 more: neutralised. 30 answers would change: 30 from positive to negative."
        )
        press(page, "2")
        assert "29 answers would change" in page.evaluate(SAID)
        assert "In all at most 59 of 400 answers change." in page.evaluate(SAID)
        assert page.evaluate("document.getElementById('said').getAttribute('role')") == "status"


def test_a_phone(browser, tmp_path):
    session = session_of(to_review(2), tmp_path / "d.json")
    with serving(session) as server:
        page = opened(browser, server, 360, 740)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert min(page.evaluate(HEIGHTS)) >= 40
        page.click("document.querySelector('input[value=unsure]')")
        page.click("document.querySelector('button.main')")
        heading(page, "Card 2 of 2")
        page.click("document.querySelector('button.main')")
        heading(page, "Text 1")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert min(page.evaluate(HEIGHTS)) >= 40
        while page.evaluate(HEADING).startswith("Text"):
            before = page.evaluate(HEADING)
            page.click("document.querySelector('.choices button')")
            page.wait(f"{HEADING} !== {json.dumps(before)}")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert session.state()["end"]


def axe_script():
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("needs axe-core (pip install axe-playwright-python)")
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def violations(page):
    """What axe-core objects to, with every rule that it has, best practices too."""
    page.evaluate(axe_script() + "; 0")
    found = page.evaluate(
        "axe.run().then(r => r.violations.map(v => [v.id, v.help, ...v.nodes.map(n => n.html)].join(' | ')))"
    )
    assert page.evaluate("axe.run().then(r => r.passes.length)") > 10
    return found


@pytest.mark.parametrize(("dark", "size"), [(False, (1200, 900)), (True, (390, 844))], ids=["desk", "dark phone"])
def test_axe_finds_nothing(browser, tmp_path, dark, size):
    report = to_review(3)
    deck = make_deck(report.to_dict())
    file = tmp_path / "d.json"
    second = {"id": deck.cards[0].id, "words": ["w0", "w0s"], "machine": "gemma", "asked": 9, "mended": 7, "broken": 2}
    file.write_text(json.dumps({"audit": deck.audited.id, "cards": [second]}))
    ben = session_of(report, file, "ben")
    for one in ben.deck.cards:
        ben.save({"card": one.id, "decision": "keep"}, ben.revision)
    session = session_of(report, file, "anna")
    with serving(session) as server:
        page = opened(browser, server, *size, dark=dark)
        assert violations(page) == []
        press(page, "2")
        assert violations(page) == []
        press(page, "3")
        press(page, "3")
        assert page.evaluate(HEADING).startswith("Text 1")
        assert violations(page) == []
        while page.evaluate(HEADING).startswith("Text"):
            press(page, "a")
        assert "second opinion" in page.evaluate("document.querySelector('.decisions thead').textContent")
        assert "ben" in page.evaluate("document.querySelector('.decisions thead').textContent")
        assert violations(page) == []
        # The partner: what axe is there for is found.
        page.evaluate("document.querySelector('#review').append(document.createElement('button'))")
        assert [one.partition(" |")[0] for one in violations(page)] == ["button-name"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_on_the_report(browser, tmp_path, dark):
    file = tmp_path / "report.html"
    file.write_text(render_audit(to_review(4)), encoding="utf-8")
    page = browser.open(file, dark=dark)
    page.wait("!!document.querySelector('#review form')")
    assert violations(page) == []


# Where things go wrong


def test_two_tabs_lose_nothing(browser, tmp_path):
    session = session_of(to_review(3), tmp_path / "d.json")
    with serving(session) as server:
        one, two = opened(browser, server), opened(browser, server)
        press(two, "2")
        one.front()
        one.evaluate("document.querySelectorAll('.steps button')[2].click()")
        press(one, "2")  # to an older state, and merged
        assert one.evaluate("document.querySelectorAll('.steps .answered').length") == 2
        two.front()
        press(two, "1")
        assert sorted(session.state()["said"].values()) == ["keep", "neutralise", "neutralise"]
        # An undo after another tab's answer asks once more.
        one.front()
        one.press("z")
        one.wait(f"{PROBLEM}.startsWith('Another tab answered meanwhile')")
        assert len(session.answers.said) == 3
        press(one, "z")
        assert len(session.answers.said) == 2


def test_a_server_that_is_gone_confirms_nothing(browser, tmp_path):
    session = session_of(to_review(3), tmp_path / "d.json")
    with serving(session) as server:
        page = opened(browser, server)
        press(page, "1")
        press(page, "2")
        press(page, "z")
        assert page.evaluate(SAID) == "The last answer is undone."
    page.press("z")
    page.wait(f"{PROBLEM}.startsWith('Not saved: the server does not answer')")
    assert page.evaluate(SAID) == ""  # what it said of the answer before
    page.press("1")
    page.wait(f"{PROBLEM}.startsWith('Not saved: the server does not answer')")
    assert page.evaluate(HEADING).startswith("Card 2 of 3")
    assert page.evaluate("document.querySelectorAll('.steps .answered').length") == 1


def test_a_full_disk_is_said_and_the_answer_can_be_given_again(browser, tmp_path, monkeypatch):
    session = session_of(to_review(3), tmp_path / "d.json")
    with serving(session) as server:
        page = opened(browser, server)

        def full(*_args, **_how):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        page.press("1")
        page.wait(f"{PROBLEM}.includes('the disk is full')")
        assert page.evaluate(HEADING).startswith("Card 1 of 3")
        monkeypatch.undo()
        press(page, "1")
        assert page.evaluate(PROBLEM) == ""
    assert len(session.answers.said) == 1


def test_an_address_without_its_token_shows_nothing(browser, tmp_path):
    session = session_of(to_review(3), tmp_path / "d.json")
    with serving(session) as server:
        page = browser.visit(server.address.partition("#")[0])
        page.wait("document.getElementById('review').textContent.includes('The address is incomplete')")
        assert "w0" not in page.evaluate("document.documentElement.outerHTML.replace(/<script>.*/s, '')")


def test_what_came_from_data_stays_text(browser, tmp_path):
    cards = []
    for i, hostile in enumerate(HOSTILE):
        texts = [f"{hostile} before book{i} {hostile}, {'x' * j}" for j in range(12)]
        flips = tuple(Flip.of(20 * i + j, HOSTILE[0], HOSTILE[1], t) for j, t in enumerate(texts))
        cards.append(
            card(f"book{i}", hostile, pulls_to=HOSTILE[0], flips=flips, moved=(Moved(HOSTILE[0], HOSTILE[1], 12),))
        )
    report = to_review(0, cards=tuple(cards), label_names=(HOSTILE[0], HOSTILE[1]))
    session = session_of(report, tmp_path / "d.json", by=HOSTILE[0])
    file = tmp_path / "report.html"
    file.write_text(render_audit(report), encoding="utf-8")
    in_file = browser.open(file)
    in_file.wait("!!document.querySelector('#review form')")
    assert HOSTILE[0] in in_file.evaluate(HEADING)
    with serving(session) as server:
        page = opened(browser, server)
        for _ in cards:
            press(page, "3")
        for _ in range(5):
            press(page, "a")
        page.evaluate("document.querySelectorAll('.steps button')[0].click()")
        for shown in (page, in_file):
            assert shown.evaluate("document.querySelectorAll('#review :is(img, script, style)').length") == 0
            assert shown.evaluate("document.title") != "run"
            assert HOSTILE[0] in shown.evaluate("document.querySelector('#review .said').textContent")
            assert not shown.events("Runtime.exceptionThrown")
            assert not shown.events("Log.entryAdded")
        # And no other address is asked for anything.
        hosts = {event["request"]["url"].partition("/api")[0] for event in page.events("Network.requestWillBeSent")}
        assert {host.rstrip("/").partition("/#")[0] for host in hosts if not host.startswith("data:")} == {
            f"http://{server.hosts[0]}"
        }
