"""What was decided about the cards of an audit, and the file `decisions.json` that says so.

Any program may write the file. Of a card `words` and `decision` are needed; the rest says where the decision came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from ..data import Count, NotEmpty, Share, Word, checked, json_content, to_json, write_file
from ..errors import ConfigError, DataError
from ..text import spaced, visible_name
from .people import FOLLOWS, Outcome

DECISIONS_SCHEMA_VERSION = 1
_ADVICE = "Give a file that `decide` wrote."

Rule = Literal["agreement", "reference"]
DecisionName = Literal["keep", "remove_reliance", "not_alone", "unsure"]
Source = Literal["person", "answers", "machine", "file"]


@dataclass(frozen=True)
class Qualification:
    """What is known of a judge for one pair of classes.

    Attributes:
        texts: Reference texts that it answered.
        agreement: How often it agrees with the deployed model, the mean of the model's two answers, in [0, 1].
        error: Its standard error.
        qualified: Whether it may judge: it agrees enough, with 95 % confidence.
        reason: Why not; empty where it is qualified.
    """

    pair: tuple[str, str]
    texts: Count
    agreement: Share | None
    error: float | None
    qualified: bool
    reason: str = ""


@dataclass(frozen=True)
class SecondModelResult:
    """What judges say of one card.

    Attributes:
        judges: The qualified ones, whose standardised scores were averaged.
        rule: By which it was tested: `agreement` or `reference`.
        fixed: Flips to which they give the masked answer, with the words and without.
        broken: All others.
        unanswered: Of these, flips without an answer.
        bound: The share of fixed flips that the rule allows where masking fixes no more than it breaks.
        rules: Bound and p-value by every rule that could be tried.
        q_value: The p-value, adjusted for all cards that were asked about, which weigh as their flips do.
        at_stake: How much accuracy masking the words would bring, from and to, as a share of the distinct texts
            audited; see `stats.net_fixed`. `None` where that cannot be told.
        outcome: `shortcut` or `open`; a machine never says `legitimate`.
        reason: Why it is open, in a sentence; empty for a shortcut.
    """

    judges: tuple[str, ...]
    rule: Rule
    fixed: Count
    broken: Count
    unanswered: Count
    bound: Share | None
    p_value: Share | None
    outcome: Literal["shortcut", "open"]
    reason: str = ""
    rules: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    q_value: Share | None = None
    at_stake: tuple[float, float] | None = None

    @property
    def sentence(self) -> str:
        """Who judged, the counts, the bound and the outcome: "gemma-3-270m, 72 : 16, agreement bound .68, shortcut"."""
        judges = ", ".join(visible_name(name) for name in self.judges)
        if not judges:
            return f"none is qualified, {self.outcome}"
        bound = "" if self.bound is None else f", {self.rule} bound {self.bound:.2f}".replace("0.", ".")
        return f"{judges}, {self.fixed} : {self.broken}{bound}, {self.outcome}"


@dataclass(frozen=True)
class Judge:
    """A classifier that was asked.

    Attributes:
        record: What its answers depend on: kind, fingerprint, prompts, versions, settings.
        qualifications: Whether it may judge, for each pair of classes.
    """

    name: str
    record: Mapping[str, Any]
    qualifications: tuple[Qualification, ...]
    texts: Count


@dataclass(frozen=True)
class Review:
    """What one person said of a card, and when (ISO 8601)."""

    by: str
    at: str
    decision: DecisionName


@dataclass(frozen=True)
class Decision:
    """What was decided about a card. From `asked` to `waiting` it says of judged flips what `people.Judged` does.

    Attributes:
        decision: `keep`: they should count. `remove_reliance`: they should not. `not_alone`: only together with the
            rest. `unsure`, or `None` where nobody answered or the answers leave it open: nothing follows.
        source: Who decided: a `person`, the `answers` that people judged, a `machine` that gave a second model, or a
            `file` that somebody wrote.
        outcome: `None` where no flip was judged.
        text_hashes: Of the judged texts, which can certify nothing any more.
        reviews: What each person said; for judged flips who answered, with what followed from all answers.
        second_model: What judges say that were asked, apart from what people say.
    """

    words: Annotated[tuple[Word, ...], NotEmpty()]
    decision: DecisionName | None = None
    source: Source | None = None
    id: str = ""
    pushes_towards: str | None = None
    asked: Count = 0
    fixed: Count = 0
    broken: Count = 0
    neither: Count = 0
    unclear: Count = 0
    e_value: float | None = None
    outcome: Outcome | None = None
    survives_e_bh: bool | None = None
    text_hashes: tuple[str, ...] = ()
    waiting: Count = 0
    reviews: tuple[Review, ...] = ()
    second_model: SecondModelResult | None = None

    @property
    def by_person(self) -> bool:
        """Whether somebody said it, which comes before what the flips say."""
        return self.decision is not None and self.source not in ("answers", "machine")

    @property
    def said(self) -> str:
        """What was decided, by whom and on what, in a line; what a machine says stands apart."""
        parts = []
        if self.by_person:
            parts.append(f"{self.decision} ({self.source})")
        elif self.asked:
            parts.append(f"answers: {self.fixed} : {self.broken}, {self.outcome or 'open'}")
        if self.second_model is not None:
            parts.append(f"second model: {self.second_model.sentence}")
        return "; ".join(parts) or "open"

    @property
    def machine_says_shortcut(self) -> bool:
        """Whether judges take the words for a shortcut."""
        return self.second_model is not None and self.second_model.outcome == "shortcut"

    def without_people(self) -> Decision:
        """What follows from the card's judged flips, or else from judges, whatever people said of the card itself."""
        if follows := FOLLOWS.get(self.outcome or "open"):
            return replace(self, decision=follows, source="answers")
        if self.machine_says_shortcut:
            return replace(self, decision="remove_reliance", source="machine")
        asked: Source | None = "answers" if self.asked else "machine" if self.second_model else None
        return replace(self, decision=None, source=asked)


