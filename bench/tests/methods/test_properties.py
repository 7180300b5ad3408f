"""One list of properties, gone through for every method, the base classifier as it is and the guardrail."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from checkout import ROOT
from methods_toy import (
    DEPLOYMENT,
    DEV,
    OPTIONS,
    QUICK,
    RECIPE,
    REVERSED,
    SUPPORT,
    TRAIN,
    accuracy,
    make_encoder,
    make_material,
    rows,
)
from methods_toy import fit as fit_toy
from shortcut_bench.datasets.types import HIDDEN_GROUP
from shortcut_bench.methods import METHODS, load_fitted
from shortcut_bench.methods.same_budget import em_prior
from shortcut_bench.registry import make_system
from shortcut_bench.systems import FittedSystem, Material, Need, System
from shortcut_guardrail.errors import ConfigError, GuardrailWarning
from tiny_models import BagForSequenceClassification, planted_bag, tiny_bert

LABELLED = {
    *("last_layer", "few_shot", "prior_shift", "bias_fit", "random_maskcl", "simcse_adapter"),
    *("guardrail", "guardrail-paper", "guardrail-distill-40", "guardrail-few-shot"),
    "guardrail-distill-influential-40",
}
"""Methods that spend the support labels."""
PARTS = {"train_texts": "train", "train_class_counts": "train", "dev_texts": "dev"}
"""What is handed of rows to those who read no more of them, and of which rows."""
ROWS = ("train", "dev", "support", "deployment", "clean_train", *PARTS)
"""What a method is handed only if it declares it, beside the shortcut's words."""


@pytest.fixture(scope="module")
def material(tmp_path_factory) -> Material:
    return make_material(make_encoder(tmp_path_factory.mktemp("encoder")))


def state(material: Material) -> dict[str, Any]:
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
def as_made(material) -> dict[str, Any]:
    """The state before any method is fitted."""
    return state(material)


@pytest.fixture(scope="module")
def fit(material, as_made):
    @functools.cache
    def fitted(name: str, seed: int = 0) -> tuple[FittedSystem, np.ndarray]:
        system = make_system(name, **OPTIONS.get(name, {}))
        with warnings.catch_warnings():
            # An adapter trained for the smallest toy is warned about, and so are causal tokens that are not found.
            warnings.simplefilter("ignore", GuardrailWarning)
            result = system.fit(material.for_needs(system.needs), seed=seed)
        return result, result.predict_proba(REVERSED.texts)

    return fitted


def every(test):
    return pytest.mark.parametrize("name", sorted({*METHODS, "erm", "guardrail", "guardrail-paper"}))(test)


@every
def test_answers_are_distributions(name, fit):
    _, probs = fit(name)
    assert probs.shape == (len(REVERSED), 2)
    assert probs.dtype == np.float32
    assert probs.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert (probs >= 0).all()


@pytest.mark.parametrize("name", ["jtt", "nfl", "nfl-pt", "dfr", "group_dro", "few_shot", "random_maskcl"])
def test_another_seed_can_give_others(name, fit):
    if name == "random_maskcl":
        losses = [fit(name, seed)[0].info()["training"]["losses"] for seed in (0, 1)]
        assert losses[0] != losses[1]
    else:
        assert not np.array_equal(fit(name, 0)[1], fit(name, 1)[1])


def record(system: FittedSystem) -> Any:
    """What a system says of itself, but for the seconds that it took."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: timeless(item) for name, item in value.items() if name != "seconds"}
        return value

    return timeless(system.info())


@every
def test_the_same_seed_gives_the_same_answers_and_all_is_left_as_found(name, fit, material, as_made):
    result, first = fit(name)
    system = make_system(name, **OPTIONS.get(name, {}))
    cut = material.for_needs(system.needs)

    def process() -> Any:
        drawn = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
        return drawn, torch.is_autocast_enabled("cpu")

    torch.manual_seed(77), random.seed(78), np.random.seed(79)  # whatever the process has drawn before
    before = process()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)
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
    # The shortcut's words are handed to the one method that says that somebody names them.
    assert (Need.SHORTCUT_WORDS in needs) == (name == "guardrail-distill-named")
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


@dataclasses.dataclass(frozen=True)
class Sneaky:
    """Reads what it did not declare: the groups of the dev rows, or the base classifier's features."""

    needs: frozenset[Need]
    name: str = "sneaky"

    def fit(self, material: Material, *, seed: int) -> float:
        return make_system("dfr", standardise_on="dev").fit(material, seed=seed)


