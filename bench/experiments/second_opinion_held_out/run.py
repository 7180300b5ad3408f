r"""What was chosen on reviews that are reported nowhere: the language model's prompt, and the teacher of the repair.

    python bench/experiments/second_opinion_held_out/run.py --data-dir ../shared/data --language-model GEMMA \
        --work WORK --out results/second_opinion_held_out.json

The base of the Amazon setting is audited on training reviews that no base of that seed was trained on, as many of each
group by label and "book". `judges` holds what each judge says of every card beside what labels say: a bag of words of
restaurant reviews, the language model by the first prompt with examples and without, by the second with examples, and
combinations. `weighted` are judges of two whose scores count by the log-odds of their agreement with the model, instead
of alike.

`teachers` holds the guards that follow where the bag of words and the language model with examples decide:

- `card`: the repair as it is. To every text with the words, the answer due is that of the base without the words.
- `text`: the same, but where both judges together side with the model's own answer to a text that changes, with the
  words and without, that answer is due.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.bases import OpenedSetting, open_setting
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.second_models import (
    Array,
    accuracy_of,
    audited_once,
    columns_of,
    labelled_card,
    language_model,
    restaurants,
    scored,
)
from shortcut_bench.standalone import grow
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.classifiers import open_classifiers
from shortcut_guardrail.decisions import Sheet, ask, consultation_of, cut_sheet
from shortcut_guardrail.decisions.asking import Asked
from shortcut_guardrail.decisions.judging import LEAST_FLIPS
from shortcut_guardrail.decisions.second_opinion import fit_judges
from shortcut_guardrail.mitigation import strategies
from shortcut_guardrail.strength import Counterfactual

A_GROUP = 147
COMBINATIONS = (("examples", "restaurants"), ("no examples", "restaurants"), ("examples", "second prompt"))


def held_out(opened: OpenedSetting, data_dir: Path) -> LabelledTexts:
    """Training reviews that neither the base nor its choice of epoch has seen."""
    labels, texts = columns_of(data_dir / "amazon" / "amazon_blitzer_train.csv")
    train, dev = opened.data.train, opened.data.dev
    longest = max(map(len, train.texts))
    seen = {known(text) for text in (*train.texts, *dev.texts)}
    groups: dict[int, list[str]] = {}
    for label, text in zip(labels, texts, strict=True):
        if known(text) not in seen:
            group = 2 * int(label) + bool(re.search(r"\bbook\b", text.lower()))
            groups.setdefault(group, []).append(text[:longest])
    rng = np.random.default_rng(100 + opened.seed)
    chosen = [(of[i], group) for group, of in groups.items() for i in rng.permutation(len(of))[:A_GROUP]]
    ids = np.array([group for _, group in chosen])
    return LabelledTexts("held out", [text for text, _ in chosen], ids // 2, train.label_names, ids, train.group_names)


def known(text: Any) -> str:
    """By what a text is known again, also where it was cut."""
    return "".join(c for c in str(text).lower() if c.isalnum())[:200]


def sources_of(args: argparse.Namespace, labels: Sequence[str]) -> dict[str, Any]:
    """The judges by name."""
    second = "{text}\n\nThis is {label}"
    found: dict[str, Any] = {"restaurants": open_classifiers([restaurants(args.data_dir)], labels)[0]}
    for name, asked in (
        ("no examples", {"examples": ()}),
        ("examples", {}),
        ("second prompt", {"prompt": second}),
    ):
        file = language_model("Amazon", args.language_model, args.work, **asked)
        found[name] = open_classifiers([file], labels, cache=args.work / "answers")[0]
    return found


@contextmanager
def own_answers(texts: set[Any]) -> Iterator[None]:
    """Within it the answer that is due to these texts is the base's own."""
    module: Any = strategies
    made: Callable[..., Counterfactual] = module.counterfactual

    def changed(base: Any, encoded: Any, *rest: Any, **options: Any) -> Counterfactual:
        found = made(base, encoded, *rest, **options)
        rows = [i for i, text in enumerate(encoded.texts) if text in texts]
        logits = found.logits.copy()
        logits[:, rows] = found.base[rows]
        return replace(found, logits=logits)

    module.counterfactual = changed
    try:
        yield
    finally:
        module.counterfactual = made


def weighted(sheet: Sheet, scores: Mapping[str, Array], some: Sequence[str]) -> Array:
    """Judges of two classes as one, whose standardised scores count by the log-odds of their agreement."""
    total = np.zeros(len(sheet.texts))
    for name in some:
        judges, fitness = fit_judges(sheet, {name: scores[name]})
        agreement = fitness[name][0].agreement or 0.5
        total += np.log(agreement / (1 - agreement)) * judges[0, 1].score(sheet.texts)
    return np.stack([np.zeros(len(total)), total], axis=1)


