"""The strength without labels: divergence from the answers without the shortcuts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from shortcut_guardrail.dial import choose_without_labels
from shortcut_guardrail.distill import Counterfactual


def logits_of(probs):
    return np.log(np.array(probs, dtype=np.float32))


SURE, UNSURE, WRONG = (0.9, 0.1), (0.6, 0.4), (0.2, 0.8)


def test_the_strength_that_diverges_least_is_chosen():
    expected = Counterfactual(logits_of([SURE, WRONG])[None], logits_of([WRONG, WRONG]), np.array([True, False]))
    guarded = logits_of([[WRONG, WRONG], [UNSURE, WRONG], [SURE, WRONG], [SURE, WRONG], [SURE, SURE]])
    chosen = choose_without_labels(guarded, [0, 0.25, 0.5, 0.75, 1.0], expected)
    # The answers are the same from .25 on; how probable they are is not. Of equals the smallest.
    assert (chosen.strength, chosen.n, chosen.n_bearing) == (0.5, 2, 1)
    assert [point.agreement for point in chosen.curve] == [0.5, 1.0, 1.0, 1.0, 0.5]
    assert [point.agreement_bearing for point in chosen.curve] == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert [point.agreement_rest for point in chosen.curve] == [1.0, 1.0, 1.0, 1.0, 0.0]
    unsure = (0.9 * math.log(0.9 / 0.6) + 0.1 * math.log(0.1 / 0.4)) / 2
    harm = (0.2 * math.log(0.2 / 0.9) + 0.8 * math.log(0.8 / 0.1)) / 2
    assert [point.divergence for point in chosen.curve[1:]] == pytest.approx([unsure, 0, 0, harm], abs=1e-6)


def test_with_two_teachers_their_mean_is_due():
    both = Counterfactual(logits_of([[SURE], [WRONG]]), logits_of([WRONG]), np.array([True]))
    mean = tuple((a + b) / 2 for a, b in zip(SURE, WRONG, strict=True))
    chosen = choose_without_labels(logits_of([[WRONG], [mean], [SURE]]), [0, 0.5, 1.0], both)
    assert chosen.strength == 0.5
    assert chosen.curve[1].divergence == pytest.approx(0, abs=1e-6)


def test_a_class_of_no_probability_diverges_finitely():
    sure = np.array([[2000.0, 0.0]], dtype=np.float32)
    expected = Counterfactual(sure[None, :, ::-1], sure, np.array([True]))
    chosen = choose_without_labels(np.stack([sure, sure / 2]), [0.0, 1.0], expected)
    assert [point.divergence for point in chosen.curve] == [2000.0, 1000.0]
    assert chosen.strength == 1.0


def test_without_a_shortcut_the_base_is_kept():
    base = logits_of([SURE, WRONG])
    expected = Counterfactual(base[None], base, np.array([False, False]))
    # Shifted logits are the same answers up to rounding, which must not win.
    chosen = choose_without_labels(np.stack([base, base + np.float32(1 / 3)]), [0.0, 1.0], expected)
    assert (chosen.strength, chosen.n_bearing) == (0.0, 0)
    values = json.loads(json.dumps(chosen.to_dict(), allow_nan=False))
    point = {"strength": 0.0, "divergence": 0.0, "agreement": 1.0, "agreement_bearing": None, "agreement_rest": 1.0}
    assert values["curve"][0] == pytest.approx(point, abs=1e-6)
