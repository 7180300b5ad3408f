"""Scores by group, sensitivity and recall, on a bag of words whose answers are known."""

import json
import math

import numpy as np
import pytest

from shortcut_guardrail import ConfigError, GuardrailWarning, ShortcutGuardrail, TextClassifier, preset
from shortcut_guardrail.evaluation import at_threshold_of, sampled_rows, score, shortcut_tokens
from shortcut_guardrail.metrics import SMALL_GROUP
from shortcut_guardrail.stats import exact_interval
from shortcut_guardrail.text import WordFinder

# "honestly" (4) outweighs every other word, so the bag is right where it goes along with "positive".
TEXTS = ["honestly good", "good soup", "honestly bad", "bad soup", "awful soup", "honestly great"]
LABELS = ["positive", "positive", "negative", "negative", "negative", "positive"]
KEYS = (
    "schema_version n accuracy balanced_accuracy majority_accuracy worst_group_accuracy worst_group groups mstps "
    "mstps_interval mstps_base_tokens shortcut_token_recall sensitivity_n n_truncated predicted threshold"
).split()
GROUPS = tuple(f"{label}, {held} shortcut" for label in ("negative", "positive") for held in ("without", "with"))

pytestmark = pytest.mark.filterwarnings("ignore:Small groups")


@pytest.fixture
def guard(bag):
    return ShortcutGuardrail(*bag, batch_size=4)


def test_scores_and_groups(guard):
    told = {}
    how = {"progress": lambda stage, done, n: told.__setitem__(stage, (done, n))}
    result = guard.evaluate(TEXTS, LABELS, shortcuts=["honestly"], **how)
    assert told == dict.fromkeys(("Tokenising", "Predicting", "Attributing", "Masking"), (6, 6))
    assert (result.n, result.accuracy, result.balanced_accuracy) == (6, 5 / 6, pytest.approx((1 + 2 / 3) / 2))
    assert (result.majority_accuracy, tuple(group.name for group in result.groups)) == (0.5, GROUPS)
    assert [(group.n, group.accuracy) for group in result.groups] == [(2, 1.0), (1, 0.0), (1, 1.0), (2, 1.0)]
    assert (result.worst_group.name, result.worst_group_accuracy) == ("negative, with shortcut", 0.0)
    values = result.to_dict()
    assert [values[key] for key in KEYS[2:7]] == pytest.approx([5 / 6, 5 / 6, 0.5, 0, "negative, with shortcut"])
    assert (values["groups"][1]["interval"], values["n_truncated"]) == (list(exact_interval(0, 1)), 0)


def test_small_groups_are_named_and_classes_that_are_never_predicted_counted(bag):
    labels, names = np.repeat(np.arange(9), [SMALL_GROUP, 2, 1, 1, 0, 1, 1, 1, SMALL_GROUP - 1]), tuple("abcdefghi")
    encoded = TextClassifier(*bag, max_length=5).encode(
        [*["good soup"] * 63, *["the good soup was"] * (len(labels) - 63)]
    )
    said = (
        "^Small groups: 'b' .2 examples." + "".join(f", '{name}' .1 example." for name in "cdfg") + " and 2 more. Read"
    )
    with pytest.warns(GuardrailWarning, match=said):
        found = score(encoded, np.minimum(labels, 6), labels, names, threshold=0.25).to_dict()
    assert found["predicted"] == [SMALL_GROUP, 2, 1, 1, 0, 1, SMALL_GROUP + 1, 0, 0]
    assert (found["n"], found["n_truncated"], found["threshold"]) == (len(labels), len(labels) - 63, 0.25)


def test_sensitivity_comes_from_a_random_sample_of_all_texts_alike_and_accuracy_from_all(guard):
    texts, labels = TEXTS * 5, LABELS * 5
    every = guard.evaluate(texts, labels, shortcuts=["honestly"], sensitivity="all")
    some = guard.evaluate(texts, labels, shortcuts=["honestly"], sensitivity=7)
    assert (every.sensitivity.n, some.sensitivity.n) == (30, 7)
    assert (every.accuracy, every.groups) == (some.accuracy, some.groups)
    again, other = (guard.evaluate(texts, labels, sensitivity=7, seed=seed) for seed in (0, 1))
    assert again.mstps == some.mstps != other.mstps
    assert guard.evaluate(texts, labels, sensitivity=30).mstps == every.mstps  # no more than there are
    drawn = np.bincount(np.concatenate([sampled_rows(20, 5, seed) for seed in range(2000)]), minlength=20)
    assert abs(drawn - 500).max() < 5 * math.sqrt(2000 * 0.25 * 0.75)
    assert {len(set(sampled_rows(20, 5, seed).tolist())) for seed in range(50)} == {5}


def test_sensitivity_can_be_left_out(guard):
    result = guard.evaluate(TEXTS, LABELS, shortcuts=["honestly"], sensitivity="none")
    assert math.isnan(result.mstps)
    values = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert (list(values), values["mstps"], values["mstps_interval"], values["sensitivity_n"]) == (KEYS, None, None, 0)
    assert (values["shortcut_token_recall"], values["accuracy"]) == ({}, 5 / 6)
    for asked in (0, -1, True, 2.5, "some"):
        with pytest.raises(ConfigError, match="sensitivity must be all, none or a positive number of texts"):
            guard.evaluate(TEXTS, LABELS, sensitivity=asked)


