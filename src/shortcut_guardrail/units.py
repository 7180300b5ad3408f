"""Tokens grouped to words, and words to phrases, by the characters they come from; their scores; their masking.

What counts as a word:

- A run of letters, digits and combining marks. An apostrophe or an underscore between two of them belongs to the word
  ("don't", "book_club"), a hyphen does not ("e-book" is three units).
- In scripts written without spaces (Chinese, Japanese, Thai and others) every token is a word of its own.
- A run of one punctuation mark ("!!!") is a word, and so is an emoji with all that modifies it.
- Characters without width or that only steer the writing direction belong to the word around them.

A token is part of every word it has a character in, so words that share a token are one unit: nothing smaller can be
masked. This holds for WordPiece, byte-level BPE, whose tokens can be parts of a character, and SentencePiece, whose
tokens can be nothing but the space before a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .characters import APOSTROPHES, UNSPACED
from .config import SaliencyConfig
from .encoder import Batch, EncodedTexts, Progress, TextClassifier
from .masking import mask_spans
from .saliency import Saliency, token_scores, top_positions
from .sensitivity import MaskingEffects

Array = np.ndarray[Any, np.dtype[Any]]

MAX_PHRASE_WORDS = 5
"""Longest phrase, in words: "as a matter of fact"."""

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:['_][A-Za-z0-9]+)*|([^\sA-Za-z0-9])\1*")
_FOLD_APOSTROPHES = str.maketrans(dict.fromkeys(APOSTROPHES, "'"))
_JOINERS = "\u200c\u200d"  # of no width but part of the spelling in some scripts, and of composed emoji

_Kind = Literal["space", "extend", "word", "unspaced", "flag", "other"]


@cache
def _kind(character: str) -> _Kind:
    category = unicodedata.category(character)
    if category[0] == "M" or category == "Cf" or 0x1F3FB <= ord(character) <= 0x1F3FF:
        return "extend"
    if character.isspace() or category[0] in "ZC":
        return "space"
    if UNSPACED.match(character):
        return "unspaced"
    if character.isalnum():
        return "word"
    return "flag" if 0x1F1E6 <= ord(character) <= 0x1F1FF else "other"


def word_spans(text: str) -> list[tuple[int, int]]:
    """Character spans of the words of a text, in order; see the head of this module for what a word is.

    Example:
        >>> text = "Don't stop!! :)"
        >>> [text[start:end] for start, end in word_spans(text)]
        ["Don't", 'stop', '!!', ':', ')']
    """
    if text.isascii():
        return [match.span() for match in _ASCII_WORD.finditer(text)]
    spans: list[tuple[int, int]] = []
    start, base = -1, -1  # where the open word starts, and its last character that is more than a modifier
    for i, character in enumerate(text):
        kind = _kind(character)
        if start >= 0 and (kind == "extend" or _joined(text, start, base, i)):
            base = base if kind == "extend" else i
            continue
        if start >= 0:
            spans.append((start, i))
        start, base = (-1, -1) if kind == "space" else (i, i)
    return [*spans, (start, len(text))] if start >= 0 else spans


def _joined(text: str, start: int, base: int, i: int) -> bool:
    """Whether character i continues the word that starts at `start` and whose last character proper is at `base`."""
    before, here = text[base], text[i]
    kinds = _kind(before), _kind(here)
    if kinds[0] == "extend":  # nothing but what has no width so far
        return kinds[1] != "space"
    if "space" in kinds or "unspaced" in kinds:
        return False
    if text[i - 1] == "\u200d" and "word" not in kinds:  # emoji are composed with it
        return True
    if kinds == ("flag", "flag"):
        return base == start
    if kinds == ("word", "word"):
        return True
    connector = APOSTROPHES + "_"
    if kinds[0] == "word" and here in connector:
        return i + 1 < len(text) and _kind(text[i + 1]) == "word"
    if kinds[1] == "word" and before in connector:
        return base > start and _kind(text[start]) in ("word", "extend")
    return before == here and kinds[0] == "other"


def unit_key(text: str) -> str:
    """What two spellings of a unit have in common: case, apostrophes, accents and invisible characters are made alike.

    Example:
        >>> unit_key("I’m\\u200b"), unit_key("I'M")
        ("i'm", "i'm")
    """
    folded = unicodedata.normalize("NFC", text.casefold()).translate(_FOLD_APOSTROPHES)
    if not folded.isascii():
        folded = "".join(c for c in folded if c in _JOINERS or unicodedata.category(c) != "Cf")
    return " ".join(folded.strip().split())


@dataclass(frozen=True)
class Units:
    """The units of N texts.

    Attributes:
        of_token: The unit of each token, N arrays of shape (L,), int32, ascending in each text; -1 for tokens that are
            not ordinary.
        spans: Character span and segment of each unit, N arrays of shape (U, 3): start, end, segment.
        keys: What each unit is as a candidate, N lists of U strings; see `unit_key`.
        wordlike: Whether each unit holds a letter or digit, N bool arrays of shape (U,). Phrases are made of those.
    """

    of_token: list[Array]
    spans: list[Array]
    keys: list[list[str]]
    wordlike: list[Array]

    def __len__(self) -> int:
        return len(self.of_token)


def tokens_as_units(encoded: EncodedTexts) -> Units:
    """Every ordinary token is a unit by itself, and its id is its position: the paper's reading."""
    of_token, spans, keys, wordlike = [], [], [], []
    for i, ordinary in enumerate(encoded.ordinary):
        of_token.append(np.where(ordinary, np.arange(len(ordinary)), -1).astype(np.int32))
        spans.append(np.column_stack([encoded.offsets[i], encoded.segments[i]]).astype(np.int32))
        names = [encoded.token_text(i, p) if ordinary[p] else "" for p in range(len(ordinary))]
        keys.append(names)
        wordlike.append(np.array([any(c.isalnum() for c in name) for name in names], dtype=bool))
    return Units(of_token, spans, keys, wordlike)


