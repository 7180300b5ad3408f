"""Any classifier as a reader of words: texts are split into words, and predicted without some of them."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np

from ..data import LabelNames, Texts, class_names, counted, label_ids
from ..errors import ModelError, RunError
from ..models import EncodedTexts, HeadReading, Merged, Spent, Windowing
from ..text import remaining_texts, text_key, word_spans
from ..typing import Array, Capability, Head, Progress, Text
from .mapped import Around
from .probabilities import log_probs
from .protocol import Classifier

ASKED_AGAIN = 16
"""Texts that are asked about twice, to see whether the answers are the same."""
SAME = 0.01
"""Probabilities that differ by no more than this are the same answer: batches of other sizes round otherwise."""
MOST_UNANSWERED = 0.05
"""The share of texts that may go without an answer."""


class WordReader(Around):
    """A `models.Reader` around any classifier. It cuts words out of texts as characters, and predicts the rest.

    A text is predicted once: its prediction is remembered for the life of the object. If there is none for a text
    without some words, that for the whole text is used, so that nothing seems to change.

    Attributes:
        spent: How many texts were predicted so far, without remembered ones, and the seconds.
    """

    head: Head = "softmax"
    precision: Any = "float32"
    max_length = longest = 2**31
    windows: Windowing | None = None
    merged: Merged | None = None
    mask_token_id: int | None = None
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, inner: Classifier) -> None:
        if len(inner.label_names) < 2:
            raise ModelError(f"'{inner.name}' has a single label. At least two are needed.")
        self.inner = inner
        self.label_names = self.own_label_names = tuple(inner.label_names)
        self.heads, self.spent = HeadReading("softmax", self.label_names), Spent()
        self._known: dict[int, Array] = {}

    @property
    def n_classes(self) -> int:
        """See `models.Reader`."""
        return len(self.label_names)

    def remembering(self) -> Self:
        """Itself; see above."""
        return self

    def named(self, names: LabelNames | None) -> Self:
        """See `models.Reader`; both share the remembered predictions."""
        twin = copy.copy(self)
        twin.label_names = self.label_names if names is None else class_names(names, self.own_label_names)
        return twin

    def label_ids(self, labels: Sequence[str | int], **where: Any) -> Array:
        """See `models.Reader`."""
        ids = label_ids(labels, self.label_names, own_names=self.own_label_names, **where)
        return np.array(ids, dtype=np.int64)

    def encode(self, texts: Texts, *, progress: Progress | None = None) -> EncodedTexts:
        """The words of N texts in place of tokens. Ids number the words of a text."""
        flags = np.zeros((2, len(texts)), dtype=bool)
        encoded = EncodedTexts(texts, [], None, [], [], [], *flags)
        for text in texts:
            sides = (text,) if isinstance(text, str) else text
            spans = [(start, end, side) for side, part in enumerate(sides) for start, end in word_spans(part)]
            found = np.array(spans, dtype=np.int32).reshape(-1, 3)
            encoded.input_ids.append(np.arange(len(found), dtype=np.int32))
            encoded.ordinary.append(np.ones(len(found), dtype=bool))
            encoded.offsets.append(found[:, :2])
            encoded.segments.append(found[:, 2].astype(np.int8))
        return encoded

    def predict_logits(self, encoded: EncodedTexts, *, progress: Progress | None = None) -> Array:
        """Logarithms of the probabilities, shape (N, C), float32."""
        return log_probs(self.predict_proba(encoded, progress=progress)).astype(np.float32)

    def predict_answers(self, encoded: EncodedTexts, *, progress: Progress | None = None) -> Array:
        """The same with an axis for the only question, shape (N, 1, C)."""
        return self.predict_logits(encoded, progress=progress)[:, None]

    def predict_proba(
        self, texts: Sequence[Text] | EncodedTexts, *, progress: Progress | None = None, again: bool = False
    ) -> Array:
        """See `models.Reader`.

        Raises:
            RunError: More than `MOST_UNANSWERED` of the texts have no prediction.
        """
        whole: Sequence[Text] = cast(Any, texts.texts if isinstance(texts, EncodedTexts) else texts)
        rest: Sequence[Text] = remaining_texts(texts) if isinstance(texts, EncodedTexts) else whole
        if again:
            return self.inner.predict_proba(list(rest), progress=progress, again=True)
        probs = self._answers(rest, progress)
        missing = np.flatnonzero(np.isnan(probs).any(axis=1))
        if len(missing):
            probs[missing] = self._answers([whole[int(i)] for i in missing], None)
            none = np.isnan(probs).any(axis=1)
            if none.sum() > MOST_UNANSWERED * len(whole):
                said = counted(len(whole), "text")
                raise RunError(f"'{self.name}' gave no answer to {int(none.sum())} of {said}, too many to go on.")
            probs[none] = 1 / self.n_classes
        return probs

    def _answers(self, texts: Sequence[Text], progress: Progress | None) -> Array:
        """Class probabilities, shape (N, C); NaN where there was no answer. Each text is asked about once."""
        keys = [text_key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self.spent.take(len(new))
            begun = time.perf_counter()
            found = self.inner.predict_proba(list(new.values()), progress=progress)
            self.spent.seconds += time.perf_counter() - begun
            self._known |= dict(zip(new, np.asarray(found, dtype=np.float64), strict=True))
        return np.array([self._known[key] for key in keys]).reshape(len(texts), self.n_classes)

    def steadiness(self, texts: Sequence[Text]) -> tuple[int, int]:
        """How many of some texts change their prediction when predicted again in another order; and of how many.

        This detects classifiers that reorder predictions, or sample them.
        """
        few = list(texts[:ASKED_AGAIN])
        before = self._answers(few, None)
        self.spent.take(len(few))
        after = np.asarray(self.inner.predict_proba(few[::-1], again=True))[::-1]
        return int((np.abs(np.nan_to_num(after - before)) > SAME).any(axis=1).sum()), len(few)
