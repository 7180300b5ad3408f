"""bfloat16 products: near the result in 32 bit, and chosen only where the hardware has them."""

from __future__ import annotations

import numpy as np
import torch

from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.models.precision import fast_precision


def test_logits_in_bfloat16_are_those_in_32_bit_within_its_eight_bits(bert, texts):
    exact, rounded = (
        np.asarray(classifier.predict_logits(classifier.encode(texts)))
        for classifier in (TextClassifier(*bert), TextClassifier(*bert, precision="bfloat16"))
    )
    assert not np.array_equal(exact, rounded)
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=0.05 * np.abs(exact).max())


def test_a_prediction_in_bfloat16_leaves_nothing_that_a_later_backward_pass_trips_over(bert, texts):
    classifier = TextClassifier(*bert, precision="bfloat16")
    encoded = classifier.encode(texts)
    classifier.predict_logits(encoded)  # runs in inference mode
    with classifier.word_embedding_leaf() as leaves:
        total = classifier.logits(classifier.collate(encoded, range(2))).sum()
    assert torch.autograd.grad(total, leaves)[0].abs().max() > 0


def test_the_fast_format_is_one_that_the_hardware_has(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert fast_precision(torch.device("cpu")) == "float32"
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert fast_precision(torch.device("cpu")) == "bfloat16"
