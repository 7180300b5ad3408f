"""What is put before a person: which cards, which three texts, and what stands around the words."""

import os
from dataclasses import asdict
from pathlib import Path

import pytest

from audits import candidate, card, labelled, to_review
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.errors import DataError
from shortcut_guardrail.review.shown import MOST_CARDS, fit_command, is_punctuation, make_deck


def flips(*texts):
    return tuple(Flip.of(i, "positive", "negative", text) for i, text in enumerate(texts))


def deck_of(*cards, **how):
    return make_deck(to_review(0, cards=cards).to_dict(), **how)


def seen(*texts, words=("book",), **how):
    deck = deck_of(card(*words, flips=flips(*texts), **how))
    return *deck.shown.values(), *deck.flips.values()


def rows_of(shown) -> set[int]:
    return {example["row"] for example in shown["examples"]}


def test_at_most_ten_cards_most_changeable_first():
    deck = make_deck(to_review(14).to_dict())
    assert [one.words[0] for one in deck.cards] == [f"w{i}" for i in range(MOST_CARDS)]
    first = deck.to_dict()["cards"][0]
    assert (first["texts"], first["changes"], first["share"]) == (50, 30, "7.5%")
    assert [one.words[0] for one in make_deck(to_review(3).to_dict(), which=deck.cards[2].id).cards] == ["w2"]
    # Nobody can decide about punctuation, flagged or not, unless it is named.
    marks = to_review(2).to_dict()
    marks["cards"][0] |= {"words": ["!", ". ."], "evidence": marks["cards"][0]["evidence"] | {"status": "flagged"}}
    assert [[one.words[0] for one in make_deck(marks, which=which).cards] for which in ("all", "!")] == [["w1"], ["!"]]
    marks["cards"][0]["evidence"]["status"] = "undecided"
    assert [one.words[0] for one in make_deck(marks, which="undecided").cards] == ["w1"]
    assert not is_punctuation([".net"])
    with pytest.raises(DataError, match="has no word group to decide"):
        make_deck(to_review(0).to_dict())


def test_shown_texts_are_of_different_topics_and_are_not_asked_about():
    like = [f"the book about cats and dogs, page {i}" for i in "abcdefghi"]
    shown, asked = seen(*like, "a book of cold weather reports", "no book repairs engines")
    assert {9, 10} < rows_of(shown)
    assert (len(shown["examples"]), len(asked)) == (3, 8)
    assert not rows_of(shown) & {flip.row for flip in asked}
    shown, _ = seen("the long text of a book about cats", "a book of dogs")
    assert [one["row"] for one in shown["examples"]] == [1, 0]  # that which is read fastest comes first
    # Nor about another card.
    both = flips(*(f"a book and a tea, {i}" for i in "abcdefghi"))
    deck = deck_of(card("book", flips=both), card("tea", flips=both))
    (row,) = set().union(*map(rows_of, deck.shown.values()))
    assert all(row not in {flip.row for flip in of_card} for of_card in deck.flips.values())


def test_eight_texts_stay_to_be_asked_about():
    texts = [f"a book on {word}" for word in "cats dogs cars tea snow rain birds bees sand salt ice iron".split()]
    for n, shown in ((7, 3), (8, 0), (9, 1), (10, 2), (11, 3), (12, 3)):
        one, left = seen(*texts[:n], changes=n)
        assert (len(one["examples"]), len(left), one["asks"]) == (shown, n - shown, n > 7)
        assert any("Texts cannot decide it" in sentence for sentence in one["evidence"]) == (n < 8)
        assert not any("Too few of its texts" in sentence for sentence in one["evidence"])
    # Another card leaves a card its texts.
    both = [f"a book and a tea, {i}" for i in "abcdefgh"]
    more = flips(*both, *(f"the book of {i}" for i in "abcd"))
    deck = deck_of(card("book", flips=more), card("tea", flips=flips(*both)))
    assert list(map(len, deck.flips.values())) == [9, 8]


def test_texts_whose_answer_stays_are_shown_where_flips_are_scarce():
    report = to_review(1, n_flips=8).to_dict()
    stays = {"text_pair": None, "label": "positive", "masked_label": "positive"}
    rows = *range(2), *range(900, 905)
    report["candidates"][0]["examples"] = [{"text": f"a w0 day {i}", "index": i, **stays} for i in rows]
    deck = make_deck(report)
    (shown,) = deck.shown.values()
    # Rows 0 and 1 are flips: they are asked about.
    found = [(one["row"], one["before"], one["after"]) for one in shown["examples"]]
    assert found == [(row, "positive", "positive") for row in (900, 901, 902)]
    assert [len(of_card) for of_card in deck.flips.values()] == [8]


def test_what_the_audit_does_with_a_card():
    document = to_review(1).to_dict()

    def unsure(**given):
        (shown,) = make_deck(document | given).shown.values()
        return shown["effects"]["unsure"]

    def taken(*words):
        return unsure(fit_would_take=[{"text": word} for word in words])

    moved = "30 from positive to negative"
    assert [tuple(one[key] for key in ("how", "changes", "n")) for one in (taken(), taken("W0"))] == [
        ("not sure; the audit decides: left as it is", "none", 0),
        ("not sure; the audit decides: reliance removed (“w0”)", "up to 30 predictions", 30),
    ]
    assert taken("w0", "w0s") == {
        "how": "not sure; the audit decides: reliance removed",
        "changes": f"30 predictions: {moved}",
        "n": 30,
        "line": "the audit decides: reliance removed, 30 predictions.",
        "short": "the audit decides: 30 predictions",
    }
    for words, ends in ((["w0"], "negative. This also takes “w0s”."), (["w0", "w0s"], "to negative.")):
        (shown,) = make_deck(document | {"fit_would_take": [{"text": word} for word in words]}).shown.values()
        assert shown["effects"]["remove_reliance"]["line"].endswith(ends)
    (shown,) = make_deck(document).shown.values()
    assert [shown["effects"][said]["n"] for said in ("keep", "remove_reliance")] == [0, 30]  # and not all its texts
    # An audit that does not say what `fit` would take.
    document["candidates"][0]["flagged"] = True
    assert "reliance removed (“w0”)" in unsure()["how"]


