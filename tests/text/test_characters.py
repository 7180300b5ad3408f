"""Names as a reader sees them."""

import pytest

from shortcut_guardrail.errors import printable
from shortcut_guardrail.text.characters import visible_name


@pytest.mark.parametrize("text", ["honestly", "##isance", "to be", "👩\u200d🚒", "می\u200cخواهم", ""])
def test_what_can_be_seen_stays(text):
    assert visible_name(text) == text


@pytest.mark.parametrize("text", [" ", "\u200d\ufeff", "\ufe0f", "a\u202eb", "a\0b", "a\ud83d", "o\nn", "a\u2028b"])
def test_what_cannot_be_seen_is_spelled_out(text):
    assert visible_name(text) == "".join(c if c in "abon" else f"[U+{ord(c):04X}]" for c in text)


def test_no_name_moves_the_cursor_turns_the_direction_or_is_too_long_for_a_table():
    assert printable("a\rb\x1b[2K\n\tc\x9b\u202e") == "a[U+000D]b[U+001B][2K\n\tc[U+009B][U+202E]"
    assert (visible_name("x" * 2_000_000), visible_name("x" * 1000)) == ("x" * 1000 + "…", "x" * 1000)
