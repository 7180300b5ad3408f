"""What was decided about the cards of an audit, and the file `decisions.json` that says so.

Any program may write the file. Of a card `words` and `decision` are needed; the rest says where the decision came from.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from ..data import enumerated, kind_of, read_utf8
from ..errors import ConfigError, DataError
from ..text import spaced
from .opinion_record import Judge, MachineOpinion, read_judges, read_opinion

DECISIONS_SCHEMA_VERSION = 1

DecisionName = Literal["keep", "neutralise", "not_alone", "unsure"]
Source = Literal["person", "flips", "machine", "file"]

_NAMES: tuple[str, ...] = get_args(DecisionName)
_SOURCES: tuple[str, ...] = get_args(Source)
_OUTCOMES = ("shortcut", "genuine", "open")
FOLLOWS: dict[str, DecisionName] = {"shortcut": "neutralise", "genuine": "keep"}
"""What follows from the outcome of judged flips."""


@dataclass(frozen=True)
class Review:
    """What one person said of a card.

    Attributes:
        by: Who.
        at: When, ISO 8601.
        decision: What.
    """

    by: str
    at: str
    decision: DecisionName


@dataclass(frozen=True)
class Decision:
    """What was decided about a card.

    Attributes:
        words: The card's words.
        decision: `keep`: they should count. `neutralise`: they should not. `not_alone`: they may count, but not decide
            alone. `unsure`, or `None` where nobody answered or the answers leave it open: nothing follows.
        source: Who decided: a `person`, the `flips` that people judged, a `machine` that gave a second opinion, or a
            `file` that somebody wrote.
        id: The card's.
        pulls_to: The class that the words pull to.
        asked: See `Judged`, for this and what follows.
        mended: Judged flips that masking mends.
        broken: Judged flips that masking breaks.
        neither: Flips of which neither answer is right.
        unclear: Flips that could not be judged.
        threshold: The e-value that decides.
        e_value: Evidence for the outcome.
        outcome: `shortcut`, `genuine` or `open`; `None` where no flip was judged.
        survives_e_bh: Whether it stands among all cards asked.
        text_hashes: Of the judged texts, which can certify nothing any more.
        reviews: What each person said; for judged flips who answered, with what followed from all answers.
        machine: The model whose answers stand in a file of questions; they are kept and decide nothing, since nobody
            knows whether it is fit.
        second_opinion: What second models say that were asked, apart from what people say.
    """

    words: tuple[str, ...]
    decision: DecisionName | None = None
    source: Source | None = None
    id: str = ""
    pulls_to: str | None = None
    asked: int = 0
    mended: int = 0
    broken: int = 0
    neither: int = 0
    unclear: int = 0
    threshold: float | None = None
    e_value: float | None = None
    outcome: Literal["shortcut", "genuine", "open"] | None = None
    survives_e_bh: bool | None = None
    text_hashes: tuple[str, ...] = ()
    reviews: tuple[Review, ...] = ()
    machine: str | None = None
    second_opinion: MachineOpinion | None = None

    @property
    def by_person(self) -> bool:
        """Whether somebody said it, which comes before what the flips say."""
        return self.decision is not None and self.source not in ("flips", "machine")

    @property
    def said(self) -> str:
        """What was decided, by whom and on what, in a line; what a machine says stands apart."""
        parts = []
        if self.by_person:
            parts.append(f"{self.decision} ({self.source})")
        elif self.asked:
            outcome = "open" if self.machine or not self.outcome else self.outcome
            parts.append(f"judged flips: {self.mended} : {self.broken}, {outcome}")
        if self.second_opinion is not None:
            parts.append(f"second opinion: {self.second_opinion.sentence}, {self.second_opinion.outcome}")
        return "; ".join(parts) or "open"

    @property
    def machine_says_shortcut(self) -> bool:
        """Whether a second opinion takes the words for a shortcut."""
        return self.second_opinion is not None and self.second_opinion.outcome == "shortcut"


@dataclass(frozen=True)
class Decisions:
    """What was decided about the cards of one audit.

    Attributes:
        cards: One for each card that somebody was asked about.
        audit: The audit's id; `None` for a file that names none.
        model: Fingerprint of the audited model; `None` for a file that names none.
        data: Fingerprint of the audited texts; `None` for a file that names none.
        judges: Second models that were asked.
        answers: The file beside this one that has their answers.
    """

    cards: tuple[Decision, ...]
    audit: str | None = None
    model: str | None = None
    data: str | None = None
    judges: tuple[Judge, ...] = ()
    answers: str | None = None

    @property
    def text_hashes(self) -> tuple[str, ...]:
        """Of all texts that were judged, each once, sorted."""
        return tuple(sorted({one for card in self.cards for one in card.text_hashes}))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        document: dict[str, Any] = {
            "schema_version": DECISIONS_SCHEMA_VERSION,
            "audit": self.audit,
            "model": self.model,
        }
        document |= {"data": self.data, "cards": [_stored(card) for card in self.cards]}
        if self.judges:
            document |= {
                "second_opinions": [asdict(one) for one in self.judges],
                "second_opinion_answers": self.answers,
            }
        return document

    @classmethod
    def from_dict(cls, document: Any, *, source: str = "The decisions") -> Decisions:
        """The decisions that a file holds.

        Args:
            document: What was read from JSON.
            source: What to call the file in messages.

        Raises:
            DataError: A field is missing or of another kind, a decision is unknown, or two cards contradict each other.
                The sentence names the field.
        """
        if not isinstance(document, dict) or not isinstance(document.get("cards"), list):
            raise DataError(f"{source}: an object with a list 'cards' is needed. Give a file that `judge` wrote.")
        version = document.get("schema_version", DECISIONS_SCHEMA_VERSION)
        if version != DECISIONS_SCHEMA_VERSION:
            raise DataError(
                f"{source}: schema_version is {version!r}, but this version reads {DECISIONS_SCHEMA_VERSION}. "
                "Judge again, or update the library."
            )
        named = {}
        for key in ("audit", "model", "data"):
            named[key] = _optional(document.get(key), str, f"{source}: {key}")
        cards = tuple(_card(values, f"{source}: cards[{i}]") for i, values in enumerate(document["cards"]))
        _check_contradictions(cards, source)
        named["answers"] = _optional(document.get("second_opinion_answers"), str, f"{source}: second_opinion_answers")
        return cls(cards, **named, judges=read_judges(document.get("second_opinions", []), source))

    @classmethod
    def from_file(cls, file: str | Path) -> Decisions:
        """The decisions in a file; see `from_dict`.

        Raises:
            DataError: The file cannot be read, or holds none.
        """
        content = read_utf8(Path(file), str(file))
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as error:
            where = (
                f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            )
            raise DataError(f"'{file}' is not valid JSON ({where}). Give a file that `judge` wrote.") from error
        return cls.from_dict(document, source=str(file))


def _stored(card: Decision) -> dict[str, Any]:
    """By the keys of files; what nobody decided or measured is left out."""
    values = asdict(card)
    order = ["id", "words", "pulls_to", "decision", "source"]
    ordered = {name: values[name] for name in order} | values
    return {name: value for name, value in ordered.items() if value is not None}


def _card(values: Any, where: str) -> Decision:
    if not isinstance(values, dict):
        raise DataError(f"{where} must be an object, but is {kind_of(values)}.")
    known = {f.name for f in fields(Decision)}
    given = {name: value for name, value in values.items() if name in known}
    words = given.get("words")
    if not isinstance(words, list) or not words or not all(isinstance(w, str) and spaced(w) for w in words):
        raise DataError(f"{where}.words must be a list of words or phrases, but is {_shown(words)}.")
    given["words"] = tuple(words)
    for name in ("asked", "mended", "broken", "neither", "unclear"):
        if name in given:
            _check(
                isinstance(given[name], int) and not isinstance(given[name], bool) and given[name] >= 0,
                f"{where}.{name} must be a whole number, 0 or more, but is {_shown(given[name])}.",
            )
    for name in ("threshold", "e_value"):
        _optional(given.get(name), (int, float), f"{where}.{name}")
    for name, kind in (("id", str), ("pulls_to", str), ("survives_e_bh", bool), ("machine", str)):
        _optional(given.get(name), kind, f"{where}.{name}")
    given["id"] = given.get("id") or ""
    given["decision"] = _one_of(given.get("decision"), _NAMES, f"{where}.decision")
    given["outcome"] = _one_of(given.get("outcome"), _OUTCOMES, f"{where}.outcome")
    given["source"] = _one_of(given.get("source"), _SOURCES, f"{where}.source") or (
        "file" if given["decision"] else None
    )
    hashes = given.get("text_hashes", [])
    _check(
        isinstance(hashes, list) and all(isinstance(h, str) for h in hashes),
        f"{where}.text_hashes must be a list of strings.",
    )
    given["text_hashes"] = tuple(hashes)
    reviews = given.get("reviews", [])
    _check(isinstance(reviews, list), f"{where}.reviews must be a list, but is {_shown(reviews)}.")
    given["reviews"] = tuple(_review(one, f"{where}.reviews[{i}]") for i, one in enumerate(reviews))
    given["second_opinion"] = read_opinion(given.get("second_opinion"), f"{where}.second_opinion")
    card = Decision(**given)
    if card.source == "machine":
        _check(
            card.decision == ("neutralise" if card.machine_says_shortcut else None),
            f"{where}: a machine decides neutralise where its second_opinion is shortcut, and nothing else. A decision "
            "of your own has the source person or file.",
        )
    expected = FOLLOWS.get(card.outcome or "open")
    if card.source == "flips" and card.decision != expected:
        raise DataError(
            f"{where}: by the flips the card is {card.outcome or 'open'}, so its decision must be "
            f"{expected or 'left out'}, but is {card.decision}. A decision of your own has the source person or file."
        )
    return card


def _review(values: Any, where: str) -> Review:
    if not isinstance(values, dict) or not all(isinstance(values.get(name), str) for name in ("by", "at", "decision")):
        raise DataError(f"{where} must be an object with the strings by, at and decision, but is {_shown(values)}.")
    decision = _one_of(values["decision"], _NAMES, f"{where}.decision")
    return Review(values["by"], values["at"], decision)


def _optional(value: Any, kind: type | tuple[type, ...], where: str) -> Any:
    wrong = value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool))
    _check(not wrong, f"{where} is {_shown(value)}, which is of another kind than it must be.")
    return value


def _one_of(value: Any, names: Sequence[str], where: str) -> Any:
    if value is None:
        return None
    if value not in names:
        close = difflib.get_close_matches(
            str(value).lower().replace("-", "_").replace(" ", "_"), names, n=1, cutoff=0.5
        )
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise DataError(f"{where} must be one of {enumerated(list(names))}, but is {_shown(value)}.{hint}")
    return value


def _check(condition: bool, sentence: str) -> None:
    if not condition:
        raise DataError(sentence)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float | bool) else kind_of(value)


def _check_contradictions(cards: Sequence[Decision], source: str) -> None:
    """The same word or phrase cannot be neutralised and kept by a person; a phrase and its words can."""
    said: dict[str, tuple[int, DecisionName]] = {}
    for i, card in enumerate(cards):
        if not card.by_person or card.decision == "unsure":
            continue
        assert card.decision is not None
        for word in card.words:
            first, before = said.setdefault(spaced(word), (i, card.decision))
            if (before == "neutralise") != (card.decision == "neutralise"):
                raise DataError(
                    f"{source}: cards[{first}] says {before} and cards[{i}] says {card.decision} about '{word}'. Leave "
                    "one of them."
                )


def made_for(decisions: Decisions, *, model: str, data: str, warn: Callable[[str], None]) -> bool:
    """Whether decisions were made on these texts, for which alone "genuine" holds.

    Args:
        decisions: What was decided.
        model: Fingerprint of the model at hand.
        data: Fingerprint of the texts at hand.
        warn: Told in a sentence that the texts are others.

    Raises:
        ConfigError: They were made for another model.
    """
    if decisions.model is not None and decisions.model != model:
        raise ConfigError(
            "The decisions were made for an audit of another model, of which other answers change. Audit this model "
            "and decide on its cards."
        )
    same = decisions.data is None or decisions.data == data
    if not same:
        warn(
            "The decisions were made on other texts. What the flips called a shortcut is neutralised here too; what "
            "they called genuine holds for their texts only and is left to the audit."
        )
    return same
