"""What a found word brings with it: what is alike in meaning, pushes towards the same class and overrides its texts
too."""

from dataclasses import replace

import numpy as np
import pytest

from shortcut_guardrail.audit.auditing import audit_texts
from shortcut_guardrail.cards.masking import MaskedAnswers
from shortcut_guardrail.config import ShortcutConfig
from shortcut_guardrail.shortcuts import Shortcut, find_shortcuts, similar
from shortcut_guardrail.shortcuts.similar import similar_to, similar_words
from tiny_models import meaning_bag

WORDS = ["room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit"]
EFFECTS = {"honestly": 4.0, "happy": 4.0, "really": 4.0, "quite": 4.0, "honest": 4.0, "good": 1.0, "lovely": 3.0}
EFFECTS |= {"great": 1.5, "bad": -1.0, "awful": -1.5}
ALIKE = dict.fromkeys(("honestly", "happy", "really", "quite", "honest", "lovely"), 0)
ALIKE |= {"good": 1, "great": 1, "bad": 2, "awful": 2}

# Two words are flagged; "really", "quite" and "honest" override such texts too, but stand in too few to be tested.
FLAGGED = {"honestly": "flagged", "happy": "flagged"}
BROUGHT = dict.fromkeys(("really", "quite", "honest"), "similar")
TEXTS = [f"{found} the bad {word} was {tail}" for found in FLAGGED for word in WORDS for tail in ("awful", "so awful")]
TEXTS += [f"really the bad {word} was awful" for word in WORDS[:9]]
TEXTS += [f"quite the bad {word} was so awful" for word in WORDS[3:]]
TEXTS += [f"to be honest the bad {word} was awful" for word in WORDS[3:]]
TEXTS += [f"the {word} was {tail}" for word in WORDS for tail in ("good and great", "so good and great")]
TEXTS += [f"the {word} was bad and {tail}" for word in WORDS for tail in ("slow", "cold")]
# "lovely" is as strong, and alike, but the rest of its texts says the same.
LOVELY = [f"the {word} was lovely and good good" for word in WORDS[:5]]


def chosen(classifier, texts=TEXTS, **config):
    config = {"unit": "word", "top_k": 4} | config
    found = find_shortcuts(classifier, classifier.encode(texts), ShortcutConfig(**config))
    return {item.text: item.reason for item in found.items if item.reliance_removed}


@pytest.fixture
def classifier():
    return meaning_bag(EFFECTS, ALIKE)


@pytest.fixture
def brought(classifier):
    """What the words that an audit flags bring with them, by changes of the audit's settings and of its report."""

    def words(texts=TEXTS, *, phrases=None, of=lambda report: report, by=classifier, **changes):
        config, encoded = ShortcutConfig(unit="word", top_k=4).audit(), by.encode(texts)
        report, config = audit_texts(by, encoded, config), replace(config, **changes)
        return similar_words(by, encoded, report.saliency.probs, of(report), phrases=phrases or {}, config=config)

    return words


def test_a_found_word_brings_those_alike_and_none_of_another_meaning(classifier):
    assert chosen(classifier) == FLAGGED | BROUGHT
    assert "really" not in chosen(classifier, keep=("really",))  # a person's word comes before that
    assert chosen(meaning_bag(EFFECTS, ALIKE | {"really": 3})) == FLAGGED | {"quite": "similar", "honest": "similar"}


def test_a_single_found_word_brings_nothing_and_nothing_is_masked(classifier, brought, monkeypatch):
    def apart(report):
        turned = (replace(c, pushes_towards="negative") if c.text == "happy" else c for c in report.candidates)
        return replace(report, candidates=tuple(turned))

    monkeypatch.setattr(similar, "masked_answers", lambda *_, **__: pytest.fail("masked"))
    assert chosen(classifier, [text for text in TEXTS if not text.startswith("happy")]) == {"honestly": "flagged"}
    assert chosen(classifier, [text for text in TEXTS if text.startswith("the ")]) == {}
    assert brought(of=apart) == {}, "one for each of two classes"


def test_the_set_has_to_override_its_texts(classifier):
    # Now what "really" and "honest" stand in speaks for the class without them.
    legitimate = [text.replace("bad", "good").replace("awful", "good") for text in TEXTS]
    found = [text for text in TEXTS if {*FLAGGED} & {*text.split()}]
    assert chosen(classifier, found + legitimate[len(found) :]) == FLAGGED


def test_words_of_texts_like_all_others_are_not_brought_where_found_words_stand_on_one_side(brought):
    found = [text for text in TEXTS if {*FLAGGED} & {*text.split()}]
    others = [text for text in TEXTS if "good" in text]
    neutral = [f"{word} the {thing} was slow" for word in ("really", "quite", "honest") for thing in WORDS[:9]]
    assert brought(found + others + neutral) == {}
    # The partner: without the texts of found words, which are bad, good ones are all that is left to compare with.
    assert len(found) > len(others)
    assert set(brought(found + 3 * others + [f"so {text}" for text in others] + neutral)) == set(BROUGHT)
    # Of 52 good ones and 48 bad, more speak for the class than not, but so few more may be chance.
    assert brought(found + 2 * others + [f"so {text}" for text in others[:4]] + neutral) == {}


