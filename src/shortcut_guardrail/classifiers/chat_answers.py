"""What a chat model's answer says of labels: by the tokens that were likely in it, or by counting sampled ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from ..text import visible_name
from ..typing import Array
from .probabilities import log_softmax
from .secret import Secret

MOST_TOKENS = 16  # of an answer
_MOST_CHARACTERS = 200


class ChatAnswer(TypedDict):
    """What is kept of a response: its words, who gave it, and by token the likely ones with log-probabilities."""

    content: str
    model: str
    tokens: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]


def read_answer(response: Mapping[str, Any], secret: Secret) -> dict[str, Any]:
    """A `ChatAnswer`; a choice that is missing or malformed is an answer without words."""
    said, tokens = "", []
    try:
        choice = response["choices"][0]
        said = str(choice["message"]["content"] or "")
        tokens = [_step(one) for one in (choice.get("logprobs") or {}).get("content") or []]
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        pass
    spelled = "".join(token for token, _ in tokens)  # a key, perhaps, of which each was too short to be known
    model = visible_name(str(response.get("model", "")))[:_MOST_CHARACTERS]
    tokens = tokens[:MOST_TOKENS] if secret.out_of(spelled) == spelled else []
    return {"content": said[:_MOST_CHARACTERS], "model": model, "tokens": tokens}


def _step(values: Mapping[str, Any]) -> list[Any]:
    """A token of the answer with the likely ones in its place: [token, [[token, log-probability], ...]]."""
    likely = {str(one["token"]): float(one["logprob"]) for one in [*(values.get("top_logprobs") or []), values]}
    finite = [[token, value] for token, value in likely.items() if math.isfinite(value)]
    return [str(values["token"]), finite]


def token_scores(tokens: Sequence[Any], phrases: Sequence[str]) -> Array | None:
    """Log-probabilities of labels, shape (C,), from an answer's tokens and the likely ones in their places.

    Along the answer, each likely token is counted for the label that it leaves as the only one; what several labels
    begin with is followed to the token where they part. A label that is not among the likely ones gets what is left
    there, at most the least of them. `None` if no label is among the likely ones.
    """
    answers = [_plain(phrase) for phrase in phrases]
    mass = np.zeros(len(answers))
    said, before, least = "", 0.0, 0.0
    for token, likely in tokens:
        least = min([before + value for _, value in likely], default=before)
        for other, value in likely:
            fits = _fitting(said + other, answers)
            if len(fits) == 1:
                mass[fits[0]] += math.exp(before + value)
        said, before = said + token, before + dict(likely).get(token, 0.0)
        if len(_fitting(said, answers)) <= 1:
            break
    else:
        if _plain(said).strip() in answers:
            mass[answers.index(_plain(said).strip())] += math.exp(before)
    if not mass.any():
        return None
    floor = min(math.exp(least), float(mass[mass > 0].min()))
    return np.asarray(log_softmax(np.log(np.maximum(mass, floor))[None])[0])


def sample_scores(contents: Sequence[str], phrases: Sequence[str]) -> Array | None:
    """Log-probabilities of labels from sampled answers, shape (C,), with half an answer added to each.

    `None` if no answer names a label.
    """
    answers = [_plain(phrase) for phrase in phrases]
    counts = np.zeros(len(answers))
    for content in contents:
        counts[_said(_plain(content), answers)] += 1
    return np.log((counts + 0.5) / (counts.sum() + 0.5 * len(counts))) if counts.any() else None


def _plain(words: str) -> str:
    return words.casefold().lstrip(" \t\r\n\"'*`([{")


def _fitting(said: str, answers: Sequence[str]) -> list[int]:
    """The answers that what was said so far may become, or the longest that it has become already."""
    words = _plain(said)
    return [i for i, answer in enumerate(answers) if answer.startswith(words)] or _said(words, answers)


def _said(words: str, answers: Sequence[str]) -> list[int]:
    """The longest answer that some words begin with, if any."""
    named = [i for i, answer in enumerate(answers) if words.startswith(answer)]
    return [max(named, key=lambda i: len(answers[i]))] if named else []
