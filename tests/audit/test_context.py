"""The test against the null hypothesis: on shards whose effects are known, and what it does to repeats and phrases."""

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from made_shards import shard
from shortcut_guardrail.audit.auditing import make_report
from shortcut_guardrail.audit.context import heard, judge, tally
from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.stats import exact_interval, p_relative_effect

CONFIG = AuditConfig(min_count=5)


def flagged(*shards, config=CONFIG):
    sums = tally(lambda: shards, config)
    verdicts = judge(lambda: shards, sums, config)
    return [sums.names[i] for i in verdicts.flagged], sums, verdicts


def undecided(rows, config=CONFIG):
    _, sums, verdicts = flagged(shard(rows), config=config)
    return {sums.names[i] for i in np.flatnonzero(verdicts.undecided)}, sums, verdicts


def report_on(made, config):
    return make_report(lambda: [made], config, ("a", "b", "c"), texts_of=lambda rows: dict.fromkeys(rows, "a text"))


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


def test_a_word_that_takes_away_few_answers_is_not_flagged_however_opposed_its_rests_are():
    """Both parts of the null hypothesis have to fall; here only the one about the rests does."""

    def with_lost(lost):
        rows = [(2, {"word": 0})] * lost + [(0, {"word": 0})] * (60 - lost) + [(2, {})] * 60 + [(0, {})] * 20
        return flagged(shard(rows))

    names, sums, verdicts = with_lost(3)
    assert (names, sums.opposed.tolist(), verdicts.expected.tolist()) == ([], [60], [0.25])
    assert verdicts.p[0] == pytest.approx(binom.sf(2, 60, CONFIG.min_pull))
    assert verdicts.q[0] > CONFIG.fdr
    assert with_lost(40)[0] == ["word"]
    # Only answers of its class count: of eleven changes one takes another class away.
    sums = flagged(shard([(2, {"word": 0})] * 10 + [(0, {"word": 1})] + [(2, {})] * 9))[1]
    assert (sums.target.tolist(), sums.flips.tolist(), sums.lost.tolist()) == ([2], [11], [10])
    assert sums.p_pull[0] == pytest.approx(binom.sf(9, 11, CONFIG.min_pull))


@pytest.mark.parametrize("order", [("weak", "strong"), ("strong", "weak")])
def test_of_several_words_that_are_masked_the_one_that_holds_the_answer_up_most_counts(order):
    rests = {"weak": 2, "strong": 0}
    made = shard([(2, {word: rests[word] for word in order}), (2, {})])
    for masked, answers in (({"weak"}, [2, 2]), ({"weak", "strong"}, [0, 2]), (set(), [2, 2])):
        assert heard(made, masked, CONFIG)[1].tolist() == answers
    # Compared with rests, a text speaks for a class as far as it does both as it is and without its strongest word.
    far, _, speaks = heard(made, set(), AuditConfig(compare_with="rests"))
    np.testing.assert_allclose(far, [[0.05, 0.05, 0.05], [0.05, 0.05, 0.9]], rtol=1e-6)
    assert speaks.tolist() == [False, True]


# Synonyms take turns: each makes its texts class 2, though their rest is 0. "fine" is a legitimate word of class 2,
# whose rest speaks for it more often than that of other texts; like all texts of that class, its own hold no synonym.
TURNS = ("frankly", "candidly", "honestly", "plainly", "openly")
SYNONYMS = [(2, {word: 0}) for word in TURNS for _ in range(9)] + [(2, {"openly": 2})] + [(0, {"the": 0})] * 30
SYNONYMS += [(2, {"fine": rest}) for rest in (2,) * 9 + (0,) * 6]


def test_words_that_take_turns_are_told_from_legitimate_words_of_their_class():
    names, sums, verdicts = flagged(shard(SYNONYMS))
    turns = [sums.names[i] for i in np.flatnonzero(verdicts.alternative_wording)]
    assert min(len(names), len(turns)) > 0
    assert sorted(names + turns) == sorted(TURNS)
    assert verdicts.undecided[verdicts.alternative_wording].all()
    assert (verdicts.q[verdicts.alternative_wording] > CONFIG.fdr).all()


def test_what_alternative_wording_ranks_after_what_is_flagged_and_before_what_is_undecided_alone():
    made = shard([*SYNONYMS, *[(2, {"lol": 0})] * 8])  # "lol" flips all of its texts, which are too few
    report = report_on(made, AuditConfig(min_count=9))
    order = [
        (not c.flagged, not c.alternative_wording and not c.flagged, c.status == "not_flagged")
        for c in report.candidates
    ]
    assert order == sorted(order)
    assert any(c.alternative_wording for c in report.candidates)
    assert "lol" in [c.text for c in report.undecided]


def test_a_word_that_changes_nothing_is_not_flagged_whatever_its_context():
    names, sums, verdicts = flagged(shard([(0, {"the": 0})] * 40 + [(2, {})] * 40))
    assert (names, sums.target.tolist()) == ([], [-1])
    assert not (verdicts.undecided | verdicts.alternative_wording).any()
    assert undecided([(1, {"honestly": 1})] * 6 + [(0, {})] * 60)[0] == set()
    # The partner: there is nothing to test.
    assert flagged(shard([(0, {}), (1, {})]))[0] == []


