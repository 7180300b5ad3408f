"""Threads that share a guard take turns, so that none computes with another's weights."""

import copy
import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from shortcut_guardrail import AdapterConfig, GuardrailConfig, RunError, SaliencyConfig, ShortcutGuardrail
from shortcut_guardrail.classifiers.kept import AnswerCache, KeptClassifier
from shortcut_guardrail.models import TextClassifier
from shortcut_guardrail.threads import Lock, one_at_a_time

STEPS = AdapterConfig(learning_rate=2e-2, epochs=3, batch_size=4)
STRONG = GuardrailConfig(preset="test", saliency=SaliencyConfig(top_k=3), adapter=STEPS)


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


def in_fork(work):
    """What a forked process gets from a function, or the error that it met; it has to end within 30 seconds."""
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which is what is tried
        child = os.fork()
    if child == 0:
        signal.alarm(30)  # should it hang
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writes, said.encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as answer:
        said = answer.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "it hung"
    return said


@contextmanager
def predicting(guard, texts):
    """A thread that predicts until the block ends."""
    stopped = threading.Event()

    def predict():
        while not stopped.is_set():
            guard.predict(texts)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(predict)
        try:
            yield
        finally:
            stopped.set()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
TOLD = "RunError: This process was forked from the one that loaded this model or classifier, and cannot use it. Load it"


@needs_fork
def test_a_process_that_is_forked_while_a_thread_predicts_is_told_to_load_its_own(bert, model_folder, texts, tmp_path):
    guard = ShortcutGuardrail(*bert, batch_size=4)
    judge = TextClassifier(*bert)
    kept = KeptClassifier(judge, AnswerCache(tmp_path / "answers.sqlite"))
    with predicting(guard, texts * 5):
        for ask in (guard.predict_proba, guard.audit, judge.predict_proba, judge.encode, kept.predict_proba):
            assert in_fork(lambda ask=ask: ask(texts)).startswith(TOLD), ask
        assert in_fork(lambda: len(ShortcutGuardrail.from_pretrained(model_folder).predict(texts))) == str(len(texts))
        kept.predict_proba(texts)  # The partner: the process that loaded them goes on.


class Answers(torch.utils.data.Dataset):
    """What a worker's own guard, or one of the process that made it, says of each text."""

    def __init__(self, texts, make):
        self.texts, self.make = texts, make

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return self.make().predict([self.texts[index]])[0]


@needs_fork
def test_a_worker_of_a_data_loader_loads_its_own_guard_or_is_told_to(bert, model_folder, texts):
    guard = ShortcutGuardrail(*bert)
    how = {"num_workers": 1, "multiprocessing_context": "fork", "timeout": 30, "batch_size": None}
    own = Answers(texts, functools.cache(lambda: ShortcutGuardrail.from_pretrained(model_folder)))
    with predicting(guard, texts):
        assert list(torch.utils.data.DataLoader(own, **how)) == guard.predict(texts)
        with pytest.raises(RunError, match=r"Load it in each process\."):
            next(iter(torch.utils.data.DataLoader(Answers(texts, lambda: guard), **how)))


FORKS = """
import os, signal, sys, torch
from shortcut_guardrail import RunError, ShortcutGuardrail

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # should it hang
        print(work(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)

def loaded():
    answers = ShortcutGuardrail.from_pretrained(sys.argv[1]).predict(["a soup"])
    return len(answers), round(float(torch.ones(10**6).exp().mean()), 2), torch.get_num_threads()

torch.set_num_threads(2)
in_child(loaded)  # of a process that has only imported the library
print(loaded(), flush=True)  # with threads that now wait for work
in_child(loaded)
print(loaded())
"""


@needs_fork
def test_a_forked_process_loads_its_own_also_where_the_threads_of_the_other_stayed_behind(model_folder):
    run = subprocess.run([sys.executable, "-c", FORKS, model_folder], capture_output=True, text=True, timeout=90)
    assert run.stdout.splitlines() == ["(1, 2.72, 2)", "(1, 2.72, 2)", "(1, 2.72, 1)", "(1, 2.72, 2)"], run.stderr
