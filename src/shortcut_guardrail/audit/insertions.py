"""What adding a candidate to texts without it does to predictions, beside what removing it does.

A word that other words of its texts back up can be removed without an effect, and still move any text that it is added
to. Nothing but `predict_proba(texts)` is asked, so every classifier can be tried.

A candidate is put into texts that do not hold it and that are given another class than that to which it pulls: at the
start, in the middle or at the end, taking turns. For each such copy there is another, with as many random words of
like frequency in the same place. A candidate is *found* if both null hypotheses are rejected at the audit's
false-discovery rate (AdaFilter, `stats.fdr`): that it changes no more predictions to its class than the random words do
(McNemar's exact test), and that it changes `min_pull` of them at most (the exact binomial test).

Adding all candidates would cost more than the audit. So each is first put into a few texts, which are not used again,
and those that raise the probability of their class most go on. `COST` bounds both rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import AuditConfig
from ..data import Count, Share
from ..stats import exact_interval, mcnemar_greater, q_values
from ..text import WordFinder, unit_key, word_spans
from ..typing import Array, Text

COST = 0.5
"""The predictions that it may add, as a share of those that the audit makes anyway, 2 + k for each distinct text."""
RECEIVERS, LEAST_RECEIVERS = 90, 20
"""Texts that a candidate is put into at most, and at least: 20 show a change of every second prediction."""
SCREENED_ON = 6
"""Texts that tell which candidates go on."""
LEAST_TRIED, MOST_TRIED, MOST_SCREENED = 6, 25, 300
POOL = 1000
"""Texts to draw from, those with the smallest hashes."""
PLACES = ("start", "middle", "end")

Answer = Callable[[Any], Array]


@dataclass(frozen=True)
class Wanted:
    """A candidate that may be put in: the class id that it pushes towards, the side of a pair that it stands on, and
    whether the audit found it, so that it is put in in any case."""

    text: str
    target: int
    side: int = 0
    found: bool = False


@dataclass(frozen=True)
class Insertion:
    """The effect of adding a candidate to texts without it.

    Attributes:
        n: Texts that it was added to, each of which was predicted to be another class before.
        changed: Of these, texts that are predicted to be its class afterwards.
        by_chance: The same for as many random words of like frequency.
        flip_rate: `changed` among `n`.
        interval: 95 % interval of the flip rate.
        q_value: Smallest false-discovery rate at which it would be found.
        found: Whether it changes more predictions than random words do, and more than `min_pull`, at the audit's rate.
    """

    n: Count
    changed: Count
    by_chance: Count
    flip_rate: Share
    interval: tuple[Share, Share]
    p_value: Share
    q_value: Share
    found: bool


@dataclass(frozen=True)
class Insertions:
    """How many candidates were added to a few texts, how many to all, and how many predictions that took."""

    n_screened: Count
    n_tried: Count
    n_predictions: Count


def try_insertions(
    answer: Answer, texts: Sequence[Text], probs: Array, wanted: Sequence[Wanted], config: AuditConfig, *, n_texts: int
) -> tuple[dict[str, Insertion], Insertions, list[Wanted]]:
    """Put candidates into texts; see the head of this module.

    Args:
        answer: Class probabilities of N texts, shape (N, C).
        texts: Texts to put something into, in random order.
        probs: What the model answers to them, shape (len(texts), C).
        wanted: Candidates, the most interesting first.
        n_texts: Distinct texts of the audit, which bound the cost.

    Returns:
        The effect of each that was tried, by its name; the cost; and those that raise the probability of their class in
        the few texts of the first round, tried or not, those first that raise it most.
    """
    trial = Trial(answer, texts, probs)
    budget = int(COST * (2 + config.top_k) * n_texts)
    least = max(LEAST_TRIED, sum(one.found for one in wanted))
    screened = list(wanted[: min(MOST_SCREENED, max(least, budget // (2 * SCREENED_ON)))])
    most = min(MOST_TRIED, max(LEAST_TRIED, budget // (4 * RECEIVERS)))
    gains = trial.gains(screened)
    raising = sorted((one for one in screened if gains[one] > 0), key=lambda one: -gains[one])
    tried = sorted(screened, key=lambda one: (not one.found, -gains[one]))[:most]
    counts = [seen for one in tried if (seen := trial.counted(one)) is not None]
    if not counts:
        return {}, Insertions(len(screened), 0, trial.n_predictions), raising
    names = [name for name, *_ in counts]
    changed, by_chance, only_it, only_chance, n = np.array([numbers for _, *numbers in counts]).T
    p = [mcnemar_greater(int(a), int(b)) if a + b else 1.0 for a, b in zip(only_it, only_chance, strict=True)]
    from scipy.stats import binom

    pulls = binom.sf(changed - 1, n, config.min_pull)
    q = q_values(np.array(p), pulls)
    found: dict[str, Insertion] = {}
    for i, name in enumerate(names):
        k, of, rate = int(changed[i]), int(n[i]), float(changed[i] / n[i])
        tests = float(max(p[i], pulls[i])), float(q[i]), bool(q[i] <= config.fdr)
        found[name] = Insertion(of, k, int(by_chance[i]), rate, exact_interval(k, of), *tests)
    return found, Insertions(len(screened), len(found), trial.n_predictions), raising


class Trial:
    """The texts to put something into, the words that random ones are drawn from, and what was asked so far."""

    def __init__(self, answer: Answer, texts: Sequence[Text], probs: Array) -> None:
        self.answer, self.texts, self.probs = answer, texts, probs
        self.classes = probs.argmax(axis=1)
        self.rng = np.random.default_rng(0)
        self.n_predictions = 0
        words = ({unit_key(part[a:b]) for part in sides(text) for a, b in word_spans(part)} for text in texts)
        counts = Counter(word for of in words for word in of)
        ordered = sorted(counts, key=lambda word: (counts[word], word))
        self.vocabulary, self.counts = ordered, np.array([counts[word] for word in ordered])

    def ask(self, copies: Sequence[Text]) -> Array:
        """Class probabilities of copies, one call for all."""
        self.n_predictions += len(copies)
        return self.answer(copies)

    def receivers(self, one: Wanted) -> tuple[list[int], list[int]]:
        """Texts to screen a candidate on, and those to try it on: without it, and given another class."""
        others = np.flatnonzero(self.classes != one.target).tolist()
        few = min(SCREENED_ON, len(others) // 4)
        finder = WordFinder([one.text])

        def free(rows: Iterable[int], most: int) -> list[int]:
            kept: list[int] = []
            for row in rows:
                if len(kept) == most:
                    break
                if not any(finder.present(part) for part in sides(self.texts[row])):
                    kept.append(row)
            return kept

        return free(others[:few], few), free(others[few:], RECEIVERS)

    def gains(self, screened: Sequence[Wanted]) -> dict[Wanted, float]:
        """How much each raises the log-probability of its class in a few texts, on average; -inf if none lacks it."""
        copies = [(one, at, row) for one in screened for at, row in enumerate(self.receivers(one)[0])]
        gains: dict[Wanted, list[float]] = {one: [] for one in screened}
        after = self.ask([self.copy(row, one, [one.text], at) for one, at, row in copies]) if copies else ()
        for (one, _, row), probs in zip(copies, after, strict=True):
            gains[one].append(float(np.log((probs[one.target] + 1e-9) / (self.probs[row, one.target] + 1e-9))))
        return {one: float(np.mean(of)) if of else -np.inf for one, of in gains.items()}

    def counted(self, one: Wanted) -> tuple[str, int, int, int, int, int] | None:
        """The name, predictions that it changes, that random words change, that only one of the two does, and texts."""
        rows = self.receivers(one)[1]
        if len(rows) < LEAST_RECEIVERS:
            return None
        words = one.text.split()
        copies = [self.copy(row, one, words, at) for at, row in enumerate(rows)]
        copies += [self.copy(row, one, [self.like(word) for word in words], at) for at, row in enumerate(rows)]
        its, random = (self.ask(copies).argmax(axis=1) == one.target).reshape(2, len(rows))
        sums = its.sum(), random.sum(), (its & ~random).sum(), (random & ~its).sum(), len(rows)
        return (one.text, *map(int, sums))  # type: ignore[return-value]

    def like(self, word: str) -> str:
        """A random other word that about as many texts hold."""
        at = self.vocabulary.index(word) if word in self.vocabulary else -1
        count = self.counts[at] if at >= 0 else 1
        low, high = np.searchsorted(self.counts, [count / 2, 2 * count + 1])
        low = max(0, min(low, high - 20))
        drawn = self.vocabulary[int(self.rng.integers(low, max(high, low + 1)))]
        return drawn if drawn != word else self.vocabulary[int(self.rng.integers(len(self.vocabulary)))]

    def copy(self, row: int, one: Wanted, words: Sequence[str], at: int) -> Text:
        """A text with words put in on a side: `at` says where, by turns."""
        return put_in(self.texts[row], one.side, words, at)


def put_in(text: Text, side: int, words: Sequence[str], at: int) -> Text:
    """A text, or a side of a pair, with words put in: `at` says where, by turns."""
    place = PLACES[at % len(PLACES)]
    if isinstance(text, str):
        return with_words(text, words, place)
    put = [with_words(part, words, place) if number == side else part for number, part in enumerate(text)]
    return (put[0], put[1])


def with_words(text: str, words: Sequence[str], place: str) -> str:
    """A text with words put in at the start, in the middle (between two words) or at the end."""
    starts = [start for start, _ in word_spans(text)]
    at = 0 if place == "start" else len(text) if place == "end" or len(starts) < 2 else starts[len(starts) // 2]
    return " ".join(part for part in (text[:at].rstrip(), *words, text[at:].lstrip()) if part)


def sides(text: Text) -> tuple[str, ...]:
    """The text, or both of a pair."""
    return (text,) if isinstance(text, str) else text
