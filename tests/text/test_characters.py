"""Names as a reader sees them."""

from __future__ import annotations

import pytest

from shortcut_guardrail.text.characters import visible_name

SHOWN = ("honestly", "##isance", "to be", "👩\u200d🚒", "می\u200cخواهم", "")
SPELLED_OUT = [
    (" ", "[U+0020]"),
    ("\u200d\ufeff", "[U+200D][U+FEFF]"),
    ("\ufe0f", "[U+FE0F]"),
    ("a\u202eb", "a[U+202E]b"),
    ("a\x00b", "a[U+0000]b"),
    ("a\ud83d", "a[U+D83D]"),
    ("two\nlines", "two[U+000A]lines"),
    ("a\u2028b", "a[U+2028]b"),
]


@pytest.mark.parametrize(("text", "shown"), [*zip(SHOWN, SHOWN, strict=True), *SPELLED_OUT])
def test_names_can_be_seen(text, shown):
    assert visible_name(text) == shown
