"""What the audit finds by adding words, on classifiers with a planted shortcut and on clean ones.

    python bench/experiments/insertions/run.py --data-dir ../shared/data --out results/insertions.json

For settings of the benchmark the base classifier is audited on some test texts without labels. The words that it was
tried with are then added to other test texts, which had no part in the audit.

- `planted`: of the planted words that were tried, how many were found.
- `tried`: of each word, what adding it changed in the audit, and what it changes in the others, beside random words.
- `false_alarms`: words that were found, and that change no more than `min_pull` of the predictions to the other texts,
  or no more than random words do.

Legitimate words of a class are found as well, rightly: adding says what a word does, not whether it should. Finished
settings and seeds are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from shortcut_bench.standalone import grow, open_rows, settings_cases, settings_parser
from shortcut_guardrail import AuditConfig
from shortcut_guardrail.audit.insertions import Wanted, try_insertions
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.text import WordFinder

SETTINGS = ("shifted/GoEmo-ST/reversed", "shifted/GoEmo-Syn/reversed", "shifted/GoEmo-ST/clean")
AUDITED, OTHERS = 400, 285


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    opened, new, rows = open_rows(setting, seed, args, at_most=AUDITED + OTHERS)
    guard, audited, others = new(), rows.texts[:AUDITED], rows.texts[AUDITED:]
    report = guard.audit(audited)
    added = [c for c in report.candidates if c.insertion is not None]
    wanted = [Wanted(c.text, report.label_names.index(c.pushes_towards or ""), found=True) for c in added]
    probs = guard.predict_proba(others)
    config = replace(AuditConfig(), top_k=512)  # all of them, at any cost
    truth, _, _ = try_insertions(guard.predict_proba, others, probs, wanted, config, n_texts=10**6)
    planted = () if setting.endswith("/clean") else opened.data.shortcuts
    finder = WordFinder(planted)
    tried: list[dict[str, Any]] = []
    for one in added:
        insertion, true = one.insertion, truth.get(one.text)
        assert insertion is not None
        found: dict[str, Any] = {
            "text": one.text,
            "pushes_towards": one.pushes_towards,
            "planted": finder.present(one.text),
        }
        found |= {"found": insertion.found, "flagged": one.flagged, "flip_rate": one.flip_rate}
        found |= {"added": insertion.flip_rate, "chance": insertion.by_chance / insertion.n, "n": insertion.n}
        tried.append({**found, "others": None if true is None else [true.changed, true.by_chance, true.n]})
    known = [one for one in tried if one["found"] and one["others"]]
    false = [one["text"] for one in known if one["others"][0] <= max(one["others"][1], 0.05 * one["others"][2])]
    return {
        "n": len(audited),
        "insertions": report.to_dict()["insertions"],
        "planted": [sum(one["planted"] and one["found"] for one in tried), sum(one["planted"] for one in tried)],
        "found": sum(one["found"] for one in tried),
        "judged": len(known),
        "false_alarms": false,
        "tried": tried,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    args = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2)).parse_args(arguments)
    asked, versions = {"audited": AUDITED, "others": OTHERS}, {"versions": library_versions()}
    for entry in grow(
        args.out, settings_cases(args), partial(measure, args=args), asked=asked, beside=lambda _: versions
    ):
        print(
            {key: entry[key] for key in ("setting", "seed", "planted", "found", "judged", "false_alarms")}, flush=True
        )


if __name__ == "__main__":
    main()
