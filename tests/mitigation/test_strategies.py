"""How reliance is removed: each strategy is the base at strength 0, does what it says in between, and is undone."""

import numpy as np
import pytest
import torch
from peft.helpers import rescale_adapter_scale

from shortcut_guardrail import AdapterConfig, GuardrailConfig, SaliencyConfig, Shortcut, Shortcuts, TextClassifier
from shortcut_guardrail.attribution import find_important_tokens, masking_effects
from shortcut_guardrail.mitigation.guards import MaskGuard
from shortcut_guardrail.mitigation.strategies import Task, strategy_of
from shortcut_guardrail.text.edits import masked_texts
from shortcut_guardrail.text.finder import WordFinder

TARGETS = Shortcuts((Shortcut("honestly", "named"), Shortcut("good", "kept")))
ADAPTER = AdapterConfig(learning_rate=2e-2, epochs=3, batch_size=4)
KINDS = {
    "maskcl": {"strategy": "maskcl"},
    "maskcl, per input": {"strategy": "maskcl", "per_input": True},
    "distill": {"strategy": "distill"},
    "distill, per input": {"strategy": "distill", "per_input": True},
    "few-shot": {"strategy": "few-shot"},
    "mask": {"strategy": "mask"},
}
BEARING = [0, 2, 4, 7]  # of the eight texts of the fixture


def config(kind):
    return GuardrailConfig(saliency=SaliencyConfig(top_k=3), adapter=ADAPTER, **KINDS[kind])


@pytest.fixture(params=["packed", "padded", "deberta-v3", "longformer"])  # the last two cannot mix strengths
def classifier(bert, family, request):
    kind = request.param
    model = bert if kind in ("packed", "padded") else family(kind)
    return TextClassifier(*model, batch_size=3, packing=kind == "packed")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def fitted(classifier, encoded, kind):
    labels = np.arange(len(encoded)) % classifier.n_classes
    task = Task(classifier, encoded, TARGETS, config(kind), 0, support=(encoded, labels))
    strategy = strategy_of(task.config)
    return strategy.guard(classifier, task.config, TARGETS.finder, strategy.train(task)[0])


def logits_at(guard, encoded, strength):
    with guard.at(strength) as used:
        return used.predict_logits(encoded)


def test_strength_0_is_the_base_bit_for_bit_and_full_strength_is_not(classifier, texts, kind):
    encoded = classifier.encode(texts)
    base, guard = classifier.predict_logits(encoded), fitted(classifier, encoded, kind)
    np.testing.assert_array_equal(logits_at(guard, encoded, 0.0), base)
    change = np.abs(logits_at(guard, encoded, 1.0) - base).max(axis=1)
    assert change[BEARING].min() > 1e-3
    # Texts without a target keep the base's answer where that is asked for.
    rest = np.delete(change, BEARING)
    assert rest.max() > 1e-3 if kind in ("maskcl", "distill", "few-shot") else rest.max() == 0
    # All is undone, after an exception too.
    with pytest.raises(IndexError), guard.at(1.0) as used:
        used.predict_logits(encoded.select([99]))
    np.testing.assert_array_equal(classifier.predict_logits(encoded), base)
    assert not classifier.plain_model.get_input_embeddings()._forward_hooks
    assert not classifier.plain_model.get_input_embeddings()._forward_pre_hooks


def test_all_strengths_at_once_are_those_one_at_a_time_and_of_a_restored_guard(classifier, texts, kind):
    encoded = classifier.encode(texts)
    guard, strengths = fitted(classifier, encoded, kind), [0.0, 0.3, 1.0]
    together = guard.logits_by_strength(encoded, strengths)
    for row, strength in zip(together, strengths, strict=True):
        np.testing.assert_allclose(row, logits_at(guard, encoded, strength), atol=1e-4)
    assert np.abs(together[1] - together[2]).max() > 1e-3
    model = None if kind == "mask" else guard.adapted.model
    again = strategy_of(config(kind)).guard(classifier, config(kind), TARGETS.finder, model)
    # Only an adapter for all texts alike is plain PEFT.
    assert again.plain_peft_equivalent == guard.plain_peft_equivalent == (kind in ("maskcl", "distill", "few-shot"))
    np.testing.assert_array_equal(logits_at(again, encoded, 0.5), logits_at(guard, encoded, 0.5))


