"""Supervised contrast beside a literal evaluation, and on all support rows at once."""

import dataclasses

import pytest
import torch

from methods_toy import QUICK, SUPPORT, fit, literal_contrast
from shortcut_bench.methods import SupConSupport, supcon
from shortcut_bench.methods.supcon import ContrastAndCrossEntropy, supcon_loss
from tiny_models import tiny_bert

TEXTS = ["the room was good", "a bad tea", "we had a lovely place again", "rude", "good food", "the great staff"]
LABELS = torch.tensor([1, 0, 1, 2, 1, 0])  # the one row of class 2 has no positive


def test_the_contrast_is_its_formula_and_a_row_without_a_positive_gives_no_term():
    torch.manual_seed(0)
    for labels in (LABELS, torch.arange(6), torch.zeros(6, dtype=torch.long)):
        features = torch.randn(6, 5, requires_grad=True)
        found, expected = supcon_loss(features, labels, 0.3), literal_contrast(features, labels, 0.3)
        assert found.item() == pytest.approx(expected.item(), rel=1e-5)
        gradient = torch.autograd.grad(found, features)[0]
        if expected.requires_grad:
            assert torch.allclose(gradient, torch.autograd.grad(expected, features)[0], atol=1e-6)
        else:
            assert (gradient == 0).all()
    alone = torch.randn(1, 5, requires_grad=True)
    loss = supcon_loss(alone, torch.zeros(1, dtype=torch.long), 0.3)
    assert loss == 0
    assert torch.autograd.grad(loss, alone)[0].isfinite().all()


@pytest.mark.parametrize("weight", [0.0, 0.9, 1.0])
def test_its_share_is_added_to_that_of_cross_entropy(weight):
    model, tokenizer = tiny_bert(n_classes=3, initializer_range=0.2)
    objective = ContrastAndCrossEntropy(weight, 0.3)
    objective.begin(model.eval(), tokenizer)
    inputs = {**tokenizer(TEXTS, padding=True, return_tensors="pt"), "labels": LABELS}
    alone = [model.bert(**tokenizer(text, return_tensors="pt")).pooler_output[0] for text in TEXTS]
    expected = weight * literal_contrast(torch.stack(alone), LABELS, 0.3) + (1 - weight) * model(**inputs).loss
    loss = objective.loss(model, inputs, torch.arange(6))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_all_support_rows_are_in_every_batch(material, monkeypatch):
    seen = []
    plain = supcon.supcon_loss
    monkeypatch.setattr(supcon, "supcon_loss", lambda *given: seen.append(given) or plain(*given))
    fitted = fit(SupConSupport(recipe={**QUICK, "epochs": 3, "batch_size": 16}, temperature=0.2), material)
    assert [(len(features), tau) for features, _, tau in seen] == [(len(SUPPORT), 0.2)] * 3
    assert all(torch.bincount(labels).tolist() == [20, 20] for _, labels, _ in seen)
    assert fitted.forward_equivalents == 3 * 3 * len(SUPPORT)
    assert dataclasses.asdict(supcon.SOURCE) == {**dataclasses.asdict(supcon.FEW_SHOT), "epochs": 60}
