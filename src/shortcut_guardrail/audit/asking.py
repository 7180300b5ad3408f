"""What is measured of a classifier that only answers: which words change its answers when they are cut out.

It is asked in two rounds. First every word that stands in enough texts is cut out of a random sample of `FIRST`. Then
those that changed a prediction are cut out of all of their texts. A word that changed none stays tested, with no effect
where nobody asked: the number of tests stays, and p-values only rise. In texts about which a budget forbids to ask,
nothing is known of a word (`NOT_ASKED`), and it can neither be flagged nor cleared by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from ..attribution import MaskingEffects, Saliency
from ..classifiers import ASKED_AGAIN, WordReader
from ..config import AuditConfig
from ..data import counted
from ..errors import ConfigError
from ..models import EncodedTexts, Reader
from ..text import Units, erased_texts, words_as_units
from ..typing import Array, Progress, Text
from .erasures import sample_size
from .measurements import Measured
from .sampling import Drawing

FIRST = 10
"""Texts in the first round: what decides a third of its texts changes an answer in one of ten, 98 times in 100."""
BESIDES = 0.2
"""The share of a budget's last part that is left for phrases and cards."""
_AT_ONCE = 4096


@dataclass(frozen=True)
class Plan:
    """What is asked about N texts, as far as it is known before anything is.

    Attributes:
        units: The words of each text.
        holders: Of each word that is tested the texts that hold it and are evidence, in random order.
        n: Number of texts.
        besides: How many answers it takes to see what cutting does by itself, and whether answers are the same again.
    """

    units: Units
    holders: dict[str, list[int]]
    n: int
    besides: int

    @classmethod
    def of(
        cls, encoded: EncodedTexts, evidence: Array, keys: Array, drawing: Drawing | None, config: AuditConfig
    ) -> Plan:
        """For distinct texts, which of them are evidence, their `text_key`s, by which their order is drawn, and how
        they themselves were drawn from a corpus."""
        units = words_as_units(encoded)
        holders: dict[str, list[int]] = {}
        for i in np.argsort(keys, kind="stable").tolist():
            for word in dict.fromkeys(filter(None, units.keys[i])) if evidence[i] else ():
                if drawing is None or drawing.places[i] < drawing.of(word).place:
                    holders.setdefault(word, []).append(i)
        most_first = sorted(holders.items(), key=lambda item: (-len(item[1]), item[0]))
        tested = {word: rows for word, rows in most_first if len(rows) >= config.min_count}
        return cls(units, tested, len(encoded), sample_size(int(evidence.sum()), config.top_k) + ASKED_AGAIN)

    def answers(self) -> tuple[int, int]:
        """How many answers it takes at least, and at most, but for those of phrases and cards."""
        fixed, counts = self.n + self.besides, [len(rows) for rows in self.holders.values()]
        return fixed + sum(min(n, FIRST) for n in counts), fixed + sum(counts)

    def places(self, row: int, word: str) -> Array:
        """The parts of a text that a word is."""
        chosen = [unit for unit, name in enumerate(self.units.keys[row]) if name == word]
        return np.flatnonzero(np.isin(self.units.of_token[row], chosen))


_Pair = tuple[int, str]


