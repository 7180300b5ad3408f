"""Which texts are the same, and which are the same evidence."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata

from .words import word_spans

_DIGITS = re.compile(r"\d+")


def text_key(text: str | tuple[str, str]) -> int:
    """64 bits that recognise exactly this text."""
    digest = hashlib.blake2b(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def evidence_key(text: str | tuple[str, str]) -> int:
    """64 bits that texts share if they differ in case, punctuation, spacing, digits or invisible characters alone.

    Example:
        >>> evidence_key("Order 17 is here!") == evidence_key("order 4: is HERE")
        True
    """
    parts = (text,) if isinstance(text, str) else text
    reduced = []
    for part in parts:
        folded = unicodedata.normalize("NFKC", part).casefold()
        folded = "".join(c for c in folded if unicodedata.category(c) != "Cf")
        words = [_DIGITS.sub("0", folded[a:b]) for a, b in word_spans(folded) if any(map(str.isalnum, folded[a:b]))]
        reduced.append(" ".join(words) or folded)
    return text_key("\n".join(reduced))
