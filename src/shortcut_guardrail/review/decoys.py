"""Cards whose answer is known beforehand, mixed in to check the reviewer: people indict innocent words too.

One is of a word that names a class and so should count; one is of a word that has no influence, so that
there is nothing to neutralise. Their answers are told to the reviewer at the end and decide nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any

from ..text import WordFinder, is_content, stems, visible_name
from .deck import MOST_EXAMPLES, Askable, Deck, DeckCard, FlipText, patterns_of, shown_text, too_few
from .effects import effects_of

NAMES_A_CLASS, NO_INFLUENCE = "it names a class, so it should count", "it has no influence on any answer"


@dataclass(frozen=True)
class Decoy:
    """A card whose answer is known.

    Attributes:
        card: The card.
        why: Why its answer is known.
    """

    card: DeckCard
    why: str


def with_decoys(deck: Deck, document: Mapping[str, Any], *, seed: int = 0) -> tuple[Deck, tuple[Decoy, ...]]:
    """The deck with two decoys added to its cards, and which these are; fewer where the texts have no such word.

    Args:
        deck: The cards.
        document: The audit.
        seed: Of the decoys' places.
    """
    texts = {flip.row: flip for card in deck.cards for flip in card.flips}
    askable = Askable({flip.row for flip in card.flips} for card in deck.cards)
    pulled = {word for card in document["cards"] for word in card["words"]}
    free = [candidate for candidate in document["candidates"] if candidate["text"] not in pulled]
    still = [candidate for candidate in free if candidate["flip_rate"] == 0 and candidate["pulls_to"]]
    names = {stem for name in document["label_names"] for stem in stems(name)}
    naming = [candidate for candidate in still if stems(candidate["text"]) & names]
    idle = [c for c in still if is_content(c["text"]) and abs(c["mean_change"] or 0) < 0.02 and c not in naming]
    found: list[Decoy] = []
    for candidates, why in ((naming, NAMES_A_CLASS), (_commonest(idle), NO_INFLUENCE)):
        found += [Decoy(card, why) for card in islice(_made(candidates, list(texts.values()), deck, askable), 1)]
    cards, coin = list(deck.cards), Random(seed)
    for decoy in found:
        cards.insert(coin.randint(1, len(cards)), decoy.card)
    shown = {example.row for decoy in found for example in decoy.card.examples}
    unshown = [replace(card, flips=tuple(f for f in card.flips if f.row not in shown)) for card in cards]
    return replace(deck, cards=tuple(unshown)), tuple(found)


def _commonest(candidates: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(candidates, key=lambda candidate: (-candidate["n_present"], candidate["text"]))


def _made(
    candidates: Sequence[Mapping[str, Any]], texts: Sequence[FlipText], deck: Deck, askable: Askable
) -> Iterator[DeckCard]:
    """A card for each candidate that stands in texts at hand; masking it leaves their answers as they are."""
    for candidate in candidates:
        finder = WordFinder([candidate["text"]])
        sides = ((one, (one.text,) if isinstance(one.text, str) else one.text) for one in texts)
        holding = [one for one, parts in sides if any(finder.present(part) for part in parts)]
        spare = list(islice((one for one in holding if askable.shown(one.row)), MOST_EXAMPLES))
        if spare:
            shown = [shown_text(finder, replace(one, after=one.before)) for one in spare]
            yield DeckCard(
                id=hashlib.sha256(f"{deck.audited.id} {candidate['text']}".encode()).hexdigest()[:12],
                words=(candidate["text"],),
                names=(visible_name(candidate["text"]),),
                pulls_to=candidate["pulls_to"],
                texts=candidate["n_present"],
                changes=0,
                share=0.0,
                moved=(),
                patterns=patterns_of(finder, [one.text for one in holding]),
                examples=tuple(shown),
                evidence=("The audit does not flag it.", *too_few(0, 0)),
                effects=effects_of(0, (), (), all_taken=False),
            )
