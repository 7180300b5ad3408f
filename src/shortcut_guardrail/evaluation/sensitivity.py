"""How far predictions depend on single tokens: MSTPS and shortcut token recall, on all texts or on a random sample."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from ..attribution import (
    MaskingEffects,
    Saliency,
    find_important_tokens,
    masking_effects,
    predicted_probabilities,
)
from ..config import SaliencyConfig
from ..errors import ConfigError
from ..metrics import TokenRecall, sensitivity, token_recall
from ..models import EncodedTexts, Reader, TextClassifier, rows_by_turns
from ..stats import exact_interval, mean_interval
from ..typing import Array, Erasure, Progress

_TEXTS_AT_ONCE = 100

SensitivityOn = int | Literal["all", "none"]
"""On how many of the evaluated texts sensitivity is measured."""


@dataclass(frozen=True)
class Sensitivity:
    """How far the predictions for n texts depend on single tokens.

    Attributes:
        mstps: Maximum single-token prediction sensitivity with the evaluated model's important tokens, in [0, 1].
        interval: 95 % interval of `mstps` for texts like these (Student's t over the texts); NaNs for a single text.
        mstps_base_tokens: The same with the important tokens of the original model.
        shortcut_token_recall: By k; empty if no shortcuts were named.
    """

    n: int
    mstps: float
    interval: tuple[float, float]
    mstps_base_tokens: float
    shortcut_token_recall: dict[int, TokenRecall]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary with stable keys; what is undefined is `None`."""
        return {
            "mstps": defined(self.mstps),
            "mstps_interval": None if math.isnan(self.interval[0]) else list(self.interval),
            "mstps_base_tokens": defined(self.mstps_base_tokens),
            "shortcut_token_recall": {
                str(k): {
                    "recall": defined(found.recall),
                    "interval": list(exact_interval(found.hits, found.n)) if found.n else None,
                    "chance": defined(found.chance),
                    "n": found.n,
                }
                for k, found in self.shortcut_token_recall.items()
            },
            "sensitivity_n": self.n,
        }


NOT_MEASURED = Sensitivity(0, math.nan, (math.nan, math.nan), math.nan, {})


def defined(value: float) -> float | None:
    """The value itself; `None` for NaN, which JSON does not know."""
    return None if math.isnan(value) else value


def sampled_rows(n: int, on: SensitivityOn, seed: int) -> Array:
    """Which of n texts sensitivity is measured on, ascending; drawn without replacement, the same for the same seed."""
    if on not in ("all", "none") and (not isinstance(on, int) or isinstance(on, bool) or on < 1):
        raise ConfigError(f"sensitivity must be all, none or a positive number of texts, but is {on!r}.")
    if on == "none":
        return np.zeros(0, dtype=np.int64)
    if on == "all" or int(on) >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size=int(on), replace=False))


def important_tokens(
    classifier: TextClassifier, texts: EncodedTexts, config: SaliencyConfig, progress: Progress | None
) -> Saliency:
    """`find_important_tokens`, whose result does not depend on how many processes share the texts."""

    def some(rows: Array, told: Progress | None) -> tuple[Array, ...]:
        found = find_important_tokens(classifier, texts.select(rows), config, progress=told)
        return tuple(getattr(found, field.name) for field in fields(Saliency))

    return Saliency(*rows_by_turns(len(texts), _TEXTS_AT_ONCE, some, progress))


def effects_of(
    classifier: Reader, texts: EncodedTexts, positions: Array, *, erasure: Erasure, progress: Progress | None
) -> MaskingEffects:
    """`masking_effects`, likewise."""

    def some(rows: Array, told: Progress | None) -> tuple[Array]:
        how: dict[str, Any] = {"erasure": erasure, "progress": told}
        return (masking_effects(classifier, texts.select(rows), positions[rows], **how).probs,)

    return MaskingEffects(*rows_by_turns(len(texts), _TEXTS_AT_ONCE, some, progress))


def summarize_sensitivity(
    encoded: EncodedTexts,
    saliency: Saliency,
    effects: MaskingEffects,
    *,
    base_effects: MaskingEffects | None = None,
    shortcut_tokens: list[set[int]] | None = None,
) -> Sensitivity:
    """MSTPS and recall from what was measured.

    Args:
        saliency: Their important tokens, by the evaluated model.
        effects: Its answers with each of them masked.
        base_effects: Its answers with the base model's important tokens masked; `None` when it is the base.
        shortcut_tokens: For each text the positions of the tokens that carry a shortcut; `None` without shortcuts.
    """
    before, masked = predicted_probabilities(saliency, effects)
    changes = sensitivity(before, masked)
    of_base = changes
    if base_effects is not None:
        of_base = sensitivity(before, base_effects.probability_of(saliency.predictions))
    recall: dict[int, TokenRecall] = {}
    if shortcut_tokens is not None:
        n_ordinary = np.array([int(ordinary.sum()) for ordinary in encoded.ordinary])
        top_k = saliency.positions.shape[1]
        ks = sorted({k for k in (1, 3, top_k) if k <= top_k})
        recall = {k: token_recall(saliency.positions, shortcut_tokens, n_ordinary, k) for k in ks}
    mean = float(changes.mean())
    return Sensitivity(len(encoded), mean, mean_interval(changes), float(of_base.mean()), recall)
