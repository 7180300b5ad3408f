"""What a person can check of a candidate: the texts with the largest effect, and what labels say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from ..metrics import GroupAccuracy
from ..stats import exact_interval, paired_p_value
from .context import Shards
from .evidence import Example, ImportantToken, LabelledEvidence
from .measurements import Shard

TextsOf = Callable[[Set[int]], Mapping[int, str | tuple[str, str]]]
"""Gives the texts (or pairs) of some inputs."""


class _Collected:
    """What is collected of one candidate, shard by shard."""

    def __init__(self) -> None:
        self.examples: list[tuple[float, Example]] = []
        self.answers: Counter[tuple[int, int, int]] = Counter()  # texts by label, answer, and answer with it masked
        self.held: Counter[tuple[int, bool]] = Counter()  # texts that hold it by label, and whether it is the answer

    def add(self, shard: Shard, occurrence: int, n_examples: int, label_names: tuple[str, ...]) -> None:
        i = int(shard.texts[occurrence])
        label, answer = int(shard.labels[i]), int(shard.predictions[i])
        if label >= 0:
            self.held[label, answer == label] += 1
        if shard.masked[occurrence] < 0:
            return
        if label >= 0:
            self.answers[label, answer, int(shard.masked_probs[shard.masked[occurrence]].argmax())] += 1
        change = abs(_change(shard, occurrence))
        if len(self.examples) < n_examples or (n_examples and change > self.examples[-1][0]):
            self.examples.append((change, _example(shard, occurrence, label_names)))
            self.examples.sort(key=lambda entry: (-entry[0], entry[1].index))
            del self.examples[n_examples:]


def find_details(
    shards: Shards, names: Sequence[str], n_examples: int, label_names: tuple[str, ...], texts_of: TextsOf
) -> dict[str, dict[str, Any]]:
    """Of some candidates their `examples`, and as `labelled` what labels say where there are any."""
    collected = {name: _Collected() for name in names}
    everywhere: Counter[tuple[int, bool]] = Counter()
    for shard in shards():
        known = np.flatnonzero(shard.evidence & (shard.labels >= 0))
        labels, correct = shard.labels[known], shard.predictions[known] == shard.labels[known]
        everywhere.update(zip(labels.tolist(), correct.tolist(), strict=True))
        wanted = np.array([name in collected for name in shard.names], dtype=bool)
        for o in np.flatnonzero(shard.evidence[shard.texts] & wanted[shard.keys]).tolist():
            collected[shard.names[shard.keys[o]]].add(shard, o, n_examples, label_names)
    rows = {example.index for one in collected.values() for _, example in one.examples}
    texts = texts_of(rows) if rows else {}
    return {
        name: {
            "examples": tuple(_with_text(example, texts[example.index]) for _, example in one.examples),
            "labelled": _labelled(one, everywhere, label_names) if everywhere else None,
        }
        for name, one in collected.items()
    }


def _change(shard: Shard, occurrence: int) -> float:
    i = int(shard.texts[occurrence])
    answer = int(shard.predictions[i])
    return float(shard.masked_probs[shard.masked[occurrence], answer] - shard.probs[i, answer])


def _example(shard: Shard, occurrence: int, label_names: tuple[str, ...]) -> Example:
    """Without its text."""
    i = int(shard.texts[occurrence])
    answer, label = int(shard.predictions[i]), int(shard.labels[i])
    after = shard.masked_probs[shard.masked[occurrence]]
    start, end, segment = (int(x) for x in shard.spans[occurrence])
    return Example(
        index=int(shard.rows[i]),
        text=None,
        text_pair=None,
        segment=segment,
        start=start,
        end=end,
        label=label_names[answer],
        probability=float(shard.probs[i, answer]),
        masked_label=label_names[int(after.argmax())],
        masked_probability=float(after.max()),
        change=_change(shard, occurrence),
        important=important_units(shard, i),
        true_label=label_names[label] if label >= 0 else None,
    )


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


def _with_text(example: Example, text: str | tuple[str, str]) -> Example:
    first, second = (text, None) if isinstance(text, str) else text
    return replace(example, text=first, text_pair=second)


def _labelled(one: _Collected, everywhere: Counter[tuple[int, bool]], label_names: tuple[str, ...]) -> LabelledEvidence:
    groups = []
    for label, name in enumerate(label_names):
        for how, counts in (("without", everywhere - one.held), ("with", one.held)):
            correct = counts[label, True]
            size = correct + counts[label, False]
            share = correct / size if size else float("nan")
            groups.append(GroupAccuracy(f"{name}, {how} candidate", size, share, exact_interval(correct, size)))
    n = one.answers.total()
    right = sum(k for (label, answer, _), k in one.answers.items() if answer == label)
    fixed = sum(k for (label, answer, rest), k in one.answers.items() if answer != label == rest)
    broken = sum(k for (label, answer, rest), k in one.answers.items() if answer == label != rest)
    return LabelledEvidence(
        n=n,
        accuracy=right / n if n else float("nan"),
        accuracy_masked=(right + fixed - broken) / n if n else float("nan"),
        flips_to_right=fixed,
        flips_to_wrong=broken,
        flips_between_wrong=sum(k for (label, *said), k in one.answers.items() if len({label, *said}) == 3),
        p_value=paired_p_value(fixed, broken),
        groups=tuple(groups),
    )
