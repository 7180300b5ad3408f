"""The words of methods that are told them, or take what an audit of the deployed classifier finds."""

from __future__ import annotations

from collections.abc import Sequence

from shortcut_guardrail.config import preset
from shortcut_guardrail.typing import Progress

from ..systems import Material


def told_or_audited(material: Material, *, told: bool, progress: Progress | None) -> tuple[Sequence[str], float]:
    """The words, and the forward equivalents of finding them: 2 a text for attribution, up to 2 k for masking.

    Args:
        material: Holds the words, or the base classifier and the deployment texts that it is audited on.
        told: Whether somebody names the words; else those that `distill` would take for shortcuts.
    """
    if told:
        assert material.shortcut_words is not None
        return material.shortcut_words, 0.0
    texts, config = material.deployment, preset("distill")
    assert texts is not None
    found = material.guard().find_shortcuts(texts, config=config, progress=progress)
    return found.words, float(len(texts) * (2 + 2 * config.shortcuts.top_k))
