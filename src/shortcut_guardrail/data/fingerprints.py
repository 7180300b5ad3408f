"""Fingerprints by which texts are known again without being kept."""

import hashlib
import json


def text_hash(text: str | tuple[str, str]) -> str:
    """A hash that recognises a text without holding it, however its words are spaced; 32 hexadecimal digits."""
    content = " ".join(text.split()) if isinstance(text, str) else [" ".join(part.split()) for part in text]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def text_number(text: str | tuple[str, str]) -> int:
    """The first half of `text_hash` as a number below 2^64, of which many take little room."""
    return int(text_hash(text)[:16], 16)
