"""Gradient x input scores of every token, and the choice of the top k (paper Section 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..config import SaliencyConfig
from ..models import Batch, EncodedTexts, TextClassifier, gather_shares, n_processes, own_share
from ..typing import Array, Progress


@dataclass(frozen=True)
class Saliency:
    """The important tokens of N texts, and the predictions they explain.

    Attributes:
        positions: Token positions of the important tokens, highest score first, shape (N, K), int32; -1 where a text
            has fewer than K ordinary tokens.
        scores: Their scores s_i, shape (N, K); NaN where empty. 0 or more, higher is more important.
        margin_scores: The same scores before the factor 1 - P(predicted class), shape (N, K). They rank alike within
            a text, and unlike `scores` stay apart from zero when the model is confident.
        predictions: Predicted class ids, shape (N,).
        probs: Class probabilities, shape (N, C).
    """

    positions: Array
    scores: Array
    margin_scores: Array
    predictions: Array
    probs: Array


class TokenScores(NamedTuple):
    """Scores of one batch.

    Attributes:
        scores: Margin-form score of every position, shape (B, L), 32 bit; multiply by `tempering` for the paper's s_i.
        tempering: 1 - P(predicted class), shape (B,), exact for confident predictions too.
        logits: Class logits, shape (B, C).
    """

    scores: Tensor
    tempering: Tensor
    logits: Tensor


def margin(logits: Tensor) -> Tensor:
    """How far the predicted class leads: its logit minus the log-sum-exp of all others, shape (B,).

    The cross-entropy of the prediction is softplus(-margin), so its gradient is -(1 - p) times the margin's, exactly,
    and both rank tokens alike. In floating point they do not: 1 - p rounds to 0 from a gap of about 17 on, while
    the other logits' gradients do not yet, so the direction goes wrong before the size does.
    """
    top, index = logits.max(dim=-1)
    others = logits.scatter(-1, index[:, None], float("-inf"))
    return top - others.logsumexp(dim=-1)


def token_scores(classifier: TextClassifier, batch: Batch, config: SaliencyConfig | None = None) -> TokenScores:
    """s_i = || dCE(f(x), y_hat)/de_i * e_i ||_2 for every position of a batch (paper Section 3.2).

    One forward pass and one backward pass to the word embeddings; no gradient is left anywhere. Texts do not influence
    each other, so the gradient of the sum is each text's own.

    Args:
        classifier: The model; its weights ask for no gradient.
        batch: B texts.
        config: `gradient` chooses the form; with `cross_entropy` the scores are the paper's as they come out of
            floating point, and `tempering` is 1.
    """
    literal = config is not None and config.gradient == "cross_entropy"
    with torch.enable_grad(), classifier.word_embedding_leaf() as leaves:
        logits = classifier.logits(batch)
        if literal:
            target = torch.nn.functional.cross_entropy(logits, logits.argmax(dim=-1), reduction="sum")
        else:
            target = margin(logits).sum()
        (gradient,) = torch.autograd.grad(target, leaves)
    scores = classifier.per_token((gradient.float() * leaves[0].detach().float()).norm(dim=-1), batch)
    logits = logits.detach()
    # 1 - p = sigmoid(-margin): subtracting from 1 would round to 0.
    tempering = torch.ones_like(logits[:, 0]) if literal else torch.sigmoid(-margin(logits))
    return TokenScores(scores, tempering, logits)


def top_positions(scores: Tensor, ordinary: Tensor, k: int) -> Tensor:
    """The k highest-scoring ordinary positions of each text, shape (B, k), highest first, -1 where there are fewer.

    Ties go to the earlier position.

    Args:
        scores: Shape (B, L).
        ordinary: Which positions may be chosen, shape (B, L), bool.
    """
    masked = scores.masked_fill(~ordinary, float("-inf"))
    values, order = masked.sort(dim=-1, descending=True, stable=True)
    chosen = order[:, :k].masked_fill(values[:, :k] == float("-inf"), -1)
    missing = k - chosen.shape[1]
    return torch.nn.functional.pad(chosen, (0, missing), value=-1) if missing > 0 else chosen


def find_important_tokens(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    config: SaliencyConfig | None = None,
    *,
    progress: Progress | None = None,
) -> Saliency:
    """Score all texts and keep the k most important tokens of each, the paper's H(x).

    Several processes share the texts, and each returns the result for all.

    Args:
        classifier: The model whose predictions are explained.
        encoded: N texts.
        config: k and the form of the gradient.
    """
    config = config or SaliencyConfig()
    own = encoded.select(range(len(encoded))[own_share(len(encoded))]) if n_processes() > 1 else encoded
    found = most_important(classifier, own, config, lambda batch, scores: (scores, batch.ordinary), progress)
    parts = (getattr(found, field.name) for field in fields(Saliency))
    return Saliency(
        *(gather_shares(torch.from_numpy(part).to(classifier.device), len(encoded)).cpu().numpy() for part in parts)
    )


def most_important(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    config: SaliencyConfig,
    grouped: Callable[[Batch, Tensor], tuple[Tensor, Tensor]],
    progress: Progress | None,
) -> Saliency:
    """The k most important places of each text, in this process.

    Args:
        encoded: N texts.
        config: k and the form of the gradient.
        grouped: Gives the scores of a batch's places, shape (B, P), from those of its tokens, and which may be chosen.
    """
    n, k = len(encoded), config.top_k
    positions = np.full((n, k), -1, dtype=np.int32)
    scores = np.full((n, k), np.nan, dtype=np.float32)
    margin_scores = scores.copy()
    probs = np.empty((n, classifier.n_classes), dtype=np.float32)
    done = 0
    for batch in classifier.batches(encoded):
        result = token_scores(classifier, batch, config)
        of_places, present = grouped(batch, result.scores)
        chosen = top_positions(of_places, present, k)
        kept = of_places.gather(1, chosen.clamp(min=0)).masked_fill(chosen < 0, float("nan"))
        positions[batch.indices] = chosen.cpu().numpy()
        margin_scores[batch.indices] = kept.cpu().numpy()
        scores[batch.indices] = (kept * result.tempering[:, None]).cpu().numpy()
        probs[batch.indices] = result.logits.softmax(dim=-1).cpu().numpy()
        done += len(batch.indices)
        if progress is not None:
            progress("Attributing", done, n)
    return Saliency(positions, scores, margin_scores, probs.argmax(axis=-1), probs)
