"""Requests to an endpoint: retried, no faster than allowed, each with an end, and with a key that shows nowhere.

Ready-made clients of chat services wait a minute at most where a server asks for more, and follow redirects with the
key. Their timeouts are of each read: an answer that drips never ends. An event loop can cut a whole one short.
"""

from __future__ import annotations

import asyncio
import email.utils
import ipaddress
import json
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx2

from ..errors import ConfigError, RunError
from ..text import visible_name
from ..threads import Lock
from .secret import Secret
from .settings import EndpointSettings

_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_WAIT = 60.0  # seconds between two tries of our own choosing
_LONGEST_ASKED = 600.0  # seconds that a server may ask to wait
_MOST_BYTES = 10_000_000  # of an answer
_LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.proxy")  # which log what comes back


class RejectedError(Exception):
    """The server says that it cannot answer this request; asking again would not help."""


class StoppedError(RunError):
    """Nothing is sent any more, since another request failed."""


class Endpoint:
    """One address to which JSON is posted, within a `with` block.

    Once `stopped` is set, nothing is sent any more, and nobody goes on waiting.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        url = settings.url.rstrip("/")
        self.url = url if url.endswith("/chat/completions") else f"{url}/chat/completions"
        self.stopped = threading.Event()
        self._settings = settings
        self._sleep: Callable[[float], object] = self.stopped.wait
        self._loopback = _checked_address(settings.url, settings.allow_http)
        self.secret = Secret(_key_of(settings.api_key_env) if settings.api_key_env else "")
        self._gap, self._next = 60.0 / (settings.requests_per_minute or float("inf")), 0.0
        self._guard = Lock()

    def __enter__(self) -> None:
        self.stopped.clear()
        with ExitStack() as opened:
            self._loop = opened.enter_context(_running_loop())
            self._client = httpx2.AsyncClient(
                headers=self.secret.header(),
                timeout=None,  # `_fetch` has one for the whole
                trust_env=not self._loopback,  # a proxy does not lead back to this machine
                limits=httpx2.Limits(max_connections=None),
            )
            opened.callback(lambda: self._wait_for(self._client.aclose()))
            for name in _LOGGERS:
                logging.getLogger(name).addFilter(self.secret.filter)
                opened.callback(logging.getLogger(name).removeFilter, self.secret.filter)
            self._open = opened.pop_all()

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def post(self, body: dict[str, Any]) -> dict[str, Any]:
        """The JSON object that comes back.

        Raises:
            RejectedError: The server does not answer this request (status 400, 413, 422).
            ConfigError: It refuses all: key, address or model is wrong (401, 403, 404, a redirect).
            RunError: It was tried often enough, or what came back is no JSON object.
        """
        retries = self._settings.retries
        for tried in range(retries + 1):
            self._wait_for_turn()
            if self.stopped.is_set():
                raise StoppedError(f"{self.url} is not asked any more.")
            asked = None
            try:
                response, answer = self._wait_for(self._fetch(body))
            except TimeoutError:
                reason = f"no whole answer in {self._settings.timeout:g} seconds"
            except httpx2.HTTPError as error:
                reason = self._clean(_why(error))
                # A certificate that is not trusted will not be the next time either.
                if "CERTIFICATE_VERIFY_FAILED" in reason:
                    raise ConfigError(f"{self.url}: the certificate is not trusted ({reason}).") from None
            else:
                if response.status_code not in _RETRIED:
                    return self._checked(response, answer)
                reason, asked = self._status(response, answer), _asked_wait(response.headers.get("Retry-After", ""))
            if asked is not None and asked > _LONGEST_ASKED:
                raise RunError(f"{self.url}: {reason}; the server asks to wait {asked:.0f} seconds. Run again then.")
            if tried < retries:
                # Doubled each time, with some chance so that many clients do not come back at once.
                own = min(_LONGEST_WAIT, 2.0**tried) * (0.5 + random.random() / 2)
                self._sleep(own if asked is None else asked)
        raise RunError(f"{self.url} did not answer, tried {retries + 1} times: {reason}.")

    def _wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _fetch(self, body: dict[str, Any]) -> tuple[httpx2.Response, Any]:
        """A response, and the JSON in it or `None`; a TimeoutError where it was not there to its end in time."""
        content = bytearray()
        asked = self._client.stream("POST", self.url, json=body)
        async with asyncio.timeout(self._settings.timeout), asked as response:
            async for some in response.aiter_bytes():
                content += some
                if len(content) > _MOST_BYTES:
                    raise RunError(f"{self.url} answered with more than {_MOST_BYTES:,} bytes. Is the url right?")
        try:
            return response, self.secret.out_of_json(json.loads(content))
        except (ValueError, RecursionError):
            return response, None

    def _checked(self, response: httpx2.Response, answer: Any) -> dict[str, Any]:
        status = self._status(response, answer)
        if response.status_code in (400, 413, 422):
            raise RejectedError(status)
        if response.is_redirect:
            raise ConfigError(f"{self.url} redirects elsewhere, which is not followed. Give the address it leads to.")
        if not response.is_success:
            raise ConfigError(f"{self.url} refuses ({status}). Check url, model and api_key_env.")
        if not isinstance(answer, dict):
            raise RunError(f"{self.url} answered with something else than a JSON object. Is the url right?")
        return answer

    def _status(self, response: httpx2.Response, answer: Any) -> str:
        """The status with the server's own words."""
        said = answer.get("error", answer) if isinstance(answer, dict) else ""
        said = said.get("message", said) if isinstance(said, dict) else said
        return self._clean(f"status {response.status_code} {said}")

    def _clean(self, said: object) -> str:
        """A message on one line, without the key should a server repeat it, and without what a terminal would obey."""
        return visible_name(self.secret.out_of(" ".join(str(said).split())))[:300]

    def _wait_for_turn(self) -> None:
        with self._guard:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._gap
        if at > now:
            self._sleep(at - now)


def _why(error: BaseException) -> str:
    """What the operating system says of a connection, or else the error itself."""
    inner = error
    while (cause := inner.__cause__ or inner.__context__) is not None:
        inner = cause
    refused = isinstance(inner, ConnectionError) and inner.errno
    return os.strerror(refused) if refused else str(error) or type(error).__name__


@contextmanager
def _running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _checked_address(url: str, allow_http: bool) -> bool:
    """Whether an address that can be used is this machine's own."""
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        parts = httpx2.URL("")
    if {"@", "?", "#"} & set(url):  # told of before the address is, for what follows may be a key
        raise ConfigError(
            "url must hold no user name or password, and nothing from '?' or '#' on. Put a key into an environment "
            "variable (api_key_env)."
        )
    if parts.scheme not in ("http", "https") or not parts.host:
        raise ConfigError(f"url must be an address such as https://host/v1, but is '{visible_name(url)}'.")
    try:
        loopback = ipaddress.ip_address(parts.host).is_loopback
    except ValueError:
        loopback = parts.host == "localhost"
    if parts.scheme == "http" and not loopback and not allow_http:
        raise ConfigError(
            f"'{url}' is not encrypted, so that texts and key could be read on the way. Use https, or allow it with "
            "allow_http = true."
        )
    return loopback


def _key_of(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not key:
        shown = f" {variable}" if re.fullmatch("[A-Z][A-Z0-9_]*", variable) else ""  # else it may be the key itself
        raise ConfigError(f"The environment variable{shown} that api_key_env names is not set. Put the key there.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"The environment variable {variable} holds something that can be no key.")
    return key


def _asked_wait(value: str) -> float | None:
    """Seconds that `Retry-After` asks for, as a number or a date."""
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError, OverflowError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None
