"""The debiasing strength: a context that applies it, and its search on a support set (paper Section 3.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from .adapter import adapted_layers
from .config import CalibrationConfig, check_strength
from .encoder import Batch, EncodedTexts, Progress, TextClassifier
from .errors import ConfigError, DataError
from .metrics import balanced_accuracy, exact_interval, mcnemar_greater, paired_p_value, worst_group_accuracy

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class CurvePoint:
    """One strength on the support set.

    Attributes:
        strength: In [0, 1].
        score: The metric the strength is chosen by, higher is better.
        accuracy: Share of the support set answered correctly.
        interval: Exact 95 % interval of the accuracy.
        gained: Rows that are right here and wrong at strength 0.
        lost: Rows that are wrong here and right at strength 0.
        p_value: Exact McNemar test of the two counts; it does not account for having looked at several strengths.
    """

    strength: float
    score: float
    accuracy: float
    interval: tuple[float, float]
    gained: int
    lost: int
    p_value: float


@dataclass(frozen=True)
class Calibration:
    """The chosen strength and the whole curve behind it.

    Attributes:
        strength: The smallest strength with the best score; or `without_labels`, where the labels do not overrule it.
        n: Size of the support set.
        metric: What the score is.
        curve: One point per strength of the grid, ascending.
        cross_validated: Whether every row was answered by an adapter that was not trained on it, since the rows trained
            the adapter that is used.
        without_labels: The strength chosen on unlabelled texts; `None` where the labels alone chose.
        p_value: That the strength with the best score, or 0, answers more rows rightly than `without_labels` by chance
            alone (exact McNemar test, one-sided, the smaller of the two); `None` where the labels alone chose.
    """

    strength: float
    n: int
    metric: str
    curve: tuple[CurvePoint, ...]
    cross_validated: bool = False
    without_labels: float | None = None
    p_value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        return asdict(self)


@contextmanager
def debias_strength(model: Any, strength: float) -> Iterator[None]:
    """Within the block the model's weights are `W_T + strength * W_LoRA` (paper Section 3.4).

    At 0 the adapter is switched off, so the logits are the base model's bit for bit. The former strength comes back
    after the block, also after an exception.

    Args:
        model: A PEFT model with LoRA layers, at its trained scale.
        strength: In [0, 1].

    Raises:
        ConfigError: The strength is out of range.
    """
    from peft.helpers import rescale_adapter_scale

    check_strength(strength)
    with model.disable_adapter() if strength == 0 else rescale_adapter_scale(model, float(strength)):
        yield


@contextmanager
def strength_of_each(classifier: TextClassifier, batch: Batch) -> Iterator[None]:
    """Within the block each sequence of a batch has its own strength, `batch.strengths`.

    LoRA adds `scale * BA x` to a layer's output, so a scale for each token is a strength for each sequence.
    """
    assert batch.strengths is not None
    factors = classifier.per_sequence(batch.strengths, batch)
    held: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for _, layer in adapted_layers(classifier.model):
            for name in layer.active_adapters:
                held.append((layer.scaling, name, layer.scaling[name]))
                layer.scaling[name] = factors * layer.scaling[name]
        yield
    finally:
        for scaling, name, scale in held:
            scaling[name] = scale


@contextmanager
def merged(base: TextClassifier, model: Any, strength: float) -> Iterator[None]:
    """Within the block the base classifier's own layers hold `W_T + strength * W_LoRA`, at no cost per text.

    The weights come back after the block; they are replaced rather than written into, since they are shared.

    Args:
        base: The classifier without adapter.
        model: The PEFT model with the adapter, at its trained scale.
        strength: In [0, 1].
    """
    check_strength(strength)
    held: list[tuple[Any, nn.Parameter]] = []
    try:
        for name, layer in adapted_layers(model):
            own = base.model.get_submodule(name.removeprefix("base_model.model."))
            held.append((own, own.weight))
            with torch.no_grad():
                delta = sum(layer.get_delta_weight(adapter) for adapter in layer.active_adapters)
                own.weight = nn.Parameter(own.weight + strength * delta.to(own.weight.dtype), requires_grad=False)
        yield
    finally:
        for own, weight in held:
            own.weight = weight


def check_support(labels: Sequence[int] | Array) -> None:
    """Refuse a support set that cannot tell one strength from another.

    Raises:
        DataError: It has fewer than two rows, or one class.
    """
    if len(labels) < 2:
        raise DataError(
            f"The support set needs at least 2 labelled rows, but has {len(labels)}; 40 are a good number. "
            "Add rows, or leave the support set out."
        )
    if len(set(map(int, labels))) < 2:
        raise DataError(
            f"All {len(labels)} rows of the support set have the same label, so accuracy on it would reward a constant "
            "answer. Add rows of at least one other label."
        )


def calibrate_strength(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    labels: Array,
    config: CalibrationConfig,
    *,
    groups: Array | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Score every strength of the grid on the support set; ties go to the smallest.

    Args:
        classifier: Around a PEFT model.
        encoded: The support set's texts, n of them.
        labels: Their class ids, shape (n,).
        config: The grid and the metric.
        groups: Group ids, shape (n,), for the metric `worst_group_accuracy`.
        progress: Told how many strengths are done.

    Raises:
        DataError: See `check_support`.
        ConfigError: The metric needs groups and there are none.
    """
    grid = strengths_to_score(config)
    logits = logits_by_strength(classifier, encoded, grid, progress=progress)
    return choose_strength(logits, labels, config, groups=groups)


