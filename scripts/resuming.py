"""Results of scripts that are called again until all is measured: what is there is kept, if it was measured alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shortcut_guardrail.data.files import to_json

ASKED = "asked"
"""The key in a file of results under which the options stand that they were measured with."""


def finished(file: Path, asked: Mapping[str, Any], entries: str) -> list[dict[str, Any]]:
    """The entries that an earlier call wrote; none where there is no file.

    Args:
        file: The file of results.
        asked: The options on which entries depend, JSON-ready; they have to be the same, and belong into the file
            under `ASKED`.
        entries: The key of the list of entries.

    Raises:
        SystemExit: The file was written with other options, or by a version that did not write them down.
    """
    if not file.exists():
        return []
    content = json.loads(file.read_text(encoding="utf-8"))
    found, wanted = content.get(ASKED), json.loads(to_json(dict(asked)))
    if found != wanted:
        raise SystemExit(
            f"{file} was begun with the options {found}, but these are {wanted}. Choose another --out, or delete it."
        )
    kept: list[dict[str, Any]] = content[entries]
    return kept
