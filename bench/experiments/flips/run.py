"""Cards judged by their flips: how often they are decided, how often wrongly, and what the repair brings.

    python bench/experiments/flips/run.py --data-dir ../shared/data --out results/flips.json

For settings of the benchmark the base classifier is audited on the test texts without labels. Of each card of the
audit the flips are found: the texts whose answer changes when the card's words are masked. Simulated reviewers answer
from the labels: always rightly, or wrongly on a share of the flips, either way (`symmetric`) or only so that a broken
answer is called fixed (`one-sided`). In each of the draws a card's flips come in another random order, of which 40 at
most are asked about; `decide` of the library says what follows.

- `within_25`, `within_40`: the share of draws in which the card is decided as a shortcut within so many questions.
- `legitimate`: the share of draws in which it is decided as legitimate.
- `expected`: the same, with answers drawn with replacement, so that only the card's counts matter.

`repaired` is the guard that `fit --decisions` makes of the first draw without errors, on the test texts, scored on all
of them, and as `unused` on those whose labels answered no question (stored runs lack it). Where nothing is decided,
`reliance_removed` is empty, and the guard is the base.

`clean` settings have nothing to repair. Finished settings and seeds are kept. No setting of the library was chosen on
these rows: the grouping of cards was chosen on made-up words (`bench/experiments/word_families`), the rest are
constants of the method. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.standalone import grow, open_rows, settings_cases, settings_parser
from shortcut_guardrail import NothingToRepairError, ShortcutGuardrail
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.decisions import LEAST_FLIPS, Answer, Answers, AuditedCards, Questions, decide
from shortcut_guardrail.decisions.drawing import Key
from shortcut_guardrail.decisions.people import MOST_QUESTIONS, Choice, judge_cards
from shortcut_guardrail.metrics import balanced_accuracy, worst_group_accuracy
from shortcut_guardrail.saving.record import library_versions

SETTINGS = (
    "natural-shortcuts/Amazon/test",
    "natural-shortcuts/Civil/test",
    "natural-shortcuts/SST-2/test",
    "natural-shortcuts/MultiNLI/test",
    "shifted/GoEmo-ST/clean",
    "shifted/Yelp-ST/clean",
    "shifted/Civil/reversed",
)
REVIEWERS = {
    "no errors": (0.0, 0.0),
    "10 % symmetric": (0.1, 0.1),
    "20 % symmetric": (0.2, 0.2),
    "10 % one-sided": (0.0, 0.1),
    "20 % one-sided": (0.0, 0.2),
}
"""By name, the probability that a fixed answer is called broken, and that a broken one is called fixed."""
MAX_ROWS = 1000

Array = np.ndarray[Any, Any]


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    _, new, rows = open_rows(setting, seed, args, at_most=MAX_ROWS)
    guard = new()
    audited = AuditedCards.of(guard.audit(rows.texts, unit="word"))
    n_cards = len(audited.cards)
    cards = tuple(card for card in audited.chosen("all") if card.changes >= LEAST_FLIPS)
    audited = replace(audited, cards=cards)
    questions = guard.questions(Questions(audited, {}), rows.texts, cards="all")
    flips, labels = questions.flips, [guard.label_names[label] for label in rows.labels]
    found = [judged_card(card, flips[card.id], labels, args.draws, seed) for card in audited.cards]
    return {
        "n": len(rows),
        "groups": rows.counts(),
        "majority": float(np.bincount(rows.labels).max() / len(rows)),
        "base": scored(guard, rows),
        "n_cards": n_cards,
        "cards": found,
        "repaired": None if args.no_repair else repaired(guard, questions, rows, labels, seed),
    }


def outcomes(flips: Sequence[Flip], labels: Sequence[str]) -> Array:
    """What the label says of each flip: 1 fixed, 0 broken, -1 neither answer right."""
    return np.array(
        [1 if labels[f.row] == f.after else 0 if labels[f.row] == f.before else -1 for f in flips], dtype=int
    )


def judged_card(card: Any, flips: Sequence[Flip], labels: Sequence[str], draws: int, seed: int) -> dict[str, Any]:
    """One card: its counts, and what reviewers decide about it."""
    truth = outcomes(flips, labels)
    counts = {name: int((truth == value).sum()) for name, value in (("fixed", 1), ("broken", 0), ("neither", -1))}
    rng = np.random.default_rng([seed, int(card.id, 16)])
    shown: dict[str, Any] = {}
    if len(truth) >= LEAST_FLIPS:
        for reviewer, errors in REVIEWERS.items():
            drawn = [sequence(truth, errors, rng) for _ in range(draws)]
            again = [sequence(rng.choice(truth, MOST_QUESTIONS), errors, rng) for _ in range(draws)]
            shown[reviewer] = {**rates(drawn), "expected": rates(again)}
    return {
        "id": card.id,
        "words": list(card.words),
        "pushes_towards": card.pushes_towards,
        "texts": card.texts,
        "flagged": card.flagged,
        "flips": len(flips),
        **counts,
        "reviewers": shown,
    }


def sequence(truth: Array, errors: tuple[float, float], rng: np.random.Generator) -> Array:
    """The answers to 40 flips at most, in random order, as a reviewer gives them."""
    answers = rng.permutation(truth)[:MOST_QUESTIONS]
    wrong = rng.random(len(answers)) < np.where(answers == 1, errors[0], errors[1])
    return np.where((answers >= 0) & wrong, 1 - answers, answers)


QUESTIONS = tuple(Key(str(i), "card", "a", "", i) for i in range(MOST_QUESTIONS))
"""Forty questions about a card, of which "a" is the answer with its words masked."""
SAID: dict[int, Choice] = {1: "a", 0: "b", -1: "neither"}


def judged(answers: Array) -> tuple[str, int]:
    """What the library decides on, and after how many questions."""
    keys = QUESTIONS[: len(answers)]
    (found,) = judge_cards(keys, {key.id: SAID[int(one)] for key, one in zip(keys, answers, strict=True)})
    return found.outcome, found.asked


def rates(drawn: Iterable[Array]) -> dict[str, Any]:
    """How often, and how soon, a card is decided."""
    made = [judged(one) for one in drawn]
    return {
        "within_25": float(np.mean([what == "shortcut" and asked <= 25 for what, asked in made])),
        "within_40": float(np.mean([what == "shortcut" for what, _ in made])),
        "legitimate": float(np.mean([what == "legitimate" for what, _ in made])),
        "asked": float(np.mean([asked for _, asked in made])),
    }


def scored(guard: ShortcutGuardrail, rows: LabelledTexts, strength: float | None = None) -> dict[str, float]:
    """The guard's scores."""
    answers = guard.predict_proba(rows.texts, strength=strength).argmax(axis=1)
    return {
        "accuracy": float((answers == rows.labels).mean()),
        "balanced_accuracy": balanced_accuracy(answers, rows.labels),
        "worst_group_accuracy": worst_group_accuracy(answers, rows.labels, rows.groups),
    }


