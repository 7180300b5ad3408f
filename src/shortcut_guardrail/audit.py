"""Important tokens over a corpus, ranked as candidates for being shortcuts, each with its evidence."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .config import SaliencyConfig
from .encoder import EncodedTexts, Progress, TextClassifier
from .errors import DataError
from .metrics import mstps, sensitivity
from .saliency import Saliency, find_important_tokens
from .sensitivity import MaskingEffects, masking_effects

Array = np.ndarray[Any, np.dtype[Any]]

AUDIT_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ImportantToken:
    """One important token of one text.

    Attributes:
        text: The token's characters, lower case; `##` marks a piece from inside a word.
        position: Its position among the tokens.
        start: First character in the text (or in the pair, if `segment` is 1).
        end: One past the last character.
        segment: 0 for the text, 1 for its pair.
        score: Saliency s_i, 0 or more.
        change: P(predicted class) with the token masked minus without; negative when the token holds the prediction up.
        flips: Whether masking it changes the predicted class.
    """

    text: str
    position: int
    start: int
    end: int
    segment: int
    score: float
    change: float
    flips: bool


@dataclass(frozen=True)
class Candidate:
    """A token that is important in some texts: a question to a person, not a verdict.

    Attributes:
        text: The token's characters, lower case.
        count: Number of texts in which it is among the important tokens.
        flip_rate: Share of those whose prediction changes when it is masked.
        mean_change: Mean of P(predicted class) with the token masked minus without, in [-1, 1].
        pulls_to: The class predicted most often where masking the token lowers that class's probability; `None` if
            it never does.
        mean_rank: Mean rank among the important tokens, 1 is the most important.
    """

    text: str
    count: int
    flip_rate: float
    mean_change: float
    pulls_to: str | None
    mean_rank: float


@dataclass(frozen=True)
class AuditReport:
    """What a model leans on, over N texts.

    Attributes:
        n: Number of texts.
        top_k: Important tokens per text.
        label_names: Names of the classes.
        predicted: How many texts were given each class, in the order of `label_names`.
        mstps: Maximum single-token prediction sensitivity, in [0, 1].
        candidates: All tokens that are important anywhere, those that hold up the most probability first.
        n_truncated: Texts longer than the model takes.
        encoded: The texts as the model saw them.
        saliency: Important tokens and predictions of each text.
        effects: Predictions with each important token masked.
    """

    n: int
    top_k: int
    label_names: tuple[str, ...]
    predicted: tuple[int, ...]
    mstps: float
    candidates: tuple[Candidate, ...]
    n_truncated: int
    encoded: EncodedTexts
    saliency: Saliency
    effects: MaskingEffects

    def important_tokens(self, index: int) -> tuple[ImportantToken, ...]:
        """The important tokens of one text, the most important first."""
        predicted = int(self.saliency.predictions[index])
        before = float(self.saliency.probs[index, predicted])
        tokens = []
        for slot, position in enumerate(self.saliency.positions[index]):
            if position < 0:
                break
            after = self.effects.probs[index, slot]
            start, end = (int(x) for x in self.encoded.offsets[index][position])
            tokens.append(
                ImportantToken(
                    text=self.encoded.token_text(index, int(position)),
                    position=int(position),
                    start=start,
                    end=end,
                    segment=int(self.encoded.segments[index][position]),
                    score=float(self.saliency.scores[index, slot]),
                    change=float(after[predicted]) - before,
                    flips=int(after.argmax()) != predicted,
                )
            )
        return tuple(tokens)

    def input_to_dict(self, index: int) -> dict[str, Any]:
        """One text's answer and its important tokens, JSON-ready; the only words of the text in it are those tokens."""
        predicted = int(self.saliency.predictions[index])
        tokens = self.important_tokens(index)
        return {
            "index": index,
            "label": self.label_names[predicted],
            "probability": round(float(self.saliency.probs[index, predicted]), 6),
            "sensitivity": max(abs(token.change) for token in tokens),
            "important_tokens": [asdict(token) for token in tokens],
        }

    @property
    def sensitivity(self) -> Array:
        """Each text's term in MSTPS, shape (N,), in [0, 1]."""
        original, masked = self._predicted_probabilities()
        return sensitivity(original, masked)

    def _predicted_probabilities(self) -> tuple[Array, Array]:
        return predicted_probabilities(self.saliency, self.effects)

    def to_dict(self, *, max_candidates: int | None = None) -> dict[str, Any]:
        """A JSON-ready dictionary without the texts themselves.

        Args:
            max_candidates: Only the first so many; `None` for all.
        """
        return {
            "schema_version": AUDIT_SCHEMA_VERSION,
            "n": self.n,
            "top_k": self.top_k,
            "n_truncated": self.n_truncated,
            "predicted": dict(zip(self.label_names, self.predicted, strict=True)),
            "mstps": self.mstps,
            "candidates": [asdict(candidate) for candidate in self.candidates[:max_candidates]],
        }


