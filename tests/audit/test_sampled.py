"""Of which words more texts are looked for in a large file."""

import pytest

from shortcut_guardrail import AuditConfig
from shortcut_guardrail.audit.sampled import is_open


@pytest.mark.parametrize(
    ("n_present", "changed", "relative_effect", "looked_for"),
    [
        (20, 20, 2.0, True),
        (20, 20, float("nan"), True),  # too rare to be tested yet
        (20, 20, 0.4, False),  # the rest speaks for the class
        (20, 0, 2.0, False),
        (1, 1, 2.0, False),
    ],
)
def test_words_that_change_predictions_and_were_not_cleared_are_looked_for(
    n_present, changed, relative_effect, looked_for
):
    assert is_open(n_present, changed, relative_effect, AuditConfig()) is looked_for
