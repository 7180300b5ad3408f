"""A chat endpoint on the loopback address that counts what it is asked."""

import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

P_POSITIVE = 0.8
Reply = tuple[int, dict[str, str], Any]


@dataclass
class Asked:
    """What arrived: bodies, headers, and the texts that were answered."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)


def chat(content: str, likely: dict[str, float] | None = None) -> dict[str, Any]:
    """A response of one token, with the probabilities of the likely ones in its place."""
    tops = [{"token": token, "logprob": math.log(p)} for token, p in (likely or {}).items()]
    steps = [{**top, "top_logprobs": tops} for top in tops if top["token"] == content.split()[0]]
    choice = {"message": {"role": "assistant", "content": content}, "logprobs": {"content": steps} if steps else None}
    return {"model": "served-1", "choices": [choice]}


def by_words(text: str, body: dict[str, Any]) -> Reply:
    """Positive where the text says good; log-probabilities where they are asked for."""
    right, wrong = ("positive", "negative") if "good" in text else ("negative", "positive")
    return 200, {}, chat(right, {right: P_POSITIVE, wrong: 1 - P_POSITIVE} if body.get("logprobs") else None)


def without_log_probs(text: str, body: dict[str, Any]) -> Reply:
    return by_words(text, {})


@contextmanager
def served(reply: Callable[[str, dict[str, Any]], Reply] = by_words) -> Iterator[Asked]:
    """The server, for as long as the block runs."""
    asked, guard = Asked(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = str(body["messages"][-1]["content"].split("Text: ")[1].partition("\n")[0])
            with guard:
                asked.bodies.append(body)
                asked.headers.append(dict(self.headers))
            status, headers, answer = reply(text, body)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            try:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                return  # whoever asked is gone
            with guard:
                asked.answered += [text] if status == 200 else []

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


@contextmanager
def raw(reply: Callable[[bytes], Iterable[bytes]], pause: float = 0.0) -> Iterator[str]:
    """The address of a server that sends parts of what it likes, with a pause after each, to a request."""

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                for part in reply(connection.recv(100_000)):
                    connection.sendall(part)
                    time.sleep(pause)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(100_000):  # to close on what was not read would take the answer back
                    pass
            except OSError:
                pass  # whoever asked is gone

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        listening.shutdown(socket.SHUT_RDWR)
