"""Texts cut into marked pieces, and names that cannot be seen."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortcut_guardrail.report.marked_text import Piece, marked_pieces


def unit(start: int, end: int, change: float = -0.5, *, segment: int = 0, flips: bool = False) -> dict:
    return {"start": start, "end": end, "segment": segment, "change": change, "flips": flips}


def test_a_text_is_cut_at_its_units():
    pieces = marked_pieces("the soup was cold", [unit(13, 17, 0.4), unit(4, 8, -0.05, flips=True)])
    assert pieces == (
        Piece("the "),
        Piece("soup", "holds", 1, -0.05, True, 2),
        Piece(" was "),
        Piece("cold", "against", 3, 0.4, False, 1),
    )


@pytest.mark.parametrize(
    ("change", "level"), [(0.0, 0), (-0.019, 0), (-0.02, 1), (0.1, 2), (-0.3, 3), (0.6, 4), (-1, 4)]
)
def test_the_levels_of_a_mark(change, level):
    assert marked_pieces("soup", [unit(0, 4, change)])[0].level == level


def test_the_other_side_of_a_pair_is_left_alone():
    assert marked_pieces("soup", [unit(0, 4, segment=1)]) == (Piece("soup"),)
    assert marked_pieces("soup", [unit(0, 4, segment=1)], segment=1)[0].rank == 1


def test_the_candidate_comes_before_what_overlaps_it():
    phrase = {"start": 0, "end": 12, "change": -0.7, "flips": True}
    pieces = marked_pieces("to be honest it rains", [unit(6, 12), unit(16, 21)], named=phrase)
    assert [(p.text, p.named, p.rank) for p in pieces] == [
        ("to be honest", True, 0),
        (" it ", False, 0),
        ("rains", False, 2),
    ]
    assert pieces[0].flips
    same = marked_pieces("soup was cold", [unit(9, 13), unit(0, 4)], named=unit(0, 4))
    assert [(p.text, p.named, p.rank) for p in same if p.side] == [("soup", True, 2), ("cold", False, 1)]


def test_of_two_that_overlap_the_more_important_is_marked():
    pieces = marked_pieces("honestly", [unit(0, 6), unit(4, 8)])
    assert [(p.text, p.rank) for p in pieces] == [("honest", 1), ("ly", 0)]


def test_offsets_outside_the_text_mark_nothing():
    assert marked_pieces("soup", [unit(2, 9), unit(-1, 2), unit(3, 3)]) == (Piece("soup"),)
    assert marked_pieces("", [unit(0, 1)]) == ()


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
