"""Characters that words are made of in some way of their own, and those that a reader would not see."""

from __future__ import annotations

import re
import unicodedata

# Characters that stand for an apostrophe within a word, and what keyboards give for one as well: in a list of shortcuts
# "don`t" means "don't".
APOSTROPHES = "'’‘ʼʹ′＇"
TYPED_APOSTROPHES = "‛ʻ`´"
# Characters of no width that are part of the spelling in some scripts, and of composed emoji.
JOINERS = "\u200c\u200d"
# A character of a script that does not set words apart by spaces: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
# Characters that turn the direction of writing, and so what a line seems to say.
_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """A message without characters that a terminal would obey: names in it may come from anybody's files.

    Example:
        >>> printable("column '\\x1b[31mred'"), printable("two\\nlines")
        ("column '[U+001B][31mred'", 'two\\nlines')
    """
    return "".join(
        spelled_out(c) if c in _BIDI_CONTROLS or (unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t") else c
        for c in text
    )


def visible_name(text: str) -> str:
    """A candidate's text such that a reader can see it and tell it from others.

    Characters that are not seen, that break a line or that turn the direction of writing are spelled out; joiners
    within an emoji or a word, which belong there, are left.

    Example:
        >>> visible_name("honestly"), visible_name("\u200b"), visible_name("a\u202eb")
        ('honestly', '[U+200B]', 'a[U+202E]b')
    """
    blank = not any(unicodedata.category(c)[0] not in "CZM" for c in text)
    hidden = ("Cc", "Cs", "Zl", "Zp")
    return "".join(
        spelled_out(c) if blank or c in _BIDI_CONTROLS or unicodedata.category(c) in hidden else c for c in text
    )


def spelled_out(character: str) -> str:
    """A character by its number, as in "[U+200B]"."""
    return f"[U+{ord(character):04X}]"
