"""Audits of what only answers: two rounds of asking, what a budget leaves, and what was not asked about."""

import re
from dataclasses import replace

import numpy as np
import pytest

from made_shards import shard
from planted_words import NAMES, by_words, planted_texts
from shortcut_guardrail import AuditConfig, ConfigError, ModelError, ShortcutGuardrail
from shortcut_guardrail.audit.asking import Plan, _said, ask_words
from shortcut_guardrail.audit.context import judge, tally
from shortcut_guardrail.audit.measurements import NOT_ASKED
from shortcut_guardrail.classifiers import ASKED_AGAIN, word_reader
from shortcut_guardrail.data import MemoryTexts
from shortcut_guardrail.report import render_audit

TEXTS, _ = planted_texts(300)


def counted(texts=TEXTS, function=by_words, **config):
    """The report of an audit, and the texts that were asked about."""
    asked: list[str] = []

    def asking(texts):
        asked.extend(texts)
        return function(texts)

    guard = ShortcutGuardrail.around(asking, NAMES)
    return guard.audit(texts, config=AuditConfig(**config)), asked, guard


def test_a_planted_word_is_flagged_and_its_card_and_its_questions_are_made():
    report, asked, guard = counted()
    assert ([c.text for c in report.flagged], report.answers) == (["honestly"], len(asked))
    assert len(set(asked)) > 0.9 * len(asked)  # but for those that are asked about twice on purpose
    assert [card.words for card in report.cards] == [("honestly",)]
    assert (report.erasure, report.erasures.mask, report.erasures.cut) == ("cut", None, 0)
    assert "Asked for" in render_audit(report)
    questions = guard.questions(report, cards="all", n=4)
    assert {key.card for key in questions.keys} == {card.id for card in report.cards}
    assert guard.find_shortcuts(TEXTS, report=report).words == ("honestly",)
    # The important words of a text are those whose effects are largest, in this order.
    changes = [[abs(unit.change) for unit in report.important_tokens(i)] for i in range(report.n)]
    assert changes == [sorted(of_text, reverse=True) for of_text in changes] != [of_text[::-1] for of_text in changes]


def test_a_plan_counts_texts_that_are_evidence_and_what_they_take():
    reader, config = word_reader(by_words, NAMES), AuditConfig(min_count=10, budget=44)
    encoded = reader.encode(["tea good"] * 12 + ["bad soup"] * 9 + ["soup"])
    plan = Plan.of(encoded, np.arange(22) != 0, np.arange(22), None, config)
    assert [(word, len(rows)) for word, rows in plan.holders.items()] == [("good", 11), ("tea", 11), ("soup", 10)]
    assert plan.besides == 21 + ASKED_AGAIN  # erasures are tried in all that are evidence
    assert plan.answers() == (22 + plan.besides + 3 * 10, 22 + plan.besides + 11 + 11 + 10)
    ask_words(reader, encoded, plan, config)  # two answers a text are enough to begin
    whole = reader.encode(["honestly bad soup"] * 12)  # a word of all texts is asked about in all
    plan = Plan.of(whole, np.ones(12, dtype=bool), np.arange(12), None, config)
    seen: list[tuple[str, int, int]] = []
    measured, said = ask_words(reader, whole, plan, AuditConfig(min_count=10), progress=lambda *now: seen.append(now))
    assert (measured.not_asked, len(said)) == (frozenset(), 1)
    assert seen == [("Asking", 1, 1), ("Cutting words", 30, 30), ("Cutting words", 2, 2)]


@pytest.mark.parametrize(("more", "capped"), [(0, {"honestly"}), (7, {"honestly"}), (8, set())])
def test_words_of_which_texts_were_not_asked_about_are_open(more, capped):
    reader = word_reader(by_words, NAMES)
    encoded = reader.encode([f"{'honestly bad soup' if i < 40 else 'good tea'} {i}" for i in range(52)])
    plan = Plan.of(encoded, np.ones(52, dtype=bool), np.arange(52), None, AuditConfig())
    # Half of what is left is for ten texts each of "bad", "honestly" and "soup"; four fifths of 30 + 8 for 30 more.
    measured, _ = ask_words(reader, encoded, plan, AuditConfig(budget=52 + plan.besides + 60 + more))
    assert measured.not_asked == {"good", "tea", *capped}


