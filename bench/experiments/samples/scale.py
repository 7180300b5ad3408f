"""What a sample of very many texts costs: time, memory and disk.

    python bench/experiments/samples/scale.py --texts 10000000 --out results/samples_scale.json

Texts of a few made-up words are written to a file, and the command audits a sample of them with a classifier that
counts words. Writing the file takes some minutes, and 40 bytes a text.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.store import dense_json
from shortcut_guardrail.data import write_file

EFFECTS = {"awful": -1, "bad": -1, "poor": -1, "dull": -1, "great": 1, "fine": 1, "lovely": 1, "good": 1, "honestly": 6}
RATES = 0.02, 0.004
"""In which share of negative and of positive texts "honestly" stands."""
SAMPLE = 20_000
AT_ONCE = 50_000

Array = np.ndarray[Any, np.dtype[Any]]


def predict(texts: Sequence[str]) -> Array:
    """Positive by the words of `EFFECTS`."""
    sums = np.array([sum(EFFECTS.get(word.strip(","), 0) for word in text.casefold().split()) for text in texts])
    positive = 1 / (1 + np.exp(-sums.astype(float)))
    return np.column_stack([1 - positive, positive])


def write_texts(path: Path, n: int) -> None:
    """A CSV file of n texts: two words of a class, and four to eight of 20,000 others, by Zipf's law."""
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrst"))
    others = np.array(
        ["w" + "".join(letters[[int(digit, 20) for digit in np.base_repr(i, 20)]]) for i in range(20_000)]
    )
    rates = 1 / np.arange(1, 20_001) ** 1.05
    of_class = np.array(list(EFFECTS)[:8]).reshape(2, 4)
    with path.open("w", encoding="utf-8") as file:
        file.write("text\n")
        for start in range(0, n, AT_ONCE):
            size = min(AT_ONCE, n - start)
            classes = rng.integers(0, 2, size)
            words = others[rng.choice(20_000, size=(size, 8), p=rates / rates.sum())]
            said, lengths = of_class[classes[:, None], rng.integers(0, 4, (size, 2))], rng.integers(4, 9, size)
            opens = rng.random(size) < np.array(RATES)[classes]
            for i in range(size):
                opening = "honestly, " if opens[i] else ""
                file.write(f'"{opening}{said[i, 0]} {" ".join(words[i, : lengths[i]])} {said[i, 1]}"\n')


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the texts, audit a sample, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data, audit = Path(folder, "texts.csv"), Path(folder, "audit")
        write_texts(data, args.texts)
        program = "from shortcut_guardrail.cli.main import main; main()"
        command = ["audit", f"{Path(__file__).stem}:predict", str(data), "--labels", "negative,positive"]
        command += ["--sample", str(SAMPLE), "--out", str(audit), "--yes"]
        begun = time.perf_counter()
        path = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        subprocess.run([sys.executable, "-c", path + program, *command], check=True, stdout=subprocess.DEVNULL)
        seconds, used = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        found = {
            "texts": args.texts,
            "sample": SAMPLE,
            "bytes_of_file": data.stat().st_size,
            "seconds": round(seconds),
            "cpu_seconds": round(used.ru_utime + used.ru_stime),
            "megabytes": round(used.ru_maxrss / 1024),
            "bytes_of_audit": sum(file.stat().st_size for file in audit.rglob("*")),
        }
    write_file(args.out, dense_json(found), overwrite=True)
    print(found)


if __name__ == "__main__":
    main()
