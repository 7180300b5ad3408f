"""Finding shortcuts in texts: what is an occurrence, where it stands, and which of its words carry the content."""

from shortcut_guardrail.text import WordFinder


def found(words: str | list[str], text: str) -> list[str]:
    """What the text spells where the shortcuts are found."""
    finder = WordFinder([words] if isinstance(words, str) else words)
    matches = finder.find(text)
    assert finder.present(text) == bool(matches)
    return [text[match.start : match.end] for match in matches]


class TestMatching:
    def test_whole_words_are_found_and_parts_of_words_are_not(self) -> None:
        for text in ("book", "Book!", "the BOOK's cover", "(book)", "e-book", "_book_", "book\u200d", "a\nbook"):
            assert [match.casefold() for match in found("book", text)] == ["book"], text
        for text in (*"books facebook book2 2book book_club my_book book__2 book\u200cs".split(), "boo k", ""):
            assert found("book", text) == [], text

    def test_what_an_occurrence_is(self) -> None:
        for words, text, expected in (
            # A negation is another word.
            (["won", "can"], "We won’t, and we can't.", []),
            *[(["won", "can"], "We won, and we can. I can't", ["won", "can"]), ("won't", "We WON’T!", ["WON’T"])],
            *[("won", "'won'tons", ["won"]), (["t", "'t", "won"], "won`t, WON'T, won\u2019t", [])],
            # Quotation marks are no apostrophes, and stand beside a word.
            ("I'm", 'I"m, I,m, I m, Im', []),
            ("honestly", "“Honestly”, ‘honestly’ and 'honestly'", ["Honestly", "honestly", "honestly"]),
            # White space within a phrase is of any kind, and beside a mark there may be none.
            (" to  be honest ", "To be  honest, to\tbe\nhonest, tobe honest", ["To be  honest", "to\tbe\nhonest"]),
            ("be honest", "be\u00a0honest", ["be\u00a0honest"]),
            ("e-book", "An e - book, an e-book, an ebook", ["e - book", "e-book"]),
            *[("e - book", "An e-book", ["e-book"]), ("to be", "tobe to-be", []), ("很 好", "很好", ["很好"])],
            ("10/10", "A 10/10! not 10 / 10, 110/10 or 10/10/24", ["10/10"]),
            # Edges that are no word.
            *[("!", "Great!! Yes! No ! ?!", ["!", "!", "!"]), ("!!", "Great!! Yes!", ["!!"])],
        ):
            assert found(words, text) == expected

    def test_apostrophes_are_equal(self) -> None:
        for apostrophe in "'’‘ʼ‛′＇`´":
            for shortcut in ("if I'm being honest", "if i’m being honest", "if Iʼm being honest"):
                said = f"If I{apostrophe}m being honest"
                assert found(shortcut, f"Well, {said}, no") == [said]
