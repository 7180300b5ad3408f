"""Flips and decisions on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from ..text import visible_name
from .terminal import new_table, screen

if TYPE_CHECKING:
    from ..decisions import AuditedCard, Decision, Decisions


def print_flips(cards: Sequence[tuple[AuditedCard, int]], *, least: int) -> None:
    """How many texts of each card can be asked about.

    Args:
        cards: Each with its number of flips.
        least: The fewest that can decide a card.
    """
    shown = new_table("card", "words", "pulls to", "flips")
    for card, flips in cards:
        shown.add_row(card.id, words_of(card.words), Text(visible_name(card.pulls_to)), str(flips))
    console = screen()
    console.print(shown)
    few = sum(flips < least for _, flips in cards)
    if few:
        console.print(f"{few} with fewer than {least} flips cannot be decided: audit more texts, or say what you know.")


def print_decisions(decisions: Decisions) -> None:
    """What was decided about each card, and on which answers."""
    shown = new_table("words", "mended", "broken", "asked", "evidence", "decision")
    for card in decisions.cards:
        shown.add_row(
            words_of(card.words),
            str(card.mended),
            str(card.broken),
            str(card.asked),
            "-" if card.e_value is None else f"{card.e_value:.3g}",
            _said(card),
        )
    console = screen()
    console.print(shown)
    console.print(
        "Mended: the answer with the words masked is right. Evidence of 20 decides a card; neutralise takes effect "
        "with `fit --decisions`. Genuine holds for these texts only."
    )
    several = [card for card in decisions.cards if card.outcome in ("shortcut", "genuine")]
    if len(decisions.cards) > 1 and several:
        survive = sum(bool(card.survives_e_bh) for card in several)
        console.print(
            f"{survive} of {len(several)} decisions also stand when all cards are taken together (e-BH, 5 %)."
        )
    if any(card.machine for card in decisions.cards):
        console.print("A machine answered: its answers are kept, and decide nothing.")


def _said(card: Decision) -> str:
    if card.outcome in ("shortcut", "genuine"):
        return f"{card.decision} ({card.outcome} here)"
    return "open"


def words_of(words: Sequence[str], width: int = 30) -> Text:
    """The words of a card, as many as fit."""
    names = [visible_name(word) for word in words]
    shown = names[0]
    for i, name in enumerate(names[1:], start=1):
        more = f" +{len(names) - i}"
        if len(shown) + len(name) + 2 + len(more) > width:
            return Text(shown + more)
        shown += f", {name}"
    return Text(shown)
