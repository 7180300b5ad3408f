"""Which candidates override the rest of their texts: the tallies, the null hypothesis and its test.

The rest of a text, as the model itself reads it, is the witness. docs/explanation/audit-statistics.md has the null
hypothesis, the tests and why; this is what they come to, for a candidate that pushes towards class c:

    p_pull    = binomial test that masking takes c away in at most `min_pull` of its texts
    p_context = min(1, 2 min(Fisher's test of the answers, Brunner and Munzel's test of pairs by `min_relative_effect`))
    p         = max(p_pull, p_context)

AdaFilter (`stats.fdr`) over both parts of all candidates keeps the false-discovery rate. *Step-down*: the strongest
candidate is flagged first, its texts are read with it masked from then on, and p-values can only rise.

A candidate is an *alternative wording* of flagged ones if it passes the first step without a margin (a relative effect
above a half), and its rest still speaks less for c with the flagged ones masked. Others are *undecided* that take
answers away and could not have been flagged whatever their texts say (`stats.attainable`), or that decide most of their
texts without anything shown of their rests.

Not exact: c is chosen by looking, the two parts share the candidate's texts, and words share texts.
`bench/experiments/audit_simulation` simulates the rate that is kept, and `audit_rates` measures it on clean models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ..config import AuditConfig
from ..stats import (
    LEVELS,
    levels,
    levels_needed,
    p_all_opposed,
    p_relative_effect,
    q_values,
    relative_effect,
    texts_needed,
)
from ..typing import Array
from .measurements import NOT_ASKED, Shard

Shards = Callable[[], Iterable[Shard]]
"""Gives the shards of an audit, in their order, as often as it is called."""

MAX_FLAGGED = 50
"""The step-down stops here; each step reads all shards once more."""

EVEN = 0.5
"""The relative effect of a rest that speaks for a class as much as other texts do."""

RARE_TEXTS = 5
DECIDES = 0.5
"""A candidate decides its texts if masking it changes the answer in that share of those in which it is important. One
too rare to be tested is undecided, and not just rare, if it decides `RARE_TEXTS` or more."""


@dataclass(frozen=True, eq=False)
class Tally:
    """What the tests of M candidates are made of, arrays of shape (M,) but for `change`, shape (M, 2), and `pull`,
    shape (M, C). Texts that are no evidence count in `count` alone.

    Attributes:
        count: Inputs in which it is important, repeats included.
        present, without: Texts that hold it and were asked about, and that do not hold it.
        important: Texts in which it is important.
        flips: Of those, texts whose answer changes when it is masked.
        contradicted: Of those, texts whose rest is confidently given the other answer.
        change: Sum and sum of squares of the change of the answer's probability.
        pull: Sum over the texts that hold it of what it adds to the probability of each class.
        target: The class with the largest pull, -1 if it pulls nowhere.
        lost: Texts that lose this class when it is masked.
        opposed: Texts whose rest is given another class.
        p_pull: p-value of the null hypothesis's second part.
    """

    names: tuple[str, ...]
    n_words: Array
    count: Array
    present: Array
    without: Array
    important: Array
    flips: Array
    contradicted: Array
    change: Array
    pull: Array
    target: Array
    lost: Array
    opposed: Array
    tested: Array
    p_pull: Array
    n_texts: int


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcome of the test for the M candidates of a tally, arrays of shape (M,).

    Attributes:
        expected: The share of the texts without it that are given another answer than its class, as the test last saw
            them; NaN where nothing was asked, because it pulls nowhere or is important in too few texts.
        relative_effect: The share of pairs in which the rest of a text with it speaks less for its class than a text
            without it, as the test last saw them; NaN where not tested or where every text holds it.
        p, q: p-values, NaN where not tested, and q-values, 1 where not tested.
        flagged: Candidates in the order in which they were flagged.
        undecided: Whether it takes answers away, and the test can neither flag nor clear it.
        alternative_wording: Of these, whether it is an alternative wording of flagged ones.
        collective: Of these, whether it is one of a set that overrides its texts together; see `sets`.
        set_p_value: Of the null hypothesis that there is no such set; NaN from `decide`, which does not ask it.
        too_few: Whether the test could not have flagged it whatever its texts say.
        needed: Texts that hold it, in a larger corpus of the same shares, with which the test could have flagged it;
            NaN where no larger corpus would do, and for all that are not undecided.
    """

    expected: Array
    relative_effect: Array
    p: Array
    q: Array
    flagged: tuple[int, ...]
    undecided: Array
    alternative_wording: Array
    collective: Array
    set_p_value: float
    too_few: Array
    needed: Array


