"""Words that must not decide alone, beside the same words neutralised: what each repair fixes and breaks.

    python bench/experiments/not_alone/run.py --data-dir ../shared/data --out results/not_alone.json

For settings of the benchmark the base classifier is repaired on one half of the test texts, without labels, and scored
on the other half, and on all of them. The words are MultiNLI's negations and Amazon's "book".

- `groups`: by label, and whether a text holds a word: how many texts, and how many are predicted rightly by each
  system.

Finished settings and seeds are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from shortcut_bench.standalone import grow, open_rows, settings_cases, settings_parser
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.shortcuts import Shortcut, Shortcuts
from shortcut_guardrail.text import WordFinder
from shortcut_guardrail.typing import Array, Text

SETTINGS = ("natural-shortcuts/MultiNLI/test", "natural-shortcuts/Amazon/test")
WORDS = {"MultiNLI": ("nobody", "no", "never", "nothing"), "Amazon": ("book", "books")}
REASONS: dict[str, Literal["not alone"] | None] = {"remove_reliance": None, "not alone": "not alone"}


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    _, new, rows = open_rows(setting, seed, args, at_most=args.texts)
    words = WORDS[setting.split("/")[1]]
    half = len(rows) // 2
    systems: dict[str, Array] = {"base": new().predict_proba(rows.texts).argmax(axis=1)}
    strengths = {}
    for name, reason in REASONS.items():
        guard, texts = new(), rows.texts[:half]
        named = Shortcuts(tuple(Shortcut(word, "named", reason) for word in words))
        guard.fit(texts, config="distill", shortcuts=named, seed=seed)
        strengths[name] = guard.calibrate_without_labels(texts).strength
        systems[name] = guard.predict_proba(rows.texts).argmax(axis=1)
    holds = holding(words, rows.texts)
    return {
        "strengths": strengths,
        "groups": {
            part: [
                group(rows.labels, holds, systems, label=label, held=held, where=where, name=rows.label_names[label])
                for label in range(len(rows.label_names))
                for held in (True, False)
            ]
            for part, where in (("unseen", np.arange(len(rows)) >= half), ("all", np.arange(len(rows)) >= 0))
        },
    }


def holding(words: Sequence[str], texts: Sequence[Text]) -> Array:
    """Which of N texts hold a word, of a pair its second text, which is the hypothesis; shape (N,), bool."""
    finder = WordFinder(words)
    return np.array([finder.present(text if isinstance(text, str) else text[1]) for text in texts], dtype=bool)


def group(
    labels: Array, holds: Array, systems: dict[str, Array], *, label: int, held: bool, where: Array, name: str
) -> dict[str, Any]:
    """The texts of one label with or without a word, and how many of them each system predicts rightly."""
    chosen = (labels == label) & (holds == held) & where
    right = {system: int((answers[chosen] == label).sum()) for system, answers in systems.items()}
    return {"label": name, "holds": held, "n": int(chosen.sum()), "right": right}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2))
    parser.add_argument("--texts", type=int, default=1800, help="Test texts, of which half are repaired on.")
    args = parser.parse_args(arguments)
    asked, versions = {"texts": args.texts}, {"versions": library_versions()}
    for entry in grow(
        args.out, settings_cases(args), partial(measure, args=args), asked=asked, beside=lambda _: versions
    ):
        print(entry["setting"], entry["seed"], entry["strengths"])
        for one in entry["groups"]["all"]:
            print("  ", one, flush=True)


if __name__ == "__main__":
    main()
