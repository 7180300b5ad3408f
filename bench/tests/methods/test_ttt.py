"""Test-time training: its loss beside a literal evaluation, and what an adaptation moves."""

import dataclasses

import pytest
import torch

from methods_toy import DEPLOYMENT, QUICK, TRAIN, fit
from shortcut_bench.methods import MaskedAdaptation, TestTimeTraining, ttt
from shortcut_bench.methods.ttt import WORD_HEAD, MaskedWords, drawn_places
from shortcut_guardrail.errors import ConfigError, DataError, ModelError
from tiny_models import tiny_bert

TEXTS = ["the room was good", "a bad tea", "we had a lovely place again", "rude"]


@pytest.mark.parametrize("supervised", [False, True])
def test_the_loss_is_the_masked_words_and_the_labels(supervised, monkeypatch):
    model, tokenizer = tiny_bert()
    objective = MaskedWords(share=0.3, weight=0.7, supervised=supervised, dropout=False)
    objective.begin(model, tokenizer)
    inputs = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    ids, labels = inputs["input_ids"], torch.tensor([0, 1, 2, 1])
    chosen = {0: (1, 3), 1: (2,), 2: (6,), 3: (1,)}
    places = torch.zeros_like(ids, dtype=torch.bool)
    total, n = torch.zeros(()), 0
    head, words = getattr(model, WORD_HEAD), model.bert.embeddings.word_embeddings.weight
    for row, masked in chosen.items():
        alone = tokenizer(TEXTS[row], return_tensors="pt")
        for place in masked:
            alone["input_ids"][0, place], places[row, place] = tokenizer.mask_token_id, True
        states = model.bert(**alone).last_hidden_state[0]
        for place in masked:
            scores = torch.stack([word @ (head.weight @ states[place] + head.bias) for word in words])
            total, n = total - scores.log_softmax(0)[ids[row, place]], n + 1
    expected = 0.7 * total / n
    if supervised:
        log_probs = model(**inputs).logits.log_softmax(-1)
        expected = expected - sum(log_probs[row, label] for row, label in enumerate(labels)) / 4
    monkeypatch.setattr(ttt, "drawn_places", lambda may, share: places)
    loss = objective.loss(model.train(), {**inputs, "labels": labels}, torch.arange(4))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    found, wanted = (torch.autograd.grad(value, words)[0] for value in (loss, expected))
    assert torch.allclose(found, wanted, atol=1e-4)


def test_a_share_of_the_words_is_masked_and_nothing_else():
    may = torch.tensor([[False, *[True] * 20, False], [False, True, *[False] * 20], [False] * 22])
    drawn = [drawn_places(may, 0.15) for _ in range(200)]
    assert all(places.sum(dim=1).tolist() == [3, 1, 0] for places in drawn)
    assert not any((places & ~may).any() for places in drawn)
    assert torch.stack(drawn)[:, 0, 1:21].float().mean(dim=0).tolist() == pytest.approx([0.15] * 20, abs=0.1)
    model, tokenizer = tiny_bert()
    objective, seen = MaskedWords(share=1.0, weight=1.0, supervised=False, dropout=False), []
    objective.begin(model, tokenizer)
    model.bert.register_forward_pre_hook(lambda _m, given: seen.append(given[0]))
    inputs = dict(tokenizer(["a bad tea", "rude", ""], padding=True, return_tensors="pt"))
    objective.masked_loss(model, inputs)
    special, mask = torch.isin(inputs["input_ids"], torch.tensor(tokenizer.all_special_ids)), tokenizer.mask_token_id
    assert torch.equal(seen[0], torch.where(special, inputs["input_ids"], mask))
    nothing = dict(tokenizer(["", ""], return_tensors="pt"))
    assert objective.masked_loss(model, nothing).item() == 0


def test_an_adaptation_moves_the_encoder_and_leaves_the_head(material):
    for method, cost in (
        (MaskedAdaptation(epochs=2), (3 + 3 * 2) * len(DEPLOYMENT)),
        (TestTimeTraining(recipe=QUICK, learning_rate=1e-3), 6 * len(TRAIN) + 3 * len(DEPLOYMENT)),
    ):
        system = fit(method, material)
        assert system.forward_equivalents == cost
        assert not hasattr(system.classifier.model, WORD_HEAD)
        start = material.base.model if method.name != "ttt" else fit_unadapted(material)
        moved = {name for name, value in system.classifier.model.state_dict().items() if not same(start, name, value)}
        assert any("layer.0" in name for name in moved)
        assert not any("classifier" in name or "pooler" in name for name in moved)
        losses = system.info()["masked_word_losses"]
        assert losses[-1] < losses[0] or method.name == "ttt"


def fit_unadapted(material):
    """The jointly trained model before it sees a deployment text."""
    return fit(TestTimeTraining(recipe=QUICK, learning_rate=1e-30), material).classifier.model


def same(model, name, value):
    return torch.equal(model.state_dict()[name].cpu(), value.cpu())


def test_what_cannot_be_adapted_is_refused(material):
    for kind, options, message in (
        (MaskedAdaptation, {"share": 0.0}, "share must be above 0 and at most 1, but is 0.0."),
        (MaskedAdaptation, {"head_epochs": -1}, "head_epochs must be at least 0, but is -1."),
        (TestTimeTraining, {"weight": 0.0}, "weight must be above 0, but is 0.0."),
        (TestTimeTraining, {"epochs": 0}, "epochs must be at least 1, but is 0."),
    ):
        with pytest.raises(ConfigError) as error:
            kind(**options)
        assert str(error.value) == message
    for method in (MaskedAdaptation(), TestTimeTraining(recipe=QUICK)):
        with pytest.raises(DataError, match="needs deployment texts, but there are none"):
            fit(method, dataclasses.replace(material, deployment=[]))
    model, tokenizer = tiny_bert()
    tokenizer.mask_token = None
    with pytest.raises(ModelError, match="has no mask token"):
        MaskedWords(share=0.1, weight=1.0, supervised=False, dropout=False).begin(model, tokenizer)
