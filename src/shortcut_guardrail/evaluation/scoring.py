"""Scores a model on labelled texts: accuracies by group, MSTPS, shortcut token recall."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..attribution import MaskingEffects, Saliency
from ..audit import AuditReport, predicted_probabilities
from ..data import counted
from ..display import MOST_ROWS, Shown, Summary, cut, interval, number
from ..errors import GuardrailWarning
from ..metrics import (
    SMALL_GROUP,
    GroupAccuracy,
    TokenRecall,
    accuracy,
    balanced_accuracy,
    group_accuracy,
    majority_accuracy,
    mstps,
    token_recall,
    worst_group,
)
from ..models import EncodedTexts
from ..stats import exact_interval
from ..text import WordFinder
from ..typing import Array
from .groups import Groups, by_label, by_shortcut

ShortcutIn = Literal["text", "pair", "both"]

EVALUATION_SCHEMA_VERSION = 1


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """Scores of one model on n labelled texts.

    Attributes:
        n: Number of texts.
        accuracy: In [0, 1].
        balanced_accuracy: Mean accuracy over the classes that occur.
        majority_accuracy: What always answering the most frequent class scores.
        groups: Accuracy by label and, where shortcuts were named, their presence.
        mstps: Sensitivity to the important tokens of the evaluated model, lower is less reliance.
        mstps_base_tokens: The same with the important tokens of the base model.
        shortcut_token_recall: By k; empty where no shortcuts were named.
        n_truncated: Texts longer than the model takes.
    """

    n: int
    accuracy: float
    balanced_accuracy: float
    majority_accuracy: float
    groups: tuple[GroupAccuracy, ...]
    mstps: float
    mstps_base_tokens: float
    shortcut_token_recall: dict[int, TokenRecall]
    n_truncated: int

    @property
    def worst_group(self) -> GroupAccuracy | None:
        """The group with the lowest accuracy; `None` if every group is empty."""
        return worst_group(self.groups)

    @property
    def worst_group_accuracy(self) -> float:
        """Accuracy of the worst group, in [0, 1]; NaN if every group is empty."""
        worst = self.worst_group
        return worst.accuracy if worst else float("nan")

    def _summary(self) -> Summary:
        worst, shown = self.worst_group, self.groups
        if len(shown) > MOST_ROWS:  # the worst first
            shown = tuple(sorted(shown, key=lambda group: group.accuracy if group.n else 2.0)[:MOST_ROWS])
        between = exact_interval(round(self.accuracy * self.n), self.n) if self.n else (math.nan, math.nan)
        facts = {
            "accuracy": f"{number(self.accuracy)} ({interval(*between)}), balanced {number(self.balanced_accuracy)}; "
            f"majority class {number(self.majority_accuracy)}",
            "worst group": f"{number(worst.accuracy)} (n = {worst.n:,}): {cut(worst.name, 50)}" if worst else "-",
            "MSTPS": f"{number(self.mstps)}, with the tokens of the base {number(self.mstps_base_tokens)}",
        }
        if recalls := self.shortcut_token_recall:
            facts["recall"] = ", ".join(f"{number(r.recall)} at {k}" for k, r in recalls.items()) + " (shortcut tokens)"
        return Summary(
            f"Evaluation: {counted(self.n, 'text')}" + (f" ({self.n_truncated:,} cut)" if self.n_truncated else ""),
            facts,
            ("group", ">n", ">accuracy", ">95 %"),
            [(group.name, group.n, group.accuracy, group.interval) for group in shown],
            more=len(self.groups) - len(shown),
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary with stable keys; what is undefined is `None`."""
        worst = self.worst_group
        return {
            "schema_version": EVALUATION_SCHEMA_VERSION,
            "n": self.n,
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "majority_accuracy": self.majority_accuracy,
            "worst_group_accuracy": worst.accuracy if worst else None,
            "worst_group": worst.name if worst else None,
            "groups": [
                {
                    "name": group.name,
                    "n": group.n,
                    "accuracy": _defined(group.accuracy),
                    "interval": list(group.interval) if group.n else None,
                }
                for group in self.groups
            ],
            "mstps": self.mstps,
            "mstps_base_tokens": self.mstps_base_tokens,
            "shortcut_token_recall": {
                str(k): {"recall": _defined(r.recall), "chance": _defined(r.chance), "n": r.n}
                for k, r in self.shortcut_token_recall.items()
            },
            "n_truncated": self.n_truncated,
        }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def evaluate_audited(
    audit: AuditReport,
    labels: Array,
    *,
    base_effects: MaskingEffects | None = None,
    finder: WordFinder | None = None,
    shortcut_in: ShortcutIn = "text",
) -> Evaluation:
    """Score an audited model against labels; nothing is predicted again.

    Args:
        audit: The audit of the evaluated model on n texts.
        labels: Class ids, shape (n,).
        base_effects: The evaluated model's answers with the base model's important tokens masked; `None` when the
            evaluated model is the base.
        finder: Finds the named shortcuts; `None` groups by label alone.
        shortcut_in: Which side of a pair shortcuts are looked for in.
    """
    encoded, saliency = audit.encoded, audit.saliency
    before, _ = predicted_probabilities(saliency, audit.effects)
    base_mstps = (
        audit.mstps if base_effects is None else mstps(before, base_effects.probability_of(saliency.predictions))
    )
    tokens = None if finder is None else shortcut_tokens(encoded, finder, shortcut_in)
    groups = _groups(labels, tokens, audit.label_names)
    per_group = group_accuracy(saliency.predictions, labels, groups.ids, groups.names)
    _warn_about_small_groups(per_group)
    return Evaluation(
        n=len(encoded),
        accuracy=accuracy(saliency.predictions, labels),
        balanced_accuracy=balanced_accuracy(saliency.predictions, labels),
        majority_accuracy=majority_accuracy(labels),
        groups=per_group,
        mstps=audit.mstps,
        mstps_base_tokens=base_mstps,
        shortcut_token_recall={} if tokens is None else _recalls(saliency, tokens, encoded, audit.top_k),
        n_truncated=int(encoded.truncated.sum()),
    )


