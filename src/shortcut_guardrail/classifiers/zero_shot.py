"""A model of entailment as a classifier of any labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import enumerated
from ..errors import ConfigError, ModelError
from ..models import TextClassifier, measured_seconds, warn_of_cut
from ..typing import Array, Progress, Text
from .probabilities import fingerprint_of, geometric_mean, log_softmax
from .protocol import Cost

ZERO_SHOT_TEMPLATES = ("This example is {label}.", "This text is about something {label}.")


@dataclass(frozen=True)
class ZeroShotClassifier:
    """A model of entailment: does the text entail a hypothesis that names the label?"""

    label_names: tuple[str, ...]
    model: TextClassifier  # it, with a class "entailment"
    templates: tuple[str, ...]  # hypotheses with `{label}`, whose probabilities are averaged (`geometric_mean`)
    phrases: tuple[str, ...]  # what is said in place of each label
    settings: Mapping[str, Any]  # for the record

    def __post_init__(self) -> None:
        for template in self.templates:
            if "{label}" not in template:
                raise ConfigError(f"A hypothesis must hold {{label}}, but is {template!r}.")
        if entailing(self.model.label_names) is None:
            raise ModelError(f"'{self.name}' has no label 'entailment' but {enumerated(self.model.label_names)}.")

    @property
    def name(self) -> str:
        """Of the model."""
        return self.model.name

    def fingerprint(self) -> str:
        """Over weights and hypotheses."""
        return fingerprint_of({"weights": self.model.fingerprint(), "asked": [self.templates, self.phrases]})

    def predict_proba(self, texts: Sequence[Text], *, progress: Progress | None = None, again: bool = False) -> Array:
        """See `Classifier`; by how probable it is that the hypothesis of each label is entailed."""
        shape = len(texts), len(self.phrases)
        place, cut, parts = entailing(self.model.label_names), np.zeros(len(texts), dtype=bool), []
        for template in self.templates:
            encoded = self.model.encode(self._pairs(template, texts))
            cut |= encoded.truncated.reshape(shape).any(axis=1)
            logits = self.model.predict_logits(encoded, progress=progress).astype(np.float64)
            parts.append(log_softmax(logits)[:, place].reshape(shape))
        warn_of_cut(self.name, int(cut.sum()), self.model.max_length)
        return geometric_mean(parts)

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Classifier`."""
        pairs = [pair for template in self.templates for pair in self._pairs(template, texts)]
        tokens = int(self.model.encode(pairs).lengths.sum())
        return Cost(len(texts), tokens, len(pairs), measured_seconds(self.predict_proba, texts))

    def record(self) -> dict[str, Any]:
        """See `Classifier`."""
        asked = {"prompts": list(self.templates), "phrases": list(self.phrases)}
        own = {"kind": "zero-shot", "fingerprint": self.fingerprint()}
        return {**self.model.record(), **own, **asked, **self.settings}

    def _pairs(self, template: str, texts: Sequence[Text]) -> list[tuple[str, str]]:
        hypotheses = [template.replace("{label}", phrase) for phrase in self.phrases]
        premises = [text if isinstance(text, str) else "\n".join(text) for text in texts]
        return [(premise, hypothesis) for premise in premises for hypothesis in hypotheses]


def entailing(names: Sequence[str]) -> int | None:
    """The class that says "entailment"; `None` if there is none."""
    return next((i for i, name in enumerate(names) if name.casefold() in ("entailment", "entailed", "entails")), None)
