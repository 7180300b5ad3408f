"""A text cut into plain and marked pieces: what its heat-map shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEVELS = (0.02, 0.1, 0.3, 0.6)
"""Where the four strengths of a mark begin: how far masking moves the probability of the answer."""


@dataclass(frozen=True)
class Piece:
    """A piece of a text.

    Attributes:
        side: `holds` if masking it lowers the probability of the answer, `against` if it raises it; empty if unmarked.
        level: Strength of the mark, 1 to 4; 0 for an effect too small to show.
        change: What masking it does to that probability; `None` for a piece that was not masked.
        flips: Whether masking it changes the answer.
        rank: Its rank among the important units of the text by saliency, 1 is the most important; 0 if it is none.
        named: Whether it is the candidate in question.
    """

    text: str
    side: str = ""
    level: int = 0
    change: float | None = None
    flips: bool = False
    rank: int = 0
    named: bool = False


def marked_pieces(
    text: str, important: Sequence[Mapping[str, Any]], *, segment: int = 0, named: Mapping[str, Any] | None = None
) -> tuple[Piece, ...]:
    """Cut a text at its important units.

    Args:
        important: The important units of the input as `ImportantToken`s, the most important first.
        segment: Which side `text` is.
        named: The candidate in question, if it is on this side: its `start`, `end`, `change` and whether it `flips`.

    Returns:
        The pieces, which joined are the text. Where units overlap, the candidate comes before all others and the more
        important before the less.
    """
    units = [(rank, unit) for rank, unit in enumerate(important, 1) if unit["segment"] == segment]
    if named is not None:
        place = (named["start"], named["end"])
        rank = next((rank for rank, unit in units if (unit["start"], unit["end"]) == place), 0)
        units.insert(0, (rank, named))
    spans: list[tuple[int, int, Piece]] = []
    for rank, unit in units:
        start, end = unit["start"], unit["end"]
        if 0 <= start < end <= len(text) and all(end <= left or right <= start for left, right, _ in spans):
            spans.append((start, end, _piece(text[start:end], unit, rank, unit is named)))
    pieces, at = [], 0
    for start, end, piece in sorted(spans, key=lambda span: span[0]):
        pieces += [Piece(text[at:start]), piece] if at < start else [piece]
        at = end
    return tuple([*pieces, Piece(text[at:])] if at < len(text) else pieces)


def _piece(text: str, unit: Mapping[str, Any], rank: int, named: bool) -> Piece:
    change = unit["change"]
    level = sum(abs(change) >= limit for limit in LEVELS)
    return Piece(text, "holds" if change < 0 else "against", level, change, unit["flips"], rank, named)
