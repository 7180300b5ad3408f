"""Times that mean something on a shared machine: contestants take turns, and what is reported is a ratio."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from .machine import wait


def in_turns(contestants: Mapping[str, Callable[[], Any]], *, rounds: int, warm_up: bool = True) -> dict[str, Any]:
    """Run every contestant once a round, in alternating order, so that a slow minute hits all of them.

    Returns:
        For each contestant all its seconds and their median, and the seconds that the processor gave this process: on
        a machine that others use, these say more.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    processor: dict[str, list[float]] = {name: [] for name in contestants}
    if warm_up:
        for run in contestants.values():
            run()
    for round_ in range(rounds):
        names = list(contestants)
        for name in names if round_ % 2 == 0 else reversed(names):
            wait()
            started, given = time.perf_counter(), time.process_time()
            contestants[name]()
            wait()
            seconds[name].append(time.perf_counter() - started)
            processor[name].append(time.process_time() - given)
    return {
        name: {"seconds": times, "median_s": statistics.median(times), "processor_s": processor[name]}
        for name, times in seconds.items()
    }


def ratio(times: Mapping[str, Any], slow: str, fast: str, *, of: str = "seconds") -> dict[str, float]:
    """How many times as long `slow` takes as `fast`: median over rounds, with the lowest and the highest.

    Args:
        times: From `in_turns`.
        slow: Name of the contestant above the line.
        fast: Name of the one below.
        of: `seconds` of the clock, or `processor_s`.
    """
    by_round = sorted(a / b for a, b in zip(times[slow][of], times[fast][of], strict=True))
    return {"median": statistics.median(by_round), "lowest": by_round[0], "highest": by_round[-1]}


def once(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a run gives, and its seconds."""
    wait()
    started = time.perf_counter()
    result = run()
    wait()
    return result, time.perf_counter() - started
