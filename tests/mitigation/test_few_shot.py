"""Few-shot adaptation: the loss, the folds, the cross-validated strength, and what labels that taught may still do."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from shortcut_guardrail import ConfigError, DataError, GuardrailConfig, GuardrailWarning, ShortcutGuardrail, preset
from shortcut_guardrail.config import AdapterConfig, CalibrationConfig, CertifyConfig
from shortcut_guardrail.mitigation.few_shot import _Supervised, assign_folds, cross_validated_logits, few_shot_adapter
from shortcut_guardrail.mitigation.scaling import logits_by_strength
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.strength.calibration import choose_strength

ADAPTER = AdapterConfig(learning_rate=4e-2, epochs=6, batch_size=4, deduplicate=False)
CONFIG = GuardrailConfig(strategy="few-shot", adapter=ADAPTER)


@pytest.fixture
def classifier(bert):
    return TextClassifier(*bert, batch_size=3)


@pytest.fixture
def support(classifier, texts):
    """Texts whose labels the base model does not know."""
    return list(texts), (np.arange(len(texts)) % classifier.n_classes).tolist()


@pytest.fixture
def guard(model_folder):
    return ShortcutGuardrail.from_pretrained(model_folder, batch_size=4)


def test_the_loss_is_the_mean_negative_log_likelihood(classifier, support):
    encoded, labels = classifier.encode(support[0]), np.asarray(support[1])
    loop, chosen = _Supervised(classifier, encoded, labels, ADAPTER, 0), np.array([5, 0, 3])
    probs = torch.from_numpy(classifier.predict_logits(encoded)).softmax(dim=-1).numpy()
    expected = np.mean([-np.log(probs[i, labels[i]]) for i in chosen])
    with torch.no_grad():
        assert float(loop.loss(chosen)) == pytest.approx(expected, rel=1e-5)
    assert sorted(i for batch in loop.epoch() for i in batch) == list(range(len(encoded)))


def test_the_adapter_learns_its_labels_and_leaves_the_base(classifier, support):
    encoded, labels = classifier.encode(support[0]), np.asarray(support[1])
    before = classifier.predict_logits(encoded)
    model, training = few_shot_adapter(classifier, encoded, labels, ADAPTER, seed=0)
    adapted = classifier.with_model(model).predict_logits(encoded)
    assert (adapted.argmax(axis=1) == labels).mean() > (before.argmax(axis=1) == labels).mean()
    assert training.losses[-1] < training.losses[0]
    assert (training.n_texts, training.n_trained) == (len(labels), len(labels))
    for once, n in ((True, len(labels)), (False, 2 * len(labels))):
        how = replace(ADAPTER, max_steps=1, deduplicate=once)
        twice = classifier.encode(support[0] * 2), np.tile(labels, 2)
        assert few_shot_adapter(classifier, *twice, how, seed=0)[1].n_texts == n
    np.testing.assert_array_equal(classifier.predict_logits(encoded), before)


def test_folds_are_even_and_every_class_is_dealt_out():
    for n, n_classes in ((2, 2), (3, 2), (9, 2), (23, 3), (40, 4)):
        labels = np.random.default_rng(n).integers(n_classes, size=n)
        folds = assign_folds(labels, range(n), 5, seed=1)
        sizes = np.bincount(folds)
        assert len(sizes) == min(5, n)
        assert sizes.max() - sizes.min() <= 1
        assert n < 9 or not np.array_equal(folds, assign_folds(labels, range(n), 5, seed=2))
        # Equal texts are in one.
        thrice = assign_folds(np.repeat(labels, 3), np.repeat(range(n), 3).tolist(), 5, seed=1).reshape(n, 3)
        assert (thrice == thrice[:, :1]).all()
        for dealt, c in product((folds, thrice[:, 0]), set(labels.tolist())):
            of_class = np.bincount(dealt[labels == c], minlength=len(sizes))
            assert of_class.max() - of_class.min() <= 1
        assert np.bincount(thrice[:, 0]).tolist() == sizes.tolist()


def test_repeating_the_rows_teaches_nothing_about_the_strength(guard, support):
    texts, labels = support
    once = guard.fit(texts, config=CONFIG, support=support).calibration
    thrice = guard.fit(texts, config=CONFIG.with_adapter(deduplicate=True), support=(texts * 3, labels * 3)).calibration
    assert [p.accuracy for p in thrice.curve] == [p.accuracy for p in once.curve]


def test_no_row_is_answered_by_an_adapter_that_was_taught_it(classifier, support):
    encoded, labels = classifier.encode(support[0]), np.asarray(support[1])
    strengths = [0.0, 0.5, 1.0]
    found = cross_validated_logits(classifier, encoded, labels, ADAPTER, strengths, seed=3)
    np.testing.assert_allclose(found[0], classifier.predict_logits(encoded), atol=1e-5)
    folds = assign_folds(labels, support[0], 5, seed=3)
    assert len(set(folds.tolist())) == 5
    for fold in set(folds.tolist()):
        taught, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        model, _ = few_shot_adapter(classifier, encoded.select(taught), labels[taught], ADAPTER, seed=3)
        expected = logits_by_strength(classifier.with_model(model), encoded.select(asked), strengths)
        np.testing.assert_allclose(found[:, asked], expected, atol=1e-5)


def test_texts_that_are_one_to_the_model_are_in_one_fold(bert, support):
    short = TextClassifier(*bert, batch_size=3, max_length=6)
    texts = [
        f"{text} {tail}" for text in ("the soup was cold and", "the staff was kind and") for tail in ("so", "very")
    ]
    encoded = short.encode(texts)
    assert len({ids.tobytes() for ids in encoded.input_ids}) == 2
    found = cross_validated_logits(short, encoded, np.array([0, 0, 1, 1]), ADAPTER, [1.0], seed=0)
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    for asked, taught in (([0, 1], [2, 3]), ([2, 3], [0, 1])):
        model, _ = few_shot_adapter(short, encoded.select(taught), np.array([0, 0, 1, 1])[taught], ADAPTER, seed=0)
        due = logits_by_strength(short.with_model(model), encoded.select(asked), [1.0])
        np.testing.assert_allclose(found[:, asked], due, atol=1e-5)


def test_the_strength_is_chosen_on_these_answers(guard, classifier, support):
    told = []
    report = guard.fit(support[0], config=CONFIG, support=support, seed=5, progress=lambda *now: told.append(now))
    assert [now for now in told if now[0] == "Cross-validating"] == [("Cross-validating", i, 5) for i in range(1, 6)]
    encoded, labels = classifier.encode(support[0]), np.asarray(support[1])
    grid = list(CalibrationConfig().strengths)
    logits = cross_validated_logits(classifier, encoded, labels, ADAPTER, grid, seed=5)
    expected = replace(choose_strength(logits, labels, CalibrationConfig()), cross_validated=True)
    assert (report.calibration, guard.debias_strength) == (expected, report.calibration.strength)
    assert (guard.record().strength_source, report.to_dict()["calibration"]["n"]) == ("cross-validated", len(labels))


def test_labels_that_taught_choose_and_certify_nothing_then_and_after_loading(guard, support, tmp_path):
    texts, labels = support
    guard.fit(texts, config=CONFIG, support=support)
    guard.debias_strength = 0.7
    guard.save_pretrained(tmp_path / "guarded")
    again = ShortcutGuardrail.from_pretrained(tmp_path / "guarded", batch_size=4)
    np.testing.assert_array_equal(again.predict_proba(texts), guard.predict_proba(texts))
    record = json.loads((tmp_path / "guarded/guardrail.json").read_text())
    assert (record["strategy"], record["plain_peft_equivalent"]) == ("few-shot", True)
    assert len(record["shortcut_rows"]) == len(set(texts))
    card = (tmp_path / "guarded/README.md").read_text()
    assert "made from labelled texts with the strategy `few-shot`" in card
    assert f"| Labelled texts | {len(texts)} given" in card
    # The curve stays that of adapters that had not seen the rows, whatever strength is set.
    assert "Every text was predicted by an adapter that had not been trained on it" in card
    for one in (guard, again):
        with pytest.raises(DataError, match=r"^8 of the 8 labelled texts trained the adapter, which predicts them bet"):
            one.calibrate(*support)
        with pytest.raises(DataError, match="trained the adapter, so they cannot certify the result"):
            one.certify(*support, unlabelled=["the soup"], config=CertifyConfig())
        with pytest.warns(GuardrailWarning) as caught:
            one.evaluate(*support)
        seen = "8 of the 8 evaluated texts were in the support set that trained the adapter"
        assert any(seen in str(warning.message) for warning in caught)
    # The partner: other labelled texts may do both.
    others = [f"{text} people" for text in texts]
    guard.calibrate(others, labels)
    guard.certify(others, labels, unlabelled=[f"so {text}" for text in others])


def test_what_it_cannot_be_asked_is_refused(guard, support):
    texts, _ = support
    for kind, message, given in (
        (ConfigError, "support= is missing", None),
        (DataError, "have the same label", (texts, [0] * len(texts))),
        (DataError, "at least 2 labelled rows", (texts[:1], [0])),
        (DataError, "The 4 labelled texts are one and the same", (["the soup"] * 4, [0, 1, 0, 1])),
    ):
        with pytest.raises(kind, match=message):
            guard.fit(texts, config="few-shot", support=given)
    guard.fit(texts, config=CONFIG, support=support)
    with pytest.raises(ConfigError, match="learned from labels takes its strength from them too"):
        guard.calibrate_without_labels(texts)
    with pytest.raises(ConfigError, match="per_input is for strategies that look for shortcuts"):
        replace(CONFIG, per_input=True)
    # The preset takes the published recipe.
    adapter = preset("few-shot").adapter
    assert (adapter.epochs, adapter.warmup_ratio, adapter.batch_size, adapter.scheduler) == (20, 0.1, 16, "linear")


def test_the_same_seed_gives_the_same_guard_and_texts_that_were_cut_are_counted(model_folder, support):
    texts, labels = support
    guard, answers = ShortcutGuardrail.from_pretrained(model_folder, max_length=8), []
    for seed in (0, 0, 1):
        long = [f"{text} and then {text}" for text in texts]
        assert guard.fit(["the soup"], config=CONFIG, support=(long, labels), seed=seed).n_truncated == len(long)
        with pytest.warns(GuardrailWarning, match="was fitted on 2 of the 3 unlabelled texts"):
            guard.certify([], [], unlabelled=[*long[:2], "the soup"])  # of which it has seen nothing
        answers.append(guard.predict_proba(texts, strength=1.0))
    np.testing.assert_array_equal(answers[0], answers[1])
    assert np.abs(answers[0] - answers[2]).max() > 1e-4
