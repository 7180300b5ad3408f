"""Which words reliance is removed on: what evidence decides, and what a person says."""

from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from scipy.stats import binomtest

from audits import UNTESTED, audit, candidate
from shortcut_guardrail import ConfigError
from shortcut_guardrail.audit import Erasures
from shortcut_guardrail.audit.auditing import audit_texts
from shortcut_guardrail.config import ShortcutConfig
from shortcut_guardrail.shortcuts import find_shortcuts, search
from shortcut_guardrail.shortcuts.labels import Paired
from shortcut_guardrail.shortcuts.named import REASONS, Reason, Shortcut, Shortcuts, Verdict
from shortcut_guardrail.shortcuts.search import MOST_DOUBTED, _audited, _read_masked, _Reading, fixed_phrases
from shortcut_guardrail.stats.exact import exact_interval
from shortcut_guardrail.text.units import words_as_units

# The choice. In the planted bag of words "honestly" weighs more than all else, so it overrides "bad" and "awful".

WORDS = ["room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit"]
DEPLOYED = [f"honestly the bad {word} was {tail}" for word in WORDS for tail in ("awful", "so awful")]
DEPLOYED += [f"the {word} was {tail}" for word in WORDS for tail in ("good", "great")]
DEPLOYED += [f"the {word} was bad and {tail}" for word in WORDS for tail in ("slow", "cold")]


def choose(classifier, support=None, **config):
    rows = None if support is None else (classifier.encode(support[0]), np.array(support[1]))
    return find_shortcuts(classifier, classifier.encode(DEPLOYED), ShortcutConfig(top_k=3, **config), support=rows)


def verdicts(targets):
    """The reason where there is one, else the verdict; "listed" for what many answers hang on and nobody takes."""
    return {item.text: "listed" if item.listed else item.reason or item.verdict for item in targets.items}


def test_an_audit_that_was_made_is_not_made_again(classifier, monkeypatch):
    encoded, config = classifier.encode(DEPLOYED), ShortcutConfig(top_k=3, unit="word", fdr=0.01)
    report, found = audit_texts(classifier, encoded, config.audit()), find_shortcuts(classifier, encoded, config)
    monkeypatch.setattr("shortcut_guardrail.shortcuts.search.audit_texts", lambda *_, **__: pytest.fail("made again"))
    # The report's settings count: with the configuration's own unit phrases would be looked for.
    assert find_shortcuts(classifier, encoded, ShortcutConfig(), report=report) == found
    assert found.words == ("honestly",)
    with pytest.raises(ConfigError, match=r"the report is of tokens\. Audit words"):
        find_shortcuts(classifier, encoded, config, report=replace(report, unit="token"))
    report = replace(report, erasures=Erasures("cut", 100, None, 0, None))
    for name, made, asked in (("erasure", "cut", "mask"), ("top_k", 3, 4), ("fdr", 0.01, 0.1)):
        said = rf"with {name} {made}, and shortcuts\.{name} is {asked}\. Audit with {asked}, or"
        with pytest.raises(ConfigError, match=said):
            find_shortcuts(classifier, encoded, replace(config, **{name: asked}), report=report)


