"""Words that act together are one finding, by what masking does to them together, alone, and elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from made_shards import shard
from shortcut_guardrail.audit.phrases import acting_together, with_phrases


def phrase_shard(interaction, joint):
    rows = [(2, {"to be honest": 0, "honest": 2, "soup": 2})] * 6 + [(2, {"honest": 0})] * 4
    n = 6 * 3 + 4
    values = np.full(n, np.nan), np.full(n, np.nan)
    for k in range(6):
        values[0][3 * k], values[1][3 * k] = interaction + 0.01 * k, joint
    spans = {"to be honest": (0, 12, 0), "honest": (6, 12, 0), "soup": (20, 24, 0)}
    return shard(rows, spans=spans, n_words={"to be honest": 3}, interaction=values[0], joint=values[1])


@pytest.mark.parametrize("interaction", [-3.0, 2.5])
def test_words_that_act_together_are_one_finding(interaction):
    """Where one word stands in for another the joint mask does more than the sum, where all are needed less."""
    made = phrase_shard(interaction, joint=-4.0)
    found = acting_together(lambda: [made])
    assert found == {"to be honest": pytest.approx(24.0)}
    (claimed,) = with_phrases(lambda: [made], found)()
    left = [claimed.names[key] for key in claimed.keys]
    assert left.count("to be honest") == 6
    assert left.count("honest") == 4  # those outside the phrase
    assert left.count("soup") == 6


def test_words_that_merely_stand_together_are_none():
    made = phrase_shard(-0.02, joint=-4.0)
    assert acting_together(lambda: [made]) == {}
    (claimed,) = with_phrases(lambda: [made], {})()
    assert [claimed.names[key] for key in claimed.keys].count("honest") == 10
    assert "to be honest" not in [claimed.names[key] for key in claimed.keys]
    # A phrase whose masking makes the answer surer holds nothing up.
    assert acting_together(lambda: [phrase_shard(-3.0, joint=4.0)]) == {}


def test_the_more_phrases_are_tested_the_more_is_asked_of_each():
    made = phrase_shard(0.008, joint=-0.1)
    assert 0.005 < ttest_1samp(0.008 + 0.01 * np.arange(6), 0).pvalue < 0.01
    apart = {"interaction": [0.0] * 3, "joint": [-0.1] * 3}
    others = [shard([(2, {f"so {w}": 0})] * 3, n_words={f"so {w}": 2}, **apart) for w in ("it", "he")]
    assert set(acting_together(lambda: [made])) == {"to be honest"}
    assert acting_together(lambda: [made, *others]) == {}
    assert 0.01 < ttest_1samp(0.005 + 0.01 * np.arange(6), 0).pvalue < 0.012
    assert acting_together(lambda: [phrase_shard(0.005, joint=-0.1)]) == {}


def test_a_word_that_does_more_within_a_phrase_than_elsewhere_makes_it_a_finding():
    """Masking "to" alone does what masking all of "to be honest" does, and elsewhere it does nothing."""

    def found(elsewhere):
        rows = [(2, {"to be honest": 0, "to": 0, "honest": 2})] * 8 + [(2, {"to": elsewhere, "honest": 2})] * 20
        n = 8 * 3 + 20 * 2
        interaction, joint = np.full(n, np.nan), np.full(n, np.nan)
        interaction[:24:3], joint[:24:3] = 0.001 * np.arange(8), -0.85
        spans = {"to be honest": (0, 12, 0), "to": (0, 2, 0), "honest": (6, 12, 0)}
        made = shard(rows, spans=spans, n_words={"to be honest": 3}, interaction=interaction, joint=joint)
        return acting_together(lambda: [made])

    assert found(elsewhere=2) == {"to be honest": pytest.approx(8 * 0.85)}
    assert found(elsewhere=None) == found(elsewhere=2)
    # The partner: a word that does the same everywhere needs no phrase.
    assert found(elsewhere=0) == {}


def test_of_overlapping_phrases_the_longer_stays_and_then_the_stronger():
    rows = [(2, {"to be honest": 0, "be honest": 0, "to be": 0})]
    spans = {"to be honest": (0, 12, 0), "be honest": (3, 12, 0), "to be": (0, 5, 0)}
    made = shard(rows, spans=spans, n_words={"to be honest": 3, "be honest": 2, "to be": 2})
    (claimed,) = with_phrases(lambda: [made], {"to be honest": 2.0, "be honest": 3.0, "to be": 4.0})()
    assert [claimed.names[key] for key in claimed.keys] == ["to be honest"]
    (other,) = with_phrases(lambda: [made], {"be honest": 3.0, "to be": 4.0})()
    assert [other.names[key] for key in other.keys] == ["to be"]
    # Where the phrase is not important its words stay.
    apart = shard([(2, {"to be honest": None, "honest": 0})], spans=spans | {"honest": (6, 12, 0)})
    apart.n_words[0] = 3
    (both,) = with_phrases(lambda: [apart], {"to be honest": 2.0})()
    assert [both.names[key] for key in both.keys] == ["to be honest", "honest"]
