"""A classifier whose answers are one line of algebra, as a function of texts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def bag(weights: Mapping[str, float], bias: float = -2.0) -> Callable[[Sequence[Any]], Any]:
    """Texts to probabilities of two classes: the second one's margin is the sum of the words' weights, of a pair the
    second text's."""

    def answer(texts: Sequence[Any]) -> Any:
        read = [(text if isinstance(text, str) else text[1]).split() for text in texts]
        margins = np.array([bias + sum(weights.get(word, 0.0) for word in words) for words in read])
        p = 1 / (1 + np.exp(-margins))
        return np.stack([1 - p, p], axis=1)

    return answer
