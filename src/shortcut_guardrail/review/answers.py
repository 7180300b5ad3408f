"""What people said in a review, one event after the other, and how it is kept in `decisions.json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from ..data import Word, checked
from ..decisions import Answer, DecisionName


class _ToCard(TypedDict):
    by: str
    at: str
    card: Word
    decision: DecisionName


class _ToQuestion(TypedDict):
    by: str
    at: str
    question: Word
    answer: Answer


@dataclass(frozen=True)
class Event:
    """One answer of one person, to a card or to a question about a text.

    Attributes:
        by: Who.
        at: When, ISO 8601.
        card: The card's id, or
        question: the question's.
        said: A decision on the card, or an answer to the question.
    """

    by: str
    at: str
    said: str
    card: str | None = None
    question: str | None = None

    @property
    def about(self) -> str:
        """What it answers."""
        return self.card or self.question or ""

    def to_dict(self) -> dict[str, str]:
        """As it is stored."""
        if self.card is not None:
            return {"by": self.by, "at": self.at, "card": self.card, "decision": self.said}
        return {"by": self.by, "at": self.at, "question": self.question or "", "answer": self.said}

    @classmethod
    def from_dict(cls, values: Any, source: str, path: str = "") -> Event:
        """One that was stored, or sent.

        Raises:
            DataError: It is none; the sentence names the field.
        """
        about, said = (
            ("question", "answer") if isinstance(values, dict) and "question" in values else ("card", "decision")
        )
        kind = _ToCard if about == "card" else _ToQuestion
        found = checked(values, kind, source, path=path, open_ended=True)
        return cls(found["by"], found["at"], found[said], **{about: found[about]})


def latest(events: Iterable[Event]) -> dict[str, dict[str, Event]]:
    """By what is answered and by who answered, the last word."""
    said: dict[str, dict[str, Event]] = {}
    for event in events:
        said.setdefault(event.about, {})[event.by] = event
    return said


def without_last(events: Sequence[Event], by: str) -> tuple[Event, ...]:
    """The events without the last of one person's; all of them if there is none."""
    last = max((i for i, event in enumerate(events) if event.by == by), default=len(events))
    return (*events[:last], *events[last + 1 :])
