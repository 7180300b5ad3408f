"""What methods say, and do, when the material does not allow what they are for; and how grids and epochs are chosen."""

import copy
import dataclasses
import math
import warnings

import numpy as np
import pytest

from methods_toy import DEV, GROUPS, NAMES, QUICK, SUPPORT, TRAIN, fit, rows
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.finetuning.config import FinetuneConfig
from shortcut_bench.methods import DFR, JTT, RULES, FewShot, GroupDRO, LastLayer, SupConSupport, jtt
from shortcut_bench.methods.dfr import draw_with_all_classes
from shortcut_bench.methods.prompts import add_prompt
from shortcut_bench.methods.same_budget import PriorShift
from shortcut_bench.methods.selection import Rule, best_index, search
from shortcut_bench.methods.training import Changes, Stopwatch, resolve_recipe, train
from shortcut_bench.registry import make_system
from shortcut_bench.systems import Need
from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning, RunError

AT_STRENGTH_1 = rows("dev", (30, 0, 0, 30), 11)
"""As a dev set is at shortcut strength 1: two of the four groups have no row."""


with_ = dataclasses.replace


EASY = LabelledTexts(
    "easy", ["bad bad bad", "good good good"] * 20, np.array([0, 1] * 20), NAMES, np.array([0, 2] * 20), GROUPS
)
"""Rows that a first stage answers without error: two texts."""


def test_an_empty_error_set_is_warned_about_and_trained_once_without_weights(material):
    method = JTT(variant="sg-paper", upweights=(4, 6), identification_epochs=(15,), recipe=QUICK)
    with pytest.warns(GuardrailWarning, match="answered all 40 training rows rightly, so its error set is empty"):
        system = method.fit(with_(material, train=EASY), seed=0)
    info = system.info()
    assert info["n_errors"] == 0
    # Both weights are the same training, which is done once.
    assert info["trials"][0]["score"] == info["trials"][1]["score"]
    assert system.forward_equivalents == 3 * 15 * 40 + 40 + 3 * 40 + len(DEV)


