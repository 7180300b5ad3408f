"""What is put before a person: the first cards of an audit, each with its words, its counts and three of its texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..cards import Card
from ..data import Texts, text_hash
from ..decisions import LEAST_FLIPS, AuditedCards
from ..errors import DataError
from ..text import WordFinder, content_words, spaced, visible_name
from .effects import Effect, effects_of

Document = Mapping[str, Any]
Text = str | tuple[str, str]
Piece = tuple[str, bool]
"""A piece of a text, and whether it is one of the card's words."""

MOST_CARDS = 10
MOST_EXAMPLES = 3
MOST_NAMES = 20
"""Words that are spelled out on a card."""

_AROUND = 12
"""Words of a text that are shown on either side of the card's word; the whole text opens on demand."""


@dataclass(frozen=True)
class ShownText:
    """A text on a card, with the model's answer before and after the card's words are masked.

    Attributes:
        row: Which of the audited texts it is, from 0.
        before: The class that the model answers.
        after: The class that it answers with the words masked.
        excerpt: What is shown, cut into pieces; one list for each side of a pair.
        whole: The whole text likewise, where it is longer than the excerpt.
    """

    row: int
    before: str
    after: str
    excerpt: tuple[tuple[Piece, ...], ...]
    whole: tuple[tuple[Piece, ...], ...] | None


@dataclass(frozen=True)
class Pattern:
    """A word of a card with its neighbour, and in how many of the card's texts at hand it stands."""

    text: str
    texts: int


@dataclass(frozen=True)
class FlipText:
    """A text whose answer changes with a card's words masked; see `cards.Flip`."""

    row: int
    before: str
    after: str
    text: Text


