"""Audit a large file on a Ray cluster: actors compute the shards, and the driver keeps them and writes the report.

    pip install ray shortcut-guardrail                    # the same versions on all machines
    python ray_audit.py MODEL texts.csv --out audit --workers 8

OUT is what `shortcut-guardrail audit MODEL texts.csv --out audit --shard-size 2000 --unit word` writes. Only the driver
reads the model and the file, and only it writes. If it is killed, the same command goes on with the shards in
OUT.partial.
"""

import argparse
import shutil
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path

import ray

from shortcut_guardrail import AuditConfig, FileTexts, ShortcutGuardrail
from shortcut_guardrail.cli.audit import write_audit  # what the command itself calls; another version may move it


# Ray starts an actor again that ended, on another machine if need be. A shard that ends four of them ends the audit.
@ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=3)
class Worker:
    """Has the model, and computes one shard at a time."""

    def __init__(self, compute):
        self.compute = compute

    def shard(self, texts):
        """The library's own function, with the model in it."""
        return self.compute(texts)


def map_by_actors(compute, shards, *, workers):
    """Like `map`, but by actors and in any order; of the file no more than one shard for each actor is in memory."""
    held = ray.put(compute)  # the model, which every machine fetches once
    actors, running = [Worker.remote(held) for _ in range(workers)], {}

    def start(actor):
        for texts in islice(shards, 1):
            running[actor.shard.remote(texts)] = actor

    for actor in actors:
        start(actor)
    while running:
        (done,), _ = ray.wait([*running])
        start(running.pop(done))
        yield ray.get(done)


def audit(model, data, out, *, workers, unit, shard_size):
    """Audit a file, and write the folder of the audit."""
    guard = ShortcutGuardrail.from_pretrained(model, device="cpu")
    partial_out = out.resolve().with_name(f"{out.name}.partial")
    found = guard.audit_in_shards(
        FileTexts(data),
        partial_out,
        config=AuditConfig(unit=unit, shard_size=shard_size),
        resume=True,
        map_shards=partial(map_by_actors, workers=workers),
        progress=True,
    )
    about = {"model": model, "data": data, "folder": str(out), "date": date.today().isoformat()}
    write_audit(found.report, found.inputs(), out, overwrite=False, redact=False, hashes=True, about=about)
    shutil.rmtree(partial_out)  # the shards hold words of the texts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2, help="actors, of one processor each")
    parser.add_argument("--unit", choices=("word", "token"), default="word")
    parser.add_argument("--shard-size", type=int, default=2000)
    given = vars(parser.parse_args())
    if given["out"].exists():
        parser.error(f"'{given['out']}' is there already. Name another folder.")
    ray.init()  # the cluster of RAY_ADDRESS, or one on this machine
    audit(**given)
