"""Scores a fitted system on labelled rows: accuracies by group, important tokens, MSTPS, each row kept."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shortcut_guardrail.attribution import Saliency, find_important_tokens, masking_effects
from shortcut_guardrail.config import SaliencyConfig
from shortcut_guardrail.evaluation import ShortcutIn, shortcut_tokens
from shortcut_guardrail.metrics import (
    GroupAccuracy,
    accuracy,
    balanced_accuracy,
    group_accuracy,
    majority_accuracy,
    sensitivity,
    token_recall,
    worst_group,
)
from shortcut_guardrail.models import EncodedTexts, TextClassifier
from shortcut_guardrail.stats import exact_interval
from shortcut_guardrail.text import WordFinder, check_words
from shortcut_guardrail.typing import Progress

from .results import Rows
from .systems import FittedSystem

if TYPE_CHECKING:
    from .datasets.types import LabelledTexts

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class BaseReading:
    """What the base classifier makes of the scored texts, found once for all systems.

    Attributes:
        encoded: The texts as tokens.
        saliency: The base classifier's important tokens and answers.
        positions: The same tokens as positions in `encoded`, shape (N, K), -1 where empty.
        shortcut_tokens: For each text the positions of its shortcut tokens.
        fingerprint: Of the base classifier's weights.
        mask_token: What stands for a masked token in a text.
    """

    encoded: EncodedTexts
    saliency: Saliency
    positions: Array
    shortcut_tokens: list[set[int]]
    fingerprint: str
    mask_token: str


@dataclass(frozen=True)
class Scores:
    """How a system did on N rows.

    Attributes:
        metrics: Scores over all rows, JSON types; what is undefined is `None`.
        groups: Name, size, accuracy and interval of each group.
        rows: Every row.
        seconds: Wall-clock time by stage.
    """

    metrics: dict[str, Any]
    groups: list[dict[str, Any]]
    rows: Rows
    seconds: dict[str, float]


def read_base(
    base: TextClassifier,
    rows: LabelledTexts,
    shortcuts: Sequence[str],
    *,
    top_k: int,
    shortcut_in: ShortcutIn = "text",
    progress: Progress | None = None,
) -> BaseReading:
    """Attributes the base classifier's answers on the rows that are scored.

    Args:
        base: The base classifier.
        rows: The N scored rows.
        shortcuts: Words and phrases that are planted or tracked; may be empty.
        top_k: Important tokens a text.
        shortcut_in: Which side of a pair holds them.
        progress: Told how many texts are done.
    """
    encoded = base.encode(rows.texts)
    saliency = find_important_tokens(base, encoded, SaliencyConfig(top_k=top_k), progress=progress)
    finder = WordFinder(check_words(shortcuts)) if shortcuts else None
    tokens = [set[int]() for _ in rows.texts] if finder is None else shortcut_tokens(encoded, finder, shortcut_in)
    return BaseReading(encoded, saliency, saliency.positions, tokens, base.fingerprint(), base.tokenizer.mask_token)


def score(
    fitted: FittedSystem,
    rows: LabelledTexts,
    index: Array,
    base: BaseReading,
    *,
    texts: Array,
    top_k: int,
    n_audit: int,
    progress: Progress | None = None,
) -> Scores:
    """Scores a system on labelled rows.

    Args:
        fitted: The system.
        rows: The N rows, with the texts as this system reads them.
        index: Their positions in the test set, shape (N,).
        base: The base classifier's reading of the same texts.
        texts: A number for each row's text as it is in the test set; see `Rows`.
        top_k: Important tokens a text.
        n_audit: How many rows, from the first on, are masked token by token for MSTPS.
        progress: Told how many texts are done.
    """
    started = time.perf_counter()
    # Before the rows themselves, since a system may tell of its last answers what they took.
    to_variants = None if fitted.classifier is not None else _answers_to_variants(fitted, base, n_audit, progress)
    audited = time.perf_counter() - started
    started = time.perf_counter()
    probs = fitted.predict_proba(rows.texts, progress=progress)
    predictions = probs.argmax(axis=1).astype(np.int64)
    seconds = {"predict": time.perf_counter() - started}
    started = time.perf_counter()
    if fitted.classifier is not None:
        reading = _read(fitted.classifier, base, top_k=top_k, n_audit=n_audit, progress=progress)
    else:
        reading = _Reading.of_answers(_sensitivity_of_answers(probs, to_variants))
    seconds["audit"] = audited + time.perf_counter() - started
    per_group = group_accuracy(predictions, rows.labels, rows.groups, rows.group_names)
    return Scores(
        metrics={
            **_accuracies(predictions, rows.labels, per_group),
            **_overlapping(predictions, rows),
            **reading.metrics(predictions != rows.labels),
        },
        groups=[_group(group) for group in per_group],
        rows=Rows(
            index=np.asarray(index, dtype=np.int64),
            texts=texts,
            labels=rows.labels,
            groups=rows.groups,
            predictions=predictions,
            probs=probs,
            shortcut_rank=reading.shortcut_rank,
            sensitivity=reading.sensitivity,
            sensitivity_base_tokens=reading.sensitivity_base_tokens,
        ),
        seconds=seconds,
    )


def _accuracies(predictions: Array, labels: Array, per_group: tuple[GroupAccuracy, ...]) -> dict[str, Any]:
    worst = worst_group(per_group)
    return {
        "n": len(labels),
        "accuracy": accuracy(predictions, labels),
        "accuracy_interval": list(exact_interval(int((predictions == labels).sum()), len(labels))),
        "balanced_accuracy": balanced_accuracy(predictions, labels),
        "majority_accuracy": majority_accuracy(labels),
        "worst_group": worst.name if worst else None,
        "worst_group_accuracy": worst.accuracy if worst else None,
        "worst_group_n": worst.n if worst else 0,
        "worst_group_interval": list(worst.interval) if worst else None,
        "empty_groups": sum(group.n == 0 for group in per_group),
    }


def _overlapping(predictions: Array, rows: LabelledTexts) -> dict[str, Any]:
    """Accuracy in each of the further groups, which may overlap, and the worst of them."""
    if rows.overlapping is None:
        return {}
    right = predictions == rows.labels
    groups = [
        _group(_group_of(name, right[rows.overlapping.members[:, column]]))
        for column, name in enumerate(rows.overlapping.names)
    ]
    return {"overlapping_groups": groups, "worst_overlapping_group": _worst_of(groups)}


def _worst_of(groups: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    filled = [group for group in groups if group["n"]]
    return min(filled, key=lambda group: group["accuracy"]) if filled else None


def merged_metrics(rows: Rows, results: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Metrics and groups over the rows of several runs, such as the folds of a data set.

    Args:
        rows: All rows, see `results.concatenated`.
        results: The runs' results, whose groups have the same names in the same order.
    """
    names = tuple(group["name"] for group in results[0]["groups"])
    per_group = group_accuracy(rows.predictions, rows.labels, rows.groups, names)
    recalls = [result["metrics"]["shortcut_token_recall"] for result in results]
    reading = _Reading(rows.shortcut_rank, rows.sensitivity, rows.sensitivity_base_tokens, _merged_recall(recalls))
    metrics = {
        **_accuracies(rows.predictions, rows.labels, per_group),
        **reading.metrics(rows.predictions != rows.labels),
    }
    return metrics, [_group(group) for group in per_group]


