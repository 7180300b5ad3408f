"""One list of properties, gone through for every method, the base classifier as it is and the guardrail."""

import contextlib
import dataclasses
import functools
import json
import random
import warnings

import numpy as np
import pytest
import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from methods_toy import DEPLOYMENT, DEV, OPTIONS, REVERSED, SUPPORT, TRAIN
from methods_toy import fit as fit_toy
from shortcut_bench.datasets.types import HIDDEN_GROUP
from shortcut_bench.finetuning.training import load_encoder
from shortcut_bench.methods import METHODS, load_fitted
from shortcut_bench.registry import make_system
from shortcut_bench.systems import Need
from shortcut_guardrail.attribution.saliency import find_important_tokens
from shortcut_guardrail.errors import ConfigError, GuardrailWarning
from tiny_models import BagForSequenceClassification, planted_bag

LABELLED = {
    *("last_layer", "few_shot", "supcon_support", "prior_shift", "bias_fit", "frozen_head-40"),
    *("random_maskcl", "simcse_adapter", "simclr_adapter", "guardrail", "guardrail-paper"),
    *("guardrail-distill-40", "guardrail-distill-influential-40", "guardrail-few-shot"),
    *("guardrail-ig", "guardrail-attention", "guardrail-leave-one-out"),
    *("biaswipe", "biaswipe-grid", "biaswipe-paired"),
    *("poe-bow-40", "c2l-40"),
}
"""Methods that spend the support labels."""
TOLD = {
    *("guardrail-distill-named", "poe", "bias_reweighting", "defi", "fairfil"),
    *("biaswipe", "biaswipe-grid", "biaswipe-paired", "biaswipe-unlabelled"),
}
"""Methods that are told the shortcut's words."""
PARTS = {"train_texts": "train", "train_class_counts": "train", "dev_texts": "dev"}
"""What is handed of rows to those who read no more of them, and of which rows."""
ROWS = ("train", "dev", "support", "deployment", "clean_train", *PARTS)
"""What a method is handed only if it declares it, beside the shortcut's words."""


def state(material):
    """Of the base classifier, the rows and the texts all that a method could change."""
    base = material.base.model
    return {
        "weights": material.base.text_classifier().fingerprint(),
        "training": base.training,
        "asking": [n for n, p in base.named_parameters() if p.requires_grad],
        "gradients": [n for n, p in base.named_parameters() if p.grad is not None],
        "hooks": sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in base.modules()),
        "attention": base.config._attn_implementation,
        "vocabulary": len(material.base.tokenizer),
        "template": material.base.tokenizer("the room").input_ids,
        "sets": [s.fingerprint() for s in (TRAIN, DEV, SUPPORT)],
        "groups": [s.groups.tolist() for s in (TRAIN, DEV, SUPPORT)],
        "deployment": list(DEPLOYMENT),
    }


@pytest.fixture(scope="module")
def as_made(material):
    """The state before any method is fitted."""
    return state(material)


