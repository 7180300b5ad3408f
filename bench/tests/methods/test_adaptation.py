"""Test-time adaptation on LayerNorm: which parameters, which step, which resets, and what each batch answers."""

import copy
import math

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from methods_toy import DEPLOYMENT, REVERSED, fit
from shortcut_bench.methods import EATA, SAR, DeYO, Tent
from shortcut_bench.methods.adaptation import Start, norm_parameters
from shortcut_bench.methods.deyo import DeyoAdapter, destroy
from shortcut_bench.methods.eata import EataAdapter
from shortcut_bench.methods.entropy import softmax_entropy
from shortcut_bench.methods.sar import SarAdapter
from shortcut_bench.systems import predict_proba
from shortcut_guardrail.errors import ConfigError
from tiny_models import build_family


def adapter_of(material, method, kind, *rest):
    """What adapts by a method, on a copy of the base classifier."""
    return kind(Start.of(method, material, 0).classifier(), method, *rest)


def batches_of(adapter, *, n=1, size=16):
    """The first deployment texts, so many to a batch."""
    encoded = adapter.classifier.encode(DEPLOYMENT)
    return [adapter.classifier.collate(encoded, range(size * i, size * i + size)) for i in range(n)]


def copies(values):
    return [value.detach().clone() for value in values]


def entropies_of(probs):
    return -(probs * probs.log()).sum(-1)


def test_tent_trains_38400_numbers_of_a_bert_base():
    with torch.device("meta"):
        model = BertForSequenceClassification(BertConfig())
    assert sum(p.numel() for p in norm_parameters(model).values()) == 38_400
    # The top quarter is 3 blocks of 12, with two layers of 2 * 768 each.
    assert sum(p.numel() for p in norm_parameters(model, skip_top=0.25).values()) == 38_400 - 3 * 2 * 2 * 768


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "deberta-v2", "mpnet", "modernbert"])
def test_normalisation_layers_are_found_in_every_family(family):
    model, _ = build_family(family)
    names = norm_parameters(model)
    assert all("norm" in name.lower() or "LayerNorm" in name for name in names)
    assert 0 < len(norm_parameters(model, skip_top=0.5)) < len(names)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_step_of_tent_is_one_step_of_its_optimizer_on_the_mean_entropy(optimizer, material):
    method = Tent(batch_size=len(DEPLOYMENT), optimizer=optimizer, learning_rate=0.1)
    result = fit(method, material).classifier.plain_model
    model = copy.deepcopy(material.base.model).requires_grad_(False)
    classifier = material.scorer(model)
    classifier.model = model
    values = [p.requires_grad_(True) for p in norm_parameters(model).values()]
    batch = classifier.collate(classifier.encode(DEPLOYMENT), range(len(DEPLOYMENT)))
    logits = model(**batch.model_inputs()).logits
    gradients = torch.autograd.grad(entropies_of(logits.softmax(-1)).mean(), values)
    for (name, found), value, gradient in zip(norm_parameters(result).items(), values, gradients, strict=True):
        # The first step of Adam is as long for every number: m / sqrt(v), both without their bias, is the sign. Those
        # of which the gradient is lost in rounding are left out.
        clear = gradient.abs() > 1e-5 if optimizer == "adam" else torch.ones_like(gradient, dtype=bool)
        direction = gradient / (gradient.abs() + 1e-8) if optimizer == "adam" else gradient
        assert clear.any()
        assert torch.allclose(found[clear], (value - 0.1 * direction)[clear], atol=1e-4), name
    assert any(float(gradient.abs().max()) > 1e-3 for gradient in gradients)


def test_the_base_classifier_is_left_as_it_was_and_all_but_normalisation_is_shared_in_value(material):
    before = {name: value.clone() for name, value in material.base.model.state_dict().items()}
    adapted = fit(Tent(batch_size=16), material).classifier.plain_model.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in material.base.model.state_dict().items())
    changed = {name for name in before if not torch.equal(adapted[name], before[name])}
    assert changed
    assert all("LayerNorm" in name for name in changed)


def test_fisher_information_and_penalty_are_their_sums(material):
    method = EATA(batch_size=8, fisher_weight=3.0)
    start = Start.of(method, material.for_needs(method.needs), 0)
    classifier = start.classifier()
    source = classifier.encode(start.source[:24])
    adapter = EataAdapter(classifier, method, source)
    literal = {name: torch.zeros_like(value) for name, value in adapter.parameters.items()}
    for first in range(0, 24, 8):
        batch = classifier.collate(source, range(first, first + 8))
        logits = classifier.model(**batch.model_inputs()).logits
        log_probs = logits.log_softmax(-1)
        loss = -sum(log_probs[i, int(logits[i].argmax())] for i in range(8)) / 8
        gradients = torch.autograd.grad(loss, list(adapter.parameters.values()))
        for name, gradient in zip(literal, gradients, strict=True):
            literal[name] += gradient**2 / 3
    for name, value in literal.items():
        assert torch.allclose(adapter.fisher[name], value, rtol=1e-4, atol=1e-9)
    assert adapter.penalty().item() == 0.0
    with torch.no_grad():
        for value in adapter.parameters.values():
            value.add_(0.5)
    expected = 3.0 * sum(float((value * 0.25).sum()) for value in literal.values())
    assert adapter.penalty().item() == pytest.approx(expected, rel=1e-4)


