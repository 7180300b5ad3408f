"""A masked copy differs in one place, and texts are counted, not copies."""

from typing import get_args

import numpy as np
import pytest
import torch

from shortcut_guardrail.attribution import occlusion
from shortcut_guardrail.attribution.occlusion import mask_variants, masking_effects
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.typing import Erasure


def test_each_copy_differs_in_its_own_place():
    ids, positions = torch.tensor([[2, 5, 6, 7, 3], [2, 8, 9, 3, 0]]), torch.tensor([[3, 1, 2], [2, -1, -1]])
    variants = mask_variants(ids, positions, 4)
    assert (variants.rows.tolist(), variants.slots.tolist()) == ([0, 0, 0, 1], [0, 1, 2, 0])
    for copy, row, slot in zip(variants.input_ids, variants.rows, variants.slots, strict=True):
        changed = (copy != ids[row]).nonzero().flatten().tolist()
        assert (changed, int(copy[changed[0]])) == ([int(positions[row, slot])], 4)
    assert ids[0].tolist() == [2, 5, 6, 7, 3]
    assert mask_variants(ids, torch.tensor([[-1], [-1]]), 4).input_ids.shape == (0, 5)


@pytest.mark.parametrize("erasure", ["mask", "cut", "replace"])
def test_of_a_span_all_is_taken_out_and_nothing_besides(bag, erasure):
    classifier = TextClassifier(*bag)
    first, last = np.array([[1, 1], [2, -1]]), np.array([[2, 1], [2, -1]])
    encoded = classifier.encode(["good honestly soup", "soup honestly bad"])
    margins = np.diff(np.log(masking_effects(classifier, encoded, first, last=last, erasure=erasure).probs))[..., 0]
    if erasure != "replace":  # where a word of the text comes in its place
        np.testing.assert_allclose(margins, [[0, 4], [-1, np.nan]], atol=1e-5)
    assert (margins[:, 0] < 1e-5).all()


def test_progress_counts_texts(bag, monkeypatch):
    monkeypatch.setattr(occlusion, "_VARIANTS_AT_ONCE", 2)
    classifier, told = TextClassifier(*bag), []
    encoded, positions = classifier.encode(["good soup", "soup"]), torch.tensor([[1, 2], [1, -1]]).numpy()
    for erasure in get_args(Erasure):
        how = {"erasure": erasure, "stage": f"By {erasure}", "progress": lambda *now: told.append(now)}
        found = masking_effects(classifier, encoded, positions, **how)
        assert np.isnan(found.probs).any(axis=2).tolist() == [[False, False], [False, True]]
    of_copies = [(2, 3), (3, 3)]  # where they are texts of their own
    assert told == [("By mask", 2, 2), *[(f"By {way}", *n) for way in ("cut", "replace") for n in of_copies]]