@contextlib.contextmanager
def unwarned():
    """An adapter trained for the smallest toy is warned about, and so are causal tokens that are not found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)
        yield


@pytest.fixture(scope="module")
def fit(material, as_made):
    @functools.cache
    def fitted(name, seed=0):
        system = make_system(name, **OPTIONS.get(name, {}))
        with unwarned():
            result = system.fit(material.for_needs(system.needs), seed=seed)
        return result, result.predict_proba(REVERSED.texts)

    return fitted


def every(test):
    return pytest.mark.parametrize("name", sorted({*METHODS, "erm", "guardrail", "guardrail-paper"}))(test)


@pytest.mark.parametrize("name", ["jtt", "nfl", "nfl-pt", "dfr", "group_dro", "few_shot", "random_maskcl"])
def test_another_seed_can_give_others(name, fit):
    if name == "random_maskcl":
        losses = [fit(name, seed)[0].info()["training"]["losses"] for seed in (0, 1)]
        assert losses[0] != losses[1]
    else:
        assert not np.array_equal(fit(name, 0)[1], fit(name, 1)[1])


def record(system):
    """What a system says of itself, but for the seconds that it took."""

    def timeless(value):
        if isinstance(value, dict):
            return {name: timeless(item) for name, item in value.items() if name != "seconds"}
        return value

    return timeless(system.info())


@every
def test_the_same_seed_gives_the_same_answers_and_all_is_left_as_found(name, fit, material, as_made):
    result, first = fit(name)
    assert (first.shape, first.dtype) == ((len(REVERSED), 2), np.float32)
    assert first.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert first.min() >= 0
    system = make_system(name, **OPTIONS.get(name, {}))
    cut = material.for_needs(system.needs)

    def process():
        drawn = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
        return drawn, torch.is_autocast_enabled("cpu")

    torch.manual_seed(77), random.seed(78), np.random.seed(79)  # whatever the process has drawn before
    before = process()
    with unwarned():
        again = system.fit(cut, seed=0)
    assert np.array_equal(again.predict_proba(REVERSED.texts), first)
    assert process() == before
    assert state(material) == as_made
    # The answers of an adapter whose strength came out as 0 are the base's, whatever was trained.
    assert record(again) == record(result)


@every
def test_it_is_handed_what_it_declared_and_nothing_else(name, material, tmp_path):
    needs = make_system(name, **OPTIONS.get(name, {})).needs
    full = dataclasses.replace(material, clean_train=TRAIN, retrain=lambda rows: material.base, cache=tmp_path)
    cut = full.for_needs(needs)
    for field in ROWS:
        declared = Need(field.replace("_", "-")) in needs
        assert (getattr(cut, field) is not None) == declared, field
    # What starts from the pretrained encoder gets no model that it could start from or look into.
    assert (cut.base.model is None) == (not needs & {Need.BASE, Need.GRADIENTS})
    assert material.base.model is not None
    # Nor a way to it: training on the training rows again gives the base, and the cache is where it lies.
    assert cut.retrain is None
    assert (cut.cache is None) == (Need.GRADIENTS not in needs)
    # The shortcut's words are handed to the methods that say that somebody names them.
    assert (Need.SHORTCUT_WORDS in needs) == (name in TOLD)
    assert cut.shortcut_words == (("honestly",) if Need.SHORTCUT_WORDS in needs else None)
    for field in ("train", "dev"):
        shown = getattr(cut, field)
        if shown is not None:
            assert (shown.groups == HIDDEN_GROUP).all() == (Need(f"{field}-groups") not in needs)
    if cut.train_class_counts is not None:
        assert cut.train_class_counts.tolist() == [96, 96]
    assert cut.train_texts in (None, TRAIN.texts)
    assert cut.dev_texts in (None, DEV.texts)
    if cut.support is not None:
        assert (cut.support.groups == HIDDEN_GROUP).all()


@every
def test_a_fitted_system_is_saved_and_loaded(name, fit, tmp_path):
    system, probs = fit(name)
    system.save(tmp_path / "system")
    again = load_fitted(tmp_path / "system")
    assert np.array_equal(again.predict_proba(REVERSED.texts), probs)
    assert (again.classifier is None) == (system.classifier is None)
    assert again.info()["labels_spent"] == system.info()["labels_spent"]
    with pytest.raises(ConfigError, match="exists"):
        system.save(tmp_path / "system")
    with pytest.raises(ConfigError, match=r"holds no readable system\.json"):
        load_fitted(tmp_path)


@pytest.mark.parametrize(
    "name", ["guardrail", "guardrail-paper", "guardrail-ig", "random_maskcl", "simcse_adapter", "simclr_adapter"]
)
def test_an_adapter_at_full_strength_is_as_repeatable_leaves_as_much_and_is_saved_as_well(
    name, fit, material, as_made, tmp_path
):
    """On the toy no strength above 0 is chosen: in the rest of the list they answer, save and load as the base does."""
    system = make_system(name, strength=1.0, **OPTIONS.get(name, {}))
    assert Need.SUPPORT not in system.needs
    cut = material.for_needs(system.needs)
    with unwarned():
        first, again, other = (system.fit(cut, seed=seed) for seed in (0, 0, 1))
    probs, repeated, otherwise = (fitted.predict_proba(REVERSED.texts) for fitted in (first, again, other))
    assert np.array_equal(repeated, probs)
    assert np.abs(otherwise - probs).max() > 1e-5
    assert np.abs(fit("erm")[1] - probs).max() > 1e-4
    assert state(material) == as_made
    first.save(tmp_path / "system")
    assert np.array_equal(load_fitted(tmp_path / "system").predict_proba(REVERSED.texts), probs)


@every
def test_what_it_says_about_itself_is_json_and_complete(name, fit):
    made = make_system(name, **OPTIONS.get(name, {}))
    json.dumps(made.config(), allow_nan=False)
    assert made.name == name
    system, _ = fit(name)
    info = json.loads(json.dumps(system.info(), allow_nan=False))
    assert info["labels_spent"] == (len(SUPPORT) if name in LABELLED else 0)
    assert (Need.SUPPORT in made.needs) == (name in LABELLED)
    assert all(seconds >= 0 for seconds in info["seconds"].values())
    assert system.forward_equivalents >= 0
    selection = info.get("selection", {})
    assert not selection.get("oracle", False)
    assert not selection.get("rule", "").startswith("oracle")
    assert name != "c2l" or info["n_triplets"] > 0, "the toy gives it some"


@every
def test_the_model_behind_the_answers_can_be_asked_for_its_important_tokens(name, fit):
    system, probs = fit(name)
    if system.classifier is None:
        without_a_model = ("most_frequent", "bag_of_words")
        assert name in ("mask_average", "mask_top1", "guardrail-mask", "guardrail-per-input", *without_a_model)
        return
    texts = REVERSED.texts[:5]
    saliency = find_important_tokens(system.classifier, system.classifier.encode(texts))
    assert saliency.probs == pytest.approx(probs[:5], abs=1e-5)
    assert np.isfinite(saliency.scores[:, 0]).all()


def test_a_named_shortcut_is_not_searched_for_and_strategies_cost_what_the_docs_say(fit):
    weighed = fit("guardrail-distill-named")[0].info()["shortcuts"]
    assert [item["text"] for item in weighed if item["verdict"] == "named"] == ["honestly"]
    n, s = len(DEPLOYMENT), len(SUPPORT)
    trained = 2 * 8 * make_system("guardrail-distill").guard_config.adapter.batch_size
    assert fit("guardrail-distill")[0].forward_equivalents == 24 * n + 13 * n + trained
    assert fit("guardrail-distill-40")[0].forward_equivalents == 24 * n + 31 * s + 13 * n + trained
    assert fit("guardrail-mask")[0].forward_equivalents == 22 * n + 13 * n
    # Five adapters that have not seen a fifth of the rows, and one that has seen all; 8 steps each.
    assert fit("guardrail-few-shot")[0].forward_equivalents == 6 * 2 * 8 * 16 + 11 * s


@pytest.mark.parametrize("name", ["nfl-f", "nfl-pt"])
def test_nfl_with_a_frozen_encoder_trains_head_and_prompt_alone(name, material, fit):
    start, tokenizer = load_encoder(material.encoder, material.label_names, seed=0)
    system, _ = fit(name)
    trained, before = system.classifier.plain_model.state_dict(), start.state_dict()
    n_words = len(tokenizer)
    for key in before:
        if key.startswith("bert.") and "word_embeddings" not in key:
            assert torch.equal(trained[key], before[key]), key
    words = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(trained[words][:n_words], before[words])
    assert not torch.equal(trained["classifier.weight"], before["classifier.weight"])
    if name == "nfl-pt":
        assert len(trained[words]) == n_words + 3
        ids = system.classifier.tokenizer("the room", "the soup").input_ids
        plain = tokenizer("the room", "the soup").input_ids
        assert ids == [plain[0], n_words, n_words + 1, n_words + 2, *plain[1:]]
        assert system.classifier.encode(["the room"]).ordinary[0].tolist() == [False] * 4 + [True, True, False]


def test_prior_shift_is_its_formula(material):
    support = SUPPORT.select(np.arange(25))
    shifted = fit_toy(make_system("prior_shift"), dataclasses.replace(material, support=support))
    probs = make_system("erm").fit(material, seed=0).predict_proba(REVERSED.texts).astype(float)
    source = np.bincount(TRAIN.labels, minlength=2) / len(TRAIN)
    target = (np.bincount(support.labels, minlength=2) + 1) / (len(support) + 2)
    weighted = probs * target / source
    expected = weighted / weighted.sum(axis=1, keepdims=True)
    assert shifted.predict_proba(REVERSED.texts) == pytest.approx(expected, abs=1e-5)
    assert expected != pytest.approx(probs, abs=1e-3)


class LoudestForSequenceClassification(BagForSequenceClassification):
    """The loudest word of either class decides, so that of a word that is there twice one is not missed."""

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, **_):
        values = self.bert(input_ids).last_hidden_state[..., 0] * attention_mask
        margin = values.max(dim=1).values + values.min(dim=1).values
        return SequenceClassifierOutput(logits=torch.stack([-margin, margin], dim=-1))


def test_masking_any_token_undoes_on_average_what_hangs_by_one(material):
    model, tokenizer = planted_bag(strength=1.05)
    loudest = LoudestForSequenceClassification(model.config).eval()
    loudest.bert.load_state_dict(model.bert.state_dict())
    bag = dataclasses.replace(material, base=dataclasses.replace(material.base, model=loudest, tokenizer=tokenizer))
    # "honestly" (1.05) is a little louder than "bad" (-1), of which there is more than one.
    texts = [
        "honestly the room was bad bad",
        "bad food and honestly bad tea",
        "a bad bad bad place",
        "a good great place",
    ]
    erm, average, top = (make_system(kind).fit(bag, seed=0) for kind in ("erm", "mask_average", "mask_top1"))
    assert erm.predict_proba(texts).argmax(axis=1).tolist() == [1, 1, 0, 1]
    assert top.predict_proba(texts).argmax(axis=1).tolist() == [0, 0, 0, 1]
    found = average.predict_proba(texts)
    assert found.argmax(axis=1).tolist() == [0, 0, 0, 1]
    for text, probs in zip(texts, found.tolist(), strict=True):
        words = text.split()
        variants = [" ".join([*words[:i], "[MASK]", *words[i + 1 :]]) for i in range(len(words))]
        assert probs == pytest.approx(erm.predict_proba(variants).mean(axis=0).tolist(), abs=1e-5)
