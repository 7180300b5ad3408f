"""Which texts are the same, and which are the same evidence."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..typing import Array
from .words import piece_spans

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
    reduced = []
    for part in (text,) if isinstance(text, str) else text:
        folded = unicodedata.normalize("NFKC", part).casefold()
        folded = "".join(c for c in folded if unicodedata.category(c) != "Cf")
        words = [_DIGITS.sub("0", folded[a:b]) for a, b in piece_spans(folded) if any(map(str.isalnum, folded[a:b]))]
        reduced.append(" ".join(words) or folded)
    return text_key("\n".join(reduced))


@dataclass(frozen=True)
class Repeats:
    """Which of N inputs repeat another."""

    same_as: Array  # the first input with exactly the same text, shape (N,)
    weights: Array  # for the first of equal texts how many there are, for the others 0, shape (N,)
    evidence: Array  # whether the input is the first among near-identical ones, shape (N,); see `evidence_key`


def find_repeats(exact: Sequence[int] | Array, near: Sequence[int] | Array) -> Repeats:
    """Sort inputs by the keys of `text_key` and `evidence_key`, both of length N."""
    _, first, inverse, counts = np.unique(
        np.asarray(exact, dtype=np.uint64), return_index=True, return_inverse=True, return_counts=True
    )
    weights = np.zeros(len(inverse), dtype=np.int64)
    weights[first] = counts
    evidence = np.zeros(len(inverse), dtype=bool)
    evidence[np.unique(np.asarray(near, dtype=np.uint64), return_index=True)[1]] = True
    return Repeats(first[inverse], weights, evidence)


def distinct_rows(texts: Sequence[str | tuple[str, str]]) -> Array:
    """The first of each kind of near-identical texts (case, digits, punctuation), as row numbers in their order."""
    keys = [evidence_key(text) for text in texts]
    return np.flatnonzero(find_repeats(keys, keys).evidence)
