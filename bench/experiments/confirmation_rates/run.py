"""How often few labels confirm a shortcut that the audit did not flag, and how often they confirm a word that is none.

    python bench/experiments/confirmation_rates/run.py --data-dir ../shared/data --out results/confirmation_rates.json

For settings of the benchmark, the base classifier is fine-tuned as there, its candidates are ranked without labels, and
all test rows are answered with each of the first candidates masked. Then many support sets are drawn at random from the
rows and weighed (`shortcuts.labels.weigh`). A confirmation is false if masking the candidate does not raise the mean
probability of the right class over all rows that hold it; the share of draws with a false one is to stay below
`confirm_level`. Beside it, the same with McNemar's exact test and Holm's procedure without weights, which was used
before. Finished settings and seeds are kept.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from shortcut_bench.bases import open_setting
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.standalone import grow, settings_cases, settings_parser
from shortcut_guardrail.config import ShortcutConfig
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.shortcuts.labels import Paired, paired_evidence, weigh
from shortcut_guardrail.shortcuts.search import ranked_shortcuts
from shortcut_guardrail.stats.exact import exact_interval, mcnemar_greater
from shortcut_guardrail.stats.paired import holm

SETTINGS = (
    "natural-shortcuts/Amazon/test",
    "natural-shortcuts/SST-2/test",
    "natural-shortcuts/Civil/test",
    "shifted/GoEmo-ST/reversed",
    "shifted/GoEmo-Syn/reversed",
    "in-distribution/GoEmo-Syn/in_distribution",
    "shifted/Yelp-ST/reversed",
    "in-distribution/Yelp-ST/in_distribution",
)
SIZES = (20, 40, 80, 160)


class Draws:
    """Support sets drawn from the rows of one setting, and what they say of its candidates.

    Args:
        classifier: The base classifier.
        rows: The test rows.
        config: How candidates are ranked and weighed.
    """

    def __init__(self, classifier: TextClassifier, rows: LabelledTexts, config: ShortcutConfig) -> None:
        encoded = classifier.encode(rows.texts)
        ranked = ranked_shortcuts(classifier, encoded, config)
        self.config, self.n, self.n_candidates = config, len(rows), len(ranked)
        self.items = ranked[: config.max_considered]
        self.evidence = paired_evidence(classifier, self.items, encoded, rows.labels)

    def candidates(self) -> list[dict[str, Any]]:
        """What all rows say of each candidate."""
        return [
            {
                "text": item.text,
                "verdict_of_the_audit": item.verdict,
                "reason_of_the_audit": item.reason,
                "count": item.count,
                "flip_rate": item.flip_rate,
                "n": found.n,
                "mended": found.mended,
                "broken": found.broken,
                "mean_change": float(found.changes.mean()) if found.n else None,
            }
            for item, found in zip(self.items, self.evidence, strict=True)
        ]

    def rates(self, size: int, draws: int, seed: int) -> dict[str, Any]:
        """Confirmations over random support sets of one size."""
        rng = np.random.default_rng([seed, size])
        harmless = {
            item.text
            for item, found in zip(self.items, self.evidence, strict=True)
            if not found.n or found.changes.mean() <= 0
        }
        confirmed: dict[str, Counter[str]] = {"sign-flip": Counter(), "mcnemar": Counter()}
        false = dict.fromkeys(confirmed, 0)
        for _ in range(draws):
            rows = rng.choice(self.n, size=size, replace=False)
            seen = [found.among(rows) for found in self.evidence]
            for name, words in (("sign-flip", self._by_sign_flips(seen)), ("mcnemar", self._by_mcnemar(seen))):
                confirmed[name].update(words)
                false[name] += bool(words & harmless)
        return {
            "size": size,
            "draws": draws,
            **{
                name: {
                    "false": false[name] / draws,
                    "false_interval": list(exact_interval(false[name], draws)),
                    "confirmed": {word: times / draws for word, times in confirmed[name].most_common()},
                }
                for name in confirmed
            },
        }

    def _by_sign_flips(self, evidence: list[Paired]) -> set[str]:
        return {item.text for item in weigh(self.items, evidence, self.config) if item.verdict == "confirmed"}

    def _by_mcnemar(self, evidence: list[Paired]) -> set[str]:
        open_ = [i for i, item in enumerate(self.items) if not item.neutralised]
        p_values = [mcnemar_greater(evidence[i].mended, evidence[i].broken) for i in open_]
        return {self.items[open_[j]].text for j in holm(p_values, [1.0] * len(open_), self.config.confirm_level)}


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    experiment_name, setting_name, test = setting.split("/")
    opened = open_setting(experiment_name, setting_name, seed, data_dir=args.data_dir, cache=args.cache)
    data, trained = opened.data, opened.train()
    classifier = TextClassifier(trained.model, trained.tokenizer, max_length=trained.max_length)
    found = Draws(classifier, data.tests[test], ShortcutConfig())
    return {
        "n": found.n,
        "n_candidates": found.n_candidates,
        "planted": list(data.shortcuts),
        "candidates": found.candidates(),
        "rates": [found.rates(size, args.draws, seed) for size in SIZES if 2 * size <= found.n],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    args = settings_parser(__doc__, settings=SETTINGS, seeds=(0,), draws=1000).parse_args(arguments)
    versions = {"versions": library_versions()}
    cases, asked = settings_cases(args), {"draws": args.draws}
    for entry in grow(args.out, cases, partial(measure, args=args), asked=asked, beside=lambda _: versions):
        print(entry["setting"], entry["seed"], flush=True)


if __name__ == "__main__":
    main()
