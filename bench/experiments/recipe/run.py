"""The whole recipe with labels as answers: audit, questions in calls, decisions, repair, beside `fit` by itself.

    python bench/experiments/recipe/run.py --data-dir ../shared/data --out results/recipe.json

For settings of the benchmark the base classifier is audited on the test texts without labels. A simulated reviewer is
asked about all cards, twelve texts each, call after call, until no call asks anything. Flips are counted anew at each
call, given what is taken for a shortcut by then. The reviewer answers from the labels: always rightly, or wrongly on a
tenth of the texts, either way.

- `cards`: what was decided, from so many answers. `fixed` and `broken` are what the labels say of all of the card's
  flips, given what was taken when it was asked about last. `wrong`: a shortcut by the answers, and not by these.
- `fit_alone`: the guard that follows from the audit without a decision.
- `repaired`: the guard that follows from the decisions, scored on all texts, and as `unused` on those whose labels
  answered no question.

`clean` settings have nothing to repair. Two choices of the library were made after a look at these rows: flips are
counted given what the audit found (GoEmo-ST), and cards of function words have to be named (GoEmo-Syn, and GoEmo-ST
clean). Finished settings and seeds are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.standalone import grow, open_rows, settings_cases, settings_parser
from shortcut_guardrail import NothingToRepairError, ShortcutGuardrail
from shortcut_guardrail.audit import AuditReport
from shortcut_guardrail.decisions import Answer, Answers, Decision, Decisions, Questions, decide
from shortcut_guardrail.decisions.drawing import Question
from shortcut_guardrail.decisions.people import Choice
from shortcut_guardrail.metrics import balanced_accuracy, worst_group_accuracy
from shortcut_guardrail.saving.record import library_versions

SETTINGS = (
    "shifted/GoEmo-ST/reversed",
    "shifted/GoEmo-Syn/reversed",
    "natural-shortcuts/Amazon/test",
    "shifted/GoEmo-ST/clean",
    "natural-shortcuts/SST-2/test",
    "shifted/Yelp-ST/clean",
    "natural-shortcuts/MultiNLI/test",
    "natural-shortcuts/Civil/test",
    "shifted/Civil/reversed",
)
REVIEWERS = {"no errors": 0.0, "10 % errors": 0.1}
"""By name, the probability that an answer is the other one of the two."""
MAX_ROWS, TEXTS_A_CARD = 1000, 12


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    _, new, rows = open_rows(setting, seed, args, at_most=MAX_ROWS)
    report = new().audit(rows.texts)
    return {
        "n": len(rows),
        "groups": rows.counts(),
        "majority": float(np.bincount(rows.labels).max() / len(rows)),
        "base": scored(new(), rows),
        "flagged": [found.text for found in report.flagged],
        "fit_alone": repaired(new(), rows, report, seed=seed),
        "reviewers": {name: reviewed(new, rows, report, errors, seed) for name, errors in REVIEWERS.items()},
    }


def reviewed(
    new: Callable[[], ShortcutGuardrail], rows: LabelledTexts, report: AuditReport, errors: float, seed: int
) -> dict[str, Any]:
    """What one reviewer decides, and the guard that follows."""
    questions, answers, used = answered(new(), rows, report, errors, seed)
    decisions = decide(questions, answers)
    return {
        "asked": len(answers.to_texts()),
        "cards": [judged(one, questions, rows) for one in decisions.cards],
        "repaired": repaired(new(), rows, report, decisions=decisions, used=used, seed=seed),
    }


def answered(
    guard: ShortcutGuardrail, rows: LabelledTexts, report: AuditReport, errors: float, seed: int
) -> tuple[Questions, Answers, set[int]]:
    """All questions, call after call, one reviewer's answers to them, and the rows that these are about."""
    rng, said, rows_used = np.random.default_rng(seed), list[Answer](), set[int]()
    asked: AuditReport | Questions = report
    while True:
        questions = guard.questions(
            asked, rows.texts, cards="all", n=TEXTS_A_CARD, answers=Answers(tuple(said)), seed=seed
        )
        known = {answer.question for answer in said}
        new = [question for question in questions.asked if question.id not in known]
        if not new:
            return questions, Answers(tuple(said)), rows_used
        rows_used |= {one.row for one in new}
        said += [answer_to(one, guard.label_names[rows.labels[one.row]], rng.random() < errors) for one in new]
        asked = questions


def answer_to(question: Question, label: str, wrong: bool) -> Answer:
    """What a reviewer says who sees the label, or the other of the two answers."""
    said: Choice = "a" if label == question.option_a else "b" if label == question.option_b else "neither"
    other: dict[Choice, Choice] = {"a": "b", "b": "a"}
    return Answer("labels", "", other.get(said, said) if wrong else said, question=question.id)


def judged(one: Decision, questions: Questions, rows: LabelledTexts) -> dict[str, Any]:
    """A card that was asked about, and what the labels say of all of its flips."""
    names, flips = questions.audited.labels, questions.flips[one.id]
    truth = [names[rows.labels[flip.row]] for flip in flips]
    fixed = sum(label == flip.after for label, flip in zip(truth, flips, strict=True))
    broken = sum(label == flip.before for label, flip in zip(truth, flips, strict=True))
    wrong = one.outcome == "shortcut" and fixed <= broken
    counts = {"flips": len(flips), "fixed": fixed, "broken": broken}
    return {"words": one.words, "outcome": one.outcome, "asked": one.asked, **counts, "wrong": wrong}


def repaired(
    guard: ShortcutGuardrail,
    rows: LabelledTexts,
    report: AuditReport,
    *,
    decisions: Decisions | None = None,
    used: set[int] | None = None,
    seed: int,
) -> dict[str, Any]:
    """The guard that follows from an audit and decisions, if any; the base where there is nothing to repair."""
    try:
        words = guard.repair(rows.texts, report=report, decisions=decisions, seed=seed).fitted.shortcuts.words
    except NothingToRepairError:
        words = ()
    found = {"reliance_removed": list(words), "scores": scored(guard, rows)}
    if used is None:
        return found
    unused = rows.select(np.array([row for row in range(len(rows)) if row not in used]))
    base = scored(guard, unused, 0.0 if words else None)
    return {**found, "unused": {"n": len(unused), "base": base, "scores": scored(guard, unused)}}


def scored(guard: ShortcutGuardrail, rows: LabelledTexts, strength: float | None = None) -> dict[str, float]:
    """The guard's scores."""
    answers = guard.predict_proba(rows.texts, strength=strength).argmax(axis=1)
    return {
        "accuracy": float((answers == rows.labels).mean()),
        "balanced_accuracy": balanced_accuracy(answers, rows.labels),
        "worst_group_accuracy": worst_group_accuracy(answers, rows.labels, rows.groups),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    args = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2)).parse_args(arguments)
    asked, versions = {"texts_a_card": TEXTS_A_CARD, "max_rows": MAX_ROWS}, {"versions": library_versions()}
    for entry in grow(
        args.out, settings_cases(args), partial(measure, args=args), asked=asked, beside=lambda _: versions
    ):
        print(entry["setting"], entry["seed"], entry["base"], entry["fit_alone"], entry["reviewers"], flush=True)


if __name__ == "__main__":
    main()
