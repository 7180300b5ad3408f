"""What the way from an audit to a certificate costs, with this version of the library and with an earlier one.

    git worktree add ../then 690c1879
    shortcut-guardrail demo --out demo
    python bench/experiments/road/run.py --demo demo --then ../then --out results/road.json

The commands of the tutorial are called in turn: an audit of the demo's deployment texts, questions about two word
groups, answers (the demo's labels), the repair, a sample to label, and a certificate from the labelled test texts. Each
is a process of its own.

- `seconds`: of the processor, on one thread. Measure both versions in one call, with nothing else running.
- `clock`: seconds by the clock, with as many threads as PyTorch takes. The same holds.
- `tokens`: how many the model read, padding included. They are counted in calls of their own.

Finished cases are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shortcut_bench.standalone import grow
from shortcut_guardrail.demo.corpus import LABEL_NAMES, make_corpus

GROUPS = "honestly,not"
"""The first words of the word groups that are asked about."""

CALL = "from shortcut_guardrail.cli.main import main; main()"

COUNTED = """
import sys, torch
tokens = [0]
def count(module, inputs):
    # Word embeddings have a row for each token of a vocabulary; positions and segments have far fewer.
    if isinstance(module, torch.nn.Embedding) and module.num_embeddings > 10_000:
        tokens[0] += inputs[0].numel()
torch.nn.modules.module.register_module_forward_pre_hook(count)
from shortcut_guardrail.cli.main import main
try:
    main()
finally:
    print("tokens", tokens[0], file=sys.stderr)
"""


def commands(demo: Path, out: Path, *, earlier: bool) -> dict[str, list[Any]]:
    """By what a command is for, its arguments; the earlier version has other names for two of them."""
    model, texts, test = demo / "biased-model", demo / "deployment.csv", demo / "test.csv"
    audit, questions, decisions = out / "audit", out / "questions.csv", out / "decisions.json"
    asked = (
        ["flips", audit, model, texts, "--cards"] if earlier else ["questions", audit, model, texts, "--word-groups"]
    )
    return {
        "audit": ["audit", model, texts, "--out", audit],
        "questions": [*asked, GROUPS, "--n", 20, "--out", questions],
        "decide": ["judge" if earlier else "decide", audit, questions, "--reviewer", "anna", "--out", decisions],
        "fit": ["fit", model, texts, "--decisions", decisions, "--out", out / "guarded"]
        + ([] if earlier else ["--audit", audit]),
        "to-label": ["to-label", out / "guarded", test, "--n", 100, "--out", out / "to_label.csv"],
        "certify": ["certify", out / "guarded", test, "--labelled", test, "--margin", 0.02, "--out", out / "certified"],
    }


def answer(file: Path, truth: Mapping[str, str]) -> None:
    """Answer all questions by the texts' labels, as a person would."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        due = truth[row["text"]]
        row["answer"] = {row["option_a"]: "a", row["option_b"]: "b"}.get(due, "neither")
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def clocked(call: Callable[[str], str]) -> float:
    """Seconds that a command takes by the clock."""
    before = time.monotonic()
    call(CALL)
    return round(time.monotonic() - before, 1)


def timed(call: Callable[[str], str]) -> float:
    """Seconds of the processor that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call(CALL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)


def counted(call: Callable[[str], str]) -> int:
    """Tokens that the model reads in a command."""
    return int(call(COUNTED).rsplit("tokens ", 1)[1].split()[0])


HOW: dict[str, Callable[[Callable[[str], str]], float]] = {"seconds": timed, "clock": clocked, "tokens": counted}


def measure(version: str, what: str, *, args: argparse.Namespace) -> dict[str, Any]:
    """One version of the library, all commands."""
    tree = args.then if version == "then" else Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "HF_HUB_OFFLINE": "1"}
    environment |= {} if what == "clock" else {"OMP_NUM_THREADS": "1"}
    commit = subprocess.run(
        ["git", "-C", tree, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    corpus = make_corpus()
    truth = {text: LABEL_NAMES[i] for text, i in zip(corpus.deployment.texts, corpus.deployment.labels, strict=True)}
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        for name, arguments in commands(args.demo.resolve(), out, earlier=version == "then").items():
            if name == "decide":
                answer(out / "questions.csv", truth)

            def call(program: str, arguments: Sequence[Any] = arguments) -> str:
                done = subprocess.run(
                    [sys.executable, "-c", program, *map(str, arguments)],
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                if done.returncode:
                    raise SystemExit(f"{version}, {arguments[0]}: {done.stderr[-2000:]}")
                return done.stderr

            found[name] = HOW[what](call)
            print(version, what, name, found[name], flush=True)
    return {"commit": commit.stdout.strip(), "commands": found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, required=True, help="A folder that `shortcut-guardrail demo` wrote.")
    parser.add_argument("--then", type=Path, required=True, help="A checkout of the earlier version.")
    parser.add_argument("--what", nargs="+", choices=HOW, default=tuple(HOW))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    cases = [{"what": what, "version": version} for what in args.what for version in ("then", "now")]
    for entry in grow(args.out, cases, partial(measure, args=args), asked={"word_groups": GROUPS}):
        print(json.dumps(entry), round(sum(entry["commands"].values()), 1), flush=True)


if __name__ == "__main__":
    main()
