"""Finding flips: the texts whose answer changes when the words of a card are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..audit import find_repeats
from ..models import EncodedTexts, TextClassifier
from ..text import WordFinder, evidence_key, masked_texts, text_key
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
    before = classifier.predict_logits(encoded.select(distinct), progress=progress).argmax(axis=1)
    found: dict[str, list[Flip]] = {}
    for done, (card, words) in enumerate(cards.items(), start=1):
        finder = WordFinder(words)
        tokens = [np.flatnonzero(finder.tokens(encoded, int(row))) for row in distinct]
        held = np.array([len(positions) > 0 for positions in tokens], dtype=bool)
        rows = distinct[held]
        after = np.zeros(0, dtype=np.int64)
        if len(rows):
            masked = masked_texts(
                encoded.select(rows), [t for t in tokens if len(t)], classifier.tokenizer.mask_token_id
            )
            after = classifier.predict_logits(masked).argmax(axis=1)
        pairs = zip(rows.tolist(), before[held].tolist(), after.tolist(), strict=True)
        found[card] = [Flip(row, was, becomes) for row, was, becomes in pairs if was != becomes]
        if progress is not None:
            progress("Masking cards", done, len(cards))
    return found
