"""Whoever remembers answers looks at many sequences and asks for what is new among them, a batch at once."""

import numpy as np
import pytest

from shortcut_guardrail.attribution import masking_effects
from shortcut_guardrail.models import TextClassifier, Windowing

TEXTS = [f"honestly it rains {'so ' * (i % 5)}in it" for i in range(20)]


@pytest.fixture
def asked(bert, monkeypatch) -> tuple[TextClassifier, list[int]]:
    """A classifier that remembers, of batches of 8, and how many sequences each forward pass has had since."""
    classifier, sizes = TextClassifier(*bert, batch_size=8), list[int]()
    run = TextClassifier._run

    def counted(self, module, batch, *how):
        sizes.append(len(batch.indices))
        return run(self, module, batch, *how)

    monkeypatch.setattr(TextClassifier, "_run", counted)
    return classifier.remembering(), sizes


def test_what_is_new_fills_batches_and_no_more(asked):
    twin, sizes = asked
    whole = twin.predict_proba(TEXTS)
    assert sizes == [5], "five texts differ"
    assert np.allclose(whole, np.repeat(whole[:5][None], 4, axis=0).reshape(whole.shape), atol=1e-6)
    encoded = twin.encode([f"{text} {i}" for i, text in enumerate(TEXTS)])
    sizes.clear()
    twin.predict_logits(encoded)
    assert sizes == [8, 8, 4]


def test_masked_variants_that_are_known_leave_no_small_batches(asked):
    twin, sizes = asked
    encoded = twin.encode(TEXTS[:5])
    positions = np.tile(np.arange(1, 5, dtype=np.int32), (5, 1))
    before = masking_effects(twin, encoded, positions)
    assert sizes == [8, 8, 4]
    sizes.clear()
    more = np.hstack([positions, np.full((5, 1), 5, dtype=np.int32)])
    after = masking_effects(twin, encoded, more)
    assert sizes == [5], "one variant of each text is new"
    assert np.array_equal(after.probs[:, :4], before.probs)
    plain = masking_effects(TextClassifier(twin.model, twin.tokenizer), encoded, more)
    assert np.allclose(after.probs, plain.probs, atol=1e-6)


def test_texts_in_windows_are_asked_about_batch_by_batch(bert):
    windowed = TextClassifier(*bert, batch_size=8, windows=Windowing("mean", 2))
    assert windowed.remembering().at_once == 8
