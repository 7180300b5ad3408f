"""The guardrail told the words that the training rows suggest: those that go with a class more often than by chance.

docs/research/methods/equal-terms.md has the test, and says what it cannot tell apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortcut_guardrail.config import GuardrailConfig
from shortcut_guardrail.data import Texts
from shortcut_guardrail.text import WordFinder, unit_key, word_spans

from ..systems import Material, Need
from .targeted import Targeted
from .training import require

Array = np.ndarray[Any, np.dtype[Any]]


def words_of(text: str | Sequence[str]) -> set[str]:
    """The words with a letter or digit that a text, or either of a pair, holds; each once, spellings folded."""
    sides = (text,) if isinstance(text, str) else text
    words = {unit_key(side[start:end]) for side in sides for start, end in word_spans(side)}
    return {word for word in words if any(map(str.isalnum, word))}


def suggested_words(texts: Texts, labels: Array, level: float) -> tuple[str, ...]:
    """Words that go with a class: of the n texts that hold the word, k have the class, and with its share p of all
    texts P(Binomial(n, p) >= k) <= level / (number of words and classes tried).

    Args:
        texts: N texts.
        labels: Their classes, shape (N,).
        level: Of the test, in (0, 1), before the correction for the number of tests.

    Returns:
        The words, the least probable first, of equals by spelling.
    """
    from scipy.stats import binom

    held: dict[int, Counter[str]] = {label: Counter() for label in np.unique(labels).tolist()}
    for text, label in zip(texts, labels.tolist(), strict=True):
        held[label].update(words_of(text))
    total = sum(held.values(), Counter())
    words = sorted(total)
    n = np.array([total[word] for word in words])
    p_values = [
        binom.sf(np.array([counts[word] for word in words]) - 1, n, (labels == label).mean())
        for label, counts in held.items()
    ]
    least = np.min(p_values, axis=0) if words else np.empty(0)
    order = np.argsort(least, kind="stable")
    return tuple(words[at] for at in order if least[at] <= level / (len(words) * len(held)))


@dataclass(frozen=True)
class TrainingWords(Targeted):
    """`distill` told the words that the training rows suggest, as `fit --shortcut` lets a user name them.

    Attributes:
        level: Of the test, see `suggested_words`.
    """

    name: str = "guardrail-distill-training-words"
    level: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.level < 1, f"level must lie between 0 and 1, but is {self.level}.")

    @property
    def needs(self) -> frozenset[Need]:
        """The training rows too."""
        return super().needs | {Need.TRAIN}

    def _config_for(self, material: Material) -> GuardrailConfig:
        """With the suggested words that a deployment text holds; others could not be masked there."""
        rows, deployment = material.train, material.deployment
        assert rows is not None
        assert deployment is not None
        present = set().union(*map(words_of, deployment))
        words = [word for word in suggested_words(rows.texts, rows.labels, self.level) if word in present]
        named = tuple(word for word in words if _is_found(word, deployment))
        return self.guard_config.with_shortcuts(named=named)


def _is_found(word: str, texts: Texts) -> bool:
    """Whether the finder of named words finds it, which joins and parts some words otherwise than they were cut."""
    finder = WordFinder([word])
    return any(finder.present(side) for text in texts for side in ((text,) if isinstance(text, str) else text))
