"""What is said of candidates that were added to texts, beside what removing them does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..data import counted
from ..display import number, percent, some
from ..text import visible_name

Document = Mapping[str, Any]

SAID_CANDIDATES = 5
"""Candidates that sentences name."""


LEGEND = (
    "Added: the share of texts of other classes that get the word's class when the word is added to them (*: more than "
    "with random words; -: not tried). For a word group: the largest share of its words."
)
"""What the column says, wherever a table has it."""


def added_rate(candidate: Document) -> str:
    """How often adding it changes a prediction, with an asterisk where that is more than random words do."""
    added = candidate.get("insertion")
    return "-" if not added else number(added["flip_rate"]) + ("*" if added["found"] else "")


def added_rate_of_card(card: Document, document: Document) -> str:
    """The largest of its words, those that are found first."""
    words = set(card["words"])
    added = [c for c in document["candidates"] if c["text"] in words and c.get("insertion")]
    order = sorted(added, key=lambda c: (not c["insertion"]["found"], -c["insertion"]["flip_rate"]))
    return added_rate(order[0]) if order else "-"


def insertions_said(document: Document) -> list[str]:
    """What adding candidates does, and what it means where removing them does something else; a paragraph each."""
    if not (tried := document.get("insertions")):
        return []
    if not tried["n_tried"]:
        return ["No candidate could be added to texts: too few texts without it are predicted as another class."]
    found = [c for c in document["candidates"] if c.get("insertion") and c["insertion"]["found"]]
    found.sort(key=lambda c: -c["insertion"]["flip_rate"])
    n = counted(tried["n_tried"], "candidate")
    it = "it" if tried["n_tried"] == 1 else "them"
    cost = f"{n} tried by adding {it} to texts without {it} ({tried['n_predictions']:,} predictions)"
    if not found:
        return [f"{cost}. None changes more predictions to its class than random words do."]
    said = [f"{cost}. These change more predictions than random words do (*): {_rates(found)}."]
    more, less = _differing(found)
    if more:
        said.append(
            f"Adding changes more than removing: {_names(more)}. Other words in their texts point the same way, so "
            "deleting them repairs little. Adding them to a text can change its prediction."
        )
    if less:
        said.append(
            f"Removing changes more than adding: {_names(less)}. Either they count only together with the rest of "
            "the text, or the model predicts another class whenever they are missing."
        )
    return said


def _differing(found: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Candidates of which one rate is beyond twice the other, and their 95 % intervals do not meet: which is higher."""
    more, less = [], []
    for one in found:
        (low, high), (added_low, added_high) = one["interval"]["flip_rate"], one["insertion"]["interval"]
        removed, added = one["flip_rate"], one["insertion"]["flip_rate"]
        if high is not None and high < added_low and added > 2 * removed:
            more.append(one)
        elif low is not None and low > added_high and removed > 2 * added:
            less.append(one)
    return more, less


def _names(candidates: Sequence[Document]) -> str:
    return some([f"“{visible_name(c['text'])}”" for c in candidates], SAID_CANDIDATES)


def _rates(candidates: Sequence[Document]) -> str:
    """Some of them: removing changes so much, adding so much, to which class."""
    said = [
        f"“{visible_name(c['text'])}” (removing it changes {percent(c['flip_rate'], 0)} of predictions, adding it "
        f"{percent(c['insertion']['flip_rate'], 0)} to '{c['pushes_towards']}')"
        for c in candidates[:SAID_CANDIDATES]
    ]
    left = len(candidates) - len(said)
    return ", ".join(said) + (f" and {left} more" if left else "")
