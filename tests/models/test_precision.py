"""bfloat16 products: near the result in 32 bit, and chosen only where the hardware has them."""

import numpy as np
import torch

from shortcut_guardrail.models import TextClassifier, fast_precision


def test_bfloat16_is_within_its_eight_bits_and_a_later_backward_pass_trips_over_nothing(bert, texts):
    exact, rounded = TextClassifier(*bert), TextClassifier(*bert, precision="bfloat16")
    encoded = exact.encode(texts)
    logits, near = exact.predict_logits(encoded), rounded.predict_logits(encoded)  # runs in inference mode
    assert not np.array_equal(logits, near)
    np.testing.assert_allclose(near, logits, rtol=0, atol=0.05 * np.abs(logits).max())
    with rounded.word_embedding_leaf() as leaves:
        total = rounded.logits(rounded.collate(encoded, range(2))).sum()
    assert torch.autograd.grad(total, leaves)[0].abs().max() > 0


def test_the_fast_format_is_one_that_the_hardware_has(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    for tiles, expected in ((False, "float32"), (True, "bfloat16")):  # without tiles bfloat16 is half as fast
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda tiles=tiles: tiles)
        assert fast_precision(torch.device("cpu")) == expected
