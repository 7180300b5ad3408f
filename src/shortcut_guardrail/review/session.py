"""One person's review and the file that it is kept in: every answer is on the disk before it is confirmed.

The file is the `decisions.json` of `decide`; what was said stands in it under `review`, so that the next review goes on
from there. Other programs may change the file meanwhile: what they say is taken up and nothing is overwritten unread.
Answers to texts are kept beside the audit too, where those of all reviews and files are one sequence.
What is asked next and what follows from answers is for `decisions` to say.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Any, Literal

from filelock import FileLock, Timeout

from ..data import Count, checked, json_content, to_json, write_file
from ..decisions import Answer, Answers, Decision, Decisions, Questions, agreed_decision, decide, now, remaining, sides
from ..errors import ConfigError, DataError
from .effects import follows
from .shown import Deck, fit_command

BY_FILE = "file"
"""Who said what a file says without naming anybody."""

_ADVICE = "Remove 'review' to keep the decisions alone."


@dataclass(frozen=True)
class _Review:
    """What a file of decisions keeps of a review, to go on from: what was said, and what others had said before."""

    schema_version: Literal[1] = 1
    revision: Count = 0
    seed: Count | None = None
    events: tuple[Answer, ...] = ()
    before: tuple[Decision, ...] = ()


class StaleError(Exception):
    """An answer was given to an older revision: somebody else answered meanwhile, and nothing was saved."""


def locked(file: Path) -> AbstractContextManager[Any]:
    """Keep every other review away from a file of decisions, until what is returned is left."""
    lock = FileLock(file.with_name(f"{file.name}.lock"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return lock.acquire(timeout=0)
    except OSError as error:
        # Where no file can be made, the lock may say that somebody holds it.
        if isinstance(error, Timeout) and Path(lock.lock_file).exists():
            raise ConfigError(
                f"Another review has '{file}' open. Go on there, stop it with Ctrl-C, or name another file with out=."
            ) from error
        why = error.strerror or "no file can be made there"
        raise ConfigError(f"'{file}' cannot be written ({why}). Name another file with out=.") from error


class Session:
    """A review by one person. Threads may share it.

    What the file of decisions holds already is gone on from, with the seed of the order in which it was begun.

    Args:
        folder: The audit's, where answers to texts are kept; `None` for an audit in memory.
    """

    def __init__(self, deck: Deck, file: Path, by: str, *, seed: int = 0, folder: Path | None = None) -> None:
        begun = _read(file)[1].seed if file.exists() else None
        self.deck, self.file, self.by, self.seed = deck, file, by, seed if begun is None else begun
        self.folder, self.kept = folder, Answers()
        keys = Questions.so_far(folder).keys if folder is not None else ()
        self.questions = Questions.of_audit(deck.audited, deck.flips, keys=keys, seed=self.seed)
        self.answers, self.revision, self.notice = Answers(), 0, ""
        self._lock = RLock()
        self._written: bytes | None = None
        self._take_up()

    # Answers

    def save(self, values: Mapping[str, Any], revision: int) -> None:
        """Take an answer (see `Answer`) of somebody who has seen a revision, and return once it is on the disk.

        Raises:
            StaleError: There is a newer one.
            DataError: It is no answer, or to nothing that was asked, or another program damaged the file.
            RunError: The disk is full, or the like.
        """
        given = {**values, "by": self.by, "at": now()}
        answer: Answer = checked(given, Answer, "What was sent", open_ended=True)
        asked = self.deck.shown if answer.card is not None else {question.id for question in self.questions.asked}
        if (answer.card or answer.question) not in asked:
            raise DataError("What was sent answers nothing that this review asks. Load the page again.")
        with self._lock:
            self._check(revision)
            self._write(replace(self.answers, said=(*self.answers.said, answer)))

    def undo(self, revision: int) -> None:
        """Take the person's last answer back; see `save`."""
        with self._lock:
            self._check(revision)
            said = list(self.answers.said)
            last = [i for i, answer in enumerate(said) if answer.by == self.by][-1:]
            self._write(replace(self.answers, said=tuple(answer for i, answer in enumerate(said) if i not in last)))

    def _check(self, revision: int) -> None:
        self._take_up()
        if revision != self.revision:
            raise StaleError

    def _write(self, answers: Answers) -> None:
        before, texts = self.kept, answers.to_texts()
        undone = {(one.by, one.question) for one in self.answers.to_texts()} - {(one.by, one.question) for one in texts}
        stay = tuple(one for one in before.said if (one.by, one.question) not in undone)
        self.kept = Answers(stay).and_more(Answers(tuple(texts)))
        content = self._stored(answers, self.revision + 1)
        if self.folder is not None and self.kept.said != before.said:
            self.kept.keep(self.folder)
        write_file(self.file, content, overwrite=True)
        self._written, self.answers, self.revision = content, answers, self.revision + 1

    def _stored(self, answers: Answers, revision: int) -> bytes:
        """The content of `decisions.json`: what `decide` writes, and under `review` what was said, to go on from."""
        before = Decisions(tuple(card for card in answers.earlier.cards if card.id in self.deck.shown))
        review = vars(_Review(revision=revision, seed=self.seed)) | {
            "events": [answer.to_dict() for answer in answers.said],
            "before": before.to_dict()["cards"],
        }
        document = decide(self.questions, self._all(answers), at=now()).to_dict() | {"review": review}
        return to_json(document).encode("utf-8", "backslashreplace")

    # What other programs write

    def _take_up(self) -> None:
        """Take up what stands in the file and is not ours, and what is kept beside the audit."""
        if self.folder is not None:
            self.kept = Answers.from_folder(self.folder)
        content = self.file.read_bytes() if self.file.exists() else None
        if content is None or content == self._written:
            return
        found, review = _read(self.file)
        if found.audit not in (None, self.deck.audited.id):
            raise ConfigError(
                f"'{self.file}' has the decisions of another audit. Name another file with out=, or remove it."
            )
        ours, started = self.answers, self.revision == 0 and not self.answers.said
        self.answers, changed = self._with_cards(_with_review(ours, review), found)
        known, now = max(self.revision, review.revision), (self.answers.said, self.answers.earlier)
        is_new = not started and (known != self.revision or now != (ours.said, ours.earlier))
        self.revision = known + is_new
        if changed and not started:
            self.notice = (
                f"Another program changed {self.file.name}: what it says of {', '.join(changed)} was taken up."
            )
        self._written = content

    def _all(self, answers: Answers) -> Answers:
        """What was answered here, and in other reviews and files."""
        return self.kept.and_more(answers)

    def _with_cards(self, answers: Answers, found: Decisions) -> tuple[Answers, list[str]]:
        """With what cards of a file say beyond the answers, and the words of those that say something new."""
        cards = {card.id: card for card in self.deck.cards}
        ours = {card.id: card for card in decide(self.questions, self._all(answers), at="").cards}
        said, others, changed = list(answers.said), [], []
        before = {card.id: card for card in answers.earlier.cards if card.id in cards}
        for card in found.cards:
            identity = self.deck.audited.id_of(card.id, card.words)
            if identity not in cards:
                others.append(card)
                continue
            own, kept, known = ours.get(identity), before.get(identity), cards[identity]
            by_people = card.by_person and (own is None or own.decision != card.decision)
            if by_people:
                said += _said_by_file(card, identity, said)
            named = replace(card, id=identity, words=known.words, pushes_towards=known.pushes_towards)
            if new := _beyond_people(named, kept, own):
                before[identity] = new
            if by_people or new:
                changed.append(f"“{card.words[0]}”")
        judges = found if found.judges else answers.earlier
        earlier = replace(judges, cards=(*before.values(), *others))
        return replace(answers, said=tuple(said), earlier=earlier), changed

    # What the person is shown

    def state(self) -> dict[str, Any]:
        """Where the person stands, JSON-ready: what they said, what is asked next, and at the end what came of it."""
        with self._lock:
            answers, shown = self.answers, self.deck.shown
            to_cards = answers.to_cards()
            own_words = {card: to_cards.get(card, {}).get(self.by) for card in shown}
            said = {card: one.decision for card, one in own_words.items() if one is not None and one.decision}
            everything = self._all(answers)
            decided = {one.id: one for one in decide(self.questions, everything, at="").cards}
            left = remaining(self.questions, everything, self.by)
            opinions = {card.id: card.second_model for card in answers.earlier.cards if card.second_model}
            effects = {}
            for card, own in said.items():
                n, asked = len(self.deck.flips[card]), card in left.open
                effects[card] = follows(shown[card]["effects"], own, decided[card], flips=n, asked=asked)
            one = left.question
            return {
                "revision": self.revision,
                "by": self.by,
                "said": said,
                "follows": effects,
                "opinions": {card: opinions[card].sentence for card in said if card in opinions},
                "question": one and {"id": one.id, "sides": sides(one.text), "a": one.option_a, "b": one.option_b},
                "progress": {name: getattr(left, name) for name in ("answered", "least", "most", "lost")}
                | {"open": len(left.open)},
                "can_undo": any(answer.by == self.by for answer in answers.said),
                "notice": self.notice,
                "end": self._end(decided) if len(said) == len(shown) and one is None else None,
            }

    def _end(self, decided: Mapping[str, Decision]) -> dict[str, Any]:
        to_cards = self.answers.to_cards()
        people = {card: {by: one.decision for by, one in to_cards[card].items()} for card in self.deck.shown}
        both = [set(said.values()) for said in people.values() if len(said) > 1]
        return {
            "cards": [
                {"id": card, "decision": decided[card].decision or "unsure", "people": said}
                for card, said in people.items()
            ],
            "both": len(both),
            "agree": sum(len(said) == 1 for said in both),
            "differ": sum(len(said - {"unsure"}) > 1 for said in both),
            "file": str(self.file),
            "next": self.next,
        }

    @property
    def next(self) -> str:
        """What to type when the decisions are made."""
        return fit_command(self.deck.about, str(self.file), self.folder)

    def content(self) -> bytes:
        """The file as it would be written now."""
        with self._lock:
            return self._stored(self.answers, self.revision)


