"""Who comes first: people on a card, flips that they judged, earlier decisions; and what is asked one by one."""

import re
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from shortcut_guardrail import Answers, ConfigError, DataError, Questions, decide
from shortcut_guardrail.audit import Erasures
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.cards.card import Card, CardEvidence
from shortcut_guardrail.decisions import Answer, AuditedCards, Decision, Decisions, deciding
from shortcut_guardrail.decisions.drawing import Key
from shortcut_guardrail.decisions.record import SecondModelResult

LABELS = ("negative", "positive")
CARDS = tuple(Card(w, (w,), "positive", 40, 30, 0.2, CardEvidence("undecided", (), 1.0, 0.7)) for w in ("book", "film"))
AUDITED = AuditedCards("audit", "model", "data", LABELS, 300, CARDS)


def asked(book=range(12), film=range(12, 27)) -> Questions:
    flips = {"book": book, "film": film}
    made = {card: [Flip.of(i, "positive", "negative", f"text {i}") for i in rows] for card, rows in flips.items()}
    return Questions.of_audit(AUDITED, made)


def unsure(*cards: str) -> list[Answer]:
    return [Answer("anna", "t", decision="unsure", card=card) for card in cards]


def answered(
    questions: Questions, fixed: bool, n: int = 100, card: str | None = None, by: str = "anna"
) -> list[Answer]:
    """Answers to the first n questions, or those of a card: each calls the masked prediction right, or none does."""
    other, keys = {"a": "b", "b": "a"}, [key for key in questions.keys if card in (None, key.card)][:n]
    return [Answer(by, "t", key.masked_option if fixed else other[key.masked_option], key.id) for key in keys]


def decided(questions: Questions, *said: Answer) -> dict[str, Decision]:
    return {one.id: one for one in decide(questions, Answers(said), at="now").cards}


def test_people_come_before_the_flips_that_they_judged():
    questions = asked()
    by_flips = [*unsure("book"), *answered(questions, True, 8, "book")]
    card = decided(questions, *by_flips)["book"]
    assert (card.decision, card.source, card.outcome) == ("remove_reliance", "answers", "shortcut")
    assert card.e_value == 1.5**8
    assert [(one.by, one.at, one.decision) for one in card.reviews] == [("anna", "now", "remove_reliance")]
    card = decided(questions, *by_flips, Answer("ben", "t", decision="keep", card="book"))["book"]
    assert (card.decision, card.source, card.outcome, card.fixed) == ("keep", "person", "shortcut", 8)
    opinion = SecondModelResult(("one",), "agreement", 1, 1, 0, None, None, "open")
    before = Decisions((Decision(("book",), second_model=opinion),))
    (both,) = decide(questions, Answers(tuple(by_flips), earlier=before)).cards
    assert (both.second_model, both.fixed) == (opinion, 8)
    # Nobody is unsure of the other card, and so its answers say nothing.
    assert set(decided(questions, *answered(questions, True))) == set()
    both = decided(replace(questions, one_by_one=False), *answered(questions, False))
    # Evidence of 25.6 for both is above 2 / (.05 * 2) = 20, and that for one alone below 2 / .05 = 40.
    assert [(one.decision, one.survives_e_bh) for one in both.values()] == [("keep", True)] * 2
    unclear = [replace(one, answer="unclear") for one in answered(questions, False, 1, "film")]
    for others, survives in ((unclear, False), ((), True)):  # a card of which nothing was answered is not in question
        alone = decided(replace(questions, one_by_one=False), *answered(questions, False, 8, "book"), *others)["book"]
        assert (alone.decision, alone.survives_e_bh) == ("keep", survives)