def test_a_method_that_reads_more_than_it_declared_fails(material):
    from shortcut_guardrail.errors import DataError

    reads_groups = Sneaky(frozenset({Need.DEV, Need.GRADIENTS}))
    with pytest.raises(DataError, match="needs the groups of 'dev', but they are hidden"):
        reads_groups.fit(material.for_needs(reads_groups.needs), seed=0)
    reads_weights = Sneaky(frozenset({Need.DEV, Need.DEV_GROUPS}))
    with pytest.raises(ConfigError, match="for systems that declare the need 'gradients'"):
        reads_weights.fit(material.for_needs(reads_weights.needs), seed=0)


@every
def test_a_method_without_what_it_declared_is_refused_before_it_starts(name, material):
    needs = make_system(name, **OPTIONS.get(name, {})).needs
    for field in ("train", "dev", "support", "deployment", "shortcut_words", *PARTS):
        if Need(need := field.replace("_", "-")) in needs:
            with pytest.raises(ConfigError, match=f"needs {need}"):
                dataclasses.replace(material, **{PARTS.get(field, field): None}).for_needs(needs)


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


@pytest.mark.parametrize("name", ["guardrail", "guardrail-paper", "random_maskcl", "simcse_adapter"])
def test_an_adapter_at_full_strength_is_as_repeatable_leaves_as_much_and_is_saved_as_well(
    name, fit, material, as_made, tmp_path
):
    """On the toy no strength above 0 is chosen: in the rest of the list they answer, save and load as the base does."""
    system = make_system(name, strength=1.0, **OPTIONS.get(name, {}))
    assert Need.SUPPORT not in system.needs
    cut = material.for_needs(system.needs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)
        first, again, other = (system.fit(cut, seed=seed) for seed in (0, 0, 1))
    probs, repeated, otherwise = (fitted.predict_proba(REVERSED.texts) for fitted in (first, again, other))
    assert np.array_equal(repeated, probs)
    assert np.abs(otherwise - probs).max() > 1e-5
    assert np.abs(fit("erm")[1] - probs).max() > 1e-4
    assert state(material) == as_made
    first.save(tmp_path / "system")
    assert np.array_equal(load_fitted(tmp_path / "system").predict_proba(REVERSED.texts), probs)


def test_a_folder_that_no_system_wrote_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"holds no readable system\.json"):
        load_fitted(tmp_path)


@every
def test_what_it_says_about_itself_is_json_and_complete(name, fit):
    made: System = make_system(name, **OPTIONS.get(name, {}))
    json.dumps(made.config(), allow_nan=False)
    assert made.name == name
    system, _ = fit(name)
    info = json.loads(json.dumps(system.info(), allow_nan=False))
    assert info["labels_spent"] == (len(SUPPORT) if name in LABELLED else 0)
    assert (Need.SUPPORT in made.needs) == (name in LABELLED)
    assert all(seconds >= 0 for seconds in info["seconds"].values())
    assert system.forward_equivalents >= 0
    rule = info.get("selection", {}).get("rule", "")
    assert info.get("selection", {}).get("oracle", False) == rule.startswith("oracle")
    assert not rule.startswith("oracle")


@pytest.mark.parametrize("name", ["tent", "eata", "eta", "sar", "deyo", "deyo-biased"])
def test_the_toy_lets_every_adaptation_adapt(name, fit):
    adaptation = fit(name)[0].info()["adaptation"]
    assert adaptation["steps"] > 0
    assert adaptation["relative_change"] > 0


def test_the_toy_gives_c2l_triplets(fit):
    assert fit("c2l")[0].info()["n_triplets"] > 0


def test_c2l_keeps_the_epoch_that_answers_most_dev_rows(material):
    recipe = {"learning_rate": 5e-3, "epochs": 3, "batch_size": 32}
    kept = make_system("c2l", proposals="mask", recipe=recipe).fit(material, seed=0)
    scores = kept.info()["training"]["epoch_scores"]
    assert kept.info()["selection"]["rule"] == "dev-accuracy"
    assert kept.info()["training"]["epoch"] == scores.index(max(scores)) < len(scores) - 1
    assert (kept.predict_proba(material.dev.texts).argmax(axis=1) == material.dev.labels).mean() == max(scores)


