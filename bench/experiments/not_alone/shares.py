"""How many of a batch's places texts should have that hold a word that must not decide alone.

    python bench/experiments/not_alone/shares.py --data-dir ../shared/data --out results/not_alone_shares.json

The base classifier is repaired on the texts that `run.py` repairs on, with several shares of the places for texts with
a word; the rest of these places are for texts that a word is put into. It is scored on the development rows of
`teachers.py`, none of which `run.py` scores. The share in use was chosen by this table.

- `groups`: by label the development rows with a word, and how many each repair predicts rightly: `original`, and each
  share.

Finished settings and seeds are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from run import SETTINGS, WORDS, group, holding  # type: ignore[import-not-found]  # the script beside it
from shortcut_bench.standalone import grow, open_rows, settings_cases, settings_parser
from shortcut_guardrail.mitigation import distillation
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.shortcuts import Shortcut, Shortcuts
from shortcut_guardrail.typing import Array
from teachers import development  # type: ignore[import-not-found]  # the script beside it

SHARES = (0.5, 0.75, 0.9)


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    words = WORDS[setting.split("/")[1]]
    scored, _ = development(setting, seed, args)
    _, new, rows = open_rows(setting, seed, args, at_most=args.texts)
    texts = rows.texts[: len(rows) // 2]
    named = Shortcuts(tuple(Shortcut(word, "named", "not alone") for word in words))
    systems: dict[str, Array] = {"original": new().predict_proba(scored.texts).argmax(axis=1)}
    strengths = {}
    for share in SHARES:
        guard = new()
        with mock.patch.object(distillation, "_HELD_SHARE", share):
            guard.fit(texts, config="distill", shortcuts=named, seed=seed)
        strengths[f"{share:g}"] = guard.calibrate_without_labels(texts).strength
        systems[f"{share:g}"] = guard.predict_proba(scored.texts).argmax(axis=1)
    holds, labels = holding(words, scored.texts), np.asarray(scored.labels)
    everywhere = np.ones(len(labels), dtype=bool)
    return {
        "strengths": strengths,
        "groups": [
            group(labels, holds, systems, label=label, held=True, where=everywhere, name=name)
            for label, name in enumerate(scored.label_names)
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2))
    parser.add_argument("--texts", type=int, default=1800, help="Test texts that `run.py` takes.")
    args = parser.parse_args(arguments)
    asked, versions = {"texts": args.texts, "shares": list(SHARES)}, {"versions": library_versions()}
    for entry in grow(
        args.out, settings_cases(args), partial(measure, args=args), asked=asked, beside=lambda _: versions
    ):
        print(entry["setting"], entry["seed"], entry["strengths"])
        for one in entry["groups"]:
            print("  ", one, flush=True)


if __name__ == "__main__":
    main()