@dataclass(frozen=True)
class DeckCard:
    """A card as it is put before a person.

    Attributes:
        id: The card's.
        words: All its words.
        names: The first of them, such that each can be read.
        pulls_to: The class.
        texts: Distinct texts that hold any of the words.
        changes: Of these, texts whose answer changes when all the words are masked.
        share: `changes` among all distinct texts, in [0, 1].
        moved: `changes` by class: before, after, texts.
        patterns: The two commonest neighbours of the words.
        examples: Up to three texts, of topics as different as there are.
        evidence: Sentences of the audit on the words.
        effects: What follows from each decision.
        flips: Texts that can be asked about, none of which is shown on any card.
    """

    id: str
    words: tuple[str, ...]
    names: tuple[str, ...]
    pulls_to: str
    texts: int
    changes: int
    share: float
    moved: tuple[tuple[str, str, int], ...]
    patterns: tuple[Pattern, ...]
    examples: tuple[ShownText, ...]
    evidence: tuple[str, ...]
    effects: Mapping[str, Effect]
    flips: tuple[FlipText, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What the page is told: everything but the texts that it may ask about later, of which it has the number."""
        return asdict(self) | {"flips": len(self.flips)}


@dataclass(frozen=True)
class Deck:
    """The cards of one review.

    Attributes:
        audited: All cards of the audit, by which decisions are recorded.
        label_names: Names of the classes.
        n: Distinct texts of the audit.
        cards: The cards that are asked about, most changeable answers first.
    """

    audited: AuditedCards
    label_names: tuple[str, ...]
    n: int
    cards: tuple[DeckCard, ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary, for the page."""
        head = {"audit": self.audited.id, "model": self.audited.model, "data": self.audited.data, "n": self.n}
        return head | {"cards": [card.to_dict() for card in self.cards]}


def make_deck(document: Document, *, texts: Texts | None = None, which: str = "all", source: str = "The audit") -> Deck:
    """The cards to review.

    Args:
        document: An audit, as `AuditReport.to_dict` gives it.
        texts: The audited texts, for an audit without them.
        which: See `AuditedCards.chosen`; of these the first ten.
        source: What to call the audit in messages.

    Raises:
        DataError: The audit has no cards, has no texts and none are given, or those given are others.
    """
    audited = AuditedCards.from_dict(document, source=source)
    by_id = {card["id"]: card for card in document["cards"]}
    chosen = audited.chosen(which)[:MOST_CARDS]
    if not chosen:
        raise DataError(f"{source} has no card to decide: no answer hangs on a word that the audit does not flag.")
    known = _Texts(document, texts, source)
    askable = Askable({flip.row for flip in known.flips(by_id[card.id])} for card in chosen)
    examples = {card.id: known.examples(card, by_id[card.id], askable) for card in chosen}
    shown = {example.row for of_card in examples.values() for example in of_card}
    cards = [_card(card, by_id[card.id], known, examples[card.id], shown, document) for card in chosen]
    return Deck(audited, tuple(document["label_names"]), document["n_distinct"], tuple(cards))


class Askable:
    """The texts that can still be asked about, for each card. A card that texts can decide is left enough of them.

    Args:
        rows: Of each card.
    """

    def __init__(self, rows: Iterable[set[int]]) -> None:
        self._rows = [of_card for of_card in rows if len(of_card) >= LEAST_FLIPS]

    def shown(self, row: int) -> bool:
        """Show a text, if it can be spared; whether it was."""
        holding = [of_card for of_card in self._rows if row in of_card]
        spare = all(len(of_card) > LEAST_FLIPS for of_card in holding)
        for of_card in holding if spare else ():
            of_card.remove(row)
        return spare


class _Texts:
    """The texts of an audit: those that it holds, or else those of the audited file, which must be the same."""

    def __init__(self, document: Document, given: Texts | None, source: str) -> None:
        self._given, self._source = given, source
        self._of_candidates = {candidate["text"]: candidate["examples"] for candidate in document["candidates"]}

    def of(self, kept: Document) -> Text | None:
        """The text of a flip or an example; `None` where it is not known."""
        stored: Text | None = kept["text"]
        if stored is not None and kept["text_pair"] is not None:
            stored = (kept["text"], kept["text_pair"])
        if self._given is None:
            return stored
        row = kept.get("row", kept.get("index"))
        text: Text | None = self._given[row] if row < len(self._given) else None
        if text is None or (kept.get("text_hash") and text_hash(text) != kept["text_hash"]):
            raise DataError(
                f"The texts given are not those that were audited: row {row} (from 0) differs. Give the file that was "
                "audited, as it was then."
            )
        return text

    def flips(self, card: Document) -> list[FlipText]:
        known = [(flip, self.of(flip)) for flip in card["flips"]]
        if any(text is None for _, text in known):
            raise DataError(
                f"{self._source} has no texts: it was made with --redact. Give the audited file too: "
                "shortcut-guardrail review AUDIT DATA"
            )
        return [FlipText(flip["row"], flip["before"], flip["after"], text) for flip, text in known if text is not None]

    def others(self, words: Sequence[str]) -> Iterator[FlipText]:
        """Texts of the audit's examples of words, whose answer may stay."""
        for example in (one for word in words for one in self._of_candidates.get(word, ())):
            text = self.of(example)
            if text is not None:
                yield FlipText(example["index"], example["label"], example["masked_label"], text)

    def examples(self, card: Card, stored: Document, askable: Askable) -> list[FlipText]:
        """Texts of different topics: each next one shares the fewest words with those before; flips come first.

        Where a card has few flips, these are left to be asked about, and texts whose answer may stay are shown.
        """
        chosen: list[FlipText] = []
        flips = self.flips(stored)
        own = {part for word in card.words for part in content_words(word)}
        bags = {flip.row: set(content_words(_joined(flip.text))) - own for flip in flips}
        while flips and len(chosen) < MOST_EXAMPLES:
            # Of equal ones that which is read fastest.
            best = min(flips, key=lambda f: (_overlap(bags, f, chosen), len(_joined(f.text)), f.row))
            flips.remove(best)
            if askable.shown(best.row):
                chosen.append(best)
        for other in self.others(card.words):
            new = other.row not in {one.row for one in chosen}
            if len(chosen) < MOST_EXAMPLES and new and askable.shown(other.row):
                chosen.append(other)
        return chosen


def _overlap(bags: Mapping[int, set[str]], flip: FlipText, chosen: Sequence[FlipText]) -> float:
    mine = bags[flip.row]
    others = (bags[one.row] for one in chosen)
    # In steps, so that a short text is not passed over for a hair's breadth.
    return max((round(len(mine & bag) / max(1, len(mine | bag)), 1) for bag in others), default=0.0)


def _card(
    card: Card, stored: Document, known: _Texts, examples: list[FlipText], shown: set[int], document: Document
) -> DeckCard:
    finder = WordFinder(card.words, kept=card.except_in)
    flips = known.flips(stored)
    moved = tuple((one["before"], one["after"], one["texts"]) for one in stored["moved"])
    asked = tuple(flip for flip in flips if flip.row not in shown)
    taken = [word for word in card.words if spaced(word) in _taken(document)]
    effects = effects_of(card.changes, moved, list(map(visible_name, taken)), all_taken=len(taken) == len(card.words))
    return DeckCard(
        id=card.id,
        words=card.words,
        names=tuple(visible_name(word) for word in card.words[:MOST_NAMES]),
        pulls_to=card.pulls_to,
        texts=card.texts,
        changes=card.changes,
        share=stored["share"],
        moved=moved,
        patterns=patterns_of(finder, [flip.text for flip in flips]),
        examples=tuple(shown_text(finder, example) for example in examples),
        evidence=(*_evidence(card, stored, document), *too_few(len(asked), card.changes)),
        effects=effects,
        flips=asked,
    )


def _taken(document: Document) -> set[str]:
    """The words that `fit` neutralises where nobody decides: those that the audit says, or else those that it found."""
    said = document.get("fit_would_take")
    if said is None:
        said = [c for c in document["candidates"] if c["flagged"] or c["takes_turns"] or c["collective"]]
    return {spaced(item["text"]) for item in said}


def too_few(asked: int, changes: int) -> tuple[str, ...]:
    """A sentence where texts cannot decide a card."""
    if asked >= LEAST_FLIPS:
        return ()
    if changes < LEAST_FLIPS:
        return (f"Texts cannot decide it: fewer than {LEAST_FLIPS} answers change.",)
    return (
        f"Too few of its texts can be asked about here to decide it; the command “flips” asks about all {changes:,}.",
    )


def _evidence(card: Card, stored: Document, document: Document) -> Iterator[str]:
    evidence = stored["evidence"]
    if evidence["flagged"]:
        names = [f"“{visible_name(word)}”" for word in evidence["flagged"][:5]]
        does = "they outweigh" if len(names) > 1 else "it outweighs"
        yield f"The audit flags {', '.join(names)}: {does} the rest of the text."
    elif evidence["status"] == "undecided":
        yield "The audit could neither flag nor clear it."
    else:
        yield "The audit does not flag it."
    opposed = evidence["relative_effect"]
    if opposed is not None:
        words, whose = ("words", "their") if len(card.words) > 1 else ("word", "its")
        yield (
            f"Without the {words}, {whose} texts look less “{visible_name(card.pulls_to)}” than other texts do, in "
            f"{opposed:.0%} of comparisons (50% would be chance)."
        )
    first = next((c for c in document["candidates"] if c["text"] == card.words[0]), None)
    if first and first["labelled"]:
        labelled = first["labelled"]
        yield (
            f"By the labels at hand, masking “{visible_name(first['text'])}” mends {labelled['flips_to_right']} "
            f"answers and breaks {labelled['flips_to_wrong']}."
        )


_NEAR = 100  # characters; a neighbour that is longer is none that repeats
_BEFORE, _AFTER = re.compile(r"([\w'’-]+)\s+$"), re.compile(r"^\s+([\w'’-]+)")


def patterns_of(finder: WordFinder, texts: Sequence[Text], most: int = 2) -> tuple[Pattern, ...]:
    """The commonest neighbours of the words, each in at least two texts."""
    found: Counter[str] = Counter()
    for text in texts:
        found.update({pattern for side in _sides(text) for pattern in _neighbours(finder, side)})
    common = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return tuple(Pattern(visible_name(text), n) for text, n in common[:most] if n > 1)


def _neighbours(finder: WordFinder, text: str) -> Iterator[str]:
    for start, end in _spans(finder, text):
        word = text[start:end]
        if before := _BEFORE.search(text[max(0, start - _NEAR) : start]):
            yield f"{before[1]} {word}".casefold()
        if after := _AFTER.search(text[end : end + _NEAR]):
            yield f"{word} {after[1]}".casefold()


def shown_text(finder: WordFinder, flip: FlipText) -> ShownText:
    """A text with the words marked, and an excerpt of it around the first of them."""
    whole = tuple(_pieces(finder, side) for side in _sides(flip.text))
    excerpt = tuple(map(_excerpt, whole))
    return ShownText(flip.row, flip.before, flip.after, excerpt, None if excerpt == whole else whole)


def _sides(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


def _joined(text: Text) -> str:
    return " ".join(_sides(text))


def _spans(finder: WordFinder, text: str) -> list[tuple[int, int]]:
    """Where the words stand, overlapping ones as one."""
    spans: list[tuple[int, int]] = []
    for found in finder.find(text):
        if spans and found.start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], found.end))
        else:
            spans.append((found.start, found.end))
    return spans


