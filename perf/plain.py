"""The same work written plainly with Transformers, PEFT and captum: what a careful, and a careless, user would write.

Nothing here comes from the library, so these are references for its results as well as for its time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from captum.attr import InputXGradient
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.nn import functional as F


def batches(texts: list[str], size: int) -> Iterator[list[str]]:
    """The texts in the order they come in."""
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def tokenized(model: Any, tokenizer: Any, texts: list[str], pad_to: int | None) -> dict[str, Tensor]:
    """Padded to the longest of the batch, or to a fixed length, and where the model is."""
    padding = {"padding": "max_length", "max_length": pad_to} if pad_to else {"padding": True, "max_length": 512}
    inputs = tokenizer(texts, truncation=True, return_tensors="pt", **padding)
    return {name: value.to(model.device) for name, value in inputs.items()}


def ordinary(tokenizer: Any, ids: Tensor) -> Tensor:
    """Which tokens may be masked."""
    special = torch.tensor(sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}))
    return ~torch.isin(ids, special.to(ids.device))


def margin_of(logits: Tensor) -> Tensor:
    """The predicted class's logit minus the log-sum-exp of the others, shape (B,)."""
    top, index = logits.max(dim=-1)
    return top - logits.scatter(-1, index[:, None], float("-inf")).logsumexp(dim=-1)


def from_embeddings(model: nn.Module, inputs: dict[str, Tensor]) -> Any:
    """The model as a function of word embeddings."""

    def forward(embeddings: Tensor) -> Tensor:
        rest = {name: value for name, value in inputs.items() if name != "input_ids"}
        return margin_of(model(inputs_embeds=embeddings, **rest).logits)

    return forward


def gradient_times_input(model: Any, tokenizer: Any, texts: list[str], pad_to: int | None = None) -> list[Tensor]:
    """One text at a time, as most explainers do it."""
    scores = []
    for text in texts:
        inputs = tokenized(model, tokenizer, [text], pad_to)
        embeddings = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(from_embeddings(model, inputs)(embeddings).sum(), embeddings)
        scores.append((gradient * embeddings.detach()).norm(dim=-1)[0])
    return scores


def captum_scores(model: Any, tokenizer: Any, texts: list[str], *, batch_size: int = 32) -> list[Tensor]:
    """captum's InputXGradient in batches, padded to each batch's longest."""
    scores = []
    for part in batches(texts, batch_size):
        inputs = tokenized(model, tokenizer, part, None)
        embeddings = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
        product = InputXGradient(from_embeddings(model, inputs)).attribute(embeddings)
        norms = product.detach().norm(dim=-1)
        scores.extend(row[mask.bool()] for row, mask in zip(norms, inputs["attention_mask"], strict=True))
    return scores


def captum_audit(model: Any, tokenizer: Any, texts: list[str], *, k: int = 10) -> float:
    """Mean fall of the predicted class's probability when each of the k top tokens is masked, text by text."""
    falls = []
    for text, scores in zip(texts, captum_scores(model, tokenizer, texts), strict=True):
        inputs = tokenized(model, tokenizer, [text], None)
        allowed = ordinary(tokenizer, inputs["input_ids"])[0]
        top = scores.masked_fill(~allowed, -1).topk(min(k, int(allowed.sum()))).indices
        copies = inputs["input_ids"].repeat(len(top), 1)
        copies[torch.arange(len(top)), top] = tokenizer.mask_token_id
        with torch.no_grad():
            before = model(**inputs).logits.softmax(dim=-1)
            rest = {n: v.repeat(len(top), 1) for n, v in inputs.items() if n != "input_ids"}
            after = model(input_ids=copies, **rest).logits.softmax(dim=-1)
        predicted = int(before.argmax())
        falls.append(float((before[0, predicted] - after[:, predicted]).abs().mean()))
    return float(np.mean(falls))


