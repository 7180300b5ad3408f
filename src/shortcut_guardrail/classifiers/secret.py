"""A key that shows nowhere: what comes back from a server is read without it, in whatever form it is repeated."""

from __future__ import annotations

import html
import json
import logging
import re
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

_HIDDEN = "***"
_SHORT = 8  # characters: what is shorter may stand within other words, and its other forms by chance
_DEEPEST = 64  # levels of JSON


class Secret:
    """A key, or "" for none."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._forms = re.compile("|".join(_forms(key)), re.IGNORECASE) if key else None

    def header(self) -> dict[str, str]:
        """The header that sends it."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def out_of(self, text: str) -> str:
        """A text without it: as it is, escaped, in hexadecimal, in Base64 of something around it, or cut at the end."""
        if self._forms is None:
            return text
        text = self._forms.sub(_HIDDEN, text)
        cut = next((n for n in range(len(self._key), _SHORT - 1, -1) if text.endswith(self._key[:n])), 0)
        return text[: len(text) - cut] + _HIDDEN if cut else text

    def out_of_json(self, value: object, depth: int = 0) -> object:
        """A value of JSON without it; a ValueError where it is nested too deeply."""
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        if isinstance(value, list):
            return [self.out_of_json(one, depth + 1) for one in value]
        if isinstance(value, dict):
            return {self.out_of(name): self.out_of_json(one, depth + 1) for name, one in value.items()}
        return self.out_of(value) if isinstance(value, str) else value

    def filter(self, record: logging.LogRecord) -> bool:
        """As a filter of loggers: what libraries log of an answer goes on without it."""
        record.msg, record.args = self.out_of(record.getMessage()), ()
        return True


def _forms(key: str) -> list[str]:
    """Regular expressions of what a server may make of it."""
    if len(key) < _SHORT:
        return [rf"(?<![A-Za-z0-9]){re.escape(key)}(?![A-Za-z0-9])"]
    raw = key.encode()
    escaped = {html.escape(key), quote(key, safe=""), json.dumps(key)[1:-1], repr(raw)[2:-1], key.replace("/", r"\/")}
    coded = set()
    for before in range(3):  # bytes of something else in its first group of three
        first, end = -(-before * 8 // 6), (before + len(raw)) * 8 // 6  # the digits that are the key's alone
        coded |= {code(bytes(before) + raw)[first:end].decode() for code in (b64encode, urlsafe_b64encode)}
    return [re.escape(form) for form in sorted({key, raw.hex(), *escaped, *coded}, key=len, reverse=True)]
