"""FairFil beside its formulas, pair by pair and number by number."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from methods_toy import DEPLOYMENT, OPTIONS, REVERSED, TRAIN, fit
from shortcut_bench.methods import FairFil
from shortcut_bench.methods.fairfil import Guess, Score, without_words, word_states
from shortcut_bench.methods.heads import features
from shortcut_bench.registry import make_system
from shortcut_guardrail.errors import ConfigError, GuardrailWarning, RunError
from shortcut_guardrail.text import WordFinder

QUICK = OPTIONS["fairfil"]
HONESTLY = WordFinder(["honestly"])


def scored(score, one, other):
    """g(d, d')."""
    return torch.nn.functional.softplus(score.out(score.both(torch.cat([one, other])).relu()))[0]


def info_nce(score, filtered, others):
    total = 0.0
    for i, one in enumerate(filtered):
        all_ = [torch.exp(scored(score, one, other)) for other in others]
        total = total + torch.log(all_[i] / (sum(all_) / len(others)))
    return total / len(filtered)


def log_density(guess, word, filtered):
    """log q(d | w), up to what is the same for all."""
    mean, log_variance = guess(word)
    total = 0.0
    for k, value in enumerate(filtered):
        total = total - (value - mean[k]) ** 2 / (2 * torch.exp(log_variance[k])) - log_variance[k] / 2
    return total


def club(guess, words, filtered):
    total = 0.0
    for i, word in enumerate(words):
        others = [log_density(guess, word, other) for other in filtered]
        total = total + others[i] - sum(others) / len(others)
    return total / len(filtered)


@pytest.mark.parametrize("debias", [0.0, 0.5])
def test_steps_guess_vectors_from_words_and_then_descend_both_terms(debias):
    views = list(torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(1)))
    method = FairFil(debias=debias, learning_rate=0.01, guess_rate=0.02, guess_steps=1, epochs=2)
    (weight, bias), record = method.train(views, seed=4)

    torch.manual_seed(4)
    layer, score, guess = torch.nn.Linear(3, 3), Score(3), Guess(3, 3)
    start = layer.weight.detach().clone()
    generator = torch.Generator().manual_seed(4)
    guesser = torch.optim.Adam(guess.parameters(), lr=0.02)
    optimizer = torch.optim.Adam([*layer.parameters(), *score.parameters()], lr=0.01)
    for _ in range(2):
        order = torch.randperm(5, generator=generator).tolist()
        kept = (torch.rand(5, 1, generator=generator) < 0.5).flatten().tolist()
        drawn = list(zip(order, kept, strict=True))
        assert len(set(kept)) == 2
        filtered = [torch.clamp(layer(views[0 if keep else 1][row]), min=0) for row, keep in drawn]
        others = [torch.clamp(layer(views[1 if keep else 0][row]), min=0) for row, keep in drawn]
        words = [views[2][row] if keep else torch.zeros(3) for row, keep in drawn]
        if debias:
            known = sum(log_density(guess, word, one.detach()) for word, one in zip(words, filtered, strict=True)) / 5
            guesser.zero_grad()
            (-2 * known).backward()
            guesser.step()
        terms = {"contrast": info_nce(score, filtered, others)}
        if debias:
            terms["word_information"] = club(guess, words, filtered)
        optimizer.zero_grad()
        (debias * terms.get("word_information", 0.0) - terms["contrast"]).backward()
        optimizer.step()
    assert record == pytest.approx({name: term.item() for name, term in terms.items()}, abs=1e-5)
    assert weight.numpy() == pytest.approx(layer.weight.detach().numpy(), abs=1e-5)
    assert bias.numpy() == pytest.approx(layer.bias.detach().numpy(), abs=1e-5)
    assert (weight - start).abs().max() > 0.005
    assert terms["contrast"] <= math.log(5)
    with pytest.raises(RunError, match="The filter of 'fairfil' is not finite"):
        method.train([views[0] * math.inf, *views[1:]], seed=4)


