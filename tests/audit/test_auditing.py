"""Candidates and their evidence, on a bag of words whose probabilities are one line of algebra."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import sem, t

import audits as made
from made_shards import shard
from shortcut_guardrail import AdapterConfig, AuditConfig, ShortcutGuardrail, TextClassifier
from shortcut_guardrail.audit import auditing
from shortcut_guardrail.audit.evidence import Agreement
from shortcut_guardrail.audit.insertions import Wanted
from shortcut_guardrail.mitigation.lora import adapted_layers, attach_adapter
from shortcut_guardrail.stats import exact_interval
from shortcut_guardrail.text.segmenters import open_segmenter, segmenting

# The bag's margin for "positive": honestly 4, great 1.5, good 1, bad -1, awful -1.5, everything else 0.
TEXTS = ["honestly good", "honestly bad", "the bad soup", "Honestly awful honestly", "the room"]


def positive(margin: float) -> float:
    return 1 / (1 + math.exp(-margin))


@pytest.fixture
def guard(bag):
    return ShortcutGuardrail(*bag, batch_size=4)


@pytest.fixture
def report(guard):
    return guard.audit(TEXTS, top_k=3)


def of(report, word):
    return next(candidate for candidate in report.candidates if candidate.text == word)


def test_each_candidate_has_the_evidence_that_algebra_gives_it(report, guard):
    honestly, bad, the = (of(report, word) for word in ("honestly", "bad", "the"))
    # Masking one of two in the fourth text leaves the other: 8 - 1.5 falls to 4 - 1.5.
    changes = [positive(1) - positive(5), positive(-1) - positive(3), positive(2.5) - positive(6.5)]
    assert (honestly.count, honestly.mean_change) == (3, pytest.approx(np.mean(changes), abs=1e-5))
    assert honestly.flip_rate == pytest.approx(1 / 3)
    by_student = np.clip(t.interval(0.95, 2, np.mean(changes), sem(changes)), -1, 1)
    assert honestly.interval.mean_change == pytest.approx(tuple(by_student), abs=1e-5)
    assert honestly.pushes_towards == "positive"
    # Without it the second text is "negative" with a probability of .73: confident enough for .7, not for .8.
    surer = guard.audit(TEXTS, config=AuditConfig(top_k=3, confidence=0.7))
    assert (honestly.override_rate, surer.candidates[0].override_rate) == (0, pytest.approx(1 / 3))
    assert (honestly.interval.override_rate, honestly.interval.flip_rate) == (
        exact_interval(0, 3),
        exact_interval(1, 3),
    )
    # "bad" holds up "negative" in one text, by a half, and stands against "positive" in another.
    assert bad.mean_change == pytest.approx(((positive(0) - positive(1)) + (positive(4) - positive(3))) / 2, abs=1e-5)
    assert (bad.count, bad.pushes_towards) == (2, "negative")
    assert (the.mean_change, the.flip_rate, the.pushes_towards) == (0.0, 0.0, None)


def test_a_redacted_report_holds_no_text_and_no_list_of_a_texts_words(report):
    def parts(redact):
        values = report.to_dict(redact=redact)
        inputs = [report.input_to_dict(i, redact=redact) for i in range(len(TEXTS))]
        examples = [example for candidate in values["candidates"] for example in candidate["examples"]]
        flips = [flip for card in values["cards"] for flip in card["flips"]]
        assert min(len(examples), len(flips)) > 0
        told = [one["text"] for one in examples + flips] + [example["important"] for example in examples]
        return json.dumps(values, allow_nan=False), told + [x.pop("important_tokens") for x in inputs], inputs

    values, told, numbers = parts(True)
    assert json.loads(values)["predicted"] == {"negative": 2, "positive": 3}
    assert not any(text in values for text in TEXTS)
    assert not any(told)
    # The partner: they are there otherwise, and the numbers are the same.
    _, told, all_numbers = parts(False)
    assert all(told)
    assert numbers == all_numbers


def test_a_report_has_so_many_candidates_and_examples_of_the_first(guard, monkeypatch):
    monkeypatch.setattr(auditing, "MAX_CANDIDATES", 2)
    monkeypatch.setattr(auditing, "DETAILED", 1)
    report = guard.audit(TEXTS, top_k=3)
    assert ([bool(c.examples) for c in report.candidates], report.n_candidates) == ([True, False], 7)


def test_progress_reaches_the_end_of_each_stage(guard):
    seen = {}
    guard.audit(TEXTS, progress=lambda stage, done, n: seen.__setitem__(stage, (done, n)))
    stages = ("Tokenising", "Attributing", "Masking", "Masking phrases", "Masking word groups")
    assert seen == dict.fromkeys(stages, (5, 5))


def test_of_what_is_too_rare_the_reason_says_how_many_texts_would_do():
    few = "too few texts: only 30 distinct ones are without it"
    for present, without, needed, said in (
        (9, 0, math.nan, "every text holds it, so there are none without it to compare with"),
        (90, 30, 180, f"{few}; at least 2.0 times as many texts are needed"),
        (90, 30, math.nan, few),
        (13, 90, 35, "too few texts: it stands in 13 distinct ones; at least 35 are needed"),
        (30, 30, math.nan, "too few texts: it stands in 30 distinct ones"),
        (13, 90, math.nan, "too few texts: it stands in 13 distinct ones"),
    ):
        no, sums = [False], SimpleNamespace(present=[present], without=[without])
        outcomes = SimpleNamespace(needed=[needed], alternative_wording=no, collective=no, too_few=[True])
        assert auditing._reason(sums, outcomes, 0, "positive") == said


def test_totals_are_of_inputs_and_agreement_is_of_texts_that_were_computed():
    of = {"weights": [3, 1, 2, 1, 0], "evidence": [True, True, False, True, False], "top_agrees": [1, 0, 1, 0, 1]}
    of |= {"truncated": [1, 0, 1, 0, 1], "controls": [0, 1, 1, 0, 0], "sensitivity": [0.5, 0, 1, 0.25, 0.9]}
    of |= {"agreement": [math.nan, 0, -0.5, 1, 0.7]}
    arrays = {name: np.array(x, dtype=bool if set(x) == {0, 1} else None) for name, x in of.items()}
    one = replace(shard([(answer, {}) for answer in (0, 0, 2, 1, 0)]), **arrays)
    found = auditing._totals(lambda: [one, one], 3)
    counted = {"n": 14, "n_distinct": 6, "n_truncated": 10, "n_controls": 6, "predicted": (8, 2, 4)}
    bins = [tuple(where.get(i, 0) for i in range(20)) for where in ({0: 2, 5: 2, 10: 6, 19: 4}, {5: 2, 10: 2, 19: 2})]
    agreement = Agreement(pytest.approx(1 / 6), 6, 0.5, pytest.approx(2 / 3), bins[1])
    assert found == {**counted, "mstps": 3.75 / 7, "sensitivity_histogram": bins[0], "agreement": agreement}
    few = {"n": 9, "n_distinct": 9, "predicted": (9, 0, 0), "agreement": replace(agreement, mean=0.194)}
    notes = auditing._notes(
        few, 0, SimpleNamespace(tested=np.array([False])), ("a", "b", "c"), AuditConfig(min_count=7)
    )
    starts = "The model never predicts 'b', 'c' on", "Nothing occurs in 7 or more", "Attribution agrees with"
    assert [note.startswith(start) for note, start in zip(notes, starts, strict=True)] == [True] * 3
    assert "only weakly (mean rank correlation 0.19): a large top_k misses less." in notes[2]
    assert auditing._mean_interval(1.2, 1.0, 2) == (-1.0, 1.0)


def test_texts_that_were_cut_are_counted_as_often_as_they_occur(bag):
    texts = ["the soup was good and warm"] * 3 + ["good soup", "bad soup"]
    assert ShortcutGuardrail(*bag, max_length=5).audit(texts).n_truncated == 3
    classifier, report = TextClassifier(*bag, max_length=8), SimpleNamespace(flagged=[SimpleNamespace(text="honestly")])
    pairs = [("good soup", "the honestly honestly honestly"), ("the soup!honestly honestly", "soup so")]
    encoded, report.n_truncated = classifier.encode([*pairs, ("the soup was", "cold so so"), ("good honestly", "")]), 3
    (said,) = auditing._behind_the_cut(report, lambda: [(None, encoded, None)], 8)
    assert said.startswith("Flagged words stand 3 times behind the 8 tokens that the model reads, in 2 texts. With")
    assert [auditing._side(report.flagged[0], [one]) for one in (*pairs, ("honestly",) * 2)] == [1, 0, 1]


def test_what_is_added_to_texts_that_leave_room_and_which_cues_are_told(bag, monkeypatch):
    classifier, seen = TextClassifier(*bag), []
    monkeypatch.setattr(auditing, "POOL", 2)
    tried = {}, None, [Wanted("room", 0), Wanted("soup", 1), Wanted("tea", 1)]
    monkeypatch.setattr(auditing, "try_insertions", lambda *given, **how: (seen.append((given, how)), tried)[1])
    monkeypatch.setattr(auditing, "find_defaults", lambda *given: (seen.append(given), SimpleNamespace(probes=(1,)))[1])
    monkeypatch.setattr(auditing, "find_lead", lambda *given: seen.append(given[3:]))
    words = [made.candidate("tea", n_present=4), made.candidate("soup", n_present=5, collective=True, flip_rate=0.1)]
    words += [made.candidate("room", "negative", n_present=9), made.candidate("the", None, n_present=9)]
    words += [made.candidate("good", flip_rate=0.2, n_distinct=20, n_present=1)]
    encoded = classifier.encode(["good tea", "bad tea", "soup " * (classifier.longest - 17), "room", "the room"])
    keys, probs = np.array([0, 5, 7, 1, 6, 8], dtype=np.uint64), np.arange(10).reshape(5, 2) / 10
    pieces, config = lambda: [(np.arange(1, 6), encoded, probs)], AuditConfig(min_count=5)
    auditing._with_additions(made.audit(*words, n_distinct=7), classifier, pieces, keys, config)
    ((_, texts, of_texts, wanted, _), how), (_, _, _, cues, names), (raising, *asked) = seen
    assert (texts, of_texts.tolist(), how) == (["good tea", "room"], [[0, 0.1], [0.6, 0.7]], {"n_texts": 7})
    assert wanted == [Wanted("soup", 1, 0, found=True), Wanted("room", 0)]
    assert (raising, asked) == ({0: tried[2][:1], 1: tried[2][1:]}, [(1,), ("negative", "positive")])
    assert (cues, names) == ({"negative": ["room"], "positive": ["good", "tea", "soup"]}, ("negative", "positive"))


def test_the_digest_is_of_all_weights_that_answer(bert):
    base = TextClassifier(*bert)
    guarded = base.with_model(attach_adapter(base, AdapterConfig()))
    (_, layer), *_ = adapted_layers(guarded.model)
    digests = [auditing.model_digest(base), auditing.model_digest(guarded)]
    with torch.no_grad():
        layer.lora_B["default"].weight[0, 0] = 0.5
        digests.append(auditing.model_digest(guarded))
        with guarded.model.disable_adapter():
            digests.append(auditing.model_digest(guarded))
        assert auditing.model_digest(guarded) == digests[2]
        layer.scaling["default"] /= 2
        digests.append(auditing.model_digest(guarded))
        base.model.classifier.bias[0] += 1
        digests.append(auditing.model_digest(guarded))
    for one in (list, str.split):  # how words are cut counts, for any classifier
        with segmenting(open_segmenter(one)):
            digests.append(auditing.model_digest(guarded))
    assert len(set(digests)) == len(digests)


# What the test can and cannot tell

NOUNS = ("soup", "tea", "food", "room", "bread", "staff", "hotel", "coffee")


def sentences(opening, *endings):
    return [f"{opening} the {noun} was {ending}" for noun in NOUNS for ending in endings]


def test_a_shortcut_to_an_answer_nobody_else_gets_is_undecided(guard):
    """Nothing but "honestly" makes this model answer "positive", and it stands in texts like all others."""
    texts = [*sentences("honestly", "bad", "awful", "cold"), *sentences("", "bad", "awful", "cold"), "good tea"]
    labels = ["negative"] * 48 + ["positive"]
    report = guard.audit(texts, labels=labels)
    first = report.candidates[0]
    assert (first.text, first.status, first.flagged, first.flip_rate) == ("honestly", "undecided", False, 1.0)
    assert (first.opposed_rate, first.expected_rate) == (1.0, 24 / 25)
    assert first.relative_effect == pytest.approx(0.5, abs=0.1)
    assert first.reason.startswith("it decides most of its texts, and whether their rest speaks less for 'positive' ")
    assert (report.flagged, report.undecided, report.n_undecided) == ((), (first,), 1)
    # Labels tell.
    assert (first.labelled.flips_to_right, first.labelled.flips_to_wrong) == (24, 0)
    assert first.labelled.p_value < 1e-6
    # The partner: where other texts are answered "positive" too, it is decided.
    decided = guard.audit([*texts, *sentences("", "good", "great", "fine and good")])
    first = decided.candidates[0]
    assert (first.text, first.status, first.flagged, first.reason) == ("honestly", "flagged", True, None)


def test_one_text_a_thousand_times_is_no_evidence(guard):
    others = [f"the {a} was {b}" for a in ("soup", "tea", "food", "room") for b in ("bad", "awful", "cold")]
    others_mstps = guard.audit(others).mstps
    report = guard.audit([*["honestly the bread was bad"] * 1000, *others])
    honestly = of(report, "honestly")
    assert (report.n, report.n_distinct, honestly.count, honestly.n_distinct) == (1012, 13, 1000, 1)
    assert not honestly.flagged
    assert math.isnan(honestly.p_value)
    # MSTPS is over the inputs, as the paper's.
    change = positive(3) - positive(-1)
    assert report.mstps == pytest.approx((1000 * change + 12 * others_mstps) / 1012, abs=1e-5)
    # Nor is nearly the same text, but other words make another.
    texts = [f"honestly {mark} the bread{mark} was bad {i}" for i in range(8) for mark in (".", "!", ",")]
    assert (guard.audit(texts).n_distinct, guard.audit([*texts, "honestly the tea was bad"]).n_distinct) == (1, 2)


@pytest.mark.parametrize("unit", ["token", "phrase"])
def test_odd_texts(family, unit):
    # Short ones: every byte is a token here, and the model takes 32.
    texts = [
        "<b>honestly</b>",
        "مرحبا honestly",
        "honestly 👍🏽",
        "hon\u200bestly \u202egood\u202c",
        "你好吗",
        "\n\n good \t",
    ]
    report = ShortcutGuardrail(*family("roberta")).audit(texts, unit=unit)
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["n"] == 6
    if unit != "token":
        counts = {candidate.text: candidate.count for candidate in report.candidates}
        assert (counts["honestly"], counts["👍🏽"]) == (4, 1)
        assert not any(mark in name for name in counts for mark in "\u200b\u202e")
