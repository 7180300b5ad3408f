"""The whole workflow in one call, beside the same steps one by one."""

import dataclasses

import numpy as np
import pytest

from shortcut_guardrail import GuardrailConfig, GuardrailWarning, Shortcut, ShortcutGuardrail, Shortcuts, preset
from shortcut_guardrail.config import updated
from shortcut_guardrail.errors import ConfigError, DataError, NothingToRepairError
from shortcut_guardrail.mitigation.repairing import Wanted, supported_strategy

FAST = {"adapter": {"epochs": 5, "batch_size": 4, "learning_rate": 2e-2}}
FEW = ["the film was good", "the film was bad"]  # an audit can find nothing in a handful of texts


@pytest.fixture
def guard(model_folder):
    return ShortcutGuardrail.from_pretrained(model_folder, batch_size=4)


@pytest.fixture
def support(guard, texts):
    """Eight rows that the base answers half rightly, so that both classes and both outcomes are there."""
    answers = guard.predict(texts[:8])
    other = {answer: next(name for name in guard.label_names if name != answer) for answer in set(answers)}
    return texts[:8], [answer if i % 2 else other[answer] for i, answer in enumerate(answers)]


def steps(model_folder, texts, config, seed=0):
    guard = ShortcutGuardrail.from_pretrained(model_folder, batch_size=4)
    guard.fit(texts, config=config, seed=seed)
    return guard


def test_a_named_word_is_distilled_and_the_strength_chosen_without_labels(guard, model_folder, texts):
    configured = {**FAST, "shortcuts": {"keep": ["soup"]}}  # the call adds to it
    repaired = guard.repair(texts, shortcuts=["honestly"], keep=["tea"], config=configured)
    config = updated(preset("distill"), FAST).with_shortcuts(named=("honestly",), keep=("soup", "tea"))
    by_hand = steps(model_folder, texts, config)
    chosen = by_hand.calibrate_without_labels(texts)
    np.testing.assert_array_equal(guard.predict_proba(texts), by_hand.predict_proba(texts))
    assert (repaired.strategy, repaired.choice.source) == ("distill", "agreement")
    assert repaired.reason == "distill, since honestly is named as a shortcut"
    assert repaired.choice.strength == guard.debias_strength == chosen.strength
    assert (repaired.fitted.config, repaired.to_dict()["strength_source"]) == (config, "agreement")


@pytest.mark.filterwarnings("ignore:This run is predicted to change next to nothing")
def test_the_papers_method_is_one_word_away_and_exact(guard, model_folder, texts, support):
    repaired = guard.repair(texts, support, strategy="paper", seed=3)
    by_hand = steps(model_folder, texts, preset("paper"), seed=3)
    by_hand.calibrate(*support)
    np.testing.assert_array_equal(guard.predict_proba(texts, strength=1), by_hand.predict_proba(texts, strength=1))
    assert (guard.debias_strength, repaired.fitted.config) == (by_hand.debias_strength, preset("paper"))
    assert (repaired.strategy, repaired.reason, repaired.choice.source) == ("paper", "", "calibrated")
    # The partner: the default preset trains longer.
    other = steps(model_folder, texts, preset("default"), seed=3)
    assert not np.array_equal(other.predict_proba(texts, strength=1), by_hand.predict_proba(texts, strength=1))


def test_labels_may_overrule_the_choice_without_labels(guard, texts, support):
    repaired = guard.repair(texts, support, strategy="distill", shortcuts=["honestly"], config=FAST)
    assert repaired.choice.source == "calibrated"
    assert repaired.choice.unlabelled is not None
    assert repaired.choice.calibration.without_labels == repaired.choice.unlabelled.strength
    assert repaired.choice.rows
    with pytest.warns(GuardrailWarning) as warned:
        guard.evaluate(*support)
    assert any("chose the strength" in str(warning.message) for warning in warned)


