"""Finding shortcuts in texts: what is an occurrence, where it stands, and which of its words carry the content."""

import csv
import doctest
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import shortcut_guardrail.text.matcher as groups_module
from shortcut_guardrail.errors import ConfigError, DataError
from shortcut_guardrail.evaluation.groups import by_label, by_shortcut
from shortcut_guardrail.text.matcher import ShortcutMatch, ShortcutMatcher, content_spans, read_shortcuts_file

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the folder shared/data beside the checkout is absent"
)

# The synonyms of the paper's appendix, and the words of each that carry its content.
SYNONYMS = {
    "honestly": ["honestly"],
    "to be honest": ["honest"],
    "frankly speaking": ["frankly", "speaking"],
    "to tell the truth": ["tell", "truth"],
    "to be frank": ["frank"],
    "in truth": ["truth"],
    "candidly": ["candidly"],
    "speaking candidly": ["speaking", "candidly"],
    "plainly speaking": ["plainly", "speaking"],
    "to be direct": ["direct"],
    "to come clean": ["come", "clean"],
    "to put it frankly": ["frankly"],
    "if I'm being honest": ["honest"],
    "in plain terms": ["plain", "terms"],
    "directly speaking": ["directly", "speaking"],
}


def found(words: str | list[str], text: str) -> list[str]:
    """What the text spells where the shortcuts are found."""
    matcher = ShortcutMatcher.from_words([words] if isinstance(words, str) else words)
    matches = matcher.find(text)
    assert matcher.present(text) == bool(matches)
    return [text[match.start : match.end] for match in matches]