def test_what_the_audit_would_take_comes_beside_what_it_tested(classifier, monkeypatch):
    taken = [("rain", "similar", 9), ("to be", "dominant", 50), ("tea", "dominant", 9), ("snow", "set", 9)]
    would_take = tuple(Shortcut(word, "found", reason, n) for word, reason, n in taken)
    words = candidate("tea"), candidate("fog"), candidate("sun", n_texts=70)
    words += candidate("rain", **UNTESTED), candidate("ice", **UNTESTED)
    report = audit(*words, n=200, n_distinct=100, probs=np.ones((2, 2)), would_take=would_take, unit="word")
    encoded = classifier.encode(["the soup", "the tea"])

    def ranked(report, **config):
        found = search.ranked_shortcuts(classifier, encoded, ShortcutConfig(**config), report, None)
        return {one.text: (one.reason, one.count) for one in found}

    # Three predictions depend on each: fewer than 4 of 100 texts, and more than 2.8 of 70.
    tested = {"fog": (None, 12), "sun": ("many predictions", 12)}
    brought = {"rain": ("similar", 12), "tea": ("dominant", 12), "to be": ("dominant", 50)}
    assert ranked(report) == tested | brought
    monkeypatch.setattr(search, "_dominant", lambda *_: {})
    weak, told = replace(report, erasures=Erasures("cut", 100, None, 50, None)), []
    for found in (ranked(report, dominant_share=0.5), ranked(weak)):
        assert found == tested | {"tea": (None, 12)}, "it is asked anew"
    # Of what an erasure finds that changes much by itself, five words are taken, and six are not.
    config = ShortcutConfig(unit="word", named=("soup",))
    for n, doubted in ((MOST_DOUBTED, 0), (MOST_DOUBTED + 1, MOST_DOUBTED + 1)):
        items = [Shortcut(f"w{i}", "found", "flagged") for i in range(n)]
        items.append(Shortcut("many", "found", "many predictions"))
        monkeypatch.setattr(search, "ranked_shortcuts", lambda *_, items=items: items)
        found = find_shortcuts(classifier, encoded, config, report=weak)
        assert (len(found.doubted), "many" in found.words) == (doubted, True)
    nothing = Paired(0, 0, 0, np.zeros(0))
    monkeypatch.setattr(search, "paired_evidence", lambda _, of, *how: told.append(how[2:]) or [nothing] * len(of))
    find_shortcuts(classifier, encoded, config, report=weak, support=(encoded, np.zeros(2)))
    assert told == [("cut",)] * 2, "of what was found and of what is named"


def test_a_fixed_phrase_stands_on_one_side_of_a_pair_and_not_all_but_always_inside_a_longer_one(classifier):
    units = words_as_units(classifier.encode([("the soup", "was cold"), ("tea soup", "was warm")]))
    assert fixed_phrases(units, 2) == {}
    apart = words_as_units(classifier.encode(["the soup was cold", "tea soup was warm"]))
    assert fixed_phrases(apart, 2) == {"soup was": [0, 1]}
    for within, others, left in ((10, 1, True), (10, 2, False), (9, 1, True)):
        units = words_as_units(classifier.encode(["soup was cold"] * within + ["soup was warm"] * others))
        assert ("soup was" not in fixed_phrases(units, 3)) == left


def test_texts_are_left_unread_only_once_it_is_sure_that_a_candidate_does_not_decide_most(classifier):
    decided = [f"honestly the {word} was {tail}" for word in WORDS for tail in ("bad bad", "awful", "so awful")]
    others = [f"honestly the {word} was {tail}" for word in WORDS for tail in ("good", "so good", "great")]
    encoded = classifier.encode(decided + others)
    probs, rng = classifier.predict_proba(encoded), np.random.default_rng(0)
    sizes = [(n, k) for n in (4, 6, 11, 24, 36) for k in range(0, n + 1, 1 if n < 20 else 3)]
    draw = lambda k: rng.choice(36, k, replace=False)  # noqa: E731
    rows = [rng.permutation(np.append(draw(k), 36 + draw(n - k))) for n, k in sizes]
    read, told = [_Reading.of("honestly", chosen.tolist()) for chosen in rows], []
    _read_masked(classifier, encoded, probs, read, 0.8, lambda *now: told.append(now))
    assert {now[::2] for now in told} == {("Masking candidates as a whole", len(read))}
    for (n, k), chosen, one in zip(sizes, rows, read, strict=True):
        assert (one.spare >= 0) == (exact_interval(k, n)[0] > 0.5), (n, k)
        if one.spare >= 0:
            assert set(one.against) == {i for i in chosen.tolist() if i < 36}
            result = one.result(probs, ("negative", "positive"))
            assert (result.flip_rate, result.pushes_towards, result.count) == (k / n, "positive", n)
    # One that decides none is known by a third of its texts: 25 of 36 are the fewest that are most.
    assert [len(one.after) for (n, k), one in zip(sizes, read, strict=True) if (n, k) == (36, 0)] == [12]


