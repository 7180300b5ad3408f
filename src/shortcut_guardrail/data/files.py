"""Files on disk appear whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .disk import confirm, flush, held
from .outputs import check_output, sentences


def write_file(target: Path, content: str | bytes, *, overwrite: bool = False) -> None:
    """Write a file so that it appears whole or not at all, and is on the disk; text as UTF-8.

    Raises:
        ConfigError: See `check_output`.
        RunError: The disk is full, or the like; or another run is writing there.
    """
    check_output(target, overwrite=overwrite)
    with sentences(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with held(target, target.parent) as temporary:
            temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
            flush(temporary)
            os.replace(temporary, target)
            confirm(target.parent)


def to_json(values: Any) -> str:
    """JSON with a stable layout; numbers that are not finite are refused, since JSON has none."""
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
