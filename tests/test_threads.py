"""Threads that share a guard take turns, so that none computes with another's weights."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shortcut_guardrail import AdapterConfig, GuardrailConfig, SaliencyConfig, ShortcutGuardrail
from shortcut_guardrail.errors import RunError
from shortcut_guardrail.threads import Lock, one_at_a_time

STRONG = GuardrailConfig(
    preset="test", saliency=SaliencyConfig(top_k=3), adapter=AdapterConfig(learning_rate=2e-2, epochs=3, batch_size=4)
)


class Counter:
    """Counts how many threads are in it at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.inside = self.most = 0

    @one_at_a_time
    def enter(self, pause: threading.Event, depth: int = 1) -> int:
        """Stay for a moment, and enter again so many times from within."""
        self.inside += 1
        self.most = max(self.most, self.inside if depth else 0)
        pause.wait(0.01)
        if depth:
            self.enter(pause, depth - 1)
        self.inside -= 1
        return depth

    @one_at_a_time
    def fail(self) -> None:
        raise KeyError("once")


def test_one_thread_is_in_at_a_time_and_may_enter_again():
    counter, pause = Counter(), threading.Event()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: counter.enter(pause), range(8))) == [1] * 8
    assert counter.most == 1


def test_an_exception_gives_the_turn_back_and_copies_have_a_lock_of_their_own():
    counter, pause = Counter(), threading.Event()
    with pytest.raises(KeyError, match="once"):
        counter.fail()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(counter.enter, pause, 0).result(timeout=10) == 0
        with counter._lock:
            for twin in (copy.deepcopy(counter), pickle.loads(pickle.dumps(counter))):  # our own bytes
                assert pool.submit(twin.enter, pause, 0).result(timeout=10) == 0


@pytest.mark.parametrize("packing", [True, False])
def test_threads_at_several_strengths_get_the_answers_of_one(bert, texts, packing):
    guard = ShortcutGuardrail(*bert, batch_size=4, packing=packing)
    guard.fit(texts, config=STRONG)
    strengths = (0.0, 0.5, 1.0)
    alone = {s: guard.predict_proba(texts, strength=s) for s in strengths}
    assert not np.allclose(alone[0.0], alone[1.0], atol=1e-3)  # else the strengths could not be told apart
    before = guard.record().base_model["fingerprint"]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda s: guard.predict_proba(texts, strength=s), strengths * 8))
    for strength, probs in zip(strengths * 8, answers, strict=True):
        np.testing.assert_array_equal(probs, alone[strength])
    assert guard.record().base_model["fingerprint"] == before


def test_predictions_beside_a_fit_are_those_before_it_or_after_it(bert, texts):
    guard = ShortcutGuardrail(*bert, batch_size=4)
    before = guard.predict_proba(texts)
    with ThreadPoolExecutor(4) as pool:
        fitted = pool.submit(guard.fit, texts, config=STRONG)
        answers = list(pool.map(lambda _: guard.predict_proba(texts), range(12)))
        fitted.result()
    after = guard.predict_proba(texts)
    assert not np.array_equal(before, after)
    assert all(np.array_equal(probs, before) or np.array_equal(probs, after) for probs in answers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_needs_a_guard_of_its_own(bert, texts):
    guard = ShortcutGuardrail(*bert, batch_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which is what is tried
        child = os.fork()
    if child == 0:
        signal.alarm(30)  # should it hang
        try:
            guard.predict_proba(texts)
        except RunError as error:
            os._exit(7 if "Load one guard in each process." in str(error) else 8)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    # The partner: the process that loaded it goes on.
    assert len(guard.predict_proba(texts)) == len(texts)
