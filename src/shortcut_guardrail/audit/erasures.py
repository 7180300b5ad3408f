"""What taking a word out does by itself: how many predictions change where none should.

A model that never met the mask token while it was fine-tuned may take it for a word of one class, so that masking
proves nothing. So in some texts one word that hardly matters is erased in each of the ways, and changed predictions are
counted. The texts are those with the smallest hashes, so that the same texts give the same sample in any order.

By default words are masked, as in the paper, unless another way changes fewer predictions by `MARGIN` of the texts and
more, and McNemar's exact test of the pairs passes at `LEVEL`. Cutting is asked about first, since the repair cuts too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from ..config import AuditConfig
from ..data import Count, counted
from ..display import percent
from ..stats import exact_interval, mcnemar_greater
from ..text import erased_texts
from ..typing import Array, Erasure

if TYPE_CHECKING:  # PyTorch takes seconds to import, and results are read without it.
    from ..models import Reader
    from .measurements import Attributed

LEAST_TEXTS, MOST_TEXTS = 60, 300
COST = 0.05
"""What it may cost, as a share of the audit's forward passes; small audits, which take no time, take `LEAST_TEXTS`."""
MARGIN = AuditConfig.min_pull
"""The smallest difference that matters: in no larger share of its texts may a word move predictions and be no candidate
for a flag."""
LEVEL = 0.01
WAYS = get_args(Erasure)
SAID = {"mask": "the mask token", "cut": "leaving the word out", "replace": "another word of the text in its place"}


@dataclass(frozen=True)
class Erasures:
    """What each way of erasing a word does by itself, measured on words that hardly matter, one in each text.

    Attributes:
        chosen: The way that the audit, and everything based on it, erases words.
        n: Number of those texts.
        mask: Of these, texts whose prediction the mask token changes; `None` if words can only be left out.
        cut: The same for leaving the word out.
        replace: The same for another word of the text in its place; `None` as for the mask token.
    """

    chosen: Erasure
    n: Count
    mask: Count | None
    cut: Count
    replace: Count | None

    def changed(self, erasure: Erasure) -> int:
        """How many predictions an erasure changes."""
        return cast(int, getattr(self, erasure))

    @property
    def done(self) -> str:
        """How words are erased, in a word or a few."""
        return {"mask": "masked", "cut": "left out", "replace": "replaced by others of their text"}[self.chosen]

    @property
    def weak(self) -> bool:
        """Whether the chosen way certainly changes more than `MARGIN` of predictions, so that it proves little."""
        return bool(self.n and exact_interval(self.changed(self.chosen), self.n)[0] > MARGIN)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence if words are not masked, or if erasing is weak evidence."""

        def does(way: Erasure) -> str:
            return f"{self.changed(way)} of {counted(self.n, 'prediction')} ({percent(self.changed(way) / self.n)})"

        if self.weak:
            return (
                f"What this audit finds is weak evidence: where none should change, {SAID[self.chosen]} changes "
                f"{does(self.chosen)}.",
            )
        if self.chosen == "mask" or self.mask is None:
            return ()
        return (
            f"Words are {self.done}, not masked: where none should change, {SAID['mask']} changes {does('mask')}, and "
            f"{SAID[self.chosen]} {self.changed(self.chosen)}.",
        )


def sample_size(n: int, top_k: int) -> int:
    """In how many of n texts erasures are tried: in as many as cost little beside an audit of all."""
    return min(n, MOST_TEXTS, max(LEAST_TEXTS, int(COST * (2 + top_k) * n / len(WAYS))))


def sampled_texts(keys: Array, evidence: Array, top_k: int) -> Array:
    """Which texts erasures are tried in, ascending; see `sample_size`.

    Args:
        keys: `text_key` of N texts, shape (N,).
        evidence: Which of them count as evidence, shape (N,).
        top_k: The audit's.
    """
    rows = np.flatnonzero(evidence)
    size = sample_size(len(rows), top_k)
    chosen: Array = np.sort(rows[np.argsort(keys[rows], kind="stable")[:size]])
    return chosen


def try_erasures(classifier: Reader, found: Attributed, rows: Array, keys: Array, config: AuditConfig) -> Erasures:
    """Erase one unit that hardly matters in some of the texts, in each way that there is: at most three answers a text.

    Args:
        rows: Which of the texts.
        keys: `text_key` of all the texts, which draw the unit.
    """
    chosen = [_unimportant(found, int(i), int(keys[i])) for i in rows]
    texts, before = found.encoded.select(rows), found.saliency.predictions[rows]
    mask = classifier.mask_token_id
    changed: dict[Erasure, Array] = {
        way: classifier.predict_logits(erased_texts(texts, chosen, mask, way)).argmax(1) != before
        for way in (("cut",) if mask is None else WAYS)
    }
    best: Erasure = "cut" if mask is None else "mask"
    for way in () if config.unit == "token" or mask is None else ("cut", "replace"):
        old, new = changed[best], changed[way]
        p_value = mcnemar_greater(int((old & ~new).sum()), int((new & ~old).sum()))
        if old.mean() - new.mean() >= MARGIN and p_value <= LEVEL:
            best = way
    counts: dict[str, Any] = {way: int(changed[way].sum()) if way in changed else None for way in WAYS}
    return Erasures(best if config.erasure == "auto" or mask is None else config.erasure, len(rows), **counts)


def _unimportant(found: Attributed, index: int, key: int) -> Array:
    """The tokens of a word that is not important, drawn by a hash; in a short text of one of the less important."""
    important = [int(unit) for unit in found.saliency.positions[index] if unit >= 0]
    units = [u for u, name in enumerate(found.units.keys[index]) if name and u not in important]
    words = [u for u in units if found.units.wordlike[index][u]] or units or important[len(important) // 2 :]
    return np.flatnonzero(found.units.of_token[index] == words[key % len(words)])