def test_two_steps_of_eata_are_its_filter_its_weights_and_its_anchor(material):
    method = EATA(batch_size=16, fisher_weight=5.0, learning_rate=0.05, entropy_margin=0.7)
    start = Start.of(method, material.for_needs(method.needs), 0)
    classifier = start.classifier()
    adapter = EataAdapter(classifier, method, classifier.encode(start.source))
    margin = 0.7 * math.log(2)
    adapter.cosine_margin = 0.9
    values = list(adapter.parameters.values())
    origin = copies(values)
    fisher = list(adapter.fisher.values())
    momentum = [torch.zeros_like(value) for value in values]
    mean, certain, used = None, [], []
    for batch in batches_of(adapter, n=2):
        here = copies(values)
        probs = classifier.logits(batch).softmax(-1)
        entropies = entropies_of(probs)
        chosen = [i for i in range(16) if entropies[i] < margin]
        certain.append(len(chosen))
        if mean is not None:
            alike = torch.cosine_similarity(mean[None], probs.detach()).abs().tolist()
            chosen = [i for i in chosen if alike[i] < 0.9]
        mine = probs[chosen].mean(0).detach()
        mean = mine if mean is None else 0.9 * mean + 0.1 * mine
        used.append(len(chosen))
        loss = sum(entropies[i] / torch.exp(entropies[i].detach() - margin) for i in chosen) / len(chosen)
        apart = [(value - o) ** 2 for value, o in zip(values, origin, strict=True)]
        loss = loss + 5.0 * sum((f * a).sum() for f, a in zip(fisher, apart, strict=True))
        gradients = torch.autograd.grad(loss, values)
        momentum = [0.9 * m + g for m, g in zip(momentum, gradients, strict=True)]
        adapter.step(batch)
        for value, before, moved in zip(values, here, momentum, strict=True):
            assert torch.allclose(value, before - 0.05 * moved, atol=1e-5)
    assert 0 < certain[0] < 16
    assert 0 < used[1] < certain[1]  # both filters had a say
    assert adapter.counts.used == sum(used)


def sar_on(material, **options):
    return adapter_of(material, SAR(batch_size=16, **options), SarAdapter)


def sam(adapter, batch, margin, radius):
    """The certain rows of a batch, those still certain at the worst point nearby, and there the entropy of all of the
    former and of the latter, each with its gradient; the parameters are as before."""
    classifier, values = adapter.classifier, list(adapter.parameters.values())
    start = copies(values)
    entropies = softmax_entropy(classifier.logits(batch))
    first = [i for i, entropy in enumerate(entropies.tolist()) if entropy < margin]
    gradients = torch.autograd.grad(sum(entropies[i] for i in first) / len(first), values)
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
    with torch.no_grad():
        for value, gradient in zip(values, gradients, strict=True):
            value.add_(radius * gradient / norm)
    again = softmax_entropy(classifier.logits(batch))
    second = [i for i in first if float(again[i].detach()) < margin]
    losses = [sum(again[i] for i in rows) / len(rows) for rows in (first, second)]
    slopes = [torch.autograd.grad(loss, values, retain_graph=True) for loss in losses]
    with torch.no_grad():
        for value, origin in zip(values, start, strict=True):
            value.copy_(origin)
    return (first, second), [float(loss.detach()) for loss in losses], slopes


def test_one_step_of_sar_is_sam_on_the_rows_that_are_certain_before_and_after_the_climb(material):
    adapter = sar_on(material, radius=0.2, learning_rate=0.01)
    (batch,) = batches_of(adapter)
    entropies = sorted(softmax_entropy(adapter.classifier.logits(batch)).tolist())
    margin = adapter.entropy_margin = (entropies[11] + entropies[12]) / 2  # 12 of the 16 are certain
    names, values = list(adapter.parameters), list(adapter.parameters.values())
    start = copies(values)
    (first, second), losses, (unfiltered, slopes) = sam(adapter, batch, margin, 0.2)
    assert 0 < len(second) < len(first) == 12

    adapter.step(batch)
    moves = [0.01 * slope for slope in slopes]
    for name, value, origin, move in zip(names, values, start, moves, strict=True):
        assert torch.allclose(value, origin - move, atol=1e-6), name
    assert adapter.average == pytest.approx(losses[1], rel=1e-5)
    assert adapter.counts.used == len(second)
    # Without the second filter it would be another step.
    assert max(float((0.01 * u - m).abs().max()) for u, m in zip(unfiltered, moves, strict=True)) > 1e-4