def _merged_recall(recalls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Recall and chance over the texts with the shortcut of all parts."""
    merged: dict[str, Any] = {}
    for k in dict.fromkeys(k for recall in recalls for k in recall):
        parts = [recall[k] for recall in recalls if k in recall]
        n = sum(part["n"] for part in parts)
        merged[k] = {what: sum(part[what] * part["n"] for part in parts) / n for what in ("recall", "chance")}
        merged[k]["n"] = n
    return merged


def _group_of(name: str, right: Array) -> GroupAccuracy:
    share = float(right.mean()) if len(right) else math.nan
    return GroupAccuracy(name, len(right), share, exact_interval(int(right.sum()), len(right)))


def _group(group: GroupAccuracy) -> dict[str, Any]:
    return {
        "name": group.name,
        "n": group.n,
        "accuracy": group.accuracy if group.n else None,
        "interval": list(group.interval) if group.n else None,
    }


@dataclass(frozen=True)
class _Reading:
    """What the evaluated model's important tokens say."""

    shortcut_rank: Array
    sensitivity: Array
    sensitivity_base_tokens: Array
    recall: Mapping[str, Any]

    @classmethod
    def of_answers(cls, sensitivity_base_tokens: Array) -> _Reading:
        """For a system that is not one model, and has no important tokens of its own."""
        nothing = np.zeros(0)
        return cls(nothing.astype(np.int64), nothing, sensitivity_base_tokens, {})

    def metrics(self, wrong: Array) -> dict[str, Any]:
        """MSTPS, recall, and which misclassified texts had the shortcut among their important tokens."""
        values: dict[str, Any] = {
            "n_audited": len(self.sensitivity_base_tokens),
            "mstps": _mean(self.sensitivity),
            "mstps_base_tokens": _mean(self.sensitivity_base_tokens),
            "shortcut_token_recall": dict(self.recall),
        }
        if len(self.shortcut_rank):
            important = self.shortcut_rank > 0
            values["misclassified"] = float(wrong.mean())
            values["misclassified_with_important_shortcut"] = float((wrong & important).mean())
        return values


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None


def _read(
    classifier: TextClassifier, base: BaseReading, *, top_k: int, n_audit: int, progress: Progress | None
) -> _Reading:
    as_read = _as_read_by(classifier, base)
    is_base = as_read is base and classifier.fingerprint() == base.fingerprint
    base, encoded = as_read, as_read.encoded
    if is_base:
        saliency = base.saliency
    else:
        saliency = find_important_tokens(classifier, encoded, SaliencyConfig(top_k=top_k), progress=progress)
    audited = np.arange(min(n_audit, len(encoded)))
    own = _sensitivity(classifier, encoded, saliency, saliency.positions, audited, progress)
    other = own if is_base else _sensitivity(classifier, encoded, saliency, base.positions, audited, progress)
    return _Reading(
        shortcut_rank=_ranks(saliency.positions, base.shortcut_tokens),
        sensitivity=own,
        sensitivity_base_tokens=other,
        recall=_recall(saliency, base, top_k),
    )


def _as_read_by(classifier: TextClassifier, base: BaseReading) -> BaseReading:
    """The reading with positions in the inputs of a classifier whose tokenizer puts in tokens of its own.

    What its inputs have no room for any more is left out.
    """
    if np.array_equal(classifier.encode(base.encoded.texts[:1]).input_ids[0], base.encoded.input_ids[0]):
        return base
    encoded = classifier.encode(base.encoded.texts)
    positions = np.full_like(base.positions, -1)
    shortcut_tokens = []
    for row in range(len(encoded)):
        place: dict[Any, int] = {span: i for i, span in enumerate(_spans(encoded, row)) if span is not None}
        old = _spans(base.encoded, row)
        kept = [place[old[position]] for position in base.positions[row] if position >= 0 and old[position] in place]
        positions[row, : len(kept)] = kept
        shortcut_tokens.append({place[old[token]] for token in base.shortcut_tokens[row] if old[token] in place})
    return replace(base, encoded=encoded, positions=positions, shortcut_tokens=shortcut_tokens)


def _spans(encoded: EncodedTexts, row: int) -> list[tuple[int, int, int] | None]:
    """Where each token of a text comes from: segment and characters; `None` for those of the template."""
    return [
        None if segment < 0 else (int(segment), int(start), int(end))
        for segment, (start, end) in zip(encoded.segments[row], encoded.offsets[row], strict=True)
    ]


def _sensitivity(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    saliency: Saliency,
    positions: Array,
    audited: Array,
    progress: Progress | None,
) -> Array:
    """Each audited text's term in MSTPS, with the tokens at `positions` masked one at a time."""
    if not len(audited):
        return np.zeros(0)
    predictions = saliency.predictions[audited]
    effects = masking_effects(classifier, encoded.select(audited), positions[audited], progress=progress)
    return sensitivity(saliency.probs[audited, predictions], effects.probability_of(predictions))


def _answers_to_variants(
    fitted: FittedSystem, base: BaseReading, n_audit: int, progress: Progress | None
) -> Array | None:
    """What a system that is not one model answers with the base's important tokens masked one at a time in the text.

    The mask token takes the characters' place, so that the text is cut into tokens anew; what is left of a word of
    which one piece is masked may be cut otherwise than it was.

    Args:
        fitted: The system.
        base: The base classifier's reading of the texts.
        n_audit: How many texts, from the first on.
        progress: Told how many variants are done.

    Returns:
        Class probabilities, shape (A, K, C), NaN for empty slots; `None` where an answer depends on the texts it is
        asked with, among which near copies of one text would be.
    """
    if getattr(fitted, "depends_on_batch", False):
        return None
    audited = min(n_audit, len(base.encoded))
    places = [(row, slot) for row in range(audited) for slot in np.flatnonzero(base.positions[row] >= 0)]
    shape = (audited, base.positions.shape[1], base.saliency.probs.shape[1])
    answers = np.full(shape, np.nan, dtype=np.float32)
    if places:
        variants = [_masked_text(base, row, int(base.positions[row, slot])) for row, slot in places]
        answers[tuple(np.array(places).T)] = fitted.predict_proba(variants, progress=progress)
    return answers


def _sensitivity_of_answers(probs: Array, to_variants: Array | None) -> Array:
    """Each audited text's term in MSTPS, shape (A,): answers, shape (N, C), beside those to variants."""
    if to_variants is None:
        return np.zeros(0)
    audited = len(to_variants)
    predictions = probs[:audited].argmax(axis=1)
    of_predicted = np.take_along_axis(to_variants, predictions[:, None, None], axis=2)[..., 0]
    return sensitivity(probs[np.arange(audited), predictions], of_predicted)


def _masked_text(base: BaseReading, row: int, position: int) -> Any:
    """The text, or the pair of texts, with the mask token in the place of one of its tokens."""
    span = _spans(base.encoded, row)[position]
    assert span is not None, "an important token is one of the text's own"
    segment, start, end = span
    side = base.encoded.text_of(row, segment)
    masked = side[:start] + base.mask_token + side[end:]
    text = base.encoded.texts[row]
    if isinstance(text, str):
        return masked
    return (masked, text[1]) if segment == 0 else (text[0], masked)


def _ranks(positions: Array, tokens: list[set[int]]) -> Array:
    """Rank of the first shortcut token, from 1; 0 if it is not among the important ones, -1 if there is none."""
    ranks = np.zeros(len(tokens), dtype=np.int64)
    for row, marked in enumerate(tokens):
        found = [slot for slot, position in enumerate(positions[row]) if int(position) in marked]
        ranks[row] = found[0] + 1 if found else 0 if marked else -1
    return ranks


def _recall(saliency: Saliency, base: BaseReading, top_k: int) -> dict[str, Any]:
    n_ordinary = np.array([int(ordinary.sum()) for ordinary in base.encoded.ordinary])
    recalls = {}
    for k in range(1, top_k + 1):
        recall = token_recall(saliency.positions, base.shortcut_tokens, n_ordinary, k)
        if recall.n:
            recalls[str(k)] = {"recall": recall.recall, "chance": recall.chance, "n": recall.n}
    return cast(dict[str, Any], recalls)
