"""A word group (`Card`): words that push towards one class. A prediction change (`Flip`): a text that they decide.

Changes are counted with the words masked, before and after, that are already treated as shortcuts. The results are
plain and frozen; `grouping` groups words, and `masking` masks them.
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
    """What the audit says about the words of a group.

    Attributes:
        status: The strongest of its words: `flagged`, `undecided` or `not_flagged`; see `Candidate`.
        flagged: Its flagged words, in the group's order.
        q_value: The smallest of its words; 1 if none was tested.
        relative_effect: Take a text with any of the words and one without, with all words masked: the share of such
            pairs in which the rest of the first supports the class less. A half is chance; NaN if every text has one.
            The words were grouped on the same texts, so it is no test.
    """

    status: Status
    flagged: tuple[str, ...]
    q_value: Share
    relative_effect: Share


@dataclass(frozen=True)
class Moved:
    """In how many distinct texts the prediction changes from one class to another with a group's words masked."""

    before: str
    after: str
    texts: Count


@dataclass(frozen=True)
class Flip:
    """A prediction change: a text whose prediction changes when all words of a group are masked.

    Words that are already treated as shortcuts are masked before and after.

    Attributes:
        row: Which of the audited texts it is, from 0.
        before: The prediction with only those shortcuts masked.
        after: The prediction with the group's words masked too.
        text_hash: Identifies the text; empty in an audit that was written without hashes.
        text: The text, unmasked; `None` in an audit that was written without texts.
        margin: By how much `after` is ahead of `before` with the words masked, in log-probability; `None` if not kept.
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
        """From a text or a pair."""
        first, second = (text, None) if isinstance(text, str) else text
        return cls(row, before, after, text_hash(text), first, second, margin)

    @property
    def content(self) -> Text | None:
        """The text, or both texts of a pair; `None` if it is not known."""
        return self.text if self.text is None or self.text_pair is None else (self.text, self.text_pair)


@dataclass(frozen=True)
class Card:
    """A word group: words that push towards one class. It is a question to a person, not a verdict.

    Attributes:
        id: See `card_id`.
        words: Its words and phrases, the one that most predictions depend on first.
        texts: Distinct texts with any of the words; near-identical texts count once.
        changes: Of these, texts whose prediction changes when all the words are masked at once, with the flagged words
            of other groups masked before and after.
        share: `changes` among all distinct texts, in [0, 1].
        except_in: Phrases of other groups that contain one of its words. There the word belongs to the phrase: it is
            not masked, and does not count.
        moved: `changes` by class, the most frequent first.
        flips: A random sample of the prediction changes, at most `masking.MOST_FLIPS`: those with the smallest hashes.
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
