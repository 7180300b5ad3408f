"""One shard of an audit: what the model does to some texts with each unit masked, as plain arrays that fit on a disk.

Everything an audit says is computed from shards, so that a large corpus needs the memory of one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..attribution import (
    MaskingEffects,
    Saliency,
    find_important_tokens,
    masking_effects,
    predicted_probabilities,
)
from ..config import AuditConfig
from ..data import numbers_file, read_numbers
from ..errors import DataError
from ..metrics import sensitivity
from ..models import EncodedTexts, Reader, TextClassifier
from ..text import (
    Repeats,
    Units,
    choose_spans,
    recurring_phrases,
    tokens_as_units,
    units_text,
    words_as_units,
)
from ..typing import Array, Erasure, Progress
from .sampling import Drawing

NOT_ASKED = -2
"""In `Shard.masked`: it is in the text, but nobody asked what the text is answered without it."""

PHRASE_COUNT = 5
"""In how many texts of a shard neighbouring words have to recur before they are masked together."""


@dataclass(frozen=True, eq=False)
class Shard:
    """What happened to D distinct texts.

    An occurrence is a candidate in a text, once, at the place where it scores highest. It is there for every unit of
    the text, important or not. Whether a unit is important depends on what else the text says, so the texts where it is
    important are no fair sample of those that hold it. Where it is not important, masking it is taken to change
    nothing.

    Attributes:
        rows: Which input each text is, shape (D,).
        weights: How many inputs have exactly this text, shape (D,).
        evidence: Whether the text counts as evidence: False for near-identical repeats of an earlier one, shape (D,).
        compared: Whether it stands for the texts without a word; False where it was drawn for its words, shape (D,).
        labels: True class ids, shape (D,), -1 without labels.
        probs: Class probabilities, shape (D, C), float32.
        truncated: Whether the text was cut, shape (D,).
        controls: Whether the text spells a control token, shape (D,).
        sensitivity: Its term in MSTPS, shape (D,).
        agreement: Rank correlation of scores and effects, shape (D,), NaN with fewer than three important units.
        top_agrees: Whether the highest-scored unit has the largest effect, shape (D,).
        names, n_words: The M candidates of this shard, and how many words each one has (1 for tokens), shape (M,).
        texts: Which text each occurrence is in, shape (O,), in [0, D), ascending.
        keys: Which candidate it is, shape (O,), in [0, M).
        ranks: Its rank among the important units, from 0, shape (O,); -1 where it is not important. A phrase has the
            rank of its first important word.
        scores: Its saliency, shape (O,); NaN where it is not important.
        spans: Start, end and segment of its characters, shape (O, 3).
        masked: Which row of `masked_probs` is the answer without it, shape (O,); -1 where it is not important, and
            `NOT_ASKED` where nothing is known of it. The latter texts neither hold it nor lack it for any test.
        masked_probs: Class probabilities with it masked, shape (V, C), float32.
        interaction: For phrases, shape (O,); NaN for single units. The change of the prediction's probability with all
            words masked, less the sum of two changes: with all but one masked, and with that one masked. The one is
            the first or the last word, whichever takes less part in the phrase.
        joint: For phrases: the change with all words masked, shape (O,); NaN for single units.
    """

    rows: Array
    weights: Array
    evidence: Array
    compared: Array
    labels: Array
    probs: Array
    truncated: Array
    controls: Array
    sensitivity: Array
    agreement: Array
    top_agrees: Array
    names: tuple[str, ...]
    n_words: Array
    texts: Array
    keys: Array
    ranks: Array
    scores: Array
    spans: Array
    masked: Array
    masked_probs: Array
    interaction: Array
    joint: Array
    phrases: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def predictions(self) -> Array:
        """Predicted class ids, shape (D,)."""
        classes: Array = self.probs.argmax(axis=1)
        return classes

    def rest_probs(self, occurrences: Array) -> Array:
        """Class probabilities of the rest of the text, with the candidate masked, shape (len(occurrences), C)."""
        masked = self.masked[occurrences]
        rest = self.probs[self.texts[occurrences]].copy()
        rest[masked >= 0] = self.masked_probs[masked[masked >= 0]]
        return rest

    # On disk

    def to_bytes(self) -> bytes:
        """The shard as a compressed NumPy archive behind the SHA-256 of it."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        words = {name: arrays.pop(name) for name in ("names", "phrases")}
        content = numbers_file(words, **arrays)
        return hashlib.sha256(content).hexdigest().encode() + b"\n" + content

    @classmethod
    def from_file(cls, path: Path) -> Shard:
        """The shard that `to_bytes` wrote."""
        try:
            digest, _, content = path.read_bytes().partition(b"\n")
        except FileNotFoundError as error:
            raise DataError(f"'{path}' is lost. Audit with resume=True to compute it again.") from error
        if hashlib.sha256(content).hexdigest().encode() != digest:
            raise DataError(f"'{path}' is damaged: its content does not match its checksum.")
        words, arrays = read_numbers(content, f"'{path}'")
        values: dict[str, Any] = {**arrays, **{name: tuple(found) for name, found in words.items()}}
        try:
            return cls(**values)
        except TypeError as error:
            raise DataError(f"'{path}' is damaged or was written by another version: {error}.") from error


