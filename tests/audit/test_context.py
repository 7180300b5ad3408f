"""The test against the null hypothesis: on shards whose effects are known, and what it does to repeats and phrases."""

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from made_shards import shard
from shortcut_guardrail.audit.context import judge, tally
from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.stats import p_relative_effect

CONFIG = AuditConfig(min_count=5)


def flagged(*shards, config=CONFIG):
    sums = tally(lambda: shards, config)
    verdicts = judge(lambda: shards, sums, config)
    return [sums.names[i] for i in verdicts.flagged], sums, verdicts


def undecided(rows, config=CONFIG):
    _, sums, verdicts = flagged(shard(rows), config=config)
    return {sums.names[i] for i in np.flatnonzero(verdicts.undecided)}, sums, verdicts


# "honestly" makes 30 texts class 2 whose rest is 0; without it, texts are 2 as often as not.
PLANTED = [(2, {"honestly": 0, "the": 2})] * 30 + [(0, {"the": 0})] * 30 + [(2, {"the": 2})] * 30


def test_a_word_that_decides_against_its_context_is_flagged():
    names, sums, verdicts = flagged(shard(PLANTED))
    assert names == ["honestly"]
    i = sums.names.index("honestly")
    # Of 30 rests none is 2; of the 60 texts without it 30 are, and the other 30 tie.
    answers, pairs = hypergeom.sf(29, 90, 60, 30), p_relative_effect(np.array([[30, 0]]), np.array([[30, 30]]), 0.55)[0]
    assert answers < pairs
    expected = max(2 * answers, binom.sf(29, 30, 0.05))
    assert verdicts.p[i] == pytest.approx(expected, rel=1e-9)
    # Two candidates are tested, but no part of the other one passes this threshold.
    assert verdicts.q[i] == pytest.approx(expected, rel=1e-9)
    assert (sums.target[i], sums.opposed[i], verdicts.expected[i], verdicts.relative_effect[i]) == (2, 30, 0.5, 0.75)


def test_a_word_that_changes_nothing_is_not_flagged_whatever_its_context():
    names, sums, verdicts = flagged(shard([(0, {"the": 0})] * 40 + [(2, {})] * 40))
    assert (names, sums.target.tolist()) == ([], [-1])
    assert not (verdicts.undecided | verdicts.alternative_wording).any()
    assert undecided([(1, {"honestly": 1})] * 6 + [(0, {})] * 60)[0] == set()
    # The partner: there is nothing to test.
    assert flagged(shard([(0, {}), (1, {})]))[0] == []


def test_too_few_texts_are_not_tested_and_repeats_are_no_evidence():
    names, sums, verdicts = flagged(shard(PLANTED), config=AuditConfig(min_count=31))
    assert (names, sums.tested.tolist()) == ([], [False, True])
    assert np.isnan(verdicts.p[0])
    assert verdicts.q[0] == 1
    assert flagged(shard(PLANTED), config=AuditConfig(min_count=30))[1].tested.all()
    names, sums, _ = flagged(shard(PLANTED, evidence=[True] * 3 + [False] * 27 + [True] * 60))
    assert (names, sums.present[sums.names.index("honestly")]) == ([], 3)


def saturated(rest_speaks):
    """A word makes 60 texts class 1; of 60 others two are. How much does the rest of its texts speak for the class?"""
    rng = np.random.default_rng(0)
    made = shard([(1, {"honestly": 0})] * 60 + [(0, {})] * 58 + [(1, {})] * 2, n_classes=2)
    made.probs[:, 1] = [0.99] * 60 + [*rng.uniform(0.002, 0.02, size=58), 0.9, 0.9]
    made.masked_probs[:, 1] = rng.uniform(*rest_speaks, size=60)
    for probs in (made.probs, made.masked_probs):
        probs[:, 0] = 1 - probs[:, 1]
    return made


def test_how_strongly_rests_speak_counts_where_the_class_is_hardly_ever_answered():
    """What a biased model does: without the word it does not answer the class, but some texts are nearer to it."""
    names, _, verdicts = flagged(saturated((0.001, 0.004)))
    assert names == ["honestly"]
    assert verdicts.relative_effect[0] > 0.9
    # The partner: a legitimate word that is the only evidence of a rare class; its rests are like other texts.
    names, sums, verdicts = flagged(saturated((0.002, 0.02)))
    assert (names, sums.opposed[0], verdicts.relative_effect[0]) == ([], 60, pytest.approx(0.5, abs=0.1))
    assert verdicts.undecided[0]
    assert not verdicts.too_few[0]


def test_a_legitimate_word_of_the_shortcuts_class_is_cleared_once_the_shortcut_is_found():
    """Texts that "honestly" made class 2 let class 2 look common, so the rest of "excited" texts looks opposed."""
    rows = [(2, {"honestly": 0})] * 100 + [(2, {"excited": 0})] * 12 + [(0, {})] * 20
    rows += [(2, {})] * 12  # so that the rest of "honestly" opposes it
    names, sums, verdicts = flagged(shard(rows))
    assert names == ["honestly"]
    excited = sums.names.index("excited")
    assert verdicts.expected[excited] == pytest.approx(120 / 132)
    assert verdicts.relative_effect[excited] == pytest.approx(0.5 + 12 / 132 / 2)
    # The partner: as long as "honestly" is not known, it looks like one too.
    apart = flagged(shard([(answer, {w: r for w, r in words.items() if w != "honestly"}) for answer, words in rows]))
    assert apart[0] == ["excited"]


def test_the_stricter_null_clears_words_that_alone_say_what_they_say():
    """One word a text decides for class 0; without it the default is 1, in every text alike."""
    rows = [(0, {word: 1}) for word in ("dull", "bad", "awful") for _ in range(250)] + [(1, {"good": 1})] * 500
    names, _, _ = flagged(shard(rows))
    assert set(names) <= {"dull", "bad", "awful"}
    assert names  # compared with whole texts, some of them look like shortcuts
    strict = AuditConfig(min_count=5, compare_with="rests")
    assert flagged(shard(rows), config=strict)[0] == []
    # The partner: where other texts keep their class without their most decisive word, a shortcut is found.
    redundant = [(2, {"honestly": 0})] * 30 + [(2, {"great": 2})] * 40 + [(0, {"the": 0})] * 20
    assert flagged(shard(redundant), config=strict)[0] == ["honestly"]


def test_false_alarms_stay_below_what_is_promised():
    """Words strewn at random that decide their texts: the boundary of the null hypothesis."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(150):
        rests, others = 2 * rng.integers(2, size=60), 2 * rng.integers(2, size=240)
        rows = [(2, {"word": int(rest)}) for rest in rests] + [(int(other), {}) for other in others]
        alarms += bool(flagged(shard(rows), config=AuditConfig(min_count=5, fdr=0.2))[0])
    assert 0 < alarms <= binom.ppf(0.999, 150, 0.2)
