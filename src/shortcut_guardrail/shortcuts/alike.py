"""Which words a found word brings with it: those of like meaning that pull to the same class, taken as a set.

The audit finds some wordings of a shortcut and misses others, each of which stands in too few texts. What it misses is
like what it found. For each class with a flagged word:

- *Pool.* Candidates that pull to the class, stand in `LEAST_TEXTS` distinct texts, and are alike in meaning to what was
  found: a cosine of at least `ALIKE` to the mean vector of the found words (see `audit.word_vectors`). What joins moves
  the mean, so this is repeated until nothing joins. Function words do not join.
- *Choice.* All words, found or of the pool, are masked at once. A word is chosen if its texts then speak less for the
  class than texts without any of these words do (a relative effect above a half), and if masking lowered the class's
  probability there.
- *Test*, the audit's context test for a set (see `audit.sets`): where a chosen word stands and none that was found, the
  rest of the text, with all of them masked, speaks for the class hardly less than texts without any do
  (`min_relative_effect`), or masking moves no more than `min_pull` of these answers. The texts are dealt into two
  halves; words are chosen on one and tested on the other, both ways, and twice the smaller p-value has to be at most
  `fdr`, divided by the number of classes that are asked about.

If the test is passed, the words chosen on both halves together are taken. Where nothing is flagged nothing is asked.
Not exact: which class a word pulls to is known from all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..audit import AuditReport, Candidate, MaskedAnswers, is_of_content, masked_answers, word_vectors
from ..config import AuditConfig
from ..models import EncodedTexts, TextClassifier
from ..stats import LEVELS, levels, p_relative_effect, relative_effect
from ..text import WordFinder
from ..typing import Array

ALIKE = 0.3
"""Least cosine to the mean of what was found."""

LEAST_TEXTS = 5
"""A word in fewer distinct texts is not brought."""

_EVEN = 0.5


def alike_words(
    classifier: TextClassifier, texts: EncodedTexts, probs: Array, report: AuditReport, config: AuditConfig
) -> frozenset[str]:
    """The candidates that what was found brings with it; see the head of this module.

    Args:
        classifier: The base model.
        texts: The D distinct texts.
        probs: What it answers to them, shape (D, C).
        report: Their audit.
        config: What it was made with.
    """
    classes = sorted({c.pulls_to for c in report.flagged if c.pulls_to is not None})
    brought: set[str] = set()
    for pulls_to in classes:
        mine = [c for c in report.candidates if c.pulls_to == pulls_to]
        found = [c.text for c in mine if c.flagged or c.takes_turns or c.collective]
        pool = _pool(classifier, found, [c for c in mine if c.text not in found])
        if pool:
            asked = _Asked.of(classifier, texts, probs, found, pool, report.label_names.index(pulls_to))
            if asked.p_value(config) <= config.fdr / len(classes):
                brought.update(asked.chosen(np.ones(len(texts), dtype=bool)))
    return frozenset(brought)


def _pool(classifier: TextClassifier, found: Sequence[str], candidates: Sequence[Candidate]) -> list[str]:
    """Names of the candidates that are alike in meaning to what was found."""
    open_ = [c.text for c in candidates if c.n_present >= LEAST_TEXTS and is_of_content(c.text)]
    vectors = word_vectors(classifier, [*found, *open_])
    joined = np.arange(len(vectors)) < len(found)
    while True:
        centre = vectors[joined].sum(axis=0)
        near = vectors @ centre >= ALIKE * np.linalg.norm(centre)
        if not (near & ~joined).any():
            return [name for name, is_in in zip(open_, joined[len(found) :], strict=True) if is_in]
        joined |= near


@dataclass(frozen=True, eq=False)
class _Asked:
    """What texts say of the words of one pool.

    Attributes:
        pool: The P words.
        holds: Which of the n texts that hold any word, found or of the pool, hold each of the pool, shape (P, n).
        alone: Which of them hold no found word, shape (n,).
        seen: These texts with and without all of the words.
        others: The rows without any word.
        speaks: How strongly these speak for the class, by level.
        target: The class.
        n_texts: Number of all texts.
    """

    pool: list[str]
    holds: Array
    alone: Array
    seen: MaskedAnswers
    others: Array
    speaks: Array
    target: int
    n_texts: int

    @classmethod
    def of(
        cls,
        classifier: TextClassifier,
        texts: EncodedTexts,
        probs: Array,
        found: Sequence[str],
        pool: list[str],
        target: int,
    ) -> _Asked:
        """Mask all of the words at once: one forward pass for each text that holds any."""
        seen = masked_answers(classifier, texts, [*found, *pool], probs=probs)
        holding = texts.select(seen.rows)
        others = np.delete(np.arange(len(texts)), seen.rows)
        return cls(
            pool,
            np.array([WordFinder([word]).present_in(holding) for word in pool]),
            ~WordFinder(found).present_in(holding),
            seen,
            others,
            levels(probs[others, target]),
            target,
            len(texts),
        )

    def chosen(self, half: Array) -> list[str]:
        """The words that are chosen on some of the texts; `half` says which, shape (D,)."""
        speaks, pulls = levels(self.seen.after[:, self.target]), self._pulls
        compared = _counted(self.speaks[half[self.others]])
        names = []
        for word, holds in zip(self.pool, self.holds & half[self.seen.rows], strict=True):
            theta = relative_effect(_counted(speaks[holds]), compared)[0]
            if holds.any() and theta > _EVEN and pulls[holds].mean() > 0:
                names.append(word)
        return names

    @property
    def _pulls(self) -> Array:
        """What the words add to the class's probability, shape (n,)."""
        added: Array = self.seen.before[:, self.target] - self.seen.after[:, self.target]
        return added

    def p_value(self, config: AuditConfig) -> float:
        """Of the null hypothesis at the head of this module, in [0, 1]."""
        coin = np.random.default_rng(0).permutation(self.n_texts) % 2 == 0
        return min(1.0, 2 * min(self._p_value(coin, config), self._p_value(~coin, config)))

    def _p_value(self, half: Array, config: AuditConfig) -> float:
        """Chosen on one half, tested on the other; 1 where there is too little to test."""
        from scipy.stats import binom

        names = self.chosen(half)
        is_chosen = np.array([word in names for word in self.pool], dtype=bool)
        tested = self.holds[is_chosen].any(axis=0) & self.alone & ~half[self.seen.rows]
        compared = ~half[self.others]
        n = int(tested.sum())
        if min(n, int(compared.sum())) < max(2, config.min_count // 2):
            return 1.0
        rests = _counted(levels(self.seen.after[tested, self.target]))
        p_context = p_relative_effect(rests, _counted(self.speaks[compared]), config.min_relative_effect)[0]
        moved = int((self.seen.changed & (self._pulls > 0))[tested].sum())
        return max(float(p_context), float(binom.sf(moved - 1, n, config.min_pull)))


def _counted(speaks: Array) -> Array:
    """Texts by level, shape (1, LEVELS)."""
    counts: Array = np.bincount(speaks, minlength=LEVELS)[None]
    return counts