def _pieces(finder: WordFinder, text: str) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    at = 0
    for start, end in _spans(finder, text):
        pieces += [(text[at:start], False), (text[start:end], True)]
        at = end
    pieces.append((text[at:], False))
    return tuple(piece for piece in pieces if piece[0])


def _excerpt(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The first marked word with the words around it; the beginning where none is marked."""
    text = "".join(piece for piece, _ in pieces)
    words = [match.span() for match in re.finditer(r"\S+", text)]
    if len(words) <= 2 * _AROUND + 1:
        return pieces
    starts = [len("".join(piece for piece, _ in pieces[:i])) for i in range(len(pieces))]
    first = next((start for start, (_, marked) in zip(starts, pieces, strict=True) if marked), 0)
    centre = next((i for i, (_, end) in enumerate(words) if end > first), 0)
    low = max(0, min(centre - _AROUND, len(words) - 2 * _AROUND - 1))
    high = low + 2 * _AROUND
    start, end = words[low][0], words[high][1]
    cut = [
        (piece[max(0, start - at) : end - at], marked)
        for at, (piece, marked) in zip(starts, pieces, strict=True)
        if at < end and at + len(piece) > start
    ]
    front, back = [("… ", False)] if low else [], [(" …", False)] if high < len(words) - 1 else []
    return (*front, *((piece, marked) for piece, marked in cut if piece), *back)
