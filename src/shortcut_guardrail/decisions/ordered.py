"""Classes in an order, such as stars: which of two answers a third class speaks for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_RANK = re.compile(r"(\d{1,4})[\s_-]{1,3}[^\W\d_]{1,40}")


def is_ordered(labels: Sequence[str]) -> bool:
    """Whether labels are in an order: three or more, each a number and a word, and the numbers ascend.

    Numbers alone do not count, since they may be the numbers of classes in no order.

    Example:
        >>> is_ordered(["1 star", "2 stars", "3 stars"]), is_ordered(["0", "1", "2"])
        (True, False)
    """
    found = [_RANK.fullmatch(label.strip()) for label in labels]
    ranks = [int(match[1]) for match in found if match]
    return 3 <= len(labels) == len(ranks) and all(a < b for a, b in pairwise(ranks))


def sides_of(pair: tuple[int, int], n_classes: int, *, ordered: bool) -> tuple[list[int], list[int]]:
    """The classes that speak for the one and the other of two: in an order the nearer ones, otherwise these two.

    A class as near to both speaks for neither.
    """
    if not ordered:
        return [pair[0]], [pair[1]]
    nearer = [abs(c - pair[0]) - abs(c - pair[1]) for c in range(n_classes)]
    return [c for c, d in enumerate(nearer) if d < 0], [c for c, d in enumerate(nearer) if d > 0]
