"""The cards of an audit as they stand in its folder, for commands that go on from there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ..audit import Card
from ..data import checked, enumerated, json_content
from ..errors import ConfigError, DataError
from ..text import spaced, visible_name

AUDIT_FILE = "audit.json"


@dataclass(frozen=True)
class AuditedCard:
    """A card as an audit lists it.

    Attributes:
        id: Tells the card.
        words: Its words, that on which most answers hang first.
        pulls_to: The class that they pull to.
        texts: Distinct texts that hold any of them.
        changes: Of these, texts whose answer changes when all of them are masked.
        except_in: Phrases in which they are not masked, since these stand on another card.
        flagged: Whether the audit flags one of the words by itself.
    """

    id: str
    words: tuple[str, ...]
    pulls_to: str
    texts: int
    changes: int
    except_in: tuple[str, ...]
    flagged: bool


class _Document(TypedDict):
    cards: tuple[Card, ...]
    model: str
    data: str


@dataclass(frozen=True)
class AuditedCards:
    """The cards of one audit, and what it was made on.

    Attributes:
        id: Hash of the model, the settings and the cards.
        model: Fingerprint of the audited model.
        data: Fingerprint of the audited texts.
        cards: Most changeable answers first.
    """

    id: str
    model: str
    data: str
    cards: tuple[AuditedCard, ...]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The audit") -> AuditedCards:
        """The cards of an audit as `AuditReport.to_dict` gives it.

        Raises:
            DataError: It has none, as audits of earlier versions.
        """
        if "cards" not in document or not document.get("model"):
            raise DataError(f"{source} has no cards: it was written by an earlier version. Audit again.")
        found = checked(document, _Document, source, advice="Audit again.", open_ended=True, null_is_nan=True)
        cards = tuple(
            AuditedCard(
                card.id,
                card.words,
                card.pulls_to,
                card.texts,
                card.changes,
                card.except_in,
                card.evidence.status == "flagged",
            )
            for card in found["cards"]
        )
        settings = {key: document.get(key) for key in ("unit", "top_k", "fdr", "min_relative_effect")}
        content = json.dumps([document["model"], settings, [card.id for card in cards]], sort_keys=True)
        identity = hashlib.sha256(content.encode()).hexdigest()
        return cls(identity, document["model"], document["data"], cards)

    @classmethod
    def from_folder(cls, folder: Path) -> AuditedCards:
        """The cards in a folder that `audit` wrote.

        Raises:
            DataError: There is no audit, or it cannot be read.
        """
        file = folder / AUDIT_FILE
        if not file.is_file():
            raise DataError(f"'{folder}' is no folder that `audit` wrote: it has no {AUDIT_FILE}.")
        document = json_content(file, advice="Audit again.")
        if not isinstance(document, dict):
            raise DataError(f"'{file}' is no audit. Audit again.")
        return cls.from_dict(document, source=f"'{file}'")

    def chosen(self, which: str) -> tuple[AuditedCard, ...]:
        """Some of the cards.

        Args:
            which: `all`; `undecided`, which the audit does not flag; or words and ids with commas between. Of an id
                its beginning does.

        Raises:
            ConfigError: A word or id is unknown, or means several cards.
        """
        if which == "all":
            return self.cards
        if which == "undecided":
            return tuple(card for card in self.cards if not card.flagged)
        return tuple(dict.fromkeys(self._meant(part.strip()) for part in which.split(",") if part.strip()))

    def _meant(self, name: str) -> AuditedCard:
        """The card that a word stands on, or whose id begins so."""
        key = spaced(name)
        found = [
            card
            for card in self.cards
            if card.id.startswith(name.lower()) or name in card.words or (key and key in map(spaced, card.words))
        ]
        if len(found) == 1:
            return found[0]
        some = enumerated([f"{card.id} ({visible_name(card.words[0])})" for card in (found or self.cards)[:10]])
        if found:
            raise ConfigError(f"--cards '{name}' means {len(found)} cards of the audit: {some}. Give an id.")
        raise ConfigError(
            f"--cards '{name}': no card of the audit has this word or id. Give all, undecided, words or ids, such as "
            f"{some}."
        )


def check_audited(audited: AuditedCards, *, model: str, data: str) -> None:
    """Refuse another model or other texts than those of the audit.

    Raises:
        ConfigError: The sentence says which of them.
    """
    if audited.model != model:
        raise ConfigError("The audit is of another model. Give the model that was audited, or audit this one.")
    if audited.data != data:
        raise ConfigError("The audit is of other texts. Give the file that was audited, or audit this one.")
