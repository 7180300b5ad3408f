"""Ensembles with a bias-only model: each loss and each bias model beside a slow, literal evaluation."""

import dataclasses
import math
import types

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from methods_toy import NAMES, QUICK, RECIPE, REVERSED, TRAIN, fit, rows
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.methods import bias_only
from shortcut_bench.methods.bias_only import FLOOR, GATE, BiasOnly, Ensemble, dealt, parts
from shortcut_bench.registry import make_system
from shortcut_guardrail.errors import DataError, GuardrailWarning
from tiny_models import tiny_bert

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(5, 3, generator=GENERATOR, dtype=torch.float64) * 2
BIAS = (torch.randn(5, 3, generator=GENERATOR, dtype=torch.float64) * 2).log_softmax(-1)
LABELS = torch.tensor([2, 0, 1, 1, 0])
with_ = dataclasses.replace


def softmax(values):
    powers = [math.exp(value) for value in values]
    return [power / sum(powers) for power in powers]


def literal(kind, logits, bias, labels, gate=None, penalty=0.0):
    """A loss row by row and class by class, from probabilities: p_c b_c^g, normalised; and 1 - b_y as a weight."""
    losses, weights, entropies = [], [], []
    for i, label in enumerate(labels.tolist()):
        p, b = softmax(logits[i].tolist()), softmax(bias[i].tolist())
        g = math.log(1 + math.exp(gate[i])) if kind == "mixin" else 1.0
        powers = [one**g for one in b]
        entropies.append(-sum(q / sum(powers) * math.log(q / sum(powers)) for q in powers))
        joint = [one if kind == "reweight" else one * q for one, q in zip(p, powers, strict=True)]
        losses.append(-math.log(joint[label] / sum(joint)))
        weights.append(1 - b[label] if kind == "reweight" else 1.0)
    weighted = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    return weighted + penalty * sum(entropies) / len(entropies)


def test_losses_are_their_formulas():
    gate = torch.tensor([-1.0, 0.0, 0.5, 2.0, -3.0])
    found = {
        "product": bias_only.product_loss(LOGITS, BIAS, LABELS),
        "mixin": bias_only.mixin_loss(LOGITS, BIAS, LABELS, gate, 0.7),
        "reweight": bias_only.reweighted_loss(LOGITS, BIAS, LABELS),
    }
    expected = {kind: literal(kind, LOGITS, BIAS, LABELS, gate.tolist(), 0.7 * (kind == "mixin")) for kind in found}
    assert {kind: value.item() for kind, value in found.items()} == pytest.approx(expected, rel=1e-5)
    assert len({round(value, 3) for value in expected.values()}) == 3
    # A constant added to a row of beta is none to an expert; the entropy is added, so that less of it costs less.
    assert bias_only.product_loss(LOGITS, BIAS + 5, LABELS).item() == pytest.approx(expected["product"], rel=1e-5)
    assert bias_only.mixin_loss(LOGITS, BIAS, LABELS, gate, 0.0) < found["mixin"]


def test_annealing_flattens_the_bias_model_step_by_step():
    flat = bias_only.annealed(BIAS, 0.4)
    powers = [[b**0.4 for b in softmax(row)] for row in BIAS.tolist()]
    assert flat.exp().tolist() == [pytest.approx([p / sum(row) for p in row]) for row in powers]
    says = types.SimpleNamespace(logits=LOGITS[:2].float())
    ensemble = Ensemble(BIAS.float(), "product", penalty=0.0, last_theta=0.5, n_steps=3)
    found = []
    for _ in range(3):
        resumed = Ensemble(BIAS.float(), "product", penalty=0.0, last_theta=0.5, n_steps=3)
        resumed.restore(ensemble.state())
        batches = [{"labels": LABELS[:2]} for _ in range(2)]
        one, other = (
            each.loss(lambda: says, batch, torch.tensor([4, 3]))
            for each, batch in zip((ensemble, resumed), batches, strict=True)
        )
        assert one == other
        found.append(one.item())
    of_rows = [literal("product", LOGITS[:2], theta * BIAS[[4, 3]], LABELS[:2]) for theta in (1.0, 0.75, 0.5)]
    assert found == pytest.approx(of_rows, rel=1e-5)


