"""Where the marks of the page's small charts go: numbers in, coordinates out. The template draws them as inline SVG."""

from collections.abc import Sequence
from typing import Any

METER_WIDTH = 96.0
AXIS = {"left": 48.0, "right": 546.0, "top": 26.0, "bottom": 176.0, "width": 560.0, "height": 220.0}
"""The frame of a histogram, in the units of its view box."""


def meter(
    value: float | None, interval: Sequence[float | None] = (None, None), *, signed: bool = False
) -> dict[str, Any] | None:
    """The bar of a rate in [0, 1], or of a signed change in [-1, 1] around a centre line; `None` for what is undefined.

    Returns:
        Where the bar starts (`x`), its `width`, whether the value is negative (`below`), and where the interval starts
        and ends (`whisker`; `None` if there is none).
    """
    if value is None:
        return None

    def place(at: float) -> float:
        return round(METER_WIDTH * min(1.0, max(0.0, (at + 1) / 2 if signed else at)), 2)

    start, end = sorted((place(0.0), place(value)))
    low, high = interval
    whisker = None if low is None or high is None else (place(low), place(high))
    return {"x": start, "width": round(end - start, 2), "below": value < 0, "whisker": whisker}


def histogram(
    counts: Sequence[int], *, low: float, high: float, mean: float | None = None, most: int | None = None
) -> dict[str, Any] | None:
    """Equal bins over [low, high] with a line at the mean; `None` where nothing was counted.

    Args:
        most: The count at the top of the axis, where several histograms share it.

    Returns:
        `bars`, `x_ticks` and `y_ticks` (pairs of a place and a label), the place of the `mean`, and `n`, the texts.
    """
    if not sum(counts):
        return None
    top = max(1, max(counts) if most is None else most)
    edges = [low + i * (high - low) / len(counts) for i in range(len(counts) + 1)]

    def x(value: float) -> float:
        return round(AXIS["left"] + (value - low) / (high - low) * (AXIS["right"] - AXIS["left"]), 2)

    def y(count: float) -> float:
        return round(AXIS["bottom"] - count / top * (AXIS["bottom"] - AXIS["top"]), 2)

    bars = [
        {
            "x": x(left) + 1,
            "y": y(count),
            "width": round(x(right) - x(left) - 2, 2),
            "height": round(AXIS["bottom"] - y(count), 2),
            "low": left,
            "high": right,
            "count": count,
        }
        for left, right, count in zip(edges, edges[1:], counts, strict=False)
    ]
    quarters = [low + (high - low) * i / 4 for i in range(5)]
    return {
        "bars": bars,
        "x_ticks": [(x(value), f"{value:g}") for value in quarters],
        "y_ticks": [(y(count), f"{count:,}") for count in dict.fromkeys((0, top // 2, top))],
        "mean": None if mean is None else (x(mean), f"mean {mean:.3f}"),
        "n": sum(counts),
    }