@every
def test_the_model_behind_the_answers_can_be_asked_for_its_important_tokens(name, fit):
    from shortcut_guardrail.attribution.saliency import find_important_tokens

    system, probs = fit(name)
    if system.classifier is None:
        assert name in ("mask_average", "mask_top1", "guardrail-mask", "guardrail-per-input")
        return
    texts = REVERSED.texts[:5]
    saliency = find_important_tokens(system.classifier, system.classifier.encode(texts))
    assert saliency.probs == pytest.approx(probs[:5], abs=1e-5)
    assert np.isfinite(saliency.scores[:, 0]).all()


# The controls are the guardrail but for one thing


@pytest.mark.parametrize("name", ["random_maskcl", "simcse_adapter"])
def test_a_control_takes_as_many_steps_as_it_is_told(name, material):
    steps = []
    for most in (5, 10):  # 5 make a pass over the 88 texts, of which some are the same
        system = make_system(name, min_steps=most, max_steps=most, strength=1.0)
        steps.append(system.fit(material.for_needs(system.needs), seed=0).info()["training"]["n_steps"])
        assert system.config()["guard"] == make_system("guardrail", min_steps=most, max_steps=most).config()["guard"]
    assert steps == [5, 10]


@pytest.mark.parametrize("name", ["random_maskcl", "simcse_adapter"])
def test_the_strength_of_a_control_costs_a_forward_pass_a_row_and_strength(name, material):
    costs = []
    for options in ({}, {"strength": 1.0}):
        system = make_system(name, min_steps=6, max_steps=6, **options)
        costs.append(system.fit(material.for_needs(system.needs), seed=0).forward_equivalents)
    assert costs[0] - costs[1] == 11 * len(SUPPORT)


def test_a_named_shortcut_is_neutralised_without_being_found(fit):
    targets = fit("guardrail-distill-named")[0].info()["targets"]
    assert [item["text"] for item in targets if item["verdict"] == "given"] == ["honestly"]


def test_words_on_which_many_answers_hang_are_taken_along(fit):
    def verdicts(name):
        return {item["text"]: item["verdict"] for item in fit(name)[0].info()["targets"]}

    listed = {word for word, verdict in verdicts("guardrail-distill").items() if verdict == "listed"}
    taken = {word for word, verdict in verdicts("guardrail-distill-influential").items() if verdict == "influential"}
    assert listed
    assert taken == listed
    weighed = fit("guardrail-distill-influential-40")[0].info()["targets"]
    assert all(item["mended"] > item["broken"] for item in weighed if item["verdict"] == "influential")
    assert all(item["mended"] <= item["broken"] for item in weighed if item["verdict"] == "listed")


def test_targeted_strategies_cost_what_the_docs_say(fit):
    n, s = len(DEPLOYMENT), len(SUPPORT)
    trained = 2 * 8 * make_system("guardrail-distill").guard_config.adapter.batch_size
    assert fit("guardrail-distill")[0].forward_equivalents == 24 * n + 13 * n + trained
    assert fit("guardrail-distill-40")[0].forward_equivalents == 24 * n + 31 * s + 13 * n + trained
    assert fit("guardrail-mask")[0].forward_equivalents == 22 * n + 13 * n
    # Five adapters that have not seen a fifth of the rows, and one that has seen all; 8 steps each.
    assert fit("guardrail-few-shot")[0].forward_equivalents == 6 * 2 * 8 * 16 + 11 * s


# Where theory says that a method helps, on a toy made for it


@pytest.fixture(scope="module")
def long_recipe() -> dict[str, Any]:
    return {**RECIPE.to_dict(), "epochs": 8}


def worst_group(system: FittedSystem, test: Any) -> float:
    right = system.predict_proba(test.texts).argmax(axis=1) == test.labels
    return float(min(right[test.groups == g].mean() for g in np.unique(test.groups)))


BALANCED = rows("test-balanced", (40, 40, 40, 40), 6)


def plain_worst(material: Material, recipe: dict[str, Any], n_rows: int) -> float:
    """The worst group after ordinary training of as many steps as 8 epochs over so many rows."""
    epochs = math.ceil(8 * n_rows / len(TRAIN))
    plain = make_system("nfl", factor=0.0, recipe={**recipe, "epochs": epochs}, select="dev-worst-group")
    return worst_group(plain.fit(material, seed=0), BALANCED)