def test_the_mixins_gate_reads_the_pooler_before_dropout_and_is_trained_with_the_model():
    model, tokenizer = tiny_bert(n_classes=3)
    ensemble = Ensemble(BIAS.float(), "mixin", penalty=0.3, last_theta=1.0, n_steps=2)
    ensemble.begin(model.eval(), tokenizer)
    gate = dict(model.named_parameters())[f"{GATE}.weight"]
    with torch.no_grad():
        gate.add_(0.5)
    ids = torch.tensor([[2, 7, 8, 9, 3], [2, 11, 12, 3, 0]])
    inputs = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    loss = ensemble.loss(model, {**inputs, "labels": LABELS[:2]}, torch.tensor([1, 0]))
    loss.backward()
    assert gate.grad.abs().max() > 0
    with torch.no_grad():
        pooled = model.bert(**inputs).pooler_output
        gates = [sum(a * h for a, h in zip(gate[0].tolist(), row, strict=True)) for row in pooled.tolist()]
        logits = model(**inputs).logits
    expected = literal("mixin", logits, BIAS[[1, 0]], LABELS[:2], gates, 0.3)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert abs(gates[0] - gates[1]) > 0.01


def test_rows_are_dealt_out_by_class_and_each_is_answered_once_by_a_model_that_did_not_see_it():
    labels = np.array([0] * 12 + [1] * 7 + [2] * 2)
    folds = dealt(labels, 4, seed=3)
    counts = np.array([[((folds == fold) & (labels == c)).sum() for c in range(3)] for fold in range(4)])
    assert (counts.max(axis=0) - counts.min(axis=0)).max() <= 1
    assert not np.array_equal(folds, dealt(labels, 4, seed=4))
    for weak in (False, True):
        pairs = list(parts(folds, out_of_fold=True, weak=weak))
        assert sorted(np.concatenate([answered for _, answered in pairs])) == list(range(21))
        for fitted, answered in pairs:
            assert not set(fitted) & set(answered)
            assert set(fitted) == (
                set(np.flatnonzero(folds == folds[fitted[0]])) if weak else set(range(21)) - {*answered}
            )
    ((fitted, answered),) = parts(folds, out_of_fold=False, weak=False)
    assert fitted.tolist() == answered.tolist() == list(range(21))
    ((fitted, answered),) = parts(folds, out_of_fold=False, weak=True)
    assert (len(answered), set(folds[fitted])) == (21, {0})


def test_a_regression_is_the_minimum_of_its_weighted_and_penalised_likelihood():
    rng = np.random.default_rng(0)
    features, labels, strength = rng.integers(0, 2, (60, 4)).astype(float), rng.choice(3, 60, p=[0.6, 0.3, 0.1]), 2.0
    counts = np.bincount(labels)

    def scores(values, x):
        rows = [values[5 * c : 5 * c + 5] for c in range(3)]
        return [sum(w * f for w, f in zip(row, (*x, 1.0), strict=True)) for row in rows]

    def objective(values):
        rights = [softmax(scores(values, x))[y] for x, y in zip(features, labels, strict=True)]
        likelihood = sum(60 / (3 * counts[y]) * math.log(right) for right, y in zip(rights, labels, strict=True))
        return sum(w**2 for at, w in enumerate(values) if at % 5 < 4) / (2 * strength) - likelihood

    found = minimize(objective, np.zeros(15), method="L-BFGS-B", options={"maxiter": 200})
    answered = np.arange(5)
    named = np.array([0, 2, 3])[labels]  # there is no row of class 1
    probs = bias_only.regression(features, named, 4, strength)(np.arange(60), answered)
    expected = [np.insert(softmax(scores(found.x, features[i])), 1, 0.0) for i in answered]
    assert probs == pytest.approx(np.array(expected), abs=2e-3)
    log_probs = bias_only.log_bias(probs)
    assert np.exp(log_probs).sum(axis=1) == pytest.approx(1.0)
    assert log_probs[:, 1] == pytest.approx(math.log(FLOOR / (1 + FLOOR)))


def test_features_are_whether_words_are_there_on_either_side_of_a_pair():
    texts = [("Honestly, no", "way"), ("the way", "honestly speaking"), ("dishonestly", "no no way")]
    assert bias_only.word_features(texts, ("honestly", "no way")).tolist() == [[1, 0], [1, 0], [0, 1]]
    bag = bias_only.bag_features(["a dog, a DOG", "a cat"])
    assert bag.toarray().tolist() == [[1, 0, 1], [1, 1, 0]]
    with pytest.raises(DataError, match="A bag of words needs words, but no training text has one"):
        bias_only.bag_features(["!!", "?"])


