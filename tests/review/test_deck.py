"""What is put before a person: which cards, which three texts, what stands around the words."""

from __future__ import annotations

import pytest

from audits import card, to_review
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.errors import DataError
from shortcut_guardrail.review.deck import MOST_CARDS, FlipText, make_deck, patterns_of, shown_text
from shortcut_guardrail.text import WordFinder


def flips(*texts, before="positive", after="negative"):
    return tuple(Flip.of(i, before, after, text) for i, text in enumerate(texts))


def deck_of(*texts, words=("book",), **how):
    return make_deck(to_review(0, cards=(card(*words, flips=flips(*texts)),), model="m", data="d").to_dict(), **how)


def test_at_most_ten_cards_most_changeable_first():
    deck = make_deck(to_review(14).to_dict())
    assert [one.words[0] for one in deck.cards] == [f"w{i}" for i in range(MOST_CARDS)]
    first = deck.cards[0]
    assert (first.texts, first.changes, first.moved) == (50, 30, (("positive", "negative", 30),))
    assert [one.words[0] for one in make_deck(to_review(3).to_dict(), which=deck.cards[2].id).cards] == ["w2"]


def test_no_card_is_a_sentence():
    with pytest.raises(DataError, match="has no card to decide"):
        make_deck(to_review(0).to_dict())


def test_shown_texts_are_of_different_topics_and_are_not_asked_about():
    like = [f"the book about cats and dogs, page {i}" for i in "abcdefghi"]
    deck = deck_of(*like, "a book of cold weather reports", "no book repairs engines")
    (shown,) = deck.cards
    assert {9, 10} < {example.row for example in shown.examples}
    assert len(shown.examples) == 3
    assert not {example.row for example in shown.examples} & {flip.row for flip in shown.flips}
    assert len(shown.flips) == 8


def test_a_text_shown_on_one_card_is_not_asked_about_for_another():
    both = flips(*(f"a book and a tea, {i}" for i in "abcdefgh"))
    cards = (card("book", flips=both), card("tea", flips=both))
    deck = make_deck(to_review(0, cards=cards).to_dict())
    shown = {example.row for one in deck.cards for example in one.examples}
    assert all(not shown & {flip.row for flip in one.flips} for one in deck.cards)


@pytest.mark.parametrize(("n", "shown", "asked"), [(7, 3, 4), (8, 0, 8), (9, 1, 8), (10, 2, 8), (11, 3, 8), (12, 3, 9)])
def test_eight_texts_stay_to_be_asked_about(n, shown, asked):
    texts = [f"a book on {word}" for word in "cats dogs cars tea snow rain birds bees sand salt ice iron".split()]
    (one,) = deck_of(*texts[:n]).cards
    assert (len(one.examples), len(one.flips)) == (shown, asked)
    assert any("Texts cannot decide it" in sentence or "Too few" in sentence for sentence in one.evidence) == (n < 8)


def test_texts_whose_answer_stays_are_shown_where_flips_are_scarce():
    report = to_review(1, n_flips=8).to_dict()
    report["candidates"][0]["examples"] = [
        {"text": f"a w0 day {i}", "text_pair": None, "index": i, "label": "positive", "masked_label": "positive"}
        for i in (*range(2), *range(900, 905))
    ]
    (one,) = make_deck(report).cards
    # Rows 0 and 1 are flips: they are asked about.
    assert [example.row for example in one.examples] == [900, 901, 902]
    assert len(one.flips) == 8


def test_a_card_is_left_its_texts_by_other_cards():
    both = flips(*(f"a book and a tea, {i}" for i in "abcdefgh"))
    more = flips(*(f"a book and a tea, {i}" for i in "abcdefgh"), *(f"the book of {i}" for i in "abcd"))
    deck = make_deck(to_review(0, cards=(card("book", flips=more), card("tea", flips=both))).to_dict())
    assert [len(one.flips) for one in deck.cards] == [9, 8]


def test_a_card_that_texts_cannot_decide_says_what_can():
    few = flips(*(f"a book {i}" for i in "abc"))
    (one,) = make_deck(to_review(0, cards=(card("book", flips=few, changes=30),)).to_dict()).cards
    assert one.evidence[-1] == (
        "Too few of its texts can be asked about here to decide it; the command “flips” asks about all 30."
    )
    (one,) = make_deck(to_review(0, cards=(card("book", flips=few, changes=3),)).to_dict()).cards
    assert one.evidence[-1] == "Texts cannot decide it: fewer than 8 answers change."