def test_a_first_stage_that_has_not_learned_is_warned_about(material):
    # A head that is not trained answers most texts alike: right with these labels, wrong with the others.
    lopsided = dataclasses.replace(EASY, labels=np.array([0] * 38 + [1] * 2))
    options = {"upweights": (4,), "recipe": QUICK, "select": "last", "identification_epochs": (1,)}
    shares = []
    for given in (lopsided, dataclasses.replace(lopsided, labels=1 - lopsided.labels)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            info = JTT(**options, identification_rate=1e-9).fit(with_(material, train=given), seed=0).info()
        shares.append(info["error_share"])
        said = [str(w.message) for w in caught if "it has hardly learned" in str(w.message)]
        assert len(said) == (info["error_share"] > 0.5)
        assert all(f"answered {info['n_errors']} of 40 training rows wrongly" in one for one in said)
    assert min(shares) <= 0.5 < max(shares)


def test_a_first_stage_that_diverges_is_trained_once_and_paid_for(material, monkeypatch):
    asked = []

    def diverge(material, rows, *rest, spend, **named):
        asked.append(len(rows))
        spend(10.0)
        raise RunError("the loss became nan")

    monkeypatch.setattr(jtt, "train", diverge)
    run = jtt._Run(JTT(recipe=QUICK), material, 0, None)
    for upweight in (4, 5, 6):
        with pytest.raises(RunError, match="became nan"):
            run.fit_point({"learning_rate": 1e-3, "identification_epochs": 2, "upweight": upweight})
    assert (asked, run.cost) == ([len(TRAIN)], 10.0)
    with pytest.warns(GuardrailWarning, match="is left out"), pytest.raises(RunError, match="diverged at all 3 points"):
        JTT(recipe=QUICK).fit(material, seed=0)


def test_a_class_missing_from_a_half_is_drawn_again_and_given_up_on_in_words():
    labels = np.array([0] * 30 + [1])
    draws = []

    def draw():
        draws.append(1)
        return (np.arange(30) if len(draws) < 4 else np.arange(1, 31),)

    (half,), n_draws = draw_with_all_classes(labels, 2, draw, "'dev'")
    assert 30 in half
    assert len(draws) == n_draws == 4
    with pytest.raises(DataError, match=r"100 draws of 31 rows .* left one out each time. Give more rows of the rare"):
        draw_with_all_classes(labels, 2, lambda: (np.arange(30),), "'dev'")


def test_dfr_without_groups_says_which_variant_needs_none(material):
    hidden = with_(material, dev=DEV.without_groups())
    with pytest.raises(DataError, match="declare dev-groups, or take variant sg-paper"):
        DFR().fit(hidden, seed=0)
    assert DFR(variant="sg-paper").needs == {Need.TRAIN, Need.GRADIENTS}
    assert Need.TRAIN not in DFR(standardise_on="dev").needs


def test_dfr_with_a_single_strength_takes_one_row_of_each_class_at_any_seed(material):
    four = with_(material, dev=DEV.select([int(np.flatnonzero(DEV.groups == group)[0]) for group in (0, 3)]))
    with pytest.raises(DataError, match="left one out each time"):
        fit(DFR(), four)
    for seed in range(8):
        info = fit(DFR(inverse_strengths=(0.3,)), four, seed=seed).info()
        assert (info["selection"]["rule"], info["inverse_strength"]) == ("fixed", 0.3)
        assert info["trials"] == [{"point": {"inverse_strength": 0.3}, "score": None, "diverged": None}]


def test_group_dro_with_a_single_group_is_refused(material):
    single = dataclasses.replace(TRAIN, groups=np.zeros_like(TRAIN.groups))
    with pytest.raises(DataError, match="all 192 of 'train' are in one"):
        GroupDRO(recipe=QUICK).fit(with_(material, train=single), seed=0)


def test_groups_without_training_rows_get_no_weight_and_are_named(material):
    method = GroupDRO(recipe=QUICK, adjustments=(0.0, 1.0))
    with pytest.warns(GuardrailWarning) as caught:
        info = fit(method, with_(material, train=rows("train", (90, 0, 6, 90), 1), dev=AT_STRENGTH_1)).info()
    assert [str(warning.message) for warning in caught] == [
        "Group DRO cannot do anything for 'negative, with', of which 'train' has no row.",
        "The rule 'dev-worst-group' reads the worst of the groups that have rows in 'dev', which has none of "
        "'negative, with' and 'positive, without': it does not see them.",
    ]
    assert info["train_groups_without_rows"] == ["negative, with"]
    assert info["group_weights"]["negative, with"] == 0.0
    assert sum(info["group_weights"].values()) == pytest.approx(1.0)
    assert [trial["point"]["adjustment"] for trial in info["trials"]] == [0.0, 1.0]


def test_a_diverging_point_is_recorded_and_never_chosen(material):
    method = JTT(learning_rates=(1e38, 5e-3), upweights=(4,), identification_epochs=(1,), recipe=QUICK)
    with pytest.warns(GuardrailWarning, match=r"The grid point .*1e\+38.* is left out, since its training failed"):
        info = method.fit(material, seed=0).info()
    assert info["point"]["learning_rate"] == 5e-3
    bad, good = info["trials"]
    assert (good["diverged"], bad["score"]) == (None, None)
    assert "finite" in bad["diverged"]


def test_the_best_point_is_the_first_of_the_highest_scores():
    scores = {"a": 0.2, "b": 0.9, "c": 0.9, "d": math.nan}

    def fit(point):
        if point["name"] == "d":
            raise RunError("it blew up")
        return point["name"], scores[point["name"]]

    with pytest.warns(GuardrailWarning, match="'name': 'd'} is left out, since its training failed: it blew up"):
        chosen = search([{"name": name} for name in "dabc"], fit, RULES["dev-accuracy"])
    assert (chosen.fitted, chosen.point) == ("b", {"name": "b"})
    assert [trial.diverged for trial in chosen.trials] == ["it blew up", None, None, None]
    assert best_index([0.1, math.nan, 0.3, 0.3]) == 2
    with pytest.raises(RunError, match="None of the candidates has a score"):
        best_index([math.nan])
    with pytest.raises(ConfigError, match="A grid of 2 points needs a rule that compares them, but select is 'last'"):
        search([{}, {}], lambda point: (1, None), RULES["last"])
    with pytest.raises(ConfigError, match="at least one point"):
        search([], lambda point: (1, None), RULES["last"])


def test_the_kept_epoch_is_the_first_of_the_best_and_its_weights_are_back(material):
    scores = iter([0.3, 0.8, 0.8, 0.1])
    rule = Rule("dev-accuracy", frozenset({Need.DEV}), lambda guesses, dev: next(scores))
    recipe = FinetuneConfig(learning_rate=5e-3, epochs=4, batch_size=32, max_length=16)
    states = []
    changes = Changes(on_epoch_end=lambda _, model: states.append(copy.deepcopy(model.state_dict())))
    trained = train(material, TRAIN, recipe, rule, stage="all", watch=Stopwatch(), seed=0, changes=changes)
    assert (trained.epoch, trained.score, trained.scores) == (1, 0.8, (0.3, 0.8, 0.8, 0.1))
    kept = trained.result.model.state_dict()
    assert all((kept[name] == states[1][name]).all() for name in kept)
    assert any((kept[name] != states[3][name]).any() for name in kept)
    assert trained.cost == 3 * 4 * len(TRAIN) + 4 * len(DEV)


def test_recipes_are_the_sources_the_bases_or_single_fields(material):
    source = FinetuneConfig(learning_rate=1e-5, epochs=7)
    assert resolve_recipe("source", source, material) == dataclasses.replace(source, max_length=16)
    assert resolve_recipe("base", source, material) == material.base.recipe
    assert resolve_recipe({"epochs": 2}, source, material).epochs == 2
    with pytest.raises(ConfigError, match="epochs must be"):
        resolve_recipe({"epochs": 0}, source, material)


def test_options_out_of_range_are_refused():
    for name, options, message in (
        ("jtt", {"recipe": "mine"}, "recipe must be source, base or a table of FinetuneConfig fields, but is 'mine'."),
        ("jtt", {"upweights": (0,)}, "upweights must be whole numbers of at least 1."),
        ("jtt", {"variant": "new"}, "variant must be official or sg-paper, not new."),
        ("nfl", {"variant": "XX"}, "variant must be CP, CO, F or PT, but is 'XX'."),
        ("nfl-f", {"factor": 1.0}, "variant F has no penalty, so factor is no option."),
        ("dfr", {"share": 0.0}, "share must be above 0 and at most 1, but is 0.0."),
        ("group_dro", {"step_size": -1.0}, "step_size must be at least 0, but is -1.0."),
        ("ltgr", {"weight": 1.5}, "weight must lie between 0 and 1, but is 1.5."),
        ("poe", {"loss": "sum"}, "loss must be one of product, mixin, reweight, but is 'sum'."),
        ("poe", {"bias": "char"}, "bias must be one of words, bag, weak, but is 'char'."),
        ("poe", {"folds": 1}, "folds must be at least 2, but is 1."),
        ("poe", {"inverse_strength": 0.0}, "inverse_strength must be above 0, but is 0.0."),
        ("learned_mixin", {"penalty": -1.0}, "penalty must be at least 0, but is -1.0."),
        ("poe-weak", {"last_theta": 1.5}, "last_theta must lie between 0 and 1, but is 1.5."),
        ("poe-weak", {"weak_rate": 0.0}, "weak_rate must be above 0, but is 0.0."),
        ("poe-weak", {"weak_epochs": 0}, "weak_epochs must be at least 1, but is 0."),
        ("c2l+distill", {"trainer": "poe"}, "trainer must be one of poe-bow, c2l, but is 'poe'."),
        ("identify_mitigate", {"n_words": 0}, "n_words must be at least 1, but is 0."),
        ("identify_mitigate", {"rarity": -1.0}, "rarity must be at least 0, but is -1.0."),
        ("less_learn", {"floor": 0.0}, "floor must be above 0 and at most 1, but is 0.0."),
        ("less_learn", {"least_share": 1.5}, "least_share must be above 0 and at most 1, but is 1.5."),
        ("less_learn", {"least_texts": 0}, "least_texts must be at least 1, but is 0."),
        ("less_learn", {"of": "sum"}, "of must be max or mean, but is 'sum'."),
        ("c2l", {"proposals": "gpt"}, "proposals must be auto, mlm or mask, not gpt."),
        ("supcon_support", {"weight": 1.1}, "weight must lie between 0 and 1, but is 1.1."),
        ("supcon_support", {"temperature": 0.0}, "temperature must be above 0, but is 0.0."),
        ("prior_shift", {"estimate": "guess"}, "estimate must be support, em or bias, not 'guess'."),
        ("simcse_adapter", {"temperature": 0.0}, "temperature must be above 0, but is 0.0."),
        ("simclr_adapter", {"deleted": 1.0}, "deleted must be at least 0 and below 1, but is 1.0."),
        ("simclr_adapter", {"swapped": 1.5}, "swapped must lie between 0 and 1, but is 1.5."),
        ("guardrail-ig", {"steps": 0}, "steps must be at least 1, but is 0."),
        ("random_maskcl", {"min_steps": 9, "max_steps": 8}, "min_steps (9) must not exceed max_steps (8)."),
        ("random_maskcl", {"max_steps": 60}, "min_steps (120) must not exceed max_steps (60)."),
        ("mask_average", {"top_k": 0}, "top_k must be a whole number from 1 to 512, but is 0."),
    ):
        with pytest.raises(ConfigError) as error:
            make_system(name, **options)
        assert str(error.value) == message


@pytest.mark.parametrize("method", [LastLayer(), FewShot(), SupConSupport(), PriorShift(), PriorShift(estimate="bias")])
def test_support_rows_of_one_class_are_refused(method, material):
    one_class = SUPPORT.select(np.flatnonzero(SUPPORT.labels == 0))
    with pytest.raises(DataError, match="needs support rows of at least two classes"):
        fit(method, with_(material, support=one_class))


@pytest.mark.parametrize("name", ["bert", "roberta", "deberta-v2", "modernbert"])
def test_a_prompt_stands_after_the_first_token_of_every_input(name, family):
    model, tokenizer = family(name)
    words = model.get_input_embeddings().weight.clone()
    prompted, with_prompt, ids = add_prompt(model, tokenizer, 3, seed=0)
    for inputs in (("the room",), ("the room", "the soup")):
        plain, longer = tokenizer(*inputs), with_prompt(*inputs)
        assert longer.input_ids == [plain.input_ids[0], *ids, *plain.input_ids[1:]]
        assert longer.encodings[0].sequence_ids[1:4] == [None] * 3
        assert len(with_prompt(*inputs, truncation=True, max_length=8).input_ids) <= 8
    # What was handed in is as it was; each prompt vector starts as some word's.
    assert (model.get_input_embeddings().weight == words).all()
    assert tokenizer.convert_tokens_to_ids("[PROMPT0]") in (None, tokenizer.unk_token_id)
    started = prompted.get_input_embeddings().weight[ids]
    assert all((words == vector).all(dim=1).any() for vector in started)