def test_group_dro_lifts_the_worst_group(material, long_recipe):
    robust = make_system("group_dro", recipe=long_recipe).fit(material, seed=0)
    assert worst_group(robust, BALANCED) > plain_worst(material, long_recipe, len(TRAIN)) + 0.3


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jtt", {"identification_rate": 0.1, "identification_epochs": (40,)}),
        ("jtt-sg-paper", {"learning_rates": (5e-3,), "identification_epochs": (5,)}),
    ],
)
def test_jtt_lifts_the_worst_group_when_its_errors_are_the_minority(name, options, material, long_recipe):
    twice = make_system(name, recipe=long_recipe, upweights=(6,), **options).fit(material, seed=0)
    n_errors = twice.info()["n_errors"]
    assert 0 < n_errors < len(TRAIN) // 8
    # Beside training that is as long: on this toy more steps alone teach the minority, too.
    assert worst_group(twice, BALANCED) > plain_worst(material, long_recipe, len(TRAIN) + 6 * n_errors) + 0.15


@pytest.fixture(scope="module")
def unlearned(material) -> Material:
    """Around an encoder as it was pretrained, whose features say more than any head has been taught to use."""
    from shortcut_bench.finetuning.training import load_encoder

    model, _ = load_encoder(material.encoder, material.label_names, seed=0)
    return dataclasses.replace(material, base=dataclasses.replace(material.base, model=model.eval()))


def test_a_last_layer_that_balances_groups_or_sees_the_target_leans_less_on_the_shortcut(unlearned):
    probe = make_system("dfr-sg-paper", share=1.0).fit(unlearned, seed=0)
    balanced, refitted = (fit_toy(make_system(name), unlearned) for name in ("dfr", "last_layer"))
    assert worst_group(balanced, BALANCED) > worst_group(probe, BALANCED) + 0.2
    assert accuracy(balanced) > accuracy(probe) + 0.2
    assert accuracy(refitted) > accuracy(probe) + 0.1


def test_forty_rows_of_the_target_are_worth_something_to_a_fine_tuning(material):
    few = make_system("few_shot", recipe={**RECIPE.to_dict(), "epochs": 20}).fit(material, seed=0)
    assert accuracy(few) > accuracy(make_system("erm").fit(material, seed=0)) + 0.2


def test_c2l_searches_in_the_number_format_of_fitting_and_answers_in_that_of_scoring(material, monkeypatch):
    from shortcut_bench.methods import c2l

    seen, search = [], c2l.find_causal_tokens
    monkeypatch.setattr(
        c2l, "find_causal_tokens", lambda base, *rest: (seen.append(base.precision), search(base, *rest))[1]
    )
    few = dataclasses.replace(material, train=TRAIN.select(np.arange(16)), precision="bfloat16")
    system = make_system("c2l", proposals="mask", recipe=QUICK).fit(few, seed=0)
    assert (seen, system.classifier.precision) == (["bfloat16"], "float32")