def test_the_evidence_is_in_plain_words():
    def evidence(**how):
        report = to_review(0, cards=(card("book", "novel", flips=flips("a book"), **how),)).to_dict()
        report["candidates"] = [asdict(candidate("book", labelled=labelled()))]
        return make_deck(report).to_dict()["cards"][0]["evidence"]

    assert evidence(status="flagged", flagged=("book", "novel"), changes=30) == [
        "The audit flags “book”, “novel”: they override the rest of the text.",
        "Without the words, their texts look less “positive” than other texts do, in 62% of comparisons (50% would "
        "be chance).",
        "By the labels at hand, masking “book” fixes 9 predictions and breaks 1.",
        "Too few of its texts can be asked about here to decide it; the command `questions` asks about all 30.",
    ]
    assert evidence(status="flagged", flagged=tuple("abcdef"))[0].count("“") == 5
    assert evidence(status="undecided")[0] == "The audit could neither flag nor clear it."
    assert evidence()[0] == "The audit does not flag it."
    assert "comparisons" not in evidence(relative_effect=float("nan"))[1], "every text holds one of the words"
    assert evidence(changes=7)[-1] == "Texts cannot decide it: fewer than 8 predictions change."


def test_the_commonest_neighbours():
    shown, _ = seen("this book is", "this book was", "This BOOK", "a book is", "a book", "book", "(this) book")
    assert shown["patterns"] == [{"text": "this book", "texts": 3}, {"text": "a book", "texts": 2}]  # and "book is"
    assert seen("this book was", "a book is")[0]["patterns"] == [], "what occurs once is no pattern"


def test_words_are_marked_and_long_texts_cut_around_them():
    def long(at: int, *, n: int = 100) -> str:
        return " ".join("book" if i == at else f"w{i}" for i in range(n))

    (short,) = seen("Read this book.", words=("book", "this book"))[0]["examples"]
    assert short["excerpt"] == [[("Read ", False), ("this book", True), (".", False)]]
    assert short["whole"] is None
    shown, _ = seen("A book fair, a book.", words=("book", *(f"w{i}" for i in range(20))), except_in=("book fair",))
    assert [piece for piece, marked in shown["examples"][0]["excerpt"][0] if not marked] == ["A book fair, a ", "."]
    assert len(shown["names"]) == 20
    for at, begins, ends in ((0, "book w1 ", " w16 …"), (50, "… w42 ", " w58 …"), (99, "… w83 ", " book")):
        (example,) = seen((long(at), "a pair"))[0]["examples"]
        text = "".join(piece for piece, _ in example["excerpt"][0])
        assert (text[: len(begins)], text[-len(ends) :]) == (begins, ends)
        assert [piece for piece, marked in example["excerpt"][0] if marked] == ["book"]
        assert "".join(piece for piece, _ in example["whole"][0]) == long(at)
        assert example["excerpt"][1] == [("a pair", False)]
    assert [seen(long(0, n=n))[0]["examples"][0]["whole"] is None for n in (17, 18)] == [True, False]


def test_an_audit_without_texts_needs_the_file_and_one_with_texts_refuses_another():
    texts = [f"a book {i}" for i in "abc"]
    report = to_review(0, cards=(card("book", flips=flips(*texts)),))
    redacted, whole = report.to_dict(redact=True), report.to_dict()
    with pytest.raises(DataError, match=r"has no texts.*Give the audited file too"):
        make_deck(redacted)
    for document in (redacted, whole):
        (shown,) = make_deck(document, texts=texts).shown.values()
        assert rows_of(shown) == {0, 1, 2}
        for other, row in ((["a book a", "another", "a book c"], 1), (texts[:2], 2)):
            with pytest.raises(DataError, match=f"are not those that were audited: row {row}"):
                make_deck(document, texts=other)


def test_the_next_command_names_files_from_where_the_user_stands(tmp_path, monkeypatch):
    audit, about = tmp_path / "there" / "out" / "audit", {"folder": "out/audit", "model": "a/hub-id", "data": "t.csv"}
    audit.mkdir(parents=True)
    (tmp_path / "there" / "t.csv").touch()
    for stands, decisions, command in (
        ("there", "d.json", "a/hub-id t.csv --decisions d.json --audit out/audit"),
        (".", "d.json", "a/hub-id there/t.csv --decisions d.json --audit there/out/audit"),
        ("there/out", "audit/decisions.json", "a/hub-id ../t.csv --decisions audit/decisions.json"),
    ):
        monkeypatch.chdir(tmp_path / stands)
        given = Path(os.path.relpath(audit))
        assert fit_command(about, decisions, given) == f"shortcut-guardrail fit {command} --out guarded"
    labels = {"label": "toxic", "labels": "toxic,mild"}
    assert fit_command(about | labels, "d.json").endswith(" --out guarded --label toxic --labels toxic,mild")
    # A folder that was moved says nothing about where its files lie.
    assert "fit a/hub-id t.csv" in fit_command(about, "d.json", tmp_path)
