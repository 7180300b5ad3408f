"""One more call: flips given what is taken already, and questions that can still decide something."""

from collections import Counter
from dataclasses import replace

import pytest

from shortcut_guardrail import Answers, ConfigError, Decision, Decisions, GuardrailWarning, Questions, decide
from shortcut_guardrail.cards.card import Card, CardEvidence
from shortcut_guardrail.data import text_hash
from shortcut_guardrail.decisions import Answer, AuditedCards, ask, asking, check_total
from tiny_models import meaning_bag

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
EFFECTS = {"honestly": 1.5, "bad": -1.0, ".": 0.7, "so": -0.3, "but": -0.5, "fine": 0.3}
# Masking "honestly" changes all but the third group. The full stop tips the first next to it, and the third by itself.
# Without "honestly" the fourth hangs on "but".
GROUPS = {
    "pushed": [f"honestly the {noun} was bad bad ." for noun in NOUNS],
    "plain": [f"honestly the {noun} was so so" for noun in NOUNS],
    "own": [f"the {noun} was so ." for noun in NOUNS],
    "but": [f"honestly the {noun} but fine" for noun in NOUNS],
}
TEXTS = [text for group in GROUPS.values() for text in group]
CARDS = tuple(
    Card(word, (word,), pushes_towards, 30, 30, 0.5, CardEvidence("undecided", (), 1.0, 0.7))
    for word, pushes_towards in (("honestly", "positive"), (".", "positive"), ("but", "negative"))
)
AUDITED = AuditedCards("audit", "model", "data", ("negative", "positive"), 48, CARDS)
CLASSIFIER = meaning_bag(EFFECTS, {"honestly": 0})
ENCODED = CLASSIFIER.encode(TEXTS)


def called(before: Questions | None = None, said: Answers | None = None, **how) -> Questions:
    before = before or Questions(AUDITED, {})
    return ask(before, CLASSIFIER, ENCODED, answers=said or Answers(), **{"cards": "honestly,.,but", "n": 12} | how)