def words_as_units(encoded: EncodedTexts) -> Units:
    """Ordinary tokens grouped to words by their character offsets."""
    of_token, spans, keys, wordlike = [], [], [], []
    for i in range(len(encoded)):
        units, found = _words_of(encoded, i)
        names = [unit_key(encoded.text_of(i, max(segment, 0))[start:end]) for start, end, segment in found.tolist()]
        of_token.append(units)
        spans.append(found)
        keys.append(names)
        wordlike.append(np.array([any(c.isalnum() for c in name) for name in names], dtype=bool))
    return Units(of_token, spans, keys, wordlike)


def _words_of(encoded: EncodedTexts, index: int) -> tuple[Array, Array]:
    """The unit of each token of one text, and the span of each unit."""
    units = np.full(len(encoded.input_ids[index]), -1, dtype=np.int32)
    spans: list[tuple[int, int, int]] = []
    for segment in (0, 1):
        tokens = np.flatnonzero(encoded.ordinary[index] & (encoded.segments[index] == segment))
        if not len(tokens):
            continue
        text = encoded.text_of(index, segment)
        at = np.full(len(text) + 1, -1, dtype=np.int32)
        for word, (start, end) in enumerate(word_spans(text)):
            at[start:end] = word
        groups = _group(at, encoded.offsets[index][tokens])
        for group in groups:
            members = tokens[group]
            units[members] = len(spans)
            spans.append((*_extent(text, encoded.offsets[index][members]), segment))
    return units, np.array(spans, dtype=np.int32).reshape(-1, 3)


