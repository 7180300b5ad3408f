"""Texts without a word or phrase, and texts with one put in: where it stands, and the copies in which it is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..models import EncodedTexts
from ..typing import Array, Erasure, Text
from .characters import UNSPACED
from .folding import in_word
from .units import words_as_units
from .words import word_spans


def erased_texts(
    encoded: EncodedTexts, positions: list[Array], mask_token_id: int | None, erasure: Erasure
) -> EncodedTexts:
    """N texts without the tokens at some positions, N arrays.

    Args:
        erasure: `mask` puts the mask token in their place, `cut` leaves them out (see `shortened_texts`), and
            `replace` puts other tokens of the same text there, which bring in nothing that it does not say.
    """
    if erasure == "cut":
        return shortened_texts(encoded, positions, mask_token_id)
    assert mask_token_id is not None  # who cannot mask is asked to cut
    if erasure == "mask":
        return masked_texts(encoded, positions, mask_token_id)
    replaced = masked_texts(encoded, positions, mask_token_id)
    for ids, ordinary, chosen in zip(replaced.input_ids, replaced.ordinary, positions, strict=True):
        if (others := ids[ordinary]).size:
            ids[chosen] = others[chosen * _SPREAD % len(others)]
    return replaced


_SPREAD = 2_654_435_761  # Knuth's multiplier: neighbouring places draw from all over the text, every time the same


def masked_texts(encoded: EncodedTexts, positions: list[Array], mask_token_id: int) -> EncodedTexts:
    """N texts with the tokens at some positions, N arrays, replaced by the mask token."""
    ids, ordinary = [x.copy() for x in encoded.input_ids], [x.copy() for x in encoded.ordinary]
    for i, chosen in enumerate(positions):
        ids[i][chosen], ordinary[i][chosen] = mask_token_id, False
    return replace(encoded, input_ids=ids, ordinary=ordinary)


def shortened_texts(encoded: EncodedTexts, positions: list[Array], mask_token_id: int | None) -> EncodedTexts:
    """N texts with the tokens at some positions, N arrays, cut out, and with them a comma that only set them apart.

    A text of which no ordinary token would be left has them masked instead, or stays as it is without a mask token.
    """
    cut = []
    for i, chosen in enumerate(positions):
        keep = np.ones(len(encoded.input_ids[i]), dtype=bool)
        keep[chosen] = False
        if len(chosen) and not (keep & encoded.ordinary[i]).any():
            one = encoded.select([i])
            left = one if mask_token_id is None else masked_texts(one, [chosen], mask_token_id)
            cut.append((left, np.arange(len(keep))))
            continue
        keep[_loose_commas(encoded, i, keep)] = False
        cut.append((encoded.select([i]), np.flatnonzero(keep)))
    fields: dict[str, Any] = {
        name: [getattr(one, name)[0][kept] for one, kept in cut] for name in encoded.token_fields()
    }
    return replace(encoded, **fields)


def remaining_texts(encoded: EncodedTexts) -> list[Text]:
    """What is left of N texts, in characters, where their tokens are words of which some were cut out."""
    left: list[Text] = []
    for i, text in enumerate(encoded.texts):
        sides = [text] if isinstance(text, str) else text
        kept = [encoded.offsets[i][encoded.segments[i] == side] for side in range(len(sides))]
        first, *second = (_remaining(part, spans[:, 0]) for part, spans in zip(sides, kept, strict=True))
        left.append((first, second[0]) if second else first)
    return left


def _remaining(text: str, kept: Array) -> str:
    """A text without the words that do not start at these places, and without the space that they leave."""
    words, stays = word_spans(text), set(kept.tolist())
    if len(words) == len(stays):
        return text
    found, end, cut = "", 0, 0  # where the last word that stays ends, and where the first one after it was cut out
    for at, (start, stop) in enumerate(words):
        if start in stays:
            if at and words[at - 1][0] not in stays:
                before, after = text[end:cut], text[words[at - 1][1] : start]
                found += _space_between(found, before, after, text[start])
            else:
                found += text[end:start]
            found, end = found + text[start:stop], stop
        elif not at or words[at - 1][0] in stays:
            cut = start
    return found + text[end:] if words[-1][0] in stays else found


def _space_between(found: str, before: str, after: str, following: str) -> str:
    """What stands between two words once those between them are gone: space where it would not fuse with a mark."""
    if not found:
        return ""
    if before and after:
        return before
    if not (in_word(found[-1]) and in_word(following)) or UNSPACED.match(found[-1]) or UNSPACED.match(following):
        return ""
    return before or after or " "


def with_insertions(
    encoded: EncodedTexts, bearing: EncodedTexts, positions: list[Array], *, max_length: int, rng: np.random.Generator
) -> EncodedTexts:
    """Each text with a shortcut put in, as it stands in one of the texts that hold one.

    What stands at the start of its text is put at the start, with the comma that sets it apart; anything else before a
    word drawn at random. Tokens are put in as they are; where the text gets too long, its end is cut.

    Args:
        encoded: N texts without a shortcut.
        bearing: Texts with one, at least one of them.
        positions: The tokens of their shortcuts.
    """
    patterns = [p for i, chosen in enumerate(positions) for p in _patterns(bearing, i, chosen)]
    words = words_as_units(encoded)
    new: dict[str, list[Array]] = {name: [] for name in encoded.token_fields()}
    for i in range(len(encoded)):
        source, first, last, at_start = patterns[int(rng.integers(len(patterns)))]
        starts = np.flatnonzero(np.diff(words.of_token[i], prepend=-1) > 0)
        place = int(starts[0] if at_start or len(starts) == 1 else rng.choice(starts[1:]))
        over = len(encoded.input_ids[i]) + (last - first) - max_length
        kept = np.arange(len(encoded.input_ids[i]))
        if over > 0:
            kept = np.delete(kept, np.flatnonzero(encoded.ordinary[i])[-over:])
        place = min(place, int(kept[-1]))
        for name, arrays in new.items():
            own, put = getattr(encoded, name)[i], getattr(bearing, name)[source][first:last]
            # The segment and the type are those of where it is put; the characters are of no text here.
            put = put if name in ("input_ids", "ordinary") else np.repeat(own[place : place + 1], last - first, 0)
            arrays.append(np.concatenate([own[kept[kept < place]], put, own[kept[kept >= place]]]))
    fields: dict[str, Any] = new
    return replace(encoded, **fields)


def _patterns(encoded: EncodedTexts, index: int, chosen: Array) -> list[tuple[int, int, int, bool]]:
    """Occurrences to copy: the text, first token, one past the last, and whether it opens the text."""
    keep = np.ones(len(encoded.input_ids[index]), dtype=bool)
    keep[chosen] = False
    keep[_loose_commas(encoded, index, keep)] = False
    opens = int(np.flatnonzero(encoded.ordinary[index])[0])
    return [(index, start, end, start == opens) for start, end in _runs(np.flatnonzero(~keep))]


def _loose_commas(encoded: EncodedTexts, index: int, keep: Array) -> list[int]:
    """Commas right after something cut out at the start of a clause, or right before something cut out at its end."""
    loose = []
    for start, end in _runs(np.flatnonzero(~keep)):
        before, after = _character(encoded, index, start - 1), _character(encoded, index, end)
        if after == "," and not before.isalnum():
            loose.append(end)
        elif before == "," and not after.isalnum():
            loose.append(start - 1)
    return loose


def _runs(positions: Array) -> list[tuple[int, int]]:
    """Runs of neighbouring numbers, as (first, one past the last)."""
    runs = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1) if len(positions) else []
    return [(int(run[0]), int(run[-1]) + 1) for run in runs]


def _character(encoded: EncodedTexts, index: int, position: int) -> str:
    """The characters of a token if they come from the text, else nothing."""
    if not 0 <= position < len(encoded.input_ids[index]) or encoded.segments[index][position] < 0:
        return ""
    start, end = encoded.offsets[index][position]
    return encoded.text_of(index, int(encoded.segments[index][position]))[start:end].strip()
