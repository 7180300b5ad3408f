"""What training may change, what it must not, and that it does something."""

import copy
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from shortcut_guardrail import ConfigError, GuardrailWarning, RunError, TextClassifier
from shortcut_guardrail.attribution.saliency import find_important_tokens
from shortcut_guardrail.config import AdapterConfig, Schedule
from shortcut_guardrail.mitigation.lora import adapted_layers, attach_adapter, predicted_change, relative_change
from shortcut_guardrail.mitigation.losses import masked_contrastive_loss
from shortcut_guardrail.mitigation.maskcl import MaskedContrastiveLearning, texts_drawn, train_adapter
from shortcut_guardrail.mitigation.training import _batch_bounds, length_chunks, steps_to_take

FAST = AdapterConfig(learning_rate=5e-3, batch_size=4, epochs=3)


@pytest.fixture
def prepared(bert, texts):
    classifier = TextClassifier(*bert, batch_size=8)
    encoded = classifier.encode(texts)
    return classifier, encoded, find_important_tokens(classifier, encoded).positions


def lora_weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters() if ".lora_" in name}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_training_lowers_the_loss_and_changes_the_adapter_alone(bert, prepared):
    before, config = copy.deepcopy(bert[0].state_dict()), AdapterConfig(learning_rate=2e-3, batch_size=8, epochs=25)
    model, training = train_adapter(*prepared, config, seed=0)
    assert training.losses[-1] < training.losses[0]
    assert training.relative_change > 0
    assert same(before, bert[0].state_dict())
    trained = {k.replace("base_model.model.", "").replace("base_layer.", ""): v for k, v in model.state_dict().items()}
    assert same(before, trained)
    assert any(v.abs().max() > 0 for k, v in trained.items() if "lora_B" in k)


def test_the_same_seed_gives_the_same_adapter_and_another_seed_or_option_another(prepared):
    def weights(seed=1, **changes):
        return lora_weights(train_adapter(*prepared, replace(FAST, **changes), seed=seed)[0])

    first = weights()
    assert same(first, weights())
    assert not same(first, weights(seed=2))
    others = {"dropout": True, "embedding": "mean", "scheduler": "linear", "max_grad_norm": 1e-3, "temperature": 0.5}
    for name, value in {**others, "weight_decay": 0.5}.items():
        assert not same(first, weights(**{name: value})), name


def test_the_first_loss_is_the_loss_of_the_base_model(prepared):
    classifier, encoded, positions = prepared
    config = AdapterConfig(batch_size=8, max_steps=1, learning_rate=0.1, deduplicate=False)
    _, training = train_adapter(classifier, encoded, positions, config, seed=0)
    anchors = classifier.embed(classifier.collate(encoded, range(8)))
    positives = torch.zeros(8, positions.shape[1], anchors.shape[1])
    for i, j in np.argwhere(positions >= 0):
        row = encoded.select([i])
        ids = row.input_ids[0].copy()
        ids[positions[i, j]] = classifier.tokenizer.mask_token_id
        row.input_ids[0] = ids
        positives[i, j] = classifier.embed(classifier.collate(row, [0]))[0]
    valid = torch.from_numpy(positions >= 0)
    assert training.losses[0] == pytest.approx(float(masked_contrastive_loss(anchors, positives, valid)), rel=1e-4)
    # Pairs, each in a batch of its own kind: all of them are one problem.
    pairs = int(valid.sum())
    flat, rows = replace(config, batch_size=pairs, pairing="flat"), valid.nonzero()[:, 0]
    expected = masked_contrastive_loss(anchors[rows], positives[valid][:, None])
    flat_losses = train_adapter(classifier, encoded, positions, flat, seed=0)[1].losses
    assert flat_losses == (pytest.approx(float(expected), rel=1e-4),)


def test_equal_texts_are_trained_on_once_and_no_more_are_attributed_than_drawn(bert, texts):
    classifier = TextClassifier(*bert, batch_size=8)
    encoded = classifier.encode([*texts, texts[0], texts[3]])
    positions = find_important_tokens(classifier, encoded).positions
    for max_steps in (1, 2, 5, 0):
        config = replace(FAST, max_steps=max_steps, learning_rate=0.1)
        drawn = texts_drawn(encoded, config, seed=3)
        assert len(drawn) == min(len(texts), 4 * steps_to_take(len(texts), config) + 1)
        known = np.full_like(positions, -1)
        known[drawn] = positions[drawn]
        model, training = train_adapter(classifier, encoded, positions, config, seed=3)
        other, again = train_adapter(classifier, encoded, known, config, seed=3)
        assert again.losses == training.losses
        assert same(lora_weights(model), lora_weights(other))
        # Pairs have to be counted before any is drawn.
        assert len(texts_drawn(encoded, replace(config, pairing="flat"), seed=3)) == len(texts)
    assert (training.n_texts, training.n_trained, training.n_epochs, training.n_steps) == (10, 8, 3, 6)
    all_of_them = replace(FAST, deduplicate=False)
    assert train_adapter(classifier, encoded, positions, all_of_them, seed=0)[1].n_trained == 10


def test_steps_and_batches_of_which_none_has_a_single_input():
    bounds = {(10, 4): [(0, 4), (4, 8), (8, 10)], (9, 4): [(0, 4), (4, 9)], (3, 4): [(0, 3)], (5, 5): [(0, 5)]}
    for (n, size), expected in bounds.items():
        assert _batch_bounds(n, size) == expected
    for options, steps in (({"epochs": 2}, 6), ({"min_steps": 50}, 50), ({"epochs": 9, "max_steps": 10}, 10)):
        assert steps_to_take(10, AdapterConfig(batch_size=4, **options)) == steps