def sided_with(sheet: Sheet, scores: Mapping[str, Array], cards: set[str]) -> dict[Any, int]:
    """Texts of some cards to which the judges together give the model's own answer, with the words and without, and
    that answer."""
    judges, _ = fit_judges(sheet, scores)
    found: dict[Any, int] = {}
    for flip in sheet.flips:
        judge = judges.get((min(flip.before, flip.after), max(flip.before, flip.after)))
        if judge is not None and flip.card in cards:
            both = judge.score([flip.text, flip.without]) * (1 if flip.before == judge.pair[1] else -1)
            if (both > 0).all():
                found[flip.text] = flip.before
    return found


def measure(seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One seed."""
    opened = open_setting(
        "natural-shortcuts", "Amazon", seed, data_dir=args.data_dir, cache=args.cache, changes={"n_test": None}
    )
    trained = opened.train(None)
    rows = held_out(opened, args.data_dir)
    guard = ShortcutGuardrail(
        trained.model, trained.tokenizer, max_length=trained.max_length, batch_size=64, precision="auto"
    )
    audited, _ = audited_once(guard, rows, args.work)
    cards = tuple(card for card in audited.cards if card.changes >= LEAST_FLIPS)
    audited = replace(audited, cards=cards)
    sheet = cut_sheet(guard.draw_sheet(rows.texts, audited, guard.find_flips(rows.texts, cards)))
    labels = dict(zip(rows.texts, rows.labels.tolist(), strict=True))
    scores = {
        name: ask(sheet, [source]).scores[source.name] for name, source in sources_of(args, guard.label_names).items()
    }

    def said(*some: str) -> Any:
        asked = Asked(sheet, {name: scores[name] for name in some}, {}, {name: {} for name in some})
        return consultation_of(audited, asked).decisions

    judges = [_shown(some, said(*some)) for some in (*((name,) for name in scores), *COMBINATIONS)]
    for some in COMBINATIONS:
        one = Asked(sheet, {"weighted": weighted(sheet, scores, some)}, {}, {"weighted": {}})
        judges.append({**_shown(some, consultation_of(audited, one).decisions), "weighted": True})
    decisions = said("examples", "restaurants")
    taken = {card.id for card in decisions.cards if card.decision}
    sided = sided_with(sheet, {name: scores[name] for name in ("examples", "restaurants")}, taken)
    entry: dict[str, Any] = {
        "n": len(rows),
        "base": scored(guard, rows),
        "accuracy": {name: accuracy_of(sheet, scores[name], labels) for name in scores},
        "cards": [labelled_card(card, sheet, labels) for card in cards],
        "judges": judges,
        "kept": {"texts": len(sided), "right": sum(labels[text] == own for text, own in sided.items())},
        "teachers": {},
    }
    for name, texts in (("card", set[Any]()), ("text", set(sided))):
        with own_answers(texts):
            guard.repair(rows.texts, decisions=decisions, seed=seed)
        entry["teachers"][name] = scored(guard, rows)
        guard.debias_strength = 0.0
    return entry


def _shown(some: Sequence[str], decisions: Any) -> dict[str, Any]:
    cards = [(card.id, card.second_opinion) for card in decisions.cards]
    shown = [
        {
            "id": id_,
            "mended": said.mended,
            "broken": said.broken,
            "bound": said.bound,
            "q_value": said.q_value,
            "at_stake": said.at_stake,
            "outcome": said.outcome,
        }
        for id_, said in cards
    ]
    return {"judges": some, "agreement": [judge.fitness[0].agreement for judge in decisions.judges], "cards": shown}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--language-model", required=True, help="Folder or Hub id of a causal language model.")
    parser.add_argument("--work", type=Path, required=True, help="Folder for audits and answers, so that it resumes.")
    parser.add_argument("--cache", type=Path, default=Path("results/.cache"), help="Classifiers that runs share.")
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument("--seeds", type=int, nargs="+", default=(3,))
    args = parser.parse_args(arguments)
    args.work.mkdir(parents=True, exist_ok=True)
    for entry in grow(
        args.out, [{"seed": seed} for seed in args.seeds], lambda seed: measure(seed, args=args), asked={}
    ):
        print(entry["seed"], entry["base"], entry["kept"], entry["teachers"], flush=True)


if __name__ == "__main__":
    main()
