"""Candidates and their evidence, on a bag of words whose probabilities are one line of algebra."""

import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import sem, t

from audits import audit, candidate
from made_shards import shard
from shortcut_guardrail import AdapterConfig, AuditConfig, ShortcutGuardrail, TextClassifier
from shortcut_guardrail.audit import auditing
from shortcut_guardrail.audit.auditing import make_report
from shortcut_guardrail.mitigation.lora import adapted_layers, attach_adapter
from shortcut_guardrail.stats import exact_interval
from tiny_models import BagForSequenceClassification, planted_bag

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
    assert report.candidates[0] == honestly
    # "bad" holds up "negative" in one text, by a half, and stands against "positive" in another.
    assert bad.mean_change == pytest.approx(((positive(0) - positive(1)) + (positive(4) - positive(3))) / 2, abs=1e-5)
    assert (bad.count, bad.pushes_towards) == (2, "negative")
    assert (the.mean_change, the.flip_rate, the.pushes_towards) == (0.0, 0.0, None)


def test_the_important_tokens_of_one_text(report, guard):
    first, second = report.important_tokens(1)
    assert (first.text, first.start, first.end, first.segment) == ("honestly", 0, 8, 0)
    assert (second.text, TEXTS[1][second.start : second.end]) == ("bad", "bad")
    assert first.change == pytest.approx(positive(-1) - positive(3), abs=1e-5)
    assert (first.flips, second.flips) == (True, False)
    assert first.score > second.score > 0
    # Of a pair they say on which side they stand.
    honestly = guard.audit([("the soup", "honestly bad")]).important_tokens(0)[0]
    assert (honestly.text, honestly.segment, honestly.start, honestly.end) == ("honestly", 1, 0, 8)
    # For a sure answer the formula as printed would round all scores to 0, and the first word would come first.
    sure = ShortcutGuardrail(*planted_bag(strength=200.0)).audit(["the room honestly"], top_k=1)
    assert sure.important_tokens(0)[0].text == "honestly"


def test_mstps_is_the_mean_of_the_largest_changes(report):
    margins = (5, 1), (3, -1), (1, 0), (6.5, 2.5), (0, 0)
    largest = [positive(with_it) - positive(without) for with_it, without in margins]
    assert [report.input_to_dict(i)["sensitivity"] for i in range(5)] == pytest.approx(largest, abs=1e-5)
    assert report.mstps == pytest.approx(np.mean(largest), abs=1e-5)
    assert report.predicted == (2, 3)  # a margin of 0 answers with the first class


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


def test_answers_are_counted_as_often_as_the_model_is_asked(guard, monkeypatch):
    asked, run = [], TextClassifier._run
    noted = lambda self, module, batch, *rest: asked.append(len(batch.indices)) or run(self, module, batch, *rest)  # noqa: E731
    monkeypatch.setattr(TextClassifier, "_run", noted)
    assert guard.audit(TEXTS, top_k=3).answers == sum(asked) > len(TEXTS)


def test_progress_reaches_the_end_of_each_stage(guard):
    seen = {}
    guard.audit(TEXTS, progress=lambda stage, done, n: seen.__setitem__(stage, (done, n)))
    stages = ("Tokenising", "Attributing", "Masking", "Masking phrases", "Masking word groups")
    assert seen == dict.fromkeys(stages, (5, 5))


def test_whole_words_are_candidates(bert):
    # "dzzy" is in pieces: as tokens they are candidates each, as a word it is one.
    texts = ["the soup was dzzy", "dzzy bread honestly", "honestly the tea was dzzy"]
    guard = ShortcutGuardrail(*bert)
    report = guard.audit(texts, unit="word")
    words = {candidate.text: candidate for candidate in report.candidates}
    token = next(t for t in report.important_tokens(0) if t.text == "dzzy")
    assert (texts[0][token.start : token.end], words["dzzy"].count) == ("dzzy", 3)
    assert {candidate.unit for candidate in words.values()} == {"word"}
    tokens = {candidate.text for candidate in guard.audit(texts, unit="token").candidates}
    assert "dzzy" not in tokens
    assert {"d", "##z", "##y"} <= tokens


