"""Finding flips: the texts whose answer changes when the words of a card are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..audit import find_repeats, masked_answers
from ..models import EncodedTexts, TextClassifier
from ..text import evidence_key, text_key
from ..typing import Progress
from .questions import Flip


def find_flips(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    cards: Mapping[str, Sequence[str]],
    *,
    progress: Progress | None = None,
) -> dict[str, list[Flip]]:
    """The flips of each card; of near-identical texts (case, digits, punctuation) the first alone.

    Args:
        classifier: The model.
        encoded: N texts.
        cards: The words of each card, by its id. All words are masked at once.
        progress: Told how many cards are done.

    Returns:
        By card, its flips in the order of the texts. One forward pass for each text that holds a word of the card.
    """
    keys = [text_key(text) for text in encoded.texts], [evidence_key(text) for text in encoded.texts]
    distinct = np.flatnonzero(find_repeats(*keys).evidence)
    texts = encoded.select(distinct)
    probs = classifier.predict_proba(texts)
    found: dict[str, list[Flip]] = {}
    for done, (card, words) in enumerate(cards.items(), start=1):
        seen = masked_answers(classifier, texts, words, probs=probs).flips
        pairs = zip(distinct[seen.rows], seen.before.argmax(axis=1), seen.after.argmax(axis=1), strict=True)
        found[card] = [Flip(int(row), int(was), int(becomes)) for row, was, becomes in pairs]
        if progress is not None:
            progress("Masking cards", done, len(cards))
    return found
