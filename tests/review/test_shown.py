"""What is put before a person: which cards, which three texts, and what stands around the words."""

import os
from pathlib import Path

import pytest

from audits import _kind, candidate, card, example, to_review
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.decisions import LEAST_FLIPS, Decision
from shortcut_guardrail.errors import DataError
from shortcut_guardrail.review.effects import effects_of, follows
from shortcut_guardrail.review.shown import MOST_CARDS, _given, _patterns, fit_command, is_punctuation, make_deck
from shortcut_guardrail.text import WordFinder


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


def test_a_text_that_is_shown_for_one_word_group_is_asked_about_for_none():
    texts = [f"a book and a film, number {_kind(i)}" for i in range(30)]
    short = [f"film {_kind(i)}" for i in range(30, 33)]
    both = [card("book", flips=flips(*texts)), card("film", flips=flips(*texts, *short))]
    deck = deck_of(*both)
    book, film = map(rows_of, deck.shown.values())
    assert (len(book), film) == (3, {30, 31, 32})  # those of "book" are flips of "film" as well
    for of_card, left in zip(both, deck.flips.values(), strict=True):
        assert {flip.row for flip in left} == {flip.row for flip in of_card.flips} - book - film


def test_a_card_with_few_changes_shows_examples_of_its_words_and_what_the_audit_takes():
    of = {
        word: tuple(example(i, f"my {word} {i}", word) for i in rows)
        for word, rows in (("novel", (7, 7)), ("it", (8,)))
    }
    words = [candidate(word, examples=some, collective=word == "novel") for word, some in of.items()]
    flagged = tuple(f"w{i}" for i in range(6))
    document = to_review(0, cards=(card("This", "it", "novel", flagged=flagged),)).to_dict()
    document["candidates"] = to_review(0, candidates=tuple(words)).to_dict()["candidates"]
    for taken, quoted in ((None, "“novel”"), ([{"text": "this"}, {"text": "it"}], "“This”, “it”")):
        (shown,) = make_deck(document | {"fit_would_take": taken}).shown.values()
        assert shown["effects"]["unsure"]["how"] == f"not sure; the audit decides: reliance removed ({quoted})"
    assert [one["row"] for one in shown["examples"]] == [8, 7], "each once"
    assert "w4" in shown["evidence"][0]
    assert "w5" not in shown["evidence"][0]
    assert shown["evidence"][-1].startswith("Too few of its texts can be asked about here"), "of eight changes"


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
    bare = Flip(1, "positive", "negative", margin=0.5)  # written without hashes
    assert _given(bare, texts) == Flip.of(1, "positive", "negative", texts[1], 0.5)


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
    for folder in ({}, {"folder": str(audit)}):
        assert "fit a/hub-id t.csv" in fit_command(about | folder, "d.json", audit if folder else tmp_path)


def test_a_neighbour_is_a_pattern_where_it_stands_in_two_texts():
    """And with eight prediction changes, the fewest, a person's doubt is not put down to too few texts."""
    patterns = _patterns(WordFinder(["book"]), flips("a Good book", "my good book Ended", "the book ended"))
    assert patterns == [{"text": "book ended", "texts": 2}, {"text": "good book", "texts": 2}]
    effects = {"unsure": {"how": "not sure", "changes": "", "n": 0, "line": "the audit decides.", "short": ""}}
    said = [
        follows(effects, "unsure", Decision(("book",)), flips=n, asked=False)["line"]
        for n in (LEAST_FLIPS - 1, LEAST_FLIPS)
    ]
    assert ["Too few texts" in one for one in said] == [True, False]
    effects, machine = effects_of(card("book", changes=1), ["book"]), Decision(("book",), "remove_reliance", "machine")
    told = follows(effects, "unsure", machine, flips=1, asked=False)
    assert (told["short"], told["how"]) == ("1 prediction changes", "reliance removed (by the second model)")