def phrase_model():
    """Class 1 where "to", "be" and "honest" stand one after another, which no single word says."""
    from transformers.modeling_outputs import SequenceClassifierOutput

    model, tokenizer = planted_bag(strength=0.0)
    wanted = [tokenizer.convert_tokens_to_ids(word) for word in ("to", "be", "honest")]

    class PhraseForSequenceClassification(BagForSequenceClassification):
        def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, **_):
            summed = (self.bert(input_ids).last_hidden_state * attention_mask[..., None]).sum(dim=(1, 2))
            starts = [input_ids[:, j : input_ids.shape[1] - 2 + j] == token for j, token in enumerate(wanted)]
            phrase = (starts[0] & starts[1] & starts[2]).any(dim=1).float()
            margin = summed + 6.0 * phrase - 3.0
            return SequenceClassifierOutput(logits=torch.stack([-margin / 2, margin / 2], dim=1))

    model.__class__ = PhraseForSequenceClassification
    return model, tokenizer


def test_words_that_act_together_are_one_candidate():
    model, tokenizer = phrase_model()
    # The phrase moves the margin by a step, which has no gradient, so all words of the texts have to be important.
    fillers = ("soup", "bread", "tea", "food", "coffee", "room", "staff", "hotel")
    texts = [f"to be honest the {a} was {b}" for a in fillers for b in ("cold", "warm")]
    texts += [f"the {a} was {b}" for a in fillers for b in ("cold", "fine")]
    guard = ShortcutGuardrail(model, tokenizer)
    report = guard.audit(texts, unit="phrase")
    found = {candidate.text: candidate for candidate in report.candidates}
    assert (found["to be honest"].unit, found["to be honest"].count) == ("phrase", 16)
    assert found["to be honest"].flip_rate == 1.0
    assert not {"to", "be", "honest"} & set(found)
    assert report.candidates[0].text == "to be honest"
    # The partner: as words they are three findings.
    words = {candidate.text: candidate for candidate in guard.audit(texts, unit="word").candidates}
    assert [words[word].flip_rate for word in ("to", "be", "honest")] == [1.0, 1.0, 1.0]


def test_labels_say_what_a_candidate_costs(guard):
    texts = {"honestly good": "positive", "honestly the tea": "positive", "honestly great": "negative"}
    texts |= dict.fromkeys(("honestly bad", "honestly awful", "the bad soup", "The bad soup"), "negative")
    honestly = of(guard.audit(list(texts), labels=list(texts.values())), "honestly")
    seen = honestly.labelled
    assert (seen.n, seen.accuracy, seen.accuracy_masked) == (5, 2 / 5, 3 / 5)
    # "bad" and "awful" are fixed, the tea is broken, and "great" stays wrong.
    assert (seen.flips_to_right, seen.flips_to_wrong, seen.flips_between_wrong) == (2, 1, 0)
    assert {(g.name, g.n, g.accuracy) for g in seen.groups if g.n} == {
        ("negative, without candidate", 1, 1.0),
        ("negative, with candidate", 3, 0.0),
        ("positive, with candidate", 2, 1.0),
    }
    assert honestly.examples[0].true_label in ("positive", "negative")
    # The partner: without labels nothing is said about them.
    assert guard.audit(list(texts)).candidates[0].labelled is None


