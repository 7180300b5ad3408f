"""The page of a history: small charts of shares over time, as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..display import percent, template
from .html import own_files

if TYPE_CHECKING:
    from ..history import History, Rate, Trend

MOST_TRENDS = 40
"""Words and groups on the page; alarms are shown beyond it. More of them are in the table of rows."""

FRAME = {"left": 46.0, "right": 330.0, "top": 12.0, "bottom": 112.0, "width": 340.0, "height": 136.0}
_RATES = (
    ("exposure", "texts that hold it"),
    ("flip_rate", "flip rate"),
    ("affected", "predictions that depend on it"),
)


def render_history(history: History) -> str:
    """The page of a history: alarms, charts of each known word and word group, and the audits.

    Everything that came from data is escaped; the page makes no network request.
    """
    listed = [one for i, one in enumerate(history.trends) if i < MOST_TRENDS or one.alarm is not None]
    labels = [history.label(i) for i in range(len(history.audits))]
    new_models = [i for i, audit in enumerate(history.audits) if audit.new_model]
    mstps = [(audit.mstps, *audit.mstps_interval) for audit in history.audits]
    page: str = template("report/history.html.j2").render(
        title="Shortcuts over time",
        history=history,
        labels=labels,
        mstps=chart(mstps, new_models, alarm=None),
        trends=[_trend(history, one, labels, new_models) for one in listed],
        n_more=len(history.trends) - len(listed),
        frame=FRAME,
        version=version("shortcut-guardrail"),
        **own_files("report", script=False),
    )
    return page.lstrip()


def _trend(history: History, trend: Trend, labels: Sequence[str], new_models: Sequence[int]) -> Mapping[str, Any]:
    charts = []
    for key, name in _RATES:
        rates = [getattr(seen, key) for seen in trend.seen]
        points = [(rate.value, *rate.interval) if rate and rate.n else None for rate in rates]
        alarm = trend.alarm if key == "affected" else None
        last = next((_shown(rate) for rate in reversed(rates) if rate is not None and rate.n), "-")
        charts.append((name, chart(points, new_models, alarm=alarm), last))
    rows = [
        (
            label,
            [_shown(getattr(seen, key)) for key, _ in _RATES],
            seen.status.replace("not_flagged", ""),
            seen.decision,
        )
        for label, seen in zip(labels, trend.seen, strict=True)
    ]
    return {
        "trend": trend,
        "charts": charts,
        "rows": rows,
        "known": labels[trend.known],
        "alarm": None if trend.alarm is None else history.said(trend),
        "decision": next((seen.decision for seen in reversed(trend.seen) if seen.decision), ""),
    }


def _shown(rate: Rate | None) -> str:
    if rate is None or not rate.n:
        return "-"
    low, high = rate.interval
    return f"{percent(rate.value)} ({percent(low)} to {percent(high)})"


def chart(
    points: Sequence[tuple[float, float, float] | None], new_models: Sequence[int], *, alarm: int | None
) -> Mapping[str, Any]:
    """Where the marks of a line over audits go, each with its value and interval; a gap where one is `None`."""
    top = max((high if high == high else value for value, _, high in filter(None, points)), default=0.0)
    top = next(step for step in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if step >= top or step == 1)
    wide = (FRAME["right"] - FRAME["left"]) / len(points)

    def x(index: int) -> float:
        return round(FRAME["left"] + (index + 0.5) * wide, 1)

    def y(value: float) -> float:
        return round(FRAME["bottom"] - min(1.0, value / top) * (FRAME["bottom"] - FRAME["top"]), 1)

    runs: list[list[tuple[float, float]]] = [[]]
    marks = []
    for i, point in enumerate(points):
        if point is None:
            runs.append([])
            continue
        value, low, high = point
        runs[-1].append((x(i), y(value)))
        whisker = (y(low), y(high)) if low == low else None
        marks.append({"x": x(i), "y": y(value), "whisker": whisker, "alarm": alarm is not None and i >= alarm})
    return {
        "lines": ["M" + "L".join(f"{a} {b}" for a, b in run) for run in runs if len(run) > 1],
        "marks": marks,
        "ticks": [(y(value), f"{100 * value:g}%") for value in (0.0, top / 2, top)],
        "new_models": [round(x(i) - wide / 2, 1) for i in new_models],
    }
