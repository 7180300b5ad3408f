"""The word groups of an audit, in memory or in its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..audit import AuditReport, Candidate, Erasures, audit_content
from ..cards import Card, is_of_function
from ..data import Count, checked, enumerated
from ..errors import ConfigError, DataError
from ..text import spaced, visible_name
from ..typing import Erasure

AUDIT_FILE = "audit.json"


@dataclass(frozen=True)
class _Candidate:
    text: str
    flagged: bool = False
    alternative_wording: bool = False
    collective: bool = False
    found = Candidate.found


@dataclass(frozen=True)
class _Audit:
    """What a file says of an audit."""

    cards: tuple[Card, ...]
    model: str
    data: str
    label_names: tuple[str, ...]
    n_distinct: Count
    unit: Any = None
    top_k: Any = None
    fdr: Any = None
    min_relative_effect: Any = None
    candidates: tuple[_Candidate, ...] = ()
    erasures: Erasures | None = None


@dataclass(frozen=True)
class AuditedCards:
    """The word groups of one audit, with its model and texts.

    Attributes:
        id: Hash of the model, the settings and the word groups.
        model: Fingerprint of the audited model.
        data: Fingerprint of the audited texts.
        cards: The group that most predictions depend on first.
        found: Words that the audit treats as shortcuts (`Candidate.found`), in groups or not.
        erasure: How the audit took words out.
    """

    id: str
    model: str
    data: str
    labels: tuple[str, ...]
    n: int
    cards: tuple[Card, ...]
    found: tuple[str, ...] = ()
    erasure: Erasure = "mask"

    @classmethod
    def of(cls, audit: AuditReport) -> AuditedCards:
        """Those of an audit in memory."""
        erasure: Erasure = audit.erasures.chosen if audit.erasures else "mask"
        settings = {key: getattr(audit, key) for key in ("unit", "top_k", "fdr", "min_relative_effect")}
        settings |= {} if erasure == "mask" else {"erasure": erasure}
        content = json.dumps([audit.model, settings, [card.id for card in audit.cards]], sort_keys=True)
        identity = hashlib.sha256(content.encode()).hexdigest()
        found = tuple(word.text for word in audit.candidates if word.found)
        about = audit.model, audit.data, audit.label_names, audit.n_distinct
        return cls(identity, *about, audit.cards, found, erasure)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The audit") -> AuditedCards:
        """Those of an audit as `AuditReport.to_dict` gives it."""
        if not isinstance(document, Mapping) or "cards" not in document or not document.get("model"):
            raise DataError(f"{source} has no word groups. Audit again.")
        stored = checked(document, _Audit, source, advice="Audit again.", open_ended=True, null_is_nan=True)
        return cls.of(cast(AuditReport, stored))  # it has all that is read of a report

    @classmethod
    def from_folder(cls, folder: Path) -> AuditedCards:
        """Those in a folder that `audit` wrote."""
        file = folder / AUDIT_FILE
        if not file.is_file():
            raise DataError(f"'{folder}' is no folder that `audit` wrote: it has no {AUDIT_FILE}.")
        return cls.from_dict(audit_content(file, advice="Audit again."), source=f"'{file}'")

    def id_of(self, card: str, words: Iterable[str]) -> str:
        """The id of the group with this id, or else with exactly these words in any case; empty if there is none."""
        if any(one.id == card for one in self.cards):
            return card
        by_words = {frozenset(map(str.casefold, one.words)): one.id for one in self.cards}
        return by_words.get(frozenset(map(str.casefold, words)), "")

    def chosen(self, which: str) -> tuple[Card, ...]:
        """`all` word groups, the `undecided` ones, or those named by words and ids with commas between.

        The beginning of an id is enough. A group of function words or punctuation alone has to be named, unless it is
        flagged: a comma stands beside every unknown shortcut, and near the decision boundary any change matters.

        Raises:
            ConfigError: A word or id is unknown, or matches several groups.
        """
        if which in ("all", "undecided"):
            asked = (card for card in self.cards if card.flagged or not is_of_function(card.words))
            return tuple(card for card in asked if which == "all" or not card.flagged)
        return tuple(dict.fromkeys(self._meant(part.strip()) for part in which.split(",") if part.strip()))

    def _meant(self, name: str) -> Card:
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
            raise ConfigError(f"cards='{name}' means {len(found)} word groups of the audit: {some}. Give an id.")
        raise ConfigError(
            f"cards='{name}': no word group of the audit has this word or id. Give all, undecided, words or ids, such "
            f"as {some}."
        )

    def check(self, *, model: str, data: str) -> None:
        """Refuse another model or other texts than those of the audit."""
        if self.model != model:
            raise ConfigError(
                "The audit is of another model, or of this one read otherwise. Give that one, or audit this."
            )
        if self.data != data:
            raise ConfigError("The audit is of other texts, or of these in another order. Give those, or audit these.")