@dataclass(frozen=True, eq=False)
class Measured:
    """What is measured of N texts, and kept of every text where all of them fit into memory.

    Attributes:
        saliency: Important units and predictions of each text; `positions` holds unit ids.
        effects: Predictions with each important unit masked.
        units: The units of each text; for the unit `token` their ids are positions.
        ends: Of the important units those that a phrase may begin or end with, shape (N, K); `None` for all.
        not_asked: Units that were not asked about in each of their texts.
    """

    encoded: EncodedTexts
    saliency: Saliency
    effects: MaskingEffects
    units: Units
    ends: Array | None = None
    not_asked: frozenset[str] = frozenset()

    def select(self, rows: Array) -> Measured:
        """The same for some of the texts, in the order of `rows`."""
        return Measured(
            self.encoded.select(rows),
            Saliency(*(getattr(self.saliency, f.name)[rows] for f in fields(Saliency))),
            MaskingEffects(self.effects.probs[rows]),
            Units(*([getattr(self.units, f.name)[i] for i in rows] for f in fields(Units))),
            None if self.ends is None else self.ends[rows],
            self.not_asked,
        )


class Attributed(NamedTuple):
    """N texts, their units, and the important ones of each."""

    encoded: EncodedTexts
    units: Units
    saliency: Saliency


def attribute(
    classifier: TextClassifier, encoded: EncodedTexts, config: AuditConfig, *, progress: Progress | None = None
) -> Attributed:
    """Find the important units of each text: two forward passes a text."""
    units = tokens_as_units(encoded) if config.unit == "token" else words_as_units(encoded)
    grouped = None if config.unit == "token" else units  # tokens by the paper's functions
    saliency = find_important_tokens(classifier, encoded, config.saliency(), units=grouped, progress=progress)
    return Attributed(encoded, units, saliency)


def measure(
    classifier: TextClassifier,
    found: Attributed,
    config: AuditConfig,
    erasure: Erasure,
    *,
    progress: Progress | None = None,
) -> Measured:
    """Erase the important units of each text one at a time: k forward passes a text."""
    grouped = None if config.unit == "token" else found.units
    how: dict[str, Any] = {"units": grouped, "erasure": erasure, "progress": progress}
    effects = masking_effects(classifier, found.encoded, found.saliency.positions, **how)
    return Measured(found.encoded, found.saliency, effects, found.units)


