"""Reads back what any fitted method saved."""

from __future__ import annotations

import json
from pathlib import Path

from shortcut_guardrail.errors import ConfigError

from ..systems import SYSTEM_FILE, FittedSystem, ModelSystem
from .adaptation import OnlineSystem, Tent
from .controls import MaskedPredictor
from .deyo import DeYO
from .eata import EATA
from .heads import HEAD_FILE, ProbedSystem
from .last_resort import WORDS_FILE, Shares, Words
from .sar import SAR
from .targeted import GUARD_FOLDER, GuardedSystem


def load_fitted(folder: str | Path) -> FittedSystem:
    """The fitted system that `save` wrote, of whatever kind.

    Raises:
        ConfigError: The folder holds no readable `system.json`.
        ModelError: It holds no classifier.
    """
    folder = Path(folder)
    try:
        record = json.loads((folder / SYSTEM_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"'{folder}' holds no readable {SYSTEM_FILE} ({error}); give a folder written by save."
        ) from error
    if (folder / HEAD_FILE).exists():
        return ProbedSystem.load(folder)
    if (folder / WORDS_FILE).exists():
        return Words.load(folder)
    if "shares" in record:
        return Shares(record["shares"], record["info"])
    if (folder / GUARD_FOLDER).is_dir():
        return GuardedSystem.load(folder, record)
    if "method" in record:
        return OnlineSystem.load(folder, (Tent, EATA, SAR, DeYO))
    return MaskedPredictor.load(folder) if "top_k" in record else ModelSystem.load(folder)
