"""What is put before a person: the first cards of an audit, each with its words, its counts and three of its texts."""

import os
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..cards import Card, Flip
from ..data import Texts, text_hash
from ..decisions import LEAST_FLIPS, AuditedCards, pieces_of, sides
from ..display import percent
from ..errors import DataError
from ..text import WordFinder, content_words, spaced, visible_name
from .effects import effects_of

Document = Mapping[str, Any]
Piece = tuple[str, bool]
"""A piece of a text, and whether it is one of the card's words."""

MOST_CARDS = 10
MOST_EXAMPLES = 3
MOST_NAMES = 20
"""Words that are spelled out on a card."""

_AROUND = 8
"""Words of a text that are shown on either side of the card's word; the whole text opens on demand."""


@dataclass(frozen=True)
class Deck:
    """The cards of one review.

    Attributes:
        audited: All cards of the audit, by which decisions are recorded.
        cards: Those that are asked about, most changeable predictions first.
        shown: By id, what a person sees of a card, JSON-ready.
        flips: By id, the texts that may be asked about, none of which is shown on any card.
        about: The names that were typed for the audit, if they are known.
    """

    audited: AuditedCards
    cards: tuple[Card, ...]
    shown: Mapping[str, dict[str, Any]]
    flips: Mapping[str, tuple[Flip, ...]]
    about: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What the page is told, which are not the texts that it may ask about later."""
        audited, cards = self.audited, list(self.shown.values())
        known = {"audit": audited.id, "model": audited.model, "data": audited.data, "n": audited.n, "cards": cards}
        return known | {"next": fit_command(self.about, "decisions.json")}


def fit_command(about: Mapping[str, str], decisions: str, audit: Path | None = None) -> str:
    """What to type when word groups are decided: for a shell, with the names that were typed for the audit.

    Args:
        audit: The folder of the audit, if it may have been written from another folder than the current one.
    """
    typed, start = Path(about.get("folder", "")), Path()
    if audit is not None and not typed.is_absolute() and audit.resolve().parts[-len(typed.parts) :] == typed.parts:
        start = Path(os.path.relpath(audit.resolve().parents[len(typed.parts) - 1]))
    names = (about.get(key, key.upper()) for key in ("model", "data"))
    words = ["shortcut-guardrail", "fit", *(str(start / name) if (start / name).exists() else name for name in names)]
    elsewhere = audit is not None and audit.resolve() != Path(decisions).resolve().parent
    words += ["--decisions", decisions, *(["--audit", str(audit)] if elsewhere else []), "--out", "guarded"]
    asked = [(f"--{key}", about[key]) for key in ("label", "labels") if key in about]
    return shlex.join([*words, *(word for pair in asked for word in pair)])


def make_deck(document: Document, *, texts: Texts | None = None, which: str = "all", source: str = "The audit") -> Deck:
    """The word groups to review.

    Args:
        document: An audit, as `AuditReport.to_dict` gives it.
        texts: The audited texts, for an audit without them.
        which: See `AuditedCards.chosen`; of these the first ten.

    Raises:
        DataError: The audit has no word groups, has no texts and none are given, or those given are others.
    """
    audited = AuditedCards.from_dict(document, source=source)
    named = which not in ("all", "undecided")
    chosen = [card for card in audited.chosen(which) if named or not is_punctuation(card.words)][:MOST_CARDS]
    if not chosen:
        raise DataError(f"{source} has no word group to decide: no prediction depends on a word.")
    flips = {card.id: _with_texts(card.flips, texts, source) for card in chosen}
    kept = [{flip.row for flip in of_card} for of_card in flips.values() if len(of_card) >= LEAST_FLIPS]
    examples = {card.id: _examples(card, flips[card.id], _others(card, document, texts), kept) for card in chosen}
    rows = {flip.row for of_card in examples.values() for flip in of_card}
    left = {card: tuple(flip for flip in of_card if flip.row not in rows) for card, of_card in flips.items()}
    shown = {
        card.id: _shown_card(card, flips[card.id], examples[card.id], len(left[card.id]), document) for card in chosen
    }
    return Deck(audited, tuple(chosen), shown, left, document.get("about", {}))


def is_punctuation(words: Iterable[str]) -> bool:
    """Whether there is nothing but punctuation in them, which nobody can decide about."""
    return all(unicodedata.category(char)[0] in "PZ" for word in words for char in word)


# Which texts


def _taken(row: int, left: Sequence[set[int]]) -> bool:
    """Take a text to show it, if every card that texts can decide is left enough; whether it was."""
    holding = [rows for rows in left if row in rows]
    spare = all(len(rows) > LEAST_FLIPS for rows in holding)
    for rows in holding if spare else ():
        rows.remove(row)
    return spare


def _with_texts(flips: Sequence[Flip], given: Texts | None, source: str) -> list[Flip]:
    """Flips with their texts: those that the audit holds, or else those of the audited file, which must be the same."""
    found = [flip if given is None else _given(flip, given) for flip in flips]
    if any(flip.content is None for flip in found):
        raise DataError(
            f"{source} has no texts: it was made with redact=True. Give the audited file too: shortcut-guardrail "
            "review AUDIT DATA"
        )
    return found


def _given(flip: Flip, texts: Texts) -> Flip:
    text = texts[flip.row] if flip.row < len(texts) else None
    if text is None or (flip.text_hash and text_hash(text) != flip.text_hash):
        raise DataError(
            f"The texts given are not those that were audited: row {flip.row} (from 0) differs. Give the file that was "
            "audited, as it was then."
        )
    return Flip.of(flip.row, flip.before, flip.after, text, flip.margin)


def _others(card: Card, document: Document, given: Texts | None) -> Iterator[Flip]:
    """Texts of the audit's examples of a card's words, whose prediction may stay."""
    of_word = {candidate["text"]: candidate["examples"] for candidate in document["candidates"]}
    for example in (one for word in card.words for one in of_word.get(word, ())):
        before, after = example["label"], example["masked_label"]
        stored = Flip(example["index"], before, after, text=example["text"], text_pair=example["text_pair"])
        found = stored if given is None else _given(stored, given)
        if found.content is not None:
            yield found


def _examples(card: Card, flips: Sequence[Flip], others: Iterable[Flip], kept: Sequence[set[int]]) -> list[Flip]:
    """Texts of different topics: each next one shares the fewest words with those before; flips come first.

    Where a card has few flips, these are left to be asked about, and texts whose prediction may stay are shown.
    """
    chosen: list[Flip] = []
    own = {part for word in card.words for part in content_words(word)}
    bags = {flip.row: set(content_words(" ".join(sides(flip.content)))) - own for flip in flips}
    left = list(flips)

    def overlap(row: int) -> float:
        mine, others = bags[row], [bags[one.row] for one in chosen]
        # In steps, so that a short text is not passed over for a hair's breadth.
        return max((round(len(mine & bag) / max(1, len(mine | bag)), 1) for bag in others), default=0.0)

    while left and len(chosen) < MOST_EXAMPLES:
        # Of equal ones that which is read fastest.
        best = min(left, key=lambda f: (overlap(f.row), sum(map(len, sides(f.content))), f.row))
        left.remove(best)
        if _taken(best.row, kept):
            chosen.append(best)
    for other in others:
        new = other.row not in {one.row for one in chosen}
        if len(chosen) < MOST_EXAMPLES and new and _taken(other.row, kept):
            chosen.append(other)
    return chosen


# What is seen of a card


def _shown_card(
    card: Card, flips: Sequence[Flip], examples: Sequence[Flip], asked: int, document: Document
) -> dict[str, Any]:
    """What a person sees of a card, JSON-ready, where so many of its flips may be asked about."""
    finder = WordFinder(card.words, kept=card.except_in)
    # What `fit` removes reliance on where nobody decides: words that the audit says, or else those that it found.
    found = [c for c in document["candidates"] if c["flagged"] or c["alternative_wording"] or c["collective"]]
    said = document.get("fit_would_take")
    removed = {spaced(item["text"]) for item in (found if said is None else said)}
    taken = [visible_name(word) for word in card.words if spaced(word) in removed]
    return {
        "id": card.id,
        "words": card.words,
        "names": [visible_name(word) for word in card.words[:MOST_NAMES]],
        "pushes_towards": card.pushes_towards,
        "texts": card.texts,
        "changes": card.changes,
        "share": percent(card.share),
        "patterns": _patterns(finder, flips),
        "examples": [_shown_text(finder, example) for example in examples],
        "evidence": list(_evidence(card, document, asked)),
        "asks": asked >= LEAST_FLIPS,
        "effects": effects_of(card, taken),
    }


def _evidence(card: Card, document: Document, asked: int) -> Iterator[str]:
    """What the audit says of a card, in sentences, and whether texts cannot decide it."""
    evidence = card.evidence
    if evidence.flagged:
        names = [f"“{visible_name(word)}”" for word in evidence.flagged[:5]]
        does = "they override" if len(names) > 1 else "it overrides"
        yield f"The audit flags {', '.join(names)}: {does} the rest of the text."
    elif evidence.status == "undecided":
        yield "The audit could neither flag nor clear it."
    else:
        yield "The audit does not flag it."
    if evidence.relative_effect == evidence.relative_effect:  # NaN where every text holds one of the words
        words, whose = ("words", "their") if len(card.words) > 1 else ("word", "its")
        yield (
            f"Without the {words}, {whose} texts look less “{visible_name(card.pushes_towards)}” than other texts do, "
            f"in {percent(evidence.relative_effect, 0)} of comparisons (50% would be chance)."
        )
    labelled = next((c["labelled"] for c in document["candidates"] if c["text"] == card.words[0]), None)
    if labelled:
        yield (
            f"By the labels at hand, masking “{visible_name(card.words[0])}” fixes {labelled['flips_to_right']} "
            f"predictions and breaks {labelled['flips_to_wrong']}."
        )
    if card.changes < LEAST_FLIPS:
        yield f"Texts cannot decide it: fewer than {LEAST_FLIPS} predictions change."
    elif asked < LEAST_FLIPS:
        which = f"the command `questions` asks about all {card.changes:,}"
        yield f"Too few of its texts can be asked about here to decide it; {which}."


_NEAR = 100  # characters; a neighbour that is longer is none that repeats
_BEFORE, _AFTER = re.compile(r"([\w'’-]+)\s+$"), re.compile(r"^\s+([\w'’-]+)")


def _patterns(finder: WordFinder, flips: Iterable[Flip]) -> list[dict[str, Any]]:
    """The two commonest neighbours of the words, each in at least two texts."""
    found: Counter[str] = Counter()
    for flip in flips:
        found.update({pattern for side in sides(flip.content) for pattern in _neighbours(finder, side)})
    common = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return [{"text": visible_name(text), "texts": n} for text, n in common[:2] if n > 1]


def _neighbours(finder: WordFinder, text: str) -> Iterator[str]:
    at = 0
    for piece, marked in pieces_of(finder, text):
        end = at + len(piece)
        if marked and (before := _BEFORE.search(text[max(0, at - _NEAR) : at])):
            yield f"{before[1]} {piece}".casefold()
        if marked and (after := _AFTER.search(text[end : end + _NEAR])):
            yield f"{piece} {after[1]}".casefold()
        at = end


def _shown_text(finder: WordFinder, flip: Flip) -> dict[str, Any]:
    """A text with the words marked: of each side an excerpt in pieces, and the whole where it is longer."""
    whole = [pieces_of(finder, side) for side in sides(flip.content)]
    excerpt = list(map(excerpt_of, whole))
    shown = {"row": flip.row, "before": flip.before, "after": flip.after, "excerpt": excerpt}
    return shown | {"whole": None if excerpt == whole else whole}


def excerpt_of(pieces: list[Piece]) -> list[Piece]:
    """The first marked word with the words around it; the beginning where none is marked."""
    words = [match.span() for match in re.finditer(r"\S+", "".join(piece for piece, _ in pieces))]
    if len(words) <= 2 * _AROUND + 1:
        return pieces
    marked = next((i for i, (_, is_marked) in enumerate(pieces) if is_marked), 0)
    first = sum(len(piece) for piece, _ in pieces[:marked])
    centre = next((i for i, (_, end) in enumerate(words) if end > first), 0)
    low = max(0, min(centre - _AROUND, len(words) - 2 * _AROUND - 1))
    high = low + 2 * _AROUND
    cut, start, end = [], words[low][0], words[high][1]
    for piece, is_marked in pieces:
        cut.append((piece[max(0, start) : max(0, end)], is_marked))
        start, end = start - len(piece), end - len(piece)
    front, back = [("… ", False)] if low else [], [(" …", False)] if high < len(words) - 1 else []
    return [*front, *(piece for piece in cut if piece[0]), *back]
