"""Changed copies of a text: words deleted or swapped as in EDA, half of them kept, all of them shuffled.

Words are what white space separates. Draws come from a generator on the CPU, so that they are the same on every device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator

from shortcut_guardrail.typing import Text

Change = Callable[[list[str], Generator], list[str]]
"""Words to words."""


def view_of(text: Text, change: Change, generator: Generator) -> Text:
    """A text with its words changed, or a pair with those of each side. A text without words stays as it is."""

    def side(words: str) -> str:
        return " ".join(change(found, generator)) if (found := words.split()) else words

    return side(text) if isinstance(text, str) else (side(text[0]), side(text[1]))


def delete(words: list[str], generator: Generator, *, share: float) -> list[str]:
    """Without each word with a probability of `share`; a word drawn at random where none is left."""
    kept = [word for word, at in zip(words, torch.rand(len(words), generator=generator), strict=True) if at >= share]
    return kept or [words[_below(len(words), generator)]]


def swap(words: list[str], generator: Generator, *, share: float) -> list[str]:
    """Two words drawn at random change places, max(1, floor(share n)) times for n words; none where n is 1."""
    words = list(words)
    for _ in range(max(1, int(share * len(words))) if len(words) > 1 else 0):
        one, other = torch.randperm(len(words), generator=generator)[:2].tolist()
        words[one], words[other] = words[other], words[one]
    return words


def halve(words: list[str], generator: Generator) -> list[str]:
    """A random half of the words in their order, rounded up."""
    kept = torch.randperm(len(words), generator=generator)[: (len(words) + 1) // 2]
    return [words[at] for at in sorted(kept.tolist())]


def shuffle(words: list[str], generator: Generator) -> list[str]:
    """The words in random order."""
    return [words[at] for at in torch.randperm(len(words), generator=generator).tolist()]


def _below(n: int, generator: Generator) -> int:
    return int(torch.randint(n, (), generator=generator))
