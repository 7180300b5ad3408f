"""Gradient x input scores of every token or word, and the choice of the top k (paper Section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..config import SaliencyConfig
from ..models import Batch, EncodedTexts, TextClassifier, gather_shares, n_processes, own_share
from ..text import Units
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
        # A model that answers a batch twice has two leaves, and each text depends on one of them.
        gradient = torch.stack(torch.autograd.grad(target, leaves)).sum(dim=0)
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
    units: Units | None = None,
    progress: Progress | None = None,
) -> Saliency:
    """Score all texts and keep the k most important tokens of each, the paper's H(x), or the k most important units.

    A unit's score is the root of the summed squares of its tokens' scores: the norm of gradient times input over all
    of its tokens, as s_i is over one. Several processes share the texts where tokens are looked for, and each returns
    the result for all.

    Args:
        units: The units to score in place of tokens; `positions` then holds their ids.
    """
    config = config or SaliencyConfig()
    if units is not None or n_processes() == 1:
        return _most_important(classifier, encoded, config, units, progress)
    own = encoded.select(range(len(encoded))[own_share(len(encoded))])
    found = _most_important(classifier, own, config, None, progress)
    parts = (getattr(found, field.name) for field in fields(Saliency))
    return Saliency(
        *(gather_shares(torch.from_numpy(part).to(classifier.device), len(encoded)).cpu().numpy() for part in parts)
    )


def _most_important(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    config: SaliencyConfig,
    units: Units | None,
    progress: Progress | None,
) -> Saliency:
    n, k = len(encoded), config.top_k
    positions = np.full((n, k), -1, dtype=np.int32)
    scores = np.full((n, k), np.nan, dtype=np.float32)
    margin_scores = scores.copy()
    probs = np.empty((n, classifier.n_classes), dtype=np.float32)
    done = 0
    for batch in classifier.batches(encoded):
        result = token_scores(classifier, batch, config)
        of_places, present = result.scores, batch.ordinary
        if units is not None:
            of_places, present = _sum_by_unit(of_places, pad_units(units, batch))
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


def pad_units(units: Units, batch: Batch) -> Tensor:
    """The unit of each token of a batch, shape (B, L), -1 for padding and for tokens that are not ordinary: those that
    nothing is attributed to, and those that a guard has taken out of the batch."""
    out = np.full(tuple(batch.input_ids.shape), -1, dtype=np.int64)
    for row, i in enumerate(batch.indices):
        out[row, : len(units.of_token[i])] = units.of_token[i]
    return torch.from_numpy(out).to(batch.input_ids.device).masked_fill(~batch.ordinary, -1)


def _sum_by_unit(scores: Tensor, of_token: Tensor) -> tuple[Tensor, Tensor]:
    """Root of the summed squares of each unit's scores, shape (B, U), and which units there are."""
    ordinary = of_token >= 0
    index = of_token.clamp(min=0)
    summed = scores.new_zeros(len(scores), int(index.max()) + 1)
    squares = summed.scatter_add(1, index, scores.square().masked_fill(~ordinary, 0.0))
    present = summed.scatter_add(1, index, ordinary.to(summed.dtype)) > 0
    return squares.sqrt(), present
