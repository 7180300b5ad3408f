"""A server for one person's browser on this machine, which lets nobody else in.

It is the standard library's: four addresses, one person and the loopback address need no more, and nothing has to be
kept up to date. What keeps others out:

- it listens on 127.0.0.1 alone, and answers to `Host` 127.0.0.1 or localhost with its port alone, so that no page of
  another name that is made to point here (DNS rebinding) is answered;
- every address but that of the page, which holds no data, needs a random token of 256 bits. The browser has it from the
  fragment of the address, which is never sent, and sends it in a header, which no other page can;
- a POST needs this server's own `Origin` and JSON, which forms of other pages cannot send;
- no header allows another origin anything (CORS), to frame the page, or to guess at types;
- each connection ends after `slow` seconds, whatever it has sent or read by then.
"""

import hmac
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any

from ..data import parse_json, to_json
from ..errors import ConfigError, DataError, RunError
from .session import Session, StaleError

HOST = "127.0.0.1"
MOST_BYTES = 1_000_000
"""Of a request's body."""

MOST_OPEN = 64  # connections; with one more, the one that is open longest is dropped


@dataclass(frozen=True)
class Page:
    """The page, HTML without data, and its content security policy."""

    content: str
    policy: str


class ReviewServer(ThreadingHTTPServer):
    """Serves one session on a port (0: any free one) until it is told to stop or had no request for `idle` seconds."""

    daemon_threads, timeout, request_queue_size = True, 0.2, MOST_OPEN
    # Elsewhere than on POSIX it would let two servers have one port, and take turns.
    allow_reuse_address = os.name == "posix"

    def __init__(
        self, session: Session, page: Page, *, port: int = 0, idle: float = 3600.0, slow: float = 10.0
    ) -> None:
        self.session, self.page, self.idle, self.slow = session, page, idle, slow
        self._opened: dict[socket, float] = {}  # when, oldest first
        self.token = secrets.token_urlsafe(32)
        self.last = time.monotonic()
        self.gone = False
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"Port {port} of this machine cannot be used ({error.strerror or error}). Name another with "
                "port=, or leave it out for any free one."
            ) from error
        self.port: int = self.server_address[1]
        self.hosts = (f"{HOST}:{self.port}", f"localhost:{self.port}")

    @property
    def address(self) -> str:
        """The address of the page, with the token that lets in."""
        return f"http://{self.hosts[0]}/#{self.token}"

    def run(self) -> bool:
        """Serve until it is stopped; whether that was because it was idle."""
        try:
            while not self.gone and time.monotonic() - self.last < self.idle:
                self.handle_request()
                self._drop_slow()
        finally:
            # Browsers open connections ahead: what comes in on them now would be saved after the lock is given back.
            self.gone = True
            self.server_close()
        return time.monotonic() - self.last >= self.idle

    def stop(self) -> None:
        """Stop soon, from any thread; an answer that is under way is still given."""
        self.gone = True

    def _drop_slow(self) -> None:
        """Shut connections down that are open too long, or too many: their threads read an end, and leave."""
        opened = list(self._opened.items())
        for at, (connection, since) in enumerate(opened, start=MOST_OPEN - len(opened)):
            if at < 0 or time.monotonic() - since > self.slow:
                with suppress(OSError):  # it is gone already
                    connection.shutdown(SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request, in a thread of its own."""
        self._opened[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._opened.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that left in the middle of an answer is nothing to report."""


class _Refused(Exception):
    """A request that is not answered: the HTTP status, and why in a sentence."""


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "review", ""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, method: Callable[[], Any]) -> None:
        if self.server.gone:
            self.close_connection = True
            return
        try:
            self._check_host()
            self._send(HTTPStatus.OK, method())
        except StaleError:
            self._send(HTTPStatus.CONFLICT, self.server.session.state())
        except _Refused as refused:
            self.send_error(*refused.args)
        except RunError as error:
            self.send_error(HTTPStatus.INSUFFICIENT_STORAGE, f"Not saved. {error}")
        except (ConfigError, DataError) as error:
            self.send_error(HTTPStatus.BAD_REQUEST, f"Not saved. {error}")
        except OSError as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, f"Not saved: {error.strerror or error}.")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is refused, also by the standard library, such as another method, with the headers of every answer."""
        self._send(HTTPStatus(code), {"error": message or HTTPStatus(code).phrase})

    # Who may ask

    def _check_host(self) -> None:
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "This address is not served here.")

    def _check_token(self) -> None:
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {self.server.token}".encode()):
            raise _Refused(HTTPStatus.FORBIDDEN, "The address is incomplete. Open the one that the command printed.")
        self.server.last = time.monotonic()

    def _check_sender(self) -> None:
        if self.headers.get_all("Origin") != [f"http://{self.headers['Host']}"]:
            raise _Refused(HTTPStatus.FORBIDDEN, "Only the page of this server may send answers.")
        if self.headers.get_all("Content-Type") != ["application/json"]:
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Only application/json is read.")

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "A Content-Length is needed.")
        if len(length) > 12 or int(length) > MOST_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"At most {MOST_BYTES:,} bytes are read.")
        content = self.rfile.read(int(length))
        if len(content) < int(length):  # what was cut short may still be JSON
            raise _Refused(HTTPStatus.BAD_REQUEST, "The body is shorter than its Content-Length.")
        try:
            return parse_json(content.decode())
        except ValueError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "The body is not valid JSON.") from None

    # What is answered

    def _get(self) -> Any:
        if self.path == "/":
            return self.server.page
        self._check_token()
        session = self.server.session
        if self.path == "/api/review":
            return {"deck": session.deck.to_dict(), "state": session.state()}
        if self.path == "/api/decisions":
            return session.content()
        raise _Refused(HTTPStatus.NOT_FOUND, "There is no such address.")

    def _post(self) -> Any:
        self._check_token()
        self._check_sender()
        body, session = self._body(), self.server.session
        if self.path == "/api/stop":
            self.server.stop()
            return {"stopped": True}
        if self.path not in ("/api/answer", "/api/undo"):
            raise _Refused(HTTPStatus.NOT_FOUND, "There is no such address.")
        if not isinstance(body, dict) or not isinstance(body.get("revision"), int):
            raise _Refused(HTTPStatus.BAD_REQUEST, "An object with a 'revision' is needed.")
        if self.path == "/api/undo":
            session.undo(body["revision"])
        else:
            session.save(body, body["revision"])
        return session.state()

    def _send(self, status: HTTPStatus, values: Any) -> None:
        """Send the page, the content of a file of JSON, or values as JSON."""
        is_page = isinstance(values, Page)
        text = values.content if is_page else to_json(values) if not isinstance(values, bytes) else ""
        content = text.encode("utf-8", "replace") if text else values
        # One answer a connection: a body that is not read is not taken for a request, and none outlives the server.
        self.close_connection = True
        self.send_response(status)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8" if is_page else "application/json",
            "Content-Length": str(len(content)),
            "Content-Security-Policy": self.server.page.policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
            "Connection": "close",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed: the terminal is for the person."""
