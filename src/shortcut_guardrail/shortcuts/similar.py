"""Which words a found word brings with it: those of like meaning that push towards the same side, taken as a set.

docs/explanation/audit-statistics.md ("Alike") says what the *side*, the *pool*, its test and the choice are, and why.
Not exact: which class a candidate pushes towards, and which words were found, is known from all texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from ..audit import AuditReport
from ..cards import is_of_content, masked_answers, word_vectors
from ..config import AuditConfig
from ..models import EncodedTexts, Reader
from ..stats import LEVELS, levels, p_relative_effect, relative_effect
from ..text import WordFinder
from ..typing import Array, Erasure
from .named import Shortcut

ALIKE = 0.25
"""Least cosine to the mean of what was found, chosen on made-up words (`results/word_families.json`)."""

LEAST_FOUND = 2
"""Chosen after a clean classifier of reviews had one legitimate word flagged, which brought 59; see
docs/research/audit-measured.md."""

LEAST_TEXTS = 5
"""A word or fixed phrase in fewer distinct texts is not brought."""

_EVEN = 0.5


def similar_words(
    classifier: Reader,
    texts: EncodedTexts,
    probs: Array,
    report: AuditReport,
    *,
    phrases: Mapping[str, int],
    config: AuditConfig,
) -> dict[str, Shortcut]:
    """What the found words bring with them, by name, in at most two forward passes a text for each class.

    Args:
        probs: What it answers to them, shape (D, C).
        phrases: Fixed phrases and in how many distinct texts they stand.
        config: `fdr`, `min_count` and `min_pull`.
    """
    found = [c for c in report.candidates if c.found]
    names = [c.text for c in found]
    classes = sorted({c.pushes_towards for c in report.flagged if c.pushes_towards is not None})
    brought: dict[str, Shortcut] = {}
    for pushes_towards in classes:
        mine = [c.text for c in found if c.pushes_towards == pushes_towards]
        if len(mine) < LEAST_FOUND:
            continue
        seen = masked_answers(classifier, texts, mine, probs=probs, erasure=report.erasure)
        side = (seen.before - seen.after).mean(axis=0) > 0
        open_ = _open_words(report, phrases, pushes_towards, {report.label_names[c] for c in np.flatnonzero(side)})
        pool = similar_to(classifier, mine, [name for name in open_ if name not in names])
        if pool:
            how: dict[str, Any] = {"side": side, "config": config, "erasure": report.erasure}
            p_value, agreeing = ask_pool(classifier, texts, probs, names, pool, **how)
            if p_value <= config.fdr / len(classes):
                brought |= {name: open_[name] for name in agreeing}
    return brought


def _open_words(
    report: AuditReport, phrases: Mapping[str, int], pushes_towards: str, side: Set[str]
) -> dict[str, Shortcut]:
    """Candidates that push towards the side, and fixed phrases for the class of what was found, in texts enough."""
    of_side = [(c.text, c.pushes_towards, c.n_present) for c in report.candidates if c.pushes_towards in side]
    audited = {c.text for c in report.candidates}
    fixed = [(name, pushes_towards, n) for name, n in phrases.items() if name not in audited]
    return {
        name: Shortcut(name, "found", "similar", n, pushes_towards=own)
        for name, own, n in (*of_side, *fixed)
        if n >= LEAST_TEXTS
    }


def similar_to(classifier: Reader, found: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those of some words and phrases that are alike in meaning to what was found, in their order."""
    named = [name for name in names if is_of_content(name)]
    centre = word_vectors(classifier, found).sum(axis=0)
    near = word_vectors(classifier, named) @ centre >= ALIKE * max(float(np.linalg.norm(centre)), 1e-12)
    return [name for name, is_near in zip(named, near, strict=True) if is_near]


def ask_pool(
    classifier: Reader,
    texts: EncodedTexts,
    probs: Array,
    found: Sequence[str],
    pool: Sequence[str],
    *,
    side: Array,
    config: AuditConfig,
    erasure: Erasure = "mask",
) -> tuple[float, list[str]]:
    """The p-value of a pool as a whole, and its words whose own texts agree; all words are masked at once."""
    from scipy.stats import binom

    seen = masked_answers(classifier, texts, [*found, *pool], probs=probs, erasure=erasure)
    holding = texts.select(seen.rows)
    holds = {word: WordFinder([word]).present_in(holding) for word in pool}
    rests = seen.after[:, side].sum(axis=1)
    pulls = seen.before[:, side].sum(axis=1) - rests
    of_pool, of_found = np.any([*holds.values()], axis=0), WordFinder(found).present_in(holding)
    tested, neither = of_pool & ~of_found, np.delete(probs, seen.rows, axis=0)[:, side].sum(axis=1)
    n = int(tested.sum())
    if min(n, len(neither)) < config.min_count:
        return 1.0, []
    moved = int((seen.changed & (pulls > 0))[tested].sum())
    # Where found words stand in texts of one side, the texts without them lack that side.
    compared = [_counted(neither), _counted(np.append(neither, rests[of_found & ~of_pool]))]
    p_context = max(float(p_relative_effect(_counted(rests[tested]), others, _EVEN)[0]) for others in compared)
    agreeing = [
        word
        for word, rows in holds.items()
        if rows.any() and pulls[rows].mean() > 0 and _speaks_less(rests[rows], compared)
    ]
    return max(p_context, float(binom.sf(moved - 1, n, config.min_pull))), agreeing


def _speaks_less(rests: Array, compared: Sequence[Array]) -> bool:
    counted = _counted(rests)
    return all(relative_effect(counted, others)[0] > _EVEN for others in compared)


def _counted(probs: Array) -> Array:
    """Texts by how strongly they speak for something, shape (1, LEVELS)."""
    counts: Array = np.bincount(levels(probs), minlength=LEVELS)[None]
    return counts