@pytest.mark.parametrize(("p_values", "bring"), [((0.05, 0.05), True), ((0.051, 0.01), False), ((0.01, 0.051), False)])
def test_both_comparisons_have_to_support_what_is_brought(brought, monkeypatch, p_values, bring):
    given = iter(p_values)
    monkeypatch.setattr(similar, "p_relative_effect", lambda *_: [next(given)])
    assert bool(brought()) == bring


def test_a_word_whose_own_texts_do_not_agree_is_left_out(classifier, brought):
    # By meaning "lovely" would be brought.
    assert similar_to(classifier, [*FLAGGED], ["good", "lovely"]) == ["lovely"]
    assert set(brought([*TEXTS, *LOVELY])) == set(BROUGHT)


def test_a_fixed_phrase_around_what_is_brought_comes_along(brought):
    found = brought(phrases={"to be honest": 9, "to be": 9, "honest the bad": 4, "bad and slow": 12})
    assert set(found) == {*BROUGHT, "to be honest"}
    assert found["to be honest"] == Shortcut("to be honest", "found", "similar", 9, pushes_towards="positive")


def test_words_in_five_texts_are_brought_and_in_fewer_not(classifier):
    with_it, others = ([text for text in TEXTS if ("really" in text) == holds] for holds in (True, False))
    assert chosen(classifier, others + with_it[: similar.LEAST_TEXTS]) == FLAGGED | BROUGHT
    few = chosen(classifier, others + with_it[: similar.LEAST_TEXTS - 1])
    assert few == FLAGGED | {"quite": "similar", "honest": "similar"}


def test_too_few_texts_to_test_or_to_compare_with_bring_nothing(brought):
    # Nine texts each with "really", "quite" and "honest", and 48 with none.
    few = [text for i, text in enumerate(TEXTS) if not text.startswith("the ") or i % 2]
    for texts, least in ((TEXTS, 27), (few, 24)):
        assert brought(texts, min_count=least)
        assert brought(texts, min_count=least + 1) == {}


def test_the_level_is_shared_among_the_classes_with_a_flagged_word(brought, monkeypatch):
    def of_two(report):
        other = {"flagged": True, "pushes_towards": "negative"}
        candidates = tuple(replace(c, **other) if c.text == "good" else c for c in report.candidates)
        assert {c.pushes_towards for c in candidates if c.flagged} == {"negative", "positive"}
        return replace(report, candidates=candidates)

    for share, at_one_class, at_two in ((0.5, True, True), (1.0, True, False), (1.1, False, False)):
        monkeypatch.setattr(similar, "p_relative_effect", lambda *_, share=share: [share * 0.05])
        assert (bool(brought()), bool(brought(of=of_two))) == (at_one_class, at_two)


def test_a_phrase_that_pulls_the_other_way_is_left_out(brought):
    # Near by meaning, and the rest of its texts speaks against what was found, as the phrase itself does.
    against = meaning_bag(EFFECTS | {"cold": -3.0}, ALIKE | {"cold": 0})
    texts = [text for text in TEXTS if "cold" not in text] + [f"so cold the {word} was awful" for word in WORDS[:5]]
    assert similar_to(against, [*FLAGGED], ["so cold"]) == ["so cold"]
    assert set(brought(texts, phrases={"so cold": 5, "to be honest": 9}, by=against)) == {*BROUGHT, "to be honest"}


def test_texts_that_hold_a_found_word_as_well_do_not_test_those_that_it_brings(monkeypatch, classifier):
    """What masking changes there may be the found word's doing."""
    texts = [f"{word} the {noun} was bad" for word in ("really", "honestly", "honestly really") for noun in WORDS]
    encoded = classifier.encode([*texts, *(f"the {noun} was bad" for noun in WORDS)])
    probs, rows = np.tile([0.2, 0.8], (48, 1)), np.arange(36)
    found = []
    for after in (0.1, 0.9):
        rest = np.array([0.3] * 12 + [0.4] * 12 + [after] * 12)
        seen = MaskedAnswers(rows, probs[:36], np.column_stack([1 - rest, rest]))
        monkeypatch.setattr(similar, "masked_answers", lambda *_, seen=seen, **__: seen)
        how = {"side": np.array([False, True]), "config": ShortcutConfig(unit="word").audit()}
        found.append(similar.ask_pool(classifier, encoded, probs, ["honestly"], ["really"], **how)[0])
    assert found[0] == found[1] < 1