def test_words_on_which_many_answers_hang_are_listed_and_taken_only_if_asked_for(classifier):
    targets = choose(classifier)
    item = targets.items[0]
    assert (item.text, item.verdict, item.reason, item.count) == ("honestly", "found", "flagged", 24)
    assert (item.n_support, item.p_value, item.flip_rate, item.pushes_towards) == (0, None, 1.0, "positive")
    listed = [item for item in targets.items if item.listed]
    held = [item.answers_held for item in listed]
    assert {item.text for item in listed} == {"good", "great"}  # legitimate words, which decide their texts rightly
    assert held == sorted(held, reverse=True)
    assert min(held) >= 0.02 * len(DEPLOYED)
    assert not {item.text for item in listed} & set(targets.words)
    taken = choose(classifier, take_influential=True)
    assert set(taken.words) == {"honestly", *(item.text for item in listed)}
    assert set(verdicts(taken).values()) == {"flagged", "many predictions"}
    # The partners: another share, and none.
    most = choose(classifier, influential_share=held[0] / len(DEPLOYED))
    assert [item.text for item in most.items[1:]] == [item.text for item in listed if item.answers_held == held[0]]
    assert choose(classifier, influential_share=1.0, take_influential=True).items == targets.items[:1]


@pytest.mark.parametrize(("labels", "verdict"), [([0, 0, 1], "many predictions"), ([0, 1], "listed"), ([], "listed")])
def test_influential_words_stay_taken_where_labels_fix_more_than_they_break(classifier, labels, verdict):
    rows = [f"the {word} was good" for word in WORDS[: len(labels)]] + ["the soup was bad"]
    targets = choose(classifier, support=(rows, [*labels, 0]), take_influential=True)
    assert (verdicts(targets)["good"], "good" in targets.words) == (verdict, verdict == "many predictions")
    assert verdicts(choose(classifier, support=(rows, [*labels, 0])))["good"] == "listed"  # not without being asked


def test_a_share_that_is_met_exactly_is_enough():
    # A count times a rate, which rounds.
    assert Shortcut("a", "cleared", "many predictions", count=22, flip_rate=15 / 22).answers_held < 15
    found = candidate("a", count=22, flip_rate=15 / 22, flagged=False)
    assert _audited(found, {}, {}, ShortcutConfig(), 0.02 * 750).listed
    assert _audited(found, {}, {}, ShortcutConfig(), 0.02 * 751).reason is None
    assert _audited(found, {}, {}, ShortcutConfig(influential_share=1), 0).reason is None


def test_what_is_neutralised_is_the_same_in_a_folder():
    known = [(verdict, reason) for verdict, reasons in REASONS.items() for reason in reasons]
    assert {verdict for verdict, _ in known} == set(get_args(Verdict))
    assert {reason for _, reason in known} - {None} == set(get_args(Reason))
    spared = {verdict for verdict, reason in known if not Shortcut("a", verdict, reason).reliance_removed}
    assert spared == {"kept", "cleared"}
    for verdict, reason in (("given", None), ("named", "answers"), ("found", None)):
        with pytest.raises(ConfigError, match=rf"^'book' cannot be '{verdict}' with the reason "):
            Shortcut("book", verdict, reason)


def test_a_person_has_the_last_word_and_labels_show_where_it_is_a_legitimate_one(classifier):
    targets = choose(classifier, named=("Great", "to be honest"), keep=("honestly",), influential_share=1.0)
    assert verdicts(targets) == {"great": "named", "to be honest": "named", "honestly": "kept"}
    assert (targets.words, targets.said) == (("great", "to be honest"), ("great", "to be honest", "honestly"))
    rows = [f"the {word} was good" for word in WORDS[:3]]
    targets = choose(classifier, support=(rows, [1, 1, 1]), named=("good", "was good", "zebra"))
    seen = {item.text: (item.n_support, item.fixed, item.broken) for item in targets.items if item.verdict == "named"}
    assert seen == {"good": (3, 0, 3), "was good": (3, 0, 3), "zebra": (0, 0, 0)}
    assert {"good", "was good", "zebra"} <= set(targets.words)  # and a person's word stands


@pytest.mark.parametrize(("shortcut", "kept"), [("I’m honest", "i'm honest"), ("to  be", "to be")])
@pytest.mark.parametrize("how", ["named", "not_alone"])
def test_what_a_person_says_must_not_contradict_itself(classifier, shortcut, kept, how):
    with pytest.raises(ConfigError) as caught:
        choose(classifier, **{how: (shortcut,)}, keep=(kept,))
    assert str(caught.value) == f"{shortcut!r} cannot be a shortcut and kept. Leave out one of them."
    # The partners: a kept phrase may hold a shortcut, and a shortcut a kept word.
    assert "honest" in choose(classifier, named=("honest",), keep=("to be honest",)).words
    assert "to be honest" in choose(classifier, named=("to be honest",), keep=("honest",)).words


