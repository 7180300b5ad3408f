"""Names as a reader sees them."""

from __future__ import annotations

import pytest

from shortcut_guardrail.text.characters import visible_name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("honestly", "honestly"),
        ("##isance", "##isance"),
        ("to be", "to be"),
        (" ", "[U+0020]"),
        ("\u200b", "[U+200B]"),
        ("\u200d\ufeff", "[U+200D][U+FEFF]"),
        ("\ufe0f", "[U+FE0F]"),
        ("a\u202eb", "a[U+202E]b"),
        ("a\x00b", "a[U+0000]b"),
        ("\ud83d", "[U+D83D]"),
        ("a\ud83d", "a[U+D83D]"),
        ("👩\u200d🚒", "👩\u200d🚒"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("two\nlines", "two[U+000A]lines"),
        ("a\u2028b", "a[U+2028]b"),
        ("", ""),
    ],
)
def test_names_can_be_seen(text, shown):
    assert visible_name(text) == shown
