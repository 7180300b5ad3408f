"""Every method on a GPU: run with `pytest --gpu` (see `conftest.py`)."""

import json

import numpy as np
import pytest
import torch

from methods_toy import OPTIONS, REVERSED, fit
from shortcut_bench.methods import METHODS, load_fitted
from shortcut_bench.registry import make_system

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::shortcut_guardrail.errors.GuardrailWarning")]
TEXTS = list(REVERSED.texts)


@pytest.mark.parametrize("name", sorted({*METHODS, "erm", "guardrail", "guardrail-paper"}))
def test_it_is_fitted_the_same_twice_and_saved_for_the_cpu(material, name, tmp_path, monkeypatch):
    before = material.base.text_classifier().fingerprint()
    method = make_system(name, **OPTIONS.get(name, {}))
    fitted = [fit(method, material) for _ in range(2)]
    answers = [system.predict_proba(TEXTS) for system in fitted]
    assert np.isfinite(answers[0]).all()
    assert np.array_equal(*answers)
    json.dumps(fitted[0].info(), allow_nan=False)
    assert material.base.text_classifier().fingerprint() == before
    fitted[0].save(tmp_path / "system")
    assert np.array_equal(load_fitted(tmp_path / "system").predict_proba(TEXTS), answers[0])
    monkeypatch.setattr("shortcut_guardrail.models.classifier.default_device", lambda: torch.device("cpu"))
    np.testing.assert_allclose(load_fitted(tmp_path / "system").predict_proba(TEXTS), answers[0], atol=1e-3)