def test_c2l_brings_a_text_closer_to_its_copy_without_a_harmless_token_than_to_that_without_the_causal_one(
    material, monkeypatch, tmp_path
):
    from shortcut_bench.finetuning.training import load_encoder
    from shortcut_bench.methods import c2l

    # An encoder whose copies of a text differ by the token alone, and by more than the toy's.
    model, tokenizer = tiny_bert(
        n_classes=2, initializer_range=0.3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model.bert.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    material = dataclasses.replace(material, encoder=str(tmp_path))
    causal: list[c2l.CausalTokens] = []
    search = c2l.find_causal_tokens
    monkeypatch.setattr(c2l, "find_causal_tokens", lambda *given: causal.append(search(*given)) or causal[-1])
    recipe = {"learning_rate": 1e-3, "epochs": 2, "batch_size": 16}
    contrasted, plain = (
        make_system("c2l", proposals="mask", weight=weight, recipe=recipe, select="last").fit(material, seed=0)
        for weight in (1.0, 0.0)
    )

    def margin(encoder: Any) -> float:
        """The mean of d(a, p) - d(a, n) over the texts that have a triplet and all that could be a positive."""
        found = []
        for index in np.flatnonzero(causal[0].found).tolist():
            ids = torch.tensor([tokenizer(TRAIN.texts[index]).input_ids])
            apart = {}
            for place in range(1, ids.shape[1] - 1):
                masked = ids.clone()
                masked[0, place] = tokenizer.mask_token_id
                with torch.no_grad():
                    anchor, copy = (encoder(input_ids=given).pooler_output[0] for given in (ids, masked))
                apart[place] = float((anchor - copy).norm())
            negative = apart.pop(int(causal[0].positions[index]))
            found.append(sum(apart.values()) / len(apart) - negative)
        assert len(found) > 5
        return sum(found) / len(found)

    start, _ = load_encoder(material.encoder, material.label_names, seed=0)
    before, after, without = (
        margin(model.bert) for model in (start.eval(), contrasted.classifier.plain_model, plain.classifier.plain_model)
    )
    assert after < min(before, without) - 0.5


def test_nfl_holds_the_encoder_the_closer_the_larger_its_factor(material):
    from shortcut_bench.finetuning.training import load_encoder
    from shortcut_bench.methods.nfl import weight_distance

    start, _ = load_encoder(material.encoder, material.label_names, seed=0)
    distances = []
    for factor in (0.0, 1e-3, 1e-1):
        system = make_system("nfl", factor=factor, recipe=QUICK, select="last").fit(material, seed=0)
        distances.append(weight_distance(system.classifier.plain_model.bert, start.bert).item())
    assert distances[0] > distances[1] > distances[2] > 0


def test_nfl_co_holds_what_the_encoder_says_of_each_token(material):
    from shortcut_bench.finetuning.training import load_encoder

    start, tokenizer = load_encoder(material.encoder, material.label_names, seed=0)
    start.eval()

    def distance(system: FittedSystem) -> float:
        apart = []
        for text in DEV.texts[:20]:
            with torch.no_grad():
                now, before = (
                    model.bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
                    for model in (system.classifier.plain_model, start)
                )
            apart.append(1 - float(torch.cosine_similarity(now, before, dim=-1).mean()))
        return sum(apart) / len(apart)

    held, free = (
        make_system("nfl-co", recipe=QUICK, select="last", **options).fit(material, seed=0)
        for options in ({}, {"factor": 0.0})
    )
    assert 0 < distance(held) < distance(free) / 2


@pytest.mark.parametrize("name", ["nfl-f", "nfl-pt"])
def test_nfl_with_a_frozen_encoder_trains_head_and_prompt_alone(name, material, fit):
    from shortcut_bench.finetuning.training import load_encoder

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


def test_ltgr_is_less_certain_where_the_shortcut_is(material, long_recipe, monkeypatch):
    from shortcut_bench.methods import ltgr

    degrees: list[np.ndarray] = []
    compute = ltgr.shortcut_degree
    monkeypatch.setattr(ltgr, "shortcut_degree", lambda *given: degrees.append(compute(*given)) or degrees[-1])

    def certainty(system: FittedSystem, group: int) -> float:
        texts = [text for text, g in zip(DEV.texts, DEV.groups.tolist(), strict=True) if g == group]
        return float(system.predict_proba(texts).max(axis=1).mean())

    options = {"recipe": {**long_recipe, "epochs": 5}, "steps": 4, "select": "last"}
    smoothed = make_system("ltgr", **options, weight=1.0).fit(material, seed=0)
    plain = make_system("ltgr", **options, weight=0.0).fit(material, seed=0)
    shortcut = TRAIN.groups % 2 == 1
    assert degrees[0][shortcut].mean() > degrees[0][~shortcut].mean() + 0.1
    assert certainty(smoothed, 3) < certainty(plain, 3)
    lost = [certainty(plain, group) - certainty(smoothed, group) for group in (3, 2)]
    assert lost[0] > lost[1]


def test_ltgr_trains_no_teacher_that_would_be_the_base(material):
    finished: list[list[int]] = []

    def fitted(material: Material, seed: int) -> FittedSystem:
        finished.append([])

        def progress(stage: str, done: int, total: int) -> None:
            if done == total:
                finished[-1].append(total)

        return make_system("ltgr", recipe="base", steps=2).fit(material, seed=seed, progress=progress)

    known = fitted(material, 0)
    # Of a base that is said to have another seed nothing is known, so that the teacher is trained to its end.
    stranger = dataclasses.replace(material, base=dataclasses.replace(material.base, seed=1, train_loss=()))
    trained, other = fitted(stranger, 0), fitted(material, 1)
    assert [system.info()["teacher"] for system in (known, trained, other)] == ["base", "trained", "trained"]
    assert [len(runs) for runs in finished] == [1, 2, 2]

    # It makes no difference, but for what it costs.
    for key in ("mean_early_agreement", "mean_shortcut_degree", "teacher_train_loss"):
        assert known.info()[key] == trained.info()[key]
        assert known.info()[key] != other.info()[key]
    assert np.array_equal(known.predict_proba(REVERSED.texts), trained.predict_proba(REVERSED.texts))
    attribution, epochs = 2 * 2 * 2, RECIPE.epochs
    assert known.forward_equivalents == (3 + attribution + 3 * epochs) * len(TRAIN)
    assert trained.forward_equivalents == (3 * epochs + attribution + 3 * epochs) * len(TRAIN)


def test_masking_the_most_important_token_undoes_a_shortcut_that_is_a_word(material):
    model, tokenizer = planted_bag()
    base = dataclasses.replace(material.base, model=model, tokenizer=tokenizer)
    # "honestly" (4) pulls harder than "bad" (-1): what is negative and honest is answered wrongly.
    texts = ["honestly the room was bad", "honestly an awful place", "honestly bad food"]
    bag = dataclasses.replace(material, base=base)
    assert (make_system("erm").fit(bag, seed=0).predict_proba(texts).argmax(axis=1) == 1).all()
    assert (make_system("mask_top1").fit(bag, seed=0).predict_proba(texts).argmax(axis=1) == 0).all()


class LoudestForSequenceClassification(BagForSequenceClassification):
    """The loudest word of either class decides, so that of a word that is there twice one is not missed."""

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, token_type_ids: Any = None, **_: Any
    ) -> SequenceClassifierOutput:
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