def make_shard(
    classifier: Reader,
    config: AuditConfig,
    measured: Measured,
    erasure: Erasure,
    *,
    rows: Array,
    repeats: Repeats,
    labels: Array | None = None,
    known_phrases: tuple[str, ...] = (),
    drawing: Drawing | None = None,
    progress: Progress | None = None,
) -> Shard:
    """Put what was measured into a shard; for the unit `phrase`, mask recurring phrases first.

    Args:
        rows: Which of N inputs each text is, shape (D,).
        labels: Class ids of the inputs, shape (N,).
        drawing: How the texts were drawn, if they are a sample.
    """
    encoded, saliency, units = measured.encoded, measured.saliency, measured.units
    before, after = predicted_probabilities(saliency, measured.effects)
    agreement, top_agrees = _agreement(saliency.margin_scores, before[:, None] - after)
    table = _Occurrences()
    _add_units(table, measured)
    phrases: set[str] = set()
    if config.unit == "phrase":
        ends = saliency.positions if measured.ends is None else measured.ends
        phrases = recurring_phrases(units, ends, min_count=PHRASE_COUNT, known=known_phrases)
        first, last = choose_spans(units, ends, phrases)
        how: dict[str, Any] = {"erasure": erasure, "stage": "Masking phrases", "progress": progress}
        joint = masking_effects(classifier, encoded, first, units=units, last=last, **how)
        _add_phrases(table, measured, first, last, joint, phrases)
    compared = np.ones(len(encoded), dtype=bool) if drawing is None else drawing.compared
    return Shard(
        rows=np.asarray(rows, dtype=np.int64),
        weights=repeats.weights[rows],
        evidence=repeats.evidence[rows],
        compared=compared,
        labels=np.full(len(encoded), -1, dtype=np.int64) if labels is None else labels[rows].astype(np.int64),
        probs=saliency.probs,
        truncated=encoded.truncated,
        controls=encoded.controls,
        sensitivity=sensitivity(before, after),
        agreement=agreement,
        top_agrees=top_agrees,
        phrases=tuple(sorted(phrases)),
        **table.arrays(saliency.probs.shape[1], measured.not_asked, drawing),
    )


_OCCURRENCE = np.dtype(
    [
        ("texts", np.int32),
        ("keys", np.int32),
        ("ranks", np.int16),
        ("scores", np.float32),
        ("spans", np.int32, (3,)),
        ("masked", np.int32),
        ("interaction", np.float32),
        ("joint", np.float32),
    ]
)


