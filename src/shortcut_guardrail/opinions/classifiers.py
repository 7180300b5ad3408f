"""Ordinary and zero-shot classifiers, and functions, as sources."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import counted, enumerated
from ..errors import ConfigError, GuardrailWarning, ModelError, RunError
from ..models import TextClassifier
from ..typing import Array, Progress
from .source import (
    Cost,
    Source,
    Text,
    averaged,
    checked_log_probs,
    fingerprint_of,
    measured_seconds,
    normalised,
)

ZERO_SHOT_TEMPLATES = ("This example is {label}.", "This text is about something {label}.")
_CALLED_WITH = 256  # texts at a time


@dataclass(frozen=True)
class ClassifierSource:
    """A sequence classifier with the same labels, or with labels that are mapped to them.

    Attributes:
        name: As shown.
        classifier: It.
        columns: For each of the model's labels, the classes of the classifier that count for it.
        settings: For the record.
    """

    name: str
    classifier: TextClassifier
    columns: tuple[tuple[int, ...], ...]
    settings: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """Of its weights."""
        return self.classifier.fingerprint()

    def scores(self, texts: Sequence[Text], progress: Progress | None = None, *, again: bool = False) -> Array:
        """See `Source`."""
        logits = normalised(answers(self.classifier, texts, self.name, progress))
        return np.stack([np.logaddexp.reduce(logits[:, list(own)], axis=1) for own in self.columns], axis=1)

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Source`."""
        return _cost_of(self.classifier, self, texts, list(texts))

    def record(self) -> dict[str, Any]:
        """See `Source`."""
        names = self.classifier.label_names
        counted_for = [[names[i] for i in own] for own in self.columns]
        return {**_facts("classifier", self), "labels": counted_for, **self.settings}


def label_columns(
    theirs: Sequence[str], labels: Sequence[str], mapping: Mapping[str, str | Sequence[str]], name: str
) -> tuple[tuple[int, ...], ...]:
    """Which classes of a classifier count for each label; by name, where the mapping does not say.

    Raises:
        ConfigError: The mapping names a label or a class that does not exist, or one class for two labels.
        ModelError: A label has no class.
    """
    places = {label: i for i, label in reversed(list(enumerate(theirs)))}
    folded = {label.casefold(): i for label, i in places.items()}
    if unknown := [label for label in mapping if label not in labels]:
        raise ConfigError(f"'{name}': [labels] names '{unknown[0]}', but the model has {enumerated(list(labels))}.")
    columns: list[tuple[int, ...]] = []
    for label in labels:
        said = mapping.get(label, label)
        wanted = [said] if isinstance(said, str) else list(said)
        found = [places.get(one, folded.get(one.casefold())) for one in wanted]
        if None in found or not found:
            raise ModelError(
                f"'{name}' has other labels: {enumerated(list(theirs))}. None is '{wanted[0] if wanted else label}'. "
                f"Say in a TOML file which of them count for {enumerated(list(labels))}, under [labels]."
            )
        columns.append(tuple(place for place in found if place is not None))
    used = [place for own in columns for place in own]
    if len(set(used)) < len(used):
        raise ConfigError(f"'{name}': [labels] gives one class to two labels.")
    return tuple(columns)


