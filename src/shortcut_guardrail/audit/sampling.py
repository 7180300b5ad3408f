"""Samples of a large corpus: texts at random, and then more of those that hold certain words.

Every distinct text has a place in [0, 1), a hash of it. *The base* are the texts below one place: a simple random
sample, which says what holds of all texts. For some words there is a second place further up, below which all texts
that hold one of them are drawn as well: for each of these words a simple random sample of all texts that hold it. A
text that was drawn for one word says nothing of the words without a second place that it holds. So in each test the
texts with a word are a random sample of those with it, and the texts without it are one of those without it: the tests
stay what they are (sampling with permanent random numbers, Ohlsson 1995).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple, cast

import numpy as np

from ..data import Count, Texts, TextSource, Within, counted
from ..errors import DataError
from ..text import Repeats, evidence_key, find_repeats, text_key, unit_key, word_spans
from ..typing import Array, Progress, Text


@dataclass(frozen=True)
class Sampled:
    """How the texts of an audit were sampled from a larger corpus.

    Attributes:
        n: Texts of the corpus, repeats included.
        n_distinct: Its distinct texts; near-identical repeats count once.
        n_base: Distinct texts that were sampled from all. The report's totals are over them and their repeats.
        n_more: Distinct texts that were added for the `words`.
        words: Words and phrases that changed predictions in these, so that more texts with them were added.
        share: The share of all distinct texts with one of these words that are in the sample.
    """

    n: Count
    n_distinct: Count
    n_base: Count
    n_more: Count
    words: tuple[str, ...]
    share: Annotated[float, Within(0, 1)]

    @property
    def note(self) -> str:
        """What a reader has to know of it, in a sentence or two."""
        base = f"This is a random sample of {self.n_base:,} of {self.n_distinct:,} distinct texts."
        if not self.n_more:
            return base
        words = counted(len(self.words), "word")
        return (
            f"{base} {self.n_more:,} more were added that contain one of {words} that changed predictions: "
            f"{self.share:.0%} of the texts with these words are in the sample."
        )


class Below(NamedTuple):
    """A place in [0, 1], and how many distinct texts of the corpus are below it."""

    place: float
    n: int


@dataclass(frozen=True, eq=False)
class Drawing:
    """What tests have to know of D sampled texts: the place of each, shape (D,), below which place all texts were
    sampled, and for some words below which all texts that hold them were."""

    places: Array
    base: Below
    words: Mapping[str, Below]

    @property
    def compared(self) -> Array:
        """Which texts stand for all that lack a word, shape (D,)."""
        below: Array = self.places < self.base.place
        return below

    def of(self, name: str) -> Below:
        """Below which place all texts that hold a word, or a phrase, were sampled."""
        return max(self.words.get(one, self.base) for one in (name, *name.split(" ")))


@dataclass(frozen=True, eq=False)
class Sample:
    """D distinct texts of a corpus.

    Attributes:
        labels: As they are written, where the source has them.
        rows: Which of the corpus each is, ascending, shape (D,).
        repeats: How many texts of the corpus each stands for, and whether it is the first of near-identical ones there.
    """

    texts: Texts
    labels: list[str] | None
    rows: Array
    repeats: Repeats
    drawing: Drawing
    about: Sampled


class _Drawn(NamedTuple):
    """A text of the corpus, by its place."""

    place: float
    row: int
    text: Text
    label: str | None


@dataclass(frozen=True, eq=False)
class Corpus:
    """N texts that are read as often as needed: the `text_key` and the place of each, shape (N,), and which repeat
    others. Of each text 33 bytes are kept, and some 150 are needed at a time (results/samples_scale.json)."""

    source: TextSource
    exact: Array
    places: Array
    repeats: Repeats

    @classmethod
    def read(cls, source: TextSource, seed: int = 0, progress: Progress | None = None) -> Corpus:
        """Read all texts once.

        Raises:
            DataError: There are none.
        """
        exact, near, done = [], [], 0
        for texts, _ in source.chunks():
            exact.append(np.array([text_key(text) for text in texts], dtype=np.uint64))
            near.append(np.array([evidence_key(text) for text in texts], dtype=np.uint64))
            done += len(texts)
            if progress is not None:
                progress("Reading", done, done + 1)  # the end is not known yet
        if not exact:
            raise DataError(f"{source.name} holds no text; at least one is needed.")
        keys = np.concatenate(exact)
        # Hashed once more: what is sampled by the keys themselves elsewhere is sampled anew here.
        places = (mixed(keys + np.uint64(seed)) >> np.uint64(11)) / 2.0**53
        return cls(source, keys, places, find_repeats(keys, np.concatenate(near)))

    @property
    def distinct(self) -> int:
        """How many texts differ at all."""
        return int((self.repeats.weights > 0).sum())

    def base(self, size: int, progress: Progress | None = None) -> Sample:
        """A random sample of about `size` of the distinct texts."""
        base = self._below(min(1.0, size / self.distinct))
        wanted = (self.places < base.place) & (self.repeats.weights > 0)
        return self._sample(list(self._some(wanted, progress)), base, {})

    def with_words(self, base: Sample, words: Sequence[str], size: int, progress: Progress | None = None) -> Sample:
        """A base with at most `size` more texts that hold one of some words or phrases: those with lowest places."""
        parts = [frozenset(word.split(" ")) for word in words]
        alone = frozenset(part for one in parts if len(one) == 1 for part in one)
        together = [one for one in parts if len(one) > 1]
        more: list[_Drawn] = []
        place = 1.0
        for one in self._some(self.repeats.evidence & (self.places >= base.drawing.base.place), progress):
            found = _words_of(one.text) if one.place < place else frozenset()
            if not alone.isdisjoint(found) or any(phrase <= found for phrase in together):
                more.append(one)
            if len(more) > 2 * size + 1000:
                more, place = _lowest(more, size, place)
        more, place = _lowest(more, size, place)
        labels: Sequence[str | None] = base.labels or [None] * len(base.rows)
        rows = zip(base.rows.tolist(), cast("Sequence[Text]", base.texts), labels, strict=True)
        first = [_Drawn(0.0, *row) for row in rows]
        return self._sample([*first, *more], base.drawing.base, dict.fromkeys(words, self._below(place)))

    def _below(self, place: float) -> Below:
        return Below(place, int((self.places[self.repeats.evidence] < place).sum()))

    def _some(self, wanted: Array, progress: Progress | None) -> Iterator[_Drawn]:
        """Some of the texts.

        Raises:
            DataError: They are not what they were.
        """
        done = 0
        for texts, labels in self.source.chunks():
            for i in np.flatnonzero(wanted[done : done + len(texts)]).tolist():
                text, row = cast("Sequence[Text]", texts)[i], done + i
                if text_key(text) != self.exact[row]:
                    self._changed()
                yield _Drawn(float(self.places[row]), row, text, None if labels is None else labels[i])
            done += len(texts)
            if progress is not None:
                progress("Sampling", min(done, len(self.exact)), len(self.exact))
        if done != len(self.exact):
            self._changed()

    def _changed(self) -> None:
        raise DataError(f"{self.source.name} was changed while it was read. Start again when nothing writes to it.")

    def _sample(self, drawn: list[_Drawn], base: Below, words: Mapping[str, Below]) -> Sample:
        drawn = sorted(drawn, key=lambda one: one.row)
        rows = np.array([one.row for one in drawn], dtype=np.int64)
        drawing = Drawing(self.places[rows], base, words)
        repeats = Repeats(np.arange(len(rows)), self.repeats.weights[rows], self.repeats.evidence[rows])
        n_base = int((drawing.compared & repeats.evidence).sum())
        n, n_distinct = len(self.exact), int(self.repeats.evidence.sum())
        share = max((below.place for below in words.values()), default=base.place)
        about = Sampled(n, n_distinct, n_base, int(repeats.evidence.sum()) - n_base, tuple(words), share)
        labels = [one.label for one in drawn if one.label is not None]
        return Sample(cast(Texts, [one.text for one in drawn]), labels or None, rows, repeats, drawing, about)


def _lowest(texts: list[_Drawn], size: int, place: float) -> tuple[list[_Drawn], float]:
    """At most so many texts with the lowest places, and below which place these are all, where those above `place` are
    left out already."""
    ordered = sorted(texts, key=lambda one: one.place)
    return ordered[:size], ordered[size].place if len(ordered) > size else place


def mixed(x: Array) -> Array:
    """The splitmix64 hash of each number (Steele, Lea and Flood 2014), uint64."""
    x = x.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    hashed: Array = x ^ (x >> np.uint64(31))
    return hashed


def _words_of(text: Text) -> frozenset[str]:
    sides = (text,) if isinstance(text, str) else text
    return frozenset(_key(side[start:end]) for side in sides for start, end in word_spans(side))


_key = lru_cache(maxsize=2**17)(unit_key)