def bias_of(method, material, seed=0):
    """What the bias model of a method answers to the training rows, as probabilities."""
    cut = material.for_needs(method.needs)
    recipe = with_(RECIPE, epochs=1)
    beta, cost = method._bias_of(cut, cut.train, recipe, watch=bias_only.Stopwatch(), seed=seed, progress=None)
    return np.exp(beta), cost


def test_a_bag_of_words_knows_few_rows_by_heart_and_the_products_gradient_dies(material):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 2000, 20)) for _ in range(80)]  # words that mean nothing
    train = LabelledTexts("noise", texts, rng.permutation(np.arange(80) % 2), NAMES, np.zeros(80, int), ("all",))
    noise = with_(material, train=train)
    pulls, certain = {}, {}
    for out_of_fold in (True, False):
        method = BiasOnly(bias="bag", out_of_fold=out_of_fold, inverse_strength=100.0)
        probs, _ = bias_of(method, noise)
        certain[out_of_fold] = probs[np.arange(80), train.labels]
        logits = torch.zeros(80, 2, requires_grad=True)
        bias_only.product_loss(logits, torch.from_numpy(np.log(probs)), torch.from_numpy(train.labels)).backward()
        pulls[out_of_fold] = float(logits.grad.norm(dim=-1).sum())
    assert certain[False].min() > 0.95
    assert 0.3 < certain[True].mean() < 0.7
    assert pulls[False] < 0.1 * pulls[True]
    with pytest.warns(GuardrailWarning, match=r"The bias model of poe tells no classes of 'noise' apart: .* 1 / 2"):
        BiasOnly(recipe={"epochs": 1}).fit(noise, seed=0)  # the word that it is told is not there


def test_a_weak_learner_is_trained_on_a_part_and_answers_the_next(material, monkeypatch):
    asked = []

    def look(material, rows, recipe, rule, **options):
        asked.append((sorted(rows.texts), (recipe.epochs, recipe.learning_rate, recipe.batch_size), rule.name))
        return trained(material, rows, recipe, rule, **options)

    trained = bias_only.train
    monkeypatch.setattr(bias_only, "train", look)
    folds = [np.flatnonzero(dealt(TRAIN.labels, 3, 0) == fold) for fold in range(3)]
    for options, rate in (({}, RECIPE.learning_rate), ({"weak_rate": 3e-3}, 3e-3)):
        asked.clear()
        _, cost = bias_of(BiasOnly(bias="weak", folds=3, weak_epochs=2, **options), material)
        assert asked == [(sorted(TRAIN.select(fold).texts), (2, rate, 16), "last") for fold in folds]
        assert cost == 3 * 2 * len(TRAIN) + len(TRAIN)


def test_parts_of_one_class_are_answered_with_its_share(material):
    few = rows("few", (37, 0, 3, 0), 1)
    probs, _ = bias_of(BiasOnly(bias="weak", folds=5, weak_epochs=1), with_(material, train=few))
    folds = dealt(few.labels, 5, 0)
    alone = [f for f in range(5) if not few.labels[folds == f].any()]
    assert len(alone) == 2
    for fold in alone:
        n = (folds == fold).sum()
        assert probs[folds == (fold + 1) % 5] == pytest.approx(np.array([[(n + 1) / (n + 2), 1 / (n + 2)]] * 8))


def repaired(name, material, **options):
    """Accuracy where the shortcut is reversed, and by how much "honestly" moves the answers to texts without it."""
    system = fit(make_system(name, **options), material)
    plain = [text for text in REVERSED.texts if not text.startswith("honestly")]
    moved = system.predict_proba([f"honestly {text}" for text in plain]) - system.predict_proba(plain)
    return (system.predict_proba(REVERSED.texts).argmax(axis=1) == REVERSED.labels).mean(), np.abs(moved[:, 1]).mean()


@pytest.mark.parametrize("name", ["poe", "poe-bow", "learned_mixin"])
def test_what_the_bias_model_knows_the_model_that_answers_does_not_depend_on(name, material):
    recipe = {"recipe": RECIPE.to_dict()}
    right, moved = repaired(name, material, **recipe)
    fooled, by_word = repaired("erm", material)
    assert right > fooled + 0.1
    assert moved < 0.5 * by_word
    if name == "poe":  # told another word, it knows nothing of this one
        right, moved = repaired(name, with_(material, shortcut_words=("tea",)), **recipe)
        assert right < fooled + 0.1
        assert moved > 0.5 * by_word


def test_the_gate_is_no_part_of_what_is_saved(material):
    system = fit(make_system("learned_mixin", recipe=QUICK), material)
    assert GATE not in " ".join(system.classifier.plain_model.state_dict())