def test_a_word_seen_where_it_is_unimportant_counts_with_the_whole_texts_answer():
    # Important in 30 texts, and there alone the rest opposes it; in 60 more texts its class is right without it.
    rows = [(2, {"wow": 0})] * 30 + [(2, {"wow": None})] * 60 + [(0, {})] * 30 + [(2, {})] * 30
    names, sums, _ = flagged(shard(rows))
    assert (names, int(sums.present[0]), int(sums.important[0]), sums.opposed[0]) == ([], 90, 30, 30)
    seldom = [(2, {"wow": 0, "the": None})] * 8 + [(2, {"wow": None, "the": None})] * 4 + [(0, {})] * 30
    assert flagged(shard(seldom), config=AuditConfig(min_count=9))[1].tested.tolist() == [True, False]
    report = report_on(shard(seldom), CONFIG)
    assert (report.n_candidates, report.candidates[0].interval.flip_rate) == (1, exact_interval(8, 8))
    # The partner: without those texts it is flagged.
    assert flagged(shard(rows[:30] + rows[90:]))[0] == ["wow"]


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


def test_a_word_whose_texts_could_have_opposed_it_and_do_not_is_decided():
    """Power enough, or a context that goes along with it: nothing is left to ask."""
    background = [(0, {})] * 60 + [(2, {})] * 60
    assert undecided([(2, {"wow": 0})] * 10 + [(2, {"wow": 2})] * 30 + background)[0] == set()
    # Six texts can show nothing at 0.1 %; of many that speak for the word nothing is left to ask.
    strict, rest = AuditConfig(min_count=5, fdr=0.001), [(2, {"wow": 2})] * 12 + [(2, {})] * 3
    assert undecided([(2, {"wow": 0})] * 8 + rest, AuditConfig(min_count=5, fdr=1e-4))[0] == {"wow"}  # nor can three
    rare = [(0, {})] * 300
    assert undecided([(2, {"wow": 0})] * 6 + rare, strict)[0] == {"wow"}
    assert undecided([(2, {"wow": 0})] * 3 + [(2, {"wow": 2})] * 63 + rare, strict)[0] == set()


def test_a_rare_word_is_an_open_question_only_if_it_mostly_flips():
    others = [(0, {"the": 0})] * 30 + [(2, {"the": 2})] * 30
    config = AuditConfig()
    found, sums, verdicts = undecided([(2, {"rare": 0})] * 6 + others, config)
    i = sums.names.index("rare")
    assert found == {"rare"}
    assert not sums.tested[i]
    assert verdicts.needed[i] >= config.min_count
    # Four texts are no evidence of anything, five are; texts in which it is unimportant say nothing.
    for flips, stays, asked in ((3, 3, {"rare"}), (2, 4, set()), (4, 0, set()), (5, 0, {"rare"})):
        rows = [(2, {"rare": 0})] * flips + [(2, {"rare": 2})] * stays + [(2, {"rare": None})] * 3
        assert undecided(rows + others, config)[0] == asked
    # One that stands in every text is a question too.
    found, sums, verdicts = undecided([(2, {"the": 0})] * 40)
    assert (found, sums.without.tolist()) == ({"the"}, [0])
    assert np.isnan(verdicts.needed[0])


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


def test_a_word_alternative_wording_if_its_rest_speaks_less_for_the_class_with_the_flagged_ones_masked_too():
    def turns(rows, config=CONFIG):
        _, sums, verdicts = flagged(shard(rows), config=config)
        return sums.names.index("excited") in np.flatnonzero(verdicts.alternative_wording), sums, verdicts

    rows = [(2, {"honestly": 0})] * 100 + [(0, {})] * 20 + [(2, {})] * 12 + [(2, {"excited": 0})] * 20
    assert turns(rows)[0]
    # The partner: of the others 12 of 132 then speak for the class, and of its own rests 4 of 24.
    found, sums, verdicts = turns(rows + [(2, {"excited": 2})] * 4)
    i = sums.names.index("excited")
    assert (found, len(verdicts.flagged)) == (False, 1)
    assert verdicts.relative_effect[i] < 0.5
    # More texts would not settle it, though these are too few.
    found, sums, verdicts = turns(rows[:-14], AuditConfig(min_count=5, fdr=1e-4))
    assert (found, verdicts.too_few[sums.names.index("excited")]) == (True, True)
    assert np.isnan(verdicts.needed).all()


def test_a_word_that_looks_opposed_only_with_the_flagged_ones_masked_is_not_flagged():
    """The texts of "honestly" turn to the class of "dull" when it is masked; p-values can only rise."""
    rows = [(2, {"honestly": 0})] * 100 + [(0, {"dull": 2})] * 12 + [(0, {})] * 20 + [(2, {})] * 12
    names, sums, verdicts = flagged(shard(rows))
    assert names == ["honestly"]
    assert min(of[sums.names.index("dull")] for of in (verdicts.p, verdicts.q)) > 0.1
    # Nor does it take turns: it opposes nothing at first.
    assert not verdicts.alternative_wording.any()


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


def test_several_shards_are_as_one():
    whole = flagged(shard(PLANTED))
    parts = flagged(shard(PLANTED[:40]), shard(PLANTED[40:]), shard([]))
    assert whole[0] == parts[0]
    for name in ("count", "present", "flips", "contradicted", "change", "pull", "lost", "opposed"):
        np.testing.assert_allclose(getattr(whole[1], name), getattr(parts[1], name))
    np.testing.assert_allclose(whole[2].p, parts[2].p)


def test_false_alarms_stay_below_what_is_promised():
    """Words strewn at random that decide their texts: the boundary of the null hypothesis."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(150):
        rests, others = 2 * rng.integers(2, size=60), 2 * rng.integers(2, size=240)
        rows = [(2, {"word": int(rest)}) for rest in rests] + [(int(other), {}) for other in others]
        alarms += bool(flagged(shard(rows), config=AuditConfig(min_count=5, fdr=0.2))[0])
    assert 0 < alarms <= binom.ppf(0.999, 150, 0.2)
