"""What was decided about cards, over the evidence and under what a person says on the command line."""

from dataclasses import replace

from shortcut_guardrail import Decision, Decisions, Shortcut, ShortcutConfig, Shortcuts
from shortcut_guardrail.decisions.record import SecondModelResult
from shortcut_guardrail.shortcuts.named import with_decisions, with_said

BOOK = Shortcut("book", "found", "flagged", 12, 0.25, "positive", n_support=9, fixed=7, broken=2, p_value=0.1)
SAID = SecondModelResult(("one",), "agreement", 72, 16, 0, 0.6, 0.01, "shortcut")
FOUND = Shortcuts((BOOK, Shortcut("great", "cleared")), rows=("r",))


def flips(words, outcome, fixed=8, broken=0, **changes) -> Decision:
    decision = {"shortcut": "remove_reliance", "legitimate": "keep"}.get(outcome)
    counted = {"fixed": fixed, "broken": broken, "outcome": outcome, "text_hashes": ("h",)}
    return Decision(tuple(words), decision, "answers", **counted, **changes)


def person(words, decision) -> Decision:
    return Decision(tuple(words), decision, "person")


def decided(*cards, items=FOUND, named=(), keep=(), **options):
    shortcuts = with_decisions(items, Decisions(cards), **options)
    shortcuts = with_said(shortcuts, ShortcutConfig(named=named, keep=keep))
    return {item.text: (item.verdict, item.reason) for item in shortcuts.items}


def test_flags_come_before_a_person_and_a_person_before_flips_and_flips_before_the_audit():
    found = decided(flips(["great", "superb"], "shortcut"), flips(["book"], "legitimate", 0, 8))
    assert found == dict.fromkeys(("great", "superb"), ("confirmed", "answers")) | {"book": ("cleared", "answers")}
    cards = (person(["great"], "keep"), flips(["great"], "shortcut"), person(["book"], "remove_reliance"))
    assert (decided(*cards)["great"], decided(*cards)["book"]) == (("kept", None), ("named", None))
    assert decided(*reversed(cards))["great"] == ("kept", None)  # the order in the file says nothing
    found = decided(*cards, named=["Great"], keep=["BOOK"])
    assert found == {"great": ("named", None), "book": ("kept", None)}


def test_answers_come_before_a_second_model_in_any_order_and_count_those_for_neither_class():
    answered = flips(["great"], "legitimate", 2, 9, neither=3)
    by_machine = Decision(("great",), "remove_reliance", "machine", second_model=SAID)
    for cards in ((answered, by_machine), (by_machine, answered)):
        (found,) = (one for one in with_decisions(FOUND, Decisions(cards)).items if one.text == "great")
        assert (found.verdict, found.reason, found.n_support) == ("cleared", "answers", 2 + 9 + 3)
    (found,) = (one for one in with_decisions(FOUND, Decisions((by_machine,))).items if one.text == "great")
    assert (found.reason, found.n_support) == ("second model", SAID.fixed + SAID.broken)
    new = with_decisions(FOUND, Decisions((flips(["superb"], "legitimate", 2, 9, pushes_towards="negative"),)))
    expected = Shortcut("superb", "cleared", "answers", pushes_towards="negative", n_support=11, fixed=2, broken=9)
    assert (new.items[-1], new.rows) == (expected, ("h", "r"))


def test_a_word_that_must_not_decide_alone_is_named_as_such():
    shortcuts = with_decisions(FOUND, Decisions((person(["great"], "not_alone"), person(["dull"], "remove_reliance"))))
    shortcuts = with_said(shortcuts, ShortcutConfig(not_alone=("Never",)))
    found = {item.text: (item.verdict, item.reason) for item in shortcuts.items if item.verdict == "named"}
    assert found == {"great": ("named", "not alone"), "dull": ("named", None), "never": ("named", "not alone")}
    assert sorted(shortcuts.words) == ["book", "dull", "great", "never"]
    assert sorted(shortcuts.alone.words) == ["great", "never"]
    # The command line comes last, and what it keeps is left alone.
    again = with_said(shortcuts, ShortcutConfig(named=("great",), keep=("never", "never again")))
    assert not again.alone
    spared = with_said(shortcuts, ShortcutConfig(keep=("never again",))).alone.find("never again, never")
    assert [one.start for one in spared] == [13]


def test_what_nobody_decided_changes_nothing():
    by_machine = Decision(("great",), None, "machine", second_model=replace(SAID, outcome="open"))
    for card in (flips(["great"], "open"), person(["great"], "unsure"), Decision(("great",)), by_machine):
        assert decided(card) == decided()


def test_legitimate_holds_for_the_judged_texts_only():
    assert decided(flips(["book"], "legitimate", 0, 8), same_data=False)["book"] == ("found", "flagged")
    assert decided(flips(["great"], "shortcut"), same_data=False)["great"] == ("confirmed", "answers")


def test_a_phrase_and_its_words_are_two_things():
    others = Shortcut("this", "cleared"), Shortcut("my book", "cleared"), Shortcut("so this", "found", "flagged")
    items = Shortcuts((Shortcut("this book", "found", "flagged"), *others))
    both = (person(["this book"], "remove_reliance"), person(["this"], "keep"))
    shortcuts = with_decisions(items, Decisions(both))
    assert shortcuts.words == ("this book",), "of a phrase without content every word counts"
    found = shortcuts.finder.find("this book, and this")
    assert [(one.start, one.end) for one in found] == [(0, 9)]
    # To keep "this" says nothing of "this book", which the audit found; to keep "book" does.
    assert decided(person(["this"], "keep"), items=items)["this book"] == ("found", "flagged")
    for kept in (decided(person(["book"], "keep"), items=items), decided(items=items, keep=["book"])):
        assert (kept["this book"], kept["my book"]) == (("kept", None), ("cleared", None))
    # It spares what the evidence alone speaks against, whether the word was weighed before the phrase or after it.
    by_machine = Decision(("this book",), "remove_reliance", "machine", second_model=SAID)
    for card, reason in ((flips(["this book"], "shortcut"), "answers"), (by_machine, "second model")):
        assert decided(card, items=items, keep=["book"])["this book"] == ("confirmed", reason)
    for pair in (("book", "this book"), ("this book", "book")):
        both_found = Shortcuts(tuple(Shortcut(word, "found", "flagged") for word in pair))
        assert set(decided(person(["book"], "keep"), items=both_found).values()) == {("kept", None)}
