"""Reads a list of words and phrases."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import DataError
from .tables import read_utf8


def read_shortcuts_file(path: str | Path) -> list[str]:
    """The shortcuts of a UTF-8 text file: one word or phrase on a line, blank lines and `#` comments left out.

    A comment starts with a `#` at the beginning of a line or after whitespace.

    Raises:
        DataError: The file is missing, unreadable or not UTF-8, or names no shortcut.
    """
    lines = read_utf8(Path(path), str(path)).splitlines()
    words = [re.sub(r"(^|\s)#.*", "", line).strip() for line in lines]
    if not any(words):
        raise DataError(f"{path} names no shortcut; write one word or phrase on each line.")
    return [word for word in words if word]
