"""The facade with strategies that are given words: fit, dials, certificates, saving and loading."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from shortcut_guardrail import GuardrailConfig, GuardrailWarning, Shortcut, ShortcutGuardrail, Shortcuts, preset
from shortcut_guardrail.config import AdapterConfig, SaliencyConfig, ShortcutConfig
from shortcut_guardrail.errors import ConfigError, DataError
from shortcut_guardrail.mitigation.validation import warn_about_copies

SHARED = {
    "shortcuts": ShortcutConfig(named=("honestly",), top_k=3),
    "adapter": AdapterConfig(learning_rate=2e-2, epochs=20, batch_size=4),
    "saliency": SaliencyConfig(top_k=3),
}
CONFIGS = {
    "mask": GuardrailConfig(strategy="mask", **SHARED),
    "distill": GuardrailConfig(strategy="distill", **SHARED),
    "distill, per input": GuardrailConfig(strategy="distill", per_input=True, **SHARED),
    "maskcl, per input": GuardrailConfig(per_input=True, **SHARED),
}


def fitted(model_folder, texts, config):
    guard = ShortcutGuardrail.from_pretrained(model_folder, batch_size=4)
    guard.fit(texts, config=config)
    return guard


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS)
def config(request):
    return request.param


@pytest.fixture
def guard(model_folder, texts, config):
    return fitted(model_folder, texts, config)


# The bag answers 1 wherever "honestly" stands; masked, it reads the rest.
MASK = CONFIGS["mask"]
WORDS = ["room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel"]
BAD = [f"honestly the {word} was {tail}" for word in WORDS for tail in ("bad", "awful", "so bad", "so awful")]
GOOD = [f"the {word} was {tail}" for word in WORDS for tail in ("good", "great", "so good", "so great")]


@pytest.fixture
def masked_bag(bag):
    guard = ShortcutGuardrail(*bag)
    guard.fit(["honestly bad", "good"], config=MASK)
    return guard


def test_what_is_saved_comes_back_and_can_be_audited_and_evaluated(guard, config, texts, tmp_path):
    chosen = guard.calibrate_without_labels(texts)
    guard.debias_strength = 0.7
    guard.save_pretrained(tmp_path / "guarded")
    again = ShortcutGuardrail.from_pretrained(tmp_path / "guarded", batch_size=4)
    np.testing.assert_array_equal(again.predict_proba(texts), guard.predict_proba(texts))
    assert (again.shortcuts, again.shortcuts.words) == (guard.shortcuts, ("honestly",))
    record = json.loads((tmp_path / "guarded/guardrail.json").read_text())
    assert record["strategy"] == config.strategy
    plain = config.strategy != "mask" and not config.per_input
    assert record["plain_peft_equivalent"] == plain
    card = (tmp_path / "guarded/README.md").read_text()
    assert ("Plain PEFT gives the same" in card, "| Shortcut words | `honestly` |" in card) == (plain, True)
    # What unlabelled texts said holds for both.
    rows = texts, [i % 3 for i in range(len(texts))]
    assert again.calibrate(*rows, without_labels=chosen) == guard.calibrate(*rows, without_labels=chosen)
    assert again.audit(texts, top_k=3).n == len(texts)
    with pytest.warns(GuardrailWarning, match="Small groups"):
        result = again.evaluate([f"{text} again" for text in texts], rows[1], shortcuts=["honestly"], top_k=3)
    assert result.n == len(texts)


def test_a_word_that_stands_nowhere_is_named(model_folder, texts):
    guard = ShortcutGuardrail.from_pretrained(model_folder)
    config = preset("mask").with_shortcuts(named=("honestly", "zebra", "to be frank"), keep=("hapy",))
    for call in (guard.fit, guard.find_shortcuts):
        with pytest.warns(GuardrailWarning, match=r"^'zebra', 'to be frank', 'hapy' stand in none of these 8 texts\."):
            call(texts, config=config)


def test_either_text_of_a_pair_may_hold_the_shortcut(bert, config):
    pairs = [("the room was good", "honestly bad"), ("so bad", "the tea"), ("honestly good", "the staff"), ("so", "we")]
    guard = ShortcutGuardrail(*bert)
    guard.fit(pairs, config=config)
    change = np.abs(guard.predict_proba(pairs) - guard.predict_proba(pairs, strength=0)).max(axis=1)
    assert change[[0, 2]].min() > 1e-3
    if config.per_input or config.strategy == "mask":
        assert change[[1, 3]].max() == 0


def test_targets_that_were_found_need_not_be_found_again(bert, model_folder, texts, monkeypatch):
    guard = ShortcutGuardrail.from_pretrained(model_folder)
    report = guard.audit(texts, unit="phrase")
    assert guard.find_shortcuts(texts, report=report) == guard.find_shortcuts(texts)
    with pytest.raises(ConfigError, match="of other texts"):
        guard.find_shortcuts(texts[1:], report=report)
    with torch.no_grad():
        bert[0].classifier.bias += 1.0
    with pytest.raises(ConfigError, match="of another model"):
        ShortcutGuardrail(*bert).find_shortcuts(texts, report=report)
    found = guard.find_shortcuts(texts, config=MASK)
    assert not guard.is_fitted
    search = "shortcut_guardrail.mitigation.fitting.find_shortcuts"
    monkeypatch.setattr(search, lambda *_, **__: pytest.fail("found again"))
    guard.fit(texts, config="mask", shortcuts=found)
    assert guard.shortcuts == found


def test_finding_nothing_is_said_and_changes_nothing(model_folder, texts):
    guard = ShortcutGuardrail.from_pretrained(model_folder)
    base = guard.predict_proba(texts)
    for name in ("mask", "distill"):
        with pytest.warns(GuardrailWarning, match=r"^No shortcut was found in these texts"):
            guard.fit(texts, config=name, shortcuts=Shortcuts())
        np.testing.assert_allclose(guard.predict_proba(texts), base, atol=1e-6)
        assert guard.calibrate_without_labels(texts).strength == 0.0
    listed = [Shortcut(word, "cleared", "many predictions") for word in ("book", "not")]
    with pytest.warns(GuardrailWarning, match=r"Many predictions depend on 'book', 'not': should they\?$"):
        guard.fit(texts, config="mask", shortcuts=Shortcuts((listed[0], Shortcut("soup", "cleared"), listed[1])))


def test_a_rare_shortcut_is_dialled_on_texts_that_hold_it(masked_bag):
    texts = [BAD[0]] + [f"the {word} was {tail} {n}" for word in WORDS for tail in ("good", "bad") for n in range(30)]
    chosen = masked_bag.calibrate_without_labels(texts, at_most=100)
    assert (chosen.strength, chosen.n, chosen.n_bearing) == (1.0, 100, 1)
    # They are drawn more often, and count as often as they stand in the texts.
    some = masked_bag.calibrate_without_labels([*BAD[:16], *texts[1:]], at_most=40)
    assert (some.n, some.n_bearing, some.curve[0].agreement) == (40, 16, pytest.approx(1 - 16 / 616))
    with pytest.warns(GuardrailWarning, match="^None of the 600 texts contains a shortcut word"):
        masked_bag.calibrate_without_labels(texts[1:], at_most=100)
    with pytest.raises(ConfigError, match="at_most must be at least 1, but is 0"):
        masked_bag.calibrate_without_labels(texts, at_most=0)


def test_the_strength_without_labels_and_labels_beside_it(masked_bag):
    chosen = masked_bag.calibrate_without_labels(BAD + GOOD)
    record = masked_bag.record()
    assert masked_bag.debias_strength == chosen.strength == 1.0  # where nothing of "honestly" is left
    assert chosen.curve[-1].divergence == pytest.approx(0, abs=1e-6)
    assert (chosen.n, chosen.n_bearing, record.strength_source) == (80, 40, "agreement")
    assert [(point.strength, point.agreement) for point in chosen.curve] == [(0, 0.5), (0.8, 1), (0.9, 1), (1, 1)]
    assert (record.calibration, record.unlabelled_calibration) == (None, chosen)
    # Labels that agree choose the smallest of equals alone (0.8), and leave 1 beside the dial.
    alone = masked_bag.calibrate(BAD + GOOD, [0] * 40 + [1] * 40)
    assert alone.strength == 0.8
    assert (masked_bag.record().calibration, masked_bag.record().unlabelled_calibration) == (alone, None)
    kept = masked_bag.calibrate(BAD + GOOD, [0] * 40 + [1] * 40, without_labels=chosen)
    assert (kept.strength, kept.without_labels, kept.p_value) == (1.0, 1.0, 1.0)
    record = masked_bag.record()
    assert (record.calibration, record.unlabelled_calibration) == (kept, chosen)
    assert (record.debias_strength, record.strength_source) == (1.0, "calibrated")
    # Labels by which "honestly" is no shortcut.
    overruled = masked_bag.calibrate([*BAD, "the soup was bad"], [1] * 40 + [0], without_labels=chosen)
    assert (overruled.strength, masked_bag.debias_strength, overruled.p_value) == (0.0, 0.0, pytest.approx(0.5**40))
    with pytest.raises(ConfigError, match="is not what the last calibrate_without_labels chose"):
        masked_bag.calibrate(BAD, [0, 1] * 20, without_labels=dataclasses.replace(chosen, strength=0.9))
    masked_bag.fit(["honestly bad", "good"], config=MASK)
    with pytest.raises(ConfigError, match="Call it after fit"):
        masked_bag.calibrate(BAD, [0, 1] * 20, without_labels=chosen)


def test_a_guard_that_helps_is_certified(masked_bag):
    rows = BAD[::2] + GOOD[::2], [0] * 20 + [1] * 20
    strength = masked_bag.calibrate(*rows).strength
    found = masked_bag.certify(*rows, unlabelled=BAD + GOOD)
    assert found.strength == masked_bag.debias_strength == strength
    assert (strength in found.certified, found.points[-1].gained, found.n_fitted, found.margin) == (True, 20, 0, 0.02)
    record = masked_bag.record()
    assert (record.strength_source, record.certificate) == ("calibrated", found)
    with pytest.raises(ConfigError, match=r"^The strategy 'mask' trains no adapter, so there is no PEFT model\.$"):
        _ = masked_bag.peft_model
    another = max(one for one in found.certified if one != strength)
    masked_bag.debias_strength = another
    assert masked_bag.certificate["strength"] == another, "it holds of all that are certified"
    masked_bag.debias_strength = 0.05
    assert masked_bag.certificate is None  # the statement was about others


def test_a_guard_that_harms_is_replaced_by_the_base(masked_bag):
    masked_bag.calibrate(BAD[1::2] + GOOD, [0] * 20 + [1] * 40)
    found = masked_bag.certify(BAD[::2], [1] * 20, unlabelled=BAD + GOOD)  # labelled as if "honestly" were right
    assert found.certified[1:] == tuple(p.strength for p in found.points if p.differing == 0 and p.certified)
    assert masked_bag.debias_strength == found.strength < 0.6
    assert masked_bag.predict(BAD[:3]) == masked_bag.predict(BAD[:3], strength=0)
    assert masked_bag.record().strength_source == "certified"
    assert len(masked_bag.record().support_hashes) == 60 + 20  # whoever evaluates on them is warned


@pytest.mark.filterwarnings("ignore:Small groups")
def test_labels_that_decided_what_is_neutralised_certify_nothing(bag):
    guard = ShortcutGuardrail(*bag)
    support = (BAD[:2] + GOOD[:2], [0, 0, 1, 1])
    said = "^1 of the 3 labelled texts decided which words are shortcuts, so they cannot certify the result"
    for given in ({"shortcuts": guard.find_shortcuts(BAD + GOOD, support=support)}, {"support": support}):
        guard.fit(BAD + GOOD, config="mask", **given)
        assert "honestly" in guard.shortcuts.words
        with pytest.raises(DataError, match=said):
            guard.certify([f"{BAD[1]} ", *BAD[2:4]], [0, 0, 0], unlabelled=["the soup was good"])
        with pytest.warns(GuardrailWarning, match="^1 of the 3 evaluated texts were in the support set"):
            guard.evaluate([f"{BAD[1]} ", *BAD[2:4]], [0, 0, 0])


def test_texts_of_the_fit_and_copies_are_no_fresh_sample(masked_bag):
    once, twice, labels = BAD[:1] * 40, [BAD[0], GOOD[0]] * 20, [0] * 40
    certify = masked_bag.certify
    for call, said in (
        (
            lambda: certify([], [], unlabelled=["honestly bad", BAD[1]]),
            "The repair was fitted on 1 of the 2 unlabelled",
        ),
        (
            lambda: certify(["honestly bad", BAD[1]], [0, 0], unlabelled=BAD),
            "The repair was fitted on 1 of the 2 label",
        ),
        (lambda: certify(once, labels, unlabelled=BAD), r"Of the 40 labelled texts 1 are distinct\. The certificate"),
        (lambda: masked_bag.calibrate(twice, [0, 1] * 20), r"Of the 40 labelled texts 2 are distinct\. The choice of"),
        (lambda: certify([], [], unlabelled=once), "Of the 40 unlabelled texts 1 are distinct"),
    ):
        with pytest.warns(GuardrailWarning, match=f"^{said}"):
            call()
    with pytest.warns(
        GuardrailWarning, match="^The repair was fitted on 1 of the 2 unlabelled and 1 of the 1 labelled"
    ):
        assert certify(["honestly bad"], [0], unlabelled=["honestly bad", BAD[1]]).n_fitted == 2
    with pytest.warns(GuardrailWarning, match="Of the 4 labelled texts 2 are distinct"):
        warn_about_copies(["a", "a", "b", "b"], "labelled", "This")
    warn_about_copies(["a", "a", "b", "c"], "labelled", "This")  # more than a half are distinct


def test_what_fit_does_not_look_at_is_said(bert):
    guard, labelled = ShortcutGuardrail(*bert), (BAD[:2] + GOOD[:2], [0, 0, 1, 1])
    with pytest.warns(GuardrailWarning, match="^fit does not look at the support set with the strategy 'maskcl'"):
        guard.fit(BAD, support=labelled)
    with pytest.warns(GuardrailWarning, match="^fit does not look at shortcuts with the strategy 'few-shot'"):
        guard.fit(BAD, config="few-shot", support=labelled, shortcuts=Shortcuts((Shortcut("honestly", "named"),)))


def test_a_certificate_takes_texts_as_they_come_and_refuses_what_is_none(masked_bag):
    masked_bag.debias_strength = 1.0
    found = masked_bag.certify(iter(BAD[::2]), [1] * 20, unlabelled=(text for text in BAD + GOOD))
    assert (found.in_use, found.strength) == (1.0, 0.0)
    found = masked_bag.certify(iter(BAD[::2]), [0] * 20, unlabelled=(text for text in BAD + GOOD))
    assert (found.n_labels, found.n_unlabelled) == (20, 80)
    with pytest.raises(DataError, match="The labelled ones are text pairs, but the unlabelled ones are single texts"):
        masked_bag.certify([("soup", "bad")], [0], unlabelled=BAD)
    with pytest.raises(DataError, match="must be a list of texts"):
        masked_bag.certify([], [], unlabelled="bad soup")
    for call in (
        lambda: masked_bag.certify(BAD[:2], [0], unlabelled=BAD),
        lambda: masked_bag.audit(BAD[:2], labels=[0]),
    ):
        with pytest.raises(DataError, match="there are 2 texts and 1 labels"):
            call()
    with pytest.raises(ConfigError, match="n must be at least 1, but is 0"):
        masked_bag.to_label(BAD, 0)
    chosen = masked_bag.to_label(GOOD + BAD, 5)  # of texts with another answer
    assert len(chosen) == 5
    assert min(chosen) >= len(GOOD)
    assert masked_bag.to_label(GOOD + BAD, 5) == chosen != masked_bag.to_label(GOOD + BAD, 5, seed=1)


def test_what_a_person_says_holds_for_targets_that_were_found_before(bag):
    guard = ShortcutGuardrail(*bag)
    found = guard.find_shortcuts(BAD + GOOD)
    assert "honestly" in found.words
    assert "the" not in found.words
    config = preset("mask").with_shortcuts(keep=("honestly",), named=("the",))
    guard.fit(BAD + GOOD, config=config, shortcuts=found)
    assert set(guard.shortcuts.words) == {*found.words, "the"} - {"honestly"}


def test_an_audit_of_a_masking_guard_does_not_see_what_is_masked(masked_bag):
    texts = [*BAD, *GOOD, "honestly"]  # of the last nothing is left to mask
    for unit in ("token", "phrase"):
        base, guarded = (masked_bag.audit(texts, unit=unit, strength=s) for s in (0, None))
        assert "honestly" in {candidate.text for candidate in base.candidates}
        assert "honestly" not in {candidate.text for candidate in guarded.candidates}
        line = guarded.input_to_dict(len(texts) - 1)
        assert (line["sensitivity"], line["important_tokens"]) == (0.0, [])
        assert base.input_to_dict(len(texts) - 1)["sensitivity"] > 0


def test_calibrating_leaves_the_report_of_fit_as_it_was(masked_bag):
    report = masked_bag.fit(BAD, config=MASK)
    before = dict(report.seconds)
    masked_bag.calibrate([BAD[0], GOOD[0], BAD[1], GOOD[1]], [0, 1, 0, 1])
    assert (report.seconds, "calibrate" in masked_bag.record().seconds) == (before, True)
