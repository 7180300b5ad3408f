"""What a few labelled texts say of candidates: the base answers each text that holds one with and without it.

Masking a shortcut fixes answers and raises the right class's probability; masking a legitimate word breaks them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..config import ShortcutConfig
from ..models import EncodedTexts, Reader
from ..stats import holm, mcnemar_greater, sign_flip_test
from ..text import WordFinder, erased_texts
from ..typing import Array, Erasure
from .named import Shortcut


@dataclass(frozen=True, eq=False)
class Paired:
    """What the n labelled texts that hold a candidate say of it.

    Attributes:
        fixed: Texts that the base answers wrongly, and rightly with it masked.
        broken: The other way round.
        changes: P(right class) with it masked minus without, shape (n,), each in [-1, 1].
    """

    n: int
    fixed: int
    broken: int
    changes: Array


def paired_evidence(
    classifier: Reader, items: list[Shortcut], support: EncodedTexts, labels: Array, erasure: Erasure = "mask"
) -> list[Paired]:
    """For each candidate what masking it, by this erasure, does to the answers to the labelled texts that hold it.

    `labels` are class ids, shape (n,). A text that is there again with the same label is no further evidence.
    """
    first = {
        (text, label): i for i, (text, label) in reversed(list(enumerate(zip(support.texts, labels, strict=True))))
    }
    once = np.array(sorted(first.values()), dtype=np.int64)
    probs = classifier.predict_proba(support)
    found = []
    for item in items:
        positions = WordFinder([item.text]).positions(support)
        rows = np.array([i for i in once if len(positions[i])], dtype=np.int64)
        after = np.zeros((0, probs.shape[1]))
        if len(rows):
            chosen = [positions[i] for i in rows]
            mask = classifier.mask_token_id
            after = classifier.predict_proba(erased_texts(support.select(rows), chosen, mask, erasure))
        right, before = labels[rows], probs[rows]
        was, is_ = (answers.argmax(axis=1) == right for answers in (before, after))
        at = np.arange(len(rows)), right
        fixed, broken = int((is_ & ~was).sum()), int((was & ~is_).sum())
        found.append(Paired(len(rows), fixed, broken, after[at] - before[at]))
    return found


def weigh(items: list[Shortcut], evidence: list[Paired], config: ShortcutConfig) -> list[Shortcut]:
    """Verdicts from the support set, by the rules of `ShortcutConfig`, on candidates in the order of their ranking.

    Candidates that neither the audit nor it names are left out, but for those that are listed.
    """
    worse = [mcnemar_greater(found.broken, found.fixed) for found in evidence]
    open_ = [i for i, item in enumerate(items[: config.max_considered]) if not item.evident]
    better = {i: sign_flip_test(evidence[i].changes) for i in open_}
    rejected = holm([better[i] for i in open_], [items[i].answers_held for i in open_], config.confirm_level)
    confirmed = {open_[j] for j in rejected if evidence[open_[j]].fixed > evidence[open_[j]].broken}
    weighed = []
    for i, (item, found) in enumerate(zip(items, evidence, strict=True)):
        seen = replace(item, n_support=found.n, fixed=found.fixed, broken=found.broken)
        many_answers = item.reason == "many predictions"
        if i in confirmed:
            weighed.append(replace(seen, verdict="confirmed", reason=None, p_value=better[i]))
        elif (item.evident or many_answers) and worse[i] <= config.clear_level:
            weighed.append(replace(seen, verdict="cleared", reason=None, p_value=worse[i]))
        elif item.evident:
            weighed.append(replace(seen, p_value=worse[i] if found.n else None))
        elif many_answers:
            fixes = item.verdict == "found" and found.fixed > found.broken
            weighed.append(replace(seen, verdict="found" if fixes else "cleared"))
    return weighed
