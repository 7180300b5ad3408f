"""What the demo shows, seed by seed.

    python bench/experiments/demo_seeds/run.py --out results/demo_seeds.json

All seeds are run with the sizes and settings of `shortcut-guardrail demo`. The corpus was designed on seeds 10 to 12.
Seeds 0 to 2 are those that the demo is reported on; an earlier draft of the corpus had been looked at on them. Seeds 3
to 5 were run once, when the corpus was finished.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from shortcut_bench.standalone import grow
from shortcut_guardrail.demo.run import DemoResult, run_demo
from shortcut_guardrail.evaluation.scoring import Evaluation
from shortcut_guardrail.stats import exact_interval

SEEDS = (10, 11, 12, 0, 1, 2, 3, 4, 5)


def measure(seed: int) -> dict[str, Any]:
    """The demo of one seed."""
    started = time.process_time()
    result = run_demo(seed=seed)
    return summary(result, threads=torch.get_num_threads(), cpu_seconds=time.process_time() - started)


def summary(result: DemoResult, *, threads: int, cpu_seconds: float) -> dict[str, Any]:
    """Its accuracies with their counts and intervals, and how long it took.

    Args:
        result: What the demo found.
        threads: On how many it ran.
        cpu_seconds: How long they computed, all together.
    """
    return {
        "words_found": list(result.shortcuts.words),
        "shortcut_reversed": _scores(result.evaluations),
        "shortcut_as_in_training": _scores(result.in_distribution),
        "strength": {name: repair.choice.strength for name, repair in result.repairs.items()},
        "steps": {name: repair.fitted.training.n_steps for name, repair in result.repairs.items()},
        "seconds": round(sum(result.seconds.values())),
        "cpu_seconds": round(cpu_seconds),
        "threads": threads,
    }


def _scores(evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    n, always_the_same = next((e.n, e.majority_accuracy) for e in evaluations.values())
    return {"n": n, "always_the_same_answer": always_the_same} | {
        name: {
            "accuracy": evaluation.accuracy,
            "interval": [round(end, 4) for end in exact_interval(round(evaluation.accuracy * n), n)],
            "groups": {
                group.name: {
                    "n": group.n,
                    "accuracy": group.accuracy,
                    "interval": [round(e, 4) for e in group.interval],
                }
                for group in evaluation.groups
            },
        }
        for name, evaluation in evaluations.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and run the seeds that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not run again.")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    args = parser.parse_args(arguments)
    for entry in grow(args.out, [{"seed": seed} for seed in args.seeds], measure, asked={}, entries="seeds"):
        worst, accuracy = (
            {name: value(entry[part][name]) for name in ("base", "paper", "guarded")}
            for part, value in (
                ("shortcut_reversed", _worst),
                ("shortcut_as_in_training", lambda found: found["accuracy"]),
            )
        )
        print(entry["seed"], "worst group", worst, "as in training", accuracy, entry["seconds"], "s", flush=True)


def _worst(found: Mapping[str, Any]) -> float:
    worst: float = min(group["accuracy"] for group in found["groups"].values())
    return worst


if __name__ == "__main__":
    main()
