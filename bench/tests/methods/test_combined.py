"""Equal terms: an epoch chosen on labels of the target, and a repair of what a training-time method trained."""

import dataclasses

import numpy as np
import pytest

from methods_toy import DEPLOYMENT, QUICK, RECIPE, REVERSED, SUPPORT, TRAIN, fit
from shortcut_bench.methods import METHODS, BiasOnly, Targeted
from shortcut_bench.registry import make_system
from shortcut_bench.systems import Need
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.metrics import balanced_accuracy

pytestmark = pytest.mark.filterwarnings("ignore::shortcut_guardrail.errors.GuardrailWarning")
FOUR = {"recipe": {**QUICK, "epochs": 4}}


def test_the_epoch_is_that_of_the_best_balanced_accuracy_on_the_support_rows(material):
    found = fit(BiasOnly(bias="bag", select="support-balanced-accuracy", **FOUR), material)
    info = found.info()
    scores, epoch = info["training"]["epoch_scores"], info["training"]["epoch"]
    assert len(scores) == 4
    assert epoch == scores.index(max(scores))
    guesses = found.predict_proba(SUPPORT.texts).argmax(axis=1)
    assert balanced_accuracy(guesses, SUPPORT.labels) == max(scores)
    assert info["labels_spent"] == info["selection"]["support_rows"] == len(SUPPORT)
    assert (info["selection"]["dev_rows"], info["selection"]["oracle"]) == (0, False)
    assert found.forward_equivalents == 3 * 4 * len(TRAIN) + 4 * len(SUPPORT)
    assert METHODS["poe-bow-40"]().needs == {Need.TRAIN, Need.SUPPORT}
    plain = fit(BiasOnly(bias="bag", **FOUR), material)
    assert plain.info()["labels_spent"] == 0
    assert plain.forward_equivalents == 3 * 4 * len(TRAIN)


def test_what_was_trained_is_repaired_as_a_deployed_model_would_be(material):
    options = {"min_steps": 8, "max_steps": 8}
    both = make_system("poe-bow+distill", options={"recipe": QUICK}, **options)
    assert both.needs == {Need.TRAIN, Need.DEPLOYMENT}
    found = fit(both, material)
    first = fit(BiasOnly(bias="bag", recipe=QUICK), material)
    base = dataclasses.replace(material.base, model=first.classifier.plain_model)
    second = fit(Targeted(**options), dataclasses.replace(material, base=base))
    assert np.array_equal(found.predict_proba(REVERSED.texts), second.predict_proba(REVERSED.texts))
    assert found.forward_equivalents == first.forward_equivalents + second.forward_equivalents
    info = found.info()
    assert info["labels_spent"] == 0
    assert info["selection"]["rule"] == "last, then divergence without labels"
    assert info["repaired"]["n_deployment"] == len(DEPLOYMENT)
    with pytest.raises(ConfigError, match="options has one that c2l does not take"):
        make_system("c2l+distill", options={"folds": 3})


def test_labels_that_say_the_opposite_score_every_epoch_the_other_way_round(material):
    system = BiasOnly(bias="bag", select="support-balanced-accuracy", recipe=RECIPE.to_dict())
    wrong = dataclasses.replace(SUPPORT, labels=1 - SUPPORT.labels)
    given = [dataclasses.replace(material, support=support, dev=None) for support in (SUPPORT, wrong)]
    scores, others = (fit(system, one).info()["training"]["epoch_scores"] for one in given)
    assert len(set(scores)) > 1
    assert others == pytest.approx([1 - score for score in scores])


def test_the_labels_choose_among_the_weights_of_jtt_too(material):
    options = {"recipe": QUICK, "identification_rate": 0.05}
    info = fit(make_system("jtt", select="support-balanced-accuracy", **options), material).info()
    tried = [trial["score"] for trial in info["trials"]]
    assert info["point"] == info["trials"][tried.index(max(tried))]["point"]
    assert [trial["point"]["upweight"] for trial in info["trials"]] == [4, 5, 6]
    assert info["labels_spent"] == len(SUPPORT)
