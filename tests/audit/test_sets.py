"""The test of a group of words: none of which overrides its texts beyond doubt, while all of them do."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, t

from made_shards import shard
from made_shards import together as corpus
from shortcut_guardrail.audit.context import judge, tally
from shortcut_guardrail.audit.sets import WordSet, _coin, find_set, p_of_set, set_p_value, with_set
from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.stats.brunner_munzel import levels

CONFIG = AuditConfig()
WORDS = [f"word{i}" for i in range(12)]


def verdicts_on(made):
    """Those on words alone, with the names of the flagged, and those with the set."""
    sums = tally(lambda: [made], CONFIG)
    alone = judge(lambda: [made], sums, CONFIG)
    return alone, {sums.names[i] for i in alone.flagged}, with_set(lambda: [made], sums, alone, CONFIG)


def set_in(made, config=CONFIG):
    return find_set(lambda: [made], config)


def p_in(made, *left_out):
    return set_p_value(lambda: [made], CONFIG, set(left_out))


def without(made, *words):
    """The texts that hold the words are no evidence any more."""
    holders = made.texts[np.isin(made.keys, [made.names.index(word) for word in words])]
    return replace(made, evidence=np.isin(made.rows, holders, invert=True))


def test_halves_do_not_follow_the_order_of_the_corpus():
    drawn = _coin(np.arange(200_000)).astype(float)
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)
    for step in (1, 2, 4, 19, 61, 1 << 16, 1 << 17):
        assert (drawn[:-step] == drawn[step:]).mean() == pytest.approx(0.5, abs=0.01)
    assert _coin(np.arange(0, 1 << 26, 1 << 17)).mean() == pytest.approx(0.5, abs=0.1)


def p_values(against, **options):
    return np.array([p_in(corpus(against, seed=seed, **options)) for seed in range(20)])


def test_a_group_is_mostly_found_where_there_is_one_and_else_seldom():
    assert (p_values(0.7) <= 0.05).sum() >= 18
    # The partners: words strewn at random, words that fit their texts, and many words, of which chance names some.
    assert (p_values(0.0) > 0.05).all()
    assert (p_values(-0.7) > 0.05).all()
    # Texts with those that it does not name speak for the class, and would make the others look opposed.
    many = [f"word{i}" for i in range(30)]
    assert (p_values(0.0, words=many) <= 0.05).sum() <= 3
    found = set_in(corpus(0.0, words=many))
    assert found.members
    assert found.left_out
    assert not found.left_out & found.members.keys()


def p_of_halves(found_on, tested_on, masked=frozenset()):
    """Of the set of each half, by shards from which the other half is taken; the last is read without some words."""
    half, p = replace(CONFIG, min_count=CONFIG.min_count // 2), []
    for k in (0, 1):
        words = set_in(replace(found_on, evidence=found_on.evidence & (_coin(found_on.rows) == k)), half)
        others = [replace(made, evidence=made.evidence & (_coin(made.rows) != k)) for made in tested_on]
        without = [frozenset()] * (len(others) - 1) + [masked]
        tests = zip(others, without, strict=True)
        p.append([p_of_set(lambda other=other: [other], words, CONFIG, names) for other, names in tests])
    return p


def test_a_group_is_looked_for_beside_what_is_flagged():
    made = corpus(0.7, words=["honestly"] * 8 + WORDS)
    alone, flagged, verdicts = verdicts_on(made)
    assert flagged == {"honestly"}
    assert not alone.collective.any()
    # The set is found without the texts of what is flagged or takes turns; its test has to fall with them as well.
    turns = [made.names[i] for i in np.flatnonzero(alone.alternative_wording)]
    kept = without(made, "honestly", *turns)
    p = p_of_halves(kept, [kept, made], {"honestly", *turns})
    assert p_in(made, "honestly", *turns) == verdicts.set_p_value == pytest.approx(2 * min(map(max, p)), rel=1e-9)
    assert min(map(max, p)) == min(p)[1] > min(p)[0]
    assert {made.names[i] for i in np.flatnonzero(verdicts.collective)} == set_in(kept).members.keys()
    assert verdicts.collective.sum() >= 8
    assert not verdicts.collective[list(verdicts.flagged)].any()
    assert not (verdicts.collective & verdicts.alternative_wording).any()
    # Only texts that stand for all others count, and who belongs to a set is open.
    drawn, left_out = made.rows % 20 > 0, {"honestly", *turns}
    decided = replace(alone, undecided=np.zeros_like(alone.undecided))
    sample = with_set(lambda: [replace(made, compared=drawn)], tally(lambda: [made], CONFIG), decided, CONFIG)
    assert sample.set_p_value == p_in(replace(made, evidence=drawn), *left_out) < 0.05
    assert (sample.undecided.tolist(), sample.collective.any()) == (sample.collective.tolist(), True)
    # Members move at least 5 in 1,000 texts: 12 of 1,144, and not of 3,144.
    assert [bool(set_in(corpus(0.7, others=others)).members) for others in (1000, 3000)] == [True, False]


def test_genuine_words_are_no_group_where_what_is_flagged_stands_in_texts_of_the_other_class():
    """With "honestly" the other class looks like the words' class, and without its texts it is rare. The rests of the
    words are like any text's."""
    rng = np.random.default_rng(0)
    rows = []
    for own in rng.integers(2, size=3000):
        if own == 1 and rng.random() < 0.2:
            rows.append((1, {f"word{rng.integers(12)}": int(rng.integers(2))}))
        else:
            has = rng.random() < (0.8, 0.02)[own]
            rows.append((1, {"honestly": int(own)}) if has else (int(own), {}))
    made = shard(rows, n_classes=2)
    _, flagged, verdicts = verdicts_on(made)
    assert flagged == {"honestly"}
    assert verdicts.set_p_value > 0.05
    kept = without(made, "honestly")
    p = p_of_halves(kept, [kept, made, made], {"honestly"})
    # The partner: neither test without masking it would have said so.
    assert min(2 * max(one[:2]) for one in p) < 0.05 < 2 * min(one[2] for one in p)