@dataclass(frozen=True)
class Decisions:
    """What was decided about the cards of one audit.

    Attributes:
        cards: One for each card that somebody was asked about.
        audit: The audit's id; `None` for a file that names none, as for what follows.
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

    def without_text_hashes(self) -> Decisions:
        """The same without hashes of the judged texts: nobody can tell that one of them is used again."""
        return replace(self, cards=tuple(replace(card, text_hashes=()) for card in self.cards))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        # What nobody decided or measured is left out.
        cards = [{name: x for name, x in asdict(card).items() if x is not None} for card in self.cards]
        head = {"audit": self.audit, "model": self.model, "data": self.data, "cards": cards}
        judged = {"judges": [asdict(one) for one in self.judges], "answers": self.answers} if self.judges else {}
        return {"schema_version": DECISIONS_SCHEMA_VERSION, **head, **judged}

    def save(self, file: str | Path, *, answers: str = "", overwrite: bool = False) -> Decisions:
        """Write a file of decisions, and beside it the answers of classifiers that they rest on.

        At every instant the decisions that are there name the answers that they rest on. While others are there, new
        ones get a name of their own, and the old ones go last.

        Args:
            answers: See `Answers.to_lines`; empty where no classifier was asked.

        Returns:
            The decisions with the name of the file of answers.
        """
        file = Path(file)
        if not answers:
            write_file(file, to_json(self.to_dict()), overwrite=overwrite)
            return self
        plain = beside = answers_file(file)
        if plain.exists() and plain.read_text(encoding="utf-8") != answers:
            beside = plain.with_suffix(f".{sha256(answers.encode()).hexdigest()[:8]}.jsonl")
        write_file(beside, answers, overwrite=overwrite or beside != plain)
        named = replace(self, answers=beside.name)
        write_file(file, to_json(named.to_dict()), overwrite=overwrite)
        hashed = f"{escape(file.stem)}.answers.{'[0-9a-f]' * 8}.jsonl"  # no other file that is named alike is ours
        for old in (plain, *file.parent.glob(hashed)):
            if old != beside:
                old.unlink(missing_ok=True)
        return named

    @classmethod
    def from_dict(cls, document: Any, *, source: str = "The decisions") -> Decisions:
        """The decisions that a document of JSON holds, which messages call `source`.

        Raises:
            DataError: A field is missing or of another kind, a decision is unknown, or two cards contradict each other.
                The sentence names the field.
        """
        found: Decisions = checked(document, cls, source, advice=_ADVICE, open_ended=True)
        version = document.get("schema_version", DECISIONS_SCHEMA_VERSION)
        checked(version, Literal[1], source, path="schema_version", advice=_ADVICE)
        cards = tuple(
            replace(card, source="file") if card.decision and not card.source else card for card in found.cards
        )
        for i, card in enumerate(cards):
            _check_source(card, f"{source}: cards[{i}]")
        _check_contradictions(cards, source)
        return replace(found, cards=cards)

    @classmethod
    def from_file(cls, file: str | Path) -> Decisions:
        """The decisions in a file; see `from_dict`."""
        return cls.from_dict(json_content(Path(file), advice=_ADVICE), source=str(file))


def answers_file(decisions: Path) -> Path:
    """Where the answers of classifiers go that decisions rest on."""
    return decisions.with_name(f"{decisions.stem}.answers.jsonl")


def _check_source(card: Decision, where: str) -> None:
    """What follows from judged flips or a machine's opinion follows by their rules."""
    if card.source == "machine" and card.decision != ("remove_reliance" if card.machine_says_shortcut else None):
        raise DataError(
            f"{where}: a machine decides remove_reliance where its second_model is shortcut, and nothing else. A "
            "decision of your own has the source person or file."
        )
    expected = FOLLOWS.get(card.outcome or "open")
    if card.source == "answers" and card.decision != expected:
        raise DataError(
            f"{where}: by its answers the outcome is {card.outcome or 'open'}, so the decision must be "
            f"{expected or 'left out'}, but is {card.decision}. A decision of your own has the source person or file."
        )


def _check_contradictions(cards: Sequence[Decision], source: str) -> None:
    """The same word or phrase cannot be a shortcut and be kept by a person; a phrase and its words can."""
    said: dict[str, tuple[int, DecisionName]] = {}
    for i, card in enumerate(cards):
        if not card.by_person or card.decision == "unsure":
            continue
        assert card.decision is not None
        for word in card.words:
            first, before = said.setdefault(spaced(word), (i, card.decision))
            if (before == "remove_reliance") != (card.decision == "remove_reliance"):
                raise DataError(
                    f"{source}: cards[{first}] says {before} and cards[{i}] says {card.decision} about '{word}'. "
                    "Leave one of them."
                )


def made_for(decisions: Decisions, *, model: str, data: str, warn: Callable[[str], None]) -> bool:
    """Whether decisions were made on these texts, for which alone "legitimate" holds; `warn` is told where they were
    not.

    Raises:
        ConfigError: They were made for another model.
    """
    if decisions.model is not None and decisions.model != model:
        raise ConfigError(
            "The decisions were made for an audit of another model. Audit this model and decide about its word groups."
        )
    if decisions.data in (None, data):
        return True
    warn(
        "The decisions were made on other texts. Words that were decided to be shortcuts are shortcuts here too. "
        "Words that were decided to be legitimate are legitimate only in those texts, so the audit decides about them "
        "here."
    )
    return False
