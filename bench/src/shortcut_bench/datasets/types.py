"""What a data set of the benchmark is: labelled texts with groups, and the sets that one setting needs.

All of it is plain data. The builders are in the modules beside this one; the harness reads nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import DataError

HIDDEN_GROUP = -1
"""The group id of a text whose group is not told."""

TEST_NAMES = ("in_distribution", "reversed", "test")
"""The keys that `BenchmarkData.tests` may have."""


@dataclass(frozen=True)
class DataCard:
    """Where a data set comes from, and what its user has to know.

    Attributes:
        name: Readable name.
        description: One or two sentences.
        source: Where the texts come from: an address, or what was read.
        licence: The licence as known.
        citation: Who to cite.
        notes: What differs from the paper or limits what can be concluded, one sentence each.
    """

    name: str
    description: str
    source: str
    licence: str
    citation: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        return asdict(self) | {"notes": list(self.notes)}


@dataclass(frozen=True, eq=False)
class OverlappingGroups:
    """Groups of which a text can be in none, one or several, as the 16 of WILDS-CivilComments.

    Attributes:
        members: Whether each text is in each group, shape (N, M), booleans.
        names: The M readable names.
    """

    members: NDArray[np.bool_]
    names: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """How many texts each group has; they need not add up to N."""
        return dict(zip(self.names, self.members.sum(axis=0).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """N texts, or pairs of texts, with their labels and groups.

    Attributes:
        name: What the set is called in tables and messages, such as "test-reversed".
        texts: N texts or N pairs.
        labels: Class ids, shape (N,), int64, in the order of `label_names`.
        label_names: The C label names.
        groups: Group ids, shape (N,), int64, in [0, G), or `HIDDEN_GROUP` for all.
        group_names: The G readable names; a group may have no texts.
        overlapping: Further groups, which may overlap, where the data set has them.
    """

    name: str
    texts: Texts
    labels: NDArray[np.int64]
    label_names: tuple[str, ...]
    groups: NDArray[np.int64]
    group_names: tuple[str, ...]
    overlapping: OverlappingGroups | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        sizes = {"texts": len(self.texts), "labels": len(self.labels), "groups": len(self.groups)}
        if self.overlapping is not None:
            sizes["overlapping"] = len(self.overlapping.members)
        if len(set(sizes.values())) > 1:
            raise DataError(f"The set '{self.name}' needs as many labels and groups as texts, but has {sizes}.")
        _check_ids(self.labels, 0, len(self.label_names), f"labels of the set '{self.name}'")
        _check_ids(self.groups, HIDDEN_GROUP, len(self.group_names), f"groups of the set '{self.name}'")

    def __len__(self) -> int:
        """The number of texts, N."""
        return len(self.texts)

    def select(self, indices: ArrayLike) -> LabelledTexts:
        """The texts at these positions, in their order.

        Args:
            indices: Positions in [0, N); a position may repeat.

        Raises:
            DataError: One is out of range, or they are no integers.
        """
        chosen = np.asarray(indices)
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise DataError(f"indices must be a list of positions, but have shape {chosen.shape}, type {chosen.dtype}.")
        chosen = chosen.astype(np.int64)
        _check_ids(chosen, 0, len(self), "indices")
        overlapping = self.overlapping
        if overlapping is not None:
            overlapping = replace(overlapping, members=overlapping.members[chosen])
        texts = cast(Texts, [self.texts[index] for index in chosen])
        return replace(
            self, texts=texts, labels=self.labels[chosen], groups=self.groups[chosen], overlapping=overlapping
        )

    def without_groups(self) -> LabelledTexts:
        """The same texts and labels with every group id hidden, for whoever is not to see them."""
        return replace(self, groups=np.full(len(self), HIDDEN_GROUP, dtype=np.int64), overlapping=None)

    def counts(self) -> dict[str, int]:
        """How many texts each group has, empty groups included; texts whose group is hidden are not counted."""
        shown = self.groups[self.groups != HIDDEN_GROUP]
        counts = np.bincount(shown, minlength=len(self.group_names))
        return dict(zip(self.group_names, counts.tolist(), strict=True))

    def fingerprint(self) -> str:
        """A SHA-256 over texts, labels and label names in their order, 64 hexadecimal digits; groups do not enter."""
        digest = hashlib.sha256(json.dumps(self.label_names, ensure_ascii=False).encode())
        for text, label in zip(self.texts, self.labels.tolist(), strict=True):
            digest.update(json.dumps([text, label], ensure_ascii=False).encode() + b"\n")
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class BenchmarkData:
    """Everything that one setting of an experiment needs.

    Attributes:
        name: The builder's name, such as "goemo-st".
        train: What an ordinary classifier is trained on.
        dev: Held-out texts distributed as the training texts, for choosing hyperparameters.
        tests: Test sets by name, of `TEST_NAMES`: "in_distribution" and "reversed" (the anti-test set) where the
            shortcut is controlled, "test" where there is one natural test set.
        oracle_tests: For the same names, the same rows with the inserted shortcut removed again and with the labels and
            groups of those rows; empty where nothing is inserted.
        clean_train: The training rows without the inserted shortcut; None where nothing is inserted.
        shortcuts: The words and phrases that are planted or tracked.
        card: Source, licence and caveats.
        settings: How the sets were made, JSON-ready: sizes, seed, cap, strength and whatever the builder has.
    """

    name: str
    train: LabelledTexts
    dev: LabelledTexts
    tests: Mapping[str, LabelledTexts]
    oracle_tests: Mapping[str, LabelledTexts]
    clean_train: LabelledTexts | None
    shortcuts: tuple[str, ...]
    card: DataCard
    settings: Mapping[str, Any]

    @property
    def label_names(self) -> tuple[str, ...]:
        """The C label names."""
        return self.train.label_names

    def sets(self) -> dict[str, LabelledTexts]:
        """All sets by name, oracle and clean ones included."""
        named = {"train": self.train, "dev": self.dev, **self.tests}
        named |= {f"{name}, oracle": oracle for name, oracle in self.oracle_tests.items()}
        return named if self.clean_train is None else {**named, "clean_train": self.clean_train}

    def fingerprint(self) -> str:
        """A SHA-256 over the fingerprints of all sets by name."""
        return hashlib.sha256(
            json.dumps({name: rows.fingerprint() for name, rows in self.sets().items()}).encode()
        ).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """What a result says about its data, JSON-ready: counts, fingerprints, settings and card, but no text."""
        return {
            "name": self.name,
            "settings": dict(self.settings),
            "shortcuts": list(self.shortcuts),
            "label_names": list(self.label_names),
            "counts": {name: rows.counts() for name, rows in self.sets().items()},
            "fingerprints": {name: rows.fingerprint() for name, rows in self.sets().items()},
            "card": self.card.to_dict(),
        }


def _check_ids(ids: NDArray[np.int64], low: int, high: int, what: str) -> None:
    outside = np.flatnonzero((ids < low) | (ids >= high))
    if outside.size:
        first = outside[0]
        raise DataError(
            f"The {what} must lie in {low} to {high - 1}, but {outside.size} do not; "
            f"the first is {ids[first]}, at position {first}."
        )
