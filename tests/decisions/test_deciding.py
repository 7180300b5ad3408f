"""Who comes first: people on a card, flips that they judged, earlier decisions; and what is asked one by one."""

import re
from dataclasses import asdict, replace

import pytest

from shortcut_guardrail import Answers, ConfigError, Questions, decide
from shortcut_guardrail.audit import Erasures
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.cards.card import Card, CardEvidence
from shortcut_guardrail.decisions import Answer, AuditedCards, Decision, Decisions, remaining
from shortcut_guardrail.decisions.record import Judge

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


def test_an_answer_that_serves_several_cards_is_asked_for_once():
    apart, shared = asked(), asked(film=range(3, 15))
    left = [remaining(questions, Answers(tuple(unsure("book", "film"))), "anna") for questions in (apart, shared)]
    assert [(one.least, one.most, one.lost) for one in left] == [(16, 27, 0), (8, 15, 0)]
    assert {one.open for one in left} == {("book", "film")}
    assert remaining(apart, Answers(tuple(unsure("film"))), "anna").most == 15
    assert Questions.of_audit(AUDITED, apart.flips, seed=1).asked != apart.asked, "in an order of the seed"
    assert remaining(apart, Answers(tuple(unsure("film"))), "ben").question is None
    few = remaining(asked(book=range(7)), Answers(tuple(unsure("book", "film"))), "anna")
    assert (few.open, few.lost) == (("film",), 0), "seven flips are never asked about"


def test_texts_are_asked_about_until_a_card_is_decided_or_cannot_be():
    questions, said = asked(), unsure("book")
    for n in range(9):
        left = remaining(questions, Answers((*said, *answered(questions, True, n, "book"))), "anna")
        assert (left.answered, left.least, left.most) == ((n, 8 - n, 12 - n) if n < 8 else (8, 0, 0))
        assert (left.question is None) == (n == 8)
    unclear = [replace(one, answer="unclear") for one in answered(questions, True, 5, "book")]
    lost = remaining(questions, Answers((*said, *unclear)), "anna")
    assert (lost.open, lost.lost) == ((), 1), "with seven texts left no answer decides"
    assert remaining(questions, Answers((*said, *unclear[:4])), "anna").open == ("book",)


def test_people_come_before_the_flips_that_they_judged():
    questions = asked()
    by_flips = [*unsure("book"), *answered(questions, True, 8, "book")]
    card = decided(questions, *by_flips)["book"]
    assert (card.decision, card.source, card.outcome) == ("remove_reliance", "answers", "shortcut")
    assert card.e_value == 1.5**8
    assert [(one.by, one.at, one.decision) for one in card.reviews] == [("anna", "now", "remove_reliance")]
    card = decided(questions, *by_flips, Answer("ben", "t", decision="keep", card="book"))["book"]
    assert (card.decision, card.source, card.outcome, card.fixed) == ("keep", "person", "shortcut", 8)
    # Nobody is unsure of the other card, and so its answers say nothing.
    assert set(decided(questions, *answered(questions, True))) == set()
    both = decided(replace(questions, one_by_one=False), *answered(questions, False))
    # Evidence of 25.6 for both is above 2 / (.05 * 2) = 20, and that for one alone below 2 / .05 = 40.
    assert [(one.decision, one.survives_e_bh) for one in both.values()] == [("keep", True)] * 2
    unclear = [replace(one, answer="unclear") for one in answered(questions, False, 1, "film")]
    for others, survives in ((unclear, False), ((), True)):  # a card of which nothing was answered is not in question
        alone = decided(replace(questions, one_by_one=False), *answered(questions, False, 8, "book"), *others)["book"]
        assert (alone.decision, alone.survives_e_bh) == ("keep", survives)


def test_who_judged_a_word_group_answered_a_text_of_it():
    # Of both where a text is of both, or where somebody answers texts of both.
    for film, by in ((range(12, 27), (["anna"], ["ben"])), (range(11, 26), (["anna", "ben"], ["anna", "ben"]))):
        questions = replace(asked(film=film), one_by_one=False)
        alone = answered(questions, True, 12, "book") + answered(questions, True, 15, "film", "ben")
        found = decided(questions, *alone, *answered(questions, True, by="cleo"))
        reviewers = {card: [one.by for one in decision.reviews] for card, decision in found.items()}
        assert reviewers == {"book": [*by[0], "cleo"], "film": [*by[1], "cleo"]}


def test_earlier_decisions_stay_and_are_known_by_their_words():
    kept = tuple(Decision((word,), "keep", "file") for word in ("FILM", "zebra"))
    earlier = Decisions(kept, judges=(Judge("one", {}, (), 2),), answers="a.jsonl")
    found = decide(asked(), Answers(tuple(unsure("book")), earlier=earlier), at="now")
    made = {one.words: one.decision for one in found.cards}
    assert made == {("book",): "unsure", ("FILM",): "keep", ("zebra",): "keep"}
    assert (found.audit, found.model, found.data, found.answers) == ("audit", "model", "data", "a.jsonl")
    assert found.judges == earlier.judges
    # Flips that people judged before are not asked about again.
    counted = Decisions((Decision(("Book",), None, "answers", asked=9, fixed=5, broken=4),))
    given = Answers(tuple(unsure("book", "film")), earlier=counted)
    assert remaining(asked(), given, "anna").open == ("film",)
    card = decide(asked(), given).cards[0]
    assert (card.fixed, card.source) == (5, "answers")


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
    other = {"fdr": 0.1}, {"model": "n"}, {"cards": plain["cards"][:1]}, {"top_k": 3}
    other += ({"erasures": asdict(Erasures("cut", 9, 5, 0, 1))},)
    ids = [AuditedCards.from_dict(plain | one).id for one in ({}, {"data": "e"}, *other)]
    assert ids[0] == ids[1], "its texts have a fingerprint of their own"
    assert len(set(ids)) == 6
    how = "flagged", "alternative_wording", "collective", "other"
    found = AuditedCards.from_dict(plain | {"candidates": [{"text": name, name: True} for name in how]}).found
    assert found == how[:3]
