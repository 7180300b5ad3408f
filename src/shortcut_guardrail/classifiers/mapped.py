"""A classifier in the words of another: its classes counted for that one's labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import enumerated
from ..errors import ConfigError, ModelError
from ..typing import Array, Progress, Text
from .probabilities import log_probs, log_softmax
from .protocol import Classifier, Cost


class Around:
    """What asks another classifier, whose name, fingerprint, cost and record it has."""

    inner: Classifier

    @property
    def name(self) -> str:
        """As shown."""
        return self.inner.name

    def fingerprint(self) -> str:
        """See `Classifier`."""
        return self.inner.fingerprint()

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Classifier`."""
        return self.inner.cost(texts)

    def record(self) -> dict[str, Any]:
        """See `Classifier`."""
        return self.inner.record()


@dataclass(frozen=True)
class MappedClassifier(Around):
    """A classifier with the same labels, or with labels that are mapped to them."""

    inner: Classifier
    label_names: tuple[str, ...]  # the labels of the deployed model
    columns: tuple[tuple[int, ...], ...]  # for each of them, the classes of the classifier that count for it
    settings: Mapping[str, Any]  # for the record

    def predict_proba(self, texts: Sequence[Text], *, progress: Progress | None = None, again: bool = False) -> Array:
        """See `Classifier`; of a text whose classes count for no label, as if it had to be one of those that do."""
        logs = log_probs(self.inner.predict_proba(texts, progress=progress, again=again))
        counted = [np.logaddexp.reduce(logs[:, list(own)], axis=1) for own in self.columns]
        return np.exp(log_softmax(np.stack(counted, axis=1)))

    def record(self) -> dict[str, Any]:
        """See `Classifier`."""
        names = self.inner.label_names
        counted = [[names[i] for i in own] for own in self.columns]
        return {**super().record(), "labels": counted, **self.settings}


def label_columns(
    theirs: Sequence[str], labels: Sequence[str], mapping: Mapping[str, str | Sequence[str]], name: str
) -> tuple[tuple[int, ...], ...]:
    """Which classes of a classifier count for each label; by name, where the mapping does not say."""
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
