"""Runs the benchmarks and writes one JSON file; finished parts are kept, so that a run that was cut short goes on."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shortcut_guardrail.data.writing import to_json, write_file
from shortcut_guardrail.errors import GuardrailWarning

from . import adaptation, attribution, compiled, effect, families, machine, memory, prediction, profiling, scaling
from .table import table


def parts(data_dir: Path) -> dict[str, Callable[[], Any]]:
    """Every part by name, in the order in which they run."""
    return {
        "start": prediction.start,
        "adaptation": lambda: adaptation.whole_epoch(data_dir),
        "adaptation_against_plain": lambda: adaptation.against_plain(data_dir),
        "adaptation_without_each": lambda: adaptation.without_each(data_dir),
        "profile": lambda: profiling.step(data_dir),
        "families": lambda: families.families(data_dir),
        "attribution": lambda: attribution.attribution(data_dir),
        "audit": lambda: attribution.whole_audit(data_dir),
        "calibration": lambda: prediction.calibration(data_dir),
        "prediction": lambda: prediction.prediction(data_dir),
        "padding": lambda: memory.padding(data_dir),
        "memory_of_texts": memory.against_number_of_texts,
        "memory_of_a_batch": memory.training_batch,
        "product_cache": lambda: memory.product_cache(data_dir),
        "scaling": scaling.growth,
        "two_processes": scaling.two_processes,
        "compiled": lambda: compiled.trial(data_dir),
        "same_effect": lambda: effect.same_effect(data_dir),
    }


_OF_THE_PROCESSOR = ("two_processes", "memory_of_texts", "memory_of_a_batch", "product_cache", "families")
"""Parts that say nothing of a GPU: it is not shared between two processes for speed, the memory that is measured is the
host's, the cache is oneDNN's, and the families' ratios are of the processor's time."""


def main() -> None:
    """Parse, run what is missing, write."""
    parser = argparse.ArgumentParser(prog="python -m perf", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="Folder with sst2, goemotions_shortcuts and yelp.")
    parser.add_argument("--out", type=Path, required=True, help="JSON file; the table and figure go beside it.")
    parser.add_argument("--only", default="", help="Names of parts, with commas; all by default.")
    parser.add_argument("--again", action="store_true", help="Run parts again that the file already holds.")
    arguments = parser.parse_args()
    # One epoch at the paper's settings is said to change little; here it is the time that counts.
    warnings.simplefilter("ignore", GuardrailWarning)
    everything = parts(arguments.data_dir)
    left_out = _OF_THE_PROCESSOR if machine.on_gpu() else ()
    names = arguments.only.split(",") if arguments.only else [name for name in everything if name not in left_out]
    unknown = set(names) - set(everything)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(everything)}")
    results = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    if results and results["machine"]["gpu"] != machine.describe()["gpu"]:
        parser.error(f"{arguments.out} was measured on another device; give another file")
    for name in names:
        if name in results and not arguments.again:
            continue
        print(f"{name} ...", flush=True)
        results[name] = everything[name]()
        results["machine"] = machine.describe()
        write_file(arguments.out, to_json(results), overwrite=True)
    if "scaling" in results:
        scaling.figure(results["scaling"], arguments.out.with_suffix(".png"))
    text = table(results)
    write_file(arguments.out.with_suffix(".md"), text, overwrite=True)
    print(text)


if __name__ == "__main__":
    main()
