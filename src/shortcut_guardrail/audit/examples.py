"""What a person can check of a candidate: the texts with the largest effect, and what labels say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..metrics import GroupAccuracy
from ..stats import exact_interval, paired_p_value
from ..typing import Array
from .context import Shards
from .evidence import Example, ImportantToken, LabelledEvidence
from .measurements import Shard

TextsOf = Callable[[Sequence[int]], Mapping[int, str | tuple[str, str]]]
"""Gives the texts (or pairs) of some inputs."""


@dataclass(frozen=True)
class Details:
    """Examples and labelled evidence of one candidate; see `evidence.Candidate`."""

    examples: tuple[Example, ...] = ()
    labelled: LabelledEvidence | None = None


class _Collected:
    """What is collected of one candidate, shard by shard."""

    def __init__(self, n_classes: int) -> None:
        self.examples: list[tuple[float, dict[str, Any]]] = []
        self.right = np.zeros(2, dtype=np.int64)  # texts answered correctly, and with the candidate masked
        self.flips = np.zeros(3, dtype=np.int64)  # to right, to wrong, between wrong
        self.n = 0
        self.held = np.zeros((n_classes, 2), dtype=np.int64)  # texts of each label that hold it, and the correct ones

    def add_example(self, shard: Shard, occurrence: int, limit: int, label_names: tuple[str, ...]) -> None:
        change = abs(_change(shard, occurrence))
        if len(self.examples) < limit or (limit and change > self.examples[-1][0]):
            self.examples.append((change, _example(shard, occurrence, label_names)))
            self.examples.sort(key=lambda entry: (-entry[0], entry[1]["index"]))
            del self.examples[limit:]

    def add_label(self, label: int, answer: int, rest: int) -> None:
        self.n += 1
        self.right += (int(answer == label), int(rest == label))
        if rest != answer:
            self.flips[0 if rest == label else 1 if answer == label else 2] += 1


def find_details(
    shards: Shards, names: Sequence[str], n_examples: int, label_names: tuple[str, ...], texts_of: TextsOf
) -> dict[str, Details]:
    """Examples, and where there are labels what they say, of some candidates.

    Args:
        n_examples: Examples of each.
        texts_of: Gives the texts of the examples.
    """
    collected = {name: _Collected(len(label_names)) for name in names}
    everywhere = np.zeros((len(label_names), 2), dtype=np.int64)
    for shard in shards():
        known = shard.evidence & (shard.labels >= 0)
        correct = shard.predictions == shard.labels
        np.add.at(everywhere, shard.labels[known], np.column_stack([np.ones(known.sum()), correct[known]]).astype(int))
        wanted = np.array([name in collected for name in shard.names], dtype=bool)
        chosen = np.flatnonzero(shard.evidence[shard.texts] & wanted[shard.keys]) if len(shard.keys) else ()
        for o in map(int, chosen):
            _collect(collected[shard.names[shard.keys[o]]], shard, o, n_examples, label_names)
    rows = sorted({found["index"] for one in collected.values() for _, found in one.examples})
    texts = texts_of(rows) if rows else {}
    labelled = bool(everywhere.any())
    return {
        name: Details(
            tuple(_with_text(found, texts[found["index"]]) for _, found in one.examples),
            _labelled(one, everywhere, label_names) if labelled else None,
        )
        for name, one in collected.items()
    }


def _collect(one: _Collected, shard: Shard, occurrence: int, n_examples: int, label_names: tuple[str, ...]) -> None:
    i = int(shard.texts[occurrence])
    label, answer = int(shard.labels[i]), int(shard.predictions[i])
    if label >= 0:
        one.held[label] += (1, int(answer == label))
    if shard.masked[occurrence] >= 0:
        one.add_example(shard, occurrence, n_examples, label_names)
        if label >= 0:
            one.add_label(label, answer, int(shard.masked_probs[shard.masked[occurrence]].argmax()))


def _change(shard: Shard, occurrence: int) -> float:
    i = int(shard.texts[occurrence])
    answer = int(shard.predictions[i])
    return float(shard.masked_probs[shard.masked[occurrence], answer] - shard.probs[i, answer])


def _example(shard: Shard, occurrence: int, label_names: tuple[str, ...]) -> dict[str, Any]:
    i = int(shard.texts[occurrence])
    answer, label = int(shard.predictions[i]), int(shard.labels[i])
    after = shard.masked_probs[shard.masked[occurrence]]
    start, end, segment = (int(x) for x in shard.spans[occurrence])
    return {
        "index": int(shard.rows[i]),
        "segment": segment,
        "start": start,
        "end": end,
        "label": label_names[answer],
        "probability": float(shard.probs[i, answer]),
        "masked_label": label_names[int(after.argmax())],
        "masked_probability": float(after.max()),
        "change": _change(shard, occurrence),
        "important": important_units(shard, i),
        "true_label": label_names[label] if label >= 0 else None,
    }


def important_units(shard: Shard, text: int) -> tuple[ImportantToken, ...]:
    """The important units of one text of a shard, most important first; phrases are left out."""
    mine = np.flatnonzero(shard.texts == text)
    mine = mine[(shard.ranks[mine] >= 0) & (shard.n_words[shard.keys[mine]] == 1)]
    answer = int(shard.predictions[text])
    return tuple(
        ImportantToken.of(
            shard.names[shard.keys[o]],
            shard.spans[o],
            shard.scores[o],
            _change(shard, o),
            int(shard.masked_probs[shard.masked[o]].argmax()) != answer,
        )
        for o in map(int, mine[np.argsort(shard.ranks[mine], kind="stable")])
    )


def _with_text(found: dict[str, Any], text: str | tuple[str, str]) -> Example:
    first, second = (text, None) if isinstance(text, str) else text
    return Example(text=first, text_pair=second, **found)


def _labelled(one: _Collected, everywhere: Array, label_names: tuple[str, ...]) -> LabelledEvidence:
    groups = []
    for label, name in enumerate(label_names):
        for how, counts in (("without", everywhere[label] - one.held[label]), ("with", one.held[label])):
            size, correct = int(counts[0]), int(counts[1])
            share = correct / size if size else float("nan")
            groups.append(GroupAccuracy(f"{name}, {how} candidate", size, share, exact_interval(correct, size)))
    return LabelledEvidence(
        n=one.n,
        accuracy=int(one.right[0]) / one.n if one.n else float("nan"),
        accuracy_masked=int(one.right[1]) / one.n if one.n else float("nan"),
        flips_to_right=int(one.flips[0]),
        flips_to_wrong=int(one.flips[1]),
        flips_between_wrong=int(one.flips[2]),
        p_value=paired_p_value(int(one.flips[0]), int(one.flips[1])),
        groups=tuple(groups),
    )