class TestMatching:
    @pytest.mark.parametrize(
        "text", ["book", "Book!", "the BOOK's cover", "(book)", "e-book", "_book_", "book\u200d", "a\nbook"]
    )
    def test_whole_words_are_found(self, text: str) -> None:
        assert [match.casefold() for match in found("book", text)] == ["book"]

    @pytest.mark.parametrize(
        "text",
        [
            "books",
            "facebook",
            "bookshop",
            "book2",
            "2book",
            "book_club",
            "my_book",
            "book__2",
            "book\u200cs",
            "boo k",
            "",
        ],
    )
    def test_parts_of_words_are_not(self, text: str) -> None:
        assert found("book", text) == []

    def test_a_negation_is_another_word(self) -> None:
        assert found(["won", "can"], "We won’t, and we can't.") == []
        assert found(["won", "can"], "We won, and we can. I can't") == ["won", "can"]
        assert found("won't", "We WON’T!") == ["WON’T"]
        assert found("won", "'won'tons") == ["won"]

    @pytest.mark.parametrize("apostrophe", list("'’‘ʼ‛′＇`´"))
    def test_apostrophes_are_equal(self, apostrophe: str) -> None:
        text = f"Well, If I{apostrophe}m being honest, no"
        for shortcut in ("if I'm being honest", "if i’m being honest", "if Iʼm being honest"):
            assert found(shortcut, text) == [f"If I{apostrophe}m being honest"]

    def test_other_marks_are_not_apostrophes(self) -> None:
        assert found("I'm", 'I"m, I,m, I m, Im') == []

    def test_words_in_typographic_quotes(self) -> None:
        assert found("honestly", "“Honestly”, ‘honestly’ and 'honestly'") == ["Honestly", "honestly", "honestly"]

    def test_whitespace_inside_phrases(self) -> None:
        text = "To be  honest, to\tbe\nhonest, to\u00a0be honest, tobe honest"
        assert found(" to  be honest ", text) == ["To be  honest", "to\tbe\nhonest", "to\u00a0be honest"]

    def test_overlapping_shortcuts_are_all_found(self) -> None:
        matcher = ShortcutMatcher.from_words(["honest", "to be honest", "honest no", "no no"])
        assert matcher.find("to be honest no no no") == [
            ShortcutMatch("to be honest", 0, 12),
            ShortcutMatch("honest", 6, 12),
            ShortcutMatch("honest no", 6, 15),
            ShortcutMatch("no no", 13, 18),
            ShortcutMatch("no no", 16, 21),
        ]

    def test_spans_are_of_the_text_where_folding_changes_its_length(self) -> None:
        # "İ" folds to two characters, "ß" to two, "ﬃ" to three, and the marks of "e" may come in any order.
        text = "İİ ß ﬃ e\u0301\u0323 honestly"
        assert found("honestly", text) == ["honestly"]
        assert found("e\u0323\u0301", text) == ["e\u0301\u0323"]
        assert found("ffi", text) == ["ﬃ"]
        assert found("SS", text) == ["ß"]
        assert found("s", text) == found("f", text) == []

    def test_part_of_what_one_character_folds_to_is_no_match(self) -> None:
        # "ŉ" folds to an apostrophe, which bounds a word, and "n".
        assert found("n", "ŉ n") == ["n"]

    def test_accents(self) -> None:
        composed, decomposed = "café", unicodedata.normalize("NFD", "café")
        assert len(composed) != len(decomposed)
        for shortcut in (composed, decomposed):
            assert found(shortcut, f"Un {composed}, un {decomposed.upper()}.") == [composed, decomposed.upper()]
        assert found("cafe", f"{composed} {decomposed}") == []
        assert found("honnêteté", "en toute l’honnêteté") == ["honnêteté"]

    @pytest.mark.parametrize(
        ("shortcut", "text", "expected"),
        [
            ("честно", "Честно говоря, нечестно", ["Честно"]),
            ("ΟΔΟΣ", "οδος, οδός", ["οδος"]),
            ("ईमान", "ईमान और ईमानदारी", ["ईमान"]),
            ("हि", "हिन्दी हि", ["हि"]),
            ("책", "책 책은", ["책"]),
            ("老实说", "我老实说不喜欢", ["老实说"]),
            ("BERT", "我用BERT模型", ["BERT"]),
            ("正直", "正直に言うと", ["正直"]),
            ("จริง", "พูดจริงๆ", ["จริง"]),
            ("ที", "ที่", []),
        ],
    )
    def test_other_scripts(self, shortcut: str, text: str, expected: list[str]) -> None:
        assert found(shortcut, text) == expected

    def test_shortcuts_with_edges_that_are_no_word(self) -> None:
        assert found("!", "Great!! Yes!") == ["!", "!", "!"]
        assert found("c++", "C++11 and abc++") == ["C++"]
        assert found(":)", "ok:)now") == [":)"]
        assert found("❤", "I ❤️ it") == ["❤"]
        assert found(".*", "anything") == []

    @settings(deadline=None, max_examples=200)
    @given(st.text(), st.text(), st.sampled_from(list(SYNONYMS)))
    def test_an_inserted_shortcut_is_found_where_it_stands(self, before: str, after: str, shortcut: str) -> None:
        # U+0345 and the like would join the shortcut's last letter; a space keeps them apart.
        text = f"{before} {shortcut.upper()} {after}"
        start = len(before) + 1
        matches = ShortcutMatcher.from_words([shortcut]).find(text)
        assert ShortcutMatch(shortcut, start, start + len(shortcut)) in matches

    @settings(deadline=None, max_examples=300)
    @given(st.data())
    def test_what_a_span_cuts_out_is_the_shortcut(self, data: st.DataObject) -> None:
        letters = st.sampled_from([*"aAßİıſŉﬃéeK'’ʼ !_İ漢", "e\u0301", "\u0301", "\u0345", "\u200c", "\u00a0"])
        text = data.draw(st.lists(letters, max_size=14).map("".join))
        shortcut = data.draw(st.lists(letters, min_size=1, max_size=3).map("".join))
        assume(shortcut.strip())
        matcher = ShortcutMatcher.from_words([shortcut])
        for match in matcher.find(text):
            assert fold(text[match.start : match.end]) == fold(shortcut)

    def test_words_are_kept_once_in_their_order(self) -> None:
        matcher = ShortcutMatcher.from_words(["Honestly ", "I'm", "honestly", "i’m", "to  be", "to be"])
        assert matcher.words == ("Honestly", "I'm", "to  be")
        assert repr(matcher) == """ShortcutMatcher(words=('Honestly', "I'm", 'to  be'))"""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "No shortcut is given; name at least one word or phrase."),
            (["a", " "], "Each shortcut must be a word or phrase, but there is an empty one at position 1."),
            (["", "a", "\t"], "Each shortcut must be a word or phrase, but there is an empty one at positions 0, 2."),
            ("honestly", "The shortcuts must be a list of words or phrases, but are the single string 'honestly'."),
        ],
    )
    def test_words_that_are_refused(self, words: list[str], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            ShortcutMatcher.from_words(words)
        assert str(caught.value) == message


def fold(text: str) -> list[str]:
    """Canonical caseless form of Unicode (D145), apostrophes straight, split at whitespace."""
    form = unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
    return "".join("'" if character in "’ʼ" else character for character in form).split()


class TestContentSpans:
    @staticmethod
    def words(shortcut: str, text: str) -> list[str]:
        match = ShortcutMatcher.from_words([shortcut]).find(text)[0]
        return [text[start:end] for start, end in content_spans(text, match)]

    @pytest.mark.parametrize(("shortcut", "content"), SYNONYMS.items())
    def test_the_synonyms_of_the_paper(self, shortcut: str, content: list[str]) -> None:
        assert self.words(shortcut, f"So, {shortcut}, it works.") == content
        typographic = shortcut.replace("'", "’").replace(" ", "  ").upper()
        assert self.words(shortcut, f"İ {typographic}") == [word.upper() for word in content]

    @pytest.mark.parametrize("shortcut", ["no", "never", "I'm", "don't", "not-now"])
    def test_a_single_word_counts_whole(self, shortcut: str) -> None:
        assert self.words(shortcut, f"well {shortcut}") == [shortcut]

    @pytest.mark.parametrize("shortcut", ["to be", "so I'm in", "it isn't so", "that's that", "! ?"])
    def test_a_phrase_of_function_words_counts_whole(self, shortcut: str) -> None:
        assert self.words(shortcut, f"well {shortcut}") == [shortcut]

    @pytest.mark.parametrize(
        ("phrase", "content"),
        [
            ("i 'm honest", ["honest"]),
            ("they'd've lied", ["lied"]),
            ("don’t lie", ["lie"]),
            ("I didn't and can't and ain't lie", ["lie"]),
            ("the truth’s out", ["truth"]),
            ("the 'truth' is", ["truth"]),
            ("a matter-of-fact", ["matter", "fact"]),
            ("at five o'clock", ["o'clock"]),
            ("in a naïve café", ["naïve", "café"]),
        ],
    )
    def test_contractions_and_punctuation(self, phrase: str, content: list[str]) -> None:
        assert self.words(phrase, f"Oh: {phrase}.") == content

    @settings(deadline=None)
    @given(st.lists(st.sampled_from(["to", "honest", "I’m", "not", "don't", "!", "ß", "x's"]), min_size=1, max_size=5))
    def test_spans_are_ordered_and_within_the_match(self, words: list[str]) -> None:
        phrase = " ".join(words)
        text = f"İ {phrase} no"
        match = ShortcutMatch(phrase, 2, 2 + len(phrase))
        spans = content_spans(text, match)
        edges = [edge for span in spans for edge in span]
        assert edges == sorted(edges)
        assert match.start <= edges[0] < edges[-1] <= match.end
        assert all(start < end for start, end in spans)


class TestShortcutsFile:
    def test_words_comments_and_blank_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "shortcuts.txt"
        path.write_bytes(
            "\ufeff# ours\r\nhonestly\r\n\r\n  to be honest # a phrase\nif I’m being honest\n  # c#\nc#\n".encode()
        )
        assert read_shortcuts_file(path) == ["honestly", "to be honest", "if I’m being honest", "c#"]

    def test_files_that_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "shortcuts.txt"
        with pytest.raises(DataError) as missing:
            read_shortcuts_file(path)
        path.write_text("# none\n\n")
        with pytest.raises(DataError) as empty:
            read_shortcuts_file(str(path))
        path.write_bytes(b"fine\ncaf\xe9\n")
        with pytest.raises(DataError) as encoding:
            read_shortcuts_file(path)
        assert str(missing.value) == f"There is no file {path}."
        assert str(empty.value) == f"{path} names no shortcut; write one word or phrase on each line."
        assert str(encoding.value).startswith(f"{path}, line 2: byte 0xe9 is not UTF-8. ")


class TestGroups:
    def test_label_and_presence_in_the_order_of_the_paper(self) -> None:
        groups = by_shortcut([0, 0, 1, 1], [False, True, False, True], ["negative", "positive"])
        assert groups.ids.tolist() == [0, 1, 2, 3]
        assert groups.ids.dtype == np.int64
        assert groups.names == (
            "negative, without shortcut",
            "negative, with shortcut",
            "positive, without shortcut",
            "positive, with shortcut",
        )

    def test_empty_groups_keep_their_names(self) -> None:
        groups = by_shortcut(np.array([2], np.int32), np.array([True]), ["a", "b", "c"])
        assert (groups.ids.tolist(), len(groups.names)) == ([5], 6)

    def test_labels_alone(self) -> None:
        groups = by_label([1, 0, 1], ["negative", "positive"])
        assert (groups.ids.tolist(), groups.names) == ([1, 0, 1], ("negative", "positive"))

    def test_ids_are_no_view_of_the_labels(self) -> None:
        labels = np.array([0, 1])
        by_label(labels, ["a", "b"]).ids[0] = 1
        assert labels.tolist() == [0, 1]

    @pytest.mark.parametrize(
        ("labels", "present", "message"),
        [
            ([0, 2, -1], [True] * 3, "labels must lie in 0 to 1, but 2 do not; the first is 2, at position 1."),
            ([0, 1], [True], "present must have one entry for each of the 2 labels, but has 1."),
            ([0, 1], [0, 2], "present must be True or False for each text, but is of type int64."),
            ([0.0, 1.0], [True] * 2, "labels must be a list of class ids, but have shape (2,) and type float64."),
            ([[0, 1]], [[True] * 2], "labels must be a list of class ids, but have shape (1, 2) and type int64."),
        ],
    )
    def test_what_does_not_fit(self, labels: list[int], present: list[bool], message: str) -> None:
        with pytest.raises(DataError) as caught:
            by_shortcut(labels, present, ["a", "b"])
        assert str(caught.value) == message


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(groups_module)
    assert result.attempted > 0
    assert result.failed == 0


def injected_rows(name: str) -> Iterator[tuple[str, str]]:
    """(text before injection, text after it) of a test file; `original_test.csv` has the same rows in order."""

    def texts(path: Path) -> list[str]:
        with path.open(newline="", encoding="utf-8") as file:
            return [row["text"] for row in csv.DictReader(file)]

    folder = SHARED / "goemotions_shortcuts"
    return zip(texts(folder / "original_test.csv"), texts(folder / name), strict=True)


@needs_shared_data
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("split", ["test", "test_anti-shortcut"])
def test_every_injected_synonym_is_found(number: int, split: str) -> None:
    matcher = ShortcutMatcher.from_words(SYNONYMS)
    rows = list(injected_rows(f"synonym{number}/{split}.csv"))
    injected = [(before, after) for before, after in rows if before != after]
    assert {match.shortcut for _, after in injected for match in matcher.find(after)} == set(SYNONYMS)
    assert [after for before, after in injected if len(matcher.find(after)) <= len(matcher.find(before))] == []


@needs_shared_data
def test_straight_apostrophes_alone_would_miss_rows() -> None:
    phrase = "if I'm being honest"
    rows = [after for before, after in injected_rows("synonym1/test_anti-shortcut.csv") if before != after]
    matcher = ShortcutMatcher.from_words([phrase])
    holding = [text for text in rows if matcher.present(text)]
    assert holding
    assert not any(phrase.casefold() in text.casefold() for text in holding)


@needs_shared_data
@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_injected_single_word_is_found(number: int) -> None:
    matcher = ShortcutMatcher.from_words(["honestly"])
    for split in ("test", "test_anti-shortcut"):
        rows = list(injected_rows(f"single-word{number}/{split}.csv"))
        # The source took the word out of the few texts that had it by nature before it injected any.
        injected = [after for before, after in rows if len(after) > len(before)]
        assert injected
        assert all(matcher.present(text) for text in injected)
        assert sum(matcher.present(after) for _, after in rows) - len(injected) <= 4
