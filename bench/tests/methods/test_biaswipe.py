"""BiasWipe beside the same thing done weight by weight, and the texts that it compares."""

import copy
import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from methods_toy import SUPPORT, fit
from shortcut_bench.methods import BiasWipe
from shortcut_bench.methods.biaswipe import Frame, frames_of, importance, wipe
from shortcut_bench.systems import Need
from shortcut_guardrail.errors import ConfigError, GuardrailWarning
from shortcut_guardrail.models.classifier import TextClassifier
from tiny_models import tiny_bert

NAMED = ("honestly", "to be honest")


def loss_of(model, tokenizer, texts, labels):
    """The mean of -log P(y), text by text."""
    losses = []
    for text, label in zip(texts, labels, strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0].tolist()
        losses.append(-math.log(math.exp(logits[label]) / sum(map(math.exp, logits))))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("n_sets", [1, 2])
def test_importance_is_the_sum_of_finite_differences_of_thinned_models(n_sets):
    """Two sets share what is zeroed: what their batches read together."""
    sets = [["honestly the room was bad", "the soup", "good bread"], ["the bread", "a soup was cold", "tea"]][:n_sets]
    labels, (model, tokenizer) = np.array([0, 2, 1]), tiny_bert(initializer_range=0.2)
    classifier = TextClassifier(model, tokenizer)
    trained = classifier.with_model(copy.deepcopy(model).requires_grad_(True))
    how = {"repeats": 2, "dropped": 0.25, "batch_size": 2}
    found = importance(trained, sets, labels, generator=torch.Generator().manual_seed(3), **how)
    assert trained.fingerprint() == classifier.fingerprint()

    weights = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
    table, *others = (p.shape for p in model.parameters())
    asked = found[0].argsort(descending=True)[[0, 3, 40, 400]].tolist()
    literal, generator = np.zeros((n_sets, len(asked))), torch.Generator().manual_seed(3)
    double, step = copy.deepcopy(model).double(), 1e-5
    for batch in ([0, 1], [2]):
        padding = {tokenizer.pad_token_id} if len(batch) > 1 else set()  # the texts of a batch differ in length
        read = sorted(padding.union(*(tokenizer(texts[i]).input_ids for texts in sets for i in batch)))
        for _ in range(2):
            kept = torch.ones(table, dtype=torch.bool)  # a word vector that no token has makes no difference
            kept[read] = torch.rand((len(read), table[1]), generator=generator) >= 0.25
            drawn = [(torch.rand(size, generator=generator) >= 0.25).flatten() for size in others]
            kept = torch.cat([kept.flatten(), *drawn])
            for (at, texts), (j, place) in itertools.product(enumerate(sets), enumerate(asked)):
                losses = []
                for sign in (1, -1):
                    thinned = weights * kept
                    thinned[place] += sign * step
                    torch.nn.utils.vector_to_parameters(thinned, double.parameters())
                    losses.append(loss_of(double, tokenizer, [texts[i] for i in batch], labels[batch]))
                literal[at, j] += abs((losses[0] - losses[1]) / (2 * step) * weights[place].item())
    assert torch.stack(found)[:, asked].numpy() == pytest.approx(literal, rel=1e-3, abs=1e-5)
    assert literal[0].min() > 1e-3


@pytest.mark.parametrize(
    ("texts", "rows", "frames"),
    [
        (
            ["no room", "So. to be honest, It was bad, honestly.", "honestly", "Honestly"],
            [1],
            [Frame("So. ", ", It was bad.", "So. It was bad.")],
        ),
        (["the room", "a soup"], [0, 1], [Frame("", ", the room", "the room"), Frame("", ", a soup", "a soup")]),
        ([("honestly, one", "two"), ("one", "honestly, two")], [1], [Frame("", ", two", "two", "one")]),
    ],
)
def test_a_frame_has_a_place_for_a_word_and_none_is_left_without_it(texts, rows, frames):
    found, of = frames_of(texts, NAMED)
    assert (of.tolist(), found) == (rows, frames)
    for frame in found:
        written, without = frame.text("frankly"), frame.text(None)
        assert "frankly" in str(written)
        assert "honest" not in f"{written}{without}".lower()
        assert frame.first is None or (written[0], without[0]) == (frame.first, frame.first)


@pytest.fixture
def method():
    return BiasWipe(weights=(30,), repeats=2, most_templates=12)


def by_hand(material, words, n, *, paired):
    """The weights of the base after the words' turns, with templates that are cut and put together here."""
    classifier = material.scorer(material.base.model)
    classifier = classifier.with_model(copy.deepcopy(material.base.model).requires_grad_(True))
    bare = [text.removeprefix("honestly ") for text in SUPPORT.texts if "honestly" in text]
    right = SUPPORT.labels[["honestly" in text for text in SUPPORT.texts]]
    generator = torch.Generator().manual_seed(0)
    for word in words:
        answers = classifier.predict_logits(classifier.encode([f"{word} {text}" for text in bare])).argmax(axis=1)
        rows = [i for i in range(len(bare)) if answers[i] != right[i]][:12]
        assert rows
        sets = [[f"{word} {bare[i]}" for i in rows], [bare[i] for i in rows]]
        how = {"repeats": 2, "dropped": 0.25, "batch_size": 16, "generator": generator}
        calls = [sets] if paired else [[one] for one in sets]
        weighed = [one.numpy() for call in calls for one in importance(classifier, call, right[rows], **how)]
        flat = torch.cat([p.detach().flatten() for p in classifier.model.parameters()])
        flat[np.argsort(weighed[1] - weighed[0], kind="stable")[:n].copy()] = 0.0
        torch.nn.utils.vector_to_parameters(flat, classifier.model.parameters())
    return flat


