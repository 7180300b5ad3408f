"""What the card of a guard says about its strength."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from audits import CALIBRATION
from shortcut_guardrail.saving.model_card import what_labels_said


@pytest.mark.parametrize(
    ("strength", "before", "p_value", "said"),
    [
        (
            1.0,
            1.0,
            0.5,
            "Unlabelled texts chose it. Strength 0.3 answers more of the labelled ones rightly, but too few tell the "
            "two apart to overrule it (p = 0.5).",
        ),
        (
            0.3,
            1.0,
            0.01,
            "Unlabelled texts chose 1, which the labels overrule: strength 0.3, or the base, answers more of them "
            "rightly (p = 0.01).",
        ),
        (0.3, 0.3, 1.0, "Unlabelled texts chose it, and no strength answers more of the labelled ones rightly."),
        (0.3, None, None, ""),
    ],
)
def test_what_labels_said_of_the_strength_that_unlabelled_texts_chose(strength, before, p_value, said):
    assert (
        what_labels_said(asdict(replace(CALIBRATION, strength=strength, without_labels=before, p_value=p_value)))
        == said
    )