def strengths_to_score(config: CalibrationConfig) -> list[float]:
    """The grid, and 0 to compare with."""
    return sorted({0.0, *config.strengths})


OVERRULING_P = 0.25
"""Labels overrule a strength that was chosen without them where their best one is better with this p-value or less; the
level at which they clear a word too (`confirmation`). Chosen with `scripts/dial_rules.py`; see docs/strategies.md."""


def check_choice(
    labels: Array, config: CalibrationConfig, *, groups: Array | None = None, without_labels: float | None = None
) -> None:
    """Refuse what `choose_strength` could not choose by; it takes the same arguments.

    Raises:
        DataError: See `check_support`; there is not one group for each label.
        ConfigError: The metric needs groups and there are none; `without_labels` is no strength of the grid, or the
            metric beside it is not the accuracy, which the test is about.
    """
    check_support(labels)
    if config.metric == "worst_group_accuracy" and groups is None:
        raise ConfigError("metric 'worst_group_accuracy' needs the groups of the support set; pass groups.")
    if groups is not None and groups.shape != (len(labels),):
        raise DataError(
            f"There must be one group for each of the {len(labels)} labels, but groups has shape {groups.shape}."
        )
    if without_labels is None:
        return
    if without_labels not in config.strengths:
        raise ConfigError(
            f"without_labels must be one of the strengths {', '.join(f'{s:g}' for s in config.strengths)}, but is "
            f"{without_labels:g}. Choose it with the same guard, with strengths that hold 0."
        )
    if config.metric != "accuracy":
        raise ConfigError(
            f"Beside a strength that was chosen without labels the metric must be 'accuracy', but is "
            f"'{config.metric}': the labels are asked whether more answers are right. Leave without_labels out."
        )


