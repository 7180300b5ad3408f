"""The guardrail's MaskCL on tokens that another attribution than gradient x input calls important.

docs/research/methods/controls.md says what each is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch

from shortcut_guardrail.attribution import find_important_tokens, masking_effects
from shortcut_guardrail.config import GuardrailConfig
from shortcut_guardrail.errors import ModelError
from shortcut_guardrail.mitigation import texts_drawn
from shortcut_guardrail.models import EncodedTexts, TextClassifier, share_weights

from .controls import RandomMaskCL
from .ltgr import integrated_gradients
from .training import require

Array = np.ndarray[Any, np.dtype[Any]]
Attribution = Literal["gradient", "integrated-gradients", "attention", "leave-one-out"]


def top_ordinary(scores: list[Array], encoded: EncodedTexts, k: int) -> Array:
    """The k ordinary tokens of each text with the highest scores, shape (N, k), int32, -1 where there are fewer.

    Of equals the earlier first, as the guardrail has it.

    Args:
        scores: N arrays of shape (L,).
        encoded: N texts.
        k: How many.
    """
    positions = np.full((len(encoded), k), -1, dtype=np.int32)
    for row, (values, ordinary) in enumerate(zip(scores, encoded.ordinary, strict=True)):
        places = np.flatnonzero(ordinary)
        leading = places[np.argsort(-values[places], kind="stable")[:k]]
        positions[row, : len(leading)] = leading
    return positions


@torch.inference_mode()
def attention_scores(classifier: TextClassifier, encoded: EncodedTexts) -> list[Array]:
    """How much the first token attends to each token in the last layer, mean over heads: N arrays of shape (L,).

    In [0, 1]; each sums to 1. Attention is computed in the plain way, since fused kernels do not give it.

    Raises:
        ModelError: The model gives no attention, or its first token sees nothing of the text, as in a decoder.
    """
    model: Any = share_weights(classifier.plain_model)
    model.set_attn_implementation("eager")
    scores: dict[int, Array] = {}
    for batch in classifier.batches(encoded):
        with classifier.autocast():
            given = model(**batch.model_inputs(), output_attentions=True).attentions
        if not given:
            raise ModelError(f"A '{model.config.model_type}' model gives no attention. Take another attribution.")
        of_first = given[-1][:, :, 0].float().mean(dim=1)  # (B, L)
        if not bool((of_first.masked_fill(~batch.ordinary, 0.0) > 0).any()):
            raise ModelError(
                f"The first token of a '{model.config.model_type}' model attends to no token of the text, as in a "
                "decoder. Take another attribution."
            )
        for row, index in enumerate(batch.indices.tolist()):
            scores[index] = of_first[row, : len(encoded.input_ids[index])].cpu().numpy()
    return [scores[index] for index in range(len(encoded))]


def leave_one_out_scores(classifier: TextClassifier, encoded: EncodedTexts) -> list[Array]:
    """1 - P(y_hat | x with one token masked), for every ordinary token: N arrays of shape (L,), NaN for the others.

    It ranks the tokens of a text as the drop in P(y_hat) does, and is summed over the other classes: 1 - P would be 0
    where the prediction is confident.
    """
    most = max((int(ordinary.sum()) for ordinary in encoded.ordinary), default=0)
    positions = top_ordinary([np.zeros(len(ids)) for ids in encoded.input_ids], encoded, max(most, 1))
    predicted = classifier.predict_logits(encoded).argmax(axis=1)
    probs = masking_effects(classifier, encoded, positions).probs.copy()
    probs[np.arange(len(encoded)), :, predicted] = 0.0
    others = probs.sum(axis=2)
    scores = [np.full(len(ids), np.nan, dtype=np.float32) for ids in encoded.input_ids]
    for row, places in enumerate(positions):
        places = places[places >= 0]
        scores[row][places] = others[row, : len(places)]
    return scores


@dataclass(frozen=True)
class AttributedMaskCL(RandomMaskCL):
    """The guardrail with another attribution: steps, number of tokens, preset and calibration are the guardrail's.

    Attributes:
        attribution: `gradient` is the guardrail's own.
        steps: Points on the path of integrated gradients.
    """

    name: str = "guardrail-ig"
    attribution: Attribution = "integrated-gradients"
    steps: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        known = get_args(Attribution)
        require(
            self.attribution in known, f"attribution must be one of {', '.join(known)}, but is {self.attribution!r}."
        )
        require(self.steps >= 1, f"steps must be at least 1, but is {self.steps}.")

    def _masked(
        self, base: TextClassifier, encoded: EncodedTexts, guard: GuardrailConfig, seed: int
    ) -> tuple[Array, float]:
        drawn = texts_drawn(encoded, guard.adapter, seed=seed)
        positions = np.full((len(encoded), guard.saliency.top_k), -1, dtype=np.int32)
        positions[drawn], cost = self._most_important(base, encoded.select(drawn), guard)
        return positions, cost

    def _most_important(
        self, base: TextClassifier, encoded: EncodedTexts, guard: GuardrailConfig
    ) -> tuple[Array, float]:
        """Positions of the important tokens of N texts, shape (N, k), and the forward equivalents."""
        k, n = guard.saliency.top_k, len(encoded)
        if self.attribution == "gradient":
            return find_important_tokens(base, encoded, guard.saliency).positions, 2.0 * n
        if self.attribution == "attention":
            return top_ordinary(attention_scores(base, encoded), encoded, k), float(n)
        if self.attribution == "leave-one-out":
            n_variants = sum(int(ordinary.sum()) for ordinary in encoded.ordinary)
            return top_ordinary(leave_one_out_scores(base, encoded), encoded, k), float(n + n_variants)
        predicted = base.predict_logits(encoded).argmax(axis=1)
        found = integrated_gradients(base, encoded, predicted, steps=self.steps)
        return top_ordinary(found.scores, encoded, k), (1.0 + 2 * self.steps) * n
