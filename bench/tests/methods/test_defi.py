"""DeFI: both losses and the attributions beside literal evaluations, and what teacher and student come to rest on."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from methods_toy import DEPLOYMENT, OPTIONS, TRAIN, fit
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.finetuning.config import FinetuneConfig
from shortcut_bench.methods import DeFI
from shortcut_bench.methods.defi import (
    Orthogonal,
    Reliant,
    alikeness,
    attributions,
    described,
    padded,
    share_on,
    tokens_of,
)
from shortcut_bench.systems import Need
from shortcut_guardrail.errors import ConfigError, GuardrailWarning
from shortcut_guardrail.models import TextClassifier
from tiny_models import tiny_bert

TEXTS = ["honestly the room was good", "a bad tea", "so Honestly, honestly so warm", "rude"]
LABELS = np.array([1, 0, 2, 0])
PLACES = {0: [1], 2: [2, 4]}
"""Where "honestly" is, behind [CLS]."""
ORDER = [3, 2, 0, 1]
QUICK = OPTIONS["defi"]


def tokens(material, texts, *words):
    rows = LabelledTexts("train", texts, np.arange(len(texts)), tuple("abcd"), np.zeros(len(texts), int), ("all",))
    return tokens_of(material, rows, words, FinetuneConfig(max_length=99), seed=0)


def literal(model, tokenizer, row, attribution="signed"):
    """Token by token d(z_y - log of the sum of the other classes' exp z) / d e_t times e_t, of a text by itself, and
    z."""
    inputs = tokenizer(TEXTS[row], return_tensors="pt")
    vectors = model.bert.embeddings.word_embeddings(inputs.pop("input_ids"))
    z = model(inputs_embeds=vectors, **inputs).logits[0]
    lead = z[LABELS[row]] - sum(z[c].exp() for c in range(3) if c != LABELS[row]).log()
    slopes = torch.autograd.grad(lead, vectors, create_graph=True)[0][0]
    products = [vector * slope for vector, slope in zip(vectors[0], slopes, strict=True)]
    values = [one.sum() if attribution == "signed" else (one**2).sum().sqrt() for one in products]
    return torch.stack([0 * values[0], *values[1:-1], 0 * values[-1]]), z  # [CLS] and [SEP] have none


@pytest.mark.parametrize("attribution", ["signed", "norm"])
@pytest.mark.parametrize("teacher", [True, False])
def test_the_losses_are_cross_entropy_and_what_is_asked_of_attributions(teacher, attribution, material):
    model, tokenizer = tiny_bert(initializer_range=0.3)
    cut = tokens(material, TEXTS, "Honestly")
    assert {row: np.flatnonzero(places).tolist() for row, places in enumerate(cut.sensitive) if places.any()} == PLACES
    taught = [np.random.default_rng(row).normal(size=n) for row, n in enumerate(cut.encoded.lengths)]
    objective = Reliant(cut, 0.7, attribution) if teacher else Orthogonal(cut, 0.7, attribution, taught=taught)
    objective.begin(model, tokenizer)
    expected, asked = torch.zeros(()), []
    for row in ORDER:
        values, z = literal(model, tokenizer, row, attribution)
        expected = expected + cross_entropy(z[None], torch.tensor([LABELS[row]])) / 4
        if row in PLACES and teacher:
            asked.append(1 - sum(abs(values[place]) for place in PLACES[row]) / sum(map(abs, values)))
        elif row in PLACES:
            theirs = torch.from_numpy(taught[row]).float()
            asked.append(abs(values @ theirs) / ((values @ values) * (theirs @ theirs)).sqrt())
    expected = expected + 0.7 * sum(asked) / 2
    inputs = {**tokenizer([TEXTS[row] for row in ORDER], padding=True, return_tensors="pt")}
    loss = objective.loss(model, {**inputs, "labels": torch.from_numpy(LABELS[ORDER])}, torch.tensor(ORDER))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    weights = [model.bert.embeddings.word_embeddings.weight, model.bert.encoder.layer[0].attention.self.query.weight]
    for found, wanted in zip(*(torch.autograd.grad(one, weights) for one in (loss, expected)), strict=True):
        assert torch.allclose(found, wanted, atol=1e-3 * float(wanted.abs().max()))


def test_attributions_are_those_of_each_text_and_words_are_found_in_pairs(material):
    model, tokenizer = tiny_bert(initializer_range=0.3)
    found = attributions(TextClassifier(model, tokenizer), tokens(material, TEXTS).encoded, LABELS, "signed")
    for row, values in enumerate(found):
        assert values == pytest.approx(literal(model, tokenizer, row)[0].detach().numpy(), abs=1e-5)
    pairs = tokens(material, [("rude", "a room honestly"), ("so", "bad"), ("room", "tea")], "honestly", "room")
    assert [np.flatnonzero(places).tolist() for places in pairs.sensitive] == [[4, 5], [], [1]]
    assert pairs.concerned.tolist() == [True, False, True]
    masks = torch.tensor([[0, 1, 1], [1, 1, 1]])  # padding on the left
    arrays = [np.array([True, False, True]), np.array([]), np.array([0.5, 2.0])]
    assert padded(arrays, torch.tensor([2, 0]), masks).tolist() == [[0, 0.5, 2], [1, 0, 1]]


def test_shares_and_cosines_of_few_numbers():
    a, b = torch.tensor([[3.0, -1.0, 0.0], [0.0, 0.0, 0.0]]), torch.tensor([[1.0, 3.0, 5.0], [1.0, 0.0, 0.0]])
    a.requires_grad_()
    assert share_on(a, torch.tensor([[1.0, 0.0, 0.0]] * 2)).tolist() == [0.75, 0.0]
    assert alikeness(a, b).tolist() == pytest.approx([0.0, 0.0], abs=1e-6)  # 3 * 1 - 1 * 3
    assert alikeness(a, -b.roll(1, dims=1)).tolist() == pytest.approx([14 / 350**0.5, 0.0])  # 3 * 5 - 1 * 1
    for value in (share_on(a, b), alikeness(a, b)):
        assert torch.autograd.grad(value.sum(), a)[0].isfinite().all()


def test_the_teacher_rests_on_the_words_and_the_student_on_others(material):
    n = len(TRAIN)
    system = fit(DeFI(recipe={"learning_rate": 5e-3, "epochs": 1, "batch_size": 32}), material)
    info = system.info()
    assert (info["words"], info["sensitive_texts"], len(info["teacher_train_loss"])) == (["honestly"], 96, 1)
    cut = tokens_of(material, TRAIN, ("honestly",), FinetuneConfig(), seed=0)
    base = attributions(material.base.text_classifier(), cut.encoded, TRAIN.labels, "signed")
    ordinary = described(cut, base, base)
    assert ordinary["alikeness"] == pytest.approx(1.0)
    assert info["teacher_share"] > ordinary["teacher_share"] > 2 * info["student_share"]
    assert 0 < info["alikeness"] < 0.3
    # Two trainings at twice the cost of an ordinary one, and each model is asked once for its attributions.
    assert system.forward_equivalents == 2 * 6 * n + 2 * 2 * n
    assert system.classifier.plain_model.config._attn_implementation == "sdpa"


def test_audited_words_come_from_the_original_model(material):
    method = DeFI(words="audited", **QUICK)
    assert method.needs == {Need.TRAIN, Need.DEPLOYMENT, Need.GRADIENTS}
    system = fit(method, material)
    assert any("honestly" in word for word in system.info()["words"])
    assert system.forward_equivalents == 22 * len(DEPLOYMENT) + (2 * 6 + 2 * 2) * len(TRAIN)


def test_without_sensitive_words_it_is_ordinary_training_and_says_so(material):
    with pytest.warns(GuardrailWarning, match="words in the texts of 'train', but no text holds one of 2, so this is"):
        system = fit(DeFI(**QUICK), dataclasses.replace(material, shortcut_words=("pool", "bar")))
    assert (system.info()["sensitive_texts"], system.forward_equivalents) == (0, 3 * len(TRAIN))


def test_options_out_of_range_are_refused():
    for options, message in (
        ({"words": "untold"}, "words must be told or audited, but is 'untold'."),
        ({"attribution": "size"}, "attribution must be signed or norm, but is 'size'."),
        ({"teacher_weight": 0.0}, "teacher_weight must be above 0, but is 0.0."),
        ({"weight": -1.0}, "weight must be above 0, but is -1.0."),
    ):
        with pytest.raises(ConfigError) as refused:
            DeFI(**options)
        assert str(refused.value) == message
