"""The strength: what it does to the weights, that it comes back, and how it is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from peft.helpers import rescale_adapter_scale

from audits import CALIBRATION
from shortcut_guardrail.attribution.saliency import find_important_tokens
from shortcut_guardrail.config import AdapterConfig, CalibrationConfig
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.mitigation.lora import adapted_layers
from shortcut_guardrail.mitigation.maskcl import train_adapter
from shortcut_guardrail.mitigation.scaling import logits_by_strength, merged
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.strength.calibration import choose_strength, strengths_to_score


def at_strength(model, strength):
    """What PEFT itself makes of a strength."""
    return rescale_adapter_scale(model, strength) if strength else model.disable_adapter()


@pytest.fixture
def adapted(bert, texts):
    classifier = TextClassifier(*bert)
    encoded = classifier.encode(texts)
    positions = find_important_tokens(classifier, encoded).positions
    config = AdapterConfig(learning_rate=5e-2, batch_size=4, epochs=10)
    model, _ = train_adapter(classifier, encoded, positions, config, seed=0)
    return classifier, classifier.with_model(model), encoded


def test_the_weights_are_those_of_the_paper(adapted):
    base, guarded, encoded = adapted
    for strength in (0.3, 1.0):
        merged = {k: v.clone() for k, v in base.model.state_dict().items()}
        for name, module in guarded.model.named_modules():
            if hasattr(module, "lora_A"):
                key = name.removeprefix("base_model.model.") + ".weight"
                merged[key] = merged[key] + strength * module.get_delta_weight("default").detach()
        with at_strength(guarded.model, strength):
            expected = guarded.predict_logits(encoded)
        shadow = base.model.state_dict()
        original = {k: v.clone() for k, v in shadow.items()}
        try:
            base.model.load_state_dict(merged)
            np.testing.assert_allclose(base.predict_logits(encoded), expected, rtol=1e-3, atol=1e-3)
        finally:
            base.model.load_state_dict(original)


def chosen(guarded, encoded, labels, config, **more):
    logits = logits_by_strength(guarded, encoded, strengths_to_score(config))
    return choose_strength(logits, labels, config, **more)


def test_the_curve_is_kept_and_agrees_with_predictions(adapted):
    base, guarded, encoded = adapted
    labels = base.predict_logits(encoded).argmax(1)
    labels[:3] = (labels[:3] + 1) % 3
    result = chosen(guarded, encoded, labels, CalibrationConfig())
    assert [p.strength for p in result.curve] == [x / 10 for x in range(11)]
    for point in result.curve:
        with at_strength(guarded.model, point.strength):
            right = guarded.predict_logits(encoded).argmax(1) == labels
        assert point.accuracy == right.mean()
        assert point.interval[0] <= point.accuracy <= point.interval[1]
    best = max(p.score for p in result.curve)
    assert result.strength == min(p.strength for p in result.curve if p.score == best)
    assert (result.curve[0].gained, result.curve[0].lost, result.curve[0].p_value) == (0, 0, 1.0)


def test_ties_go_to_the_smallest_strength(adapted):
    _, guarded, encoded = adapted
    with torch.no_grad():  # a head that answers 2 whatever comes in: every strength ties
        guarded.plain_model.classifier.bias.copy_(torch.tensor([0.0, 0.0, 1e6]))
    labels = np.array([2, 2, 2, 2, 0, 1, 0, 1])
    assert chosen(guarded, encoded, labels, CalibrationConfig()).strength == 0.0
    grid = CalibrationConfig(strengths=(0.2, 0.7))
    assert chosen(guarded, encoded, labels, grid).strength == 0.2


def test_the_metric_decides(adapted):
    _, guarded, encoded = adapted
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 2])
    groups = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    for metric in ("balanced_accuracy", "worst_group_accuracy"):
        result = chosen(guarded, encoded, labels, CalibrationConfig(metric=metric), groups=groups)
        assert result.metric == metric
        assert any(p.score != p.accuracy for p in result.curve)
    with pytest.raises(ConfigError, match="needs the groups of the support set"):
        chosen(guarded, encoded, labels, CalibrationConfig(metric="worst_group_accuracy"))


def answering(*rows):
    """Logits of two classes at each strength from the answers, "1" being the right one; and these labels."""
    answers = np.array([[int(answer) for answer in row] for row in rows])
    logits = np.eye(2)[answers]
    return logits, np.ones(answers.shape[1], dtype=int)


def test_labels_overrule_a_strength_chosen_without_them_by_paired_evidence_alone():
    from scipy.stats import binomtest

    grid = CalibrationConfig(strengths=(0.0, 0.5, 1.0))
    for gained, lost, overruled in (
        (1, 0, False),
        (2, 0, True),
        (3, 1, False),
        (4, 1, True),
        (6, 3, False),
        (7, 3, True),
    ):
        at_half = "1" * gained + "0" * lost + "01" * 10
        at_one = "0" * gained + "1" * lost + "01" * 10
        logits, labels = answering("0" * len(at_half), at_half, at_one)
        labels[-2:] = 0  # a second class
        alone = choose_strength(logits, labels, grid)
        assert (alone.strength, alone.without_labels, alone.p_value) == (0.5, None, None)
        both = choose_strength(logits, labels, grid, without_labels=1.0)
        assert both.curve == alone.curve
        assert both.without_labels == 1.0
        expected = binomtest(gained, gained + lost, alternative="greater").pvalue
        assert both.p_value == pytest.approx(expected)
        assert (both.strength == 0.5) == overruled == (expected <= 0.25)
        assert both.strength in (0.5, 1.0)
    # The best there is cannot be overruled, though a smaller strength scores the same.
    logits, labels = answering("0011", "0111", "0111")
    labels[0] = 0
    assert choose_strength(logits, labels, grid).strength == 0.5
    assert choose_strength(logits, labels, grid, without_labels=1.0).strength == 1.0
    # The base may speak against it where the best strength does not quite: 2 to 0, and 6 to 3.
    logits, labels = answering("11" + "0000" + "111" + "0", "11" + "1111" + "000" + "0", "00" + "0000" + "111" + "0")
    labels[-1] = 0
    both = choose_strength(logits, labels, grid, without_labels=1.0)
    assert (both.strength, both.p_value) == (0.5, 0.25)
    with pytest.raises(ConfigError, match="the metric must be 'accuracy', but is 'balanced_accuracy'"):
        choose_strength(logits, labels, replace(grid, metric="balanced_accuracy"), without_labels=1.0)
    with pytest.raises(ConfigError, match=r"without_labels must be one of the strengths 0\.5, 1, but is 0\."):
        choose_strength(logits, labels, CalibrationConfig(strengths=(0.5, 1.0)), without_labels=0.0)
    with pytest.raises(ConfigError, match=r"without_labels must be one of the strengths 0, 0\.5, 1, but is 0\.3"):
        choose_strength(logits, labels, grid, without_labels=0.3)


@pytest.mark.parametrize("packing", [True, False])
def test_strengths_scored_together_are_those_scored_alone(bert, texts, packing):
    base = TextClassifier(*bert, batch_size=16, packing=packing)
    encoded = base.encode(texts)
    positions = find_important_tokens(base, encoded).positions
    config = AdapterConfig(learning_rate=5e-2, batch_size=4, epochs=10)
    model, _ = train_adapter(base, encoded, positions, config, seed=0)
    together = logits_by_strength(base.with_model(model), encoded, (0.0, 0.3, 0.7, 1.0))
    for strength, found in zip((0.3, 0.7, 1.0), together[1:], strict=True):
        with at_strength(model, strength):
            np.testing.assert_allclose(found, base.with_model(model).predict_logits(encoded), rtol=1e-4, atol=1e-5)
    assert np.array_equal(together[0], base.predict_logits(encoded))
    assert np.abs(together[3] - together[1]).max() > 1e-2
    assert all(isinstance(layer.scaling["default"], float) for _, layer in adapted_layers(model))


def test_merged_weights_answer_like_the_adapter_beside_them(adapted):
    base, guarded, encoded = adapted
    before = base.predict_logits(encoded)
    held = dict(base.model.named_parameters())
    for strength in (0.4, 1.0):
        with at_strength(guarded.model, strength):
            expected = guarded.predict_logits(encoded)
        with merged(base, guarded.model, strength):
            np.testing.assert_allclose(base.predict_logits(encoded), expected, rtol=1e-4, atol=1e-4)
        assert not np.allclose(expected, before, atol=1e-3)
    with pytest.raises(KeyError), merged(base, guarded.model, 1.0):
        raise KeyError
    assert all(p is held[name] for name, p in base.model.named_parameters())
    assert np.array_equal(base.predict_logits(encoded), before)


def test_a_curve_with_the_chosen_strength_marked():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    ax = CALIBRATION.plot()
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == ["accuracy", "chosen: 0.3"]
    assert [list(values) for values in lines["accuracy"].get_data()] == [[0.0, 0.3, 1.0], [0.5, 0.75, 0.7]]
    assert list(lines["chosen: 0.3"].get_xdata()) == [0.3, 0.3]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("debiasing strength", "on 40 labelled rows")
    # Another metric stands beside the accuracy, which the intervals are of.
    other = replace(CALIBRATION, metric="worst_group_accuracy").plot(pyplot.subplots()[1])
    assert [line.get_label() for line in other.lines] == ["accuracy", "worst group accuracy", "chosen: 0.3"]
    ax.figure.canvas.draw()
    pyplot.close("all")
