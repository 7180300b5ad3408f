"""What is left when one of two processes of `predict` or `evaluate` is killed, and whether the next run mends it.

    shortcut-guardrail demo --out demo
    python bench/experiments/processes/run.py --model demo/biased-model --data-dir ../shared/data \\
        --out results/processes_killed.json

The demo's classifier answers real texts of GoEmotions, labelled by turns, in two processes as `torchrun` would start
them. In each case one of the two is killed, each by turns, at a random moment after its first third. The other one is
waited for, and the command is given again.

- `at`: when it was killed, as a share of what an undisturbed run takes.
- `alive`: whether it had not ended by itself before.
- `wait_s`: seconds until the other process had ended, by itself.
- `error`: what the other said last.
- `left`: what was written: `none`, `whole`, or `other`, which would be a half.
- `same`: whether the next run wrote what an undisturbed run writes, apart from seconds.

Finished cases are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.standalone import grow
from shortcut_guardrail.data import read_data
from shortcut_guardrail.saving.record import library_versions

FILES = ("goemotions_shortcuts/original_test.csv", "goemotions_shortcuts/original_train.csv")
CALL = "from shortcut_guardrail.cli.main import main; main()"
COMMANDS = {
    "predict": ("predict", "{model}", "{texts}", "--out", "{out}", "--overwrite"),
    "evaluate": ("evaluate", "{model}", "{texts}", "--sensitivity", "150", "--json", "{out}", "--overwrite"),
}
LONGEST_S = 120
"""So long the other process is waited for."""


class Place:
    """A folder with the texts, in which a command writes one file.

    Args:
        command: Of `COMMANDS`.
    """

    def __init__(self, folder: Path, command: str, args: argparse.Namespace) -> None:
        self.out = folder / ("predictions.csv" if command == "predict" else "scores.json")
        named = {"model": args.model.resolve(), "texts": folder / "texts.csv", "out": self.out}
        self.arguments = [part.format(**named) for part in COMMANDS[command]]
        texts = [text for file in FILES for text in read_data(args.data_dir / file).texts][: args.texts]
        with named["texts"].open("w", newline="", encoding="utf-8") as file:
            rows = ((text, ("negative", "positive")[i % 2]) for i, text in enumerate(texts))
            csv.writer(file).writerows([("text", "label"), *rows])

    def start(self) -> list[subprocess.Popen[str]]:
        """Both processes."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "-c", CALL, *self.arguments]
        return [subprocess.Popen(command, env={**os.environ, **together, "RANK": rank}, **pipes) for rank in "01"]

    def run(self) -> bool:
        """Whether both came to their end."""
        running = self.start()
        for process in running:
            process.communicate()
        return not any(process.returncode for process in running)

    def written(self) -> list[str] | None:
        """The lines of the file but for seconds; `None` if there is none."""
        if not self.out.exists():
            return None
        return [line for line in self.out.read_text(encoding="utf-8").splitlines() if '"seconds": ' not in line]

    @cached_property
    def undisturbed(self) -> tuple[list[str] | None, float]:
        """What is written, and how many seconds that takes."""
        before = time.monotonic()
        if not self.run():
            raise SystemExit(f"{self.arguments[0]} fails without being killed.")
        return self.written(), time.monotonic() - before


def measure(command: str, number: int, *, places: dict[str, Place]) -> dict[str, Any]:
    """One kill."""
    place = places[command]
    expected, seconds = place.undisturbed
    at = float(np.random.default_rng([number, len(command)]).uniform(1 / 3, 1))
    place.out.unlink(missing_ok=True)
    running = place.start()
    victim, other = running[number % 2], running[1 - number % 2]
    time.sleep(at * seconds)
    alive = victim.poll() is None
    victim.kill()
    killed = time.monotonic()
    try:
        said = other.communicate(timeout=LONGEST_S)[1].strip().splitlines()
        waited: float | None = round(time.monotonic() - killed, 1)
    except subprocess.TimeoutExpired:
        other.send_signal(signal.SIGKILL)
        said, waited = other.communicate()[1].strip().splitlines(), None
    victim.communicate()
    left = place.written()
    again = place.run()
    return {
        "at": round(at, 2),
        "alive": alive,
        "wait_s": waited,
        "error": said[-1] if other.returncode and said else None,
        "left": "none" if left is None else "whole" if left == expected else "other",
        "same": again and place.written() == expected,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="The demo's classifier.")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=1500)
    parser.add_argument("--kills", type=int, default=20, help="Of each command.")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    cases = [{"command": command, "number": number} for command in COMMANDS for number in range(args.kills)]
    with tempfile.TemporaryDirectory() as folder:
        places = {}
        for command in COMMANDS:
            (own := Path(folder) / command).mkdir()
            places[command] = Place(own, command, args)
        versions = {"versions": library_versions()}
        found = partial(measure, places=places)
        for entry in grow(args.out, cases, found, asked={"texts": args.texts}, beside=lambda _: versions):
            print(entry, flush=True)


if __name__ == "__main__":
    main()
