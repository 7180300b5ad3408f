"""Which guards are compared: the strategies, variants of `distill`, and what gives the words to neutralise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from shortcut_bench.datasets import LabelledTexts
from shortcut_guardrail import GuardrailConfig, ShortcutGuardrail, preset
from shortcut_guardrail.shortcuts.named import Shortcut, Shortcuts
from shortcut_guardrail.text.finder import parts_of, spaced

STRATEGIES: dict[str, GuardrailConfig] = {
    "mask": preset("mask"),
    "distill": preset("distill"),
    "maskcl": preset("default"),
    "distill, per input": dataclasses.replace(preset("distill"), per_input=True),
    "few-shot": preset("few-shot"),
}


def ablations() -> dict[str, GuardrailConfig]:
    """Variants of `distill`, each different in one thing."""
    base = preset("distill")

    def distill(**changes: Any) -> GuardrailConfig:
        return dataclasses.replace(base, distill=dataclasses.replace(base.distill, **changes))

    return {
        "teacher: mask": distill(teacher="mask"),
        "teacher: both": distill(teacher="both"),
        "temperature .25, nearly the teacher's class alone": distill(temperature=0.25),
        "temperature 1": distill(temperature=1.0),
        "temperature 4": distill(temperature=4.0),
        "nothing kept": distill(keep_weight=0.0),
        "nothing put in": distill(insert=False),
        "words, no phrases": base.with_shortcuts(unit="word"),
        "40 steps": base.with_adapter(min_steps=40, max_steps=40),
        "160 steps": base.with_adapter(min_steps=160, max_steps=160),
        "weight change .08": base.with_adapter(target_change=0.08),
        "weight change .16": base.with_adapter(target_change=0.16),
    }


EVIDENCE: dict[str, tuple[str, ...]] = {
    "evidence: flagged by the audit alone": ("flagged",),
    "evidence: flagged, or taking turns": ("flagged", "takes turns"),
    "evidence: flagged, or dominant": ("flagged", "dominant"),
}


OFTEN = "evidence: masking the word changes 2 % of all answers"


def often_decisive(guard: ShortcutGuardrail, texts: LabelledTexts) -> list[str]:
    """Words on which many answers hang, whether or not the rest of their texts speaks against them."""
    report = guard.audit(texts.texts, config=preset("distill").with_shortcuts(unit="word").shortcuts.audit())
    return [item.text for item in report.candidates if item.count * item.flip_rate >= 0.02 * len(texts)]


Words = Callable[[ShortcutGuardrail, LabelledTexts], Sequence[str]]
"""What gives the words to neutralise, from a guard that is not fitted yet and the texts that it is to be fitted on."""


def given(words: Sequence[str]) -> Shortcuts:
    """Words and phrases that nobody has to look for."""
    return Shortcuts(tuple(Shortcut(word, "named") for word in words))


INFLUENTIAL = "evidence: influential words and phrases too"
LISTED = "evidence: what of the influential ones somebody named"


def influential(guard: ShortcutGuardrail, texts: LabelledTexts) -> list[str]:
    """What `fit --take-influential` takes."""
    return list(guard.find_shortcuts(texts.texts, config=preset("distill").with_shortcuts(take_influential=True)).words)


def named_of_the_list(shortcuts: Sequence[str], guard: ShortcutGuardrail, texts: LabelledTexts) -> list[str]:
    """What is taken, and of what `fit --dry-run` lists beside it what was planted or stands in what was.

    That is what a person would name who tells the list's genuine words from the others, and knows nothing else.
    """
    parts = {part for shortcut in shortcuts for part in (spaced(shortcut), *parts_of(spaced(shortcut)))}
    found = guard.find_shortcuts(texts.texts, config="distill")
    return [item.text for item in found.items if item.neutralised or spaced(item.text) in parts]
