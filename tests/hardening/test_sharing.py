"""One guard and several users: threads, an event loop, a fit beside predictions, and processes that are forked."""

import asyncio
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shortcut_guardrail import AdapterConfig, GuardrailConfig, SaliencyConfig, ShortcutGuardrail
from shortcut_guardrail.errors import RunError

STRONG = GuardrailConfig(
    preset="test", saliency=SaliencyConfig(top_k=3), adapter=AdapterConfig(learning_rate=2e-2, epochs=3, batch_size=4)
)


@pytest.fixture
def guard(bert, texts):
    guard = ShortcutGuardrail(*bert, batch_size=4)
    guard.fit(texts, config=STRONG)
    return guard


def test_four_threads_and_an_event_loop_get_the_answers_of_one(guard, texts):
    alone = guard.predict_proba(texts)
    assert not np.allclose(alone, guard.predict_proba(texts, strength=0), atol=1e-3)
    with ThreadPoolExecutor(4) as pool:
        for probs in pool.map(lambda _: guard.predict_proba(texts), range(20)):
            np.testing.assert_array_equal(probs, alone)

    async def several():
        return await asyncio.gather(*(asyncio.to_thread(guard.predict_proba, texts) for _ in range(8)))

    for probs in asyncio.run(several()):
        np.testing.assert_array_equal(probs, alone)


def test_predictions_beside_a_fit_are_those_before_it_or_after_it(bert, texts):
    guard = ShortcutGuardrail(*bert, batch_size=4)
    before = guard.predict_proba(texts)
    answers = []
    started = threading.Event()

    def fit():
        started.set()
        guard.fit(texts, config=STRONG)

    with ThreadPoolExecutor(4) as pool:
        fitted = pool.submit(fit)
        started.wait()
        answers += pool.map(lambda _: guard.predict_proba(texts), range(12))
        fitted.result()
    after = guard.predict_proba(texts)
    assert not np.array_equal(before, after)
    assert all(np.array_equal(probs, before) or np.array_equal(probs, after) for probs in answers)


def in_child(work, seconds=30):
    """The status with which a forked process leaves after its work; it is stopped where it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which is what is tried
        child = os.fork()
    if child == 0:
        try:
            status = work()
        except BaseException:
            status = 99
        os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_needs_a_guard_of_its_own(guard, texts):
    def predict():
        try:
            guard.predict_proba(texts)
        except RunError as error:
            return 7 if "Load one guard in each process." in str(error) else 8
        return 0

    assert in_child(predict) == 7
    # The partner: the process that loaded it goes on.
    assert len(guard.predict_proba(texts)) == len(texts)
