"""What `fit` does with a card after each answer, in words: the page and the report say the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from ..cards import Card
from ..data import counted
from ..decisions import LEAST_FLIPS, Decision
from ..text import visible_name

DONE = {"keep": "kept", "remove_reliance": "reliance removed", "not_alone": "not alone", "unsure": "not sure"}


class Effect(TypedDict):
    """What follows for a card: `how`, and who decides; which predictions change, at most `n`; all of it in a `line`;
    and in a few words, `short`."""

    how: str
    changes: str
    n: int
    line: str
    short: str


def effects_of(card: Card, taken: Sequence[str]) -> dict[str, Effect]:
    """What follows from each decision on a card where nobody else said anything.

    `fit` removes reliance on those of its words that are `taken` where nobody decides.
    """
    moves = (f"{one.texts} from {visible_name(one.before)} to {visible_name(one.after)}" for one in card.moved)
    which = f": {', '.join(moves)}" if card.moved else ""
    also, answers, kept, done = "", counted(card.changes, "prediction"), DONE["keep"], DONE["remove_reliance"]
    if not taken:
        how, changes, n, short = "left as it is", "none", 0, "nothing changes"
    elif len(taken) == len(card.words):
        how, changes, n, short = done, f"{answers}{which}", card.changes, answers
    else:
        words = _quoted(taken)
        also = f" This also takes {_quoted(w for w in map(visible_name, card.words) if w not in taken)}."
        how, changes, n, short = f"{done} ({words})", f"up to {answers}", card.changes, f"up to {answers}"
    how = f"the audit decides: {how}"
    return {
        "keep": Effect(how=kept, changes="none", n=0, line=f"{kept}. Nothing changes.", short="nothing changes"),
        "remove_reliance": Effect(
            how=done,
            changes=f"{answers}{which}",
            n=card.changes,
            line=f"{done}. {answers} would change{which}.{also}",
            short=f"{answers} change" if card.changes != 1 else f"{answers} changes",
        ),
        "not_alone": Effect(
            how=DONE["not_alone"],
            changes=f"up to {answers}{which}",
            n=card.changes,
            line=f"{DONE['not_alone']}. They count together with the rest. Up to {answers} would change{which}.",
            short=f"up to {card.changes:,} change",
        ),
        "unsure": Effect(
            how=f"{DONE['unsure']}; {how}",
            changes=changes,
            n=n,
            line=f"{how}, {short}.",
            short=f"the audit decides: {short}",
        ),
    }


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"“{word}”" for word in words)


def follows(effects: dict[str, Effect], said: str, one: Decision, *, flips: int, asked: bool) -> Effect:
    """What follows for a card of which the person who is told said something, and everybody's answers come to `one`.

    So many of the card's flips can be asked about; the person may be asked about texts of it still.
    """
    decision, source = one.decision or "unsure", one.source
    effect = effects[decision]
    texts, done, unsure = "", DONE[said], DONE["unsure"]
    if source == "answers" and one.outcome is not None:
        texts = f" (texts: {one.outcome}, {one.fixed} fixed, {one.broken} broken of {one.asked})"
    how, line = effect["how"] + texts, effect["line"]
    if decision != "unsure" and said == "unsure":
        who = {"answers": "the texts decide", "machine": "the second model decides"}.get(
            source or "", "somebody else decides"
        )
        how += " (by the second model)" * (source == "machine")
        line = f"{done}; {who}: {line}" + " You are asked about texts, after the word groups." * asked
    elif decision == "unsure" and said != "unsure":
        how = effect["how"].replace(unsure, "people differ", 1)
        line = f"{done}. Somebody else said otherwise, so {line}"
    elif said == "unsure":
        how = effect["how"].replace(unsure, unsure + texts, 1)
        if asked:
            why = "You are asked about texts, after the word groups. If they leave it open,"
        elif flips < LEAST_FLIPS:
            why = "Too few texts can be asked about to decide it, so"
        else:
            why = "Its texts leave it open, so"
        line = f"{done}. {why} {line}"
    return {**effect, "how": how, "line": line}
