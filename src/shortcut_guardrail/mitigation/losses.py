"""The masked contrastive loss of the paper (Section 3.3): embeddings in, scalar out."""

import torch
from torch import Tensor
from torch.nn import functional as F


def masked_contrastive_loss(
    anchors: Tensor, positives: Tensor, valid: Tensor | None = None, *, temperature: float = 0.1
) -> Tensor:
    """Symmetric InfoNCE between inputs and their masked variants, with same-slot negatives.

    For every slot j the variants p_1j ... p_Bj and the anchors a_1 ... a_B form one B x B problem, solved in both
    directions (paper, `L_con`): each variant has to find its anchor among all anchors, and each anchor its variant
    among the variants in the same slot. The sum is divided by twice the number of pairs, which is the paper's 1/(2Bk)
    when every input fills all k slots.

    Args:
        anchors: Embeddings of the inputs, shape (B, H); normalised here.
        positives: Embeddings of the masked variants, shape (B, K, H); normalised here.
        valid: Which slots are filled, shape (B, K), bool; an input with fewer than K ordinary tokens leaves its last
            slots empty. `None` means all are.
        temperature: tau, greater than 0.

    Returns:
        A scalar, 0 or more, in 32 bit. 0 for a single input: it has no negative.
    """
    anchors = F.normalize(anchors.float(), dim=-1)
    positives = F.normalize(positives.float(), dim=-1)
    if valid is None:
        valid = torch.ones(positives.shape[:2], dtype=torch.bool, device=positives.device)
    similarity = torch.einsum("ah,pkh->kap", anchors, positives) / temperature  # (K, B anchors, B positives)
    own = similarity.diagonal(dim1=1, dim2=2).T  # (B, K): each variant with its own anchor
    to_anchor = own - similarity.logsumexp(dim=1).T
    # An empty slot is no negative for anybody; its own row drops out of the sum below.
    similarity = similarity.masked_fill(~valid.T[:, None, :], float("-inf"))
    to_variant = own - similarity.logsumexp(dim=2).T
    return -(to_anchor[valid].sum() + to_variant[valid].sum()) / (2 * valid.sum().clamp(min=1))
