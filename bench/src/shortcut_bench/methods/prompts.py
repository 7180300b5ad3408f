"""Soft prompts as ordinary tokens: trained rows of the embedding table that the tokenizer puts in front of every text.

The result is an ordinary Transformers classifier with an ordinary tokenizer, which attribution, saving and loading need
to know nothing about.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from tokenizers import processors
from torch import Tensor

from shortcut_guardrail.errors import ModelError

from ..finetuning import Objective, seeded


def prompt_token(number: int) -> str:
    """The name of a prompt token."""
    return f"[PROMPT{number}]"


def add_prompt(model: Any, tokenizer: Any, length: int, *, seed: int) -> tuple[Any, Any, list[int]]:
    """Copies of a model and its tokenizer with `length` prompt tokens after the first token of every input.

    A prompt token starts as the vector of a random word of the vocabulary.

    Args:
        model: A Transformers sequence classifier.
        tokenizer: Its fast tokenizer.
        length: Prompt tokens, at least 1.
        seed: Chooses the words.

    Returns:
        Model, tokenizer, and the ids of the prompt tokens.

    Raises:
        ModelError: The model's inputs are too short for the prompt.
    """
    tokens = [prompt_token(number) for number in range(length)]
    tokenizer = copy.deepcopy(tokenizer)
    limit = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 10**9))
    if limit < length + 8:
        raise ModelError(f"A prompt of {length} tokens leaves no room for texts in inputs of {limit} tokens.")
    n_words = len(tokenizer)
    tokenizer.add_special_tokens({"extra_special_tokens": tokens})
    ids: list[int] = tokenizer.convert_tokens_to_ids(tokens)
    tokenizer.backend_tokenizer.post_processor = _with_prompt(tokenizer, tokens, ids)
    model = copy.deepcopy(model)
    with seeded(seed):
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    vectors = model.get_input_embeddings().weight
    words = torch.randint(n_words, (length,), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        vectors[ids] = vectors[words]
    return model, tokenizer, ids


def _with_prompt(tokenizer: Any, tokens: list[str], ids: list[int]) -> Any:
    """The tokenizer's own template with the prompt after its first token; read off what it makes of a word."""
    specials: dict[str, int] = dict(zip(tokens, ids, strict=True))

    def template(*texts: str) -> list[str]:
        encoding = tokenizer(*[[text] for text in texts]).encodings[0]
        pieces: list[str] = []
        for token, token_id, kind, segment in zip(
            encoding.tokens, encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True
        ):
            name = token if segment is None else "$A" if segment == 0 else "$B"
            if segment is None:
                specials[token] = token_id
            if not (segment is not None and pieces and pieces[-1] == f"{name}:{kind}"):
                pieces.append(f"{name}:{kind}")
        return [pieces[0], *(f"{token}:0" for token in tokens), *pieces[1:]]

    single, pair = template("a"), template("a", "a")
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=list(specials.items()))


def train_prompt_only(ids: list[int]) -> Objective:
    """Cross-entropy with the encoder frozen but for the vectors of the prompt tokens; the head is trained."""
    return _PromptOnly(ids)


class _PromptOnly(Objective):
    def __init__(self, ids: list[int]) -> None:
        self._ids = ids

    def begin(self, model: Any, tokenizer: Any) -> None:
        model.base_model.requires_grad_(False)
        vectors = model.get_input_embeddings().weight.requires_grad_(True)
        keep = torch.zeros(len(vectors), 1, device=vectors.device)
        keep[self._ids] = 1.0

        def only_prompt(gradient: Tensor) -> Tensor:
            return gradient * keep

        vectors.register_hook(only_prompt)