def test_a_guard_that_changes_no_weight_is_not_taken_for_the_base(classifier, texts):
    """What an unfinished audit recognises its model by."""
    guards = [fitted(classifier, classifier.encode(texts), kind) for kind in ("mask", "distill, per input")]
    guards.append(MaskGuard(classifier, Shortcuts(TARGETS.items[:1]).finder))  # without what is kept
    found = set()
    for guard in guards:
        for strength in (0.0, 0.5, 1.0):
            with guard.at(strength) as used:
                found.add(used.fingerprint())
    assert len(found) == 7
    assert classifier.fingerprint() in found


def test_texts_with_a_target_get_the_adapters_answer(classifier, texts):
    encoded = classifier.encode(texts)
    guard = fitted(classifier, encoded, "distill, per input")
    with rescale_adapter_scale(guard.adapted.model, 0.6):
        expected = guard.adapted.predict_logits(encoded)
        important = find_important_tokens(guard.adapted, encoded, SaliencyConfig(top_k=3))
    np.testing.assert_allclose(logits_at(guard, encoded, 0.6)[BEARING], expected[BEARING], atol=1e-4)
    # What such a guard depends on is what its adapter depends on there, and elsewhere what the base does.
    base = find_important_tokens(classifier, encoded, SaliencyConfig(top_k=3))
    with guard.at(0.6) as used:
        found = find_important_tokens(used, encoded, SaliencyConfig(top_k=3))
    expected = np.where(np.isin(np.arange(len(encoded)), BEARING)[:, None], important.scores, base.scores)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-3, atol=1e-5)


def test_full_strength_is_the_masked_text_where_no_target_is_important(classifier, texts):
    encoded = classifier.encode(texts)
    finder, mask = WordFinder(["honestly"]), classifier.tokenizer.mask_token_id
    positions, masking = finder.positions(encoded), MaskGuard(classifier, finder)
    masked = masked_texts(encoded, positions, mask)
    np.testing.assert_array_equal(logits_at(masking, encoded, 1.0), classifier.predict_logits(masked))
    with masking.at(1.0) as used:
        important = find_important_tokens(used, encoded, SaliencyConfig(top_k=34))
        effects = masking_effects(used, encoded, important.positions)
    base = find_important_tokens(classifier, encoded, SaliencyConfig(top_k=34))
    for i in BEARING:
        target = set(positions[i].tolist())
        assert not target & set(important.positions[i].tolist())
        assert target <= set(base.positions[i].tolist())
    # Each variant is the text with the target and one other token masked.
    both = masked_texts(encoded.select([0]), [np.append(positions[0], important.positions[0, 0])], mask)
    expected = torch.from_numpy(classifier.predict_logits(both)).softmax(-1)[0]
    np.testing.assert_allclose(effects.probs[0, 0], expected, atol=1e-5)


def test_in_between_the_word_vector_is_in_between(bag):
    classifier = TextClassifier(*bag)
    encoded, guard = classifier.encode(["honestly bad"]), MaskGuard(classifier, WordFinder(["honestly"]))
    # "honestly" weighs 4, "bad" -1, the mask token 0; logits are -/+ half of the sum.
    for strength in (0.25, 0.5, 1.0):
        expected = 4.0 * (1 - strength) - 1.0
        np.testing.assert_allclose(logits_at(guard, encoded, strength)[0], [-expected / 2, expected / 2], atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "albert", "electra", "deberta-v2", "modernbert"])
@pytest.mark.filterwarnings("ignore:.*ELECTRA:shortcut_guardrail.GuardrailWarning")
def test_masking_works_in_every_family(family, name):
    classifier = TextClassifier(*family(name))
    encoded, finder = classifier.encode(["honestly the soup was good", "the bread was good"]), WordFinder(["honestly"])
    masked = masked_texts(encoded, finder.positions(encoded), classifier.tokenizer.mask_token_id)
    guarded = logits_at(MaskGuard(classifier, finder), encoded, 1.0)
    np.testing.assert_allclose(guarded, classifier.predict_logits(masked), atol=1e-6)
    assert np.abs(guarded[0] - classifier.predict_logits(encoded)[0]).max() > 1e-5