@dataclass(frozen=True)
class ZeroShotSource:
    """A model of entailment: does the text entail a hypothesis that names the label?

    Attributes:
        name: As shown.
        classifier: It, with a class "entailment".
        templates: Hypotheses with `{label}`; their log-probabilities are averaged.
        phrases: What is said in place of each label.
        settings: For the record.
    """

    name: str
    classifier: TextClassifier
    templates: tuple[str, ...]
    phrases: tuple[str, ...]
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        for template in self.templates:
            if "{label}" not in template:
                raise ConfigError(f"A hypothesis must hold {{label}}, but is {template!r}.")
        if entailing(self.classifier.label_names) is None:
            raise ModelError(f"'{self.name}' has no label 'entailment' but {enumerated(self.classifier.label_names)}.")

    @property
    def fingerprint(self) -> str:
        """Over weights and hypotheses."""
        return fingerprint_of({"weights": self.classifier.fingerprint(), "asked": [self.templates, self.phrases]})

    def scores(self, texts: Sequence[Text], progress: Progress | None = None, *, again: bool = False) -> Array:
        """See `Source`; the log-probability of entailment of each label's hypothesis."""
        place = entailing(self.classifier.label_names)
        parts = []
        for template in self.templates:
            asked = self._pairs(template, texts)
            entailed = normalised(answers(self.classifier, asked, self.name, progress, len(self.phrases)))[:, place]
            parts.append(normalised(entailed.reshape(len(texts), len(self.phrases))))
        return averaged(parts)

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Source`."""
        return _cost_of(self.classifier, self, texts, [p for t in self.templates for p in self._pairs(t, texts)])

    def record(self) -> dict[str, Any]:
        """See `Source`."""
        asked = {"prompts": list(self.templates), "phrases": list(self.phrases)}
        return {**_facts("zero-shot", self), **asked, **self.settings}

    def _pairs(self, template: str, texts: Sequence[Text]) -> list[Text]:
        hypotheses = [template.replace("{label}", phrase) for phrase in self.phrases]
        premises = [text if isinstance(text, str) else "\n".join(text) for text in texts]
        return [(premise, hypothesis) for premise in premises for hypothesis in hypotheses]


def entailing(names: Sequence[str]) -> int | None:
    """The class that says "entailment"; `None` if there is none."""
    return next((i for i, name in enumerate(names) if name.casefold() in ("entailment", "entailed", "entails")), None)


@dataclass(frozen=True)
class FunctionSource:
    """A function from a list of N texts (or pairs) to probabilities of shape (N, C).

    Attributes:
        name: As shown.
        function: It.
        labels: The model's labels, in whose order the columns are.
        fingerprint: Of the file that it is in and its name; what it loads from elsewhere is not known.
    """

    name: str
    function: Callable[[list[Text]], Any]
    labels: tuple[str, ...]
    fingerprint: str

    def scores(self, texts: Sequence[Text], progress: Progress | None = None, *, again: bool = False) -> Array:
        """See `Source`. The function gets at most 256 texts at a time."""
        parts = [np.empty((0, len(self.labels)))]
        for start in range(0, len(texts), _CALLED_WITH):
            chunk = list(texts[start : start + _CALLED_WITH])
            try:
                given = self.function(list(chunk))
            except Exception as error:
                raise RunError(f"'{self.name}' failed: {type(error).__name__}: {error}") from error
            parts.append(checked_log_probs(given, len(chunk), self.labels, self.name))
            if progress is not None:
                progress("Asking", start + len(chunk), len(texts))
        return np.concatenate(parts)

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Source`."""
        return Cost(len(texts), None, -(-len(texts) // _CALLED_WITH), measured_seconds(self.scores, texts))

    def record(self) -> dict[str, Any]:
        """See `Source`."""
        return _facts("function", self)


def answers(
    classifier: TextClassifier, texts: Sequence[Text], name: str, progress: Progress | None, times: int = 1
) -> Array:
    """Logits of a classifier, shape (N, C), float64; a warning counts texts, each asked so many times, that are cut."""
    if not texts:
        return np.empty((0, classifier.n_classes))
    encoded = classifier.encode(list(texts))  # type: ignore[arg-type]
    if n := int(encoded.truncated.reshape(-1, times).any(axis=1).sum()):
        warnings.warn(
            f"'{name}' sees only the beginning of {counted(n, 'text')}: it takes at most "
            f"{classifier.max_length} tokens.",
            GuardrailWarning,
            stacklevel=3,
        )
    return classifier.predict_logits(encoded, progress=progress).astype(np.float64)


def _facts(kind: str, source: Source) -> dict[str, Any]:
    return {"kind": kind, "name": source.name, "fingerprint": source.fingerprint}


def _cost_of(classifier: TextClassifier, source: Source, texts: Sequence[Text], asked: list[Text]) -> Cost:
    """What a classifier takes for some texts, of which it is `asked` that much."""
    tokens = int(classifier.encode(asked).lengths.sum()) if asked else 0  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)
        return Cost(len(texts), tokens, len(asked), measured_seconds(source.scores, texts))