def test_what_the_audit_does_with_a_card():
    document = to_review(1).to_dict()
    said = {
        name: make_deck(document | given).cards[0].effects["unsure"]
        for name, given in {
            "nothing": {"fit_would_take": []},
            "part": {"fit_would_take": [{"text": "W0"}]},
            "all": {"fit_would_take": [{"text": "w0"}, {"text": "w0s"}]},
        }.items()
    }
    moved = "30 from positive to negative"
    assert [(one.how, one.changes, one.n) for one in said.values()] == [
        ("not sure; the audit decides: left as it is", "none", 0),
        ("not sure; the audit decides: “w0” neutralised", "up to 30 answers", 30),
        ("not sure; the audit decides: neutralised", f"30 answers: {moved}", 30),
    ]
    assert said["all"].line == "the audit decides: neutralised, 30 answers."
    # An audit that does not say what `fit` would take.
    document["candidates"][0]["flagged"] = True
    assert "“w0” neutralised" in make_deck(document).cards[0].effects["unsure"].how


def test_the_evidence_is_in_plain_words():
    flagged = card("book", "novel", status="flagged", flagged=("book", "novel"), flips=flips("a book"))
    (one,) = make_deck(to_review(0, cards=(flagged,)).to_dict()).cards
    assert one.evidence[:2] == (
        "The audit flags “book”, “novel”: they outweigh the rest of the text.",
        "Without the words, their texts look less “positive” than other texts do, in 62% of comparisons (50% would "
        "be chance).",
    )


def test_the_commonest_neighbours():
    finder = WordFinder(["book"])
    found = patterns_of(finder, ["this book is", "this book was", "This BOOK", "a book is", "book", "(this) book"])
    assert [(one.text, one.texts) for one in found] == [("this book", 3), ("book is", 2)]


def test_words_are_marked_and_long_texts_cut_around_them():
    finder = WordFinder(["book", "this book"])
    short = shown_text(finder, FlipText(0, "p", "n", "Read this book."))
    assert short.excerpt == ((("Read ", False), ("this book", True), (".", False)),)
    assert short.whole is None
    words = [f"w{i}" for i in range(100)]
    words[50] = "book"
    long = shown_text(finder, FlipText(0, "p", "n", (" ".join(words), "a pair")))
    text = "".join(piece for piece, _ in long.excerpt[0])
    assert text.startswith("… w38 ")
    assert text.endswith(" w62 …")
    assert [piece for piece, marked in long.excerpt[0] if marked] == ["book"]
    assert "".join(piece for piece, _ in long.whole[0]) == " ".join(words)
    assert long.excerpt[1] == (("a pair", False),)


def test_an_audit_without_texts_needs_the_file():
    texts = [f"a book {i}" for i in "abc"]
    document = to_review(0, cards=(card("book", flips=flips(*texts)),)).to_dict(redact=True)
    with pytest.raises(DataError, match=r"has no texts: it was made with --redact\. Give the audited file too"):
        make_deck(document)
    deck = make_deck(document, texts=texts)
    assert {example.row for example in deck.cards[0].examples} == {0, 1, 2}
    with pytest.raises(DataError, match="are not those that were audited: row 1"):
        make_deck(document, texts=["a book a", "another", "a book c"])
    with pytest.raises(DataError, match="are not those that were audited: row 2"):
        make_deck(document, texts=texts[:2])
    # An audit that has its texts does not pass over a wrong file.
    whole = to_review(0, cards=(card("book", flips=flips(*texts)),)).to_dict()
    assert make_deck(whole, texts=texts)
    with pytest.raises(DataError, match="are not those that were audited: row 1"):
        make_deck(whole, texts=["a book a", "another", "a book c"])


def test_an_older_audit_shows_the_examples_of_its_words():
    report = to_review(1).to_dict()
    report["cards"][0] |= {"flips": [], "moved": []}
    report["candidates"][0]["examples"] = [
        {"text": "a w0 day", "text_pair": None, "index": 7, "label": "positive", "masked_label": "positive"}
    ]
    (shown,) = make_deck(report).cards
    assert [(one.row, one.before, one.after) for one in shown.examples] == [(7, "positive", "positive")]
    assert shown.flips == ()
