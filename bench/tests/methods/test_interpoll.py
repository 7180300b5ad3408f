"""InterpoLL: the mixed loss beside a literal evaluation, whom it mixes with whom, and what it says where it cannot."""

import numpy as np
import pytest
import torch

from methods_toy import NAMES, TRAIN, fit
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.methods import InterpoLL, interpoll
from shortcut_bench.methods.bias_only import dealt
from shortcut_bench.methods.interpoll import Interpolation
from shortcut_guardrail.errors import ConfigError, GuardrailWarning
from tiny_models import tiny_bert

TEXTS = ["the room was good", "a bad tea", "we had a lovely place again", "rude", "good food", "the great staff"]
LABELS = np.array([1, 0, 1, 0, 1, 2])
MINORITY = np.array([False, True, True, False, True, False])  # no row of class 2 is of the minority


def rows_of(texts, labels, names=("a", "b", "c")):
    return LabelledTexts("train", list(texts), labels, names, np.zeros(len(labels), int), ("all",))


def mixing(**options):
    model, tokenizer = tiny_bert(n_classes=3, initializer_range=0.2)
    objective = Interpolation(
        rows_of(TEXTS, LABELS), MINORITY, **{"most": 0.5, "detach": False, "max_length": 16, **options}
    )
    objective.begin(model.eval(), tokenizer)
    return model, tokenizer, objective


def batch_of(tokenizer, rows):
    encoded = tokenizer([TEXTS[row] for row in rows], padding=True, return_tensors="pt")
    return {**encoded, "labels": torch.from_numpy(LABELS[rows])}


@pytest.mark.parametrize("detach", [False, True])
def test_the_loss_is_that_of_the_head_on_mixed_representations(detach, monkeypatch):
    model, tokenizer, objective = mixing(detach=detach)
    pairs = {3: (1, 0.4), 0: (4, 0.1)}  # of a majority row: the minority row that is drawn, and its share
    monkeypatch.setattr(
        objective,
        "drawn",
        lambda rows: ([pairs[row][0] for row in rows], torch.tensor([pairs[row][1] for row in rows])),
    )
    rows = [5, 3, 2, 0]
    loss = objective.loss(model, batch_of(tokenizer, rows), torch.tensor(rows))
    weight = model.bert.embeddings.word_embeddings.weight
    found = torch.autograd.grad(loss, weight)[0]

    def pooled(row):  # by itself, without padding
        return model.bert(**tokenizer(TEXTS[row], return_tensors="pt")).pooler_output[0]

    losses = []
    for row in rows:
        own = pooled(row)
        if row in pairs:
            partner, share = pairs[row]
            other = pooled(partner).detach() if detach else pooled(partner)
            own = (1 - share) * own + share * other
        losses.append(-(model.classifier.weight @ own + model.classifier.bias).log_softmax(-1)[LABELS[row]])
    expected = sum(losses) / len(losses)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(found, torch.autograd.grad(expected, weight)[0], atol=1e-5)
    # "tea" is in the minority text alone.
    moved = found[tokenizer.convert_tokens_to_ids("tea")].abs().max()
    assert (moved == 0) == detach


def test_a_majority_row_is_mixed_with_a_minority_row_of_its_class_and_keeps_the_larger_share():
    _, _, objective = mixing(most=0.3)
    assert objective.n_mixed == 2
    torch.manual_seed(0)
    partners, shares = objective.drawn([0, 3] * 200)
    assert set(partners[1::2]) == {1}
    assert np.bincount(partners[::2], minlength=5)[[2, 4]].tolist() == pytest.approx([100, 100], abs=30)
    assert (shares.min() >= 0) & (shares.max() <= 0.3) & (shares.max() > 0.28) & (shares.min() < 0.02)
    assert shares.mean().item() == pytest.approx(0.15, abs=0.02)


def test_a_batch_without_a_row_to_mix_costs_no_other_pass():
    model, tokenizer, objective = mixing()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    rows = [5, 1, 4]
    loss = objective.loss(model, batch_of(tokenizer, rows), torch.tensor(rows))
    assert len(calls) == 1
    inputs = batch_of(tokenizer, rows)
    assert loss.item() == pytest.approx(model(**inputs).loss.item(), rel=1e-5)


def test_minority_rows_are_those_that_a_weak_learner_of_another_part_gets_wrong(material, monkeypatch):
    wrong = np.random.default_rng(0).random(len(TRAIN)) < 0.2
    asked = []

    def learner(*_, spend, **__):
        def answer(fitted, answered):
            asked.append((set(fitted.tolist()), set(answered.tolist())))
            spend(100.0)
            return np.eye(2)[np.where(wrong, 1 - TRAIN.labels, TRAIN.labels)[answered]]

        return answer

    monkeypatch.setattr(interpoll, "weak_learner", learner)
    system = fit(InterpoLL(recipe={"epochs": 2}, folds=3), material)
    info = system.info()
    assert (info["n_minority"], info["n_mixed"]) == (wrong.sum(), (~wrong).sum())
    assert info["classes_without_minority"] == []
    folds = [set(np.flatnonzero(dealt(TRAIN.labels, 3, 0) == fold).tolist()) for fold in (0, 1, 2)]
    assert asked == [(folds[at], folds[(at + 1) % 3]) for at in (0, 1, 2)]
    assert system.forward_equivalents == 3 * 100 + 3 * 2 * len(TRAIN) + 3 * 2 * (~wrong).sum()


def test_a_learner_that_errs_nowhere_or_nearly_everywhere_is_warned_about(material, monkeypatch):
    def with_errors(wrong):
        def learner(*_, **__):
            return lambda _, answered: np.eye(2)[np.where(wrong, 1 - TRAIN.labels, TRAIN.labels)[answered]]

        monkeypatch.setattr(interpoll, "weak_learner", learner)
        return fit(InterpoLL(recipe={"epochs": 1}), material).info()

    none = np.zeros(len(TRAIN), dtype=bool)
    with pytest.warns(GuardrailWarning, match="answered 0 of 192 .* nothing is mixed and this is ordinary training"):
        info = with_errors(none)
    assert info["n_mixed"] == 0
    assert info["classes_without_minority"] == list(NAMES)
    with pytest.warns(GuardrailWarning, match="answered 150 of 192 .* it has hardly learned"):
        with_errors(np.arange(192) < 150)


def test_options_out_of_range_are_refused():
    for options, message in (
        ({"most": 0.6}, "most must be above 0 and at most 0.5, but is 0.6."),
        ({"folds": 1}, "folds must be at least 2, but is 1."),
        ({"weak_epochs": 0}, "weak_epochs must be at least 1, but is 0."),
        ({"weak_rate": 0.0}, "weak_rate must be above 0, but is 0.0."),
    ):
        with pytest.raises(ConfigError) as error:
            InterpoLL(**options)
        assert str(error.value) == message


def test_texts_and_pairs_are_encoded_and_cut_as_in_training():
    _, tokenizer, objective = mixing(max_length=4)
    assert objective._encoded([2, 1], torch.device("cpu"))["input_ids"].shape == (2, 4)
    pairs = rows_of([(text, "good tea") for text in TEXTS], LABELS)
    objective = Interpolation(pairs, MINORITY, most=0.5, detach=False, max_length=16)
    objective.begin(tiny_bert(n_classes=3)[0], tokenizer)
    (found,) = objective._encoded([1], torch.device("cpu"))["input_ids"].tolist()
    assert found == tokenizer("a bad tea", "good tea").input_ids
