"""Characters that words are made of in some way of their own, and those that a reader would not see."""

import re
import unicodedata

from ..errors import printable

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


_MOST_CHARACTERS = 1000  # tables wrap what is longer for minutes


def visible_name(text: str) -> str:
    """A candidate's text such that a reader can see it and tell it from others.

    Characters that are not seen, that break a line or that turn the direction of writing are spelled out; joiners
    within an emoji or a word, which belong there, are left. It ends after `_MOST_CHARACTERS`.

    Example:
        >>> visible_name("honestly"), visible_name("\u200b"), visible_name("a\u202eb")
        ('honestly', '[U+200B]', 'a[U+202E]b')
    """
    text = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
    seen = any(unicodedata.category(c)[0] not in "CZM" for c in text)
    shown = printable(text) if seen else text
    return "".join(f"[U+{ord(c):04X}]" if not seen or c in "\n\t\u2028\u2029" else c for c in shown)