def test_a_strength_is_stated_or_fixed_and_nothing_to_repair_leaves_the_guard_as_it_was(guard, texts):
    repaired = guard.repair(texts, strategy="mask", shortcuts=["honestly"], strength=0.4)
    assert (repaired.choice.strength, repaired.choice.source) == (0.4, "fixed")
    record = guard.record()
    assert (record.strategy, record.strength_source) == ("mask", "fixed")
    with pytest.raises(NothingToRepairError, match="name those that are shortcuts with shortcuts="):
        guard.repair(FEW)
    assert guard.record() == record
    with pytest.warns(GuardrailWarning, match="the strength is not calibrated: 1 is used"):
        assert guard.repair(texts, strategy="maskcl", config=FAST).choice.source == "fixed"
    assert guard.repair(texts, strategy="maskcl", strength="auto", config=FAST).choice.source == "agreement"


@pytest.mark.parametrize(
    ("strategy", "strength", "weighs", "automatic", "on_labels"),
    [
        *[("distill", None, True, True, True), ("distill", 0.4, True, False, False), ("mask", None, True, True, True)],
        *[("maskcl", None, False, False, True), ("maskcl", "auto", False, True, True)],
        ("few-shot", None, True, False, False),
    ],
)
def test_labels_have_a_say_unless_the_strength_is_stated(strategy, strength, weighs, automatic, on_labels):
    plan, both, one = Wanted(strategy, strength).plan, np.array([0, 1]), np.array([1, 1])
    found = plan(strategy, both)
    assert (found.weighs, found.automatic, found.on_labels) == (weighs, automatic, on_labels)
    assert found.config.calibration.fixed_strength == (1.0 if strength in (None, "auto") else strength)
    if on_labels and automatic:
        with pytest.warns(GuardrailWarning, match="a single row or a single label, so that strengths cannot be"):
            assert not plan(strategy, one).on_labels
    elif on_labels or strategy == "few-shot":
        with pytest.raises(DataError):
            plan(strategy, one)


def test_words_of_a_configuration_come_before_those_of_the_call():
    words = {"named": ("a", "b"), "keep": ("c", "d"), "not_alone": ("e", "f")}
    wanted = Wanted(
        shortcuts=["b"], keep=["d"], not_alone=["f"], config={"shortcuts": {k: v[:1] for k, v in words.items()}}
    )
    assert wanted.plan("distill", None).config == preset("distill").with_shortcuts(**words)
    whole = preset("mask").with_adapter(rank=2)  # as a record may have it
    assert Wanted(config=whole).plan("mask", None).config == whole


def test_what_auto_takes_follows_the_evidence():
    found = Shortcut("honestly", "found", "flagged")
    judged, asked = Shortcut("tea", "confirmed", "answers"), Shortcut("soup", "confirmed", "second model")
    named, many = ([Shortcut(f"w{i}", *kind) for i in range(7)] for kind in (("named",), ("found", "flagged")))
    for items, reason in (
        ((found,), "the audit finds honestly"),
        (many, "the audit finds w0, w1, w2, w3, w4"),
        ((found, *named, judged), "w0, w1, w2, w3, w4 are named as a shortcut"),
        ((found, judged, asked), "by the answers tea is a shortcut"),
        ((found, asked), "by a second model soup is a shortcut"),
    ):
        for has_labels in (False, True):
            chosen = supported_strategy(Shortcuts(tuple(items)), has_labels=has_labels)
            assert chosen == ("distill", f"distill, since {reason}")
            assert supported_strategy(Shortcuts(tuple(items)), has_labels=has_labels, adapts=False)[0] == "mask"
    assert supported_strategy(Shortcuts(), has_labels=True)[0] == "few-shot"
    with pytest.raises(NothingToRepairError):
        supported_strategy(Shortcuts(), has_labels=True, adapts=False)
    listed = Shortcuts(tuple(Shortcut(f"w{i}", "cleared", "many predictions") for i in range(7)))
    with pytest.raises(NothingToRepairError, match=r"Many predictions depend on 'w0', .*, 'w4': should they\?"):
        supported_strategy(listed, has_labels=False)