def groups(questions: Questions, card: str) -> dict[str, int]:
    """Of how many texts of each group the prediction changes."""
    rows = Counter(list(GROUPS)[flip.row // len(NOUNS)] for flip in questions.flips[card])
    return dict(rows)


def of_card(questions: Questions, card: str, *, counts: bool = True) -> list:
    return [key for key in questions.keys if key.card == card and key.counts == counts]


def answered(keys, at: str = "1", fixed: bool = True) -> Answers:
    said = {"a": "a", "b": "b"} if fixed else {"a": "b", "b": "a"}
    return Answers(tuple(Answer("anna", at, said[key.masked_option], key.id) for key in keys))


@pytest.mark.parametrize(
    "taken",
    [
        *[{"before": Questions(replace(AUDITED, found=("honestly",)), {})}, {"shortcuts": ["Honestly"]}],
        {"decisions": Decisions((Decision(("honestly",), "remove_reliance", "file"),))},
    ],
)
def test_flips_are_counted_given_what_is_flagged_named_or_decided(taken):
    assert groups(called(), ".") == {"pushed": 12, "own": 12}
    found = called(**taken)
    assert groups(found, ".") == {"own": 12}
    assert (groups(called(), "honestly"), groups(found, "but")) == ({"pushed": 12, "plain": 12, "but": 12}, {"but": 12})
    assert all(not key.holds for key in of_card(found, "."))
    assert groups(found, "honestly") == groups(called(), "honestly"), "its own words are not given to a card"


def test_a_flagged_word_that_somebody_keeps_is_not_given():
    before = Questions(replace(AUDITED, found=("honestly",)), {})
    kept = Decisions((Decision(("honestly",), "keep", "person"),), data="data")
    assert groups(called(before, decisions=kept), ".") == {"pushed": 12, "own": 12}
    assert not of_card(called(before, decisions=kept), "honestly"), "what is decided is not asked about"
    with pytest.warns(GuardrailWarning, match="The decisions were made on other texts"):
        assert groups(called(before, decisions=replace(kept, data="other")), ".") == {"own": 12}
    alone = Decisions((Decision(("honestly",), "not_alone", "person"),), data="other")
    with pytest.warns(GuardrailWarning, match="The decisions were made on other texts"):
        assert not of_card(called(decisions=alone), "honestly")
    by_hand = called(said=Answers((Answer("anna", "1", decision="not_alone", card="honestly"),)))
    assert set(by_hand.flips) == {".", "but"}, "what was answered about a card that is decided stays as it was"


def test_a_card_of_function_words_alone_is_asked_about_by_name_or_where_it_is_flagged():
    honestly, stop, but = CARDS
    flagged = replace(stop, evidence=replace(stop.evidence, status="flagged"))
    audited = replace(AUDITED, cards=(honestly, flagged, but, replace(but, id="to be fine", words=("to be", "fine"))))
    assert [card.id for card in AUDITED.chosen("all")] == ["honestly"] == [c.id for c in AUDITED.chosen("undecided")]
    assert [card.id for card in AUDITED.chosen(".,but")] == [".", "but"]
    assert [card.id for card in audited.chosen("all")] == ["honestly", ".", "to be fine"]
    assert set(called(cards="all").flips) == {"honestly"}


def test_once_a_card_is_decided_the_rest_is_counted_anew():
    first = called(n=20)
    honestly, stops = of_card(first, "honestly"), of_card(first, ".")
    assert {key.holds for key in stops} == {("honestly",), ()}
    said = answered([*honestly, *stops])
    found = {one.id: one for one in decide(first, said).cards}
    # Of twenty right answers about the full stop half wait: their texts hold "honestly".
    of = [(found[card].outcome, found[card].fixed) for card in ("honestly", ".")]
    assert of == [("shortcut", 8), ("shortcut", 8)]
    waiting = {one.id: one for one in decide(first, answered([*honestly, *(k for k in stops if k.holds)])).cards}["."]
    assert (waiting.outcome, waiting.fixed, waiting.waiting) == ("open", 0, sum(bool(key.holds) for key in stops))

    said = answered([*honestly, *(key for key in stops if key.holds)])
    second = called(first, said, n=20)
    assert groups(second, ".") == {"own": 12}
    # Answers stand; those to texts that do not flip any more say nothing, and nothing is asked twice.
    assert of_card(second, "honestly") == honestly
    assert {key.id for key in of_card(second, ".", counts=False)} == {key.id for key in stops if key.holds}
    assert {one.row // len(NOUNS) for one in second.asked} == {2, 3}
    assert not {one.id for one in second.asked} & {one.question for one in said.said}
    again = {one.id: one for one in decide(second, said).cards}
    assert (again["honestly"].outcome, "." in again) == ("shortcut", False)
    done = decide(second, said.and_more(answered(of_card(second, "."), at="2")))
    assert [one.decision for one in done.cards if one.id in ("honestly", ".")] == ["remove_reliance", "remove_reliance"]


def test_an_answer_that_decided_a_card_does_not_count_for_another():
    first = called(n=0)
    said = answered(of_card(first, "honestly"))
    decided, second = {one.id: one for one in decide(first, said).cards}["honestly"], called(first, said, n=0)
    # Without "honestly" all texts with "but" flip back, and are questions between the same two classes.
    assert groups(second, "but") == {"but": 12}
    hashes = set(decided.text_hashes)
    free = [text for text in GROUPS["but"] if text_hash(text) not in hashes]
    assert 0 < len(free) < 12
    assert {key.text_hash for key in of_card(second, "but")} <= set(map(text_hash, free))
    # The partners: the card is legitimate by the answers, or nothing was answered, and so nothing is spent.
    of_one = called(n=0, cards="honestly")
    legitimate = called(of_one, answered(of_card(of_one, "honestly"), fixed=False), n=0, cards=".")
    assert {key.text_hash for key in of_card(legitimate, ".")} == set(map(text_hash, GROUPS["pushed"] + GROUPS["own"]))
    by_name = called(n=0, shortcuts=["honestly"])
    assert {key.text_hash for key in of_card(by_name, "but")} == set(map(text_hash, GROUPS["but"]))


def test_nothing_is_asked_that_cannot_decide():
    few = [text for text in TEXTS if text not in GROUPS["own"][7:]]
    encoded, how = CLASSIFIER.encode(few), {"cards": "honestly,.,but", "shortcuts": ["honestly"]}
    found = ask(Questions(AUDITED, {}), CLASSIFIER, encoded, answers=Answers(), **how)
    assert {card: len(flips) for card, flips in found.flips.items()} == {"honestly": 36, ".": 7, "but": 12}
    assert ({key.card for key in found.keys}, found.undecidable) == ({"honestly", "but"}, 1)
    # Of twelve flips five are unclear, and the seven that are left decide nothing.
    first = called(shortcuts=["honestly"])
    for unclear, asked in ((4, 8), (5, 0)):
        said = answered(of_card(first, ".")[:unclear])
        said = replace(said, said=tuple(replace(one, answer="unclear") for one in said.said))
        more = called(first, said, shortcuts=["honestly"], cards=".")
        assert len(more.asked) == asked
    # However many there are, of 40 at most: with 33 unclear ones no eight are left.
    every = of_card(called(n=0), "honestly")
    for unclear, least in ((32, {"honestly": 8}), (33, {})):
        said = Answers(tuple(Answer("anna", "1", "unclear", key.id) for key in every[:unclear]))
        assert asking._least(called(n=0), said, {"honestly": 50}) == least


def test_texts_are_drawn_by_the_seed_and_flips_counted_by_the_erasure_of_the_audit(monkeypatch):
    seeds, told, find, probs = [], [], asking.find_flips, CLASSIFIER.predict_proba(ENCODED)
    monkeypatch.setattr(asking, "draw_references", lambda *of, seed: seeds.append((seed, *of[1:2], *of[3])) or [])
    monkeypatch.setattr(asking, "find_flips", lambda *a, **k: told.extend((k["erasure"], k["probs"])) or find(*a, **k))
    by_cutting = called(
        Questions(replace(AUDITED, erasure="cut"), {}), models=("m",), labels=dict.fromkeys(range(48), "x")
    )
    assert (by_cutting.models, {key.label for key in by_cutting.keys}) == (("m",), {"neither"})
    with pytest.warns(GuardrailWarning, match="zebra"):
        called(shortcuts=["zebra"])
    how = {"n": 4, "probs": probs, "cards": "."}
    first, second = (called(replace(by_cutting, keys=()), seed=seed, **how) for seed in (3, 4))
    assert first.asked != second.asked
    assert set(second.flips) == {"honestly", ".", "but"}, "those of others stay as they were"
    assert seeds[2:] == [(seed, probs, "honestly", ".", "but") for seed in (3, 4)]
    assert (told[0], told[4:]) == ("cut", ["cut", probs] * 2)


def test_a_total_goes_to_cards_with_most_flips_and_later_to_those_that_stay_open():
    first = called(n=40, n_total=33)
    assert Counter(key.card for key in first.keys) == {"honestly": 16, ".": 16}
    assert {key.card for key in called(n=40, n_total=20).keys} == {"honestly"}
    unclear = tuple(replace(one, answer="unclear") for one in answered(of_card(first, "."), "2").said)
    said = answered(of_card(first, "honestly")).and_more(Answers(unclear))
    second = called(first, said, n=40, n_total=33)
    asked = {one.id for one in second.asked}
    assert {key.card for key in second.keys if key.id in asked} == {"but"}, "of the full stop too few are left"
    for total in (0, 7, -1):
        with pytest.raises(ConfigError, match=f"n_total={total} decides no word group, which takes at least 8 answers"):
            check_total(total)
    assert (check_total(8), check_total(None)) == (8, None)
