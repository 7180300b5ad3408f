"""A card: a set of words taken together that pull to one class, as it is put before somebody.

Plain frozen results; how words are grouped is in `grouping`, what masking them does in `masked_sets`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from ..data import Count, Defined, NotEmpty, Share, UserText, Word
from .evidence import Status


@dataclass(frozen=True)
class CardEvidence:
    """What the audit says of the words of a card.

    Attributes:
        status: The strongest of its words: `flagged`, `undecided` or `not_flagged`; see `Candidate`.
        flagged: Its words that are flagged, in the card's order.
        q_value: The smallest of its words; 1 where none was tested.
        relative_effect: In how large a share of pairs of a text that holds any of the words and one that holds none the
            rest of the first, with all of them masked, speaks less for the class; a half is what chance gives, NaN
            where every text holds one. The texts are those that the words were grouped on, so it is no test.
    """

    status: Status
    flagged: tuple[str, ...]
    q_value: Share
    relative_effect: Share


@dataclass(frozen=True)
class Moved:
    """Answers that change from one class to another when the words of a card are masked.

    Attributes:
        before: The class that the model answers.
        after: The class that it answers with the words masked.
        texts: In how many distinct texts.
    """

    before: str
    after: str
    texts: Count


@dataclass(frozen=True)
class KeptFlip:
    """A text whose answer changes when the words of a card are masked, as an audit keeps it to be asked about.

    Attributes:
        row: Which of the audited texts it is, from 0.
        before: The class that the model answers.
        after: The class that it answers with the words masked.
        text_hash: Tells the text again; empty in an audit that was written without hashes.
        text: The text; `None` in an audit that was written without texts.
        text_pair: The second text, where texts are pairs.
    """

    row: Count
    before: str
    after: str
    text_hash: str
    text: UserText | None = None
    text_pair: UserText | None = None


@dataclass(frozen=True)
class Card:
    """A set of words that pull to one class: a question to a person, not a verdict.

    Attributes:
        id: See `card_id`.
        words: Its words and phrases, that on which most answers hang first.
        pulls_to: The class.
        texts: Distinct texts that hold any of the words, near-identical ones counted once.
        changes: Of these, texts whose answer changes when all the words are masked at once.
        share: `changes` among all distinct texts, in [0, 1].
        evidence: What the audit says of the words.
        except_in: Phrases of other cards that hold one of its words. There the word belongs to the phrase: it is not
            masked, and does not count.
        moved: `changes` by class, the most frequent first.
        flips: Texts whose answer changes, at most `masked_sets.MOST_FLIPS`, as if drawn at random: those with the
            smallest hashes, in that order.
    """

    id: Word
    words: Annotated[tuple[Word, ...], NotEmpty()]
    pulls_to: str
    texts: Count
    changes: Count
    share: Annotated[Share, Defined()]
    evidence: CardEvidence
    except_in: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()
    flips: tuple[KeptFlip, ...] = field(default=(), repr=False)


def card_id(words: Iterable[str], pulls_to: str) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the JSON array [sorted words, class], words case-folded.

    Neither the order nor the case of the words makes a difference. JSON as `json.dumps` writes it by default, in UTF-8.

    Example:
        >>> card_id(["this book", "Book"], "positive") == card_id(["book", "this book"], "positive")
        True
    """
    content = json.dumps([sorted({word.casefold() for word in words}), pulls_to])
    return hashlib.sha256(content.encode()).hexdigest()[:12]
