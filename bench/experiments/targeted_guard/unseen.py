"""Guards fitted on texts with one half of the synonyms, and scored on texts with the other half."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from measuring import Found, Measured
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.datasets.presence import shortcut_present
from shortcut_guardrail import ShortcutGuardrail
from summary import share
from variants import STRATEGIES


class Paraphrases(NamedTuple):
    """Two halves of the synonyms: texts without the second, to fit on, and rows with it, as they are and cleaned."""

    seen: Sequence[str]
    held_out: Sequence[str]
    texts: list[str]
    test: LabelledTexts
    oracle: LabelledTexts


def halves(shortcuts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Shortcuts in two halves, in which no word of five letters or more is shared."""
    families: list[tuple[set[str], list[str]]] = []
    for shortcut in shortcuts:
        words = {word for word in shortcut.lower().split() if len(word) >= 5}
        kin = [family for family in families if family[0] & words]
        families = [family for family in families if not family[0] & words]
        families.append((words.union(*(k[0] for k in kin)), [*(s for k in kin for s in k[1]), shortcut]))
    sides: tuple[list[str], list[str]] = ([], [])
    for _, members in sorted(families, key=lambda family: -len(family[1])):
        min(sides, key=len).extend(members)
    return tuple(sides[0]), tuple(sides[1])


def paraphrases(run: Measured) -> Paraphrases:
    """The two halves of the synonyms, and what holds which."""
    seen, held_out = halves(run.data.shortcuts)
    with_held_out = shortcut_present(run.scored.texts, held_out)
    test, oracle = (s.select(np.flatnonzero(with_held_out)) for s in (run.scored, run.oracle))
    rows = run.scored.select(np.flatnonzero(~with_held_out))
    return Paraphrases(seen, held_out, list(map(str, run.deployment(rows).texts)), test, oracle)


def unseen(run: Measured) -> Found:
    """Fit on texts with every other synonym (and texts with none), score on texts with those it never saw."""
    split = paraphrases(run)
    guard = run.guard()
    base, best = run.scores(guard, split.test, 0), run.scores(guard, split.oracle, 0)
    targets = guard.find_shortcuts(split.texts, config="distill")
    result: Found = {
        "seen": list(split.seen),
        "unseen": list(split.held_out),
        "shortcuts": targets.to_dict(),
        "targets_in_unseen": [word for word in targets.words if shortcut_present(list(split.held_out), (word,)).any()],
        "base": base,
        "oracle": best,
    }
    for strategy in ("distill", "mask"):
        guard.fit(split.texts, config=strategy, seed=run.seed, shortcuts=targets)
        strength = guard.calibrate_without_labels(split.texts).strength
        result[strategy] = on_unseen(run, guard, split, strength, (base, best))
    return result


def unseen_by_maskcl(run: Measured) -> Found:
    """The same with the paper's strategy, its strength chosen in either way."""
    split = paraphrases(run)
    guard = run.guard()
    base, best = run.scores(guard, split.test, 0), run.scores(guard, split.oracle, 0)
    guard.fit(split.texts, config=STRATEGIES["maskcl"], seed=run.seed)
    dial = guard.calibrate_without_labels(split.texts)
    # Those of the 40 that hold a synonym of the other half have to go, or the strength is chosen on them.
    known = run.support.select(np.flatnonzero(~shortcut_present(run.support.texts, split.held_out)))
    chosen = {
        "without labels": dial.strength,
        "labels": guard.calibrate(known.texts, known.labels.tolist()).strength,
    }
    found = {how: on_unseen(run, guard, split, strength, (base, best)) for how, strength in chosen.items()}
    return {"base": base, "oracle": best, "n_labels": len(known), **found}


def on_unseen(
    run: Measured, guard: ShortcutGuardrail, split: Paraphrases, strength: float, bounds: tuple[Found, Found]
) -> Found:
    """A guard at a strength on the texts with the other half; `bounds` are base and oracle there."""
    found = run.scores(guard, split.test, strength)
    return {
        "strength": strength,
        "guarded": found,
        "gap_closed": share(found, *bounds, "accuracy"),
        "gap_closed_balanced": share(found, *bounds, "balanced_accuracy"),
    }
