"""Every loss and selection rule against a slow, literal evaluation of its formula."""

import copy
import math
import types

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from shortcut_bench.methods import c2l, ltgr
from shortcut_bench.methods.controls import mean_over_variants
from shortcut_bench.methods.dfr import Standardiser
from shortcut_bench.methods.entropy import scaled_cosine, scaled_entropy, softmax_entropy
from shortcut_bench.methods.group_dro import GroupDroLoss, group_uniform_weights
from shortcut_bench.methods.nfl import ConstrainedOutputs, ConstrainedParameters
from shortcut_bench.methods.same_budget import bias_fit, em_prior
from shortcut_guardrail.models.classifier import TextClassifier
from tiny_models import tiny_bert

GENERATOR = torch.Generator().manual_seed(0)


def random_logits(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64) * 2.0


def softmax(values):
    powers = np.exp(values)
    return powers / powers.sum()


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def test_entropy_is_that_of_the_softmax_and_thresholds_scale_from_the_sources_1000_classes():
    logits = random_logits(5, 4)
    literal = [-(p * np.log(p)).sum() for p in map(softmax, logits.numpy())]
    assert softmax_entropy(logits).tolist() == pytest.approx(literal)
    of_source = 0.4 * math.log(1000)
    assert [scaled_entropy(of_source, n) for n in (1000, 4)] == pytest.approx([of_source, 0.4 * math.log(4)])
    assert [scaled_cosine(0.05, n) for n in (1000, 10, 2)] == pytest.approx([0.05, 0.5, 1.0])


class Says:
    """A model that answers a batch with the logits it is given."""

    def __init__(self, logits):
        self._logits = logits

    def __call__(self, **inputs):
        assert set(inputs) == {"input_ids"}, "labels are the loss's own matter"
        return types.SimpleNamespace(logits=self._logits)


def test_group_dro_is_its_update_rule_for_the_rows_that_each_batch_holds():
    step_size, adjustment, counts = 0.3, 2.0, [3, 2, 0, 3]
    groups = np.array([0, 1, 0, 3, 0, 1, 3, 3])
    loss = GroupDroLoss(groups, np.array(counts), step_size=step_size, adjustment=adjustment)
    q = np.array([1, 1, 0, 1]) / 3
    assert loss.weights.tolist() == pytest.approx(q)
    for rows in ([5, 2, 0, 3], [7, 6, 3, 4], [1, 5, 1, 5]):
        labels, logits = [row % 2 for row in rows], torch.randn(4, 2, generator=GENERATOR)
        inputs = {"input_ids": torch.zeros(4, 1), "labels": torch.tensor(labels)}
        found = loss.loss(Says(logits), inputs, torch.tensor(rows)).item()
        nll = np.array([-math.log(softmax(row)[y]) for row, y in zip(logits.numpy(), labels, strict=True)])
        means = np.array([nll[groups[rows] == g].mean() if (groups[rows] == g).any() else 0.0 for g in range(4)])
        q = q * np.exp(step_size * (means + [adjustment / math.sqrt(c) if c else 0.0 for c in counts]))
        q /= q.sum()
        assert found == pytest.approx(q @ means, rel=1e-5)
        assert loss.weights.tolist() == pytest.approx(q, rel=1e-5)


def test_ltgr_takes_the_targets_of_the_rows_that_the_batch_holds():
    targets = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    rows, labels, weight = [2, 0], [1, 0], 0.8
    logits = torch.randn(2, 2, generator=GENERATOR)
    inputs = {"input_ids": torch.zeros(2, 1), "labels": torch.tensor(labels)}
    found = ltgr._Distillation(targets, weight).loss(Says(logits), inputs, torch.tensor(rows)).item()
    expected = 0.0
    for answer, row, label in zip(logits.numpy(), rows, labels, strict=True):
        log_probs = np.log(softmax(answer))
        expected -= ((1 - weight) * log_probs[label] + weight * targets[row].numpy() @ log_probs) / len(rows)
    assert found == pytest.approx(expected, rel=1e-5)


def test_group_uniform_drawing_gives_each_group_the_same_share():
    groups = np.array([0, 0, 0, 0, 1, 3, 3])
    weights = group_uniform_weights(groups, 4)
    assert [weights[groups == g].sum() for g in (0, 1, 3)] == pytest.approx([1.0, 1.0, 1.0])


def padded_inputs():
    ids = torch.tensor([[2, 7, 8, 9, 10, 3], [2, 11, 3, 0, 0, 0]])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([0, 1])}