def test_sar_resets_by_the_moving_average_of_its_losses_and_not_by_the_last_one(material):
    """With a constant between the least loss and the least average, nine tenths of which are older."""
    adapter = sar_on(material, learning_rate=0.05)
    adapter.entropy_margin = math.log(2)
    batches, seen, averages = batches_of(adapter, n=5), [], []
    adapter.reset_below = 0.0
    for batch in batches:
        _, (_, loss), _ = sam(adapter, batch, adapter.entropy_margin, 0.05)
        averages.append(0.9 * averages[-1] + 0.1 * loss if averages else loss)
        seen.append(loss)
        adapter.step(batch)
        assert adapter.average == pytest.approx(averages[-1], rel=1e-5)
    between = (min(seen) + min(averages)) / 2
    assert min(seen) < between - 0.005 < between + 0.005 < min(averages)
    resets = []
    for constant in (between, min(averages) + 1e-3):
        again = sar_on(material, learning_rate=0.05)
        again.entropy_margin, again.reset_below = math.log(2), constant
        for batch in batches:
            again.step(batch)
        resets.append(again.counts.resets)
    assert resets[0] == 0 < resets[1]


def test_one_step_of_deyo_is_its_two_filters_and_its_weights(material):
    method = DeYO(batch_size=16, learning_rate=0.05, plpd_margin=0.01, filter_margin=0.71, entropy_margin=0.7)
    adapter = adapter_of(material, method, DeyoAdapter, np.random.default_rng(3))
    classifier, values = adapter.classifier, list(adapter.parameters.values())
    (batch,), here = batches_of(adapter), copies(values)
    probs = classifier.logits(batch).softmax(-1)
    entropies = entropies_of(probs)
    certain = [i for i in range(16) if entropies[i] < 0.71 * math.log(2)]
    mask = classifier.tokenizer.mask_token_id
    broken = destroy(batch, torch.tensor(certain), np.random.default_rng(3), how="shuffle", mask_token_id=mask)
    after = classifier.logits(broken).softmax(-1)
    answers = probs.argmax(-1).tolist()
    lost = {i: float((probs[i] - after[place])[answers[i]].detach()) for place, i in enumerate(certain)}
    kept = [i for i in certain if lost[i] > 0.01]
    weights = {i: math.exp(0.7 * math.log(2) - float(entropies[i].detach())) + math.exp(lost[i]) for i in kept}
    gradients = torch.autograd.grad(sum(weights[i] * entropies[i] for i in kept) / len(kept), values)
    assert 0 < len(kept) < len(certain) < 16

    adapter.step(batch)
    for value, before, gradient in zip(values, here, gradients, strict=True):
        assert torch.allclose(value, before - 0.05 * gradient, atol=1e-5)


@pytest.mark.parametrize("how", ["shuffle", "mask"])
def test_a_destroyed_text_keeps_its_template(how, material):
    classifier = material.scorer(material.base.model)
    batch = classifier.collate(classifier.encode(DEPLOYMENT), range(8))
    rows = torch.tensor([1, 3, 4])
    mask = classifier.tokenizer.mask_token_id
    destroyed = destroy(batch, rows, np.random.default_rng(0), how=how, mask_token_id=mask)
    assert not torch.equal(destroyed.input_ids, batch.input_ids[rows])
    for new, old, ordinary in zip(destroyed.input_ids, batch.input_ids[rows], batch.ordinary[rows], strict=True):
        assert torch.equal(new[~ordinary], old[~ordinary])
        if how == "shuffle":
            assert sorted(new[ordinary].tolist()) == sorted(old[ordinary].tolist())
        else:
            assert int((new == mask).sum()) == math.ceil(int(ordinary.sum()) / 2)


def test_online_answers_a_batch_before_it_adapts_to_it(material):
    texts = list(REVERSED.texts)
    system = fit(Tent(mode="online", batch_size=16, learning_rate=0.01), material)
    assert system.classifier is None
    base = predict_proba(material.scorer(material.base.model), texts)
    online = system.predict_proba(texts)
    assert online[:16] == pytest.approx(base[:16], abs=1e-5)
    assert online[16:] != pytest.approx(base[16:], abs=1e-5)
    # Every call starts anew.
    assert (system.predict_proba(texts) == online).all()
    assert system.info()["forward_equivalents_per_text"] == pytest.approx(2.0)


def test_an_online_eata_would_have_to_save_texts_and_says_so(material, tmp_path):
    system = fit(EATA(mode="online"), material)
    with pytest.raises(ConfigError, match="source texts whenever it starts"):
        system.save(tmp_path / "eata")
    assert not (tmp_path / "eata").exists()
