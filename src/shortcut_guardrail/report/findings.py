"""What a person wants to know first of an audit, in sentences that its page and the terminal share.

They are made from an `audit.json`: what was audited, the sentence that matters, one text before and after, and what to
do next, with commands that can be pasted.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cards import is_of_function
from ..data import counted
from ..decisions import pieces_of
from ..display import percent
from ..review import excerpt_of, fit_command
from ..text import WordFinder, visible_name

Document = Mapping[str, Any]
Piece = tuple[str, bool]

GAP = "____"
"""What stands in a text where a word is masked."""


@dataclass(frozen=True)
class Shown:
    """A text whose prediction changes: its sides in pieces, which are marked where the words stand."""

    before: str
    after: str
    sides: tuple[tuple[Piece, ...], ...]

    @property
    def gaps(self) -> tuple[tuple[Piece, ...], ...]:
        """The sides with the words masked."""
        return tuple(tuple((GAP if marked else piece, marked) for piece, marked in side) for side in self.sides)

    @property
    def text(self) -> str:
        """As it was read; both of a pair with a bar between them."""
        return " | ".join("".join(piece for piece, _ in side) for side in self.sides)

    @property
    def masked(self) -> str:
        """With the words masked."""
        return " | ".join("".join(piece for piece, _ in side) for side in self.gaps)


@dataclass(frozen=True)
class Findings:
    """The first screen of an audit.

    Attributes:
        audited: What was audited, a sentence.
        finding: The one sentence that matters.
        status: What the audit's test says of it, a sentence or two.
        example: One text before and after; `None` where the audit has none.
        steps: What to do next, each with the command that does it.
    """

    audited: str
    finding: str
    status: str
    example: Shown | None
    steps: tuple[tuple[str, str], ...]


def findings(document: Document) -> Findings:
    """The first screen of an audit.

    Args:
        document: What `audit.json` holds; the names that were typed stand under `about`, if they are known.
    """
    cards = [card for card in document["cards"] if card["changes"] and not is_of_function(card["words"])]
    flagged = [card for card in document["cards"] if card["evidence"]["status"] == "flagged"]
    first = max(flagged or cards, key=lambda card: card["changes"], default=None)
    return Findings(
        audited=_audited(document),
        finding=_finding(document) if first is None else _decided(first, document),
        status=_status(document, first),
        example=None if first is None else _example(first),
        steps=_steps(document, asked=bool(flagged or cards)),
    )


def _audited(document: Document) -> str:
    about: dict[str, str] = {key: visible_name(value) for key, value in document.get("about", {}).items()}
    model = f" '{about['model']}'" if "model" in about else ""
    distinct = "" if document["n_distinct"] == document["n"] else f" ({document['n_distinct']:,} distinct)"
    distinct += f", a random sample of {sample['n']:,}" if (sample := document.get("sample")) else ""
    data = about.get("corpus", about.get("data"))
    of, on = f" from '{data}'" if data else "", f" on {about['date']}" if "date" in about else ""
    return f"The model{model} was audited with {counted(document['n'], 'text')}{distinct}{of}{on}."


def _names(words: Sequence[str]) -> str:
    shown, left = [f"“{visible_name(word)}”" for word in words[:2]], len(words) - 2
    return f"{', '.join(shown)} and {counted(left, 'more word')}" if left > 0 else " and ".join(shown)


def _decided(card: Document, document: Document) -> str:
    names, predictions = _names(card["words"]), f"{card['changes']:,} of {document['n_distinct']:,} predictions."
    if card["evidence"]["status"] != "flagged":
        return f"Masking {names} changes {predictions}"
    return f"{names} {'decides' if len(card['words']) == 1 else 'decide'} {predictions}"


def _finding(document: Document) -> str:
    """Of an audit without word groups."""
    for one in document["candidates"][:1]:
        share = "an unknown share" if one["flip_rate"] is None else percent(one["flip_rate"], 0)
        return f"Masking “{visible_name(one['text'])}” changes {share} of the predictions of texts that contain it."
    return "No word was found that changes a prediction."


def _status(document: Document, card: Document | None) -> str:
    flagged = [one["text"] for one in document["candidates"] if one["flagged"]]
    if flagged:
        what, whose = ("it overrides", "its text") if len(flagged) == 1 else ("they override", "their texts")
        return f"The audit flags {_names(flagged)}: {what} the rest of {whose}. Only you know whether that is right."
    if card is not None and card["evidence"]["status"] == "undecided":
        it, itself = _names(card["words"]), "itself" if len(card["words"]) == 1 else "themselves"
        why = "there are too few, or other words may be the cause"
        return f"The texts do not settle whether the model depends on {it} by {itself}: {why}."
    return "The audit flags no word. That is no proof that the model has no shortcut."


def _example(card: Document) -> Shown | None:
    """The text that is read fastest, if it has a few words at all."""
    finder = WordFinder(card["words"], kept=card["except_in"])
    flips = [flip for flip in card["flips"] if flip["text"] is not None]
    if not flips:
        return None
    flip = min(flips, key=lambda one: (len(one["text"].split()) < 5, len(one["text"] + (one["text_pair"] or ""))))
    texts = [flip["text"]] if flip["text_pair"] is None else [flip["text"], flip["text_pair"]]
    sides = tuple(tuple(excerpt_of(pieces_of(finder, text))) for text in texts)
    return Shown(visible_name(flip["before"]), visible_name(flip["after"]), sides)


def _steps(document: Document, *, asked: bool) -> tuple[tuple[str, str], ...]:
    about = document.get("about", {})
    has_texts = any(flip["text"] is not None for card in document["cards"] for flip in card["flips"])
    folder, data = about.get("folder", "audit"), [] if has_texts else [about.get("data", "DATA")]
    review = shlex.join(["shortcut-guardrail", "review", folder, *data])
    decided = fit_command(about, f"{folder}/decisions.json")
    if not asked:
        return (("Audit more texts, or texts that were misclassified.", ""),)
    return (
        ("Say which words should influence the prediction, in your browser:", review),
        ("Remove the model's reliance on the others:", decided),
    )
