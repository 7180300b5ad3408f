"""Which words reliance is removed on: what evidence decides, and what a person says."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from scipy.stats import binom

from audits import UNTESTED, audit, candidate
from shortcut_guardrail import ConfigError
from shortcut_guardrail.audit import Erasures
from shortcut_guardrail.audit.auditing import audit_texts
from shortcut_guardrail.audit.evidence import Intervals
from shortcut_guardrail.config import ShortcutConfig
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.shortcuts import find_shortcuts
from shortcut_guardrail.shortcuts.named import REASONS, Reason, Shortcut, Shortcuts, Verdict, with_said
from shortcut_guardrail.shortcuts.search import (
    _audited,
    _deciding,
    _dominant,
    _read_masked,
    _Reading,
    fixed_phrases,
    ranked_shortcuts,
)
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


def weighing(bag, *words):
    """The bag with further words that weigh what "honestly" does."""
    model, tokenizer = bag
    with torch.no_grad():
        for word in words:
            model.bert.word_embeddings.weight[tokenizer.convert_tokens_to_ids(word), 0] = 4.0
    return TextClassifier(model, tokenizer)


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
    by_cutting = replace(report, erasures=Erasures("cut", 100, None, 0, None))
    with pytest.raises(ConfigError, match=r"with erasure cut, and shortcuts\.erasure is mask\. Audit with mask, or"):
        find_shortcuts(classifier, encoded, replace(config, erasure="mask"), report=by_cutting)


WEAK = Erasures("cut", 100, None, 40, None)
FOUND = [("bad", "flagged"), ("so bad", "set"), ("badly", "alternative wording")]
TAKEN = [*FOUND, ("rare", "similar"), ("the", "dominant")]


@pytest.mark.parametrize(("erasures", "share", "taken"), [(None, 0.25, TAKEN), (WEAK, 0.25, FOUND), (None, 0.3, FOUND)])
def test_what_an_audit_would_take_comes_first_by_the_same_rules(classifier, monkeypatch, erasures, share, taken):
    hangs, few = candidate("good", count=4, flip_rate=0.2), candidate("fine", count=3, flip_rate=0.25)
    how = {"so bad": {"collective": True}, "badly": {"alternative_wording": True}, "bad": {"flagged": True}}
    made = [candidate(word, **how[word]) for word, _ in FOUND]
    brought = Shortcut("rare", "found", "similar", 5), Shortcut("the", "found", "dominant", 40)
    candidates = (few, hangs, *made, candidate("rare", count=4, **UNTESTED), candidate("odd", count=4, **UNTESTED))
    shares = {"n_distinct": 2, "probs": np.full((40, 2), 0.5)}
    report = audit(*candidates, unit="phrase", erasures=erasures, would_take=brought, **shares)
    for name in ("_dominant", "similar_words"):  # where what it would take does not count
        monkeypatch.setattr(f"shortcut_guardrail.shortcuts.search.{name}", lambda *_, **__: {})
    config, encoded = ShortcutConfig(dominant_share=share), classifier.encode(["good", "bad"] * 20)
    ranked = ranked_shortcuts(classifier, encoded, config, report, None)
    # Of 40 texts, which are two that repeat, 2 % are .8: "good" changes .8 predictions, and "fine" .75.
    assert [(one.text, one.reason) for one in ranked] == [*taken, ("fine", None), ("good", "many predictions")]
    assert {one.text: one.count for one in ranked}.get("rare", 4) == 4, "with the audit's own numbers"


@pytest.mark.parametrize(("n", "found"), [(6, ["honestly"]), (5, [])])  # the intervals end at .54 and at .48
def test_what_overrides_all_of_six_texts_decides_most_of_them(classifier, n, found):
    encoded = classifier.encode(DEPLOYED[:n])
    report = audit(candidate("honestly", interval=Intervals((0.5, 1), (-0.9, 0), (0.6, 1))))
    given = classifier, encoded, classifier.predict_proba(encoded), report, ShortcutConfig(unit="word"), None
    assert [one.text for one, against in _deciding(*given) if against == [*range(n)]] == found


def test_what_decides_very_many_texts_is_taken_though_nothing_can_be_compared(classifier):
    # Every text holds it, so there are none without it to compare with.
    texts = [f"honestly the {tail} {word}" for word in WORDS for tail in ("bad bad", "awful bad", "awful so awful")]

    def chosen(**config):
        found = find_shortcuts(classifier, classifier.encode(texts), ShortcutConfig(unit="word", top_k=3, **config))
        return verdicts(found)

    assert (chosen(), chosen(dominant_share=1.0)) == ({"honestly": "dominant"}, {"honestly": "listed"})
    # The false-discovery rate of a report that is given comes before the configuration's.
    config, encoded = ShortcutConfig(unit="word", top_k=3, fdr=1e-30), classifier.encode(texts)
    report = audit_texts(classifier, encoded, config.audit())
    assert find_shortcuts(classifier, encoded, replace(config, fdr=0.05), report=report).words == ()


@pytest.mark.parametrize(("n", "said"), [(5, ("found", "flagged")), (6, ("cleared", "weak evidence"))])
def test_five_words_are_taken_though_erasing_any_word_changes_much_and_six_are_not(classifier, monkeypatch, n, said):
    listed = Shortcut("good", "cleared", "many predictions", 40, 1.0)
    ranked = [*(Shortcut(f"w{i}", "found", "flagged", i, 1.0) for i in range(n)), listed]
    monkeypatch.setattr("shortcut_guardrail.shortcuts.search.ranked_shortcuts", lambda *_: ranked)
    report = audit(unit="phrase", erasures=WEAK)
    found = find_shortcuts(classifier, classifier.encode(DEPLOYED), ShortcutConfig(), report=report).items
    assert [one.text for one in found] == [one.text for one in ranked], "what is only listed comes last"
    assert [(one.verdict, one.reason) for one in found[:-1]] == [said] * n


def dominant_of(*deciding, label_names=("negative", "positive"), audited=()):
    """Which of these are taken, of 100 texts, where a half is the share that is allowed for."""
    found = [(Shortcut(word, "found", "dominant", n, 1.0, "positive"), list(range(n))) for word, n in deciding]
    config, report = ShortcutConfig(dominant_share=0.5, fdr=0.05), audit(*audited, label_names=label_names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shortcut_guardrail.shortcuts.search._deciding", lambda *_: found)
        return set(_dominant(None, range(100), None, report, config))


def test_the_share_of_what_dominates_is_tested_over_all_classes():
    assert binom.sf(58, 100, 0.5) == pytest.approx(0.044, abs=1e-3)
    assert binom.sf(60, 100, 0.5) == pytest.approx(0.018, abs=1e-3)
    assert (dominant_of(("quite", 59)), dominant_of(("quite", 61))) == (set(), {"quite"})
    assert dominant_of(("quite", 61), label_names=("a", "b", "c")) == set()


def test_of_a_phrase_that_dominates_no_word_is_taken_and_what_was_found_draws_along_none():
    assert dominant_of(("quite", 70), ("really quite", 70), ("really", 70), ("so", 70)) == {"really quite", "so"}
    words = ("quite", 70), ("really quite", 70), ("so", 70)
    for how in ("flagged", "alternative_wording", "collective"):
        assert dominant_of(*words, audited=[candidate("quite", **{"flagged": False, how: True})]) == {"so"}
    assert dominant_of(*words, audited=[candidate("quite", flagged=False)]) == {"really quite", "so"}


def test_a_fixed_phrase_stands_on_one_side_of_a_pair_and_not_all_but_always_inside_a_longer_one(classifier):
    units = words_as_units(classifier.encode([("the soup", "was cold"), ("tea soup", "was warm")]))
    assert fixed_phrases(units, 2) == {}
    apart = words_as_units(classifier.encode(["the soup was cold", "tea soup was warm"]))
    assert fixed_phrases(apart, 2) == {"soup was": [0, 1]}
    for within, others, left in ((10, 1, True), (10, 2, False), (9, 1, True)):
        units = words_as_units(classifier.encode(["soup was cold"] * within + ["soup was warm"] * others))
        assert ("soup was" not in fixed_phrases(units, 3)) == left


def test_what_is_listed_begins_with_what_most_answers_hang_on(classifier):
    texts = [*DEPLOYED, *(f"so the {word} was {tail}" for word in WORDS for tail in ("great", "so great"))]
    config = ShortcutConfig(top_k=3, unit="word", fdr=1e-9)  # so that neither is flagged
    listed = find_shortcuts(classifier, classifier.encode(texts), config).items
    held = [(item.text, item.answers_held) for item in listed if item.listed]
    assert held == [("great", 36.0), ("good", 12.0)]


def test_only_a_confident_other_answer_contradicts():
    before, unsure, sure = np.array([0.1, 0.9]), np.array([0.79, 0.21]), np.array([0.8, 0.2])
    read = _Reading.of("honestly", list(range(20)))
    spare = read.spare
    for after in (unsure, sure, before):
        read.take(after, before, 0.8)
    assert (read.against, read.spare) == ([1], spare - 2)


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


def test_repeats_and_words_that_share_texts_count_once_in_what_dominates(bag):
    classifier = weighing(bag, "really", "quite")
    # Each of the two decides (8 - 6 > 0 > 4 - 6) all of the 24 texts that hold both.
    both = [f"{first} {word} really awful awful but quite awful awful" for word in WORDS for first in ("so", "the")]
    rest = [
        f"{first} {word} {second} awful {third}"
        for word in WORDS
        for first in ("so", "the")
        for second, third in (("was", "bad"), ("so", "bad"), ("was", "awful"))
    ]

    def dominant(texts, **config):
        found = find_shortcuts(classifier, classifier.encode(texts), ShortcutConfig(top_k=3, fdr=1e-6, **config))
        return {item.text for item in found.items if item.reason == "dominant"}

    assert dominant(both + rest, unit="word") == set()
    assert dominant(both + rest, unit="word", dominant_share=0.05) == {"really", "quite"}
    assert dominant(both * 10 + rest) == dominant(both + rest) == set()


def test_a_phrase_none_of_whose_words_decides_a_text_is_found_as_a_whole(bag):
    classifier = weighing(bag, "really", "quite")
    # 4 + 4 - 3: without one of the two the answer stays, without both it is confidently another.
    texts = [f"the awful {word} was really quite {tail}" for word in WORDS for tail in ("awful", "so awful")]
    texts += [f"the {word} was good" for word in WORDS]

    def chosen(**config):
        return find_shortcuts(classifier, classifier.encode(texts), ShortcutConfig(top_k=3, **config)).words

    assert "really" not in chosen(unit="word")
    assert not [word for word in chosen(keep=("quite",)) if "quite" in word]  # each of its words would be masked
    found = [word for word in chosen() if "quite" in word]
    assert found
    assert all("really quite" in word for word in found)


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


def test_labels_clear_what_was_taken_because_many_answers_hang_on_it(classifier):
    rows = [f"the {word} was good" for word in WORDS]
    for asked_for in (False, True):
        targets = choose(classifier, support=(rows, [1] * len(rows)), take_influential=asked_for)
        item = next(item for item in targets.items if item.text == "good")
        assert (item.verdict, item.reason, item.n_support, item.fixed, item.broken) == ("cleared", None, 12, 0, 12)


@pytest.mark.parametrize(("labels", "verdict"), [([0, 0, 1], "many predictions"), ([0, 1], "listed"), ([], "listed")])
def test_influential_words_stay_taken_where_labels_fix_more_than_they_break(classifier, labels, verdict):
    rows = [f"the {word} was good" for word in WORDS[: len(labels)]] + ["the soup was bad"]
    targets = choose(classifier, support=(rows, [*labels, 0]), take_influential=True)
    assert (verdicts(targets)["good"], "good" in targets.words) == (verdict, verdict == "many predictions")
    assert verdicts(choose(classifier, support=(rows, [*labels, 0])))["good"] == "listed"  # not without being asked


def test_a_listed_phrase_does_not_spare_the_words_in_it():
    flagged = [Shortcut(word, "found", "flagged") for word in ("honestly", "to be good")]
    items = (flagged[0], Shortcut("honestly good", "cleared", "many predictions"), flagged[1])
    said = with_said(Shortcuts(items), ShortcutConfig(keep=("good",)))
    assert verdicts(said) == {"honestly": "flagged", "honestly good": "listed", "to be good": "kept", "good": "kept"}


def test_a_share_that_is_met_exactly_is_enough():
    # A count times a rate, which rounds.
    assert Shortcut("a", "cleared", "many predictions", count=22, flip_rate=15 / 22).answers_held < 15
    found = candidate("a", count=22, flip_rate=15 / 22, flagged=False)
    assert _audited(found, {}, {}, ShortcutConfig(), 0.02 * 750).listed
    assert _audited(found, {}, {}, ShortcutConfig(), 0.02 * 751).verdict == "cleared"


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
