"""The controls that train an adapter: what is masked at random, and between what dropout makes a difference."""

import dataclasses
import math
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification

from methods_toy import DEPLOYMENT
from shortcut_bench.methods import controls
from shortcut_bench.methods.controls import _DropoutContrast, random_positions
from shortcut_bench.registry import make_system
from shortcut_guardrail.config import PRESETS
from shortcut_guardrail.errors import GuardrailWarning
from shortcut_guardrail.models.classifier import TextClassifier
from tiny_models import tiny_bert


def fit(material, name, *, seed=0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)  # a run of a few steps is warned about
        return make_system(name, strength=1.0, **options).fit(material, seed=seed)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_random_positions_are_so_many_different_ordinary_tokens_and_the_rest_is_minus_one(k, texts):
    encoded = TextClassifier(*tiny_bert()).encode([*texts, "[SEP]", "tea", "the [MASK] was cold"])
    found = random_positions(encoded, k, np.random.default_rng(0))
    assert found.shape == (len(texts) + 3, k)
    for row, of_words in zip(found.tolist(), encoded.ordinary, strict=True):
        words = np.flatnonzero(of_words).tolist()
        count = min(k, len(words))
        assert len(set(row[:count])) == count
        assert set(row[:count]) <= set(words)
        assert row[count:] == [-1] * (k - count)
    assert np.array_equal(found, random_positions(encoded, k, np.random.default_rng(0)))
    assert not np.array_equal(found, random_positions(encoded, k, np.random.default_rng(1)))


def test_every_ordinary_token_is_drawn_equally_often():
    encoded = TextClassifier(*tiny_bert()).encode(["honestly the room was clean and warm"] * 3000)
    drawn = np.bincount(random_positions(encoded, 2, np.random.default_rng(0)).ravel(), minlength=9)
    assert drawn[[0, -1]].tolist() == [0, 0]
    share = 2 / 7
    assert drawn[1:-1] == pytest.approx(3000 * share, abs=4 * math.sqrt(3000 * share * (1 - share)))


def test_random_maskcl_trains_on_what_its_seed_draws_and_never_asks_what_is_important(material, monkeypatch):
    # In texts of more tokens than are masked.
    monkeypatch.setitem(PRESETS, "default", PRESETS["default"].with_adapter(min_steps=4, max_steps=4))
    long = [f"{first} and {second}" for first, second in zip(DEPLOYMENT[:24], DEPLOYMENT[24:48], strict=True)]
    cut = dataclasses.replace(material, deployment=long)
    train = Mock(wraps=controls.train_adapter)
    monkeypatch.setattr(controls, "train_adapter", train)
    monkeypatch.setattr(controls, "find_important_tokens", lambda *_, **__: pytest.fail("asked"))
    steps = [fit(cut, "random_maskcl", seed=seed).info()["training"]["n_steps"] for seed in (0, 0, 1)]
    assert steps == [4, 4, 4]  # two epochs each
    given = [call.args[2] for call in train.call_args_list]
    assert np.array_equal(given[0], given[1])
    assert not np.array_equal(np.sort(given[0]), np.sort(given[2]))  # other tokens, not only another order
    assert given[0].shape == (24, PRESETS["default"].saliency.top_k)


def literal_contrast(anchors, positives, tau):
    """-mean_i log softmax_i'(cos(a_i, p_i') / tau)_i, pair by pair."""
    total = torch.zeros(())
    for i, anchor in enumerate(anchors):
        similar = [torch.exp(anchor @ p / (anchor.norm() * p.norm()) / tau) for p in positives]
        total = total - torch.log(similar[i] / sum(similar))
    return total / len(anchors)


def test_simcse_contrasts_two_passes_that_differ_by_dropout_alone(texts):
    model, tokenizer = tiny_bert()
    plain = TextClassifier(model, tokenizer, packing=False).with_model(model)
    objective = _DropoutContrast(plain, plain.encode(texts), 0.05, "cls")
    rows = [5, 1, 6, 3]
    weight = model.bert.embeddings.LayerNorm.weight
    inputs = tokenizer([texts[row] for row in rows] * 2, padding=True, return_tensors="pt")

    def loss(seed):
        torch.manual_seed(seed)
        return objective.loss(None, {}, torch.tensor(rows))

    model.train()
    torch.manual_seed(7)
    anchors, positives = model.bert(**inputs).last_hidden_state[:, 0].split(len(rows))
    expected = literal_contrast(anchors, positives, 0.05)
    found = loss(7)
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    assert (anchors - positives).norm(dim=-1).min() > 0.1
    assert loss(8).item() != pytest.approx(found.item(), rel=1e-2)
    # Both passes are trained.
    gradients = [torch.autograd.grad(value, weight)[0] for value in (found, expected)]
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-4)

    model.eval()  # without dropout a text is contrasted with itself
    alone = torch.stack([plain.embed(plain.collate(plain.encode([texts[row]]), [0]))[0] for row in rows])
    assert loss(7).item() == loss(8).item() == pytest.approx(literal_contrast(alone, alone, 0.05).item(), rel=1e-4)
    assert loss(7).item() != pytest.approx(found.item(), rel=1e-2)


@pytest.mark.parametrize("dropout", [0.1, 0.0])
def test_dropout_is_on_while_simcse_trains(dropout, material, monkeypatch):
    off = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), dropout)
    config = type(material.base.model.config).from_dict(material.base.model.config.to_dict() | off)
    model = BertForSequenceClassification(config).eval()
    model.load_state_dict(material.base.model.state_dict())
    contrast = Mock(wraps=controls.simcse_loss)
    monkeypatch.setattr(controls, "simcse_loss", contrast)
    cut = dataclasses.replace(material, base=dataclasses.replace(material.base, model=model))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GuardrailWarning)
        system = make_system("simcse_adapter", min_steps=5, max_steps=5)
        info = system.fit(cut.for_needs(system.needs), seed=0).info()["training"]
    assert any("but this encoder has none" in str(one.message) for one in caught) == (not dropout)
    seen = [call.args for call in contrast.call_args_list]
    assert len(seen) == info["n_steps"] == 5
    assert sum(len(anchors) for anchors, _, _ in seen) == len(set(DEPLOYMENT))  # a pass over the distinct texts
    apart = torch.cat([(anchors - positives).norm(dim=-1) for anchors, positives, _ in seen])
    assert apart.min() > 0.01 if dropout else apart.max() < 1e-4
    assert {tau for _, _, tau in seen} == {0.05}
