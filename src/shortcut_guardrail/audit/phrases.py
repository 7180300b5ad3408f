"""Which recurring phrases are findings of their own, and the occurrences that are left to them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from ..typing import Array
from .context import Shards
from .measurements import NOT_ASKED, Shard

# A phrase acts together if what shows it is that unlikely to be chance, over all recurring phrases, and that large a
# share of its effect.
_P = 0.01
_SHARE = 0.2
_LEAST_VARIANCE = 1e-12


def acting_together(shards: Shards) -> dict[str, float]:
    """Phrases whose words act together, with the effect they have in all.

    What a word of such a phrase does depends on the others, which shows in one of two ways. *Interaction*: masking all
    its words changes the answer's probability by something else than masking all but the first (or last) and masking
    that one do in sum: less where each word is needed, more where one can stand in for another. *Context*: masking the
    first (or last) word alone takes more away within the phrase than where it stands in no phrase that recurs, as "to"
    does in "to be honest". A word that merely stands beside a phrase adds nothing or adds its own, as everywhere.
    Student's t-test of the mean over texts, Welch's of the two means, times the number of tests of the kind.
    """
    effects = _Effects()
    for shard in shards():
        effects.add(shard)
    return {
        name: -joint.total
        for name, joint in effects.whole.items()
        if joint.n >= 3 and joint.mean < 0 and (effects.interacts(name) or effects.depends_on_context(name))
    }


@dataclass
class _Moments:
    """Sums of some numbers and of their squares."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.n += 1
        self.total += value
        self.squares += value * value

    @property
    def mean(self) -> float:
        return self.total / self.n

    @property
    def variance(self) -> float:
        """Unbiased; 0 for fewer than two."""
        return max(self.squares - self.n * self.mean**2, 0.0) / (self.n - 1) if self.n > 1 else 0.0


class _Effects:
    """What masking does to the answer's probability: phrases whole, and their first and last words."""

    def __init__(self) -> None:
        self.whole: defaultdict[str, _Moments] = defaultdict(_Moments)  # all words of a phrase masked
        self.interaction: defaultdict[str, _Moments] = defaultdict(_Moments)  # see `Shard`
        # A phrase's first or last word masked within the phrase, and where it is in no phrase.
        self.inside: defaultdict[tuple[str, str], _Moments] = defaultdict(_Moments)
        self.alone: defaultdict[str, _Moments] = defaultdict(_Moments)

    def interacts(self, name: str) -> bool:
        from scipy.stats import t

        change = self.interaction[name]
        error = np.sqrt(max(change.variance, _LEAST_VARIANCE) / change.n)
        p = 2 * float(t.sf(abs(change.mean) / error, change.n - 1))
        return p * len(self.whole) <= _P and abs(change.mean) >= -_SHARE * self.whole[name].mean

    def depends_on_context(self, name: str) -> bool:
        from scipy.stats import ttest_ind_from_stats

        for word in sorted(_ends(name)):
            within, beyond = self.inside[name, word], self.alone[word]
            if min(within.n, beyond.n) < 3 or beyond.mean - within.mean < -_SHARE * self.whole[name].mean:
                continue
            columns = ((x.mean, np.sqrt(max(x.variance, _LEAST_VARIANCE)), x.n) for x in (within, beyond))
            tested = ttest_ind_from_stats(*itertools.chain(*columns), equal_var=False, alternative="less")
            if float(tested.pvalue) * 2 * len(self.whole) <= _P:
                return True
        return False

    def add(self, shard: Shard) -> None:
        is_phrase = ~np.isnan(shard.interaction)
        ends = {word for key in np.unique(shard.keys[is_phrase]) for word in _ends(shard.names[key])}
        chosen = np.flatnonzero(shard.evidence[shard.texts])
        changes = _changes(shard)
        words: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for o in chosen[~is_phrase[chosen] & (shard.masked[chosen] != NOT_ASKED)]:
            if shard.names[shard.keys[o]] in ends:
                words[int(shard.texts[o])][shard.names[shard.keys[o]]] = int(o)
        taken: set[int] = set()
        for o in chosen[is_phrase[chosen]]:
            name = shard.names[shard.keys[o]]
            self.whole[name].add(float(shard.joint[o]))
            self.interaction[name].add(float(shard.interaction[o]))
            for word in _ends(name):
                at = words[int(shard.texts[o])].get(word)
                if at is not None and _overlap(shard.spans[at], shard.spans[o]):
                    self.inside[name, word].add(float(changes[at]))
                    taken.add(at)
        for found in words.values():
            for word, at in found.items():
                if at not in taken:
                    self.alone[word].add(float(changes[at]))


def _changes(shard: Shard) -> Array:
    """What masking each occurrence does to the probability of the answer, shape (O,); 0 where it is not important."""
    answers = shard.predictions[shard.texts]
    rest = shard.rest_probs(np.arange(len(shard.texts)))
    changes: Array = rest[np.arange(len(rest)), answers] - shard.probs[shard.texts, answers]
    return changes


def _ends(phrase: str) -> set[str]:
    """The first and the last word of a phrase."""
    words = phrase.split()
    return {words[0], words[-1]}


def with_phrases(shards: Shards, phrases: dict[str, float]) -> Shards:
    """The same shards with every word inside a phrase that acts together left to the phrase.

    Of phrases that overlap in a text the longest stays, of equally long ones that with the largest effect over the
    corpus; all others go.
    """
    return lambda: (_claim(shard, phrases) for shard in shards())


def _claim(shard: Shard, phrases: dict[str, float]) -> Shard:
    is_phrase = shard.n_words[shard.keys] > 1
    keep = ~is_phrase
    weight = np.array([phrases.get(name, -1.0) for name in shard.names])
    claims: defaultdict[int, list[Array]] = defaultdict(list)
    order = [o for o in np.flatnonzero(is_phrase) if weight[shard.keys[o]] >= 0]
    for o in sorted(order, key=lambda o: (-shard.n_words[shard.keys[o]], -weight[shard.keys[o]])):
        span = shard.spans[o]
        taken = claims[int(shard.texts[o])]
        if not any(_overlap(span, other) for other in taken):
            keep[o] = True
            if shard.masked[o] >= 0:
                taken.append(span)
    for o in np.flatnonzero(~is_phrase):
        keep[o] = not any(_overlap(shard.spans[o], other) for other in claims[int(shard.texts[o])])
    kept = np.flatnonzero(keep)
    names = ("texts", "keys", "ranks", "scores", "spans", "masked", "interaction", "joint")
    return replace(shard, **{name: getattr(shard, name)[kept] for name in names})


def _overlap(a: Array, b: Array) -> bool:
    return bool(a[2] == b[2] and a[0] < b[1] and b[0] < a[1])
