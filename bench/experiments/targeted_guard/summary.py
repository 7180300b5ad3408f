"""What all files together say: means over the seeds, shares of the gap to the oracle, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shortcut_bench.statistics import (
    Statistic,
    percentile_interval,
    resample,
    share_of_gap,
    weighted_accuracy,
    weighted_balanced_accuracy,
)
from shortcut_guardrail.typing import Array

N_SUPPORT = 40
"""Rows that are set apart as support set and never scored."""


def apart(seed: int, n: int) -> tuple[Array, Array]:
    """Positions of the rows that are set apart and of those that are scored, of n in a test set."""
    order = np.random.default_rng(seed).permutation(n)
    return order[:N_SUPPORT], order[N_SUPPORT:]


def share(found: dict[str, Any], base: dict[str, Any], oracle: dict[str, Any], key: str) -> float | None:
    """Share of the gap to the oracle that is closed; `None` where there is no gap."""
    closed = share_of_gap(found[key], base[key], oracle[key])
    return None if math.isnan(closed) else closed


def spread(values: Sequence[float | None]) -> list[float] | None:
    """Mean and standard deviation; `None` where one is undefined, or there is none."""
    if not values or any(value is None for value in values):
        return None
    numbers = np.array(values, dtype=float)
    return [float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0]


def gap_of_means(bounds: Sequence[dict[str, Any]], points: Sequence[dict[str, Any]], key: str) -> list[float] | None:
    """Share of the gap that the means over seeds close, as in the benchmark's tables, and the standard deviation of the
    seeds' own shares."""
    base, oracle = (float(np.mean([bound[end][key] for bound in bounds])) for end in ("base", "oracle"))
    found = float(np.mean([point["reversed"][key] for point in points]))
    own = spread(
        [
            share(point["reversed"], bound["base"], bound["oracle"], key)
            for bound, point in zip(bounds, points, strict=True)
        ]
    )
    return None if own is None else [share_of_gap(found, base, oracle), own[1]]


def gap_interval(
    of_seeds: Sequence[int],
    bounds: Sequence[dict[str, Any]],
    points: Sequence[dict[str, Any]],
    statistic: Callable[[str], Statistic],
) -> list[float] | None:
    """95 % interval of the share of gap, of means over seeds; `None` for results without answers.

    The test sets hold the same texts in the same order for every seed, but for what is inserted, so that a position
    stands for a text.
    """
    seeds = []
    for seed, bound, point in zip(of_seeds, bounds, points, strict=True):
        kept = {"base": bound["base"], "oracle": bound["oracle"], "guarded": point["reversed"]}
        if not all("answers" in scores for scores in kept.values()):
            return None
        labels = np.array(list(bound["labels"]))
        columns = {name: np.array(list(scores["answers"])) == labels for name, scores in kept.items()}
        texts = apart(seed, len(labels) + N_SUPPORT)[1]
        seeds.append({**columns, "texts": texts, "labels": labels.astype(int)})
    drawn = resample(seeds, {name: statistic(name) for name in ("base", "oracle", "guarded")})
    gap = drawn["oracle"] - drawn["base"]
    if (gap <= 0).any():
        return None
    return list(percentile_interval((drawn["guarded"] - drawn["base"]) / gap))


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds of the headline figures."""
    table: dict[str, Any] = {}
    for name in dict.fromkeys(r["data"] for r in results):
        runs = [r for r in results if r["data"] == name]
        rows: dict[str, Any] = {"seeds": [r["seed"] for r in runs]}
        getters: dict[str, Callable[[dict[str, Any]], float | None]] = {
            "strength": lambda p: p["strength"],
            "accuracy": lambda p: p["reversed"]["accuracy"],
            "balanced_accuracy": lambda p: p["reversed"]["balanced_accuracy"],
            "in_distribution": lambda p: (p["in_distribution"] or {}).get("accuracy"),
        }
        for part in dict.fromkeys(name for r in runs for name, found in r["parts"].items() if "strengths" in found):
            measured = [(r["seed"], r["parts"]) for r in runs if part in r["parts"]]
            for how in dict.fromkeys(how for _, parts in measured for how in parts[part]["strengths"]):
                of_seeds = [seed for seed, parts in measured if how in parts[part]["strengths"]]
                having = [parts for _, parts in measured if how in parts[part]["strengths"]]
                bounds = [parts["bounds"] for parts in having]
                points = [parts[part]["strengths"][how] for parts in having]
                row: dict[str, Any] = {key: spread([get(p) for p in points]) for key, get in getters.items()}
                row["gap_closed"] = gap_of_means(bounds, points, "accuracy")
                row["gap_closed_balanced"] = gap_of_means(bounds, points, "balanced_accuracy")
                row["gap_closed_interval"] = gap_interval(of_seeds, bounds, points, weighted_accuracy)
                row["gap_closed_balanced_interval"] = gap_interval(of_seeds, bounds, points, weighted_balanced_accuracy)
                row["n_seeds"] = len(points)
                rows[f"{part}, {how}"] = row
        for key in ("base", "oracle", "base_in_distribution", "oracle_in_distribution"):
            rows[key] = {
                m: spread([r["parts"]["bounds"][key][m] for r in runs]) for m in ("accuracy", "balanced_accuracy")
            }
        for key in ("fitted_in_distribution", "clean"):
            rows[key] = {"loss": spread([r["parts"][key]["loss"] for r in runs if key in r["parts"]])}
        teachers = [r["parts"]["teachers"] for r in runs if "teachers" in r["parts"]]
        if teachers:
            rows["teachers"] = summary_of_teachers(teachers)
        table[name] = rows
    return table


def summary_of_teachers(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; `elsewhere` sums up the texts that could be tried."""
    tried = [one["elsewhere"] for one in found if one["elsewhere"]["n"]]
    return {
        "n_seeds": len(found),
        **{
            key: {way: spread([one[key][way] for one in found]) for way in ("mask", "remove", "both")}
            for key in ("gap_closed", "gap_closed_balanced")
        },
        "elsewhere": {
            "n": sum(one["n"] for one in tried),
            **{
                way: {
                    "answers_kept": sum(one[way]["answers_kept"] for one in tried),
                    "total_variation": spread([one[way]["total_variation"] for one in tried]),
                }
                for way in ("mask", "remove")
            },
        },
    }