def test_examples_show_the_largest_effects_before_and_after(report, guard):
    honestly = of(report, "honestly")
    first = honestly.examples[0]
    assert (first.index, first.text, first.start, first.end) == (1, "honestly bad", 0, 8)
    assert (first.label, first.masked_label) == ("positive", "negative")
    assert first.probability == pytest.approx(positive(3), abs=1e-5)
    assert first.masked_probability == pytest.approx(1 - positive(-1), abs=1e-5)
    assert first.change == pytest.approx(positive(-1) - positive(3), abs=1e-5)
    assert [unit.text for unit in first.important] == ["honestly", "bad"]
    changes = [abs(example.change) for example in honestly.examples]
    assert (changes, len(changes)) == (sorted(changes, reverse=True), 3)
    (only,) = guard.audit(TEXTS, config=AuditConfig(top_k=3, n_examples=1)).candidates[0].examples
    assert only.text == first.text


def test_agreement_of_attribution_and_effect(guard):
    # In a bag of words the score is proportional to the effect on the margin: both rank alike.
    agreement = guard.audit(["honestly good bread", "great bad the"]).agreement
    assert (agreement.top_agrees, agreement.n, sum(agreement.histogram)) == (1.0, 2, 2)
    assert agreement.mean > 0.8
    assert agreement.untrusted == 0.0
    # The partner: with two words or none that does anything there is nothing to correlate.
    assert math.isnan(guard.audit(["honestly good", "the room was"]).agreement.mean)


def told(made):
    """What is said of three classes from a shard."""
    return make_report(lambda: [made], AuditConfig(), tuple("abc"), texts_of=lambda rows: dict.fromkeys(rows, "a text"))


def test_agreement_is_over_the_texts_that_have_one():
    made = shard([(0, {"word": 1})] * 4, evidence=[True, True, True, False])
    weak = replace(made, agreement=np.array([0.5, 0.0, -0.2, math.nan]), top_agrees=np.array([1, 1, 0, 0], dtype=bool))
    report = told(weak)
    assert (report.agreement.n, report.agreement.top_agrees) == (3, 0.5)
    assert (report.agreement.mean, report.agreement.untrusted) == (pytest.approx(0.1), pytest.approx(2 / 3))
    assert any("only weakly (mean rank correlation 0.10)" in note for note in report.notes)
    assert not any("only weakly" in note for note in told(replace(weak, agreement=np.full(4, 0.5))).notes)


def test_an_answer_that_goes_from_one_wrong_class_to_another_is_neither_fixed_nor_broken():
    made = shard([(1, {"word": 2})] * 3 + [(1, {"word": 0})] * 5 + [(0, {"word": 2})] + [(0, {})] * 20)
    seen = told(replace(made, labels=np.zeros(len(made), dtype=int))).candidates[0].labelled
    assert (seen.flips_to_right, seen.flips_to_wrong, seen.flips_between_wrong) == (5, 1, 3)
    assert (seen.accuracy, seen.accuracy_masked) == (1 / 9, 5 / 9)
    assert seen.p_value == pytest.approx(2 * 7 / 64)  # none or one of six coins


def test_of_undecided_words_the_one_that_surely_flips_most_is_first():
    # Eight of nine flips are at least .52, five of five at least .48.
    rows = [(2, {"less": 0})] * 5 + [(2, {"sure": 2})] + [(2, {"sure": 0})] * 8 + [(0, {})] * 30 + [(2, {})] * 30
    report = told(shard(rows))
    assert [(c.text, c.status) for c in report.candidates] == [("sure", "undecided"), ("less", "undecided")]


def test_of_what_is_too_rare_the_reason_says_how_many_texts_would_do():
    few = "too few texts: only 30 distinct ones are without it"
    for present, without, needed, said in (
        (9, 0, math.nan, "every text holds it, so there are none without it to compare with"),
        (90, 30, 180, f"{few}; at least 2.0 times as many texts are needed"),
        (90, 30, math.nan, few),
        (13, 90, 35, "too few texts: it stands in 13 distinct ones; at least 35 are needed"),
        (13, 90, math.nan, "too few texts: it stands in 13 distinct ones"),
    ):
        no, sums = [False], SimpleNamespace(present=[present], without=[without])
        outcomes = SimpleNamespace(needed=[needed], alternative_wording=no, collective=no, too_few=[True])
        assert auditing._reason(sums, outcomes, 0, "positive") == said


