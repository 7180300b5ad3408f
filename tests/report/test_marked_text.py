"""Texts cut into marked pieces."""

import random

from hypothesis import given
from hypothesis import strategies as st

from shortcut_guardrail.report.marked_text import Piece, marked_pieces


def unit(start: int, end: int, change: float = -0.5, *, segment: int = 0, flips: bool = False) -> dict:
    return {"start": start, "end": end, "segment": segment, "change": change, "flips": flips}


def test_a_text_is_cut_at_its_units_which_have_four_levels():
    soup, cold = Piece("soup", "holds", 1, -0.05, True, 2), Piece("cold", "against", 3, 0.4, False, 1)
    pieces = marked_pieces("the soup was cold", [unit(13, 17, 0.4), unit(4, 8, -0.05, flips=True)])
    assert pieces == (Piece("the "), soup, Piece(" was "), cold)
    # Of two that overlap the more important is marked, and what lies outside of the text, or on its other side, is not.
    assert [(p.text, p.rank) for p in marked_pieces("honestly", [unit(0, 6), unit(4, 8)])] == [("honest", 1), ("ly", 0)]
    assert marked_pieces("soup", [unit(2, 9), unit(-1, 2), unit(3, 3)]) == (Piece("soup"),)
    assert marked_pieces("soup", [unit(0, 4, segment=1)]) == (Piece("soup"),)
    assert marked_pieces("soup", [unit(0, 4, segment=1)], segment=1)[0].rank == 1
    changes = {0.0: 0, -0.019: 0, -0.02: 1, 0.1: 2, -0.3: 3, 0.6: 4, -1: 4}
    assert {change: marked_pieces("soup", [unit(0, 4, change)])[0].level for change in changes} == changes


def test_the_candidate_comes_before_what_overlaps_it():
    pieces = marked_pieces("to be honest it rains", [unit(6, 12), unit(16, 21)], named=unit(0, 12, -0.7, flips=True))
    found = [(p.text, p.named, p.rank) for p in pieces]
    assert found == [("to be honest", True, 0), (" it ", False, 0), ("rains", False, 2)]
    assert pieces[0].flips
    same = marked_pieces("soup was cold", [unit(9, 13), unit(0, 4)], named=unit(0, 4))
    assert [(p.text, p.named, p.rank) for p in same if p.side] == [("soup", True, 2), ("cold", False, 1)]


@given(st.text(max_size=40), st.integers(0, 2**32))
def test_the_pieces_are_the_text(text, seed):
    dice = random.Random(seed)
    spans = [sorted((dice.randrange(-2, 44), dice.randrange(-2, 44))) for _ in range(dice.randrange(12))]
    units = [unit(start, end, dice.uniform(-1, 1)) for start, end in spans]
    named = dice.choice([None, *units])
    pieces = marked_pieces(text, units, named=named)
    assert "".join(piece.text for piece in pieces) == text
    assert all(piece.text for piece in pieces)
    inside = named is not None and 0 <= named["start"] < named["end"] <= len(text)
    assert sum(piece.named for piece in pieces) == inside