def tally(shards: Shards, config: AuditConfig) -> Tally:
    """Sum up the evidence for every candidate."""
    from scipy.stats import binom

    names: dict[str, int] = {}
    sums = np.zeros(0, _sums(0))
    n_texts = 0
    for shard in shards():
        ids = np.array([names.setdefault(name, len(names)) for name in shard.names], dtype=np.int64)
        sums = sums if len(sums) else np.zeros(0, _sums(shard.probs.shape[1]))
        sums = np.concatenate([sums, np.zeros(len(names) - len(sums), sums.dtype)])
        sums["n_words"][ids] = shard.n_words
        _add_shard(sums, shard, ids, config.confidence)
        n_texts += int((shard.evidence & shard.compared).sum())
    rows = np.arange(len(sums))
    target = sums["pull"].argmax(axis=1) if len(sums) else rows
    lost = sums["lost"][rows, target]
    counts = ("n_words", "count", "present", "important", "flips", "contradicted", "change", "pull")
    return Tally(
        names=tuple(names),
        **{name: sums[name] for name in counts},
        without=n_texts - sums["held"],
        target=np.where(sums["pull"][rows, target] > 0, target, -1),
        lost=lost,
        opposed=sums["present"] - sums["rest"][rows, target],
        tested=(sums["present"] >= config.min_count) & (sums["important"] > 0),
        p_pull=binom.sf(lost - 1, sums["present"], config.min_pull),
        n_texts=n_texts,
    )


def _sums(n_classes: int) -> np.dtype[np.void]:
    """What is summed of each candidate: as in `Tally`, and by class how many texts lose it, and whose rest is given
    it."""
    counts = ("n_words", "count", "held", "present", "important", "flips", "contradicted")
    return np.dtype(
        [(name, np.int64) for name in counts]
        + [("change", np.float64, (2,)), ("pull", np.float64, (n_classes,))]
        + [(name, np.int64, (n_classes,)) for name in ("lost", "rest")]
    )


def _add_shard(sums: Array, shard: Shard, ids: Array, confidence: float) -> None:
    keys = ids[shard.keys]
    important = shard.masked >= 0
    np.add.at(sums["count"], keys[important], shard.weights[shard.texts[important]])
    chosen = np.flatnonzero(shard.evidence[shard.texts])
    np.add.at(sums["held"], keys[chosen[shard.compared[shard.texts[chosen]]]], 1)
    chosen = chosen[shard.masked[chosen] != NOT_ASKED]
    keys, texts, important = keys[chosen], shard.texts[chosen], important[chosen]
    before, after = shard.probs[texts], shard.rest_probs(chosen)
    answers, rest = before.argmax(axis=1), after.argmax(axis=1)
    confident = after.max(axis=1) >= confidence
    flips = answers != rest
    rows = np.arange(len(chosen))
    change = (after[rows, answers] - before[rows, answers])[important]
    np.add.at(sums["present"], keys, 1)
    np.add.at(sums["important"], keys[important], 1)
    np.add.at(sums["flips"], keys[flips], 1)
    np.add.at(sums["contradicted"], keys[flips & confident], 1)
    np.add.at(sums["change"], keys[important], np.column_stack([change, np.square(change)]))
    np.add.at(sums["pull"], keys, before - after)
    np.add.at(sums["lost"], (keys[flips], answers[flips]), 1)
    np.add.at(sums["rest"], (keys, rest), 1)


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """How strongly texts speak for classes, counted by level (see `stats.brunner_munzel.levels`).

    Attributes:
        others: Evidence texts without each candidate by how strongly they speak for its class, with flagged candidates
            masked, shape (T, LEVELS).
        rests: Those with it that were asked about, by how strongly their rest does, with nothing else masked, shape
            (T, LEVELS).
        against: How many of the others are given another answer, shape (T,).
    """

    candidates: Array
    others: Array
    rests: Array
    against: Array


