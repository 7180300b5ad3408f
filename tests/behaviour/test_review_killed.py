"""A review that is killed while it saves: every answer that was confirmed is in the file."""

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from audits import to_review
from shortcut_guardrail.review import make_deck
from shortcut_guardrail.review.session import Session

KILLS = 30

SERVERS = """
import json, os, signal, sys
from pathlib import Path
from shortcut_guardrail.review import Page, make_deck
from shortcut_guardrail.review.server import ReviewServer
from shortcut_guardrail.review.session import Session, locked
audit, file = map(Path, sys.argv[1:])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in sys.stdin:
    if os.fork():
        continue
    with locked(file):
        server = ReviewServer(Session(make_deck(json.loads(audit.read_text())), file, "anna"), Page("", ""))
        print(os.getpid(), server.port, server.token, flush=True)
        server.run()
"""
"""Starts a server for each line that it reads: a process of its own, which need not import everything again."""


def answer_until_killed(port, token, cards, confirmed, revision):
    """Answer card after card without a pause; each that is confirmed is counted by its revision."""
    headers = {"Authorization": f"Bearer {token}", "Origin": f"http://127.0.0.1:{port}"}
    headers["Content-Type"] = "application/json"
    for i in range(100_000):
        decision = ("keep", "remove_reliance")[i // len(cards) % 2]
        body = {"card": cards[i % len(cards)], "decision": decision, "revision": revision}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("POST", "/api/answer", json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            return  # killed; this answer was not confirmed
        finally:
            connection.close()
        assert answer.status == 200, content
        revision = json.loads(content)["revision"]
        confirmed.append(revision)


@pytest.mark.slow
def test_no_confirmed_answer_is_lost(tmp_path):
    """A server is killed with -9 at a random moment while answers pour in, and the next one goes on from there."""
    audit, file = tmp_path / "audit.json", tmp_path / "decisions.json"
    audit.write_text(json.dumps(to_review(3).to_dict()), encoding="utf-8")
    deck, moments = make_deck(to_review(3).to_dict()), random.Random(0)
    cards, revision, cut = [card.id for card in deck.cards], 0, 0
    command = [sys.executable, "-c", SERVERS, str(audit), str(file)]
    servers = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(KILLS):
        print(file=servers.stdin, flush=True)
        process, port, token = servers.stdout.readline().split()
        confirmed = []
        thread = threading.Thread(target=answer_until_killed, args=(int(port), token, cards, confirmed, revision))
        thread.start()
        while not confirmed:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.05))
        os.kill(int(process), signal.SIGKILL)
        thread.join()
        found = Session(deck, file, "anna")
        # What was not confirmed may have been saved, since the kill came before the answer; never more than that one.
        assert confirmed[-1] <= found.revision == len(found.answers.said) <= confirmed[-1] + 1
        assert confirmed == list(range(revision + 1, confirmed[-1] + 1))
        left = list(tmp_path.glob(".decisions.json.new-*"))
        cut += found.revision > confirmed[-1] or bool(left)
        for one in left:
            one.unlink()
        revision = found.revision
    servers.communicate()
    assert revision > KILLS
    assert cut  # some kills came in the middle of saving