def test_the_p_value_is_that_of_a_literal_evaluation():
    """Three classes, two members of different classes in some texts, ties, texts that are no evidence.

    Where all is drawn at random theta is a half, so that the first part decides unless the pull is asked to be large.
    """
    rng = np.random.default_rng(3)
    rows = [(int(rng.integers(3)), {w: int(rng.integers(3)) for w in "abx" if rng.random() < 0.3}) for _ in range(150)]
    made = shard(rows, evidence=rng.random(150) < 0.9)
    made.probs[:] = rng.dirichlet(np.ones(3), size=len(made.probs))
    made.masked_probs[:] = rng.dirichlet(np.ones(3), size=len(made.masked_probs))
    members = {"a": (1, 0.2), "b": (2, 0.1)}

    rests, moved, others = [], 0, []
    for i, (_, words) in enumerate(rows):
        if not made.evidence[i]:
            continue
        held = sorted(set(words) & set(members), key=lambda w: -members[w][1])
        if not held:
            others.append(levels(made.probs[i]))
            continue
        c = members[held[0]][0]
        (at,) = (o for o in range(len(made.texts)) if made.texts[o] == i and made.names[made.keys[o]] == held[0])
        rest = made.masked_probs[made.masked[at]]
        rests.append((c, levels(rest)[c]))
        moved += made.probs[i].argmax() != rest.argmax() and made.probs[i][c] > rest[c]
    n, m = len(rests), len(others)
    pairs = np.zeros((n + 1, m + 1))  # the added members' pairs count 0
    for i, (c, level) in enumerate(rests):
        for j, other in enumerate(others):
            pairs[i, j] = 1.0 if other[c] > level else 0.5 if other[c] == level else 0.0
    parts = pairs.mean(axis=1).var(ddof=1) / (n + 1), pairs.mean(axis=0).var(ddof=1) / (m + 1)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / n + parts[1] ** 2 / m)
    opposed = t.sf((pairs.mean() - 0.5) / np.sqrt(sum(parts)), freedom)
    # Each part counts where it is the larger one.
    for min_pull, larger in ((0.05, opposed), (0.6, binom.sf(moved - 1, n, 0.6))):
        config = AuditConfig(min_relative_effect=0.5, min_pull=min_pull)
        assert larger == max(opposed, binom.sf(moved - 1, n, min_pull))
        assert p_of_set(lambda: [made], WordSet(members), config) == pytest.approx(larger, rel=1e-9)
        assert (n > m, p_of_set(lambda: [made], WordSet(members), replace(config, min_count=n))) == (True, 1.0)