def count_levels(shards: Shards, sums: Tally, flagged: Sequence[int], config: AuditConfig) -> LevelCounts:
    """What the texts with and without each candidate say, with some candidates masked in the latter."""
    # Words that are rare and never asked about are most of a large corpus's.
    candidates = np.flatnonzero((sums.target >= 0) & (sums.tested | (sums.important >= RARE_TEXTS)))
    row = np.full(len(sums.names), -1)
    row[candidates] = np.arange(len(candidates))
    names = {name: i for i, name in enumerate(sums.names)}
    masked = {sums.names[i] for i in flagged}
    n_classes = sums.pull.shape[1]
    every, answers = np.zeros((n_classes, LEVELS), dtype=np.int64), np.zeros(n_classes, dtype=np.int64)
    held, rests = (np.zeros((len(candidates), LEVELS), dtype=np.int32) for _ in range(2))
    given = np.zeros(len(candidates), dtype=np.int64)  # of those that hold it, texts given its class
    for shard in shards():
        texts, answer, speaks = heard(shard, masked, config)
        strength = levels(texts)
        compared = shard.evidence & shard.compared
        np.add.at(answers, answer[compared & speaks], 1)
        for c in range(n_classes):
            np.add.at(every[c], strength[compared, c], 1)
        ids = np.array([names[name] for name in shard.names], dtype=np.int64)[shard.keys]
        chosen = np.flatnonzero(shard.evidence[shard.texts] & (row[ids] >= 0))
        ids, holders = ids[chosen], shard.texts[chosen]
        target = sums.target[ids]
        asked = shard.masked[chosen] != NOT_ASKED
        rest = shard.rest_probs(chosen[asked])[np.arange(int(asked.sum())), target[asked]]
        np.add.at(rests, (row[ids[asked]], levels(rest)), 1)
        ids, holders, target = (x[compared[holders]] for x in (ids, holders, target))
        np.add.at(given, row[ids], (answer[holders] == target) & speaks[holders])
        np.add.at(held, (row[ids], strength[holders, target]), 1)
    target = sums.target[candidates]
    against = sums.without[candidates] - (answers[target] - given)
    return LevelCounts(candidates, every[target] - held, rests, against)


def heard(shard: Shard, masked: Set[str], config: AuditConfig) -> tuple[Array, Array, Array]:
    """How far each text speaks for each class with some candidates masked, shape (D, C), its answer, and whether it
    speaks for it, both (D,). See `compare_with` of `AuditConfig`."""
    texts = _without(shard, masked)
    answer = texts.argmax(axis=1)
    if config.compare_with != "rests":
        return texts, answer, np.ones(len(texts), dtype=bool)
    rest = _without(shard, set(shard.names))
    return np.minimum(texts, rest), answer, answer == rest.argmax(axis=1)


def _without(shard: Shard, masked: Set[str]) -> Array:
    """Class probabilities of each text with that one of some candidates masked that holds its answer up most."""
    probs = shard.probs.copy()
    if not masked:
        return probs
    is_masked = np.array([name in masked for name in shard.names], dtype=bool)
    chosen = np.flatnonzero(is_masked[shard.keys] & (shard.masked >= 0))
    rest, texts = shard.rest_probs(chosen), shard.texts[chosen]
    kept = rest[np.arange(len(chosen)), shard.predictions[texts]]
    # The lowest one is written last, and so stays.
    order = np.argsort(-kept, kind="stable")
    probs[texts[order]] = rest[order]
    return probs


