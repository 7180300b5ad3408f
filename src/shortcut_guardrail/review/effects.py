"""What `fit` does with a card after each answer, in words: the page and the report say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..data import counted
from ..text import visible_name

DONE = {"keep": "kept", "neutralise": "neutralised", "unsure": "not sure"}


@dataclass(frozen=True)
class Effect:
    """What follows for one card.

    Attributes:
        how: What `fit` does, and who decides, for a table.
        changes: How many answers change, for a table.
        n: That number, at most.
        line: Both, for the line below an answer.
    """

    how: str
    changes: str
    n: int
    line: str


def effects_of(
    changes: int, moved: Sequence[tuple[str, str, int]], taken: Sequence[str], *, all_taken: bool
) -> dict[str, Effect]:
    """What follows from each decision on a card, where nobody else said anything.

    Args:
        changes: Answers that change with all words masked.
        moved: The same by class: before, after, texts.
        taken: Words that `fit` neutralises where nobody decides.
        all_taken: Whether these are all words of the card.
    """
    moves = ", ".join(f"{n} from {visible_name(was)} to {visible_name(becomes)}" for was, becomes, n in moved)
    which = f": {moves}" if moves else ""
    answers = counted(changes, "answer")
    made = {"keep": Effect(DONE["keep"], "none", 0, f"{DONE['keep']}. Nothing changes.")}
    done = DONE["neutralise"]
    made["neutralise"] = Effect(done, f"{answers}{which}", changes, f"{done}. {answers} would change{which}.")
    if not taken:
        how, changed, n = "left as it is", "none", 0
    elif all_taken:
        how, changed, n = done, f"{answers}{which}", changes
    else:
        how, changed, n = f"{', '.join(f'“{word}”' for word in taken)} {done}", f"up to {answers}", changes
    short = "nothing changes" if not taken else f"up to {answers}" if not all_taken else answers
    how = f"the audit decides: {how}"
    made["unsure"] = Effect(f"not sure; {how}", changed, n, f"{how}, {short}.")
    return made
