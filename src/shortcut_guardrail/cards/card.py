"""A card: a set of words taken together that push towards one class. A flip: a text whose prediction changes without
them.

What changes is counted given the words that are taken for shortcuts already: they are masked both before and after.
Plain frozen results; how words are grouped is in `grouping`, what masking them does in `masking`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from ..data import Count, Defined, NotEmpty, Share, Word, text_hash
from ..typing import Text

Status = Literal["flagged", "undecided", "not_flagged"]


@dataclass(frozen=True)
class CardEvidence:
    """What the audit says of the words of a card.

    Attributes:
        status: The strongest of its words: `flagged`, `undecided` or `not_flagged`; see `Candidate`.
        flagged: Its words that are flagged, in the card's order.
        q_value: The smallest of its words; 1 where none was tested.
        relative_effect: The share of pairs of a text that holds any of the words and one that holds none in which the
            rest of the first speaks less for the class, with all words masked, and flagged ones in both. A half is what
            chance gives, NaN where every text holds one. The texts are those that the words were grouped on, so it is
            no test.
    """

    status: Status
    flagged: tuple[str, ...]
    q_value: Share
    relative_effect: Share


@dataclass(frozen=True)
class Moved:
    """In how many distinct texts the prediction changes from one class to another with a card's words masked."""

    before: str
    after: str
    texts: Count


@dataclass(frozen=True)
class Flip:
    """A text whose prediction changes when the words of a card are masked, all at once.

    Words that are given, being taken for shortcuts already, are masked before and after. The text is as it was.

    Attributes:
        row: Which of the audited texts it is, from 0.
        before: The class that the model predicts with nothing but what is given masked.
        after: The class that it predicts with the card's words masked too.
        text_hash: Tells the text again; empty in an audit that was written without hashes.
        text: The text; `None` in an audit that was written without texts.
        margin: By how much `after` is ahead of `before` with the words masked, in log-probability; `None` where it was
            not kept.
    """

    row: Count
    before: str
    after: str
    text_hash: str = ""
    text: str | None = None
    text_pair: str | None = None
    margin: float | None = None

    @classmethod
    def of(cls, row: int, before: str, after: str, text: Text, margin: float | None = None) -> Flip:
        """From a text, or a pair."""
        first, second = (text, None) if isinstance(text, str) else text
        return cls(row, before, after, text_hash(text), first, second, margin)

    @property
    def content(self) -> Text | None:
        """The text, or both of a pair; `None` where it is not known."""
        return self.text if self.text is None or self.text_pair is None else (self.text, self.text_pair)


@dataclass(frozen=True)
class Card:
    """A set of words that push towards one class: a question to a person, not a verdict.

    Attributes:
        id: See `card_id`.
        words: Its words and phrases, that on which most predictions depend first.
        texts: Distinct texts that hold any of the words, near-identical ones counted once.
        changes: Of these, texts whose prediction changes when all the words are masked at once, given the words of
            other cards that the audit flags.
        share: `changes` among all distinct texts, in [0, 1].
        except_in: Phrases of other cards that hold one of its words. There the word belongs to the phrase: it is not
            masked, and does not count.
        moved: `changes` by class, the most frequent first.
        flips: Texts whose prediction changes, at most `masking.MOST_FLIPS`, as if drawn at random: those with the
            smallest hashes, in that order.
    """

    id: Word
    words: Annotated[tuple[Word, ...], NotEmpty()]
    pushes_towards: str
    texts: Count
    changes: Count
    share: Annotated[Share, Defined()]
    evidence: CardEvidence
    except_in: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()
    flips: tuple[Flip, ...] = field(default=(), repr=False)

    @property
    def flagged(self) -> bool:
        """Whether the audit flags one of the words by itself."""
        return self.evidence.status == "flagged"


def card_id(words: Iterable[str], pushes_towards: str) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the JSON array [sorted words, class], words case-folded.

    Neither the order nor the case of the words makes a difference. JSON as `json.dumps` writes it by default, in UTF-8.

    Example:
        >>> card_id(["this book", "Book"], "positive") == card_id(["book", "this book"], "positive")
        True
    """
    content = json.dumps([sorted({word.casefold() for word in words}), pushes_towards])
    return hashlib.sha256(content.encode()).hexdigest()[:12]
