"""FairFlow: the loss beside a literal evaluation, its views, and what it says where there are none."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from methods_toy import NAMES, TRAIN, fit, literal_contrast
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.methods import FairFlow
from shortcut_bench.methods.fairflow import Undecided, divergence_from_uniform
from shortcut_guardrail.errors import ConfigError, GuardrailWarning
from tiny_models import tiny_bert

TEXTS = ["the room was good", "a bad tea", "we had a lovely place again", "rude", "good food", "the great staff"]
LABELS = np.array([1, 0, 1, 0, 1, 2])


def rows_of(texts, labels=LABELS):
    return LabelledTexts("train", list(texts), labels, ("a", "b", "c"), np.zeros(len(labels), int), ("all",))


def asking(texts=TEXTS, **options):
    model, tokenizer = tiny_bert(n_classes=3, initializer_range=0.2)
    how = {"views": ("half", "shuffle", "zero"), "target": "contrastive", "weight": 0.7, "temperature": 0.3}
    objective = Undecided(rows_of(texts), **{**how, "max_length": 16, "seed": 2, **options})
    objective.begin(model.eval(), tokenizer)
    return model, tokenizer, objective


@pytest.mark.parametrize("target", ["contrastive", "uniform", "both"])
@pytest.mark.parametrize("views", [("half", "shuffle", "zero"), ("zero",), ("shuffle",)])
def test_the_loss_is_cross_entropy_and_what_is_asked_of_views(target, views, monkeypatch):
    model, tokenizer, objective = asking(target=target, views=views)
    changed = [] if views == ("zero",) else ["good was", "the tea bad a", "staff"]
    monkeypatch.setattr(objective, "changed", lambda rows: changed)
    # The order of places that is drawn: the first half of the sorted draws of a row is zeroed.
    order = torch.rand((4, 16), generator=torch.Generator().manual_seed(2)).argsort(dim=1)
    rows = [5, 3, 2, 0]

    def pooled(text):  # by itself, without padding
        return model.bert(**tokenizer(text, return_tensors="pt")).pooler_output[0]

    own = [pooled(TEXTS[row]) for row in rows]
    biased = [pooled(text) for text in changed]
    if "zero" in views:
        biased += [torch.where(order[at] < 8, 0.0, value) for at, value in enumerate(own)]
    log_probs = [(model.classifier.weight @ b + model.classifier.bias).log_softmax(-1) for b in own + biased]
    expected = -sum(log_probs[at][LABELS[row]] for at, row in enumerate(rows)) / 4
    if target != "uniform":
        labels = [*LABELS[rows].tolist(), *[3] * len(biased)]
        expected = expected + 0.7 * literal_contrast(torch.stack(own + biased), labels, 0.3)
    if target != "contrastive":
        divergences = [sum(math.log(1 / 3) / 3 - lp / 3 for lp in found) for found in log_probs[4:]]
        expected = expected + 0.7 * sum(divergences) / len(biased)
    inputs = {**tokenizer([TEXTS[row] for row in rows], padding=True, return_tensors="pt")}
    loss = objective.loss(model, {**inputs, "labels": torch.from_numpy(LABELS[rows])}, torch.tensor(rows))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    weight = model.bert.embeddings.word_embeddings.weight
    found, wanted = (torch.autograd.grad(value, weight)[0] for value in (loss, expected))
    assert torch.allclose(found, wanted, atol=1e-4)


def test_the_divergence_is_zero_for_the_uniform_answer_alone():
    assert divergence_from_uniform(torch.full((2, 4), 3.0)).item() == pytest.approx(0.0, abs=1e-6)
    assert divergence_from_uniform(torch.tensor([[9.0, 0.0]])).item() == pytest.approx(4.5 - math.log(2), abs=1e-3)


def test_views_are_drawn_anew_differ_from_their_text_and_go_on_from_a_state():
    _, _, objective = asking()
    rows = [2, 3, 4] * 30
    first, state = objective.changed(rows), objective.state()
    assert sum(len(view.split()) == 3 for view in first) == 30  # of its six words
    assert not {"rude", "good food", TEXTS[2]} & set(first)
    assert {"good", "food", "food good"} <= set(first)
    second = objective.changed(rows)
    assert second != first
    objective.restore(state)
    assert objective.changed(rows) == second
    pairs = asking([(text, "we had a lovely place again") for text in TEXTS])[2].changed([3, 3])
    assert all(first == "rude" and second != TEXTS[2] for first, second in pairs)
    assert len(pairs) == 4


def test_a_text_that_is_alone_in_its_batch_and_has_no_view_is_trained_on():
    model, tokenizer, objective = asking(views=("half",), target="both")
    inputs = {**tokenizer("rude", return_tensors="pt"), "labels": torch.tensor([0])}
    expected = model(**inputs).loss.item()
    loss = objective.loss(model, dict(inputs), torch.tensor([3]))
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_its_cost_counts_a_pass_for_each_view_that_is_a_text(material):
    for views, passes in ((("half", "shuffle", "zero"), 3), (("zero",), 1)):
        system = fit(FairFlow(views=views, recipe={"epochs": 2}), material)
        assert system.forward_equivalents == 3 * 2 * passes * len(TRAIN)
        assert system.info()["n_without_words"] == 0


def test_texts_without_words_are_warned_about(material):
    words = LabelledTexts("train", ["good", "bad"] * 4, np.array([1, 0] * 4), NAMES, np.zeros(8, int), ("all",))
    with pytest.warns(GuardrailWarning, match="No training text has two words between white space, so 'fairflow'"):
        info = fit(FairFlow(recipe={"epochs": 1}), dataclasses.replace(material, train=words)).info()
    assert info["n_without_words"] == 8


def test_options_out_of_range_are_refused():
    known = "views must be one or more of half, shuffle, zero, each once, but are"
    for options, message in (
        ({"views": ()}, f"{known} none."),
        ({"views": ("half", "half")}, f"{known} half, half."),
        ({"views": ("drop",)}, f"{known} drop."),
        ({"target": "none"}, "target must be one of contrastive, uniform, both, but is 'none'."),
        ({"weight": 0.0}, "weight must be above 0, but is 0.0."),
        ({"temperature": 0.0}, "temperature must be above 0, but is 0.0."),
    ):
        with pytest.raises(ConfigError) as error:
            FairFlow(**options)
        assert str(error.value) == message
