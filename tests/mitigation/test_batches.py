"""Which texts a batch of counterfactual distillation holds."""

import numpy as np
import pytest

from shortcut_guardrail import AdapterConfig, GuardrailConfig, TextClassifier
from shortcut_guardrail.mitigation import attach_adapter, distillation

HELD, PUT_IN, REST = 2, 1, 0
"""Texts that held a word from the start that must not decide alone, texts with a shortcut, and others."""


@pytest.mark.parametrize(
    ("size", "kinds", "places"),
    [
        (20, (HELD, PUT_IN, REST), {HELD: 9, PUT_IN: 1, REST: 10}),
        (6, (HELD, PUT_IN, REST), {HELD: 2, PUT_IN: 1, REST: 3}),  # a place stays for texts that a word is put into
        (20, (PUT_IN, REST), {PUT_IN: 10, REST: 10}),
        (20, (HELD, PUT_IN), {HELD: 15, PUT_IN: 5}),  # without others each text comes once
    ],
)
def test_texts_have_the_places_of_their_kind(bert, size, kinds, places):
    of = np.repeat(kinds, [{HELD: 15, PUT_IN: 5, REST: 20}[kind] for kind in kinds])
    classifier, config = TextClassifier(*bert), GuardrailConfig(adapter=AdapterConfig(batch_size=size))
    encoded = classifier.encode([f"soup {i}" for i in range(len(of))])
    examples = encoded, np.full((len(of), 1, 3), 1 / 3, dtype=np.float32), of
    adapted = classifier.with_model(attach_adapter(classifier, config.adapter))
    loop = distillation.Distiller(adapted, examples, config, seed=0, n_items=len(of))
    for batch in loop.epoch():
        assert {kind: int((of[batch] == kind).sum()) for kind in kinds} == places
