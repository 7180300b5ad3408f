"""Which words belong on one card: those that say the same and push towards the same class.

Three things join words that push towards one class:

- *Inflection*: words and phrases whose content words have the same stems ("book", "books", "this book"). A function
  word joins nothing through a phrase: "this" and "this book" have no content word in common.
- *Containment*: a phrase goes with the word or shorter phrase that it holds all content words of; if it holds several,
  with that on which most answers hang. It joins no two of them: "great" and "book" stay apart where "great book" is a
  phrase.
- *Meaning*: average linkage of the model's own input embeddings, each word the mean of its pieces, centred over the
  vocabulary, cut where the mean cosine falls below `ALIKE`. Words with content are linked with each other, and so are
  negations. All other function words, and punctuation, are alike to embeddings because they are frequent; they stand
  alone.

A flagged word brings its set before that. Its card grows by words whose cosine to the mean vector of the card is at
least `SIMILAR_TO_FLAGGED`. For words that were found as well (flagged, taking turns, or one of a set) `SIMILAR_FOUND`
is enough, since they are likely of the same shortcut. What joins moves the mean, and lets more join.

In the end the words that were found get a card of their own. The flips of a flagged word would decide about the words
beside it as well, and a repair takes the found words without a decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from ..text import content_words, is_content, stems
from ..typing import Array
from .card import Status

if TYPE_CHECKING:  # PyTorch takes seconds to import, and results are read without it.
    from ..models import Reader, TextClassifier

ALIKE = 0.2
"""Sets of words whose mean cosine is at least this are of one meaning."""

SIMILAR_TO_FLAGGED = 0.35
"""A word joins the card of a flagged word if its cosine to the mean of the card is at least this."""

SIMILAR_FOUND = 0.15
"""The same of a word that was found as well."""


@dataclass(frozen=True)
class PullingWord:
    """A word or phrase to be put on a card, and what an audit says of it; see `Candidate`.

    Attributes:
        changes: Distinct texts whose prediction changes when it is masked.
        found: Whether it was flagged, is an alternative wording of what was, or one of a set that overrides its texts.
    """

    text: str
    pushes_towards: str
    changes: int
    found: bool = False
    status: Status = "not_flagged"
    q_value: float = 1.0


def group_words(classifier: Reader, words: Sequence[PullingWord]) -> list[tuple[PullingWord, ...]]:
    """Sets of words, each sorted so that the one on which most answers hang is first; see the head of this module."""
    sets: list[tuple[PullingWord, ...]] = []
    for pushes_towards in sorted({word.pushes_towards for word in words}):
        members = sorted((w for w in words if w.pushes_towards == pushes_towards), key=_by_changes)
        roots = _by_content(members)
        for cluster in _by_meaning(classifier, [[members[i] for i in root] for root in roots]):
            chosen = sorted((members[i] for r in cluster for i in roots[r]), key=_by_changes)
            parts = (tuple(word for word in chosen if word.found is found) for found in (True, False))
            sets += filter(None, parts)
    return sorted(
        sets, key=lambda chosen: (-sum(word.changes for word in chosen), chosen[0].text, chosen[0].pushes_towards)
    )


def _by_changes(word: PullingWord) -> tuple[int, int, str]:
    # Of equal ones the shorter: "book" before "this book".
    return (-word.changes, len(word.text), word.text)


def _by_content(words: Sequence[PullingWord]) -> list[list[int]]:
    """Numbers of words joined by inflection and containment, the one that the others hold first."""
    groups: dict[frozenset[str], list[int]] = {}
    for i, word in enumerate(words):
        groups.setdefault(stems(word.text), []).append(i)
    changes = {key: sum(words[i].changes for i in group) for key, group in groups.items()}
    holder: dict[str, list[frozenset[str]]] = {}
    for key in groups:
        for stem in key:
            holder.setdefault(stem, []).append(key)

    def root(key: frozenset[str]) -> frozenset[str]:
        """The heaviest of those that it holds and that hold nothing themselves."""
        inside = {other for stem in key for other in holder[stem] if other < key}
        least = [other for other in inside if not any(inner < other for inner in inside)]
        return max(least, key=lambda other: (changes[other], sorted(other)), default=key)

    joined: dict[frozenset[str], list[int]] = {key: group for key, group in groups.items() if root(key) == key}
    for key, group in groups.items():
        if key not in joined:
            joined[root(key)] = joined[root(key)] + group
    return list(joined.values())


def _by_meaning(classifier: Reader, groups: Sequence[Sequence[PullingWord]]) -> list[list[int]]:
    """Numbers of groups of one meaning, each in one list; a group means the mean of its words."""
    kinds = np.array([_kind(group[0].text) for group in groups])
    clusters = [[i] for i in np.flatnonzero(kinds == "function").tolist()]
    for kind in ("content", "negation"):
        chosen = np.flatnonzero(kinds == kind).tolist()
        vectors = np.array([_mean(word_vectors(classifier, _core(groups[i]))) for i in chosen])
        found = np.array([any(word.found for word in groups[i]) for i in chosen], dtype=bool)
        flagged = [k for k, i in enumerate(chosen) if any(word.status == "flagged" for word in groups[i])]
        grown = _grown(vectors, flagged, np.where(found, SIMILAR_FOUND, SIMILAR_TO_FLAGGED))
        rest = np.setdiff1d(np.arange(len(chosen)), [k for cluster in grown for k in cluster]).tolist()
        linked = [[rest[k] for k in cluster] for cluster in _linked(vectors[rest])]
        clusters += [[chosen[k] for k in cluster] for cluster in grown + linked]
    return clusters


def _core(group: Sequence[PullingWord]) -> list[str]:
    """The first word and its inflections, without longer phrases, whose other words mean something else."""
    first = stems(group[0].text)
    return [word.text for word in group if stems(word.text) == first]


def _mean(vectors: Array) -> Array:
    """The unit vector of the mean; zeros where there is none."""
    total = vectors.sum(axis=0)
    mean: Array = total / max(float(np.linalg.norm(total)), 1e-12)
    return mean


def _grown(vectors: Array, seeds: Sequence[int], least: Array) -> list[list[int]]:
    """Clusters around some rows, each grown until no free row has its least cosine, shape (M,), to the mean."""
    free = np.ones(len(vectors), dtype=bool)
    clusters = []
    for seed in seeds:
        if not free[seed]:
            continue
        joined = np.arange(len(vectors)) == seed
        while True:
            centre = vectors[joined].sum(axis=0)
            near = free & ~joined & (vectors @ centre >= least * max(float(np.linalg.norm(centre)), 1e-12))
            if not near.any():
                break
            joined |= near
        free &= ~joined
        clusters.append(np.flatnonzero(joined).tolist())
    return clusters


def is_of_content(word: str) -> bool:
    """Whether a word or phrase carries content, as function words, punctuation and negations do not."""
    return _kind(word) == "content"


def is_of_function(words: Iterable[str]) -> bool:
    """Whether all of some words are function words or punctuation, which stand in texts of any kind."""
    return all(_kind(word) == "function" for word in words)


_NEGATIONS = frozenset(
    ["no", "not", "never", "nobody", "nothing", "none", "neither", "nor", "nowhere", "cannot", "without"]
)


def _kind(word: str) -> str:
    """Whether it is a word of content, a negation, or another function word or punctuation."""
    content = content_words(word)
    if any(part in _NEGATIONS or part.endswith("n't") for part in content):
        return "negation"
    return "content" if any(is_content(part) for part in content) else "function"


def word_vectors(reader: Reader, words: Sequence[str]) -> Array:
    """Unit vectors of what words and phrases mean to the model, shape (M, H); zeros where it has no piece of one.

    The mean of the input embeddings of the pieces of the content words, centred over the vocabulary. Zeros of a model
    that has no embeddings, so that no words are alike to it.
    """
    if "gradients" not in reader.capabilities:
        return np.zeros((len(words), 1))
    classifier = cast("TextClassifier", reader)
    table = classifier.plain_model.get_input_embeddings().weight.detach().float().cpu().numpy()
    centre = table.mean(axis=0)
    found = np.zeros((len(words), table.shape[1]), dtype=np.float64)
    for i, word in enumerate(words):
        # The space in front makes it the start of a word where the tokenizer tells that apart.
        ids = classifier.tokenizer([f" {part}" for part in content_words(word)], add_special_tokens=False)["input_ids"]
        pieces = [table[of_word].mean(axis=0) - centre for of_word in ids if len(of_word)]
        if pieces:
            found[i] = np.mean(pieces, axis=0)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    unit: Array = np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)
    return unit


def _linked(vectors: Array) -> list[list[int]]:
    """Clusters of average linkage by cosine, as lists of row numbers."""
    if len(vectors) < 2:
        return [[i] for i in range(len(vectors))]
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distances = np.clip(1 - vectors @ vectors.T, 0, 2)
    np.fill_diagonal(distances, 0)
    labels = fcluster(linkage(squareform(distances, checks=False), "average"), 1 - ALIKE, "distance")
    return [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
