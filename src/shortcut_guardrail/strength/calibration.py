"""The debiasing strength: a context that applies it, and its search on a support set (paper Section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from ..config import CalibrationConfig
from ..data import Count, NotEmpty, Share
from ..display import LEGEND_ABOVE, Shown, Summary, chart, p_value, spread
from ..errors import ConfigError, DataError
from ..metrics import balanced_accuracy
from ..stats import exact_interval, mcnemar_greater, paired_p_value
from ..typing import Array


@dataclass(frozen=True)
class CurvePoint:
    """One strength on the support set.

    Attributes:
        score: The metric the strength is chosen by, higher is better.
        accuracy: Share of the support set predicted rightly.
        interval: Exact 95 % interval of the accuracy.
        gained: Rows that are right here and wrong at strength 0.
        lost: Rows that are wrong here and right at strength 0.
        p_value: Exact McNemar test of the two counts; it does not account for having looked at several strengths.
    """

    strength: Share
    score: float
    accuracy: Share
    interval: tuple[Share, Share]
    gained: Count
    lost: Count
    p_value: Share


@dataclass(frozen=True, repr=False)
class Calibration(Shown):
    """The chosen strength and the whole curve behind it.

    Attributes:
        strength: The smallest strength with the best score; or `without_labels`, if the labels do not overrule it.
        curve: One point per strength of the grid, ascending.
        cross_validated: Whether every row was predicted by an adapter that was not trained on it. The adapter in use
            was trained on all rows.
        without_labels: The strength chosen on unlabelled texts; `None` if the labels alone chose.
        p_value: That the strength with the best score, or 0, predicts more rows rightly than `without_labels` by chance
            alone (exact McNemar test, one-sided, the smaller of the two); `None` if the labels alone chose.
    """

    strength: Share
    n: Count
    metric: str
    curve: Annotated[tuple[CurvePoint, ...], NotEmpty()]
    cross_validated: bool = False
    without_labels: Share | None = None
    p_value: Share | None = None

    def _summary(self) -> Summary:
        by = self.metric.replace("_", " ")
        rows = f"{self.n:,} labelled rows"
        if self.cross_validated:
            rows += ", cross-validated"
        rule = f"{by} on {rows}"
        if self.without_labels is not None:
            said = "do not overrule" if self.strength == self.without_labels else "overrule"
            rule = f"unlabelled texts ({self.without_labels:g}); {rows} {said} it (p {p_value(self.p_value)})"
        shown, scored = spread(self.curve, (self.strength,)), self.metric != "accuracy"
        return Summary(
            f"Calibration: strength {self.strength:g}",
            {"chosen by": rule},
            (">strength", *((">" + by,) if scored else ()), ">accuracy", ">95 %", ">gained", ">lost", ""),
            [
                (
                    f"{point.strength:g}",
                    *((point.score,) if scored else ()),
                    *(point.accuracy, point.interval, point.gained, point.lost),
                    "chosen" if point.strength == self.strength else "",
                )
                for point in shown
            ],
            more=len(self.curve) - len(shown),
        )

    def plot(self, ax: Any = None) -> Any:
        """The score at each strength, with the chosen one marked and the accuracy's 95 % intervals. Needs Matplotlib.

        Args:
            ax: The Matplotlib axes, which are returned; `None` makes new ones.
        """
        ax = chart(ax)
        strengths = [point.strength for point in self.curve]
        low, high = zip(*(point.interval for point in self.curve), strict=True)
        ax.fill_between(strengths, low, high, alpha=0.2, label="accuracy, 95 % interval")
        if self.metric != "accuracy":
            ax.plot(strengths, [point.accuracy for point in self.curve], "--", label="accuracy")
        ax.plot(strengths, [point.score for point in self.curve], "o-", label=self.metric.replace("_", " "))
        ax.axvline(self.strength, color="0.5", linestyle=":", label=f"chosen: {self.strength:g}")
        ax.set(xlabel="debiasing strength", ylabel=f"on {self.n} labelled rows", ylim=(0, 1.02))
        ax.legend(**LEGEND_ABOVE)
        return ax

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        return asdict(self)


def check_support(labels: Sequence[int] | Array) -> None:
    """Refuse a support set that cannot tell one strength from another."""
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


def strengths_to_score(config: CalibrationConfig) -> list[float]:
    """The grid, and 0 to compare with."""
    return sorted({0.0, *config.strengths})


OVERRULING_P = 0.25
"""Labels overrule a strength that was chosen without them where their best one is better with this p-value or less; the
level at which they clear a word too (`shortcuts.labels`). Chosen with `results/dial_rules.json`; see
docs/explanation/strategies.md."""


def check_choice(labels: Array, config: CalibrationConfig, *, without_labels: float | None = None) -> None:
    """Refuse what `choose_strength` could not choose by; it takes the same arguments.

    Raises:
        DataError: See `check_support`.
        ConfigError: `without_labels` is no strength of the grid, or the metric beside it is not the accuracy, which the
            test is about.
    """
    check_support(labels)
    if without_labels is None:
        return
    if without_labels not in config.strengths:
        raise ConfigError(
            f"without_labels must be one of the strengths {', '.join(f'{s:g}' for s in config.strengths)}, but is "
            f"{without_labels:g}. Choose it with the same repaired model, with strengths that include 0."
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
    without_labels: float | None = None,
) -> Calibration:
    """Score every strength of the grid on the support set, and choose the smallest of the best.

    With `without_labels`, that strength stays, unless the best one, or the original model, predicts more rows rightly
    by the exact one-sided McNemar test (p at most `OVERRULING_P`). On 40 rows neighbouring strengths differ by a
    prediction or two, and the best of them is the best by chance.

    Args:
        logits: Class logits at each of `strengths_to_score`, shape (S, n, C).
        labels: Class ids, shape (n,).
        without_labels: The strength of the grid that unlabelled texts chose; see `choose_without_labels`.
    """
    check_choice(labels, config, without_labels=without_labels)
    grid = strengths_to_score(config)
    predictions = dict(zip(grid, logits.argmax(axis=2), strict=True))
    base_right = predictions[0.0] == labels
    curve = [
        _curve_point(strength, predictions[strength], labels, base_right, config.metric)
        for strength in config.strengths
    ]
    # max() keeps the first of equal scores, and the grid ascends.
    best = max(curve, key=lambda point: point.score)
    strength, p_value = best.strength, None
    if without_labels is not None:
        before = predictions[without_labels] == labels
        better = [predictions[strength] == labels for strength in (0.0, best.strength)]
        p_value = min(mcnemar_greater(int((right & ~before).sum()), int((before & ~right).sum())) for right in better)
        strength = best.strength if p_value <= OVERRULING_P else without_labels
    return Calibration(
        strength, len(labels), config.metric, tuple(curve), without_labels=without_labels, p_value=p_value
    )


def _curve_point(strength: float, predictions: Array, labels: Array, base_right: Array, metric: str) -> CurvePoint:
    right = predictions == labels
    accuracy = float(right.mean())
    score = accuracy if metric == "accuracy" else balanced_accuracy(predictions, labels)
    gained, lost = int((right & ~base_right).sum()), int((~right & base_right).sum())
    interval = exact_interval(int(right.sum()), len(labels))
    return CurvePoint(strength, score, accuracy, interval, gained, lost, paired_p_value(gained, lost))