class _Occurrences:
    """Collects occurrences row by row; of a candidate in a text the first that is added stays."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.n_words: list[int] = []
        self.rows: dict[tuple[int, int], tuple[Any, ...]] = {}
        self.probs: list[Array] = []

    def add(
        self,
        text: int,
        name: str,
        span: tuple[int, int, int],
        *,
        n_words: int = 1,
        rank: int = -1,
        score: float = float("nan"),
        probs: Array | None = None,
        interaction: float = float("nan"),
        joint: float = float("nan"),
    ) -> None:
        key = self.index.setdefault(name, len(self.index))
        if key == len(self.n_words):
            self.n_words.append(n_words)
        if (text, key) in self.rows:
            return
        masked = -1
        if probs is not None:
            masked = len(self.probs)
            self.probs.append(probs)
        self.rows[text, key] = (text, key, rank, score, span, masked, interaction, joint)

    def arrays(self, n_classes: int, not_asked: Set[str], drawing: Drawing | None) -> dict[str, Any]:
        rows = np.array(list(self.rows.values()), dtype=_OCCURRENCE)
        rows = rows[np.argsort(rows["texts"], kind="stable")]
        open_ = np.array([not not_asked.isdisjoint(name.split(" ")) for name in self.index], dtype=bool)
        rows["masked"][(rows["masked"] < 0) & open_[rows["keys"]]] = NOT_ASKED
        if drawing is not None:  # of a word that a text was not drawn for, it says nothing
            places = np.array([drawing.of(name).place for name in self.index])
            for_others = drawing.places[rows["texts"]] >= places[rows["keys"]]
            rows["masked"][for_others], rows["ranks"][for_others] = NOT_ASKED, -1
        return {
            "names": tuple(self.index),
            "n_words": np.array(self.n_words, dtype=np.int16),
            "masked_probs": np.array(self.probs, dtype=np.float32).reshape(-1, n_classes),
            **{name: np.ascontiguousarray(rows[name]) for name in _OCCURRENCE.fields or ()},
        }


def _span(units: Units, text: int, first: int, last: int) -> tuple[int, int, int]:
    spans = units.spans[text]
    return int(spans[first, 0]), int(spans[last, 1]), int(spans[first, 2])


def _add_units(table: _Occurrences, measured: Measured) -> None:
    saliency, units = measured.saliency, measured.units
    for i, names in enumerate(units.keys):
        for slot, unit in enumerate(saliency.positions[i]):
            if unit >= 0 and names[unit]:
                score, probs = float(saliency.scores[i, slot]), measured.effects.probs[i, slot]
                table.add(i, names[unit], _span(units, i, unit, unit), rank=slot, score=score, probs=probs)
        for unit, name in enumerate(names):
            if name:
                table.add(i, name, _span(units, i, unit, unit))


def _add_phrases(
    table: _Occurrences, measured: Measured, first: Array, last: Array, joint: MaskingEffects, phrases: set[str]
) -> None:
    saliency, units = measured.saliency, measured.units
    for i in range(len(units)):
        spans = list(zip(first[i].tolist(), last[i].tolist(), strict=True))
        changes = _changes(measured, joint, spans, i)
        important = saliency.positions[i].tolist()
        for slot, (a, b) in enumerate(spans):
            # A part of a longer phrase can be a phrase too, but is one here only if its own ends are important.
            if a < 0 or a not in important or b not in important or (name := units_text(units, i, a, b)) not in phrases:
                continue
            ends = (
                changes[a, b] - changes[a + 1, b] - changes[a, a],
                changes[a, b] - changes[a, b - 1] - changes[b, b],
            )
            inside = [s for s, unit in enumerate(important) if a <= unit <= b]
            table.add(
                i,
                name,
                _span(units, i, a, b),
                n_words=b - a + 1,
                rank=min(inside),
                score=float(np.sqrt(np.square(saliency.scores[i, inside]).sum())),
                probs=joint.probs[i, slot],
                interaction=min(ends, key=abs),
                joint=changes[a, b],
            )
    # The texts that hold a phrase whose ends are not both important there.
    lengths = sorted({phrase.count(" ") for phrase in phrases})
    for i, names in enumerate(units.keys):
        for a in range(len(names)):
            for b in (a + length for length in lengths if a + length < len(names)):
                if (name := units_text(units, i, a, b)) in phrases:
                    table.add(i, name, _span(units, i, a, b), n_words=b - a + 1)


def _changes(
    measured: Measured, joint: MaskingEffects, spans: list[tuple[int, int]], text: int
) -> dict[tuple[int, int], float]:
    """Changes of the probability of one text's answer with each span of its words masked, and with each word; a word
    that is not important changes nothing.

    Of the probability, not the log-odds: two words each of which could go without a change of the answer, but not both,
    act together on the answer, although their log-odds may well add up.
    """
    saliency, answer = measured.saliency, int(measured.saliency.predictions[text])
    before = float(saliency.probs[text, answer])
    changes = {(unit, unit): 0.0 for unit in range(len(measured.units.keys[text]))}
    words = [(unit, unit) for unit in saliency.positions[text].tolist()]
    for masked, after in ((words, measured.effects.probs[text]), (spans, joint.probs[text])):
        changes |= {span: float(probs[answer]) - before for span, probs in zip(masked, after, strict=True)}
    return changes


def _agreement(scores: Array, drops: Array) -> tuple[Array, Array]:
    """Rank correlation of scores and absolute effects within each text, and whether both agree on the first unit."""
    from scipy.stats import rankdata

    there, effects = ~np.isnan(scores), np.abs(drops)
    best = [np.where(there, of, -np.inf).argmax(axis=1) for of in (scores, effects)]
    ranks = (rankdata(np.where(there, of, np.nan), axis=1, nan_policy="omit") for of in (scores, effects))
    n = there.sum(axis=1, keepdims=True)
    score, effect = (np.where(there, of - (n + 1) / 2, 0) for of in ranks)  # ranks have this mean, tied or not
    spread = np.sqrt((score**2).sum(axis=1) * (effect**2).sum(axis=1))
    defined = (n[:, 0] >= 3) & (spread > 0)
    correlation = np.full(len(scores), np.nan, dtype=np.float32)
    correlation[defined] = ((score * effect).sum(axis=1)[defined] / spread[defined]).clip(-1, 1)
    return correlation, there.any(axis=1) & (best[0] == best[1])