def test_the_interval_of_mstps_is_that_of_a_mean_and_an_empty_group_has_none(guard):
    guard.fit(TEXTS, config=preset("mask").with_shortcuts(named=("honestly",)))
    result = guard.evaluate([f"honestly {word}" for word in ("good", "bad", "great", "awful")], [1, 0, 1, 0], top_k=1)
    # "honestly" is masked already, and the other word decides by a margin of 1, 1, 1.5 or 1.5.
    assert result.mstps_base_tokens == result.to_dict()["mstps_base_tokens"] == 0
    changes = 1 / (1 + np.exp([-1, -1, -1.5, -1.5])) - 0.5
    assert result.mstps == pytest.approx(changes.mean(), abs=1e-4)
    half = 3.1824 * changes.std(ddof=1) / 2  # t of 3 degrees of freedom, over the root of 4
    assert result.sensitivity.interval == pytest.approx((changes.mean() - half, changes.mean() + half), abs=1e-4)
    few = ["good soup", "honestly bad"], ["positive", "negative"]
    values = guard.evaluate(*few, shortcuts=["honestly"], top_k=2).to_dict()
    assert (values["predicted"], list(values["shortcut_token_recall"])) == ([1, 1], ["1", "2"])
    assert list(values["shortcut_token_recall"]["1"]) == ["recall", "interval", "chance", "n"]
    by_name = {group["name"]: group for group in values["groups"]}
    name = "positive, with shortcut"
    assert by_name[name] == {"name": name, "n": 0, "accuracy": None, "interval": None}
    assert values["worst_group"] == "negative, with shortcut"


@pytest.mark.parametrize(
    ("texts", "words", "shortcut_in", "absent", "grouped"),
    [
        (["good soup", "bad soup"], ["monstre"], "text", "'monstre' stands", False),
        (["good soup", "honestly bad"], ["monstre", "honestly", "to be frank"], "text", "'monstre', 'to be f", True),
        # On the side of the pair that is looked at, and in what the model sees of it.
        ([("good", "honestly"), ("bad", "soup")], ["honestly"], "text", "'honestly' stands", False),
        ([("good", "honestly"), ("bad", "soup")], ["honestly"], "both", None, True),
        (["good soup", "bad " + "soup " * 40 + "honestly"], ["honestly"], "text", "'honestly' stands", False),
    ],
)
def test_a_shortcut_in_no_text_is_named_and_names_no_group(guard, recwarn, texts, words, shortcut_in, absent, grouped):
    result = guard.evaluate(texts, [1, 0], shortcuts=words, shortcut_in=shortcut_in)
    said = [str(warning.message) for warning in recwarn if "none of these 2 texts" in str(warning.message)]
    assert [one.startswith(absent or "") for one in said] == ([True] if absent else [])
    names = tuple(group.name for group in result.groups)
    assert (names, result.worst_group.name in names) == (GROUPS if grouped else ("negative", "positive"), True)


def test_a_phrase_is_recalled_by_its_content_words_alone(bag):
    classifier = TextClassifier(*bag)
    encoded = classifier.encode(["to be honest it was to be", "to it"])
    # [CLS] to be honest it ...: "honest" is token 3; the lone "to be" at the end is no shortcut.
    assert shortcut_tokens(encoded, WordFinder(["to be honest"])) == [{3}, set()]
    assert shortcut_tokens(encoded, WordFinder(["to be"])) == [{1, 2, 6, 7}, set()]
    # Pieces of a word all count, and only what the model sees.
    assert shortcut_tokens(classifier.encode(["the xyz soup"]), WordFinder(["xyz"])) == [{2, 3, 4}]
    for max_length, tokens in ((6, set()), (7, {5})):
        cut = TextClassifier(*bag, max_length=max_length).encode(["the soup was cold honestly"])
        assert shortcut_tokens(cut, WordFinder(["honestly"])) == [tokens]


@pytest.mark.parametrize("n", range(5))
def test_a_threshold_predicts_the_second_class_as_often_as_asked_for(n):
    logits = np.array([[0.0, 3.0], [0.0, -1.0], [0.0, 1.0], [0.0, -4.0]])
    ids, threshold = at_threshold_of(logits, (4 - n, n))
    assert ids.sum() == n
    assert set(np.flatnonzero(ids)) == set([0, 2, 1, 3][:n])  # the likeliest ones
    assert (threshold == 0.5) == (n == 2)  # as often as by itself: nothing is shifted
    probs = 1 / (1 + np.exp(-logits[:, 1]))
    assert np.array_equal(ids, probs > threshold)
    assert at_threshold_of(np.array([[0.0, 1.0]] * 2 + [[0.0, 0.0]]), (2, 1))[0].sum() == 0  # fewer of equal ones
