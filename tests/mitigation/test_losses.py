"""The loss against a slow, literal evaluation of the paper's two sums."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortcut_guardrail.mitigation.losses import masked_contrastive_loss


def literal_loss(anchors, positives, valid, temperature):
    """L_con as printed: two triple loops over i, j and i', empty slots left out."""
    a, p = [x / x.norm() for x in anchors], [[x / x.norm() for x in row] for row in positives]
    n_inputs, n_slots = valid.shape
    total, pairs = 0.0, 0
    for i in range(n_inputs):
        for j in range(n_slots):
            if not valid[i, j]:
                continue
            own = math.exp(float(a[i] @ p[i][j]) / temperature)
            over_anchors = sum(math.exp(float(a[other] @ p[i][j]) / temperature) for other in range(n_inputs))
            filled = [p[other][j] for other in range(n_inputs) if valid[other, j]]
            over_variants = sum(math.exp(float(a[i] @ variant) / temperature) for variant in filled)
            total -= math.log(own / over_anchors) + math.log(own / over_variants)
            pairs += 1
    return total / (2 * pairs)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 10_000), st.sampled_from([0.05, 0.1, 1.0]))
def test_the_loss_is_the_papers(n_inputs, n_slots, seed, temperature):
    generator = torch.Generator().manual_seed(seed)
    anchors = torch.randn(n_inputs, 6, generator=generator)
    positives = torch.randn(n_inputs, n_slots, 6, generator=generator)
    valid = torch.rand(n_inputs, n_slots, generator=generator) < 0.7
    valid[:, 0] = True
    loss = masked_contrastive_loss(anchors, positives, valid, temperature=temperature)
    assert float(loss) == pytest.approx(literal_loss(anchors, positives, valid, temperature), rel=1e-4, abs=1e-5)


def test_empty_slots_get_no_gradient_and_a_single_input_has_no_loss():
    torch.manual_seed(0)
    anchors, positives = torch.randn(3, 6), torch.randn(3, 2, 6, requires_grad=True)
    valid = torch.tensor([[True, True], [True, False], [True, True]])
    masked_contrastive_loss(anchors, positives, valid).backward()
    assert torch.equal(positives.grad[1, 1], torch.zeros(6))
    assert positives.grad[1, 0].abs().max() > 0
    assert float(masked_contrastive_loss(torch.randn(1, 6), torch.randn(1, 3, 6))) == pytest.approx(0.0, abs=1e-6)