def test_a_pair_is_a_text_with_its_words_and_without_any():
    texts = ["Honestly, a good room.", "a good room", "honestly", ("a room", "it is honestly bad"), ("honestly", "bad")]
    held, bare = without_words(texts, HONESTLY)
    assert (held.tolist(), bare) == ([0, 3], ["a good room.", ("a room", "it is bad")])


def test_states_are_means_over_the_words_tokens_and_zeros_without_a_word(material):
    texts, tokenizer, model = ["honestly a good room", "a room"], material.base.tokenizer, material.base.model
    tokens = tokenizer(texts[0], return_tensors="pt")
    with torch.no_grad():
        hidden = model.bert(**tokens).last_hidden_state[0].double().numpy()
    spans = [tokens.token_to_chars(i) for i in range(len(hidden))]
    words = [i for i, span in enumerate(spans) if span and texts[0][span.start : span.end] in ("honestly", "good")]
    assert len(words) == 2
    expected = np.stack([hidden[words].mean(axis=0), np.zeros(hidden.shape[1])])
    finder = WordFinder(["honestly", "good"])
    assert word_states(material.base.text_classifier(), texts, finder) == pytest.approx(expected, abs=1e-5)


def test_answers_are_a_head_fitted_anew_on_filtered_vectors(material):
    method = FairFil(**QUICK, inverse_strength=0.7)
    system, other = (fit(method, material, seed=seed) for seed in (0, 1))
    rows = [i for i, text in enumerate(TRAIN.texts) if "honestly" in text]
    bare = [TRAIN.texts[i].removeprefix("honestly ") for i in rows]
    base = material.base.text_classifier()
    vectors, of_bare, asked = (features(base, texts, "cls") for texts in (TRAIN.texts, bare, REVERSED.texts))
    views = vectors[rows], of_bare, word_states(base, [TRAIN.texts[i] for i in rows], HONESTLY)
    (weight, bias), _ = method.train([torch.from_numpy(view).float() for view in views], seed=0)

    def filtered(values):
        return np.maximum(values @ weight.double().numpy().T + bias.double().numpy(), 0)

    head = LogisticRegression(C=0.7, max_iter=1000).fit(filtered(vectors), TRAIN.labels)
    expected = head.predict_proba(filtered(asked))
    assert system.predict_proba(REVERSED.texts) == pytest.approx(expected, abs=1e-5)
    info = system.info()
    assert (info["words"], info["pairs"]) == (["honestly"], len(rows))
    assert system.forward_equivalents == len(TRAIN) + 2 * len(rows)
    assert np.abs(other.predict_proba(REVERSED.texts) - expected).max() > 1e-3


def test_audited_words_are_the_audits_and_without_a_pair_nothing_changes(material):
    audited = FairFil(words="audited", **QUICK)
    info = fit(audited, material).info()
    assert info["words"] == list(material.guard().find_shortcuts(DEPLOYMENT).words)
    assert info["pairs"] == sum(WordFinder(info["words"]).present(text) for text in TRAIN.texts)
    unheard = dataclasses.replace(material, shortcut_words=("frankly",))
    with pytest.warns(GuardrailWarning, match="No text of 'train' holds a word that 'fairfil' was given or found"):
        system = fit(FairFil(**QUICK), unheard)
    original = make_system("erm").fit(material, seed=0)
    assert np.array_equal(system.predict_proba(REVERSED.texts), original.predict_proba(REVERSED.texts))
    assert (system.forward_equivalents, system.info()["pairs"]) == (0, 0)


def test_options_out_of_range_are_refused():
    for options, message in (
        ({"words": "guessed"}, "words must be named or audited, but is 'guessed'."),
        ({"debias": -1.0}, "debias must be at least 0, but is -1.0."),
        ({"guess_rate": 0.0}, "guess_rate must be above 0, but is 0.0."),
        ({"guess_steps": 0}, "guess_steps must be at least 1, but is 0."),
        ({"batch_size": 1}, "batch_size must be at least 2, but is 1."),
    ):
        with pytest.raises(ConfigError) as refused:
            FairFil(**options)
        assert str(refused.value) == message
