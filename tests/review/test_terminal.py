"""The review in a terminal: 80 columns, the same answers, and nothing from a file that the terminal would obey."""

from __future__ import annotations

import json

import pytest

from audits import card, to_review
from shortcut_guardrail.audit.cards import KeptFlip
from shortcut_guardrail.data import text_hash
from shortcut_guardrail.review.deck import make_deck
from shortcut_guardrail.review.decoys import NO_INFLUENCE, Decoy
from shortcut_guardrail.review.rules import Rules
from shortcut_guardrail.review.session import Session
from shortcut_guardrail.review.terminal import WIDTH, review_in_terminal


def review(session: Session, *typed: str) -> str:
    lines, left = [], list(typed)

    def ask(prompt: str) -> str:
        lines.append(prompt)
        if not left:
            raise EOFError
        return left.pop(0)

    review_in_terminal(session, ask=ask, say=lines.append)
    assert not left
    assert max(map(len, lines)) <= WIDTH
    return "\n".join(lines)


@pytest.fixture
def session(tmp_path) -> Session:
    return Session(Rules(make_deck(to_review(2).to_dict())), tmp_path / "decisions.json", "anna")


def decided(session) -> dict[str, str | None]:
    return {card["words"][0]: card.get("decision") for card in json.loads(session.file.read_text())["cards"]}


def test_cards_and_what_would_change(session):
    shown = review(session, "n", "K ", "q")
    assert "Card 1 of 2: w0, w0s" in shown
    assert "[w0]" in shown
    assert "Answer: positive -> masked: negative" in shown
    assert "w0, w0s: neutralised. 30 answers would change: 30 from positive to negative." in shown
    assert "w1, w1s: kept. Nothing changes." in shown
    assert "All cards are answered." in shown
    assert decided(session) == {"w0": "neutralise", "w1": "keep"}


def test_digits_answer_cards_and_stopping_says_what_is_left(session):
    shown = " ".join(review(session, "2", "q").split())
    assert "1 to 4 answer cards too. z undoes the last answer. q stops: every answer is saved." in shown
    assert "“Count” means: may influence the answer." in shown
    assert "1 card is not answered. The same command goes on." in shown
    assert decided(session) == {"w0": "neutralise"}
    shown = " ".join(review(session, "4").split())
    assert "w1, w1s: not sure. You are asked about texts, after the cards. If they leave it open, the audit" in shown
    assert "1 card open. Deciding takes at least 8 more answers; at most 17 are asked." in shown
    assert "1 card can still be decided by texts. The same command goes on." in shown
    assert decided(session)["w1"] == "unsure"


def test_the_terminal_promises_no_texts_that_never_come(tmp_path):
    few = make_deck(to_review(1, n_flips=5).to_dict() | {"fit_would_take": [{"text": "w0"}]})
    session = Session(Rules(few), tmp_path / "decisions.json", "anna")
    shown = " ".join(review(session, "s", "q").split())
    audit = "the audit decides: “w0” neutralised"
    assert f"not sure. Too few texts can be asked about to decide it, so {audit}, up to 30 answers." in shown
    assert f"- w0, w0s: not sure; {audit}. Answers changed: up to 30 answers." in shown
    assert "You are asked" not in shown


def test_a_card_that_is_given_up_is_said(session):
    typed = ["s", "s", *"uuuuuuuuuu", *"uuuuuuuuuu"]
    shown = " ".join(review(session, *typed, "q").split())
    assert "1 card cannot be decided by the texts left. Nothing more is asked about it." in shown
    assert "All cards are answered." in shown


def test_an_empty_line_or_a_wrong_key_answers_nothing(session):
    shown = review(session, "", "x", "b", "q")
    assert shown.count("Type one of k, n, a, s, q and Enter.") == 3
    assert not session.file.exists()


def test_texts_where_one_is_not_sure_undo_and_going_on(session):
    review(session, "s", "a", "u")
    assert session.state()["progress"]["answered"] == 1
    again = Session(session.rules, session.file, "anna")
    shown = review(again, "z", "z", "k")
    assert "The last answer is undone." in shown
    assert "Card 2 of 2" in shown
    assert decided(again) == {"w0": "unsure", "w1": "keep"}
    state = again.state()
    typed = []
    while question := state["question"]:
        key = "a" if question["a"] == "negative" else "b"
        typed.append(key)
        again.save({"question": question["id"], "answer": key}, state["revision"])
        state = again.state()
    shown = review(again, "q")
    assert "w0, w0s: neutralised (texts: shortcut, 8 mended, 0 broken of 8)." in shown
    assert len(typed) == 8


def test_people_and_checks_at_the_end(session, tmp_path):
    review(session, "n", "k", "q")
    deck = session.rules.deck
    rules = Rules(deck, [Decoy(deck.cards[1], NO_INFLUENCE)])
    shown = " ".join(review(Session(rules, session.file, "ben"), "n", "n", "q").split())
    assert "anna: neutralised; ben: neutralised" in shown
    assert f"w1, w1s was mixed in, because {NO_INFLUENCE}. You said: neutralised." in shown
    assert "1 of 1 card that several people answered are answered alike." in shown


def test_nothing_from_a_file_controls_the_terminal(tmp_path):
    text = "a \x1b[31m book \x1b]0;x\x07 \u202e"
    hostile = card("book", pulls_to="\x1b[2J", flips=(KeptFlip(0, "\x1b[2J", "b\u202e", text_hash(text), text),))
    report = to_review(0, cards=(hostile,), label_names=("\x1b[2J", "b\u202e")).to_dict()
    shown = review(Session(Rules(make_deck(report)), tmp_path / "d.json", "anna"), "s", "q")
    assert "[book]" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_two_texts_are_two_paragraphs(tmp_path):
    flips = tuple(
        KeptFlip(i, "positive", "negative", text_hash((f"one {i} book", "two")), f"one {i} book", "two")
        for i in range(12)
    )
    deck = make_deck(to_review(0, cards=(card("book", flips=flips),)).to_dict())
    shown = review(Session(Rules(deck), tmp_path / "d.json", "anna"), "s", "q")
    assert "[book]\n  two\n" in shown
    assert "book\n  two\n\nWhich answer is right?" in shown