def _groups(labels: Array, tokens: list[set[int]] | None, label_names: tuple[str, ...]) -> Groups:
    if tokens is None:
        return by_label(labels, label_names)
    return by_shortcut(labels, np.array([bool(t) for t in tokens]), label_names)


def _recalls(saliency: Saliency, tokens: list[set[int]], encoded: EncodedTexts, top_k: int) -> dict[int, TokenRecall]:
    n_ordinary = np.array([int(ordinary.sum()) for ordinary in encoded.ordinary])
    ks = sorted({k for k in (1, 3, top_k) if k <= top_k})
    return {k: token_recall(saliency.positions, tokens, n_ordinary, k) for k in ks}


_SIDES = {"text": (0,), "pair": (1,), "both": (0, 1)}


def shortcut_tokens(encoded: EncodedTexts, finder: WordFinder, shortcut_in: ShortcutIn = "text") -> list[set[int]]:
    """For each text the positions of the tokens that carry a shortcut; an empty set means it has none.

    Shortcuts are looked for in what the model sees after truncation. Of a phrase, only the content-bearing words
    count: a lone "to" is not "to be honest".
    """
    found = (finder.tokens(encoded, i, sides=_SIDES[shortcut_in], content_only=True) for i in range(len(encoded)))
    return [set(np.flatnonzero(tokens).tolist()) for tokens in found]


def _warn_about_small_groups(groups: tuple[GroupAccuracy, ...]) -> None:
    small = [
        f"'{group.name}' ({group.n} {'example' if group.n == 1 else 'examples'})"
        for group in groups
        if 0 < group.n < SMALL_GROUP
    ]
    if small:
        warnings.warn(
            f"Small groups: {', '.join(small)}. Read their accuracies with care.", GuardrailWarning, stacklevel=3
        )
