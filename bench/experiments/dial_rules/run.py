"""What a few labels add to a strength that was chosen without any: three rules over many random support sets.

    python bench/experiments/dial_rules/run.py --data-dir ../shared/data --out results/dial_rules.json

For settings of the benchmark, guards are fitted around its base classifiers on unlabelled test texts, and all test rows
are answered at every strength. Then support sets are drawn at random from the rows, the strength is chosen by each
rule, and the guard is scored on the rows that were not drawn:

- `labels`: the best accuracy on the support set, of equals the smallest (the paper's rule);
- `without_labels`: the least divergence from the answers without the shortcuts, which no label has a say in;
- `both, p`: the latter, unless the labels are evidence against it at that level (`choose_strength` takes .25);
- `both, certified`: what `both, 0.25` chose if a certificate on the same labels, with all other rows as unlabelled
  ones, covers it, or else the certified strength that mends most of the labels, as `ShortcutGuardrail.certify` does.
  `kept` is how often it was covered. Guard and dial have seen these very rows, which a certificate supposes they have
  not, so this says what certifying costs and not whether its promise holds for texts to come.

`harmful` is how often the strength is one that loses more than a point on all rows, `beyond_margin` more than two.

`told ...` is a guard that was told to neutralise genuine words, those of the audit whose masking breaks most answers:
there the dial without labels asks for harm, and only labels can tell. `told the shortcut`, for the settings of
`natural-shortcuts`, where next to nothing is found, is one that was told what the data set annotates; there the worst
group stands beside (over all rows, at the strength that a rule chose), since what is gained there may cost accuracy.
Finished settings and seeds are kept.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from shortcut_bench.bases import open_setting
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.standalone import grow, settings_cases, settings_parser
from shortcut_guardrail import GuardrailConfig, GuardrailWarning, ShortcutGuardrail, preset
from shortcut_guardrail.config import CertifyConfig
from shortcut_guardrail.metrics import worst_group_accuracy
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.shortcuts.named import Shortcut, Shortcuts
from shortcut_guardrail.strength.calibration import choose_strength
from shortcut_guardrail.strength.certificate import certified_instead, certify_answers

SETTINGS = (
    "shifted/GoEmo-ST/reversed",
    "shifted/GoEmo-Syn/reversed",
    "in-distribution/GoEmo-Syn/in_distribution",
    "shifted/Yelp-ST/reversed",
    "shifted/Yelp-Syn/reversed",
    "natural-shortcuts/Amazon/test",
    "natural-shortcuts/SST-2/test",
    "natural-shortcuts/Civil/test",
    "natural-shortcuts/MultiNLI/test",
)
SIZES = (20, 40, 100, 200)
N_TOLD = 3
MAX_ROWS = 1000
LEVELS = (0.05, 0.1, 0.25, 0.5)
RULES = ("labels", "without_labels", *(f"both, {level}" for level in LEVELS))
TAKEN, CERTIFIED = "both, 0.25", "both, certified"
CERTIFY = CertifyConfig(margin=0.02, confidence=0.95)


Array = np.ndarray[Any, np.dtype[Any]]


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    experiment_name, setting_name, test = setting.split("/")
    opened = open_setting(
        experiment_name, setting_name, seed, data_dir=args.data_dir, cache=args.cache, changes={"n_test": None}
    )
    data, trained = opened.data, opened.train()
    natural = experiment_name == "natural-shortcuts"
    guard = ShortcutGuardrail(
        trained.model, trained.tokenizer, max_length=trained.max_length, batch_size=64, precision="auto"
    )
    rows = data.tests[test]
    order = np.random.default_rng(seed).permutation(len(rows))
    rows = rows.select(order[:MAX_ROWS])
    found = guard.find_shortcuts(rows.texts, config="distill")
    told = genuine(guard, rows, {*found.words, *data.shortcuts})
    guards = {
        "mask": guarded(guard, rows, preset("mask"), found, seed),
        "distill": guarded(guard, rows, preset("distill"), found, seed),
        f"told {', '.join(told.words)}": guarded(guard, rows, preset("distill"), told, seed),
    }
    if natural and data.shortcuts:
        annotated = Shortcuts(tuple(Shortcut(word, "named") for word in data.shortcuts))
        guards["told the shortcut"] = guarded(guard, rows, preset("distill"), annotated, seed)
    return {
        "n": len(rows),
        "groups": rows.counts(),
        "draws": args.draws,
        "versions": library_versions(),
        "guards": {
            kind: one.to_dict()
            | {"draws": [rates(one, rows, size, args.draws, seed, groups=natural) for size in SIZES]}
            for kind, one in guards.items()
        },
    }


def genuine(guard: ShortcutGuardrail, rows: LabelledTexts, shortcuts: set[str]) -> Shortcuts:
    """Of the words that stand in none of these the ones whose masking breaks most answers, by the labels."""
    report = guard.audit(rows.texts, labels=rows.labels.tolist(), unit="word")
    words = {word for shortcut in shortcuts for word in shortcut.lower().replace("\u2019", "'").split()}
    harms = [
        (c.labelled.flips_to_right - c.labelled.flips_to_wrong, c)
        for c in report.candidates
        if c.labelled is not None and c.text not in words and c.text.isalpha()
    ]
    ranked = [candidate for _, candidate in sorted(harms, key=lambda harm: harm[0])]
    return Shortcuts(tuple(Shortcut(c.text, "named") for c in ranked[:N_TOLD]))


@dataclass(frozen=True)
class Answered:
    """A guard that neutralises some words, by what it answers to all N rows.

    Attributes:
        targets: The words.
        without_labels: The strength that is chosen without labels.
        grid: The S strengths, 0 among them.
        answers: Class ids at each strength, shape (S, N).
        right: The accuracy at each strength, shape (S,).
    """

    targets: tuple[str, ...]
    without_labels: float
    grid: tuple[float, ...]
    answers: Array
    right: Array

    def to_dict(self) -> dict[str, Any]:
        """All but the answers themselves."""
        return {
            "targets": list(self.targets),
            "without_labels": self.without_labels,
            "accuracy": dict(zip(map(str, self.grid), self.right.tolist(), strict=True)),
        }


def guarded(
    guard: ShortcutGuardrail, rows: LabelledTexts, config: GuardrailConfig, shortcuts: Shortcuts, seed: int
) -> Answered:
    """A guard that neutralises these words: its dial without labels, and its answers to all rows at every strength."""
    guard.fit(rows.texts, config=config, seed=seed, shortcuts=shortcuts)
    strength = guard.calibrate_without_labels(rows.texts).strength
    grid, answers = guard.answers_by_strength(rows.texts)
    right = (answers == rows.labels).mean(axis=1)
    return Answered(tuple(shortcuts.words), strength, tuple(grid), answers, right)


def rates(guard: Answered, rows: LabelledTexts, size: int, draws: int, seed: int, *, groups: bool) -> dict[str, Any]:
    """Accuracy on the rows that were not drawn, by the strength that each rule chooses; with `groups` the worst group's
    on all rows beside it."""
    labels, answers = rows.labels, guard.answers
    rng = np.random.default_rng([seed, size])
    scored: dict[str, list[float]] = {rule: [] for rule in (*RULES, CERTIFIED, "base")}
    chosen: dict[str, list[float]] = {rule: [] for rule in (*RULES, CERTIFIED)}
    while len(scored["base"]) < draws:
        drawn = rng.choice(len(labels), size=size, replace=False)
        if len(set(labels[drawn].tolist())) < 2:
            continue
        rest = np.ones(len(labels), dtype=bool)
        rest[drawn] = False
        accuracy = (answers[:, rest] == labels[rest]).mean(axis=1)
        scored["base"].append(float(accuracy[0]))
        for rule, strength in picks(guard, labels, drawn, rest).items():
            scored[rule].append(float(accuracy[guard.grid.index(strength)]))
            chosen[rule].append(strength)
    of_all = dict(zip(guard.grid, guard.right, strict=True))
    worst = {s: worst_group_accuracy(found, labels, rows.groups) for s, found in zip(guard.grid, answers, strict=True)}
    result: dict[str, Any] = {"size": size, "draws": draws, "base": float(np.mean(scored["base"]))}
    result |= {"base_worst_group": worst[0.0]} if groups else {}
    result |= {rule: summed_up(scored[rule], chosen[rule], of_all, worst if groups else None) for rule in chosen}
    result[CERTIFIED]["kept"] = float(np.mean(np.array(chosen[CERTIFIED]) == chosen[TAKEN]))
    return result


def picks(guard: Answered, labels: Array, drawn: Array, rest: Array) -> dict[str, float]:
    """The strength that each rule chooses, by the labels of the rows that were drawn."""
    config, dial = preset("distill").calibration, guard.without_labels
    logits = replaced_by_answers(guard.answers[:, drawn], int(max(guard.answers.max(), labels.max())) + 1)
    best = choose_strength(logits, labels[drawn], config).strength
    p_value = choose_strength(logits, labels[drawn], config, without_labels=dial).p_value
    assert p_value is not None
    found = {"labels": best, "without_labels": dial}
    found |= {f"both, {level}": best if p_value <= level else dial for level in LEVELS}
    found[CERTIFIED] = certified(guard, labels, drawn, rest, found[TAKEN])
    return found


def certified(guard: Answered, labels: Array, drawn: Array, rest: Array, chosen: float) -> float:
    """The strength in use after a certificate on the rows that were drawn."""
    found = certify_answers(
        list(guard.grid[1:]),
        CERTIFY,
        unlabelled_base=guard.answers[0, rest],
        unlabelled_guarded=guard.answers[1:, rest],
        labelled_base=guard.answers[0, drawn],
        labelled_guarded=guard.answers[1:, drawn],
        labels=labels[drawn],
    )
    return chosen if chosen in found.certified else certified_instead(found)


def summed_up(
    scored: Sequence[float], chosen: Sequence[float], of_all: Mapping[float, float], worst: Mapping[float, float] | None
) -> dict[str, float]:
    """What a rule brought over all draws; `of_all` and `worst` are accuracies by strength."""
    lost = np.array([of_all[0.0] - of_all[strength] for strength in chosen])
    return {
        "accuracy": float(np.mean(scored)),
        "accuracy_5": float(np.quantile(scored, 0.05)),
        "harmful": float((lost > 0.01).mean()),
        "beyond_margin": float((lost > CERTIFY.margin).mean()),
        "mean_strength": float(np.mean(chosen)),
        **({} if worst is None else {"worst_group": float(np.mean([worst[s] for s in chosen]))}),
    }


def replaced_by_answers(answers: Array, n_classes: int) -> Array:
    """Logits that give these answers: accuracy asks for no more."""
    logits: Array = np.eye(n_classes, dtype=np.float32)[answers]
    return logits


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    args = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2), draws=500).parse_args(arguments)
    warnings.simplefilter("ignore", GuardrailWarning)
    asked = {"draws": args.draws, "certify": asdict(CERTIFY)}
    for entry in grow(args.out, settings_cases(args), partial(measure, args=args), asked=asked):
        for kind, one in entry["guards"].items():
            at = next(d for d in one["draws"] if d["size"] == 40)
            shown = ", ".join(f"{rule} {at[rule]['accuracy']:.3f}" for rule in (*RULES, CERTIFIED))
            print(f"{entry['setting']} {entry['seed']} {kind}: base {at['base']:.3f}, {shown}", flush=True)


if __name__ == "__main__":
    main()
