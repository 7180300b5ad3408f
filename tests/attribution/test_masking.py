"""A masked copy differs in one place, and texts are counted, not copies."""

from typing import get_args

import numpy as np
import torch

from shortcut_guardrail.attribution import occlusion
from shortcut_guardrail.attribution.occlusion import masking_effects
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.typing import Erasure


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
