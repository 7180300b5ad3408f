"""Which texts hold a shortcut, and the sets that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shortcut_guardrail.data import Texts
from shortcut_guardrail.evaluation import by_shortcut
from shortcut_guardrail.text import WordFinder, check_words

from .reading import Rows
from .types import LabelledTexts, OverlappingGroups

Side = Literal["any", "second"]
"""Where in a pair a shortcut counts: in either text, or only in the second."""


def shortcut_present(texts: Texts, words: Sequence[str], side: Side = "any") -> NDArray[np.bool_]:
    """Whether each text holds one of the words, shape (N,).

    Args:
        texts: N texts or pairs.
        words: Words and phrases, matched as `WordFinder` does.
        side: For pairs, where to look.
    """
    finder = WordFinder(check_words(words))

    def parts(text: str | tuple[str, str]) -> Sequence[str]:
        if isinstance(text, str):
            return (text,)
        return text if side == "any" else text[1:]

    return np.array([any(map(finder.present, parts(text))) for text in texts], dtype=bool)


def group_names(label_names: Sequence[str], what: str) -> tuple[str, ...]:
    """Names of the groups in the paper's order: each label without the shortcut, then with it."""
    return tuple(f"{label}, {how} {what}" for label in label_names for how in ("without", "with"))


def grouped(
    name: str,
    rows: Rows,
    present: NDArray[np.bool_],
    label_names: tuple[str, ...],
    what: str,
    overlapping: OverlappingGroups | None = None,
) -> LabelledTexts:
    """A set with groups by label and presence.

    Args:
        name: The name of the set.
        rows: Its texts and labels.
        present: Whether each text holds a shortcut, shape (N,).
        label_names: The C label names.
        what: What the shortcut is called in the groups' names, such as "book" or "an identity term".
        overlapping: Further groups.
    """
    groups, _ = by_shortcut(rows.labels, present, label_names)
    names = group_names(label_names, what)
    return LabelledTexts(name, rows.texts, rows.labels, label_names, groups, names, overlapping)