def test_a_card_is_known_by_its_id_or_all_of_its_words_and_meant_by_a_word_or_the_beginning_of_its_id():
    for words, found in ((("book",), "book"), (("BOOK",), "book"), (("book", "film"), ""), ((), "")):
        assert AUDITED.id_of("other", words) == found
    assert AUDITED.id_of("film", ("x",)) == "film"
    audited = replace(AUDITED, cards=(*CARDS, replace(CARDS[0], id="bow", words=("Read", "film"))))
    for asked, ids in (("boo", ["book"]), ("BOW, read ,boo", ["bow", "book"]), ("READ", ["bow"])):
        assert [card.id for card in audited.chosen(asked)] == ids
    bo = "means 2 word groups of the audit: book (book), bow (Read). Give"
    for asked, said in (("bo", bo), ("film", "means 2"), ("zebra", "has this word or id")):
        with pytest.raises(ConfigError, match=re.escape(said)):
            audited.chosen(asked)


def test_an_audit_offers_what_it_does_not_flag_and_is_another_with_other_settings():
    flagged = replace(CARDS[0], evidence=replace(CARDS[0].evidence, status="flagged", flagged=("book",)))
    not_flagged = replace(CARDS[0], id="tea", evidence=replace(CARDS[0].evidence, status="not_flagged"))
    audited = replace(AUDITED, cards=(flagged, CARDS[1], not_flagged))
    assert (audited.chosen("undecided"), audited.chosen("all")) == ((CARDS[1], not_flagged), audited.cards)
    plain = {"cards": list(map(asdict, CARDS)), "model": "m", "data": "d", "label_names": LABELS, "n_distinct": 9}
    other = {"fdr": 0.1}, {"model": "n"}, {"cards": plain["cards"][:1]}, {"top_k": 3}, {"min_relative_effect": 0.7}
    other += ({"erasures": asdict(Erasures("cut", 9, 5, 0, 1))},)
    ids = [AuditedCards.from_dict(plain | one).id for one in ({}, {"data": "e"}, *other)]
    assert ids[0] == ids[1], "its texts have a fingerprint of their own"
    assert len(set(ids)) == 7
    with pytest.raises(DataError, match="has no word groups"):
        AuditedCards.from_dict(plain | {"model": ""})
    AUDITED.check(model="model", data="data")
    for other, said in (({"model": "m"}, "of another model"), ({"data": "d"}, "of other texts")):
        with pytest.raises(ConfigError, match=said):
            AUDITED.check(**{"model": "model", "data": "data"} | other)
    how = "flagged", "alternative_wording", "collective", "other"
    found = AuditedCards.from_dict(plain | {"candidates": [{"text": name, name: True} for name in how]}).found
    assert found == how[:3]


def test_texts_with_words_of_a_card_that_was_just_decided_are_not_asked_about(monkeypatch):
    keys = [Key(f"c{i}", "c", "a", f"h{i}", i) for i in range(9)]
    keys += [Key(f"e{i}", "e", "a", f"k{i}", i) for i in range(10)]
    keys += [Key(f"d{i}", "d", "a", f"g{i}", i, holds=("c",) if i < 4 else ()) for i in range(14)]
    for name, found in (("_named", frozenset()), ("_unsure", ["c", "d", "e"]), ("_in_order", keys)):
        monkeypatch.setattr(deciding, name, lambda *_, found=found: found)
    questions = SimpleNamespace(asked=[SimpleNamespace(id=key.id) for key in keys])
    for n, left, least in ((7, 2 + 14 + 10, 1 + 8 + 8), (8, 10 + 10, 8 + 8)):
        said = {"anna": {f"c{i}": "a" for i in range(n)}}
        answers = SimpleNamespace(to_questions=lambda said=said: said, arrived=dict)
        found = deciding.remaining(questions, answers, "anna")
        assert (found.most, found.least) == (left, least)
    keys[:] = [Key(f"s{i}", card, "a", f"{card}{i}", i) for card in "cd" for i in range(10)]  # texts with both
    questions = SimpleNamespace(asked=[SimpleNamespace(id=f"s{i}") for i in range(10)])
    found = deciding.remaining(questions, SimpleNamespace(to_questions=dict, arrived=dict), "anna")
    assert (found.most, found.least) == (10, 8)
