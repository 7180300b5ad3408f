"""Requests to an endpoint: retried, no faster than allowed, and with a key that shows nowhere.

The standard library does. One kind of request needs no client package, and each would bring rules of its own on retries
and redirects that would have to be switched off.
"""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import json
import os
import random
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from ..errors import ConfigError, RunError

_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_WAIT = 60.0  # seconds between two tries of our own choosing
_LONGEST_ASKED = 600.0  # seconds that a server may ask to wait
_LARGEST = 10_000_000  # bytes of an answer


class RejectedError(Exception):
    """The server says that it cannot answer this request; asking again would not help."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the key and the texts elsewhere."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


class Endpoint:
    """One address to which JSON is posted.

    Args:
        url: Where to post.
        api_key_env: Name of the environment variable with the key; `None` sends none.
        timeout: Seconds to wait for an answer.
        retries: How often to try again.
        per_minute: Most requests a minute, tries included; `None` for no limit.
        allow_http: Whether texts and key may travel unencrypted to another machine.

    Attributes:
        stopped: Once set, nothing is sent any more, and nobody goes on waiting.

    Raises:
        ConfigError: The address or the key cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key_env: str | None = None,
        timeout: float = 60.0,
        retries: int = 6,
        per_minute: float | None = None,
        allow_http: bool = False,
    ) -> None:
        self.url, self._timeout, self._retries = url, timeout, retries
        self.stopped = threading.Event()
        self._sleep: Callable[[float], object] = self.stopped.wait
        loopback = _checked_address(url, allow_http)
        self._key = _key_of(api_key_env)
        handlers: list[Any] = [_NoRedirect()]
        if loopback:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._guard = threading.Lock()

    def post(self, body: dict[str, Any]) -> dict[str, Any]:
        """The JSON object that comes back.

        Raises:
            RejectedError: The server does not answer this request (status 400, 413, 422).
            ConfigError: It refuses all: key, address or model is wrong (401, 403, 404, a redirect).
            RunError: It was tried often enough, or what came back is no JSON object.
        """
        for tried in range(self._retries + 1):
            self._wait_for_turn()
            if self.stopped.is_set():
                raise RunError(f"{self.url} is not asked any more.")
            try:
                return self._once(body)
            except urllib.error.HTTPError as error:
                reason, asked = self._status_reason(error), _asked_wait(error.headers.get("Retry-After"))
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                # A certificate that is not trusted will not be the next time either.
                if isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError):
                    raise ConfigError(f"{self.url}: the certificate is not trusted ({self._clean(error)}).") from None
                reason, asked = self._clean(error), None
            if asked is not None and asked > _LONGEST_ASKED:
                raise RunError(f"{self.url}: {reason}; the server asks to wait {asked:.0f} seconds. Run again then.")
            if tried < self._retries:
                self._sleep(_wait(tried) if asked is None else asked)
        raise RunError(f"{self.url} did not answer, tried {self._retries + 1} times: {reason}.")

    def _once(self, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "shortcut-guardrail"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers, method="POST")
        with self._opener.open(request, timeout=self._timeout) as response:
            content = response.read(_LARGEST + 1)
        try:
            answer = json.loads(content) if len(content) <= _LARGEST else None
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise RunError(f"{self.url} answered with something else than a JSON object. Is the url right?")
        return answer

    def _status_reason(self, error: urllib.error.HTTPError) -> str:
        """What a status that may be retried says; raises for the others."""
        said = self._clean(_message(error))
        if error.code in _RETRIED:
            return f"status {error.code} {said}".strip()
        if error.code in (400, 413, 422):
            raise RejectedError(f"status {error.code} {said}".strip())
        if 300 <= error.code < 400:
            raise ConfigError(f"{self.url} redirects elsewhere, which is not followed. Give the address it leads to.")
        raise ConfigError(f"{self.url} refuses (status {error.code} {said}). Check url, model and api_key_env.")

    def _clean(self, error: object) -> str:
        """A message on one line, without the key should a server repeat it."""
        said = " ".join(str(getattr(error, "reason", error)).split())[:300]
        return said.replace(self._key, "***") if self._key else said

    def _wait_for_turn(self) -> None:
        if not self._gap:
            return
        with self._guard:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._gap
        if at > now:
            self._sleep(at - now)


def _checked_address(url: str, allow_http: bool) -> bool:
    """Whether an address is this machine's own.

    Raises:
        ConfigError: It cannot be used.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"url must be an address such as https://host/v1, but is '{url}'.")
    if parts.username or parts.password:
        raise ConfigError(
            "url must hold no user name or password. Put a key into an environment variable (api_key_env)."
        )
    loopback = _is_loopback(parts.hostname)
    if parts.scheme == "http" and not loopback and not allow_http:
        raise ConfigError(
            f"'{url}' is not encrypted, so that texts and key could be read on the way. Use https, or allow it with "
            "allow_http = true."
        )
    return loopback


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _key_of(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"The environment variable {variable} (api_key_env) is not set. Put the key there.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"The environment variable {variable} holds something that can be no key.")
    return key


def _message(error: urllib.error.HTTPError) -> str:
    """The server's own words."""
    try:
        content = error.read(100_000)
        values = json.loads(content)
        said = values.get("error", values)
        return str(said.get("message", said) if isinstance(said, dict) else said)
    except (ValueError, AttributeError, OSError, http.client.HTTPException):
        return ""


def _asked_wait(value: str | None) -> float | None:
    """Seconds that `Retry-After` asks for, as a number or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _wait(tried: int) -> float:
    """Doubled each time, with some chance so that many clients do not come back at once."""
    return float(min(_LONGEST_WAIT, 2.0**tried) * (0.5 + random.random() / 2))