@pytest.mark.filterwarnings("ignore::shortcut_guardrail.GuardrailWarning")
def test_auto_takes_few_shot_for_labels_alone_unless_they_prefer_the_base(guard, texts):
    answers = guard.predict(texts)
    others = [[name for name in guard.label_names if name != answer] for answer in answers]
    right = [*answers[:-1], others[-1][0]]  # one is another, since a single label tells nothing
    with pytest.raises(NothingToRepairError, match="prefers the original model"):
        guard.repair(FEW, (texts, right), config=FAST)
    assert not guard.is_fitted
    repaired = guard.repair(FEW, (texts, [names[i % 2] for i, names in enumerate(others)]), config=FAST)
    assert (repaired.strategy, repaired.choice.source) == ("few-shot", "cross-validated")
    assert repaired.choice.strength > 0
    assert repaired.fitted.calibration == repaired.choice.calibration


def test_contradictions_are_refused_before_anything_is_trained(guard, texts, support):
    one = (support[0][:1], support[1][:1])
    for options, said in (
        ({"strategy": "few-shot"}, "support= is missing"),
        ({"strategy": "maskcl", "shortcuts": ["honestly"]}, "shortcuts= is for strategies that take words"),
        ({"strategy": "maskcl", "keep": ["good"]}, "keep= is for strategies that take words"),
        (
            {"strategy": "maskcl", "config": {"shortcuts": {"take_influential": True}}},
            "take_influential=True is .* or per_input=",
        ),
        ({"strategy": "few-shot", "support": support, "keep": ["a"]}, r"strategy='mask' or strategy='distill'\.$"),
        ({"strategy": "mask", "config": {"shortcuts": {"not_alone": ["never"]}}}, "not_alone= needs training, and"),
        ({"strategy": "mask", "not_alone": ["never"]}, "not_alone= needs training, and strategy='mask' masks a word"),
        ({"strategy": "maskcl", "not_alone": ["never"]}, "not_alone= is for strategies that take words"),
        ({"strategy": "mask", "config": {"adapter": {"rank": 2}}}, "strategy=.mask. trains nothing"),
        ({"strategy": "distill", "config": GuardrailConfig()}, "the configuration is one of 'maskcl'"),
        ({"strategy": "mask", "strength": "most"}, "strength must be a number in .0, 1. or 'auto', but is 'most'"),
        ({"strategy": "mask", "strength": 1.5}, "debias_strength must be a number from 0 to 1"),
        ({"strategy": "maskcl", "config": {"adaptor": {}}}, "Did you mean 'adapter'"),
        ({"strategy": "maskcl", "config": {"adapter": {"rnk": 1}}}, "Did you mean 'rank'"),
        ({"strategy": "maskcl", "config": {"adapter": 8}}, "adapter must be an object"),
        ({"strategy": "lora"}, "preset must be one of"),
        ({"strategy": "maskcl", "support": support, "strength": 0.5}, "give one of them"),
        ({"strategy": "few-shot", "support": support, "strength": 0.5}, "strength= is for other strategies"),
    ):
        with pytest.raises(ConfigError, match=said):
            guard.repair(texts, **options)
    with pytest.raises(DataError, match="2"):
        guard.repair(texts, one, strategy="maskcl")
    assert not guard.is_fitted
    with pytest.warns(GuardrailWarning, match="strengths cannot be compared"):
        guard.repair(texts, one, strategy="mask", shortcuts=["honestly"])


def test_what_is_asked_for_by_name_is_not_overruled_by_the_presets_rules():
    changed = updated(preset("default"), {"adapter": {"epochs": 2, "learning_rate": 1e-3}, "per_input": True}).adapter
    assert (changed.epochs, changed.min_steps, changed.max_steps, changed.target_change) == (2, 0, 0, 0.0)
    kept = updated(preset("default"), {"adapter": {"epochs": 2, "max_steps": 9}}).adapter
    assert (kept.min_steps, kept.max_steps, kept.target_change) == (0, 9, 0.08)
    assert updated(preset("default"), {}) == preset("default")
    flat = dataclasses.replace(preset("paper-flat"), preset="paper")
    assert updated(preset("paper"), {"adapter": {"pairing": "flat"}}) == flat
