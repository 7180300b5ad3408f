"""Words that override their texts together where none of them does so beyond doubt alone: the test of a set.

docs/explanation/audit-statistics.md ("Together") says what is tested and why. The texts are dealt into two halves by a
hash of their number. Texts that hold what is flagged, or an alternative wording of it, are set aside.

*The set* comes from one half. Its members are tested candidates of which all of this holds:

- Their rests speak less for their class than other texts do, in more than `min_relative_effect` of the pairs.
- Masking moves more than `min_pull` of their predictions (Benjamini and Hochberg's procedure over the exact binomial
  tests, at `fdr`). A prediction is *moved* if it changes and the class becomes less probable.
- Masking moves at least `LEAST_MOVED` of the predictions of all these texts.
- Their rests still speak less for the class where the other members are masked in the texts compared with.

*The null hypothesis* is tested on the other half: where members stand, the rest speaks for the member's class hardly
less than texts without any member do, or masking moves no more than `min_pull` of the predictions.

- Texts that hold what was nearly a member are left out of the comparison. That is a candidate that moves predictions
  and whose relative effect is above a half, or a rare one that moves at least half of its texts. Their texts speak for
  the class because of them.
- Where flagged words stand in texts of one class, the texts without them lack that class. So the null hypothesis has to
  be rejected with the texts set aside among those compared with as well, read without what is flagged.
- A text counts once, by the member with the strongest pull in the first half.
- Brunner and Munzel's test (`stats.brunner_munzel`) has a class for each text here. H_ij is 1 where text i with members
  speaks less than text j without for the class of i's member, and a half where both speak alike. Theta is the mean of
  H; its variance is that of the means over j divided by n, plus that of the means over i divided by m.

Each half takes either part once, and twice the smaller p-value decides (Bonferroni). If it is at most `fdr`, the
members are chosen once more, from both halves. Not exact: phrases and flagged words are found on all texts, and texts
of one template may fall into both halves. `bench/experiments/audit_simulation` simulates how often there is a set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

import numpy as np

from ..config import AuditConfig
from ..stats import LEVELS, Placements, levels, p_of_placements, relative_effect
from ..typing import Array
from .context import EVEN, Outcomes, Shards, Tally, count_levels, heard, tally
from .measurements import Shard
from .sampling import mixed


@dataclass(frozen=True)
class WordSet:
    """What some texts say of a set of words.

    Attributes:
        members: The candidates that belong to it, by name: the class that each pushes towards, and what it adds to that
            class's probability, on average over the texts that hold it.
        left_out: Candidates that are nearly members, or may be. Texts that hold one are not compared with; see the
            head of this module.
    """

    members: Mapping[str, tuple[int, float]]
    left_out: frozenset[str] = frozenset()


LEAST_MOVED = 0.005
"""A word whose masking moves the answers to a smaller share of the texts looked at is no member: it hardly matters, and
there are many. If its relative effect is above a half it is nearly one, and texts with it are left out of the
comparison."""


def with_set(shards: Shards, sums: Tally, outcomes: Outcomes, config: AuditConfig) -> Outcomes:
    """The outcomes with the set of candidates that override their texts together, beside those that are flagged."""
    left_out = outcomes.alternative_wording.copy()
    left_out[list(outcomes.flagged)] = True
    names = {name for name, out in zip(sums.names, left_out, strict=True) if out}
    shards = _only(shards, lambda shard: shard.compared)
    p_value = set_p_value(shards, config, names)
    members = find_set(_only(shards, _holding_none(names)), config).members if p_value <= config.fdr else {}
    chosen = np.array([name in members for name in sums.names], dtype=bool)
    return replace(outcomes, collective=chosen, set_p_value=p_value, undecided=outcomes.undecided | chosen)


def _only(shards: Shards, chosen: Callable[[Shard], Array]) -> Shards:
    """The shards with those texts as the only evidence that `chosen` says of each, shape (D,)."""
    return lambda: (replace(shard, evidence=shard.evidence & chosen(shard)) for shard in shards())


def _holding_none(names: Set[str]) -> Callable[[Shard], Array]:
    """Says which texts of a shard hold none of these candidates."""

    def chosen(shard: Shard) -> Array:
        holds = np.array([name in names for name in shard.names], dtype=bool)
        return np.isin(np.arange(len(shard)), shard.texts[holds[shard.keys]], invert=True)

    return chosen


def set_p_value(shards: Shards, config: AuditConfig, left_out: Set[str] = frozenset()) -> float:
    """Of the null hypothesis that no set of words overrides its texts, in [0, 1]; see the head of this module."""
    half = replace(config, min_count=max(2, config.min_count // 2))
    others = _only(shards, _holding_none(left_out))

    def p_value(k: int) -> float:
        words = find_set(_only(others, lambda shard: _coin(shard.rows) == k), half)
        rest = _only(others, lambda shard: _coin(shard.rows) != k)
        whole = _only(shards, lambda shard: _coin(shard.rows) != k)
        p = p_of_set(rest, words, config)
        return max(p, p_of_set(whole, words, config, left_out)) if left_out else p

    return min(1.0, 2 * min(p_value(0), p_value(1)))


def _coin(rows: Array) -> Array:
    """0 or 1 for each number: the lowest bit of its hash."""
    lowest: Array = mixed(rows) & np.uint64(1)
    return lowest


def find_set(shards: Shards, config: AuditConfig) -> WordSet:
    """The candidates that belong to a set if there is one, none where there would be fewer than two."""
    from scipy.stats import binom, false_discovery_control

    sums = tally(shards, config)
    tested = np.flatnonzero(sums.tested & (sums.target >= 0))
    if not len(tested):
        return WordSet({})
    all_moved = _moved(shards, sums)
    moved = all_moved[tested]
    q = false_discovery_control(binom.sf(moved - 1, sums.present[tested], config.min_pull))
    opposed = _relative_effects(shards, sums, [], config)
    moves = q <= config.fdr
    moving, matters = tested[moves], tested[moves & (moved >= LEAST_MOVED * sums.n_texts)]
    alike = matters[opposed[matters] > config.min_relative_effect]
    if len(alike) < 2:
        return WordSet({})
    stays = alike[_relative_effects(shards, sums, alike.tolist(), config)[alike] > EVEN]
    if len(stays) < 2:
        return WordSet({})
    targets = sums.target[stays]
    pulls = sums.pull[stays, targets] / sums.present[stays]
    members = {sums.names[i]: (int(c), float(pull)) for i, c, pull in zip(stays, targets, pulls, strict=True)}
    # Nobody can say of a rare word whether it is a member, but its texts may speak for the class because of it.
    rare = np.flatnonzero(~sums.tested & (sums.target >= 0) & (2 * all_moved >= sums.present))
    near = np.union1d(np.setdiff1d(moving[opposed[moving] > EVEN], stays), rare)
    return WordSet(members, frozenset(sums.names[i] for i in near))


def _relative_effects(shards: Shards, sums: Tally, masked: list[int], config: AuditConfig) -> Array:
    """Of each candidate, with some masked in the texts that it is compared with, shape (M,); NaN where not counted."""
    seen = count_levels(shards, sums, masked, config)
    found = np.full(len(sums.names), np.nan)
    found[seen.candidates] = relative_effect(seen.rests, seen.others)
    return found


def _moved(shards: Shards, sums: Tally) -> Array:
    """Texts with each candidate whose answer it moves, shape (M,)."""
    number = {name: i for i, name in enumerate(sums.names)}
    moved = np.zeros(len(number), dtype=np.int64)
    for shard in shards():
        ids = np.array([number[name] for name in shard.names], dtype=np.int64)[shard.keys]
        chosen = np.flatnonzero(shard.evidence[shard.texts])
        np.add.at(moved, ids[chosen], _moves(shard, chosen, sums.target[ids[chosen]]))
    return moved


def _moves(shard: Shard, occurrences: Array, targets: Array) -> Array:
    """Whether masking changes the answer and makes the class less probable, shape (len(occurrences),)."""
    before, after = shard.probs[shard.texts[occurrences]], shard.rest_probs(occurrences)
    rows = np.arange(len(occurrences))
    moves: Array = (before.argmax(axis=1) != after.argmax(axis=1)) & (before[rows, targets] > after[rows, targets])
    return moves


def p_of_set(shards: Shards, words: WordSet, config: AuditConfig, masked: Set[str] = frozenset()) -> float:
    """Of the null hypothesis about a set that was found on other texts, in [0, 1]; 1 where it cannot be tested.

    Args:
        masked: Candidates without which the texts compared with are read. Texts of members that hold one do not count.
    """
    from scipy.stats import binom

    if not words.members:
        return 1.0
    rests = others = np.zeros((0, LEVELS), dtype=np.int64)
    moved = 0
    for shard in shards():
        if not len(rests):
            rests, others = np.zeros((2, shard.probs.shape[1], LEVELS), dtype=np.int64)
        clear = replace(shard, evidence=shard.evidence & _holding_none(masked)(shard))
        strongest, targets = _strongest(clear, words.members)
        np.add.at(rests, (targets, levels(shard.rest_probs(strongest))[np.arange(len(strongest)), targets]), 1)
        moved += int(_moves(shard, strongest, targets).sum())
        for counted, speaks in zip(others, _others(shard, words, config, masked).T, strict=True):
            np.add.at(counted, speaks, 1)
    n, m = int(rests.sum()), int(others[0].sum())
    if min(n, m) < config.min_count:
        return 1.0
    above = 1 - (np.cumsum(others, axis=1) - others / 2) / m
    placements = Placements(n, float((rests * above).sum()), float((rests * above**2).sum()))
    # The shares of the set's rests below each level add up over classes to those that a text speaks more than.
    below = (np.cumsum(rests, axis=1) - rests / 2) / n
    total = squares = 0.0
    for shard in shards():
        shares = below[np.arange(len(below)), _others(shard, words, config, masked)].sum(axis=1)
        total, squares = total + float(shares.sum()), squares + float((shares**2).sum())
    p_opposed = p_of_placements(placements, Placements(m, total, squares), config.min_relative_effect)
    return max(p_opposed, float(binom.sf(moved - 1, n, config.min_pull)))


def _others(shard: Shard, words: WordSet, config: AuditConfig, masked: Set[str]) -> Array:
    """How strongly the evidence texts without members and what is left out speak for each class, by level, (m, C)."""
    compared = shard.evidence & _holding_none(words.members.keys() | words.left_out)(shard)
    return levels(heard(shard, masked, config)[0][compared])


def _strongest(shard: Shard, members: Mapping[str, tuple[int, float]]) -> tuple[Array, Array]:
    """Of each evidence text with members the occurrence of the strongest, and its class, both of shape (n,)."""
    known = [members.get(name, (-1, -np.inf)) for name in shard.names]
    targets, pulls = np.array([c for c, _ in known], dtype=np.int64), np.array([pull for _, pull in known])
    chosen = np.flatnonzero(shard.evidence[shard.texts])
    chosen = chosen[targets[shard.keys[chosen]] >= 0]
    chosen = chosen[np.argsort(-pulls[shard.keys[chosen]], kind="stable")]
    _, first = np.unique(shard.texts[chosen], return_index=True)
    strongest = chosen[first]
    return strongest, targets[shard.keys[strongest]]