def ask_words(
    reader: Reader, encoded: EncodedTexts, plan: Plan, config: AuditConfig, *, progress: Progress | None = None
) -> tuple[Measured, tuple[str, ...]]:
    """Measure the words of N distinct texts in two rounds; also what has to be said of it, in sentences.

    Raises:
        ConfigError: The budget is too small for these texts.
    """
    if config.budget and config.budget < 2 * plan.n:
        raise ConfigError(
            f"budget must be at least {2 * plan.n}, since {counted(plan.n, 'distinct text')} are asked about whole "
            f"first, but is {config.budget}. Raise it, or give fewer texts, sampled at random."
        )
    end = reader.spent.answers + config.budget - plan.besides
    probs = reader.predict_proba(encoded, progress=progress)
    ask = partial(_ask, reader, encoded, plan, progress=progress)
    words, most = list(plan.holders), plan.n
    if config.budget:
        words = words[: max(0, end - reader.spent.answers) // 2 // FIRST]
    after = ask([(row, word) for word in words for row in plan.holders[word][:FIRST]])
    classes = probs.argmax(axis=1)
    moved = {word for (row, word), one in after.items() if one.argmax() != classes[row]}
    if config.budget:
        left = int((1 - BESIDES) * (end - reader.spent.answers))
        most = _most_texts([len(plan.holders[word]) for word in moved], left)
    after |= ask([(row, word) for word in words if word in moved for row in plan.holders[word][FIRST:most]])
    capped = {word for word in moved if len(plan.holders[word]) > most}
    unasked = set(plan.holders).difference(words)
    measured = _measured(encoded, plan, probs, after, moved, frozenset(capped | unasked))
    return measured, _said(len(words), len(capped), len(unasked), most, config)


def unsteady(reader: Reader, texts: Sequence[Text]) -> tuple[str, ...]:
    """A sentence where a classifier answers some of the texts otherwise when it is asked again."""
    changed, n = cast(WordReader, reader).steadiness(texts)
    if not changed:
        return ()
    return (
        f"Asked about the same texts twice, '{reader.name}' answers {changed} of {n} otherwise. What it changes by "
        "itself may look like the effect of a word.",
    )


def _ask(
    reader: Reader, encoded: EncodedTexts, plan: Plan, pairs: Sequence[_Pair], *, progress: Progress | None
) -> dict[_Pair, Array]:
    """Class probabilities of texts without a word, shape (C,), by row and word."""
    found: dict[_Pair, Array] = {}
    for start in range(0, len(pairs), _AT_ONCE):
        some = pairs[start : start + _AT_ONCE]
        places = [plan.places(row, word) for row, word in some]
        rest = erased_texts(encoded.select([row for row, _ in some]), places, reader.mask_token_id, "cut")
        found |= zip(some, reader.predict_proba(rest), strict=True)
        if progress is not None:
            progress("Cutting words", start + len(some), len(pairs))
    return found


def _most_texts(counts: Sequence[int], left: int) -> int:
    """Of how many texts of each word one can ask, when some were asked about already and so many answers are left."""
    most = FIRST
    while sum(min(n, most + 1) - FIRST for n in counts) <= left and most < max(counts, default=0):
        most += 1
    return most


def _measured(
    encoded: EncodedTexts,
    plan: Plan,
    probs: Array,
    after: dict[_Pair, Array],
    moved: set[str],
    not_asked: frozenset[str],
) -> Measured:
    """The words that were asked about as the important units of their texts, those with the largest effects first."""
    asked: list[list[tuple[float, int, Array, bool]]] = [[] for _ in range(plan.n)]
    classes = probs.argmax(axis=1)
    for (row, word), one in after.items():
        effect = abs(float(one[classes[row]] - probs[row, classes[row]]))
        asked[row].append((effect, plan.units.keys[row].index(word), one, word in moved))
    width = max(1, *map(len, asked))
    positions, ends = np.full((2, plan.n, width), -1, dtype=np.int32)
    scores = np.full((plan.n, width), np.nan, dtype=np.float32)
    effects = np.full((plan.n, width, probs.shape[1]), np.nan, dtype=np.float32)
    for row, found in enumerate(asked):
        for slot, (effect, unit, one, moves) in enumerate(sorted(found, key=lambda entry: (-entry[0], entry[1]))):
            positions[row, slot], scores[row, slot], effects[row, slot] = unit, effect, one
            ends[row, slot] = unit if moves else -1
    # Scores that are the effects agree with them whatever these are.
    nothing = np.full_like(scores, np.nan)
    saliency = Saliency(positions, scores, nothing, classes, probs.astype(np.float32))
    return Measured(encoded, saliency, MaskingEffects(effects), plan.units, ends, not_asked)


def _said(n_words: int, n_capped: int, n_unasked: int, most: int, config: AuditConfig) -> tuple[str, ...]:
    """What power a budget leaves, in sentences."""
    from scipy.stats import binom

    notes = [
        f"The classifier only answers, so words were cut out of its texts. One that changed none of {FIRST} "
        "predictions was not asked about in more texts, so that MSTPS is a lower bound."
    ]
    if n_capped:
        enough = binom.sf(np.arange(-1, most), most, config.min_pull) <= config.fdr / n_words
        least = int(enough.argmax()) if enough.any() else 0
        power = f"Cutting has to take the prediction away in at least {least} of them to show beyond doubt."
        which = "1 word that changed a prediction stands" if n_capped == 1 else f"{n_capped} that changed one stand"
        notes.append(
            f"The budget allows {most} texts of a word, and {which} in more. "
            f"{power if least else 'So few show nothing beyond doubt.'}"
        )
    if n_unasked:
        notes.append(f"The budget leaves {counted(n_unasked, 'word')} untested, those in the fewest texts.")
    return tuple(notes)
