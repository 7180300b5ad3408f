"""Whole outputs as text: everything that a run prints, writes and returns, so that no figure goes unread.

A line is `where = value`. What differs from machine to machine (times, versions, folders, digests) is left out.
"""

from __future__ import annotations

import csv
import json
import lzma
import math
import os
import re
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_guardrail.errors import GuardrailError

HERE = Path(__file__).parent / "golden"
_DIGEST = re.compile(r"\b[0-9a-f]{32,}\b")
_SECONDS = re.compile(r"\b[\d.]+ (?:s|ms|min)\b(?: or more)?")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")
_DRAWN = re.compile(r"<[^>]*?((?:\s(?:data-[\w-]+|x|y|x1|x2|y1|y2|cx|cy|width|height|points|d)=\"[^\"]*\")+)[^>]*>")
"""What places and sizes the marks of a figure."""
_LEFT_OUT = {"seconds", "versions", "created", "created_at", "torch", "hardware", "answered_at", "at", "when"}
_LEFT_OUT |= {"peft_version", "transformers_version", "relative_time"}
_FEW = 12


def told(value: Any, where: str = "") -> Iterator[str]:
    """A value as lines, with the names that lead to each part of it."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        for key, part in value.items():
            if str(key) not in _LEFT_OUT:
                yield from told(part, f"{where}.{key}" if where else str(key))
    elif isinstance(value, (set, frozenset)):
        yield from told(sorted(value), where)
    elif isinstance(value, (list, tuple)) and all(isinstance(x, (int, float, str, type(None))) for x in value):
        yield f"{where} = [{', '.join(map(_short, value))}]"
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from told(part, f"{where}[{i}]")
    else:
        yield f"{where} = {_short(value)}"


def _short(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "nan" if math.isnan(value) else f"{value:.4g}"
    return _DIGEST.sub("...", str(value)).replace("\n", " / ")


def called(function: Callable[..., Any], *given: Any, **named: Any) -> Iterator[str]:
    """What a call returns, or refuses, and the warnings on the way, with what it was given."""
    said = [*map(_briefly, given), *(f"{name}={_briefly(value)}" for name, value in named.items())]
    where = f"{getattr(function, '__name__', type(function).__name__)}({', '.join(said)})"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield from told(function(*given, **named), where)
        except GuardrailError as error:
            yield f"{where} = {type(error).__name__}: {_short(error)}"
    yield from (f"{where} warns: {_short(one.message)}" for one in warned)


def each(function: Callable[..., Any], *grids: Iterable[Any], **named: Any) -> list[str]:
    """The calls with all combinations of values."""
    return [line for given in product(*grids) for line in called(function, *given, **named)]


def _briefly(value: Any) -> str:
    said = _short(value)
    return said if len(said) < 50 and not said.startswith("<") and " at 0x" not in said else type(value).__name__


def printed(text: str, folder: Path | None = None) -> Iterator[str]:
    """What a command says, without what differs from run to run."""
    if folder is not None:
        text = text.replace(str(folder), "FOLDER")
    for line in _SECONDS.sub("SECONDS", _DIGEST.sub("...", text)).splitlines():
        if line.strip():
            yield " ".join(line.split())


def written(folder: Path, *, but: Container[str] = ()) -> Iterator[str]:
    """Every file below a folder; of weights the name alone."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        # Manifests hold sizes of files, which hold times.
        if path.is_file() and name not in but and not name.endswith(("manifest.json", ".pyc")):
            yield f"## {name}"
            yield from _READ.get(path.suffix, lambda _: iter(()))(path)


def _json(path: Path) -> Iterator[str]:
    yield from told(json.loads(path.read_text(encoding="utf-8")))


def _lines(path: Path) -> Iterator[str]:
    for i, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        yield from told(json.loads(line), f"[{i}]")


def _table(path: Path) -> Iterator[str]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.reader(file):
            yield " | ".join(_NUMBER.sub(lambda found: _short(float(found[0])), cell) for cell in row)


def _page(path: Path) -> Iterator[str]:
    """A page's text, with the numbers that draw it."""
    text = re.sub(r"<(style|script)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = _DRAWN.sub(r"\n{\1 }", text)
    text = re.sub(r"<[^>]+>", "\n", text)
    for line in _SECONDS.sub("SECONDS", _DIGEST.sub("...", text)).splitlines():
        if line.strip():
            yield _NUMBER.sub(lambda found: _short(float(found[0])), " ".join(line.split()))


def _arrays(path: Path) -> Iterator[str]:
    with np.load(path, allow_pickle=False) as arrays:
        for name in sorted(arrays.files):
            yield f"{name} {arrays[name].dtype} {arrays[name].shape}"
            if arrays[name].dtype.kind in "fiub" and name != "about":
                yield from told(np.asarray(arrays[name], dtype=float).ravel()[:_FEW], name)


def _text(path: Path) -> Iterator[str]:
    yield from printed(path.read_text(encoding="utf-8"))


_READ: dict[str, Callable[[Path], Iterator[str]]] = {
    ".json": _json,
    ".jsonl": _lines,
    ".csv": _table,
    ".tsv": _table,
    ".html": _page,
    ".npz": _arrays,
    ".md": _text,
    ".txt": _text,
}


def compare(name: str, lines: Iterable[str]) -> None:
    """Compare with the stored output, numbers with a fraction to a thousandth; with WRITE_OUTPUTS=1 store it."""
    path, lines = HERE / f"{name}.txt.xz", "\n".join(lines).split("\n")
    if os.environ.get("WRITE_OUTPUTS") == "1":
        path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    stored = lzma.decompress(path.read_bytes()).decode().split("\n")
    part, differing = "", []
    for old, new in zip_longest(stored, lines, fillvalue="(nothing)"):
        part = old if old.startswith(("$ ", "## ")) else part
        if not _same(old, new):
            differing.append(f"{part}\n  was: {old}\n  now: {new}")
    how = "If this is meant: WRITE_OUTPUTS=1 python -m pytest tests/golden, and commit. xzcat shows a file."
    assert not differing, "\n".join([f"{len(differing)} lines of {path.name} differ.", *differing[:6], how])


def _same(old: str, new: str) -> bool:
    if old == new:
        return True
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=2e-3, abs_tol=1e-6) for a, b in pairs)
