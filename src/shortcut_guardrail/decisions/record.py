"""Decisions on the word groups of an audit, and their file `decisions.json`.

Any program may write the file. A word group needs `words` and `decision`; the rest says where the decision came from.
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
    """Whether a second model may decide between one pair of classes.

    Attributes:
        texts: Reference texts that it predicted.
        agreement: How often it agrees with the deployed model, averaged over the model's two predictions, in [0, 1].
        error: Its standard error.
        qualified: Whether it agrees often enough, with 95 % confidence.
        reason: Why not; empty if it is qualified.
    """

    pair: tuple[str, str]
    texts: Count
    agreement: Share | None
    error: float | None
    qualified: bool
    reason: str = ""


@dataclass(frozen=True)
class SecondModelResult:
    """What second models say about one word group.

    Attributes:
        judges: The qualified models, whose standardised scores were averaged.
        rule: How it was tested: `agreement` or `reference`.
        fixed: Prediction changes where they give the masked prediction, with the words and without.
        broken: All others.
        unanswered: Of these, texts without a prediction.
        bound: The largest share of `fixed` that the rule expects if masking fixes no more than it breaks.
        rules: Bound and p-value of every rule that could be tried.
        q_value: The p-value, adjusted for all word groups asked about, each weighted by its prediction changes.
        at_stake: The accuracy that masking the words would gain, from and to, as a share of the distinct texts audited;
            see `stats.net_fixed`. `None` if it is not known.
        outcome: `shortcut` or `open`; never `legitimate`.
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
        """The models, counts, bound and outcome: "gemma-3-270m, 72 : 16, agreement bound .68, shortcut"."""
        judges = ", ".join(visible_name(name) for name in self.judges)
        if not judges:
            return f"none is qualified, {self.outcome}"
        bound = "" if self.bound is None else f", {self.rule} bound {self.bound:.2f}".replace("0.", ".")
        return f"{judges}, {self.fixed} : {self.broken}{bound}, {self.outcome}"


@dataclass(frozen=True)
class Judge:
    """A second model that was asked.

    Attributes:
        record: What its predictions depend on: kind, fingerprint, prompts, versions, settings.
        qualifications: Whether it may decide, for each pair of classes.
    """

    name: str
    record: Mapping[str, Any]
    qualifications: tuple[Qualification, ...]
    texts: Count


@dataclass(frozen=True)
class Review:
    """One person's decision on a word group, and when (ISO 8601)."""

    by: str
    at: str
    decision: DecisionName


@dataclass(frozen=True)
class Decision:
    """The decision on a word group. The fields from `asked` to `waiting` are those of `people.Judged`.

    Attributes:
        decision: `keep`: the words should count. `remove_reliance`: they should not. `not_alone`: only together with
            the rest. `unsure`, or `None` without a decision: nothing follows.
        source: Origin of the decision: a `person`, the `answers` of people about texts, a `machine` (a second model),
            or a `file` that somebody wrote.
        outcome: `None` if no text was answered.
        text_hashes: Of the answered texts, which cannot be used for a certificate.
        reviews: What each person said; for answers about texts who answered, with what followed from all answers.
        second_model: What second models say, apart from what people say.
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
        """Whether a person decided it, which comes before the answers about texts."""
        return self.decision is not None and self.source not in ("answers", "machine")

    @property
    def said(self) -> str:
        """The decision, who made it and on what, in a line; a second model is named separately."""
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
        """Whether second models call the words a shortcut."""
        return self.second_model is not None and self.second_model.outcome == "shortcut"

    def without_people(self) -> Decision:
        """What follows from answers about texts, else from second models, without people's decisions on the group."""
        if follows := FOLLOWS.get(self.outcome or "open"):
            return replace(self, decision=follows, source="answers")
        if self.machine_says_shortcut:
            return replace(self, decision="remove_reliance", source="machine")
        asked: Source | None = "answers" if self.asked else "machine" if self.second_model else None
        return replace(self, decision=None, source=asked)


@dataclass(frozen=True)
class Decisions:
    """The decisions on the word groups of one audit.

    Attributes:
        cards: One for each word group that somebody was asked about.
        audit: The audit's id; `None` if the file does not name it, as for `model` and `data`.
        answers: The file beside this one that has the predictions of second models.
    """

    cards: tuple[Decision, ...]
    audit: str | None = None
    model: str | None = None
    data: str | None = None
    judges: tuple[Judge, ...] = ()
    answers: str | None = None

    @property
    def text_hashes(self) -> tuple[str, ...]:
        """Hashes of all texts that were answered, each once, sorted."""
        return tuple(sorted({one for card in self.cards for one in card.text_hashes}))

    def without_text_hashes(self) -> Decisions:
        """The same without hashes of texts: nobody can then see that one of them is used again."""
        return replace(self, cards=tuple(replace(card, text_hashes=()) for card in self.cards))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        # What nobody decided or measured is left out.
        cards = [{name: x for name, x in asdict(card).items() if x is not None} for card in self.cards]
        head = {"audit": self.audit, "model": self.model, "data": self.data, "cards": cards}
        judged = {"judges": [asdict(one) for one in self.judges], "answers": self.answers} if self.judges else {}
        return {"schema_version": DECISIONS_SCHEMA_VERSION, **head, **judged}

    def save(self, file: str | Path, *, answers: str = "", overwrite: bool = False) -> Decisions:
        """Write a file of decisions, and beside it the predictions of second models that they are based on.

        The decisions in the file always name an existing file of predictions. New predictions get a name of their own,
        and old ones are removed last.

        Args:
            answers: See `Answers.to_lines`; empty if no second model was asked.

        Returns:
            The decisions with the name of that file.
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
        """The decisions in a JSON document, which messages call `source`.

        Raises:
            DataError: A field is missing or of another type, a decision is unknown, or two word groups contradict each
                other. The sentence names the field.
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
    """Where the predictions of second models are written that decisions are based on."""
    return decisions.with_name(f"{decisions.stem}.answers.jsonl")


def _check_source(card: Decision, where: str) -> None:
    """Check that decisions from answers or a second model follow their rules."""
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
    """Whether decisions were made on these texts, for which alone "legitimate" holds; if not, `warn` is called.

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
