"""decisions.json: written by `decide`, or by a program that has only read the page."""

import json
import re

import pytest

from shortcut_guardrail import ConfigError, DataError
from shortcut_guardrail.decisions import Decision, Decisions, made_for

BOOK = {"words": ["book", "this book"], "decision": "remove_reliance"}


def read(*cards, **head):
    return Decisions.from_dict({"schema_version": 1, **head, "cards": list(cards)}, source="d.json")


def by_machine(**changes) -> dict:
    opinion = {"judges": ["one"], "rule": "agreement", "fixed": 9, "broken": 0, "unanswered": 0, "bound": 0.6}
    opinion |= {"p_value": 0.01, "outcome": "shortcut"}
    return BOOK | {"source": "machine", "second_model": opinion | changes}


def test_words_and_a_decision_are_enough():
    assert read(by_machine()).cards[0].machine_says_shortcut
    found = read(BOOK)
    assert found.cards[0].words == ("book", "this book")
    card = found.cards[0]
    assert (card.decision, card.source, card.by_person) == ("remove_reliance", "file", True)
    assert (found.audit, found.model, found.data) == (None, None, None)


def test_a_file_survives_the_round_trip(tmp_path):
    counts = {"asked": 14, "fixed": 12, "broken": 2, "e_value": 32.4, "survives_e_bh": True}
    of_flips = {"id": "abc", "pushes_towards": "positive", "outcome": "shortcut", "text_hashes": ("i", "h")}
    fine = Decision(("fine",), text_hashes=("h",))
    cards = (Decision(("book",), "remove_reliance", "answers", **counts, **of_flips), fine)
    decisions, file = Decisions(cards, "a", "m", "d"), tmp_path / "decisions.json"
    file.write_text(json.dumps(decisions.to_dict()))
    assert Decisions.from_file(file) == decisions
    assert (decisions.text_hashes, decisions.without_text_hashes().text_hashes) == (("h", "i"), ())
    assert "decision" not in decisions.to_dict()["cards"][1]


def test_what_cannot_be_meant_names_the_field():
    for card, sentence in (
        ({"words": ["x"], "decision": "no"}, "decision must be one of keep, remove_reliance, not_alone, unsure"),
        ({"decision": "keep"}, "cards[0].words is missing."),
        ({"words": [], "decision": "keep"}, "cards[0].words must be a list that is not empty"),
        ({"words": ["x"], "asked": -1}, "cards[0].asked must be a whole number, 0 or more, but is -1."),
        ({"words": ["x"], "reviews": [{"by": "me"}]}, "cards[0].reviews[0].at is missing."),
        ({"words": ["x"], "source": "answers", "outcome": "open", "decision": "keep"}, "the decision must be left out"),
        (by_machine(outcome="legitimate"), 'second_model.outcome must be one of shortcut, open, but is "legitimate"'),
        (by_machine(outcome="open"), "a machine decides remove_reliance where its second_model is shortcut"),
    ):
        with pytest.raises(DataError, match=f"^d.json.*{re.escape(sentence)}"):
            read(card)


def test_of_several_files_of_answers_the_last_one_stays(tmp_path):
    (tmp_path / "d.answers.mine.jsonl").write_text("mine")
    for number in range(3):
        found = Decisions(()).save(tmp_path / "d.json", answers=f"{number}\n", overwrite=True)
        kept = {"d.json", "d.answers.mine.jsonl", found.answers}
        assert {path.name for path in tmp_path.iterdir()} == kept
        assert (tmp_path / str(found.answers)).read_text() == f"{number}\n"


def test_other_documents_are_refused():
    for document in ([], {}, {"cards": [], "schema_version": 7}):
        with pytest.raises(DataError, match="Give a file that `decide` wrote"):
            Decisions.from_dict(document)


def test_only_the_same_word_both_ways_is_a_contradiction():
    read({"words": ["this book"], "decision": "remove_reliance"}, {"words": ["this"], "decision": "keep"})
    read(BOOK, {"words": ["Book"], "decision": "unsure"}, {"words": ["Book"]}, BOOK)
    read(*({"words": ["Book"], "decision": decision} for decision in ("keep", "not_alone")))
    with pytest.raises(DataError, match=r"cards\[0\] says remove_reliance and cards\[1\] says keep about 'Book'"):
        read(BOOK, {"words": ["Book"], "decision": "keep"})
    with pytest.raises(DataError, match=r"cards\[0\] says not_alone and cards\[1\] says remove_reliance about 'a!'"):
        read({"words": ["A !"], "decision": "not_alone"}, {"words": ["a!"], "decision": "remove_reliance"})


def test_another_model_is_refused_and_other_texts_are_warned_about():
    warned: list[str] = []
    assert made_for(read(BOOK), model="m", data="d", warn=warned.append)
    assert made_for(read(BOOK, model="m", data="d"), model="m", data="d", warn=warned.append)
    assert not warned
    assert not made_for(read(BOOK, model="m", data="other"), model="m", data="d", warn=warned.append)
    assert "were made on other texts" in warned[0]
    with pytest.raises(ConfigError, match="another model"):
        made_for(read(BOOK, model="other"), model="m", data="d", warn=warned.append)
