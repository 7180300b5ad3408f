"""What a review takes: keys pressed, words displayed, and an estimate of minutes.

    python docs/tools/review_effort.py audit/audit.json results/review_effort.json --name Amazon

A headless Chromium shows the page. All cards are answered "not sure" by one key each, then thirty texts by one key
each, in turn one way and the other so that no card is decided early. `words_displayed` are all that stand on the page,
question after question; `words_new` those in lines that were not there before, since nobody reads the same button forty
times. The estimate reads the new ones at 238 words a minute (Brysbaert 2019, adults reading English silently) and adds
two seconds an answer. It is an estimate: nobody was timed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from pathlib import Path

from browser import Browser, Page, find_chromium
from shortcut_guardrail.report import read_audit, render_review
from shortcut_guardrail.review import Page as ReviewPage
from shortcut_guardrail.review import ReviewServer, Rules, Session, make_deck

TEXTS = 30
WORDS_A_MINUTE, SECONDS_AN_ANSWER = 238, 2.0
SHOWN = "document.getElementById('review').innerText"


def main() -> None:
    """Parse, count, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("audit", type=Path, help="an audit.json with texts")
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--name", required=True, help="what to call the texts")
    arguments = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        parser.error("no Chromium is installed (apt-get install chromium)")
    rules = Rules(make_deck(read_audit(arguments.audit)))
    with tempfile.TemporaryDirectory() as folder, Browser(executable) as browser:
        session = Session(rules, Path(folder) / "decisions.json", "nobody")
        server = ReviewServer(session, ReviewPage(*render_review()))
        threading.Thread(target=server.run, daemon=True).start()
        found = count(browser.visit(server.address), session)
        server.shutdown()
    arguments.out.write_text(json.dumps({"texts": arguments.name, **found}, indent=2) + "\n", encoding="utf-8")


def count(page: Page, session: Session) -> dict[str, float]:
    """Answer all cards and thirty texts, and count."""
    page.wait("!!document.querySelector('#review form')")
    cards = session.rules.deck.cards
    seen: set[str] = set()
    keys = texts = displayed = 0
    new = {True: 0, False: 0}  # on cards, on texts
    while texts < TEXTS:
        state = session.state()
        card = len(state["said"]) < len(cards)
        shown = page.evaluate(SHOWN)
        lines = {line.strip() for line in shown.splitlines()} - seen
        displayed += len(shown.split())
        new[card] += sum(len(line.split()) for line in lines)
        seen |= lines
        texts += not card
        page.press("4" if card else _key(state["question"], texts))
        keys += 1
        while session.record.revision == state["revision"]:
            page.evaluate("new Promise(done => setTimeout(done, 10))")
        page.evaluate("new Promise(done => setTimeout(done, 50))")
    minutes = {card: (new[card] / WORDS_A_MINUTE) for card in new}
    pauses = SECONDS_AN_ANSWER / 60
    return {
        "cards": len(cards),
        "texts_judged": texts,
        "keys": keys,
        "words_displayed": displayed,
        "words_new_on_cards": new[True],
        "words_new_on_texts": new[False],
        "estimated_minutes_for_cards": round(minutes[True] + (keys - texts) * pauses, 1),
        "estimated_minutes_for_texts": round(minutes[False] + texts * pauses, 1),
    }


def _key(question: dict[str, str], texts: int) -> str:
    """The key of one class after an even number of texts, and of the other after an odd one."""
    return "a" if (question["a"] < question["b"]) == bool(texts % 2) else "b"


if __name__ == "__main__":
    main()
