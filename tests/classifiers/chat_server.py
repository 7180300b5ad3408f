"""A chat endpoint on the loopback address that counts what it is asked."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

P_POSITIVE = 0.8


@dataclass
class Asked:
    """What arrived: bodies, headers, and how often each text was asked about."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)

    def text(self, body: dict[str, Any]) -> str:
        return str(body["messages"][-1]["content"].split("Text: ")[1].partition("\n")[0])


Reply = tuple[int, dict[str, str], Any]


def chat(content: str, tokens: list[tuple[str, dict[str, float]]] | None = None) -> dict[str, Any]:
    """A response; tokens with the probabilities of the likely ones in their places."""
    steps = [
        {
            "token": token,
            "logprob": math.log(likely[token]),
            "top_logprobs": [{"token": t, "logprob": math.log(p)} for t, p in likely.items()],
        }
        for token, likely in tokens or []
    ]
    choice = {"message": {"role": "assistant", "content": content}, "logprobs": {"content": steps} if steps else None}
    return {"model": "served-1", "choices": [choice]}


def by_words(text: str, body: dict[str, Any]) -> Reply:
    """Positive where the text says good; log-probabilities where they are asked for."""
    right, wrong = ("positive", "negative") if "good" in text else ("negative", "positive")
    likely = {right: P_POSITIVE, wrong: 1 - P_POSITIVE}
    return 200, {}, chat(right, [(right, likely)] if body.get("logprobs") else None)


def without_log_probs(text: str, body: dict[str, Any]) -> Reply:
    status, headers, answer = by_words(text, {})
    return status, headers, answer


@contextmanager
def served(reply: Callable[[str, dict[str, Any]], Reply] = by_words) -> Iterator[Asked]:
    """The server, for as long as the block runs."""
    asked = Asked()
    guard = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = asked.text(body)
            with guard:
                asked.bodies.append(body)
                asked.headers.append(dict(self.headers))
            status, headers, answer = reply(text, body)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                return  # whoever asked is gone
            with guard:
                if status == 200:
                    asked.answered.append(text)

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    asked.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
