"""Which words a found word brings with it: those of like meaning that pull to the same side, taken as a set.

docs/explanation/audit-statistics.md ("Alike") says what is asked, for each class with a flagged word to which at least
`LEAST_FOUND` of the words found pull:

- *Side*: the classes that lose probability, on average, where what was found is masked in the texts that hold it.
- *Pool*: candidates that pull to a class of the side, and fixed phrases, that stand in `LEAST_TEXTS` distinct texts and
  have a cosine of at least `ALIKE` to the mean vector of what was found (see `cards.word_vectors`).
- *Test* of the pool as a whole, all words masked at once, on texts with words of the pool and none that was found. The
  larger p-value of Brunner and Munzel's test without a margin and the exact binomial test has to be at most `fdr`,
  divided by the number of classes that are asked about (Bonferroni).
- If it passes, words of the pool are taken whose own texts agree.

Not exact: which class a candidate pulls to, and which words were found, is known from all texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ..audit import AuditReport
from ..cards import MaskedAnswers, is_of_content, masked_answers, word_vectors
from ..config import AuditConfig
from ..models import EncodedTexts, TextClassifier
from ..stats import LEVELS, levels, p_relative_effect, relative_effect
from ..text import WordFinder
from ..typing import Array

ALIKE = 0.25
"""Least cosine to the mean of what was found, chosen on made-up words (`results/word_families.json`)."""

LEAST_FOUND = 2
"""Chosen after a clean classifier of reviews had one genuine word flagged, which brought 59; see
docs/research/audit-measured.md."""

LEAST_TEXTS = 5
"""A word or fixed phrase in fewer distinct texts is not brought."""

_EVEN = 0.5


@dataclass(frozen=True)
class Brought:
    """A word or phrase that what was found brings with it.

    Attributes:
        pulls_to: The class: its own if it is a candidate, otherwise that of what was found.
        n_texts: Distinct texts that hold it.
    """

    pulls_to: str
    n_texts: int


def alike_words(
    classifier: TextClassifier,
    texts: EncodedTexts,
    probs: Array,
    report: AuditReport,
    *,
    phrases: Mapping[str, int],
    config: AuditConfig,
) -> dict[str, Brought]:
    """What the found words bring with them, by name; see the head of this module.

    At most two forward passes a text for each class with a flagged word.

    Args:
        texts: The D distinct texts.
        probs: What it answers to them, shape (D, C).
        report: Their audit.
        phrases: Fixed phrases and in how many distinct texts they stand.
        config: `fdr`, `min_count` and `min_pull`.
    """
    found = [c for c in report.candidates if c.flagged or c.takes_turns or c.collective]
    names = [c.text for c in found]
    classes = sorted({c.pulls_to for c in report.flagged if c.pulls_to is not None})
    brought: dict[str, Brought] = {}
    for pulls_to in classes:
        mine = [c.text for c in found if c.pulls_to == pulls_to]
        if len(mine) < LEAST_FOUND:
            continue
        side = side_of(masked_answers(classifier, texts, mine, probs=probs))
        open_ = _open_words(report, phrases, pulls_to, {report.label_names[c] for c in np.flatnonzero(side)})
        pool = alike_to(classifier, mine, [name for name in open_ if name not in names])
        if pool:
            asked = AskedPool.of(classifier, texts, probs, names, pool, side)
            if asked.p_value(config) <= config.fdr / len(classes):
                brought |= {name: open_[name] for name in asked.chosen()}
    return brought


def side_of(seen: MaskedAnswers) -> Array:
    """The classes that lose probability where words are masked, on average over the texts that hold any; shape (C,)."""
    side: Array = (seen.before - seen.after).mean(axis=0) > 0
    return side


def _open_words(report: AuditReport, phrases: Mapping[str, int], pulls_to: str, side: Set[str]) -> dict[str, Brought]:
    """Candidates that pull to the side and fixed phrases, in texts enough."""
    audited = {c.text: c.pulls_to for c in report.candidates}
    of_side = [(c.text, c.pulls_to, c.n_present) for c in report.candidates if c.pulls_to in side]
    open_ = {name: Brought(own, n) for name, own, n in of_side if own is not None}
    open_ |= {name: Brought(pulls_to, n) for name, n in phrases.items() if name not in audited}
    return {name: word for name, word in open_.items() if word.n_texts >= LEAST_TEXTS}


def alike_to(classifier: TextClassifier, found: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those of some words and phrases that are alike in meaning to what was found, in their order."""
    named = [name for name in names if is_of_content(name)]
    centre = word_vectors(classifier, found).sum(axis=0)
    near = word_vectors(classifier, named) @ centre >= ALIKE * max(float(np.linalg.norm(centre)), 1e-12)
    return [name for name, is_near in zip(named, near, strict=True) if is_near]


@dataclass(frozen=True, eq=False)
class AskedPool:
    """What texts say of the words of one pool.

    Attributes:
        pool: The P words.
        holds: Which of the n texts that hold any word, found or of the pool, hold each of the pool, shape (P, n).
        alone: Which of them hold no found word, shape (n,).
        seen: These texts with and without all of the words.
        others: The texts without any word, by how strongly they speak for the side, shape (1, LEVELS).
        side: Which classes are the side, shape (C,).
    """

    pool: Sequence[str]
    holds: Array
    alone: Array
    seen: MaskedAnswers
    others: Array
    side: Array

    @classmethod
    def of(
        cls,
        classifier: TextClassifier,
        texts: EncodedTexts,
        probs: Array,
        found: Sequence[str],
        pool: Sequence[str],
        side: Array,
    ) -> AskedPool:
        """Mask all of the words at once: one forward pass for each text that holds any."""
        seen = masked_answers(classifier, texts, [*found, *pool], probs=probs)
        holding = texts.select(seen.rows)
        holds = np.array([WordFinder([word]).present_in(holding) for word in pool])
        alone = ~WordFinder(found).present_in(holding)
        others = np.delete(probs, seen.rows, axis=0)
        return cls(pool, holds, alone, seen, _counted(others[:, side].sum(axis=1)), side)

    @property
    def rests(self) -> Array:
        """The side's probability with all words masked, shape (n,)."""
        after: Array = self.seen.after[:, self.side].sum(axis=1)
        return after

    @property
    def pulls(self) -> Array:
        """What the words add to it, shape (n,)."""
        added: Array = self.seen.before[:, self.side].sum(axis=1) - self.rests
        return added

    def p_value(self, config: AuditConfig) -> float:
        """Of the null hypothesis at the head of this module, in [0, 1]; 1 where there is too little to test."""
        from scipy.stats import binom

        tested = self.holds.any(axis=0) & self.alone
        n = int(tested.sum())
        if min(n, int(self.others.sum())) < config.min_count:
            return 1.0
        p_context = p_relative_effect(_counted(self.rests[tested]), self.others, _EVEN)[0]
        moved = int((self.seen.changed & (self.pulls > 0))[tested].sum())
        return max(float(p_context), float(binom.sf(moved - 1, n, config.min_pull)))

    def chosen(self) -> list[str]:
        """The words whose own texts agree."""
        return [
            word
            for word, holds in zip(self.pool, self.holds, strict=True)
            if holds.any()
            and self.pulls[holds].mean() > 0
            and relative_effect(_counted(self.rests[holds]), self.others)[0] > _EVEN
        ]


def _counted(probs: Array) -> Array:
    """Texts by how strongly they speak for something, shape (1, LEVELS)."""
    counts: Array = np.bincount(levels(probs), minlength=LEVELS)[None]
    return counts
