"""Less-learn-shortcut: a text counts the less, the more one of its words goes with its label (Du et al., IJCAI 2023).

No code is known, and of the paper only the abstract was read. docs/research/methods/less-learn.md says what is recalled
and what is ours.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import GuardrailWarning
from shortcut_guardrail.typing import Progress

from ..finetuning import Objective
from ..systems import Material, ModelSystem, Need
from .bias_only import SOURCE
from .selection import find_rule, rule_for
from .training import (
    Changes,
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

LEAST_TEXTS = 5
"""In how many training texts a word has to stand."""


@dataclass(frozen=True)
class Degree:
    """How a word goes with the labels.

    Attributes:
        n: Texts that hold it.
        share: n(w, c) / n(w), the share of these that has each label, shape (C,).
        excess: How far that is above the class's share of all texts, (share - prior) / (1 - prior), at least 0,
            shape (C,), in [0, 1].
    """

    n: int
    share: Array
    excess: Array


def occurrences_of(text: str | Sequence[str]) -> list[str]:
    """The lower-case words of a text, or of both of a pair, as often as they occur and in their order."""
    return re.findall(r"\w+", (text if isinstance(text, str) else "\n".join(text)).lower())


def words_of(text: str | Sequence[str]) -> set[str]:
    """The lower-case words of a text, or of either of a pair, as the bag of words of `poe-bow` has them."""
    return set(occurrences_of(text))


def degrees(texts: Texts, labels: Array, n_classes: int, *, least: int = LEAST_TEXTS) -> dict[str, Degree]:
    """The degree of every word that stands in at least so many texts.

    Args:
        texts: N texts.
        labels: Class ids, shape (N,).
        n_classes: C.
        least: Fewest texts.
    """
    pairs = Counter(
        (word, label) for text, label in zip(texts, labels.tolist(), strict=True) for word in words_of(text)
    )
    counts: dict[str, Array] = {}
    for (word, label), count in pairs.items():
        counts.setdefault(word, np.zeros(n_classes))[label] += count
    prior = np.bincount(labels, minlength=n_classes) / len(labels)
    rest = np.maximum(1 - prior, 1e-12)  # of a single class nothing is in excess
    found = {}
    for word in sorted(counts):
        if (n := int(counts[word].sum())) >= least:
            share = counts[word] / n
            found[word] = Degree(n, share, np.clip((share - prior) / rest, 0.0, 1.0))
    return found


def ranked_words(found: Mapping[str, Degree]) -> list[tuple[str, float]]:
    """As a finder: every word with its largest excess times log n(w), the highest first, then by the alphabet."""
    scores = {word: float(degree.excess.max()) * math.log(degree.n) for word, degree in found.items()}
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def text_degrees(
    texts: Texts, labels: Array, found: Mapping[str, Degree], *, least: float, of: Literal["max", "mean"]
) -> Array:
    """b_i: the largest, or the mean, excess for y_i of the text's biased words, shape (N,); 0 where it has none.

    Args:
        texts: N texts.
        labels: y, shape (N,).
        found: See `degrees`.
        least: From which share of its texts on that have y_i a word is biased.
        of: Which of the two.
    """
    values = np.zeros(len(labels))
    for row, (text, label) in enumerate(zip(texts, labels.tolist(), strict=True)):
        known = [found[word] for word in words_of(text) if word in found]
        agreeing = [degree.excess[label] for degree in known if degree.share[label] >= least]
        if agreeing:
            values[row] = max(agreeing) if of == "max" else float(np.mean(sorted(agreeing)))
    return values


def text_weights(values: Array, floor: float) -> Array:
    """max(floor, 1 - b_i), divided by its mean, shape (N,)."""
    weights = np.maximum(floor, 1 - values)
    return np.asarray(weights / weights.mean())


class Weighted(Objective):
    """mean_i w_i CE(z_i, y_i).

    Args:
        weights: Of all N rows, shape (N,).
    """

    def __init__(self, weights: Array) -> None:
        self._weights = torch.from_numpy(weights).float()

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch."""
        labels = inputs.pop("labels")
        weights = self._weights[rows.cpu()].to(labels.device)
        return (weights * F.cross_entropy(model(**inputs).logits.float(), labels, reduction="none")).mean()


@dataclass(frozen=True)
class LessLearn:
    """Less-learn-shortcut.

    Attributes:
        name: The name in tables.
        least_texts: In how many training texts a word has to stand.
        least_share: From which share of its texts on that have one label a word is biased.
        of: A text is as biased as its most biased word (`max`) or as these are on average (`mean`).
        floor: The least weight of a text, before weights are divided by their mean.
        recipe: See `training.resolve_recipe`.
        select: Which epoch is kept.
    """

    name: str = "less_learn"
    least_texts: int = LEAST_TEXTS
    least_share: float = 0.8
    of: Literal["max", "mean"] = "max"
    floor: float = 0.05
    recipe: Recipe = "source"
    select: str = "last"

    def __post_init__(self) -> None:
        require(self.least_texts >= 1, f"least_texts must be at least 1, but is {self.least_texts}.")
        share = self.least_share
        require(0 < share <= 1, f"least_share must be above 0 and at most 1, but is {share}.")
        require(self.of in ("max", "mean"), f"of must be max or mean, but is {self.of!r}.")
        require(0 < self.floor <= 1, f"floor must be above 0 and at most 1, but is {self.floor}.")
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, and what the rule reads."""
        return frozenset({Need.TRAIN}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Count words, then train the encoder on weighted texts; a warning says where all weights are equal.

        Raises:
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        with watch.time("degrees"):
            found = degrees(rows.texts, rows.labels, len(material.label_names), least=self.least_texts)
            values = text_degrees(rows.texts, rows.labels, found, least=self.least_share, of=self.of)
            weights = text_weights(values, self.floor)
        if not values.any():
            warnings.warn(
                f"No text of '{rows.name}' has a word that goes with its label, so {self.name} is ordinary training. "
                "Lower least_share or least_texts.",
                GuardrailWarning,
                stacklevel=2,
            )
        with watch.time("train"):
            trained = train(
                material,
                rows,
                recipe,
                rule,
                stage="weighted",
                watch=watch,
                seed=seed,
                changes=Changes(objective=Weighted(weights)),
                progress=progress,
            )
        return model_system(
            material,
            trained,
            {
                "selection": selection_info(rule, material),
                "biased_texts": float((values > 0).mean()),
                "effective_rows": float(weights.sum() ** 2 / (weights**2).sum()),
                "words": [word for word, _ in ranked_words(found)[:20]],
            },
            cost=trained.cost,
            seconds=watch.seconds,
        )