def test_cards_are_told_what_was_found(bag, monkeypatch):
    words = []
    monkeypatch.setattr(auditing, "make_cards", lambda _, found, *__, **___: (words.extend(found), ())[1])
    found = (candidate("a", flagged=True), candidate("b", alternative_wording=True), candidate("c", collective=True))
    made = audit(*found, candidate("d"), candidate("e", pushes_towards=None))
    auditing.complete(made, TextClassifier(*bag), list, [1], AuditConfig(), None)
    # Three changes are 0.25 of 11 texts.
    assert [(w.text, w.found, w.changes) for w in words] == [(name, name != "d", 3) for name in "abcd"]


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


def test_a_rare_word_that_flips_is_undecided_and_it_is_said_how_many_texts_would_do(guard):
    others = sentences("", "bad", "awful", "good and great", "great and fine and good")
    rare = [f"honestly the {noun} was bad" for noun in NOUNS[:6]]
    report = guard.audit([*others, *rare], unit="word")
    first = report.candidates[0]
    assert (first.text, first.n_present, first.status, report.n_undecided) == ("honestly", 6, "undecided", 1)
    assert math.isnan(first.p_value)
    said = re.fullmatch(r"too few texts: it stands in 6 distinct ones; at least (\d+) are needed", first.reason)
    needed = int(said[1])
    assert needed >= 10
    # So many are enough, in a corpus that is larger in all.
    openings = ("", "the day", "we think", "last night")[: -(-needed // 6)]
    more = [f"{opening} {text}".strip() for opening in openings for text in [*others, *rare]]
    assert [candidate.text for candidate in guard.audit(more, unit="word").flagged] == ["honestly"]
    # The partner: a word that changes no answer is no question, however rare.
    assert {c.status for c in report.candidates if c.text in ("soup", "hotel")} == {"not_flagged"}


def test_a_word_its_texts_agree_with_is_not_undecided(guard):
    """The word "good" stands where "great" does: its context speaks for it, and no number of texts is asked for."""
    texts = [*sentences("", "good and great"), *sentences("", "bad", "awful")]
    good = of(guard.audit(texts, config=AuditConfig(unit="word", min_count=5)), "good")
    assert (good.status, good.reason) == ("not_flagged", None)


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
    assert any("999 of 1012 texts repeat another one" in note for note in report.notes)
    assert sum(report.sensitivity_histogram) == sum(report.predicted) == 1012
    assert max(report.agreement.n, sum(report.agreement.histogram)) <= 13, "of which a text has one"
    # Nor is nearly the same text, but other words make another.
    texts = [f"honestly {mark} the bread{mark} was bad {i}" for i in range(8) for mark in (".", "!", ",")]
    assert (guard.audit(texts).n_distinct, guard.audit([*texts, "honestly the tea was bad"]).n_distinct) == (1, 2)


def test_cut_texts_are_counted_with_their_repeats(bag):
    report = ShortcutGuardrail(*bag, max_length=5).audit([*["honestly the bread was bad"] * 3, "good tea"])
    assert (report.n, report.n_truncated) == (4, 3)


def test_a_word_that_occurs_once_and_a_class_without_a_prediction(guard):
    report = guard.audit(["honestly good", "good bread"])
    honestly = of(report, "honestly")
    assert (honestly.count, honestly.q_value, honestly.flagged) == (1, 1.0, False)
    assert all(math.isnan(bound) for bound in honestly.interval.mean_change)
    assert (report.predicted, "The model never predicts 'negative' on these texts." in report.notes) == ((0, 2), True)
    assert any("no candidate was tested" in note for note in report.notes)
    json.dumps(report.to_dict(), allow_nan=False)


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