def choose_strength(
    logits: Array,
    labels: Array,
    config: CalibrationConfig,
    *,
    groups: Array | None = None,
    without_labels: float | None = None,
) -> Calibration:
    """Score every strength of the grid on the support set; the smallest of the best is chosen.

    With `without_labels`, the labels are evidence against that strength instead: it stays, unless the best one, or the
    base, answers more rows rightly than it by the exact one-sided McNemar test (p at most `OVERRULING_P`). On 40 rows
    neighbouring strengths differ by an answer or two, and the best of them is the best by chance.

    Args:
        logits: Class logits at each of `strengths_to_score`, shape (S, n, C).
        labels: Class ids, shape (n,).
        config: The grid and the metric.
        groups: Group ids, shape (n,), for the metric `worst_group_accuracy`.
        without_labels: The strength of the grid that unlabelled texts chose; see `dial`.

    Raises:
        DataError: See `check_choice`.
        ConfigError: See `check_choice`.
    """
    check_choice(labels, config, groups=groups, without_labels=without_labels)
    grid = strengths_to_score(config)
    predictions = dict(zip(grid, logits.argmax(axis=2), strict=True))
    base_right = predictions[0.0] == labels
    curve = [
        _curve_point(strength, predictions[strength], labels, groups, base_right, config.metric)
        for strength in config.strengths
    ]
    # max() keeps the first of equal scores, and the grid ascends.
    best = max(curve, key=lambda point: point.score)
    chosen = Calibration(best.strength, len(labels), config.metric, tuple(curve))
    if without_labels is None:
        return chosen
    right = {strength: answers == labels for strength, answers in predictions.items()}
    p_value = min(_p_better(right[strength], right[without_labels]) for strength in (0.0, best.strength))
    return replace(
        chosen,
        strength=best.strength if p_value <= OVERRULING_P else without_labels,
        without_labels=without_labels,
        p_value=p_value,
    )


def _p_better(right: Array, before: Array) -> float:
    return mcnemar_greater(int((right & ~before).sum()), int((before & ~right).sum()))


def logits_by_strength(
    classifier: TextClassifier, encoded: EncodedTexts, strengths: Sequence[float], *, progress: Progress | None = None
) -> Array:
    """Class logits of every text at every strength, shape (S, N, C).

    Strength 0 is computed with the adapter switched off. The others share their forward passes, each sequence with a
    scale of its own, unless the classifier's `fast` says otherwise.

    Args:
        classifier: Around a PEFT model.
        encoded: N texts.
        strengths: S strengths in [0, 1].
        progress: Told how many strengths are done.
    """
    out = np.empty((len(strengths), len(encoded), classifier.n_classes), dtype=np.float32)
    together = classifier.fast.strengths_together
    alone = [i for i, strength in enumerate(strengths) if strength == 0 or not together]
    for done, i in enumerate(alone):
        with debias_strength(classifier.model, strengths[i]):
            out[i] = classifier.predict_logits(encoded)
        if progress is not None:
            progress("Calibrating", done + 1, len(strengths))
    shared = [i for i in range(len(strengths)) if i not in alone]
    if shared:
        out[shared] = _logits_together(classifier, encoded, [strengths[i] for i in shared])
        if progress is not None:
            progress("Calibrating", len(strengths), len(strengths))
    return out


@torch.inference_mode()
def _logits_together(classifier: TextClassifier, encoded: EncodedTexts, strengths: Sequence[float]) -> Array:
    n = len(strengths)
    out = np.empty((n, len(encoded), classifier.n_classes), dtype=np.float32)
    for batch in classifier.batches(encoded, sequences_per_text=n):
        b = len(batch.indices)
        rows = torch.arange(b, device=batch.input_ids.device).repeat(n)
        copies = batch.copies(batch.input_ids[rows], rows)._replace(
            strengths=torch.tensor(strengths, device=rows.device).repeat_interleave(b)
        )
        with strength_of_each(classifier, copies):
            logits = classifier.logits(copies)
        out[:, batch.indices] = logits.view(n, b, -1).cpu().numpy()
    return out


def _curve_point(
    strength: float, predictions: Array, labels: Array, groups: Array | None, base_right: Array, metric: str
) -> CurvePoint:
    right = predictions == labels
    accuracy = float(right.mean())
    if metric == "balanced_accuracy":
        score = balanced_accuracy(predictions, labels)
    elif metric == "worst_group_accuracy":
        assert groups is not None
        score = worst_group_accuracy(predictions, labels, groups)
    else:
        score = accuracy
    gained, lost = int((right & ~base_right).sum()), int((~right & base_right).sum())
    interval = exact_interval(int(right.sum()), len(labels))
    return CurvePoint(strength, score, accuracy, interval, gained, lost, paired_p_value(gained, lost))
