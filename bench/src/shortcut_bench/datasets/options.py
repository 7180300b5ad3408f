"""What every builder is asked for, and the cap on the number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import ConfigError

_CHUNK = 1024


@dataclass(frozen=True)
class BuildOptions:
    """The options that all builders have; see `build`.

    Attributes:
        data_dir: The folder with the data, or None for the Hub.
        seed: Seed of every draw.
        n_train: Number of training texts, or None for as many as the data allow.
        n_test: Number of texts in each test set, or None for as many as the data allow.
        max_tokens: Tokens per input, special tokens included, or None for whole texts.
        tokenizer: What counts them.
    """

    data_dir: Path | None
    seed: int = 0
    n_train: int | None = None
    n_test: int | None = None
    max_tokens: int | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        _check_count("seed", self.seed, 0)
        for name in ("n_train", "n_test", "max_tokens"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name), 1)
        if self.max_tokens is not None and not getattr(self.tokenizer, "is_fast", False):
            found = "there is none" if self.tokenizer is None else f"{type(self.tokenizer).__name__} is not one"
            raise ConfigError(f"max_tokens needs a fast tokenizer to count the tokens with, but {found}.")

    def generator(self, stream: int = 0) -> np.random.Generator:
        """A new generator from the seed; a builder takes one, or one of another stream for draws of another kind."""
        return np.random.default_rng([self.seed, stream] if stream else self.seed)

    def cap(self, texts: Texts, phrases: Sequence[str] = ()) -> Texts:
        """The texts cut to `max_tokens`, with room left for the longest of some phrases; as they are without a cap.

        Args:
            texts: N texts or pairs.
            phrases: What may be inserted into a text later.

        Raises:
            ConfigError: `max_tokens` leaves no room for text.
        """
        if self.max_tokens is None:
            return texts
        lengths = [len(self.tokenizer(phrase, add_special_tokens=False)["input_ids"]) for phrase in phrases]
        budget = self.max_tokens - max(lengths, default=0)
        pair = bool(texts) and not isinstance(texts[0], str)
        special = self.tokenizer.num_special_tokens_to_add(pair=pair)
        if budget < special + 1 + pair:
            raise ConfigError(
                f"max_tokens is {self.max_tokens}, which leaves no token for the text beside {special} special tokens "
                f"and up to {max(lengths, default=0)} inserted ones. Raise it."
            )
        return _cut(texts, self.tokenizer, budget)

    def hub_splits(self, least_train: int, least_test: int, per_row: int = 2) -> tuple[str, str]:
        """The first rows of a large Hub data set's training and test splits: so many, or more for larger sets.

        Args:
            least_train: Training rows to read at least.
            least_test: Test rows to read at least.
            per_row: How many rows to read for each that is asked for.
        """
        return (
            f"train[:{max(least_train, per_row * (self.n_train or 0))}]",
            f"test[:{max(least_test, per_row * (self.n_test or 0))}]",
        )

    def to_dict(self) -> dict[str, Any]:
        """What a result says about these options, JSON-ready; folder and tokenizer's place are left out."""
        return {"source": "hub" if self.data_dir is None else "files", "seed": self.seed, "max_tokens": self.max_tokens}


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, but is {value!r}.")


def _cut(texts: Texts, tokenizer: Any, budget: int) -> Texts:
    """Texts or pairs cut to `budget` tokens, special tokens included; what fits is the same object as before."""
    cut: list[Any] = []
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        for text, encoding in zip(chunk, _encodings(tokenizer, chunk, budget), strict=True):
            cut.append(_fitting(text, tokenizer, budget) if encoding.overflowing else text)
    return cast(Texts, cut)


def _encodings(tokenizer: Any, texts: Sequence[Any], budget: int) -> Any:
    columns = (list(texts),) if isinstance(texts[0], str) else tuple(map(list, zip(*texts, strict=True)))
    return tokenizer(*columns, truncation=True, max_length=budget, padding=False).encodings


def _fitting(text: Any, tokenizer: Any, budget: int) -> Any:
    """The beginning of a text or pair that has no more than `budget` tokens.

    A byte-level tokenizer may end its tokens inside a character; the whole character is then a token too many, and the
    next shorter cut is taken.
    """
    special = tokenizer.num_special_tokens_to_add(pair=not isinstance(text, str))
    for limit in range(budget, special, -1):
        cut = _visible(text, _encodings(tokenizer, [text], limit)[0])
        if not all(part.strip() for part in ((cut,) if isinstance(cut, str) else cut)):
            break
        if not _encodings(tokenizer, [cut], budget)[0].overflowing:
            return cut
    # A byte-level tokenizer counts blanks at the end as well.
    stripped = text.rstrip() if isinstance(text, str) else tuple(part.rstrip() for part in text)
    if stripped != text:
        return _fitting(stripped, tokenizer, budget)
    raise ConfigError("max_tokens is so small that nothing is left of some texts. Raise it.")


def _visible(text: str | tuple[str, str], encoding: Any) -> str | tuple[str, str]:
    parts = (text,) if isinstance(text, str) else text
    ends = [0] * len(parts)
    for segment, (_, end) in zip(encoding.sequence_ids, encoding.offsets, strict=True):
        if segment is not None:
            ends[segment] = max(ends[segment], end)
    shortened = [_whole_words(part, end) for part, end in zip(parts, ends, strict=True)]
    return shortened[0] if isinstance(text, str) else (shortened[0], shortened[1])


def _whole_words(text: str, end: int) -> str:
    """The text up to `end`, less a word that would be cut there: "books" must not become "book"."""
    head = text[:end]
    if not text[end:].strip():
        return text
    if text[end].isspace():
        return head
    words = head.rsplit(None, 1)
    # Writing without spaces has no such words; most of the text would go.
    return words[0] if len(words) == 2 and len(words[0]) > len(head) // 2 else head
