"""Words that act together are one finding, by what masking does to them together, alone, and elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from made_shards import shard
from shortcut_guardrail.audit.measurements import NOT_ASKED
from shortcut_guardrail.audit.phrases import _Effects, acting_together, with_phrases


def phrase_shard(interaction, joint):
    rows = [(2, {"to be honest": 0, "honest": 2, "soup": 2})] * 6 + [(2, {"honest": 0})] * 4
    values = np.full((2, 6 * 3 + 4), np.nan)
    values[0, :18:3], values[1, :18:3] = interaction + 0.01 * np.arange(6), joint
    spans = {"to be honest": (0, 12, 0), "honest": (6, 12, 0), "soup": (20, 24, 0)}
    return shard(rows, spans=spans, n_words={"to be honest": 3}, interaction=values[0], joint=values[1])


def left_of(made, found):
    """The names of the occurrences that are left."""
    (claimed,) = with_phrases(lambda: [made], found)()
    return [claimed.names[key] for key in claimed.keys]


@pytest.mark.parametrize("interaction", [-3.0, 2.5])
def test_words_that_act_together_are_one_finding(interaction):
    """Where one word stands in for another the joint mask does more than the sum, where all are needed less."""
    made = phrase_shard(interaction, joint=-4.0)
    found = acting_together(lambda: [made])
    assert found == {"to be honest": pytest.approx(24.0)}
    (whole,) = acting_together(lambda: [replace(made, evidence=made.rows > 0)]).values()
    assert whole == pytest.approx(20.0), "repeats are no evidence"
    left = left_of(made, found)
    assert [left.count(name) for name in ("to be honest", "honest", "soup")] == [6, 4, 6]  # 4 are outside the phrase


def test_words_that_merely_stand_together_are_none():
    made = phrase_shard(-0.02, joint=-4.0)
    assert acting_together(lambda: [made]) == {}
    assert [left_of(made, {}).count(name) for name in ("to be honest", "honest")] == [0, 10]
    # Two texts show nothing, and what changes by a fifth of the effect or less is no more than its own.
    few = {"interaction": [-3.0, -3.01], "joint": [-4.0] * 2}
    assert acting_together(lambda: [shard([(2, {"so it": 0})] * 2, n_words={"so it": 2}, **few)]) == {}
    assert acting_together(lambda: [phrase_shard(-0.7, joint=-4.0)]) == {}
    # A phrase whose masking makes the answer surer holds nothing up.
    assert acting_together(lambda: [phrase_shard(-3.0, joint=4.0)]) == {}


def test_the_more_phrases_are_tested_the_more_is_asked_of_each():
    made = phrase_shard(0.008, joint=-0.1)
    assert 0.005 < ttest_1samp(0.008 + 0.01 * np.arange(6), 0).pvalue < 0.01
    apart = {"interaction": [0.0] * 3, "joint": [-0.1] * 3}
    others = [shard([(2, {f"so {w}": 0})] * 3, n_words={f"so {w}": 2}, **apart) for w in ("it", "he")]
    assert (set(acting_together(lambda: [made])), acting_together(lambda: [made, *others])) == ({"to be honest"}, {})
    assert 0.01 < ttest_1samp(0.005 + 0.01 * np.arange(6), 0).pvalue < 0.012
    assert acting_together(lambda: [phrase_shard(0.005, joint=-0.1)]) == {}


@pytest.mark.parametrize(
    ("apart", "within", "whole", "depends"),
    [(0.36, 5, 0.1, True), (0.31, 5, 0.1, False), (9, 2, 0.1, False), (0.4, 5, 1.9, True), (0.4, 5, 2.1, False)],
)
def test_the_first_and_the_last_word_of_a_phrase_are_two_tests(apart, within, whole, depends):
    effects, alone = _Effects(), 0.1 * np.arange(5)
    assert apart > 0.36 or (ttest_ind(alone - apart, alone, alternative="less").pvalue < 0.005) == depends
    for value in alone:
        effects.alone["to"].add(value)
        effects.whole["to be"].add(-whole)
    for value in alone[:within]:
        effects.inside["to be", "to"].add(value - apart)
    assert effects.depends_on_context("to be") == depends


def test_a_word_that_does_more_within_a_phrase_than_elsewhere_makes_it_a_finding():
    """Masking "to" alone does what masking all of "to be honest" does, and elsewhere it does nothing."""

    def found(elsewhere, place=0, unknown=-1):
        rows = [(2, {"to be honest": 0, "to": 0, "honest": 2})] * 8 + [(2, {"to": elsewhere, "honest": 2})] * 20
        interaction, joint = np.full((2, 8 * 3 + 20 * 2), np.nan)
        interaction[:24:3], joint[:24:3] = 0.001 * np.arange(8), -0.85
        spans = {"to be honest": (0, 12, 0), "to": (place, place + 2, 0), "honest": (6, 12, 0)}
        made = shard(rows, spans=spans, n_words={"to be honest": 3}, interaction=interaction, joint=joint)
        return acting_together(lambda: [replace(made, masked=np.where(made.masked < 0, unknown, made.masked))])

    assert found(elsewhere=2) == {"to be honest": pytest.approx(8 * 0.85)}
    assert found(elsewhere=None) == found(elsewhere=2)
    # The partners: a word that does the same everywhere, of which nothing is known elsewhere, or beside the phrase.
    assert found(elsewhere=0) == found(elsewhere=None, unknown=NOT_ASKED) == found(elsewhere=2, place=12) == {}


@pytest.mark.parametrize(
    ("other", "rest", "n_words", "weaker", "stronger"),
    [
        ((3, 10, 0), 0, 2, ["be fair"], ["to be"]),  # of equally long ones the stronger stays
        ((3, 10, 0), 0, 3, ["be fair"], ["be fair"]),
        ((5, 10, 0), 0, 2, ["to be", "be fair"], ["to be", "be fair"]),
        ((3, 10, 1), 0, 2, ["to be", "be fair"], ["to be", "be fair"]),  # on the other side of a pair
        ((3, 10, 0), None, 2, ["be fair"], ["to be", "be fair"]),  # one that is not important takes nothing away
    ],
)
def test_of_phrases_that_overlap_one_stays(other, rest, n_words, weaker, stronger):
    how = {"spans": {"to be": (0, 5, 0), "be fair": other}, "n_words": {"to be": 2, "be fair": n_words}}
    made = shard([(2, {"to be": rest, "be fair": 0})] * 2, **how)
    assert [left_of(made, {"to be": own, "be fair": 2.0}) for own in (1.0, 5.0)] == [weaker * 2, stronger * 2]
