"""What a system may see, and the systems of the harness themselves, on tiny models."""

import dataclasses

import numpy as np
import pytest

from harness_fakes import fake_build
from shortcut_bench.classifiers import TrainedClassifier
from shortcut_bench.finetuning.config import FinetuneConfig
from shortcut_bench.references import Clean, Erm, Guardrail, Oracle
from shortcut_bench.systems import Material, Need
from shortcut_guardrail import ConfigError, ShortcutGuardrail
from tiny_models import tiny_bert


@pytest.fixture
def base():
    model, tokenizer = tiny_bert(n_classes=2)
    return TrainedClassifier(model, tokenizer, ("negative", "positive"), 32, FinetuneConfig(), 0)


@pytest.fixture
def full(base):
    data = fake_build("fake", data_dir=None, n_train=16, n_test=24)
    test = data.tests["reversed"]
    rows = {"train": data.train, "dev": data.dev, "support": test.select(np.arange(10)), "deployment": test.texts}
    return Material(base, "unused", data.label_names, **rows, clean_train=data.clean_train, max_length=32)


def test_the_model_of_the_base_is_for_those_who_declared_it(full, base):
    for need in (Need.BASE, Need.GRADIENTS):
        assert full.for_needs({need}).base.model is base.model
    cut = full.for_needs({Need.TRAIN, Need.DEV})
    assert cut.base.model is None
    assert (cut.base.recipe, cut.base.seed, cut.base.tokenizer) == (base.recipe, base.seed, base.tokenizer)
    assert full.base.model is base.model, "the harness keeps its own"
    with pytest.raises(ConfigError, match="for systems that declare the need 'gradients'"):
        cut.scorer(cut.base.model)
    poor = dataclasses.replace(full, clean_train=None)
    with pytest.raises(ConfigError, match="needs clean-train, which this setting does not have"):
        poor.for_needs({Need.CLEAN_TRAIN})


def test_erm_answers_like_the_base_classifier(full, base):
    fitted = Erm().fit(full.for_needs(Erm().needs), seed=0)
    guard = ShortcutGuardrail(base.model, base.tokenizer, max_length=32)
    assert np.array_equal(fitted.predict_proba(full.deployment), guard.predict_proba(full.deployment))
    assert fitted.forward_equivalents == 0
    assert Oracle().needs == {Need.BASE, Need.ORACLE_TEXTS}


@pytest.mark.parametrize("strength", [0.0, 0.6])
def test_the_guardrail_is_the_librarys_at_the_same_strength(full, base, strength):
    system = Guardrail(strength=strength, max_steps=6, min_steps=0)
    before = base.text_classifier().fingerprint()
    fitted = system.fit(full.for_needs(system.needs), seed=3)
    guard = ShortcutGuardrail(base.model, base.tokenizer, max_length=32)
    guard.fit(full.deployment, config=system.guard_config, seed=3)
    expected = guard.predict_proba(full.deployment, strength=strength)
    assert np.allclose(fitted.predict_proba(full.deployment), expected, atol=1e-5)
    assert base.text_classifier().fingerprint() == before
    if strength:
        assert not np.allclose(expected, guard.predict_proba(full.deployment, strength=0.0), atol=1e-3)
    else:
        assert np.array_equal(fitted.predict_proba(full.deployment), expected)


def test_the_strength_is_chosen_on_the_first_so_many_support_rows(full, base):
    system = Guardrail(n_support=6, max_steps=6, min_steps=0)
    assert Need.SUPPORT in system.needs
    info = system.fit(full.for_needs(system.needs), seed=0).info()
    guard = ShortcutGuardrail(base.model, base.tokenizer, max_length=32)
    guard.fit(full.deployment, config=system.guard_config, seed=0)
    assert full.support is not None
    expected = guard.calibrate(full.support.texts[:6], full.support.labels[:6].tolist())
    assert info["labels_spent"] == expected.n == 6
    assert info["debias_strength"] == expected.strength
    assert Need.SUPPORT not in Guardrail(strength=1.0).needs


def test_an_adapter_is_trained_once_for_every_strength(full, tmp_path, monkeypatch):
    kept = dataclasses.replace(full, cache=tmp_path)
    options = {"max_steps": 4, "min_steps": 0}
    first = Guardrail(strength=0.5, **options)
    fitted = first.fit(kept.for_needs(first.needs), seed=0)
    monkeypatch.setattr(ShortcutGuardrail, "fit", lambda *_, **__: pytest.fail("trained again"))
    again = first.fit(kept.for_needs(first.needs), seed=0)
    assert np.allclose(again.predict_proba(full.deployment), fitted.predict_proba(full.deployment), atol=1e-6)
    assert again.info()["seconds"].keys() == fitted.info()["seconds"].keys()
    other = Guardrail(strength=1.0, **options)
    other.fit(kept.for_needs(other.needs), seed=0)
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        first.fit(kept.for_needs(first.needs), seed=1)


@pytest.mark.filterwarnings("ignore:This run is predicted to change next to nothing")
def test_the_cost_of_the_guardrail_is_counted_as_in_the_notes(full):
    """One epoch over n texts with k = 10: 2 forward passes each to attribute and 22 to train, and no calibration."""
    system = Guardrail(preset="paper", strength=1.0)
    fitted = system.fit(full.for_needs(system.needs), seed=0)
    distinct = len(set(full.deployment))
    assert fitted.forward_equivalents == 2 * len(full.deployment) + 22 * distinct


def test_clean_trains_on_the_clean_rows_by_the_recipe_of_the_base(full, base):
    asked, again = [], dataclasses.replace(base, forward_equivalents=7.0)
    material = dataclasses.replace(full, retrain=lambda rows: asked.append(rows) or again)
    fitted = Clean().fit(material.for_needs(Clean().needs), seed=0)
    assert material.for_needs({Need.TRAIN, Need.GRADIENTS}).retrain is None
    assert asked[0].texts == full.clean_train.texts
    assert fitted.forward_equivalents == 7.0
