"""The strength: what it does to the weights, that it comes back, and how it is chosen."""

from dataclasses import replace

import numpy as np
import pytest
from peft.helpers import rescale_adapter_scale
from scipy.stats import binomtest

from audits import CALIBRATION
from shortcut_guardrail import AdapterConfig, CalibrationConfig, TextClassifier
from shortcut_guardrail.attribution.saliency import find_important_tokens
from shortcut_guardrail.mitigation import logits_by_strength, merged, train_adapter
from shortcut_guardrail.mitigation.lora import adapted_layers
from shortcut_guardrail.strength.calibration import choose_strength

GRID = CalibrationConfig(strengths=(0.0, 0.5, 1.0))


def answering(*rows, labels=None):
    """Logits of two classes at each strength from the answers, and labels, all 1 if not given."""
    answers = np.array([[int(answer) for answer in row] for row in rows])
    return np.eye(2)[answers], np.array([int(label) for label in labels or "1" * answers.shape[1]])


@pytest.mark.parametrize("packing", [True, False])
def test_every_strength_is_the_adapter_at_that_scale(bert, texts, packing):
    """Scored together and merged into the base's own layers; PEFT's own scaling is the measure."""
    base = TextClassifier(*bert, batch_size=16, packing=packing)
    encoded = base.encode(texts)
    positions = find_important_tokens(base, encoded).positions
    config = AdapterConfig(learning_rate=5e-2, batch_size=4, epochs=10)
    model, _ = train_adapter(base, encoded, positions, config, seed=0)
    before, held = base.predict_logits(encoded), dict(base.model.named_parameters())
    together = logits_by_strength(base.with_model(model), encoded, (0.0, 0.3, 0.7, 1.0))
    assert np.array_equal(together[0], before)
    for strength, found in zip((0.3, 0.7, 1.0), together[1:], strict=True):
        with rescale_adapter_scale(model, strength):
            expected = base.with_model(model).predict_logits(encoded)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        with merged(base, model, strength):
            np.testing.assert_allclose(base.predict_logits(encoded), expected, rtol=1e-4, atol=1e-4)
        assert not np.allclose(expected, before, atol=1e-3)
    assert np.abs(together[3] - together[1]).max() > 1e-2
    # What was there comes back, after an exception too.
    with pytest.raises(KeyError), merged(base, model, 1.0):
        raise KeyError
    assert all(p is held[name] for name, p in base.model.named_parameters())
    assert np.array_equal(base.predict_logits(encoded), before)
    assert all(isinstance(layer.scaling["default"], float) for _, layer in adapted_layers(model))


def test_labels_overrule_a_strength_chosen_without_them_by_paired_evidence_alone():
    tables = {(1, 0): False, (2, 0): True, (3, 1): False, (4, 1): True, (6, 3): False, (7, 3): True}
    for (gained, lost), overruled in tables.items():
        at_half, at_one = "1" * gained + "0" * lost + "01" * 10, "0" * gained + "1" * lost + "01" * 10
        logits, labels = answering("0" * len(at_half), at_half, at_one)
        labels[-2:] = 0  # a second class
        alone = choose_strength(logits, labels, GRID)
        assert (alone.strength, alone.without_labels, alone.p_value) == (0.5, None, None)
        both = choose_strength(logits, labels, GRID, without_labels=1.0)
        assert (both.curve, both.without_labels) == (alone.curve, 1.0)
        expected = binomtest(gained, gained + lost, alternative="greater").pvalue
        assert both.p_value == pytest.approx(expected)
        assert (both.strength == 0.5) == overruled == (expected <= 0.25)
        assert both.strength in (0.5, 1.0)
    # The best there is cannot be overruled, though a smaller strength scores the same.
    logits, labels = answering("0011", "0111", "0111", labels="0111")
    assert choose_strength(logits, labels, GRID).strength == 0.5
    assert choose_strength(logits, labels, GRID, without_labels=1.0).strength == 1.0
    # The base may speak against it where the best strength does not quite: 2 to 0, and 6 to 3.
    rows = "11" + "0000" + "111" + "0", "11" + "1111" + "000" + "0", "00" + "0000" + "111" + "0"
    both = choose_strength(*answering(*rows, labels="1111111110"), GRID, without_labels=1.0)
    assert (both.strength, both.p_value) == (0.5, 0.25)


def test_a_curve_with_the_chosen_strength_marked():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    lines = {line.get_label(): line for line in CALIBRATION.plot().lines}
    assert list(lines) == ["accuracy", "chosen: 0.3"]
    assert [list(values) for values in lines["accuracy"].get_data()] == [[0.0, 0.3, 1.0], [0.5, 0.75, 0.7]]
    assert list(lines["chosen: 0.3"].get_xdata()) == [0.3, 0.3]
    # Another metric stands beside the accuracy, which the intervals are of.
    other = replace(CALIBRATION, metric="balanced_accuracy").plot(pyplot.subplots()[1])
    assert [line.get_label() for line in other.lines] == ["accuracy", "balanced accuracy", "chosen: 0.3"]
    pyplot.close("all")