def _group(at: Array, offsets: Array) -> list[list[int]]:
    """Lists of neighbouring tokens that touch a common word; tokens without a character go with the next ones."""
    groups: list[list[int]] = []
    pending: list[int] = []
    last = -1  # the last word that the open group touches
    for token, (start, end) in enumerate(offsets.tolist()):
        touched = at[start:end]
        touched = touched[touched >= 0]
        if not len(touched):
            pending.append(token)
        elif groups and touched[0] <= last:
            groups[-1] += [*pending, token]
            pending, last = [], max(last, int(touched[-1]))
        else:
            groups.append([*pending, token])
            pending, last = [], int(touched[-1])
    if pending:
        if not groups:
            return [pending]
        groups[-1] += pending
    return groups


def _extent(text: str, offsets: Array) -> tuple[int, int]:
    """Where the characters of some tokens stand, accents that the tokenizer took off included, white space not."""
    start, end = int(offsets[:, 0].min()), int(offsets[:, 1].max())
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    piece = text[start:end]
    lead = len(piece) - len(piece.lstrip())
    return (start + lead, start + len(piece.rstrip())) if piece.strip() else (start, end)


def find_important_units(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    units: Units,
    config: SaliencyConfig,
    *,
    progress: Progress | None = None,
) -> Saliency:
    """Score all units and keep the k most important ones of each text.

    A unit's score is the root of the summed squares of its tokens' scores: the norm of gradient times input over all
    of its tokens, as s_i is over one.

    Returns:
        As `saliency.find_important_tokens` does, but `positions` holds unit ids, shape (N, K), -1 where empty.
    """
    n, k = len(encoded), config.top_k
    chosen_units = np.full((n, k), -1, dtype=np.int32)
    scores = np.full((n, k), np.nan, dtype=np.float32)
    margin_scores = scores.copy()
    probs = np.empty((n, classifier.n_classes), dtype=np.float32)
    done = 0
    for batch in classifier.batches(encoded):
        result = token_scores(classifier, batch, config)
        summed, present = _sum_by_unit(result.scores, pad_units(units, batch))
        chosen = top_positions(summed, present, k)
        kept = summed.gather(1, chosen.clamp(min=0)).masked_fill(chosen < 0, float("nan"))
        chosen_units[batch.indices] = chosen.cpu().numpy()
        margin_scores[batch.indices] = kept.cpu().numpy()
        scores[batch.indices] = (kept * result.tempering[:, None]).cpu().numpy()
        probs[batch.indices] = result.logits.softmax(dim=-1).cpu().numpy()
        done += len(batch.indices)
        if progress is not None:
            progress("Attributing", done, n)
    return Saliency(chosen_units, scores, margin_scores, probs.argmax(axis=-1), probs)


def pad_units(units: Units, batch: Batch) -> Tensor:
    """The unit of each token of a batch, shape (B, L), -1 for padding and for tokens that are not ordinary: those that
    nothing is attributed to, and those that a guard has taken out of the batch."""
    out = np.full(tuple(batch.input_ids.shape), -1, dtype=np.int64)
    for row, i in enumerate(batch.indices):
        out[row, : len(units.of_token[i])] = units.of_token[i]
    return torch.from_numpy(out).to(batch.input_ids.device).masked_fill(~batch.ordinary, -1)


def _sum_by_unit(scores: Tensor, of_token: Tensor) -> tuple[Tensor, Tensor]:
    """Root of the summed squares of each unit's scores, shape (B, U), and which units there are."""
    width = int(of_token.max().item()) + 1 if of_token.numel() else 0
    ordinary = of_token >= 0
    index = of_token.clamp(min=0)
    squares = torch.where(ordinary, scores.square(), torch.zeros_like(scores))
    summed = scores.new_zeros(len(scores), max(width, 1)).scatter_add_(1, index, squares)
    present = torch.zeros_like(summed).scatter_add_(1, index, ordinary.to(summed.dtype)) > 0
    return summed.sqrt(), present


