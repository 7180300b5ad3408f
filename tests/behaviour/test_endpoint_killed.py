"""An audit of an endpoint that is killed again and again goes on where it stopped, by the server's own count."""

import multiprocessing
import os
import random
import signal
import time
from collections import Counter

from classifiers.chat_server import chat, served
from planted_words import NAMES, by_words, planted_texts
from shortcut_guardrail import AuditConfig, ShortcutGuardrail

KILLS, PARALLEL = 6, 2
TEXTS, _ = planted_texts(40)


def by_planted(text, body):
    (p,) = by_words([text])[:, 1]
    return 200, {}, chat("positive" if p > 0.5 else "negative", {"positive": float(p), "negative": float(1 - p)})


def audited(file, cache):
    return ShortcutGuardrail.around(file, NAMES, cache=cache).audit(TEXTS, config=AuditConfig(unit="word"))


def test_what_was_paid_for_is_not_paid_for_again(tmp_path):
    whole, killed, file = (tmp_path / name for name in ("whole", "killed", "endpoint.toml"))
    rng, context = random.Random(0), multiprocessing.get_context("fork")
    with served(by_planted) as asked:
        file.write_text(f'kind = "endpoint"\nmodel = "m"\nurl = "{asked.url}"\nparallel = {PARALLEL}\n')
        expected = audited(file, whole)
        once = Counter(asked.answered)
        asked.answered.clear()
        for _ in range(KILLS):
            goal = len(asked.answered) + rng.randrange(1, 30)
            child = context.Process(target=audited, args=(file, killed))
            child.start()
            while len(asked.answered) < goal and child.is_alive():
                time.sleep(0.002)
            assert child.is_alive(), "it was over before it was killed: give more texts"
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
        report = audited(file, killed)
    assert [(c.text, c.q_value) for c in report.candidates] == [(c.text, c.q_value) for c in expected.candidates]
    paid = Counter(asked.answered)
    assert paid.keys() == once.keys()
    # Only what was on its way when it was killed can have been answered for nothing.
    assert (paid - once).total() <= KILLS * PARALLEL
