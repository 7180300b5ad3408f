"""How often does `history` raise an alarm where nothing changes, and how soon where a shortcut creeps in?

    python bench/experiments/history/run.py --out results/history.json

A history is a folder of audits with made counts, one a week, which `read_history` reads as it reads any other. A word
stands in a binomial number of the week's distinct texts, and of these a binomial number changes the prediction. A word
counts as found in an audit from five changes on. So words become known at different times, as in true audits. Where
nothing changes all shares stay the same for 52 weeks. Else one word has a higher exposure from week seven of twelve on:
at once, or by as much again each week. It is known before, or it becomes known as it rises. Beside it the rule that
people use: an alarm where a week's 95 % interval lies above that of the first week.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from shortcut_bench.standalone import grow
from shortcut_guardrail.history import History, read_history
from shortcut_guardrail.stats import exact_interval

FOUND_FROM = 5
RISES_AT = 6
"""The seventh week, from 0."""
YEAR, TWELVE = 52, 12
EXPOSURES = (0.001, 0.002, 0.003, 0.005, 0.01, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.4)
FLIP_RATES = (0.5, 0.3, 0.1, 0.4, 0.2, 0.05, 0.3, 0.1, 0.02, 0.05, 0.01, 0.005)
NAME = "creeps"
NO_EVIDENCE = {"pushes_towards": "positive", "mean_change": 0.0, "override_rate": 0.0, "q_value": 1.0, "reason": None}
NO_EVIDENCE |= {"opposed_rate": 0.0, "expected_rate": 0.0, "relative_effect": 0.5, "p_value": 1.0, "examples": []}
NO_EVIDENCE |= {"alternative_wording": False, "collective": False, "labelled": None, "unit": "word", "insertion": None}
EMPTY = {"schema_version": 1, "unit": "word", "top_k": 10, "fdr": 0.05, "min_relative_effect": 0.6, "mstps": 0.2}
EMPTY |= {"label_names": ["negative", "positive"], "predicted": {"negative": 1, "positive": 1}, "n_tested": 0}
EMPTY |= {"sensitivity_histogram": [1] * 20, "n_undecided": 0, "n_truncated": 0, "set_p_value": None, "notes": []}
EMPTY |= {"agreement": {"mean": 0.5, "n": 1, "top_agrees": 0.5, "untrusted": 0.1, "histogram": [1] * 20}, "cards": []}


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate every case that the results file does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--histories", type=int, default=500)
    options = parser.parse_args(arguments)
    cases = [{"case": "no change", "texts": texts, "exposure": 0.0, "known": False} for texts in (500, 2_000, 10_000)]
    for case, exposure in (("at once", 0.02), ("at once", 0.04), ("creeping", 0.005), ("creeping", 0.01)):
        for known in (True, False):
            cases.append({"case": case, "texts": 2_000, "exposure": exposure, "known": known})
    asked = {"histories": options.histories, "weeks": YEAR, "weeks_of_a_rise": TWELVE, "false_alarms": 0.05}
    for entry in grow(options.out, cases, lambda **case: simulated(case, options.histories), asked=asked):
        print(json.dumps(entry))


def simulated(case: Mapping[str, Any], histories: int) -> dict[str, Any]:
    """What became of so many histories."""
    rng = np.random.default_rng(0)
    if case["case"] == "no change":
        any_alarm = naive = 0
        for _ in range(histories):
            counts = drawn(rng, YEAR, np.tile(EXPOSURES, (YEAR, 1)), FLIP_RATES, case["texts"])
            any_alarm += bool(told(counts, case["texts"]).alarms)
            naive += by_intervals(counts, case["texts"])
        return {"histories": histories, "with_an_alarm": any_alarm, "by_intervals": naive}
    weeks = np.arange(TWELVE) - RISES_AT
    steps = np.maximum(0, weeks + 1) if case["case"] == "creeping" else (weeks >= 0)
    exposures = np.column_stack([np.tile(EXPOSURES, (TWELVE, 1)), 0.002 + steps * case["exposure"]])
    flags, alarms, others, early = [], [], 0, 0
    for _ in range(histories):
        counts = drawn(rng, TWELVE, exposures, (*FLIP_RATES, 0.4), case["texts"])
        found = told(counts, case["texts"], words=[NAME] if case["known"] else [])
        trend = next((one for one in found.trends if one.words == (NAME,)), None)
        flags.append(None if trend is None else trend.known)
        alarms.append(None if trend is None else trend.alarm)
        early += alarms[-1] is not None and alarms[-1] < RISES_AT
        others += any(one.words != (NAME,) for one in found.alarms)
    result = {"histories": histories, "alarm": by_week(alarms), "early": early, "of_other_words": others}
    return result if case["known"] else result | {"new_word": by_week(flags)}


def by_week(found: list[int | None]) -> dict[str, int]:
    """How many by the week from the rise on, from 0; those never."""
    weeks = {str(week): found.count(RISES_AT + week) for week in range(TWELVE - RISES_AT)}
    return {"before": sum(week is not None and week < RISES_AT for week in found), **weeks, "never": found.count(None)}


def drawn(rng: np.random.Generator, weeks: int, exposures: Any, flip_rates: Any, texts: int) -> np.ndarray:
    """Texts that hold each word and prediction changes, shape (weeks, words, 2)."""
    holds = rng.binomial(texts, exposures)
    return np.stack([holds, rng.binomial(holds, np.tile(flip_rates, (weeks, 1)))], axis=2)


def told(counts: np.ndarray, texts: int, words: list[str] = []) -> History:  # noqa: B006
    """What `read_history` says of audits with these counts; the last word of more than usual is the one that rises."""
    names = [f"word {i}" for i in range(len(EXPOSURES))] + [NAME]
    with TemporaryDirectory() as folder:
        paths = []
        for week, of_week in enumerate(counts):
            candidates = [as_candidate(name, *map(int, of)) for name, of in zip(names, of_week, strict=False) if of[0]]
            about = {"n": texts, "n_distinct": texts, "n_candidates": len(candidates), "candidates": candidates}
            path = Path(folder) / f"{week:02d}.json"
            path.write_text(json.dumps({**EMPTY, **about, "model": "m", "data": str(week)}), encoding="utf-8")
            paths.append(path)
        return read_history(paths, words=words)


def as_candidate(name: str, holds: int, changes: int) -> dict[str, Any]:
    """A candidate of an audit that stands in so many distinct texts."""
    counts = {"text": name, "count": holds, "n_distinct": holds, "n_present": holds, "flip_rate": changes / holds}
    found = {"flagged": changes >= FOUND_FROM, "status": "flagged" if changes >= FOUND_FROM else "not_flagged"}
    intervals = {"flip_rate": [0, 1], "mean_change": [-1, 1], "override_rate": [0, 1]}
    return {**NO_EVIDENCE, **counts, **found, "interval": intervals}


def by_intervals(counts: np.ndarray, texts: int) -> bool:
    """Whether any week's 95 % interval lies above that of the first one, for any word."""
    changes = counts[:, :, 1]
    return any(exact_interval(int(k), texts)[0] > exact_interval(int(of[0]), texts)[1] for of in changes.T for k in of)


if __name__ == "__main__":
    main()
