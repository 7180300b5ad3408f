"""Tables of pages beside the results that they show: their cells, and whether a slip of the pen in one is noticed."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import figures
from checkout import ROOT

RESEARCH = ROOT / "docs" / "research"


@cache
def result(name: str) -> Any:
    return json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))


def text_of(page: str) -> str:
    return (RESEARCH / page).read_text(encoding="utf-8")


def rows_of(page: str, header: str) -> list[list[str]]:
    """The cells of the tables of a page whose header starts so, without marks of emphasis."""
    found: list[list[str]] = []
    for block in re.findall(r"(?:^\|.*\n)+", text_of(page), re.MULTILINE):
        first, _, *rows = block.splitlines()
        if first.startswith(header):
            found += [[cell.strip() for cell in row.replace("**", "").strip("|").split("|")] for row in rows]
    return found


def short(value: float, digits: int = 3) -> str:
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def pages() -> list[str]:
    """The hand-written pages, by their path from `docs/research`."""
    return [Path(os.path.relpath(path, RESEARCH)).as_posix() for path in sorted(RESEARCH.parent.rglob("*.md"))]


def checked() -> list[tuple[str, str]]:
    """Each page with a table that is said to be compared, and the test that compares it."""
    return sorted({(page, test) for page in pages() for test, _, _ in figures.checked_tables(text_of(page))})


def compared_by(tests: Mapping[str, object]) -> list[tuple[str, str]]:
    """Those of `checked` whose test is among some."""
    return [(page, test) for page, test in checked() if test in tests]


def unnoticed(page: str, test: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cells of a page's tables that may have another last digit without failing the test that compares them."""
    text, found = text_of(page), []
    for _, start, end in (one for one in figures.checked_tables(text) if one[0] == test.__name__):
        body = start + [found.end() for found in re.finditer(r"\n", text[start:end])][1]
        for digit in re.finditer(r"\d(?![\d\w])(?!\.\d|,\d{3})", text[body:end]):
            at = body + digit.start()
            changed = text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]
            monkeypatch.setitem(globals(), "text_of", lambda _, changed=changed: changed)
            with contextlib.suppress(Exception):
                test()
                line = changed[changed.rfind("\n", 0, at) + 1 : changed.find("\n", at)]
                found.append(f"{changed[at - 3 : at + 1]} in {line[:60]}")
    return found
