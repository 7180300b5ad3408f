"""What predictions cost, known before any is made."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import GuardrailWarning, RunError
from ..typing import Text

_TIMED_TEXTS = 6


@dataclass(frozen=True)
class Cost:
    """What predictions for some texts cost; a field is `None` if it is not known before.

    Attributes:
        tokens: Tokens that go in, prompts included; of endpoints an estimate of one for four bytes.
        calls: Passes through a model, calls of a function, or requests to an endpoint that are not in its cache.
        seconds: Measured on a few of the texts; for an endpoint from requests of before, or by its own rate limit.
    """

    texts: int
    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None


class BudgetSpentError(RunError):
    """So many answers as one more question takes are not left."""


@dataclass
class Spent:
    """What was asked of a model so far: answers, the seconds that they took, and the most answers that are allowed."""

    answers: int = 0
    seconds: float = 0.0
    most: int | None = None

    def take(self, n: int) -> None:
        """Count n answers that are about to be asked for.

        Raises:
            BudgetSpentError: They are more than what is left.
        """
        if self.most is not None and self.answers + n > self.most:
            raise BudgetSpentError(f"The budget leaves {self.most - self.answers} answers, but {n} are needed.")
        self.answers += n

    @contextmanager
    def within(self, budget: int) -> Iterator[Spent]:
        """Within the block so many more answers may be asked for; 0 stands for any number.

        Yields:
            What is spent within the block: its `answers` and `seconds` are whole once the block ends.
        """
        before, begun, here = self.answers, time.perf_counter(), Spent()
        self.most = before + budget if budget else None
        try:
            yield here
        finally:
            self.most = None
            here.answers, here.seconds = self.answers - before, time.perf_counter() - begun


def n_characters(text: Text) -> int:
    """Characters of a text or of both of a pair."""
    return len(text) if isinstance(text, str) else len(text[0]) + len(text[1])


def measured_seconds(ask: Callable[[Any], object], texts: Sequence[Text]) -> float:
    """How long asking about all texts would take, by the time for a few of them, from the shortest to the longest."""
    if not texts:
        return 0.0
    ordered = sorted(texts, key=n_characters)
    few = [ordered[int(at)] for at in np.linspace(0, len(ordered) - 1, min(_TIMED_TEXTS, len(ordered)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)  # of texts that are cut, which comes when all are asked about
        ask(few[:1])  # the first call pays for what is set up once
        begun = time.perf_counter()
        ask(few)
        seconds = time.perf_counter() - begun
    return seconds * sum(map(n_characters, texts)) / max(1, sum(map(n_characters, few)))