@torch.inference_mode()
def span_effects(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    units: Units,
    first: Array,
    last: Array,
    *,
    stage: str = "Masking",
    progress: Progress | None = None,
) -> MaskingEffects:
    """Predict every text with one span of units masked at a time.

    Args:
        classifier: The model that answers.
        encoded: N texts.
        units: Their units.
        first: First unit of each span, shape (N, K), -1 for an empty slot.
        last: Last unit of each span, the same shape; equal to `first` for single units.
        stage: What to call this to `progress`.
        progress: Told how many texts are done.
    """
    n, k = first.shape
    probs = np.full((n, k, classifier.n_classes), np.nan, dtype=np.float32)
    done = 0
    for batch in classifier.batches(encoded, sequences_per_text=max(k, 1)):
        device = batch.input_ids.device
        bounds = (torch.from_numpy(x[batch.indices].astype(np.int64)).to(device) for x in (first, last))
        variants = mask_spans(
            batch.input_ids, pad_units(units, batch), *bounds, mask_token_id=classifier.tokenizer.mask_token_id
        )
        if len(variants.rows):
            logits = classifier.logits(batch.copies(variants.input_ids, variants.rows))
            rows = batch.indices[variants.rows.cpu().numpy()]
            probs[rows, variants.slots.cpu().numpy()] = logits.softmax(dim=-1).cpu().numpy()
        done += len(batch.indices)
        if progress is not None:
            progress(stage, done, n)
    return MaskingEffects(probs)


def recurring_phrases(
    units: Units, important: Array, *, min_count: int, known: Iterable[str] = (), max_words: int = MAX_PHRASE_WORDS
) -> set[str]:
    """Neighbouring words that recur and begin and end with an important word: what may be a phrase.

    No effect of masking has a say here, so that tests of the effects stay valid.

    Args:
        units: Words of N texts.
        important: The important words of each text, shape (N, K), -1 where empty.
        min_count: In how many texts a phrase has to occur.
        known: Phrases found before, such as in earlier shards; they need not recur here.
        max_words: Longest phrase.
    """
    counts: Counter[str] = Counter()
    for i in range(len(units)):
        counts.update({units_text(units, i, *span) for span in phrase_spans(units, important, i, max_words)})
    return {phrase for phrase, count in counts.items() if count >= min_count} | set(known)


def phrase_spans(units: Units, important: Array, index: int, max_words: int) -> list[tuple[int, int]]:
    """Spans (first, last) of 2 to `max_words` neighbouring words of one text whose ends are important."""
    ends = {int(unit) for unit in important[index] if unit >= 0}
    wordlike, segments = units.wordlike[index], units.spans[index][:, 2]
    spans = []
    for first in sorted(ends):
        for last in range(first + 1, min(first + max_words, len(wordlike))):
            if not wordlike[first : last + 1].all() or segments[last] != segments[first]:
                break
            if last in ends:
                spans.append((first, last))
    return spans


def units_text(units: Units, index: int, first: int, last: int) -> str:
    """The words of a span with single spaces between them."""
    return " ".join(units.keys[index][first : last + 1])


def choose_spans(
    units: Units, important: Array, phrases: Container[str], max_words: int = MAX_PHRASE_WORDS
) -> tuple[Array, Array]:
    """Where given phrases stand, and what is left of them without their first or last word.

    Returns:
        First and last unit of each span, for `span_effects`, both of shape (N, S), -1 where empty. Single words are
        left out: their effects are known.
    """
    found = []
    for i in range(len(units)):
        spans = set()
        for a, b in phrase_spans(units, important, i, max_words):
            if units_text(units, i, a, b) in phrases:
                spans |= {(a, b), (a + 1, b), (a, b - 1)}
        found.append(sorted(span for span in spans if span[0] < span[1]))
    width = max(map(len, found), default=0)
    first = np.full((len(units), width), -1, dtype=np.int32)
    last = first.copy()
    for i, spans_of_text in enumerate(found):
        for slot, (a, b) in enumerate(spans_of_text):
            first[i, slot], last[i, slot] = a, b
    return first, last
