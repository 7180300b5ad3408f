"""Requests to an endpoint: retried, no faster than allowed, and with a key that shows nowhere.

Ready-made clients of chat services wait a minute at most where a server asks for more, and follow redirects with the
key.
"""

from __future__ import annotations

import email.utils
import ipaddress
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx2

from ..errors import ConfigError, RunError
from .settings import EndpointSettings

_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_WAIT = 60.0  # seconds between two tries of our own choosing
_LONGEST_ASKED = 600.0  # seconds that a server may ask to wait


class RejectedError(Exception):
    """The server says that it cannot answer this request; asking again would not help."""


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
        self._key = _key_of(settings.api_key_env) if settings.api_key_env else ""
        self._gap, self._next = 60.0 / (settings.requests_per_minute or float("inf")), 0.0
        self._guard = threading.Lock()

    def __enter__(self) -> None:
        self.stopped.clear()
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=self._settings.timeout,
            trust_env=not self._loopback,  # a proxy does not lead back to this machine
            limits=httpx2.Limits(max_connections=None),
        )

    def __exit__(self, *_: object) -> None:
        self._client.close()

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
                raise RunError(f"{self.url} is not asked any more.")
            asked = None
            try:
                response = self._client.post(self.url, json=body)
            except httpx2.HTTPError as error:
                reason = self._clean(error) or type(error).__name__
                # A certificate that is not trusted will not be the next time either.
                if "CERTIFICATE_VERIFY_FAILED" in reason:
                    raise ConfigError(f"{self.url}: the certificate is not trusted ({reason}).") from None
            else:
                if response.status_code not in _RETRIED:
                    return self._checked(response)
                reason, asked = self._status(response), _asked_wait(response.headers.get("Retry-After", ""))
            if asked is not None and asked > _LONGEST_ASKED:
                raise RunError(f"{self.url}: {reason}; the server asks to wait {asked:.0f} seconds. Run again then.")
            if tried < retries:
                # Doubled each time, with some chance so that many clients do not come back at once.
                own = min(_LONGEST_WAIT, 2.0**tried) * (0.5 + random.random() / 2)
                self._sleep(own if asked is None else asked)
        raise RunError(f"{self.url} did not answer, tried {retries + 1} times: {reason}.")

    def _checked(self, response: httpx2.Response) -> dict[str, Any]:
        status = self._status(response)
        if response.status_code in (400, 413, 422):
            raise RejectedError(status)
        if response.is_redirect:
            raise ConfigError(f"{self.url} redirects elsewhere, which is not followed. Give the address it leads to.")
        if not response.is_success:
            raise ConfigError(f"{self.url} refuses ({status}). Check url, model and api_key_env.")
        answer = _json_of(response)
        if not isinstance(answer, dict):
            raise RunError(f"{self.url} answered with something else than a JSON object. Is the url right?")
        return answer

    def _status(self, response: httpx2.Response) -> str:
        """The status with the server's own words."""
        answer = _json_of(response)
        said = answer.get("error", answer) if isinstance(answer, dict) else ""
        said = said.get("message", said) if isinstance(said, dict) else said
        return self._clean(f"status {response.status_code} {said}")

    def _clean(self, said: object) -> str:
        """A message on one line, without the key should a server repeat it."""
        line = " ".join(str(said).split())
        return (line.replace(self._key, "***") if self._key else line)[:300]

    def _wait_for_turn(self) -> None:
        with self._guard:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._gap
        if at > now:
            self._sleep(at - now)


def _json_of(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _checked_address(url: str, allow_http: bool) -> bool:
    """Whether an address that can be used is this machine's own."""
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        parts = httpx2.URL("")
    if parts.scheme not in ("http", "https") or not parts.host or parts.query or parts.fragment:
        raise ConfigError(f"url must be an address such as https://host/v1, but is '{url}'.")
    if parts.userinfo:
        raise ConfigError(
            "url must hold no user name or password. Put a key into an environment variable (api_key_env)."
        )
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
        raise ConfigError(f"The environment variable {variable} (api_key_env) is not set. Put the key there.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"The environment variable {variable} holds something that can be no key.")
    return key


def _asked_wait(value: str) -> float | None:
    """Seconds that `Retry-After` asks for, as a number or a date."""
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None
