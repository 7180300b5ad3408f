"""One person's review and the file that it is kept in: every answer is on the disk before it is confirmed.

The file is the `decisions.json` of `judge`; what was said stands in it under `review`, so that the next review goes on
from there. Other programs may change the file meanwhile: what they say is taken up and nothing is overwritten unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NotRequired

from filelock import FileLock, Timeout
from typing_extensions import TypedDict

from ..data import Count, checked, json_content, to_json, write_file
from ..decisions import Answer, Answers, Decision, Decisions, agreed_decision
from ..errors import ConfigError, DataError
from .rules import Record, Rules, asked, latest

BY_FILE = "file"
"""Who said what a file says without naming anybody."""


_ADVICE = "Remove 'review' to keep the decisions alone."


class _Review(TypedDict):
    """What a file of decisions keeps of a review."""

    schema_version: NotRequired[Literal[1]]
    revision: NotRequired[Count]
    seed: NotRequired[Count | None]
    events: tuple[Any, ...]
    before: NotRequired[Any]


class StaleError(Exception):
    """An answer was given to an older revision: somebody else answered meanwhile, and nothing was saved."""


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep every other review away from a file of decisions.

    Raises:
        ConfigError: A review has it open.
    """
    lock = FileLock(file.with_name(f"{file.name}.lock"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except OSError as error:
        # Where no file can be made, the lock may say that somebody holds it.
        if isinstance(error, Timeout) and Path(lock.lock_file).exists():
            raise ConfigError(
                f"Another review has '{file}' open. Go on there, stop it with Ctrl-C, or name another file with --out."
            ) from error
        why = error.strerror or "no file can be made there"
        raise ConfigError(f"'{file}' cannot be written ({why}). Name another file with --out.") from error
    try:
        yield
    finally:
        lock.release()


def seed_of(file: Path) -> int | None:
    """The seed that a review in this file was begun with; `None` where there is no review."""
    review = _read(file)[1] if file.exists() else None
    return review.get("seed") if review else None


def _read(file: Path) -> tuple[Decisions, Mapping[str, Any] | None]:
    decisions = Decisions.from_file(file)
    review = json_content(file, advice=_ADVICE).get("review")
    if review is None:
        return decisions, None
    return decisions, checked(review, _Review, str(file), path="review", advice=_ADVICE, open_ended=True)


class Session:
    """A review by one person. Threads may share it.

    Args:
        rules: What is asked.
        file: The decisions; what it holds already is gone on from.
        by: The person.

    Raises:
        ConfigError: The file is of another audit.
        DataError: The file cannot be read.
    """

    def __init__(self, rules: Rules, file: Path, by: str) -> None:
        self.rules, self.file, self.by = rules, file, by
        self.record, self.notice = Record(), ""
        self._lock = RLock()
        self._written: bytes | None = None
        self._take_up()
        self.notice = ""  # at the start all of it is as expected

    # Answers

    def save(self, values: Mapping[str, Any], revision: int) -> None:
        """Take an answer, and return once it is on the disk.

        Args:
            values: A `card` with a `decision`, or a `question` with an `answer`.
            revision: The one that the person has seen.

        Raises:
            StaleError: There is a newer one.
            DataError: It is no answer, or to nothing that was asked, or another program damaged the file.
            RunError: The disk is full, or the like.
        """
        event = Answer.from_dict({**values, "by": self.by, "at": _now()}, "What was sent")
        if not self.rules.knows(event):
            raise DataError("What was sent answers nothing that this review asks. Load the page again.")
        with self._lock:
            self._check(revision)
            self._write(self.record.with_events([*self.record.events, event]))

    def undo(self, revision: int) -> None:
        """Take the person's last answer back; see `save`."""
        with self._lock:
            self._check(revision)
            self._write(self.record.with_events(Answers(self.record.events).without_last(self.by).said))

    def _check(self, revision: int) -> None:
        self._take_up()
        if revision != self.record.revision:
            raise StaleError

    def _write(self, record: Record) -> None:
        content = to_json(self.rules.stored(record, at=_now())).encode("utf-8", "backslashreplace")
        write_file(self.file, content, overwrite=True)
        self._written, self.record = content, record

    # What other programs write

    def _take_up(self) -> None:
        """Take up what stands in the file and is not ours."""
        content = self.file.read_bytes() if self.file.exists() else None
        if content is None or content == self._written:
            return
        found, review = _read(self.file)
        audit = self.rules.deck.audited.id
        if found.audit not in (None, audit):
            raise ConfigError(
                f"'{self.file}' has the decisions of another audit. Name another file with --out, or remove it."
            )
        started = self.record.revision == 0 and not self.record.events
        record = _with_review(self.record, review or {}, str(self.file))
        record, changed = _with_cards(record, found.cards, self.rules)
        if found.judges:
            record = replace(record, judges=found.judges, answers=found.answers)
        if not started and record != self.record:
            record = replace(record, revision=max(record.revision, self.record.revision) + 1)
        if changed and not started:
            self.notice = (
                f"Another program changed {self.file.name}: what it says of {', '.join(changed)} was taken up."
            )
        self.record, self._written = record, content

    # What the person is shown

    def state(self) -> dict[str, Any]:
        """Where the person stands, JSON-ready: what they said, what is asked next, and at the end what came of it."""
        with self._lock:
            record, rules = self.record, self.rules
            said = {about: of[self.by].said for about, of in latest(record.events).items() if self.by in of}
            cards = {card.id: said[card.id] for card in rules.deck.cards if card.id in said}
            question = rules.next_question(record, self.by)
            done = len(cards) == len(rules.deck.cards) and question is None
            return {
                "revision": record.revision,
                "by": self.by,
                "said": cards,
                "follows": {card: asdict(one) for card, one in rules.follows(record, self.by).items()},
                "opinions": {card: text for card in cards if (text := second_opinion(record.before.get(card)))},
                "question": None if question is None else asked(question),
                "progress": rules.progress(record, self.by),
                "can_undo": any(event.by == self.by for event in record.events),
                "notice": self.notice,
                "end": self._end() if done else None,
            }

    def _end(self) -> dict[str, Any]:
        record, rules = self.record, self.rules
        said = latest(record.events)
        decided = {one.id: one.decision or "unsure" for one in rules.decisions(record).cards}
        rows: list[dict[str, Any]] = []
        for card in rules.cards:
            people = {by: event.said for by, event in said.get(card.id, {}).items()}
            rows.append({"id": card.id, "decision": decided[card.id], "people": people})
        both = [set(row["people"].values()) for row in rows if len(row["people"]) > 1]
        return {
            "cards": rows,
            "both": len(both),
            "agree": sum(len(answers) == 1 for answers in both),
            "differ": sum(len(answers - {"unsure"}) > 1 for answers in both),
            "file": str(self.file),
            "next": next_command(self.file),
        }

    def content(self) -> bytes:
        """The file as it would be written now."""
        with self._lock:
            return to_json(self.rules.stored(self.record, at=_now())).encode("utf-8", "backslashreplace")


def next_command(file: Path) -> str:
    """What to do with the decisions."""
    return f"shortcut-guardrail fit MODEL DATA --decisions {file} --out guarded"


def second_opinion(card: Decision | None) -> str:
    """What a machine said of a card's flips, in a few words; empty where none was asked."""
    if card is not None and card.second_opinion is not None:
        return f"{card.second_opinion.sentence}, {card.second_opinion.outcome}"
    if card is None or not card.machine:
        return ""
    return f"{card.machine}: {card.mended} mended, {card.broken} broken by masking"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _with_review(record: Record, review: Mapping[str, Any], source: str) -> Record:
    """With the answers that stand in a file, each once."""
    given = review.get("events", [])
    events = [Answer.from_dict(one, source, f"review.events[{i}]") for i, one in enumerate(given)]
    new = [event for event in events if event not in record.events]
    before = Decisions.from_dict({"cards": review.get("before") or []}, source=f"{source}: review.before").cards
    return replace(
        record,
        events=(*record.events, *new),
        revision=max(record.revision, review.get("revision", 0)),
        before={card.id: card for card in before} | dict(record.before),
    )


def _with_cards(record: Record, cards: Sequence[Decision], rules: Rules) -> tuple[Record, list[str]]:
    """With what cards of a file say beyond the answers, and the words of those that say something new."""
    known = {card.id: card for card in rules.cards}
    by_words = {frozenset(map(str.casefold, card.words)): card.id for card in rules.cards}
    ours = {card.id: card for card in rules.decisions(record).cards}
    events, before, others, changed = list(record.events), dict(record.before), [], []
    for card in cards:
        identity = card.id if card.id in known else by_words.get(frozenset(map(str.casefold, card.words)), "")
        if not identity:
            others.append(card)
            continue
        own = ours.get(identity)
        if card.by_person and (own is None or own.decision != card.decision):
            events += _said_by_file(card, identity, events)
            changed.append(f"“{card.words[0]}”")
        kept = before.get(identity)
        if kept is None and (card.asked or card.machine or card.second_opinion) and (own is None or not own.asked):
            plain = replace(card, id=identity, words=known[identity].words, pulls_to=known[identity].pulls_to)
            before[identity] = (plain if not card.by_person else replace(plain, reviews=())).without_people()
            changed.append(f"“{card.words[0]}”")
        elif card.second_opinion and card.second_opinion != (kept or own or card).second_opinion:
            plain = kept or replace(card, asked=0, mended=0, broken=0, outcome=None, reviews=(), text_hashes=())
            before[identity] = replace(plain, second_opinion=card.second_opinion).without_people()
            changed.append(f"“{card.words[0]}”")
    return replace(record, events=tuple(events), before=before, others=tuple(others)), list(dict.fromkeys(changed))


def _said_by_file(card: Decision, identity: str, events: Sequence[Answer]) -> list[Answer]:
    """The answers behind a card's decision: those of its reviewers, or else the file's own."""
    told = [Answer(review.by, review.at, review.decision, card=identity) for review in card.reviews]
    new = [event for event in told if event not in events]
    if new and agreed_decision([event.said for event in told]) == (
        None if card.decision == "unsure" else card.decision
    ):
        return new
    return [Answer(BY_FILE, _now(), card.decision or "unsure", card=identity)]
