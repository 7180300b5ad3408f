"""The page on serving, word for word: its commands, its programs, and its service as a process of this machine.

The service predicts as the guard does, and bad requests do not hurt it.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from checkout import ROOT
from made_guards import TEXTS
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.cli import main

pytest.importorskip("onnxruntime")
pytest.importorskip("fastapi")


PAGE = (ROOT / "docs" / "howto" / "serve.md").read_text(encoding="utf-8").partition("## Other servers")[0]
BLOCKS = re.findall(r"^```(.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LINES = [line for kind, body in BLOCKS if not kind for line in body.splitlines()]


class Service:
    """The program, as the page starts it, but for the port."""

    def __init__(self, place):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.place, self.log = place, place / "log.txt"
        ((folder, program, *rest),) = (shlex.split(line) for line in LINES if " uvicorn --" in line)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", program, *rest[:-1], str(self.port)],
                env=os.environ | dict([folder.split("=")]),
                cwd=self.place,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
        self.process.kill()
        pytest.fail(self.log.read_text())

    def post(self, body, kind="application/json"):
        """The status and the body of an answer."""
        url = f"http://127.0.0.1:{self.port}/predict"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": kind}), timeout=60) as found:
                return found.status, json.load(found)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def predict(self, texts):
        status, found = self.post(json.dumps({"texts": texts}).encode())
        assert status == 200, found
        return found


@pytest.fixture(scope="module")
def place(saved_guards, tmp_path_factory):
    """Where a guard was exported by the page's commands."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(saved_guards / "few-shot", place / "guarded")
    (place / "deployment.csv").write_text("text\n" + "".join(f"{text}\n" for text in TEXTS))
    (place / "examples").symlink_to(ROOT / "examples")
    with contextlib.chdir(place):
        commands = [shlex.split(line)[1:] for line in LINES if line.startswith("shortcut-guardrail export ")]
        assert [main.call(command) for command in commands] == [0, 0]
    return place


@pytest.fixture(scope="module")
def guard(place):
    return ShortcutGuardrail.from_pretrained(place / "guarded")


@pytest.fixture(scope="module")
def service(place):
    running = Service(place)
    yield running
    running.process.kill()
    running.process.wait()


def test_programs_of_the_page_predict_what_the_guard_predicts(place, guard):
    made = {}
    with contextlib.chdir(place):
        for program in (body for kind, body in BLOCKS if kind == "python"):
            exec(program.replace('"..."', repr(TEXTS[1])), made)
        (found,) = made["serve"]([TEXTS[1]], truncation=True)
    expected, scores = guard.predict_proba(TEXTS[1:2]), {one["label"]: one["score"] for one in found}
    np.testing.assert_allclose([[scores[name] for name in guard.label_names]], expected, atol=1e-4)
    odds = np.exp(made["logits"])
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), expected, atol=1e-4)


def assert_right(service, guard, texts=TEXTS[:64]):
    found = service.predict(texts)
    assert [list(one) for one in found] == [list(guard.label_names)] * len(texts)
    np.testing.assert_allclose([list(one.values()) for one in found], guard.predict_proba(texts), atol=1e-4)


def test_it_predicts_what_the_guard_predicts(service, guard):
    assert_right(service, guard)
    assert_right(service, guard, ["good " * 999])
    with ThreadPoolExecutor(8) as many:  # one text a request, at once
        found = list(many.map(lambda text: service.predict([text])[0]["mixed"], TEXTS))
    np.testing.assert_allclose(found, guard.predict_proba(TEXTS)[:, 1], atol=1e-4)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"texts": []}', "at least 1 item"),
        (json.dumps({"texts": ["good"] * 65}).encode(), "at most 64 items"),
        (json.dumps({"texts": ["x" * 20_001]}).encode(), "at most 20000 characters"),
        (b'{"texts": ["good"], "strength": 1}', "Extra inputs are not permitted"),
        *[(b'{"texts": "good"}', "valid list"), (b'{"texts": [1]}', "valid string")],
        *[(b'{"texts": [""]}', "at least 1 character"), (b"texts", "JSON decode error")],
        # What no answer could repeat: numbers and letters that JSON does not have.
        *[(b'{"texts": [NaN]}', "valid string"), (rb'{"texts": ["\ud800"]}', "valid string")],
        (rb'{"texts": ["good"], "\ud800": 1}', "valid string"),
    ],
)
def test_a_bad_request_is_refused_with_the_reason(service, guard, body, said):
    status, answer = service.post(body)
    assert (status, said in answer) == (422, True), answer
    assert_right(service, guard, TEXTS[:2])
