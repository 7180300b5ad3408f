"""Finding flips: the texts whose answer changes when the words of a card are masked."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..audit import Card, find_repeats, masked_answers
from ..models import EncodedTexts, TextClassifier
from ..text import evidence_key, text_key
from ..typing import Progress
from .audited import AuditedCard
from .questions import Flip


def find_flips(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    cards: Iterable[AuditedCard | Card],
    *,
    progress: Progress | None = None,
) -> dict[str, list[Flip]]:
    """The flips of each card; of near-identical texts (case, digits, punctuation) the first alone.

    Args:
        classifier: The model.
        encoded: N texts.
        cards: Of an audit. All words of a card are masked at once.
        progress: Told how many cards are done.

    Returns:
        By card, its flips in the order of the texts. One forward pass for each text that holds a word of the card.
    """
    keys = [text_key(text) for text in encoded.texts], [evidence_key(text) for text in encoded.texts]
    distinct = np.flatnonzero(find_repeats(*keys).evidence)
    texts = encoded.select(distinct)
    probs = classifier.predict_proba(texts)
    found: dict[str, list[Flip]] = {}
    asked = list(cards)
    for done, card in enumerate(asked, start=1):
        seen = masked_answers(classifier, texts, card.words, kept=card.except_in, probs=probs).flips
        was, becomes, logs = (
            seen.before.argmax(axis=1),
            seen.after.argmax(axis=1),
            np.log(np.clip(seen.after, 1e-12, 1)),
        )
        found[card.id] = [
            Flip(int(distinct[row]), int(was[i]), int(becomes[i]), float(logs[i, becomes[i]] - logs[i, was[i]]))
            for i, row in enumerate(seen.rows)
        ]
        if progress is not None:
            progress("Masking cards", done, len(asked))
    return found