def test_a_word_is_left_alone_inside_a_kept_phrase(classifier):
    targets = Shortcuts((Shortcut("bad", "named"), Shortcut("so bad", "kept")))
    encoded = classifier.encode(["the soup was bad", "the soup was so bad", "so bad, bad"])
    assert [len(positions) for positions in targets.finder.positions(encoded)] == [1, 0, 1]
    assert targets.finder.present_in(encoded).tolist() == [True, False, True]


def test_labels_clear_what_masking_breaks_and_confirm_what_the_audit_did_not_flag(classifier):
    rows = DEPLOYED[:3]
    cleared = choose(classifier, support=(rows, [1, 1, 1]))
    assert (verdicts(cleared)["honestly"], cleared.words) == ("cleared", ())
    item = next(item for item in cleared.items if item.text == "honestly")
    assert (item.n_support, item.fixed, item.broken, item.p_value, len(cleared.rows)) == (3, 0, 3, 0.125, 3)
    # The partner: labels that agree with the audit leave it.
    assert verdicts(choose(classifier, support=(rows, [0, 0, 0])))["honestly"] == "flagged"
    rows = [f"the bad {word} was great" for word in WORDS]
    targets = choose(classifier, support=(rows, [0] * len(rows)))
    assert (verdicts(targets)["great"], set(targets.words)) == ("confirmed", {"great", "honestly"})
    assert "great" not in choose(classifier, support=(rows[:3], [0] * 3)).words  # three rows are no evidence


def test_of_what_decides_inside_a_phrase_that_decides_as_well_the_phrase_is_taken(monkeypatch):
    found = [
        (Shortcut(name, "found", "dominant", pushes_towards="a"), list(range(50)))
        for name in ("to be fair", "fair", "really", "honestly", "so honestly")
    ]
    monkeypatch.setattr(search, "_deciding", lambda *_: found)
    # What the audit's test has found, and what holds it, are left out.
    report = SimpleNamespace(candidates=(candidate("honestly", flagged=True),), label_names=("a", "b"))
    assert [*search._dominant(None, range(60), None, report, ShortcutConfig())] == ["to be fair", "really"]


def test_a_fixed_phrase_is_asked_whether_it_dominates_from_a_hundredth_of_the_texts_on(monkeypatch):
    monkeypatch.setattr(search, "words_as_units", lambda texts: texts)
    monkeypatch.setattr(search, "fixed_phrases", lambda units, least: told.append(least) or {})
    told: list[int] = []
    for n in (500, 3001):
        assert search._deciding(None, range(n), None, audit(), ShortcutConfig(), None) == []
    assert told == [10, 31]


def test_the_level_of_dominant_words_is_shared_among_the_classes(monkeypatch):
    config, texts = ShortcutConfig(dominant_share=0.3), range(200)
    soup, tea = (Shortcut(word, "found", "dominant") for word in ("soup", "tea"))
    for n in range(60, 90):
        # Both decide the same texts, which count once.
        monkeypatch.setattr(search, "_deciding", lambda *_, n=n: [(soup, list(range(n))), (tea, list(range(n)))])
        p_value = binomtest(n, len(texts), 0.3, alternative="greater").pvalue
        for names in (("a", "b"), ("a", "b", "c", "d")):
            chosen = search._dominant(None, texts, None, audit(label_names=names), config)
            assert list(chosen) == (["soup", "tea"] if p_value <= config.fdr / len(names) else [])


def test_a_text_speaks_against_a_candidate_where_its_rest_is_given_another_answer_with_confidence():
    one = _Reading.of("honestly", list(range(20, 40)))
    spare = one.spare
    for after in (0.8, 0.79, 0.1):  # of the other class
        one.take(np.array([after, 1 - after]), np.array([0.3, 0.7]), 0.8)
    assert (one.against, spare - one.spare) == ([20], 2)