def audit_texts(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    config: SaliencyConfig | None = None,
    *,
    saliency: Saliency | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Attribute, mask and rank: 2 + k forward passes a text.

    Args:
        classifier: The model under audit.
        encoded: N texts.
        config: k and the form of the gradient.
        saliency: Important tokens found before, to save finding them again.
        progress: Told how much of each stage is done.

    Raises:
        DataError: A text has no ordinary token.
    """
    config = config or SaliencyConfig()
    check_ordinary(encoded)
    if saliency is None:
        saliency = find_important_tokens(classifier, encoded, config, progress=progress)
    effects = masking_effects(classifier, encoded, saliency.positions, progress=progress)
    return AuditReport(
        n=len(encoded),
        top_k=config.top_k,
        label_names=classifier.label_names,
        predicted=tuple(int((saliency.predictions == c).sum()) for c in range(classifier.n_classes)),
        mstps=mstps(*predicted_probabilities(saliency, effects)),
        candidates=rank_candidates(encoded, saliency, effects, classifier.label_names),
        n_truncated=int(encoded.truncated.sum()),
        encoded=encoded,
        saliency=saliency,
        effects=effects,
    )


def check_ordinary(encoded: EncodedTexts) -> None:
    """Refuse texts in which nothing can be masked.

    Raises:
        DataError: Names the first few of them.
    """
    empty = [i + 1 for i, ordinary in enumerate(encoded.ordinary) if not ordinary.any()]
    if empty:
        some = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        raise DataError(
            f"{len(empty)} of {len(encoded)} texts hold nothing but special tokens, so there is nothing to attribute "
            f"(text {some}). Remove them."
        )


def predicted_probabilities(saliency: Saliency, effects: MaskingEffects) -> tuple[Array, Array]:
    """P(y_hat | x), shape (N,), and P(y_hat | x with one token masked), shape (N, K)."""
    rows = np.arange(len(saliency.predictions))
    return saliency.probs[rows, saliency.predictions], effects.probability_of(saliency.predictions)


def rank_candidates(
    encoded: EncodedTexts, saliency: Saliency, effects: MaskingEffects, label_names: tuple[str, ...]
) -> tuple[Candidate, ...]:
    """Group important tokens by their characters and rank them by the probability they hold up in all.

    A token counts once per text, where it scores highest. The rank is the sum over texts of how far the predicted
    class's probability falls when the token is masked: it rewards frequent tokens with a large effect.
    """
    before, masked = predicted_probabilities(saliency, effects)
    changes = masked - before[:, None]
    flips = effects.predictions() != saliency.predictions[:, None]
    occurrences: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i in range(len(encoded)):
        seen: set[str] = set()
        for slot, position in enumerate(saliency.positions[i]):
            if position < 0:
                break
            text = encoded.token_text(i, int(position))
            if text and text not in seen:
                seen.add(text)
                occurrences[text].append((i, slot))
    ranked = []
    for text, places in occurrences.items():
        rows, slots = (np.array(x) for x in zip(*places, strict=True))
        change = changes[rows, slots]
        held_up = saliency.predictions[rows[change < 0]]
        candidate = Candidate(
            text=text,
            count=len(places),
            flip_rate=float(flips[rows, slots].mean()),
            mean_change=float(change.mean()),
            pulls_to=label_names[int(np.bincount(held_up).argmax())] if len(held_up) else None,
            mean_rank=float(slots.mean() + 1),
        )
        ranked.append((float(change.sum()), candidate))
    return tuple(candidate for _, candidate in sorted(ranked, key=lambda pair: (pair[0], pair[1].text)))