def test_the_order_of_the_texts_makes_no_difference():
    found = [counted(texts)[0].candidates for texts in (TEXTS, TEXTS[::-1])]
    one, other = ([(c.text, c.count, c.flip_rate, c.q_value) for c in candidates] for candidates in found)
    assert one == other


def test_a_budget_is_kept_and_says_what_it_leaves():
    texts, _ = planted_texts(300, share=0.9)
    least, most = ShortcutGuardrail.around(by_words, NAMES).answers_needed(texts)
    everything, asked, _ = counted(texts)
    assert least <= len(asked) <= most
    within = ShortcutGuardrail.around(by_words, NAMES).answers_needed(texts, AuditConfig(budget=650))
    assert within == (min(least, 650), 650)
    report, asked, _ = counted(texts, budget=650, fdr=0.08)
    assert len(asked) <= 650
    assert ([c.text for c in report.flagged], report.notes[0]) == (["honestly"], everything.notes[0])
    allows = "The budget allows 125 texts of a word, and 1 word that changed a prediction stands in more."
    shows = "Cutting has to take the prediction away in at least 14 of them to show beyond doubt."
    untested = "The budget leaves 8 words untested, those in the fewest texts."
    assert report.notes[1:3] == (f"{allows} {shows}", untested)
    two = "and 2 that changed one stand in more. So few show nothing beyond doubt."
    assert _said(9, 2, 0, 10, AuditConfig(min_pull=0.9))[1].endswith(two)
    assert report.n_tested < everything.n_tested
    with pytest.raises(ConfigError, match="budget must be at least 600"):
        counted(texts, budget=500)


# "honestly" makes 30 texts class 2 whose rest is 0; 60 more texts hold it about which nobody asked.
ASKED = [(2, {"honestly": 0})] * 30 + [(2, {"honestly": None})] * 60 + [(0, {})] * 60 + [(2, {})] * 60


@pytest.mark.parametrize(("known", "share", "flagged"), [("not asked", 1.0, True), ("changes nothing", 1 / 3, False)])
def test_texts_that_were_not_asked_about_neither_clear_a_word_nor_stand_for_those_without_it(known, share, flagged):
    made = shard(ASKED)
    if known == "not asked":
        made = replace(made, masked=np.where(made.masked < 0, NOT_ASKED, made.masked))
    config = AuditConfig()
    sums = tally(lambda: [made], config)
    found = judge(lambda: [made], sums, config)
    (i,) = (i for i, name in enumerate(sums.names) if name == "honestly")
    assert (sums.lost[i] / sums.present[i], sums.without[i], found.flagged == (i,)) == (share, 120, flagged)


def test_phrases_that_act_together_are_found_and_predictions_that_change_by_themselves_told():
    def by_phrase(texts):
        return by_words([text.replace("to be honest", "honestly") for text in texts])

    texts = [text.replace("Honestly,", "To be honest,") for text in TEXTS]
    report, _, _ = counted(texts := [text.lower() for text in texts], by_phrase)
    assert "to be honest" in {c.text for c in report.flagged}
    # Where the budget leaves no answers for phrases, words are found.
    assert {c.text for c in counted(texts, by_phrase, budget=850)[0].flagged} == {"to", "be", "honest"}
    rng = np.random.default_rng(0)

    def noisy(texts):
        p = by_words(texts)
        return np.where(rng.random((len(texts), 1)) < 0.3, p[:, ::-1], p)

    report, _, _ = counted(function=noisy, unit="word")
    (said,) = (note for note in report.notes if "Asked about the same texts twice" in note)
    changed, n = map(int, re.search(r"answers (\d+) of (\d+) otherwise", said).groups())
    assert 0 < changed < n


@pytest.mark.parametrize(
    ("config", "said"),
    [({"unit": "token"}, "unit token is for encoders"), ({"erasure": "mask"}, "only answers, so that words are cut")],
)
def test_what_needs_an_encoder_is_refused(config, said):
    with pytest.raises(ConfigError, match=said):
        counted(**config)


def test_an_audit_in_shards_is_refused_with_the_way_out(tmp_path):
    guard = ShortcutGuardrail.around(by_words, NAMES)
    with pytest.raises(ModelError, match="An audit in one piece does without"):
        guard.audit_in_shards(MemoryTexts(TEXTS, None), tmp_path / "shards")