def adapt(
    model: Any,
    tokenizer: Any,
    texts: list[str],
    *,
    batch_size: int = 16,
    k: int = 10,
    pad_to: int | None = None,
    all_weights: bool = False,
    seed: int = 0,
) -> list[float]:
    """One epoch of masked contrastive learning; returns each step's loss.

    Args:
        model: A BERT classifier. It is wrapped in place, so hand in a copy.
        tokenizer: Its tokenizer.
        texts: Deployment texts.
        batch_size: Inputs per step.
        k: Variants per input.
        pad_to: Pad everything to this length; `None` pads to the longest of the batch.
        all_weights: Leave every weight asking for a gradient, as a fresh model does.
        seed: For the order and LoRA's start.
    """
    torch.manual_seed(seed)
    if not all_weights:
        model.requires_grad_(False)
    important = _important(model, tokenizer, texts, k, pad_to, one_by_one=all_weights)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["query", "value"], lora_dropout=0.0)
    with warnings.catch_warnings():
        # PEFT asks Transformers for an attribute that Transformers is renaming.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        adapted = get_peft_model(model, lora)
    adapted.requires_grad_(all_weights)
    trained = [p for name, p in adapted.named_parameters() if "lora_" in name]
    for parameter in trained:
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0)
    order = np.random.default_rng(seed).permutation(len(texts))
    losses = []
    for start in range(0, len(texts), batch_size):
        rows = order[start : start + batch_size]
        loss = _loss(model.bert, tokenizer, [texts[i] for i in rows], [important[i] for i in rows], k, pad_to)
        loss.backward()
        optimizer.step()
        adapted.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def _important(
    model: Any, tokenizer: Any, texts: list[str], k: int, pad_to: int | None, *, one_by_one: bool
) -> list[list[int]]:
    """Positions of the k tokens with the largest gradient of the cross-entropy times input."""
    chosen = []
    for part in batches(texts, 1 if one_by_one else 32):
        inputs = tokenized(model, tokenizer, part, pad_to)
        embeddings = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
        rest = {name: value for name, value in inputs.items() if name != "input_ids"}
        logits = model(inputs_embeds=embeddings, **rest).logits
        loss = F.cross_entropy(logits, logits.argmax(dim=-1), reduction="sum")
        loss.backward()  # with weights that ask for a gradient this computes theirs as well
        scores = (embeddings.grad * embeddings.detach()).norm(dim=-1)
        allowed = ordinary(tokenizer, inputs["input_ids"])
        for row, mask in zip(scores.masked_fill(~allowed, -1), allowed, strict=True):
            chosen.append(row.topk(min(k, int(mask.sum()))).indices.tolist())
        model.zero_grad()
    return chosen


def _loss(
    encoder: Any, tokenizer: Any, texts: list[str], positions: list[list[int]], k: int, pad_to: int | None
) -> Any:
    inputs = tokenized(encoder, tokenizer, texts, pad_to)
    b = len(texts)
    rows = [i for i in range(b) for _ in positions[i]]
    ids = torch.cat([inputs["input_ids"], inputs["input_ids"][rows]])
    masked = [position for row in positions for position in row]
    ids[torch.arange(b, len(ids)), torch.tensor(masked)] = tokenizer.mask_token_id
    rest = {n: torch.cat([v, v[rows]]) for n, v in inputs.items() if n != "input_ids"}
    embedded = F.normalize(encoder(input_ids=ids, **rest).last_hidden_state[:, 0], dim=-1)
    anchors, variants = embedded[:b], embedded[b:]
    slot_of = [j for i in range(b) for j in range(len(positions[i]))]
    total, pairs = 0.0, 0
    for j in range(k):
        here = [at for at, slot in enumerate(slot_of) if slot == j]
        if not here:
            continue
        own = torch.tensor([rows[at] for at in here], device=variants.device)
        similarity = variants[here] @ anchors.T / 0.1  # (variants in slot j, B)
        total = total + F.cross_entropy(similarity, own, reduction="sum")
        total = total + F.cross_entropy(similarity.T[own], torch.arange(len(here), device=own.device), reduction="sum")
        pairs += len(here)
    return total / (2 * pairs)
