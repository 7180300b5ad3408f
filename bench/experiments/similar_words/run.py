"""What a found word brings with it: how much of a shortcut of many wordings is repaired, and what passes by chance.

    python bench/experiments/similar_words/run.py --data-dir ../shared/data --out results/similar_words.json

GoEmo-Syn has fifteen wordings of one shortcut, each in few texts. An audit finds some; `shortcuts.similar` asks whether
words of like meaning are the same shortcut. The base classifier of each seed is repaired on the reversed test texts,
without a label, by `distill` as `fit` does by default. 40 rows are set apart, as in the benchmark, and not scored.
`gap` is the share of the distance from the base to the oracle that is closed: the oracle is the base on the same texts
without the inserted words. Two guards are scored: `default`, and `one card`, in which a person says of one card that it
should not count: the first card of the base's audit with a planted word. Function words do not make a card one of the
shortcut.

`random pools` asks how often the test takes what is none of the shortcut. Pools of 5 and 20 words are drawn from the
words and fixed phrases that push towards a class which the found words add to, and that share no word with any of the
fifteen wordings. They are put to the test in place of words of like meaning; `passed` counts those with a p-value of at
most the level.

The limit of likeness was chosen on made-up words (`bench/experiments/word_families`). That the test asks about all
classes which the words add to was found on seeds 0, 3, 4 and 6, where the rule before brought nothing in 0 and 6.
All seeds share the wordings and the test texts; the classifier and what is inserted where differ.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np

from shortcut_bench.bases import open_setting
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.standalone import grow, settings_cases, settings_parser
from shortcut_bench.statistics import share_of_gap
from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.audit import AuditReport, audit_texts
from shortcut_guardrail.cards import is_of_content, masked_answers
from shortcut_guardrail.decisions.record import Decision, Decisions
from shortcut_guardrail.metrics import balanced_accuracy
from shortcut_guardrail.models import TextClassifier
from shortcut_guardrail.shortcuts import Shortcuts
from shortcut_guardrail.shortcuts.search import fixed_phrases
from shortcut_guardrail.shortcuts.similar import LEAST_TEXTS, ask_pool
from shortcut_guardrail.text import words_as_units

SETTINGS = ("shifted/GoEmo-Syn/reversed",)
N_SUPPORT = 40
POOL_SIZES = (5, 20)

Array = np.ndarray[Any, Any]


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One seed."""
    experiment, name, test = setting.split("/")
    opened = open_setting(experiment, name, seed, data_dir=args.data_dir, cache=args.cache, changes={"n_test": None})
    trained, data = opened.train(), opened.data
    kept = np.random.default_rng(seed).permutation(len(data.tests[test]))[N_SUPPORT:]
    sets = {
        "reversed": data.tests[test].select(kept),
        "oracle": data.oracle_tests[test].select(kept),
        "in distribution": data.tests["in_distribution"],
    }
    options: dict[str, Any] = {"max_length": trained.max_length, "batch_size": 64, "precision": "auto"}
    guard = ShortcutGuardrail(trained.model, trained.tokenizer, **options)
    classifier = TextClassifier(trained.model, trained.tokenizer, **options)
    texts = sets["reversed"].texts
    fitted = guard.fit(texts, config=preset("distill"), seed=seed)
    guard.calibrate_without_labels(texts)
    base = {name: scored(guard, rows, 0.0) for name, rows in sets.items()}
    found = fitted.shortcuts
    guards = {"default": shown(guard, sets, base)}
    planted = content(data.shortcuts)
    card = next(card for card in guard.audit(texts, unit="word", strength=0.0).cards if planted & set(card.words))
    said = Decisions((Decision(card.words, "remove_reliance", "person", pushes_towards=card.pushes_towards),))
    guard.repair(texts, decisions=said, seed=seed)
    guards["one card"] = {"words": list(card.words), **shown(guard, sets, base)}
    return {
        "n": len(kept),
        "majority": float(np.bincount(sets["reversed"].labels).max() / len(kept)),
        "base": base,
        "found": by_reason(found),
        "guards": guards,
        "random pools": random_pools(classifier, texts, data.shortcuts, seed=seed, draws=args.draws),
    }