def literal_cross_entropy(logits, labels):
    """The mean of -log P(y), row by row."""
    losses = [-torch.log(row.softmax(-1)[label]) for row, label in zip(logits, labels.tolist(), strict=True)]
    return torch.stack(losses).mean()


def moved(model):
    """Every parameter a little elsewhere, the head's included."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return model


def test_the_loss_of_nfl_cp_is_cross_entropy_and_so_many_times_the_squared_distance_of_the_weights():
    factor = 0.5
    model, tokenizer = tiny_bert(n_classes=2)
    start = copy.deepcopy(dict(model.bert.named_parameters()))
    objective = ConstrainedParameters(factor)
    objective.begin(model, tokenizer)
    moved(model)
    inputs = padded_inputs()
    held = {n: p for n, p in model.bert.named_parameters() if n.endswith(".weight") and "LayerNorm" not in n}
    ordinary = literal_cross_entropy(model(**inputs).logits, inputs["labels"])
    penalty = sum((weight - start[name].detach()).square().sum() for name, weight in held.items())
    loss = objective.loss(model, inputs, torch.arange(2))
    assert loss.item() == pytest.approx(ordinary.item() + factor * penalty.item(), rel=1e-5)
    assert min(ordinary.item(), penalty.item()) > 0.1
    # The gradient of what is held pulls back to the start; head, biases and normalisation have that of the answer.
    values = dict(model.named_parameters())
    names = ["bert.pooler.dense.weight", "classifier.weight", "bert.pooler.dense.bias"]
    pulls = [2 * factor * (held["pooler.dense.weight"] - start["pooler.dense.weight"]), 0, 0]
    plain = torch.autograd.grad(ordinary, [values[name] for name in names])
    found = torch.autograd.grad(loss, [values[name] for name in names])
    for gradient, own, pull in zip(found, plain, pulls, strict=True):
        assert torch.allclose(gradient, own + pull, rtol=1e-4, atol=1e-5)


def test_the_loss_of_nfl_co_is_cross_entropy_and_so_many_times_the_distance_of_the_tokens_outputs():
    factor = 0.5
    model, tokenizer = tiny_bert(n_classes=2, initializer_range=0.1)
    start = copy.deepcopy(model.bert)
    model.train()  # the model that is trained has dropout, the one that it is held to has none
    objective = ConstrainedOutputs(factor, attend_padding=False)
    objective.begin(model, tokenizer)
    moved(model)
    inputs = padded_inputs()
    torch.manual_seed(4)
    loss = objective.loss(model, inputs, torch.arange(2))
    torch.manual_seed(4)
    output = model(**inputs, output_hidden_states=True)
    ordinary = literal_cross_entropy(output.logits, inputs["labels"])
    distances = []
    for ids, mask, hidden in zip(inputs["input_ids"], inputs["attention_mask"], output.hidden_states[-1], strict=True):
        length = int(mask.sum())
        with torch.no_grad():
            known = start(input_ids=ids[None, :length]).last_hidden_state[0]  # by itself, without padding
        cosines = [(h @ k) / (h.norm() * k.norm()) for h, k in zip(hidden[:length], known, strict=True)]
        distances.append(1 - sum(cosines) / length)
    expected = ordinary + factor * sum(distances) / 2
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert min(ordinary.item(), *(distance.item() for distance in distances)) > 0.01
    weight = model.bert.encoder.layer[0].output.dense.weight
    found, literal = (torch.autograd.grad(value, weight, retain_graph=True)[0] for value in (loss, expected))
    assert torch.allclose(found, literal, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(found, torch.autograd.grad(ordinary, weight)[0], rtol=0.1, atol=1e-2)


def test_local_mutual_information_is_its_formula_and_each_label_has_a_head():
    words = [[1, 2, 2], [1], [1, 3], [2]]
    labels = np.array([0, 0, 1, 1])
    found = ltgr.local_mutual_information([np.array(ids) for ids in words], labels)
    occurrences = [(word, label) for ids, label in zip(words, labels.tolist(), strict=True) for word in ids]
    for word, label in set(occurrences):
        together = occurrences.count((word, label))
        p_label_given_word = together / sum(w == word for w, _ in occurrences)
        p_label = sum(y == label for _, y in occurrences) / len(occurrences)
        literal = together / len(occurrences) * math.log(p_label_given_word / p_label)
        assert found[word, label] == pytest.approx(literal)
    assert found.keys() == set(occurrences)
    assert found[2, 0] == pytest.approx(2 / 7 * math.log((2 / 3) / (4 / 7)))  # it occurs twice in one text
    lmi = {(1, 0): 0.3, (2, 0): 0.2, (3, 0): -0.1, (3, 1): 0.05, (1, 1): -0.2, (4, 1): 0.01}
    assert ltgr.head_words(lmi, 0.01) == {0: {1}, 1: {3}}  # 0.2 is above 0.05, but of another label
    assert ltgr.head_words(lmi, 0.5) == {0: {1, 2}, 1: {3, 4}}
    assert ltgr.head_words({(2, 0): 0.1, (1, 0): 0.1}, 0.5) == {0: {1}}


def test_a_text_prefers_its_labels_head_if_one_of_its_two_leading_words_is_in_it(bag):
    encoded = TextClassifier(*bag).encode(["honestly the room was bad", "the room"])
    scores = [np.array([9, 0.1, 0.5, 0.3, 0.2, 0.4, 9]), np.array([9, 0.2, 0.1, 9])]
    labels = np.array([1, 0])

    def preference(*words, of, **options):
        heads = {of: set(bag[1].convert_tokens_to_ids(words))}
        return ltgr.head_preference(scores, encoded, labels, heads, **options).tolist()

    # Of the words of the first text "the" leads, then "bad", then "room".
    assert preference("the", of=1) == [1, 0]
    assert preference("honestly", "bad", of=1) == [1, 0]
    assert preference("honestly", "room", "was", of=1) == [0, 0]
    assert preference("the", of=0) == [0, 1]
    assert preference("bad", of=1, top=1) == [0, 0]
    assert preference("[CLS]", "[SEP]", of=1) == [0, 0]  # the template is no word


def test_early_agreement_is_a_cosine_where_the_answers_are_the_same(bag):
    encoded = TextClassifier(*bag).encode(["honestly the room was bad", "the great room", "the room", "bad food"])
    rng = np.random.default_rng(0)
    early, final = ([rng.random(len(ids)) for ids in encoded.input_ids] for _ in range(2))
    final[2][:] = 0
    logits = np.array([[1, 0], [1, 0], [0, 1], [0, 2]], dtype=np.float32)
    others = np.array([[3, 1], [0, 1], [0, 1], [1, 2]], dtype=np.float32)
    # By Eq. 3; what the template added, the first and the last token, is left out.
    literal = [cosine(a[1:-1], b[1:-1]) if b.any() else 0 for a, b in zip(early, final, strict=True)]
    for second, expected in ((others, [literal[0], 0, 0, literal[3]]), (logits, literal)):
        found = ltgr.early_agreement(ltgr.Attributions(early, logits), ltgr.Attributions(final, second), encoded)
        assert found.tolist() == pytest.approx(expected)
    assert literal[1] > 0.1


def test_smoothed_targets_are_powers_of_the_teachers_answer_by_a_degree_from_0_to_1():
    logits, degree = random_logits(4, 3), torch.tensor([0.0, 0.3, 0.7, 1.0], dtype=torch.float64)
    literal = [softmax((1 - b) * row) for row, b in zip(logits.numpy(), degree.numpy(), strict=True)]
    assert ltgr.smoothed_targets(logits, degree).numpy() == pytest.approx(np.stack(literal))
    degree = ltgr.shortcut_degree(np.array([1.0, 0.0, 1.0]), np.array([0.5, -0.5, -0.5]))
    assert degree.tolist() == pytest.approx([1.0, 0.0, 0.5])
    assert ltgr.shortcut_degree(np.ones(3), np.ones(3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_integrated_gradients_are_captums_on_a_transformer(name, family):
    captum = pytest.importorskip("captum.attr")
    model, tokenizer = family(name)
    classifier = TextClassifier(model, tokenizer)
    encoded = classifier.encode(["honestly the room was bad", "a great place and we would come back"])
    labels = np.array([1, 0])
    ours = ltgr.integrated_gradients(classifier, encoded, labels, steps=20)
    assert ours.logits == pytest.approx(classifier.predict_logits(encoded), abs=1e-5)
    for i in range(2):
        ids = torch.from_numpy(encoded.input_ids[i].astype(np.int64))[None]

        def probability(vectors):
            attention = torch.ones(vectors.shape[:2], dtype=torch.long)
            return model(inputs_embeds=vectors, attention_mask=attention).logits.softmax(-1)

        reference = captum.IntegratedGradients(probability).attribute(
            model.get_input_embeddings()(ids).detach(), 0.0, int(labels[i]), n_steps=20, method="riemann_right"
        )
        assert ours.scores[i] == pytest.approx(reference[0].norm(dim=-1).detach().numpy(), abs=1e-5)
        assert ours.scores[i].max() > 1e-3


def error_gradients(model, tokenizer, text, label, layer):
    """|| dCE(f(x), y) / de_t || of every token of one text by itself; e is what an embedding layer gives."""
    leaves = []

    def leaf(_module, _inputs, output):
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    handle = layer.register_forward_hook(leaf)
    logits = model(**tokenizer(text, return_tensors="pt")).logits
    handle.remove()
    (gradient,) = torch.autograd.grad(literal_cross_entropy(logits, torch.tensor([label])), leaves)
    return [math.sqrt(sum(x * x for x in row)) for row in gradient[0].tolist()]


@pytest.mark.parametrize(
    ("name", "batch_size", "packing"), [("bert", 1, True), ("bert", 64, False), ("distilbert", 3, True)]
)
def test_c2l_weighs_a_token_by_the_gradient_of_its_own_texts_error(name, batch_size, packing, texts, family):
    model, tokenizer = family(name)
    classifier = TextClassifier(model, tokenizer, batch_size=batch_size, packing=packing)
    encoded = classifier.encode(texts)
    answered = classifier.predict_logits(encoded).argmax(axis=1)
    labels = np.where(np.arange(len(texts)) % 2, answered, 1 - answered)  # true of every other text
    found = c2l.gradient_norms(classifier, encoded, labels)
    layer = model.base_model.embeddings.word_embeddings
    for text, norms, label, answer in zip(texts, found, labels.tolist(), answered.tolist(), strict=True):
        literal = error_gradients(model, tokenizer, text, label, layer)
        assert norms.tolist() == pytest.approx(literal, rel=1e-3, abs=1e-6)
        if answer != label:
            other = error_gradients(model, tokenizer, text, answer, layer)
            assert norms.tolist() != pytest.approx(other, rel=0.1)
        assert max(literal) > 1e-5


def test_importance_of_a_type_is_the_mean_over_its_occurrences(bag):
    encoded = TextClassifier(*bag).encode(["the room the", "the room"])
    norms = [np.arange(1.0, 6.0), np.array([10.0, 20.0, 30.0, 40.0])]
    found = c2l.importance_by_type(norms, encoded)
    the = (2.0 + 4.0 + 20.0) / 3
    assert found[0].tolist() == pytest.approx([(1 + 10) / 2, the, (3 + 30) / 2, the, (5 + 40) / 2])


def causal_tokens_one_by_one(model, encoded, importance, mask):
    """Position, whether a test found it, and the forward passes it took: one text and one copy at a time."""
    n_forward, positions, found = 0, [], []

    def answer(ids):
        nonlocal n_forward
        n_forward += 1
        with torch.no_grad():
            return int(model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits.argmax())

    for index, ids in enumerate(encoded.input_ids):
        places = sorted(np.flatnonzero(encoded.ordinary[index]), key=lambda place: -importance[index][place])
        own = answer(ids)
        positions.append(int(places[0]) if places else -1)
        found.append(False)
        for place in places:
            replaced = ids.copy()
            replaced[place] = mask
            if answer(replaced) != own:
                positions[-1], found[-1] = int(place), True
                break
    return positions, found, n_forward


@pytest.mark.parametrize("batch_size", [1, 5])
def test_causal_tokens_of_c2l_are_those_of_a_search_one_by_one(texts, batch_size, monkeypatch):
    model, tokenizer = tiny_bert(n_classes=5, seed=2)  # whose answers waver
    classifier = TextClassifier(model, tokenizer, batch_size=batch_size)
    encoded = classifier.encode([*texts, ""])  # the last has no ordinary token
    rng, mask = np.random.default_rng(0), tokenizer.mask_token_id
    importance = [rng.integers(0, 4, size=n).astype(float) for n in encoded.lengths]  # with ties
    positions, found, n_forward = causal_tokens_one_by_one(model, encoded, importance, mask)
    forwarded, answers = [], classifier.answers
    monkeypatch.setattr(classifier, "answers", lambda batch: (forwarded.append(len(batch.indices)), answers(batch))[1])
    causal = c2l.find_causal_tokens(classifier, encoded, importance, c2l.Replacer(mask))
    assert (causal.positions.tolist(), causal.found.tolist()) == (positions, found)
    assert causal.n_forward == n_forward == sum(forwarded)
    assert max(forwarded) <= batch_size
    assert positions[-1] == -1
    assert 0 < sum(found) < len(texts)


def test_the_loss_of_c2l_is_its_formula(bert):
    model, tokenizer = bert
    texts = ["room bad", "soup good", "bread awful"]  # two words: what the positive lost is the first
    encoded = TextClassifier(model, tokenizer).encode(texts)
    # The last ordinary token of every text but the first is causal.
    causal = c2l.CausalTokens(np.array([np.flatnonzero(mask)[-1] for mask in encoded.ordinary]), np.arange(3) > 0, 0)
    ids = {"mask_token_id": tokenizer.mask_token_id, "pad_token_id": tokenizer.pad_token_id}
    objective = c2l.TripletLoss(encoded, causal, 0.7, seed=0, **ids)
    objective.begin(model, tokenizer)
    inputs = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    inputs["labels"] = torch.tensor([0, 2, 1])
    loss = objective.loss(model, inputs, torch.arange(3))

    def embedding(text):
        return model.bert(**tokenizer(text, return_tensors="pt")).pooler_output[0].tolist()

    hinges = []
    for text in texts[1:]:  # the first has no triplet
        first, last = text.split()
        anchor, positive, negative = map(embedding, (text, f"[MASK] {last}", f"{first} [MASK]"))
        hinges.append(max(0.0, math.dist(anchor, positive) - math.dist(anchor, negative) + 1.0))
    ordinary = model(**inputs).loss.item()
    assert loss.item() == pytest.approx(ordinary + 0.7 * sum(hinges) / 2, abs=1e-4)
    assert sum(hinges) > 0.1
    assert loss.requires_grad
    first = {name: value[:1] for name, value in inputs.items()}
    alone = objective.loss(model, first, torch.tensor([0]))
    assert alone.item() == pytest.approx(model(**first).loss.item())


def test_mean_over_variants_leaves_empty_slots_out():
    probs = np.full((2, 3, 2), np.nan, dtype=np.float32)
    probs[0, 0], probs[0, 1] = [0.2, 0.8], [0.6, 0.4]
    original = np.array([[0.9, 0.1], [0.3, 0.7]], dtype=np.float32)
    assert mean_over_variants(probs, original).tolist() == pytest.approx(np.array([[0.4, 0.6], [0.3, 0.7]]))


def test_em_finds_the_prior_that_the_probabilities_were_shifted_from():
    rng = np.random.default_rng(0)
    target = np.array([0.2, 0.8])
    labels = rng.choice(2, size=20_000, p=target)
    p = 1 / (1 + np.exp(-2 * rng.normal(np.where(labels == 1, 1.0, -1.0), 1.0)))  # exact under a balanced source
    probs = np.stack([1 - p, p], axis=1)
    found = em_prior(probs, np.array([0.5, 0.5]))
    assert found.tolist() == pytest.approx(target.tolist(), abs=0.02)
    weighted = probs * found
    fixed = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
    assert fixed.tolist() == pytest.approx(found.tolist(), abs=1e-6)
    assert abs(probs.mean(axis=0)[1] - target[1]) > 0.05  # counting answers would not have


def test_bias_fit_is_where_the_penalised_likelihood_is_flat():
    rng = np.random.default_rng(1)
    log_probs = np.log(rng.dirichlet(np.ones(3), size=30))
    labels = rng.choice(3, size=30, p=[0.7, 0.3, 0.0])
    shift = bias_fit(log_probs, labels)

    def objective(b):
        right = [softmax(row + b)[label] for row, label in zip(log_probs, labels, strict=True)]
        return 0.5 * (b**2).sum() - np.log(right).sum()

    assert min(objective(shift + step * axis) for axis in np.eye(3) for step in (-1e-2, 1e-2)) > objective(shift)
    assert shift[0] > shift[1] > shift[2]


def test_standardiser_is_scikit_learns_also_where_a_feature_never_varies():
    rng = np.random.default_rng(3)
    values = rng.normal(3.0, 5.0, size=(40, 4))
    values[:, 2] = 7.0
    assert Standardiser.of(values)(values) == pytest.approx(StandardScaler().fit_transform(values))