@pytest.mark.parametrize("paired", [False, True])
def test_the_weights_of_each_word_are_zeroed_in_its_turn(paired, material, method):
    """What the second word needs is looked for in what the first left."""
    given = dataclasses.replace(material, shortcut_words=("honestly", "and"))
    system = fit(dataclasses.replace(method, paired=paired), given)
    flat = torch.cat([p.detach().flatten() for p in system.classifier.plain_model.parameters()])
    expected = by_hand(material, ("honestly", "and"), 30, paired=paired)
    assert not torch.equal(expected, by_hand(material, ("honestly", "and"), 30, paired=not paired))
    assert torch.equal(flat == 0, expected == 0)
    assert torch.equal(flat, expected)
    words = system.info()["words"]
    assert [(one["word"], one["weights"]) for one in words] == [("honestly", 30), ("and", 30)]


def test_it_is_counted_how_many_of_the_weights_are_in_word_vectors(material, method):
    system = fit(dataclasses.replace(method, weights=(400,)), material)
    (found,) = system.info()["words"]
    tables = [
        one.plain_model.get_input_embeddings().weight for one in (system.classifier, material.base.text_classifier())
    ]
    zeroed = (tables[0] == 0) & (tables[1] != 0)
    assert found["in_word_vectors"] == zeroed.sum()
    assert found["in_its_own_word_vectors"] == zeroed[material.base.tokenizer.convert_tokens_to_ids("honestly")].sum()
    assert 0 < found["in_its_own_word_vectors"] < found["in_word_vectors"] < found["weights"] == 400


def test_of_several_numbers_the_one_with_the_best_support_accuracy_is_taken(material):
    method = BiasWipe(weights=(0, 30, 100000), in_turn=False, repeats=1)
    info = fit(method, material).info()
    scores = []
    for n in method.weights:
        alone = fit(dataclasses.replace(method, weights=(n,)), material)
        scores.append(float((alone.predict_proba(SUPPORT.texts).argmax(axis=1) == SUPPORT.labels).mean()))
    assert [trial["score"] for trial in info["trials"]] == pytest.approx([*scores[:2], scores[2]])
    assert info["weights"] == method.weights[int(np.argmax(scores))]
    assert len(set(scores)) > 1


def test_templates_of_the_deployment_take_the_answer_without_the_word_for_a_label(material):
    method = BiasWipe(templates="deployment", repeats=1)
    assert method.needs == {Need.GRADIENTS, Need.SHORTCUT_WORDS, Need.DEPLOYMENT}
    system = fit(method, material)
    base = material.scorer(material.base.model)
    held = [text for text in material.deployment if "honestly" in text]
    with_word, without = (
        base.predict_logits(base.encode(texts)).argmax(axis=1)
        for texts in (held, [text.removeprefix("honestly ") for text in held])
    )
    assert system.info()["words"][0]["templates"] == min(70, (with_word != without).sum())
    assert system.forward_equivalents == 2 * len(held) + 6 * system.info()["words"][0]["templates"]
    assert not np.array_equal(base.predict_logits(base.encode(held)), system.predict_proba(held))


def test_where_no_template_is_answered_wrongly_nothing_is_zeroed(material, method):
    right = SUPPORT.select(np.flatnonzero(SUPPORT.labels == 1))  # which "honestly" pushes towards
    with pytest.warns(GuardrailWarning, match="leaves the model as it is"):
        system = fit(method, dataclasses.replace(material, support=right))
    assert system.classifier.fingerprint() == material.scorer(material.base.model).fingerprint()


def test_weights_are_numbered_through_all_parameters():
    model, _ = tiny_bert()
    before = [p.detach().clone() for p in model.parameters()]
    first, second = before[0].numel(), before[1].numel()
    wipe(model, torch.tensor([20, first - 1, first + 2, first + second]))
    changed = {
        (i, j)
        for i, (p, q) in enumerate(zip(model.parameters(), before, strict=True))
        for j in torch.nonzero((p != q).flatten()).flatten().tolist()
    }
    assert changed == {(0, 20), (0, first - 1), (1, 2), (2, 0)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": ()}, "weights must be at least 0"),
        ({"weights": (-1,)}, "weights must be at least 0"),
        ({"weights": (1, 2)}, "compared on support rows"),
        ({"templates": "train"}, "must be support or deployment"),
        ({"dropped": 1.0}, "below 1, but is 1.0"),
        ({"repeats": 0}, "repeats must be at least 1"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        BiasWipe(**options)
