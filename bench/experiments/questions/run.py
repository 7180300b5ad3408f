"""Which questions are worth asking, and whether asking on can make a false decision likelier than it may be.

    python bench/experiments/questions/run.py --out results/questions.json

No model is needed. Two things are simulated with the library's own drawing of questions, sequence of answers and
decision.

`reviewers`: the cards are those of `results/flips.json`, each with its flips, of which so many are fixed, broken or
neither. That file has no cards with fewer than eight flips; an audit's others are given four each, fixed or broken by
a coin. Each of the reviewers answers all that is asked, and is wrong about a tenth of the flips, either way.

- `before`: one file with 40 questions about each card, those that cannot be decided too, and all of it is answered.
- `sixteen`: so many about each card that answers can decide, and in later calls as many more about those still open.
- `sixty`: the same with at most sixty questions a call, over all cards.

A decision is right where it is "shortcut" and masking fixes more of the card's flips than it breaks, or "legitimate"
and it breaks more.

`null`: a card of which masking fixes half, in a population that is drawn anew each time. Its questions come in files,
which are judged in a random order; the card counts where "shortcut" came out after any of them. `sequence`: as `decide`
does. `beside`: another card, of which every flip is fixed, is judged with it, and half of the card's texts hold its
word. `alone`: each file by itself, as `decide` did before.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shortcut_bench.standalone import grow
from shortcut_guardrail.cards import Card, Flip
from shortcut_guardrail.cards.card import CardEvidence
from shortcut_guardrail.decisions import Answer, Answers, AuditedCards, Questions, decide
from shortcut_guardrail.decisions.asking import draw
from shortcut_guardrail.decisions.drawing import AT_FIRST, Drawing
from shortcut_guardrail.decisions.people import Choice

LABELS = ("before", "after", "other")
FEW = 4
"""Flips of a card that has fewer than eight."""
ERRORS = 0.1
WAYS: dict[str, dict[str, Any]] = {"before": {"n": 40}, "sixteen": {"n": AT_FIRST}, "sixty": {"n_total": 60}}
MOST_CALLS = 12
"""After so many nothing is left to be asked."""
Kind = Literal["sequence", "beside", "alone"]
KINDS: tuple[Kind, ...] = ("sequence", "beside", "alone")
FILES = (1, 2, 3, 5)

Array = np.ndarray[Any, Any]
Truth = Mapping[str, Array]
"""By card what is right of each flip: 1 fixed, 0 broken, -1 neither."""


def questions_about(truth: Truth, words: Mapping[str, str] | None = None) -> tuple[Questions, dict[str, list[Flip]]]:
    """An audit with so many flips of each card, and no questions yet.

    Args:
        words: By card, the word that half of its texts hold besides.
    """
    evidence = CardEvidence("undecided", (), 1.0, 0.5)
    cards = tuple(Card(c, (c,), LABELS[0], len(t), len(t), 0.1, evidence) for c, t in truth.items())
    held = {card: f" {word}" for card, word in (words or {}).items()}
    flips = {
        card: [Flip.of(i, *LABELS[:2], f"{card} {i}" + held.get(card, "") * (i % 2)) for i in range(len(of_card))]
        for card, of_card in truth.items()
    }
    return Questions(AuditedCards("audit", "model", "data", LABELS, 1000, cards), flips), flips


def said(questions: Questions, right: Mapping[str, Choice | None], at: str) -> Answers:
    """What a reviewer answers to what is asked, who has an opinion of each text."""
    answers = ((one, right[str(one.text)]) for one in questions.asked)
    return Answers(tuple(Answer("reviewer", at, choice, one.id) for one, choice in answers if choice))


def opinion(questions: Questions, truth: Truth, errors: float, rng: np.random.Generator) -> dict[str, Choice]:
    """The option that a reviewer calls right, by text; wrong ones are the other of the two."""
    drawing = Drawing(questions.audited.id, LABELS)
    found: dict[str, Choice] = {}
    for card, flips in questions.flips.items():
        wrong = rng.random(len(flips)) < errors
        _, keys = drawing.of_flips({card: flips}, n=0)
        masked = {key.text_hash: key.masked_option for key in keys}
        for flip, outcome, errs in zip(flips, truth[card], wrong, strict=True):
            option = masked[flip.text_hash]
            other: Choice = "b" if option == "a" else "a"
            fixed = (outcome == 1) != errs
            found[str(flip.text)] = "neither" if outcome < 0 else option if fixed else other
    return found


# What is asked, and what comes of it


def reviewed(truth: Truth, way: str, rng: np.random.Generator) -> Iterator[tuple[int, dict[str, str]]]:
    """After each call, how many answers one reviewer gave so far, and what is decided."""
    questions, flips = questions_about(truth)
    right, answers = opinion(questions, truth, ERRORS, rng), Answers()
    seed, made = int(rng.integers(2**32)), dict[str, str]()
    for call in range(1 if way == "before" else MOST_CALLS):
        drawing = Drawing(questions.audited.id, LABELS, questions.keys)
        if way == "before":
            asked, keys = drawing.of_flips(flips, **WAYS[way], seed=seed)
            questions = replace(questions, keys=tuple(keys), asked=tuple(asked))
        else:
            questions = draw(questions, answers, flips, drawing, closed=made, seed=seed, **WAYS[way])
        if questions.asked:
            answers = answers.and_more(said(questions, right, str(call)))
            made = {one.id: str(one.outcome) for one in decide(questions, answers).cards if one.decision}
        yield len(answers.said), made


def reviewers(way: str, population: Sequence[Truth], n: int) -> dict[str, Any]:
    """All reviewers on all audits: after so many calls, answers, decisions, and how many are right."""
    total: dict[int, Counter[str]] = {}
    for i, truth in enumerate(population):
        for reviewer in range(n):
            calls = enumerate(reviewed(truth, way, np.random.default_rng([i, reviewer])), start=1)
            for call, (answers, made) in calls:
                fixes = {card: int((truth[card] == 1).sum()) - int((truth[card] == 0).sum()) for card in made}
                right = sum((made[card] == "shortcut") == (net > 0) and net != 0 for card, net in fixes.items())
                shortcuts = sum(outcome == "shortcut" for outcome in made.values())
                counted = {"answers": answers, "decided": len(made), "right": right, "shortcuts": shortcuts}
                total.setdefault(call, Counter()).update(counted)
    runs = len(population) * n
    return {
        "calls": [
            {
                "calls": call,
                **{name: one[name] / runs for name in ("answers", "decided", "shortcuts")},
                "right": one["right"] / one["decided"],
                "answers_per_decided": one["answers"] / one["decided"],
                "answers_per_right": one["answers"] / one["right"],
            }
            for call, one in total.items()
        ]
    }


def audits(file: Path) -> list[Truth]:
    """The cards of real audits, from the results of the experiment on flips."""
    found: list[Truth] = []
    for i, run in enumerate(json.loads(file.read_text(encoding="utf-8"))["results"]):
        rng = np.random.default_rng(i)
        of_run = {c["id"]: np.repeat([1, 0, -1], [c["fixed"], c["broken"], c["neither"]]) for c in run["cards"]}
        few = run["n_cards"] - len(of_run)
        found.append(of_run | {f"few{k}": rng.integers(0, 2, FEW) for k in range(few)})
    return found


# Where nothing is a shortcut


def null(files: int, n: int, kind: Kind, draws: int) -> dict[str, float]:
    """How often a card comes out as a shortcut of which masking fixes half, after any of some files."""
    rng = np.random.default_rng([files, n, KINDS.index(kind)])
    wrong = 0
    for seed in range(draws):
        truth = {"null": rng.integers(0, 2, files * n)}
        if kind == "beside":
            truth = {"shortcut": np.ones(files * n, dtype=int), **truth}
        questions, flips = questions_about(truth, {"null": "shortcut"} if kind == "beside" else None)
        right = opinion(questions, truth, 0.0, rng)
        # Calls with one seed go on where the last one stopped, so that one call has the files of all of them.
        drawing = Drawing(questions.audited.id, LABELS, cards=questions.audited.cards)
        asked, keys = drawing.of_flips(flips, n=0, seed=seed)
        questions = replace(questions, keys=tuple(keys), asked=tuple(asked))
        file_of = {key.id: key.order // n for key in keys}
        every = said(questions, right, "").said
        given = [
            Answers(tuple(replace(one, at=str(file)) for one in every if file_of[str(one.question)] == file))
            for file in range(files)
        ]
        wrong += after_any(questions, [given[i] for i in rng.permutation(files)], alone=kind == "alone")
    return {"shortcut": wrong / draws}


def after_any(questions: Questions, given: Sequence[Answers], *, alone: bool) -> bool:
    """Whether the card comes out as a shortcut after any of some files, or by itself of any."""
    kept = Answers()
    for one in given:
        kept = one if alone else kept.and_more(one)
        outcomes = {card.id: card.outcome for card in decide(questions, kept).cards}
        if outcomes["null"] == "shortcut":
            return True
    return False


def cases() -> Iterator[dict[str, Any]]:
    """All that is measured."""
    yield from ({"what": "reviewers", "way": way} for way in WAYS)
    for kind in KINDS:
        for n in (12, 40):
            yield from ({"what": "null", "files": files, "n": n, "kind": kind} for files in FILES)


def measure(what: str, *, args: argparse.Namespace, **case: Any) -> Mapping[str, Any]:
    """One case."""
    if what == "reviewers":
        return reviewers(**case, population=audits(args.flips), n=args.reviewers)
    return null(draws=args.draws, **case)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument("--flips", type=Path, default=Path("results/flips.json"), help="Cards of real audits.")
    parser.add_argument("--reviewers", type=int, default=20)
    parser.add_argument("--draws", type=int, default=2000, help="Random populations of a null case.")
    args = parser.parse_args(arguments)
    asked = {"reviewers": args.reviewers, "draws": args.draws}
    for entry in grow(args.out, cases(), partial(measure, args=args), asked=asked):
        print(json.dumps(entry), flush=True)


if __name__ == "__main__":
    main()
