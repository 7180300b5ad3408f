"""What people and second models say of word groups, and what follows, round after round; see `whole_outputs`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from audits import candidate, card, example, labelled, to_review
from shortcut_guardrail import Answers, Decisions, Questions, decide
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.cards.card import Moved
from shortcut_guardrail.decisions import Answer, AuditedCards, Decision
from shortcut_guardrail.decisions.answers import JudgeAnswers
from shortcut_guardrail.decisions.asking import draw
from shortcut_guardrail.decisions.deciding import remaining
from shortcut_guardrail.decisions.drawing import Drawing, ReferenceText
from shortcut_guardrail.report import print_decided, print_questions, render_audit
from shortcut_guardrail.review.session import Session, StaleError
from shortcut_guardrail.review.shown import make_deck
from whole_outputs import compare, printed, told, written

NAMES = ("1 star", "2 stars", "3 stars", "4 stars")
TOLD = {"soup": 0.95, "tea": 0.05, "rain": 0.5, "sun": 0.9, "fog": 1.0, "ice": 1.0}
"""By word, how often its prediction changes are right without it."""


def flips_of(word: str, n: int, *, also: str = "") -> list[Flip]:
    """Prediction changes of a word, every fourth between other classes, every third with another group's word."""
    made = []
    for i in range(n):
        text = f"a {word} number {i} {'of ' + also if also and i % 3 == 0 else ''} for all"
        sides = ("4 stars", "1 star") if i % 4 else ("3 stars", "2 stars")
        made.append(
            Flip.of(1000 * len(word) + i, *sides, (text, f"side {i}") if word == "fog" else text, 0.1 * (i % 9))
        )
    return made


def asked() -> tuple[AuditedCards, dict[str, list[Flip]]]:
    counts = {"soup": 50, "tea": 45, "rain": 60, "sun": 30, "fog": 12, "ice": 7}
    cards = [
        card(word, f"{word}s", changes=n, pushes_towards="4 stars", except_in=(f"{word} of",))
        for word, n in counts.items()
    ]
    flips = {
        c.id: flips_of(c.words[0], n, also="soup" if c.words[0] == "sun" else "")
        for c, n in zip(cards, counts.values(), strict=True)
    }
    flips[cards[2].id][:6] = flips[cards[1].id][:6]
    return AuditedCards("audit", "model", "data", NAMES, 400, tuple(cards), ("soups",)), flips


def says(rng: random.Random, questions: Questions, by: str, at: str) -> Iterator[Answer]:
    """Answers to what was asked: right as often as `TOLD` has it, some neither and some unclear."""
    keys = {key.id: key for key in questions.keys}
    words = {c.id: c.words[0] for c in questions.audited.cards}
    for one in questions.asked:
        key = keys[one.id]
        masked = rng.random() < TOLD[words[key.card]]
        said: Any = key.masked_option if masked else {"a": "b", "b": "a"}[key.masked_option]
        yield Answer(by, at, rng.choice(("neither", "unclear")) if rng.random() < 0.08 else said, one.id)


def drawn(questions: Questions) -> Iterator[str]:
    yield from told(
        [
            f"{key.id} {key.card} {key.masked_option} {key.order} {key.label} {key.after} {len(key.holds)} {key.counts}"
            for key in questions.keys
        ],
        "keys",
    )
    yield from told([f"{one.id} {one.row} {one.option_a} {one.option_b}" for one in questions.asked], "asked")
    yield from told(
        [questions.undecidable, questions.shows_its_group, [questions.n_flips(c) for c in questions.audited.cards]]
    )