def judge(shards: Shards, sums: Tally, config: AuditConfig) -> Outcomes:
    """Test every candidate and flag those that override the rest of their texts; see the head of this module."""
    rows = np.arange(len(sums.names))
    opposed_pairs, p_context = np.full(len(rows), np.nan), np.ones(len(rows))
    against, spoken_for = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
    q = np.zeros(len(rows))
    flagged: list[int] = []

    def look() -> LevelCounts:
        """See the texts with what is flagged masked; p- and q-values can only rise, and those of the flagged stay."""
        seen = count_levels(shards, sums, flagged, config)
        new = _p_context(sums, seen, config.min_relative_effect)
        i, open_ = seen.candidates, ~np.isin(rows, flagged)
        still = open_[i]
        i = i[still]
        p_context[i] = np.maximum(p_context[i], new[still]) if flagged else new[still]
        opposed_pairs[i] = relative_effect(seen.rests, seen.others)[still]
        against[i] = seen.against[still]
        spoken_for[i] = (p_relative_effect(seen.others, seen.rests, EVEN) <= config.fdr)[still]
        q[open_] = np.maximum(q, _q_values(sums, p_context))[open_]
        return seen

    opposed_at_first = _opposed_at_all(sums, look(), config.fdr)
    while len(flagged) < MAX_FLAGGED:
        passing = np.setdiff1d(np.flatnonzero(sums.tested & (q <= config.fdr)), flagged)
        if not len(passing):
            break
        flagged.append(int(min(passing, key=lambda i: (max(sums.p_pull[i], p_context[i]), -sums.lost[i]))))
        look()
    needed_levels = levels_needed(sums.p_pull, p_context, sums.tested, config.fdr)
    # As if the rest of every text that holds it were opposed.
    smallest = p_all_opposed(sums.present, against, sums.without, config.min_relative_effect)
    too_few = ~sums.tested | (np.maximum(sums.p_pull, smallest) > needed_levels)
    alternative_wording = opposed_at_first & (opposed_pairs > EVEN) & bool(flagged)
    alternative_wording[flagged] = False
    undecided = (_asks(sums, too_few, config) & ~spoken_for) | alternative_wording
    undecided[flagged] = False
    return Outcomes(
        expected=against / np.maximum(sums.without, 1),
        relative_effect=np.where(sums.tested, opposed_pairs, np.nan),
        p=np.where(sums.tested, np.maximum(sums.p_pull, p_context), np.nan),
        q=q,
        flagged=tuple(flagged),
        undecided=undecided,
        alternative_wording=alternative_wording,
        collective=np.zeros(len(rows), dtype=bool),
        set_p_value=float("nan"),
        too_few=too_few,
        needed=_needed(sums, against, needed_levels, undecided & too_few & ~alternative_wording, config),
    )


def _p_context(sums: Tally, seen: LevelCounts, largest: float) -> Array:
    """p-values of the null hypothesis's first part for the candidates that are seen, with that margin for pairs."""
    from scipy.stats import hypergeom

    i = seen.candidates
    # Fisher's exact test, one-sided: are rests given another class more often than the others?
    opposed, n, m = sums.opposed[i], sums.present[i], sums.without[i]
    answers = np.where(m > 0, hypergeom.sf(opposed - 1, n + m, opposed + seen.against, n), 1.0)
    p: Array = np.minimum(1.0, 2 * np.minimum(answers, p_relative_effect(seen.rests, seen.others, largest)))
    return p


def _opposed_at_all(sums: Tally, seen: LevelCounts, fdr: float) -> Array:
    """Which candidates' rests speak less for their class than other texts at all, by no matter how little."""
    p_context = np.ones(len(sums.names))
    p_context[seen.candidates] = _p_context(sums, seen, EVEN)
    found: Array = sums.tested & (_q_values(sums, p_context) <= fdr)
    return found


def _asks(sums: Tally, too_few: Array, config: AuditConfig) -> Array:
    """Which candidates are an open question unless they are flagged or their context speaks for them."""
    decides = sums.flips >= DECIDES * sums.important
    rare = decides & (sums.important >= RARE_TEXTS)
    tested = (sums.p_pull <= config.fdr) & (too_few | decides)
    found: Array = (sums.target >= 0) & np.where(sums.tested, tested, rare)
    return found


def _needed(sums: Tally, against: Array, needed_levels: Array, few: Array, config: AuditConfig) -> Array:
    needed = np.full(len(few), np.nan)
    needed[few] = texts_needed(
        *(x[few] for x in (sums.present, sums.lost, against, sums.without, needed_levels)),
        min_count=config.min_count,
        min_pull=config.min_pull,
        min_relative_effect=config.min_relative_effect,
    )
    return needed


def _q_values(sums: Tally, p_context: Array) -> Array:
    q = np.ones(len(p_context))
    q[sums.tested] = q_values(sums.p_pull[sums.tested], p_context[sums.tested])
    return q
