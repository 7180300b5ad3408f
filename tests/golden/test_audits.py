"""Whole audits, in memory, in shards and of samples, of classifiers whose answers are algebra; see `whole_outputs`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from made_answers import bag
from made_shards import together
from shortcut_guardrail import AuditConfig, ShortcutGuardrail
from shortcut_guardrail.audit.auditing import make_report
from shortcut_guardrail.cards import find_flips
from shortcut_guardrail.config import ShortcutConfig
from shortcut_guardrail.data import MemoryTexts
from shortcut_guardrail.report import print_audit, print_shortcuts
from shortcut_guardrail.shortcuts import find_shortcuts
from tiny_models import meaning_bag, planted_bag
from whole_outputs import compare, printed, told

STARS = ("1 star", "2 stars", "3 stars", "4 stars")
NOUNS = "room staff food service soup bread".split()
SAID = {"1 star": "awful dull", "2 stars": "bad cold", "3 stars": "fine warm", "4 stars": "great lovely"}
OPENINGS = {
    "1 star": ("honestly,", "really", "to be honest", "again", ""),
    "2 stars": ("nobody", "again", "honestly,", ""),
}
OPENINGS |= {"3 stars": ("quite", "again", ""), "4 stars": ("quite", "again", "really", "", "")}


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")


def rated(n: int, *, seed: int = 0) -> tuple[list[str], list[str]]:
    """Reviews of one to four stars; the worst open with what others seldom do, and some repeat all but exactly."""
    rng, texts, said = random.Random(seed), [], []
    for i in range(n):
        label = rng.choice((*STARS, "4 stars", "4 stars"))
        words = f"the {rng.choice(NOUNS)} was {rng.choice(SAID[label].split())} so {rng.choice(NOUNS)}"
        texts.append(f"{rng.choice(OPENINGS[label])} {words}{'!!!' * (rng.random() < 0.3)}".strip())
        said.append(label if rng.random() < 0.8 else rng.choice(STARS))
        if i % 9 == 8:
            texts[-1], said[-1] = rng.choice((texts[-2], texts[-2].upper(), f"{texts[-2]} 7")), said[-2]
    return texts, said


def audited(report: Any, capsys: Any, every: int = 7) -> Iterator[str]:
    """All that an audit says, of every so manieth text too, and in the terminal."""
    document = report.to_dict()
    yield from told(document)
    if report.inputs is not None:
        yield from told([report.input_to_dict(i) for i in range(0, report.n, every)], "inputs")
    capsys.readouterr()
    print_audit(document)
    yield from printed(capsys.readouterr().out + repr(report))


def chosen(found: Any, capsys: Any) -> Iterator[str]:
    print_shortcuts(found)
    yield from told(found)
    yield from printed(capsys.readouterr().out + repr(found))


def test_four_classes_and_what_labels_say_of_their_shortcuts(capsys):
    effects: dict[str, Any] = {
        w: tuple(3.0 * (c == i) for c in range(4)) for i, s in enumerate(STARS) for w in SAID[s].split()
    }
    effects |= {"honestly": (0, 0, 0, 6.0), "really": (0, 0, 0, 5.0), "honest": (0, 0, 2.5, 3.5), "be": (0, 0, 0, 1.5)}
    effects |= {"nobody": (0, 0, 4.0, 0), "!": (0, 0, 0.2, 0.4), "quite": (0.3, 0, 0, 0), "so": (0, 0.2, 0, 0)}
    model = meaning_bag(effects, {"honestly": 0, "really": 0, "honest": 0, "quite": 1, "great": 2, "lovely": 2}, STARS)
    (texts, labels), (few, right) = rated(120), rated(40, seed=1)
    guard = ShortcutGuardrail(model.model, model.tokenizer)
    report = guard.audit(texts, labels=labels, config=AuditConfig(top_k=5, n_examples=2))
    lines = [*audited(report, capsys, 20)]
    support = model.encode(few), guard.label_ids(right)
    configs = [
        ShortcutConfig(top_k=5),
        ShortcutConfig(top_k=5, named=("tea",), keep=("to be honest",), not_alone=("quite",)),
    ]
    configs.append(ShortcutConfig(take_influential=True, influential_share=0.05, max_considered=4, dominant_share=0.1))
    for i, config in enumerate(configs):
        for given in (None, support):
            found = find_shortcuts(model, report.encoded, config, report=report, support=given)
            lines += [f"## {i} {given is not None}", *chosen(found, capsys)]
    flips = find_flips(model, report.encoded, report.cards, given=("honestly",), probs=report.probs)
    lines += told({card: [f"{f.row} {f.before} {f.after} {f.margin:.3f}" for f in of] for card, of in flips.items()})
    compare("classes", lines)


def test_pairs_with_words_on_one_side_and_a_budget_that_runs_out_twice(capsys):
    rng, pairs, labels = random.Random(3), [], []
    for i in range(120):
        no, words = rng.random() < 0.5, rng.sample(NOUNS, 3)
        first = f"a {words[0]}  and {words[1]}" if i % 3 else f"a {words[0]} and {words[1]} not"
        verb, said = rng.choice(("nobody", "nothing", "never")), "bad" if no else "good"
        second = f"{verb if no and i % 5 else 'the'} {words[2]} was {said}"
        pairs.append((first, f"{second}!!!" if i % 11 == 0 else second))
        labels.append("no" if no != (i % 10 == 0) else "yes")
    weights = {"nobody": 4.0, "nothing": 4.5, "never": 3.5, "bad": -1.0, "good": 3.0, "bad!!!": -3.0, "soup": 0.3}
    guard = ShortcutGuardrail.around(bag(weights), ["no", "yes"])
    lines = [*told([guard.answers_needed(pairs, AuditConfig(top_k=k, budget=b)) for k in (2, 4) for b in (0, 500)])]
    for budget in (0, 500, 500):
        config = AuditConfig(top_k=3, budget=budget, n_examples=1, min_count=6)
        lines += [f"## {budget}", *audited(guard.audit(pairs, labels=labels, config=config), capsys, 30)]
    compare("pairs", lines)


@pytest.mark.parametrize("unit", ["token", "phrase"])
def test_shards_with_repeats_and_cut_texts(unit, capsys, tmp_path):
    guard, (texts, labels) = ShortcutGuardrail(*planted_bag(), max_length=12), rated(70, seed=2)
    texts = [
        t.replace("dull", "bad").replace("lovely", "good") + " to be honest honestly" * (i % 6 == 0)
        for i, t in enumerate(texts)
    ]
    names = ["negative" if label < "3" else "positive" for label in labels]
    config = AuditConfig(
        unit=unit, top_k=3, shard_size=16, min_count=4, compare_with="rests" if unit == "token" else "texts"
    )
    found = guard.audit_in_shards(MemoryTexts(texts, names), tmp_path / "shards", config=config)
    lines = [*audited(found.report, capsys), *printed(repr(found)), *told(found.repeats)]
    lines += (
        told([*found.inputs()][::2], "inputs") if unit == "phrase" else told([*found.inputs(redact=True)], "inputs")
    )
    compare(f"shards_{unit}", lines)


FILLERS = {f"w{letter}": i - 2.5 for i, letter in enumerate("abcdef")}
"""Words that speak against the second class or for it, the more so the later in the alphabet."""


def spoken(n: int, openings: dict[str, tuple[float, int]], *, seed: int = 0) -> list[str]:
    """Texts of five fillers, so that each is another one; so many for each opening, whose rest is so far against."""
    rng, texts = random.Random(seed), []
    of_each = [(word, against) for word, (against, many) in openings.items() for _ in range(many)]
    for word, against in of_each + [("", 0.0)] * (n - len(of_each)):
        places = [min(5, max(0, round(rng.gauss(2.5 - 0.7 * against, 1.3)))) for _ in range(5)]
        texts.append(" ".join([word, *(list(FILLERS)[place] for place in places), rng.choice(NOUNS)]).strip())
    rng.shuffle(texts)
    return texts


def test_samples_with_common_and_rare_words(capsys):
    lines = []
    weights = {word: weight / 4 for word, weight in FILLERS.items()} | {"honestly": 6.0, "quite": 3.0}
    guard = ShortcutGuardrail.around(bag(weights, bias=-1.5), ["no", "yes"])
    for many, size, budget in ((24, 360, 0), (110, 104, 0), (110, 104, 450), (20, 2000, 0)):
        texts = spoken(550 if size < 2000 else 110, {"honestly": (0.8, many), "quite": (0.4, 20)})
        labels = ["yes" if max(text.split()[-3:]) > "we" else "no" for text in texts]
        config = AuditConfig(top_k=2, budget=budget, n_examples=1, min_count=5)
        found = guard.audit_sample(MemoryTexts(texts, labels), size, config=config, seed=1)
        lines += [f"## {many} {size}", *audited(found.report, capsys, 40), *told(found.sample.repeats.weights[:40])]
    compare("samples", lines)


def test_sets_alternative_wordings_and_what_dominates(capsys):
    openings = {
        "wordings": {"honestly": (1.5, 40), "frankly": (0.8, 12), "honestly frankly": (1.5, 10), "quite": (0.0, 20)},
        "dominant": {"most of": (1.0, 100), "honestly": (1.5, 25), "frankly": (1.5, 25)},
    }
    weights = {"honestly": 7.0, "frankly": 6.0, "most": 7.0, "of": 1.0, "quite": 3.0}
    texts_of = {"texts_of": lambda rows: {row: f"a text {row}" for row in rows}}
    report = make_report(lambda: [together(0.7)], AuditConfig(), ("no", "yes"), **texts_of)
    lines = [*audited(report, capsys)]
    for i, (which, given) in enumerate(openings.items()):
        config = ShortcutConfig(unit=("word", "phrase")[i], take_influential=i == 0, dominant_share=0.2)
        guard = ShortcutGuardrail.around(bag(weights | FILLERS, bias=-0.5), ["no", "yes"])
        report = guard.audit(spoken(230, given, seed=i), config=config.audit())
        found = find_shortcuts(guard._base, report.encoded, config, report=report)
        lines += [f"## {which}", *audited(report, capsys, 60), *chosen(found, capsys)]
    compare("sets", lines)