def test_the_predicted_change_bounds_the_measured_one(prepared):
    classifier, encoded, _ = prepared
    for seed in range(3):
        training = train_adapter(*prepared, FAST, seed=seed)[1]
        assert 0 < training.relative_change <= training.predicted_change * 1.05
    fresh = attach_adapter(classifier, FAST)
    assert (relative_change(fresh), predicted_change(fresh, 1e-3, 0)) == (0.0, 0.0)
    fresh_logits = classifier.with_model(fresh).predict_logits(encoded)
    np.testing.assert_array_equal(fresh_logits, classifier.predict_logits(encoded))


def test_what_cannot_be_trained_is_refused(bert, prepared):
    with pytest.raises(ConfigError, match="target_modules \\['nope'\\] cannot be adapted"):
        train_adapter(*prepared, AdapterConfig(target_modules=("nope",)), seed=0)
    never = AdapterConfig(scheduler="linear", batch_size=4, max_steps=1, warmup_ratio=0.5, target_change=0.05)
    with pytest.raises(ConfigError, match=r"^The schedule 'linear' with warmup_ratio 0.5 has a rate of 0"):
        train_adapter(*prepared, never, seed=0)
    with pytest.warns(GuardrailWarning, match="predicted to change next to nothing: 2 steps at learning rate 1e-06"):
        train_adapter(*prepared, AdapterConfig(learning_rate=1e-6, batch_size=4), seed=0)
    with torch.no_grad():
        bert[0].bert.encoder.layer[1].output.LayerNorm.bias.fill_(float("inf"))
    with pytest.raises(RunError, match="training loss became nan"):
        train_adapter(*prepared, FAST, seed=0)


def test_frozen_weights_that_changed_fail_the_run(prepared, monkeypatch):
    seen = iter(["before", "after"])
    monkeypatch.setattr(TextClassifier, "fingerprint", lambda _: next(seen))
    with pytest.raises(RunError, match="Frozen weights changed during training; the adapter is not usable"):
        train_adapter(*prepared, FAST, seed=0)


def test_a_target_sets_the_learning_rate_whatever_the_steps_and_the_schedule(prepared):
    rates = {}
    for steps, scheduler in ((4, "constant"), (8, "constant"), *((6, name) for name in get_args(Schedule))):
        config = AdapterConfig(target_change=0.2, min_steps=steps, max_steps=steps, batch_size=4, warmup_ratio=0.2)
        config = replace(config, scheduler=scheduler)
        training = train_adapter(*prepared, config, seed=0)[1]
        assert training.predicted_change == pytest.approx(0.2)
        assert 0.02 < training.relative_change < 0.2
        rates[steps, scheduler] = training.learning_rate
    assert rates[4, "constant"] == pytest.approx(2 * rates[8, "constant"])
    assert rates[6, "linear"] > rates[6, "constant"]  # a rate that falls has to start higher


def test_splitting_a_batch_does_not_change_the_loss(prepared, bert, monkeypatch):
    """Packed, padded in chunks of similar length, padded as a whole, and in passes of a few sequences."""
    chunks = length_chunks(np.array([10, 30, 29, 9, 12, 30]), fill=0.9)
    assert [chunk.tolist() for chunk in chunks] == [[1, 5, 2], [4], [0, 3]]
    config = AdapterConfig(learning_rate=5e-3, batch_size=8, epochs=2)
    padded = TextClassifier(*bert, batch_size=8, packing=False), *prepared[1:]

    def losses(way, **changes):
        return pytest.approx(train_adapter(*way, replace(config, **changes), seed=0)[1].losses, rel=1e-4)

    packed = train_adapter(*prepared, config, seed=0)[1].losses
    assert (packed, packed) == (losses(padded), losses(padded, sequences_per_pass=7))
    assert packed == losses(prepared, sequences_per_pass=7)
    whole = "shortcut_guardrail.mitigation.training.length_chunks"
    monkeypatch.setattr(whole, lambda lengths, **_: [np.arange(len(lengths))])
    assert packed == losses(padded)


def loop(prepared, config):
    classifier, encoded, positions = prepared
    adapted = classifier.with_model(attach_adapter(classifier, config))
    return MaskedContrastiveLearning(adapted, encoded, positions, config, 0)


@pytest.mark.parametrize("pairing", ["grouped", "flat"])
@pytest.mark.parametrize("dropout", [False, True])
def test_passes_of_a_few_sequences_give_the_gradient_of_a_whole_batch(prepared, pairing, dropout):
    """With dropout every sequence draws masks of its own, so only the repeat of the same pass can agree."""
    gradients = []
    for most in (0, 5, 5):
        torch.manual_seed(0)
        config = AdapterConfig(batch_size=8, pairing=pairing, sequences_per_pass=most, dropout=dropout)
        trainer = loop(prepared, config)
        model = trainer.classifier.model
        with torch.no_grad():
            for _, layer in adapted_layers(model):
                layer.lora_B["default"].weight.normal_(std=0.1)
        model.train(dropout)
        trainer.loss(np.arange(8)).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in trainer.parameters]))
    torch.testing.assert_close(gradients[1], gradients[2])
    if not dropout:
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
    assert gradients[0].abs().max() > 1e-4


def test_passes_of_a_few_sequences_hold_fewer_activations(prepared):
    def kept(most):
        """What autograd keeps from the forward pass, in bytes."""
        trainer, storages = loop(prepared, AdapterConfig(batch_size=8, sequences_per_pass=most)), {}

        def note(tensor):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            trainer.loss(np.arange(8))
        return sum(storages.values())

    assert kept(5) < 0.5 * kept(0)