def repaired(
    guard: ShortcutGuardrail, questions: Questions, rows: LabelledTexts, labels: Sequence[str], seed: int
) -> dict[str, Any]:
    """The guard that follows from one reviewer who does not err."""
    rng = np.random.default_rng(seed)
    keys: list[Key] = []
    answers: list[Answer] = []
    texts: dict[str, list[int]] = {}
    for card, flips in questions.flips.items():
        drawn = [flips[i] for i in rng.permutation(len(flips))[:MOST_QUESTIONS]]
        texts[card] = [flip.row for flip in drawn]
        for order, outcome in enumerate(outcomes(drawn, labels)):
            keys.append(Key(f"{card}-{order}", card, "a", "", order))
            answers.append(Answer("labels", "", SAID[int(outcome)], question=keys[-1].id))
    decisions = decide(replace(questions, keys=tuple(keys)), Answers(tuple(answers)))
    asked = sum(card.asked for card in decisions.cards)
    used = {row for card in decisions.cards for row in texts[card.id][: card.asked]}
    unused = rows.select(np.array([row for row in range(len(rows)) if row not in used]))
    try:
        made = guard.repair(rows.texts, decisions=decisions, seed=seed)
    except NothingToRepairError:
        return {"reliance_removed": [], "asked": asked, "scores": scored(guard, rows)}
    return {
        "reliance_removed": list(made.fitted.shortcuts.words),
        "asked": asked,
        "strength": made.choice.strength,
        "scores": scored(guard, rows),
        "unused": {"n": len(unused), "base": scored(guard, unused, 0.0), "scores": scored(guard, unused)},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2), draws=200)
    parser.add_argument("--no-repair", action="store_true", help="judge the cards only")
    args = parser.parse_args(arguments)
    versions = {"versions": library_versions()}
    cases, asked = settings_cases(args), {"draws": args.draws}
    for entry in grow(args.out, cases, partial(measure, args=args), asked=asked, beside=lambda _: versions):
        first = entry["cards"][:3]
        shown = [(card["words"][:3], card["fixed"], card["broken"]) for card in first]
        after = (entry["repaired"] or {}).get("scores")
        print(entry["setting"], entry["seed"], shown, entry["base"], after, flush=True)


if __name__ == "__main__":
    main()