def _read(file: Path) -> tuple[Decisions, _Review]:
    decisions, review = Decisions.from_file(file), json_content(file, advice=_ADVICE).get("review", {})
    return decisions, checked(review, _Review, str(file), path="review", advice=_ADVICE, open_ended=True)


def _with_review(answers: Answers, review: _Review) -> Answers:
    """With the answers that stand in a file, each once, and what stood there of other cards before them."""
    new = [event for event in review.events if event not in answers.said]
    known = {card.id for card in answers.earlier.cards}
    cards = (*answers.earlier.cards, *(card for card in review.before if card.id not in known))
    return replace(answers, said=(*answers.said, *new), earlier=replace(answers.earlier, cards=cards))


def _beyond_people(card: Decision, kept: Decision | None, own: Decision | None) -> Decision | None:
    """What a file says newly of a card by judged flips or by a second model; `None` where that is nothing."""
    if kept is None and (card.asked or card.second_model) and (own is None or not own.asked):
        return (replace(card, reviews=()) if card.by_person else card).without_people()
    if card.second_model and card.second_model != (kept or own or card).second_model:
        plain = kept or Decision(card.words, id=card.id, pushes_towards=card.pushes_towards)
        return replace(plain, second_model=card.second_model).without_people()
    return None


def _said_by_file(card: Decision, identity: str, said: Sequence[Answer]) -> list[Answer]:
    """The answers behind a card's decision: those of its reviewers, or else the file's own."""
    told = [Answer(one.by, one.at, decision=one.decision, card=identity) for one in card.reviews]
    new = [answer for answer in told if answer not in said]
    together = None if card.decision == "unsure" else card.decision
    if new and agreed_decision(one.decision for one in card.reviews) == together:
        return new
    return [Answer(BY_FILE, now(), decision=card.decision or "unsure", card=identity)]
