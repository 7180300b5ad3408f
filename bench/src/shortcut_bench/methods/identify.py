"""Identify and mitigate: words that a model attends to in one corpus and not in another, masked in training.

Wang, Sridhar, Yang and Wang (Findings of NAACL 2022). docs/research/methods/identify-mitigate.md says what was read in
their code, what is recalled and what is ours.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import GuardrailWarning, ModelError
from shortcut_guardrail.models import EncodedTexts, TextClassifier
from shortcut_guardrail.text import WordFinder, words_as_units
from shortcut_guardrail.typing import Progress

from ..systems import Material, ModelSystem, Need
from .attributed import attention_scores
from .bias_only import SOURCE
from .selection import find_rule, rule_for
from .training import (
    Recipe,
    Stopwatch,
    as_config,
    check_recipe,
    model_system,
    require,
    resolve_recipe,
    selection_info,
    train,
)

Array = np.ndarray[Any, np.dtype[Any]]

RARITY = 4.0
"""lambda, the notebook's."""


def word_importance(words: Sequence[Sequence[tuple[str, float]]], probs: Array) -> dict[str, tuple[float, int]]:
    """I(w) of every word before it is normalised, and how often it occurs, n(w).

    An occurrence with attention a in a text predicted c with probability p adds a p to S_c(w).
    I(w) = max_c (S_c - mean of the other classes' S) / n(w), which for two classes is |S_1 - S_0| / n(w).

    Args:
        words: The words of N texts with the attention on each, as often as they occur.
        probs: Class probabilities, shape (N, C), C of at least 2.
    """
    n_classes = probs.shape[1]
    sums: dict[str, Array] = defaultdict(lambda: np.zeros(n_classes))
    counts: dict[str, int] = defaultdict(int)
    for of_text, given in zip(words, probs, strict=True):
        predicted = int(given.argmax())
        for word, attention in of_text:
            sums[word][predicted] += attention * float(given[predicted])
            counts[word] += 1
    found = {}
    for word, total in sums.items():
        lead = (total - (total.sum() - total) / (n_classes - 1)).max()
        found[word] = (max(float(lead), 0.0) / counts[word], counts[word])
    return found


def word_scores(importance: Mapping[str, tuple[float, int]], rarity: float = RARITY) -> dict[str, float]:
    """log I(w) - lambda / log(1 + n(w)) with I divided by its sum, brought to [0, 1] by its smallest and largest value.

    Words with I = 0 have no logarithm, and are left out.

    Args:
        importance: See `word_importance`.
        rarity: lambda, which keeps rare words from the head.
    """
    total = sum(value for value, _ in importance.values())
    raw = {
        word: float(np.log(value / total) - rarity / np.log(1 + n))
        for word, (value, n) in importance.items()
        if value > 0
    }
    if not raw:
        return {}
    low, high = min(raw.values()), max(raw.values())
    return {word: (value - low) / (high - low) if high > low else 1.0 for word, value in raw.items()}


def ranked_words(source: Mapping[str, float], other: Mapping[str, float] | None = None) -> list[tuple[str, float]]:
    """As a finder: words of the source by their score, minus that in the other corpus, which is 0 for a word that is
    not there; the highest first, then by the alphabet."""
    scores = {word: value - (other or {}).get(word, 0.0) for word, value in source.items()}
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def attended_words(classifier: TextClassifier, encoded: EncodedTexts) -> list[list[tuple[str, float]]]:
    """The words of N texts and the first token's attention to each, the sum over its tokens.

    Words without a letter or digit are left out.
    """
    units = words_as_units(encoded)
    found = []
    for row, attention in enumerate(attention_scores(classifier, encoded)):
        of_token = units.of_token[row]
        named = of_token >= 0
        values = np.bincount(of_token[named], weights=attention[named], minlength=len(units.keys[row]))
        kept = zip(units.keys[row], values.tolist(), units.wordlike[row].tolist(), strict=True)
        found.append([(word, value) for word, value, wordlike in kept if wordlike])
    return found


def corpus_scores(classifier: TextClassifier, texts: Texts, rarity: float = RARITY) -> dict[str, float]:
    """The scores of a corpus's words by a model's own predictions, for `ranked_words`; two forward passes a text."""
    encoded = classifier.encode(texts)
    probs = classifier.predict_proba(encoded)
    return word_scores(word_importance(attended_words(classifier, encoded), probs), rarity)


def masked_texts(texts: Texts, words: Sequence[str], mask: str) -> tuple[Texts, int]:
    """Each text with every occurrence of the words replaced by the mask token, and how many texts have one."""
    finder = WordFinder(words)

    def masked(text: str) -> str:
        parts, at = [], 0
        for found in finder.find(text):
            if found.start >= at:
                parts += [text[at : found.start], mask]
                at = found.end
        return "".join([*parts, text[at:]])

    done: Any = [masked(text) if isinstance(text, str) else tuple(map(masked, text)) for text in texts]
    return done, sum(new != old for new, old in zip(done, texts, strict=True))


@dataclass(frozen=True)
class IdentifyMitigate:
    """Words that the original model attends to are found, and masked in the texts that the encoder is trained on.

    Attributes:
        name: The name in tables.
        n_words: How many words are masked, the first of the ranking.
        rarity: See `word_scores`.
        second_corpus: Take off each word's score in the deployment texts.
        recipe: See `training.resolve_recipe`.
        select: Which epoch is kept.
    """

    name: str = "identify_mitigate"
    n_words: int = 20
    rarity: float = RARITY
    second_corpus: bool = True
    recipe: Recipe = "source"
    select: str = "last"

    def __post_init__(self) -> None:
        require(self.n_words >= 1, f"n_words must be at least 1, but is {self.n_words}.")
        require(self.rarity >= 0, f"rarity must be at least 0, but is {self.rarity}.")
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, the original model, what the rule reads, and deployment texts where they are the second
        corpus."""
        second = {Need.DEPLOYMENT} if self.second_corpus else set()
        return frozenset({Need.TRAIN, Need.GRADIENTS, *second}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Find words, then train the pretrained encoder on texts without them.

        Raises:
            ModelError: The tokenizer has no mask token, or the model gives no attention.
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        mask = material.base.tokenizer.mask_token
        require(mask is not None, f"{self.name} masks words, but the tokenizer has no mask token.", ModelError)
        base = material.scorer(material.base.model, fitting=True)
        with watch.time("words"):
            source = corpus_scores(base, rows.texts, self.rarity)
            second = material.deployment if self.second_corpus else None
            other = None if second is None else corpus_scores(base, second, self.rarity)
            words = [word for word, _ in ranked_words(source, other)[: self.n_words]]
            texts, n_masked = masked_texts(rows.texts, words, mask) if words else (rows.texts, 0)
        if not words:
            warnings.warn(
                f"{self.name} found no word in '{rows.name}' that goes with the model's answers, so this is ordinary "
                "training.",
                GuardrailWarning,
                stacklevel=2,
            )
        with watch.time("train"):
            trained = train(
                material,
                replace(rows, texts=texts),
                resolve_recipe(self.recipe, SOURCE, material),
                rule,
                stage="masked",
                watch=watch,
                seed=seed,
                progress=progress,
            )
        asked = len(rows) + len(second or ())
        return model_system(
            material,
            trained,
            {"selection": selection_info(rule, material), "words": words, "masked_texts": n_masked},
            cost=trained.cost + 2 * asked,
            seconds=watch.seconds,
        )
