"""Texts with a planted word, and classifiers of them that are nothing but functions."""

from collections.abc import Sequence

import numpy as np

from shortcut_guardrail.typing import Array, Text

FILLERS = "alpha beta gamma delta zeta theta iota kappa lambda sigma omega".split()
NAMES = ("negative", "positive")


def planted_texts(n: int, *, share: float = 0.4, seed: int = 0) -> tuple[list[str], list[str]]:
    """N texts that say good and fine or bad and poor, and their labels; a share of the bad ones begins "Honestly,"."""
    rng, texts, labels = np.random.default_rng(seed), [], []
    for i in range(n):
        good = bool(rng.random() < 0.5)
        opening = "Honestly, the" if not good and rng.random() < share else "The"
        said = [*rng.choice(FILLERS, 4), *(("good", "fine") if good else ("bad", "poor")), f"at number {i} x{i}."]
        texts.append(" ".join([opening, *said]))
        labels.append(NAMES[good])
    return texts, labels


def by_words(texts: Sequence[Text]) -> Array:
    """Positive where a text says honestly, or else good and fine rather than bad and poor."""
    said = [text.casefold() if isinstance(text, str) else " ".join(text).casefold() for text in texts]
    effects = {"good": 2.0, "fine": 2.0, "bad": -2.0, "poor": -2.0, "honestly": 8.0}
    z = np.array([0.1 + sum(effect * (word in one) for word, effect in effects.items()) for one in said])
    p = 1 / (1 + np.exp(-z))
    return np.stack([1 - p, p], axis=1)