def scored(guard: ShortcutGuardrail, rows: LabelledTexts, strength: float | None = None) -> dict[str, float]:
    """Accuracy and balanced accuracy."""
    answers = guard.predict_proba(rows.texts, strength=strength).argmax(axis=1)
    return {
        "accuracy": float((answers == rows.labels).mean()),
        "balanced_accuracy": balanced_accuracy(answers, rows.labels),
    }


def shown(
    guard: ShortcutGuardrail, sets: Mapping[str, LabelledTexts], base: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Its scores, and which share of the gap it closes."""
    scores = {name: scored(guard, sets[name]) for name in ("reversed", "in distribution")}
    gap = {
        key: share_of_gap(scores["reversed"][key], base["reversed"][key], base["oracle"][key])
        for key in ("accuracy", "balanced_accuracy")
    }
    return {"strength": guard.debias_strength, "scores": scores, "gap": gap}


def by_reason(found: Shortcuts) -> dict[str, list[str]]:
    """What is neutralised, by the reason for it."""
    reasons: dict[str, list[str]] = {}
    for item in found.items:
        if item.reliance_removed:
            reasons.setdefault(item.reason or "", []).append(item.text)
    return reasons


def random_pools(
    classifier: TextClassifier, texts: Any, planted: Sequence[str], *, seed: int, draws: int
) -> dict[str, Any]:
    """How often pools of words that are none of the shortcut pass the test of what is alike."""
    config = preset("distill").shortcuts.audit()
    encoded = classifier.encode(texts)
    report = audit_texts(classifier, encoded, config, with_cards=False)
    probs, pushes_towards = report.saliency.probs, report.flagged[0].pushes_towards
    found = [c for c in report.candidates if c.found]
    known = [c.text for c in found]
    mine = [c.text for c in found if c.pushes_towards == pushes_towards]
    seen = masked_answers(classifier, encoded, mine, probs=probs)
    side = (seen.before - seen.after).mean(axis=0) > 0
    drawn_from = pool(report, encoded, {report.label_names[c] for c in np.flatnonzero(side)}, content(planted), known)
    rng = np.random.default_rng(seed)
    passed: dict[str, Any] = {"level": config.fdr, "words": len(drawn_from), "draws": draws}
    for size in POOL_SIZES:
        ps = []
        for _ in range(draws):
            names = [drawn_from[i] for i in rng.permutation(len(drawn_from))[:size]]
            ps.append(ask_pool(classifier, encoded, probs, known, names, side=side, config=config)[0])
        passed[f"{size} words"] = {"passed": int((np.array(ps) <= config.fdr).sum()), "least": min(ps)}
    return passed


def content(planted: Sequence[str]) -> set[str]:
    """The words of the planted wordings, but for function words."""
    return {word for phrase in planted for word in phrase.split() if is_of_content(word)}


def pool(report: AuditReport, encoded: Any, side: Set[str], planted: Set[str], known: Sequence[str]) -> list[str]:
    """Words and fixed phrases that push towards one of the classes and are none of the shortcut."""
    counts = {c.text: c.n_present for c in report.candidates if c.pushes_towards in side}
    others = {c.text for c in report.candidates if c.text not in counts}
    fixed = fixed_phrases(words_as_units(encoded), LEAST_TEXTS)
    counts |= {name: len(rows) for name, rows in fixed.items() if name not in others}
    return [
        name
        for name, n in counts.items()
        if n >= LEAST_TEXTS and name not in known and is_of_content(name) and not planted & set(name.split())
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 6, 8, 9, 13), draws=50)
    args = parser.parse_args(arguments)
    cases, asked = settings_cases(args), {"draws": args.draws}
    for entry in grow(args.out, cases, partial(measure, args=args), asked=asked):
        gaps = {name: made["gap"] for name, made in entry["guards"].items()}
        print(entry["setting"], entry["seed"], gaps, entry["random pools"], flush=True)


if __name__ == "__main__":
    main()