def test_rounds_of_questions_to_two_people_until_everything_is_said(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    (audited, flips), rng, lines = asked(), random.Random(4), []
    questions, answers = Questions(audited, {}), Answers()
    known = {flip.row: ("1 star", "4 stars", "2 stars")[flip.row % 3] for of in flips.values() for flip in of[:4]}
    for round_, how in enumerate(({"n": 9}, {"n": 6, "n_total": 40}, {"n": 0, "n_total": 24, "seed": 3}, {"n": 3})):
        lines.append(f"## round {round_}")
        if round_ == 2:
            flips = {one: of[:-5] if len(of) > 40 else of for one, of in flips.items()}
        drawing = Drawing("audit", NAMES, questions.keys, known if round_ else {}, cards=audited.cards, given=["soups"])
        closed = [one.id for one in decide(questions, answers, at="now").cards if one.outcome != "open"]
        questions = replace(draw(questions, answers, flips, drawing, closed=closed, **how), flips=flips)
        lines += [*drawn(questions), *told(questions.rows(redact=round_ == 1)[:5])]
        for by in ("anna", "ben")[: 1 + round_ % 2]:
            answers = answers.and_more(Answers(tuple(says(rng, questions, by, f"{round_}{by}"))))
        lines += told([*answers.arrived().values()], "arrived")
        for keep in (False, True):
            lines += told(decide(questions, answers, keep_asking=keep, at="now").to_dict(), f"keep {keep}")
        print_questions(
            questions,
            {one: len(of) for one, of in flips.items()},
            Path("q.csv"),
            Path("audit"),
            n_total=how.get("n_total"),
        )
        print_decided(decide(questions, answers, at="now"), Path("d.json"), "fit", undecidable=questions.undecidable)
        lines += printed(capsys.readouterr().out)
    soup, tea, rain, _, fog, ice = (c.id for c in audited.cards)
    earlier = [Decision(("soup", "soups"), "keep", "file"), Decision(("wind",), "not_alone", "person", "w")]
    earlier.append(Decision(("SUN", "suns"), "remove_reliance", "answers", "old", asked=9, fixed=9, outcome="shortcut"))
    said = [("anna", tea, "keep"), ("ben", tea, "unsure"), ("anna", rain, "keep"), ("ben", rain, "remove_reliance")]
    said += [("anna", fog, "unsure"), ("ben", fog, "unsure"), ("anna", ice, "unsure"), ("anna", soup, "unsure")]
    more = tuple(Answer(by, "later", decision=what, card=of) for by, of, what in said)
    for one_by_one in (False, True):
        both = replace(answers, said=(*answers.said, *more), earlier=Decisions(tuple(earlier)))
        other = replace(questions, one_by_one=one_by_one, asked=tuple(Questions.of_audit(audited, flips).asked))
        made = decide(other, both, at="now")
        lines += told(made.to_dict(), f"one by one {one_by_one}")
        lines += told([one.said for one in made.cards])
        lines += told([remaining(other, both, by) for by in ("anna", "ben", "eve")], "remaining")
    compare("rounds", lines)


def test_second_models_of_ordered_classes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    (audited, flips), rng, lines = asked(), np.random.default_rng(0), []
    audited = replace(audited, cards=(*audited.cards, card("snow", pushes_towards="4 stars")))
    flips |= {audited.cards[-1].id: [Flip.of(i, "2 stars", "4 stars", f"snow {i}", 0.2) for i in range(9)]}
    reference = []
    for a, b in ((0, 3), (3, 0), (1, 2), (2, 1)):
        for i in range(90 if a % 3 == 0 else 70):
            sides, holds = (NAMES[a], NAMES[b]), (audited.cards[0].id,) if i % 13 == 0 else ()
            reference.append(ReferenceText(i, f"free {i} {a}{b}", *sides, 0.02 * i, i % 5 > 0, i % 3 > 0, holds))
    questions = Questions(audited, flips, (), tuple(reference), ("deployed",))
    texts = questions.for_judges.texts
    right = {one.text: NAMES.index(one.answer) for one in reference}
    for of in flips.values():
        for case in of:
            right[case.content] = 0 if rng.random() < TOLD.get(str(case.content).split()[1], 0.5) else 3
    right |= {case.without: right[case.text] for case in questions.for_judges.cases if case.without}
    judges = {}
    for name, accuracy in (("good", 0.85), ("lean", 0.7), ("coin", 0.5), ("same", 1.0), ("new", 0.9)):
        log = rng.normal(0, 0.4, (len(texts), 4))
        rows = [right[text] if rng.random() < accuracy else 3 - right[text] for text in texts]
        log[np.arange(len(texts)), rows] += 2.0
        log[:, 3] += 0.8 * (name == "lean")
        log[rng.random(len(texts)) < 0.05] = np.nan
        log = np.zeros_like(log) if name == "same" else log
        judges[name] = JudgeAnswers(log, {"kind": name}, "It changes its mind." if name == "new" else "")
    for names in (["good"], [*judges], ["coin", "same"], ["lean"]):
        for rule in ("agreement", "reference"):
            answers = Answers((), {name: judges[name] for name in names}, texts)
            made = decide(questions, answers, rule=rule, at="now")
            print_decided(made, Path("d.json"), "fit", undecidable=questions.undecidable)
            lines += [f"## {names} {rule}", *told(made.to_dict()), *printed(capsys.readouterr().out)]
            lines += told([one.said for one in made.cards])
    lines += [*answers.to_lines().splitlines()[:60:5]]
    compare("judges", lines)


def deck_of(n: int = 5) -> Any:
    """A deck with words in many places of long texts, and groups of every standing."""
    report = to_review(n)
    cards = list(report.cards)
    long = " and so on with more to say about that" * 2
    for i in range(n):
        flips = [
            Flip.of(
                f.row,
                f.before,
                f.after,
                f"{f.text}{long if j % 2 else ''} w{i}, indeed" if i % 2 else (f"{f.text}", f"w{i} {j}"),
            )
            for j, f in enumerate(cards[i].flips)
        ]
        moved = (Moved("positive", "negative", 20 - i), Moved("negative", "positive", 3))
        status = ("flagged", "undecided", "not_flagged")[i % 3]
        evidence = replace(
            cards[i].evidence, status=status, flagged=(f"w{i}", f"w{i}s")[: 1 + i % 2] if i % 3 == 0 else ()
        )
        cards[i] = replace(cards[i], flips=tuple(flips[: (20, 12, 11, 8, 5)[i % 5]]), moved=moved, evidence=evidence)
    cards[4] = replace(cards[4], changes=5, evidence=replace(cards[4].evidence, relative_effect=float("nan")))
    found = [
        candidate(f"w{i}", flagged=i == 0, alternative_wording=i == 3, labelled=labelled() if i == 1 else None)
        for i in range(n)
    ]
    found[4] = replace(
        found[4], examples=(example(7, "a w4 of another kind", "w4"), example(8, "some w4 again", "w4", flips=False))
    )
    cards.append(card("!!!", "...", changes=9))
    return replace(report, cards=tuple(cards), candidates=tuple(found))


def test_a_review_by_two_people_beside_a_file_that_others_change(tmp_path, monkeypatch):
    report = deck_of()
    deck = make_deck(report.to_dict())
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.json").write_text(json.dumps(report.to_dict()))
    lines, file = [*told(deck.to_dict()), *told([len(of) for of in deck.flips.values()])], tmp_path / "decisions.json"
    anna = Session(deck, file, "anna", folder=tmp_path / "audit")

    def step(review: Session, what: dict[str, str]) -> None:
        review._take_up()
        review.save(what, review.revision)
        lines.extend([f"## {what.get('decision')}", *told(review.state(), review.by)])

    def texts(review: Session, right: str, most: int) -> None:
        for _ in range(most):
            review._take_up()
            if not (one := review.state()["question"]):
                break
            review.save(
                {"question": one["id"], "answer": {one["a"]: "a", one["b"]: "b"}.get(right, right)}, review.revision
            )
        lines.extend(["## texts", *told(review.state(), review.by)])

    for group, said in zip(deck.cards, ("unsure", "keep", "not_alone", "unsure", "unsure"), strict=True):
        step(anna, {"card": group.id, "decision": said})
    texts(anna, "negative", 5)
    anna.undo(anna.revision)
    lines += told(anna.state(), "undone")
    ben = Session(deck, file, "ben", folder=tmp_path / "audit", seed=5)
    for group, said in zip(deck.cards, ("unsure", "remove_reliance", "unsure", "keep", "unsure"), strict=True):
        step(ben, {"card": group.id, "decision": said})
    try:
        anna.save({"card": deck.cards[0].id, "decision": "keep"}, 2)
    except StaleError:
        lines.append("stale")
    texts(ben, "neither", 4)
    texts(ben, "negative", 40)
    texts(anna, "positive", 40)
    found = Decisions.from_file(file)
    replace(
        found,
        cards=(
            replace(found.cards[0], decision="keep", source="file", reviews=()),
            *found.cards[1:],
            Decision(("x",), "keep", "file"),
        ),
    ).save(file, overwrite=True)
    anna._take_up()
    lines += [*told(anna.state(), "changed"), *told(json.loads(anna.content()), "content"), anna.next]
    lines = [line.replace(str(tmp_path), "FOLDER") for line in lines]
    decided = Decisions.from_file(file)
    lines += told([one.said for one in decided.cards])
    page = tmp_path / "page.html"
    page.write_text(render_audit(report, decisions=decided), encoding="utf-8")
    compare("review", [*lines, *written(tmp_path, but={"decisions.json", "audit/audit.json"})])