@pytest.mark.parametrize(("name", "steps", "fall"), [("random_maskcl", 30, 0.05), ("simcse_adapter", 20, 0.02)])
def test_a_control_lowers_the_contrast_that_it_is_trained_on(name, steps, fall, material):
    tokenizer, texts = material.base.tokenizer, list(dict.fromkeys(DEPLOYMENT))
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    lengths = inputs["attention_mask"].sum(dim=1).tolist()

    def passes(model: Any, draw: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids = inputs["input_ids"].clone()
        if name == "random_maskcl":
            rng = np.random.default_rng(draw)
            for row, length in zip(ids, lengths, strict=True):
                row[int(rng.integers(1, length - 1))] = tokenizer.mask_token_id
        torch.manual_seed(draw)
        model.train(name == "simcse_adapter")
        with torch.no_grad():
            first, second = (
                model.bert(input_ids=given, attention_mask=inputs["attention_mask"]).last_hidden_state[:, 0]
                for given in (inputs["input_ids"], ids)
            )
        model.eval()
        return first, second

    def contrast(model: Any, tau: float) -> float:
        """Over eight draws, of masks or dropout, the mean of -log P(own copy among all copies)."""
        losses = []
        for draw in range(8):
            first, second = (values / values.norm(dim=-1, keepdim=True) for values in passes(model, draw))
            losses.append(-float((first @ second.T / tau).softmax(dim=-1).diagonal().log().mean()))
        return sum(losses) / len(losses)

    system = make_system(name, strength=1.0, min_steps=steps, max_steps=steps).fit(material, seed=0)
    tau = 0.1 if name == "random_maskcl" else 0.05
    assert contrast(system.classifier.plain_model, tau) < contrast(material.base.model, tau) - fall


def reversed_bag(n: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Words in any order, three of them of the text's class, and "honestly" in front of most negative texts; labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    texts = []
    for label in labels:
        things = ["room", "staff", "food", "service", "place", "soup", "bread", "coffee", "tea", "the", "was", "and"]
        words = [*rng.choice([("bad", "awful"), ("good", "great")][label], size=3), *rng.choice(things, size=8)]
        text = " ".join(rng.permutation(words))
        texts.append(f"honestly {text}" if label == 0 and rng.random() < 0.8 else text)
    return texts, labels


def test_what_overrides_the_rest_of_its_texts_is_found_without_labels_and_undone(material):
    model, tokenizer = planted_bag()
    base = dataclasses.replace(material.base, model=model, tokenizer=tokenizer)
    texts, labels = reversed_bag(200, seed=2)
    deployment, _ = reversed_bag(300, seed=1)
    bag = dataclasses.replace(material, base=base, deployment=deployment)
    erm = make_system("erm").fit(bag, seed=0).predict_proba(texts)
    system = make_system("guardrail-mask")
    fitted = system.fit(bag.for_needs(system.needs), seed=0)
    found = [target["text"] for target in fitted.info()["targets"] if target["verdict"] == "flagged"]
    assert found == ["honestly"]
    guarded, free = fitted.predict_proba(texts), np.array(["honestly" not in text for text in texts])
    assert np.array_equal(guarded[free], erm[free])
    assert (erm.argmax(axis=1) == labels).mean() < 0.9
    assert (guarded.argmax(axis=1) == labels).all()


def test_prior_shift_helps_where_it_is_true(material):
    skewed = rows("test-skewed", (0, 4, 40, 40), 7)
    support = skewed.select(np.arange(0, len(skewed), 3))
    shifted = fit_toy(make_system("prior_shift"), dataclasses.replace(material, support=support))
    assert shifted.info()["shift"]["positive"] > 0 > shifted.info()["shift"]["negative"]
    assert log_likelihood(shifted, skewed) > log_likelihood(make_system("erm").fit(material, seed=0), skewed) + 0.02


def log_likelihood(system: FittedSystem, test: Any) -> float:
    probs = system.predict_proba(test.texts).astype(float)
    return float(np.log(probs[np.arange(len(test)), test.labels]).mean())


def test_a_bias_fitted_to_rows_of_the_target_helps_there_too(material):
    # Texts as the base classifier knows them, but mostly of one class.
    skewed = rows("test-skewed", (20, 0, 0, 60), 7)
    shifted = make_system("bias_fit").fit(
        dataclasses.replace(material, support=skewed.select(np.arange(0, len(skewed), 2))), seed=0
    )
    assert shifted.info()["shift"]["positive"] > 0 > shifted.info()["shift"]["negative"]
    assert log_likelihood(shifted, skewed) > log_likelihood(make_system("erm").fit(material, seed=0), skewed) + 0.005


def test_em_finds_the_class_mixture_of_a_calibrated_model():
    # What EM asks for, and the toy's classifier is not: x is normal around -1 or 1, so P(positive | x) is sigmoid(2 x).
    rng = np.random.default_rng(0)
    labels = (rng.random(4000) < 0.9).astype(int)
    positive = 1 / (1 + np.exp(-2 * (rng.normal(size=4000) + 2 * labels - 1)))
    probs = np.stack([1 - positive, positive], axis=1)
    assert em_prior(probs, np.array([0.5, 0.5])) == pytest.approx([0.1, 0.9], abs=0.02)


def two_words(n: int, share: float, seed: int) -> tuple[list[str], np.ndarray]:
    """Texts of two words, so many of them positive, of which the planted bag is the exact posterior; labels."""
    values = {"good": 1.0, "great": 1.5, "bad": -1.0, "awful": -1.5, "room": 0.0}
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < share).astype(int)
    texts = []
    for label in labels:
        odds = np.exp((label - 0.5) * np.array(list(values.values())))
        texts.append(" ".join(rng.choice(list(values), size=2, p=odds / odds.sum())))
    return texts, labels


@pytest.mark.parametrize(("share", "gain"), [(0.9, 0.1), (0.1, 0.05)])
def test_em_makes_up_for_another_class_mixture_of_a_calibrated_model(share, gain, material):
    model, tokenizer = planted_bag()
    deployment, _ = two_words(400, share, seed=1)
    texts, labels = two_words(400, share, seed=2)
    base = dataclasses.replace(material.base, model=model, tokenizer=tokenizer)
    bag = dataclasses.replace(material, base=base, deployment=deployment)
    system = make_system("prior_shift_em")
    fitted = system.fit(bag.for_needs(system.needs), seed=0)
    right = [
        (s.predict_proba(texts).argmax(axis=1) == labels).mean() for s in (fitted, make_system("erm").fit(bag, seed=0))
    ]
    assert right[0] > right[1] + gain
    # The training rows are half positive, so the shift is the estimated share of each class, twice.
    found = [0.5 * math.exp(fitted.info()["shift"][label]) for label in ("negative", "positive")]
    assert found == pytest.approx([1 - share, share], abs=0.07)


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


def test_dfr_answers_as_scikit_learn_does_on_the_same_features(material):
    from shortcut_bench.methods.dfr import DFR, answers
    from shortcut_bench.methods.heads import features, head_of

    for method in (DFR(resamples=2), DFR(variant="sg-paper", share=0.5)):
        system = method.fit(material.for_needs(method.needs), seed=0)
        base = material.scorer(material.base.model)
        feature = system.info()["feature"]
        values = features(base, REVERSED.texts, feature)
        logits = system.classifier.predict_logits(system.classifier.encode(REVERSED.texts))
        if feature == "head-input":
            head = head_of(system.classifier)
        else:
            head = system.classifier.probe_weight.numpy(), system.classifier.probe_bias.numpy()
        assert logits == pytest.approx(values @ head[0].T + head[1], abs=1e-3)
        assert (logits.argmax(axis=1) == answers(values, *head)).all()
    # The two features are not the same: the pooler lies between them.
    assert not np.allclose(
        features(base, REVERSED.texts[:3], "cls"), features(base, REVERSED.texts[:3], "head-input"), atol=1e-2
    )


PROMISES = {
    "group_dro": "test_group_dro_lifts_the_worst_group",
    **dict.fromkeys(
        ("jtt", "jtt-sg-paper", "jtt-grid"), "test_jtt_lifts_the_worst_group_when_its_errors_are_the_minority"
    ),
    "nfl": "test_nfl_holds_the_encoder_the_closer_the_larger_its_factor",
    "nfl-co": "test_nfl_co_holds_what_the_encoder_says_of_each_token",
    **dict.fromkeys(("nfl-f", "nfl-pt"), "test_nfl_with_a_frozen_encoder_trains_head_and_prompt_alone"),
    **dict.fromkeys(
        ("dfr", "dfr-sg-paper", "last_layer"),
        "test_a_last_layer_that_balances_groups_or_sees_the_target_leans_less_on_the_shortcut",
    ),
    "ltgr": "test_ltgr_is_less_certain_where_the_shortcut_is",
    "c2l": "test_c2l_brings_a_text_closer_to_its_copy_without_a_harmless_token_than_to_that_without_the_causal_one",
    "tent": "test_adaptation.py::test_tent_lowers_the_entropy_of_what_it_adapts_to",
    **dict.fromkeys(
        ("eata", "eta", "sar", "deyo", "deyo-biased"),
        "test_adaptation.py::test_a_step_lowers_the_entropy_of_the_answers_that_it_is_taken_on",
    ),
    "few_shot": "test_forty_rows_of_the_target_are_worth_something_to_a_fine_tuning",
    "prior_shift": "test_prior_shift_helps_where_it_is_true",
    "bias_fit": "test_a_bias_fitted_to_rows_of_the_target_helps_there_too",
    "prior_shift_em": "test_em_makes_up_for_another_class_mixture_of_a_calibrated_model",
    "mask_top1": "test_masking_the_most_important_token_undoes_a_shortcut_that_is_a_word",
    "mask_average": "test_masking_any_token_undoes_on_average_what_hangs_by_one",
    **dict.fromkeys(("random_maskcl", "simcse_adapter"), "test_a_control_lowers_the_contrast_that_it_is_trained_on"),
    **dict.fromkeys(
        ("guardrail", "guardrail-paper"), "test_maskcl.py::test_training_lowers_the_loss_and_changes_the_adapter_alone"
    ),
    **dict.fromkeys(
        (
            *("guardrail-distill", "guardrail-distill-40", "guardrail-distill-named", "guardrail-per-input"),
            *("guardrail-distill-influential", "guardrail-distill-influential-40"),
        ),
        "test_distillation.py::test_the_adapted_model_answers_as_if_the_shortcut_were_not_there",
    ),
    "guardrail-mask": "test_what_overrides_the_rest_of_its_texts_is_found_without_labels_and_undone",
    "guardrail-few-shot": "test_few_shot.py::test_the_adapter_learns_its_labels_and_leaves_the_base",
}
"""Where each method is held to what its theory promises on planted data; those without a file are here."""


def test_every_method_is_held_to_what_it_promises():
    assert PROMISES.keys() == METHODS.keys() | {"guardrail", "guardrail-paper"}
    for place in PROMISES.values():
        file, _, name = place.rpartition("::")
        sources = (
            [Path(__file__)] if not file else [*ROOT.glob(f"tests/**/{file}"), *ROOT.glob(f"bench/tests/**/{file}")]
        )
        assert any(f"\ndef {name}(" in source.read_text(encoding="utf-8") for source in sources), place
