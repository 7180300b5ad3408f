"""A causal language model that is asked how probable some continuations of a text are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import RunError
from ..threads import Lock, one_at_a_time
from ..typing import Array, Progress
from .classifier import accepts, default_device, usable_length
from .weights import WeightsHash


class _Asked(NamedTuple):
    """One pass through the model, and what is read from it."""

    ids: list[int]  # what goes in: the prompt with all of a continuation but its last token
    row: int  # the prompt it belongs to
    read: list[tuple[int, list[int]]]  # for each continuation that it answers, its place and its tokens
    start: int  # where the token is that the first of these follows


class CausalModel:
    """A Transformers causal language model and its fast tokenizer, frozen.

    A prompt with its continuation has `max_length` tokens at most, or what the model can take if that is less.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_length: int = 1024,
        batch_size: int = 16,
        device: str | torch.device | None = None,
    ) -> None:
        self.tokenizer, self.batch_size = tokenizer, batch_size
        self.max_length = min(max_length, usable_length(model, tokenizer, None))
        self.device = torch.device(device) if device is not None else default_device()
        self.model = model.to(self.device).eval().requires_grad_(False)
        self._hash, self._lock = WeightsHash(), Lock()
        special = (re.escape(str(token)) for token in tokenizer.added_tokens_decoder.values() if token.special)
        self._special = re.compile("|".join(sorted(special, key=len, reverse=True)) or "(?!)")
        self._keeps_last = accepts(model, "logits_to_keep")
        self._takes_positions = accepts(model, "position_ids")

    def fingerprint(self) -> str:
        """SHA-256 over its weights; see `TextClassifier.fingerprint`."""
        return self._hash.of(self.model)

    def as_text(self, text: str) -> str:
        """A text that spells no special token: a space parts what the tokenizer would take for one ("< /s>")."""
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def n_tokens(self, text: str) -> int:
        """Tokens of a text, those that the tokenizer adds included."""
        return len(self._ids(text))

    @one_at_a_time
    def beginning(self, text: str, most: int) -> str:
        """As much of a text's beginning as `most` tokens hold."""
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ends = [end for _, end in found["offset_mapping"]]
        return text if len(ends) <= most else text[: ends[most - 1] if most > 0 else 0]

    @torch.inference_mode()
    def continuation_logprobs(
        self, prompts: Sequence[str], continuations: Sequence[str], *, progress: Progress | None = None
    ) -> Array:
        """Log-probability of each continuation after each prompt, summed over its tokens, shape (N, C), float64.

        No continuation may begin with another whole one.
        """
        asked = [one for row, prompt in enumerate(prompts) for one in self._passes(row, prompt, continuations)]
        asked.sort(key=lambda one: len(one.ids), reverse=True)
        out = np.full((len(prompts), len(continuations)), np.nan)
        for start in range(0, len(asked), self.batch_size):
            self._run(asked[start : start + self.batch_size], out)
            if progress is not None:
                progress("Asking", min(start + self.batch_size, len(asked)), len(asked))
        if not np.isfinite(out).all():
            raise RunError(
                "The language model's log-probabilities are not finite numbers. Check its weights, or use float32."
            )
        return out

    def _passes(self, row: int, prompt: str, continuations: Sequence[str]) -> list[_Asked]:
        """The passes that answer one prompt: one alone if the continuations differ in their last token only.

        A tokenizer may join the end of the prompt with what follows it, so that what all have in common decides.
        """
        wholes = [self._ids(prompt + continuation) for continuation in continuations]
        shared = len(self._ids(prompt))
        for whole in wholes:
            while whole[:shared] != wholes[0][:shared] or shared >= len(whole):
                shared -= 1
        if shared < 1:
            raise RunError(f"The prompt {prompt!r} has no token of its own that a label could follow.")
        passes: list[_Asked] = []
        for place in sorted(range(len(wholes)), key=lambda i: -len(wholes[i])):
            ids, tokens = wholes[place][:-1], wholes[place][shared:]
            within = next((one for one in passes if one.ids[: len(ids)] == ids), None)
            if within is None:
                passes.append(_Asked(ids, row, [(place, tokens)], shared - 1))
            else:
                within.read.append((place, tokens))
        return passes

    @one_at_a_time
    def _run(self, asked: Sequence[_Asked], out: Array) -> None:
        longest = len(asked[0].ids)
        # Padded on the left, so that what is read lies at the end; there alone the vocabulary is computed.
        last = max(len(one.ids) - one.start for one in asked)
        ids = torch.full((len(asked), longest), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros_like(ids)
        for at, one in enumerate(asked):
            ids[at, longest - len(one.ids) :] = torch.tensor(one.ids)
            mask[at, longest - len(one.ids) :] = 1
        inputs = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if self._takes_positions:
            inputs["position_ids"] = (mask.cumsum(dim=1) - 1).clamp(min=0).to(self.device)
        if self._keeps_last:
            # As places, not as a number: a slice of the states makes PyTorch copy the vocabulary's matrix B times.
            inputs["logits_to_keep"] = torch.arange(longest - last, longest, device=self.device)
        logits = self.model(**inputs, use_cache=False).logits[:, -last:].float()  # (B, K, vocabulary)
        norms = logits.logsumexp(dim=-1)
        for at, one in enumerate(asked):
            first = last - (len(one.ids) - one.start)
            for place, tokens in one.read:
                steps = torch.arange(first, first + len(tokens), device=logits.device)
                values = logits[at, steps, torch.tensor(tokens, device=logits.device)] - norms[at, steps]
                out[one.row, place] = float(values.double().sum())

    @one_at_a_time
    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, verbose=False)["input_ids"]
        return ids
