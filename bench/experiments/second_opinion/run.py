r"""Second opinions on cards: which judges are fit, what they decide, how often wrongly, and what the repair brings.

    python bench/experiments/second_opinion/run.py --data-dir ../shared/data --language-model GEMMA --work WORK \
        --out results/second_opinion.json

For settings of the benchmark the base classifier is audited on the test texts without labels, as in
`bench/experiments/flips`. Every card with at least eight flips is put before second models, as `guard.repair` does with
`second_opinion`. Judges:

- `language model`: a small causal model that was not tuned for the task (`--language-model`, a folder or Hub id), by
  one prompt with a few examples of our own, which stand below. Entries without `examples` are older: it was asked by
  the library's three prompts without an example.
- `restaurants`: a bag of words (TF-IDF, logistic regression) trained on restaurant reviews, for reviews.
- `phrases`: one trained on SST-2's phrases, for reviews of anything but films.
- `same texts`: one trained on the very texts that the base was trained on, which learned the same shortcut.
- `forty labels`: logistic regression on forty labelled rows, over the frozen encoder that the base started from.
- `names`: likeness of a text and the labels' names, in the same encoder.

For each card stand what the labels say (`mended`, `broken`) and what every judge and combination says, by both rules.
`genuine` is a card that labels break more than they mend. `repaired` is the guard that follows, on the test texts.
`people` draws, for the judges of which a guard is made, twenty answers to texts near the boundary and five to the
card's flips, one in ten wrong, and the same number of answers to the card's flips alone. `at_stake` is what a judge
says masking would bring, `brings` what labels say, as shares of the distinct texts.

Rules and thresholds come from `bench/experiments/second_opinion_simulation`. How texts without the words are chosen was
corrected after a look at Amazon's seeds 0 and 1 with bags of words, and the adjustment for many cards was added after a
look at SST-2's seed 0; neither was tuned. The prompt was chosen on training reviews of Amazon that no base was trained
on, with the base of seed 3.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.bases import OpenedSetting, open_setting
from shortcut_bench.classifiers import find_encoder
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.standalone import grow, settings_cases, settings_parser
from shortcut_guardrail import NothingToRepairError, ShortcutGuardrail
from shortcut_guardrail.data import to_json, write_file
from shortcut_guardrail.decisions import AuditedCard, AuditedCards, Decisions, ask, consultation_of, cut_sheet
from shortcut_guardrail.decisions.asking import Asked
from shortcut_guardrail.decisions.judging import LEAST_FLIPS
from shortcut_guardrail.decisions.sheet import REFERENCES, Sheet, near_boundary
from shortcut_guardrail.metrics import worst_group_accuracy
from shortcut_guardrail.opinions import Cost, Source, open_sources
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.stats import THRESHOLD, paired_e_value

SETTINGS = (
    "natural-shortcuts/Amazon/test",
    "natural-shortcuts/SST-2/test",
    "shifted/GoEmo-ST/clean",
    "shifted/Yelp-ST/clean",
    "natural-shortcuts/Civil/test",
    "natural-shortcuts/MultiNLI/test",
    "shifted/Civil/reversed",
)
MAX_ROWS = 1000
DRAWS = 100
WRONG = 0.1

Array = np.ndarray[Any, Any]
Predict = Callable[[Sequence[Any]], Array]

DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "Civil": {"non-toxic": "a civil comment", "toxic": "a rude, hateful or insulting comment"},
}
"""What labels mean, for the language model, where their names do not say it."""
PROMPT = "Text: {text}\nLabel: {label}"
EXAMPLES: Mapping[str, Sequence[tuple[str, ...]]] = {
    "Amazon": (
        ("negative", "It broke after two days, and nobody answered my letters."),
        ("positive", "Works as promised and lasts all week. I am glad that I bought it."),
        ("negative", "I wanted to like it, but the story drags and the end makes no sense."),
        ("positive", "My daughter laughs every time we read it. We will buy the next one."),
    ),
    "SST-2": (
        ("negative", "two hours that feel like four , with nobody in them to care about"),
        ("positive", "a warm , clever film that trusts its actors"),
        ("negative", "loud , empty and far too pleased with itself"),
        ("positive", "it stays with you long after the lights go up"),
    ),
    "Yelp-ST": (
        ("1 star", "Cold food, rude waiter, and they charged us twice. Never again."),
        ("3 stars", "Decent burger, slow service. It is fine if you are nearby."),
        ("5 stars", "The best meal we had all year. Everybody was kind, and the fish was perfect."),
        ("2 stars", "Nice room, but my pasta was dry and nobody came to ask."),
        ("4 stars", "Very good coffee and fresh cakes. A little loud on Sundays."),
    ),
    "GoEmo-ST": (
        ("neutral", "The meeting is on Tuesday at ten."),
        ("amusement", "I nearly fell off my chair, that dog has better timing than most comedians."),
        ("joy", "We are so happy for you two, what a lovely day."),
        ("excitement", "I cannot wait, the tickets came today!"),
    ),
    "Civil": (
        ("toxic", "Only a fool would write such rubbish. Go back to where you came from."),
        ("non-toxic", "I see it differently: the new road cost more than the old bridge."),
        ("toxic", "These people are vermin and so is everybody who votes for them."),
        ("non-toxic", "Thank you for the article. Where can I find the numbers?"),
    ),
    "MultiNLI": (
        ("entailment", "Two women are cooking soup.", "Somebody is cooking."),
        ("contradiction", "The shop closes at six every day.", "The shop is open all night."),
        ("neutral", "He bought a train ticket.", "He is on his way to his mother."),
    ),
}
"""A label and a text of ours, in no data set, for the language model."""
REVIEWS = ("Amazon", "SST-2")


@cache
def encoder() -> tuple[Any, Any]:
    """The frozen encoder that the base started from."""
    from transformers import AutoModel

    found = find_encoder("minilm")
    return found.tokenizer(), AutoModel.from_pretrained(found.source).eval()


def vectors(texts: Sequence[Any]) -> Array:
    """Mean vectors of the frozen encoder, of unit length."""
    import torch

    tokenizer, model = encoder()
    made = []
    for start in range(0, len(texts), 64):
        some = [" ".join([one] if isinstance(one, str) else one) for one in texts[start : start + 64]]
        batch = tokenizer(some, padding=True, truncation=True, max_length=128, return_tensors="pt")
        with torch.inference_mode():
            states = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1)
        made.append(((states * mask).sum(1) / mask.sum(1)).numpy())
    found: Array = np.concatenate(made)
    unit: Array = found / np.linalg.norm(found, axis=1, keepdims=True)
    return unit


def bag_of_words(texts: Sequence[Any], labels: Array) -> Predict:
    """TF-IDF and logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True), LogisticRegression(C=4.0, max_iter=1000)
    )
    model.fit([joined(text) for text in texts], labels)
    return lambda asked: np.asarray(model.predict_proba([joined(text) for text in asked]))


def joined(text: Any) -> str:
    """A text, or the two of a pair as one."""
    return text if isinstance(text, str) else " ".join(text)


def restaurants(data_dir: Path) -> Predict:
    """Of restaurant reviews, those of one and two stars against those of four and five."""
    stars, texts = columns_of(data_dir / "yelp" / "train.csv")
    kept = [i for i, one in enumerate(stars) if one != "3"]
    return bag_of_words([texts[i] for i in kept], np.array([int(stars[i]) > 3 for i in kept]))


def phrases(data_dir: Path) -> Predict:
    """Of phrases from film reviews."""
    labels, texts = columns_of(data_dir / "sst2" / "sst2_glue_train.csv")
    return bag_of_words(texts, np.array([one in ("1", "positive") for one in labels]))


def columns_of(file: Path) -> tuple[list[str], list[str]]:
    """Labels and texts of a file of the data."""
    from shortcut_guardrail.data import read_data

    rows = read_data(str(file), label_column="label", text_column="text", require_labels=True)
    assert rows.labels is not None
    return list(rows.labels), [str(text) for text in rows.texts]


def forty_labels(train: LabelledTexts, n_classes: int, seed: int) -> Predict:
    """Logistic regression over the frozen encoder, on forty rows, as many of each label."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng([seed, 40])
    rows = np.concatenate(
        [rng.permutation(np.flatnonzero(train.labels == one))[: 40 // n_classes] for one in range(n_classes)]
    )
    model = LogisticRegression(C=10.0, max_iter=1000).fit(vectors([train.texts[i] for i in rows]), train.labels[rows])
    return lambda asked: np.asarray(model.predict_proba(vectors(asked)))


def names(labels: Sequence[str]) -> Predict:
    """Likeness to the names of the labels."""

    def predict(asked: Sequence[Any]) -> Array:
        likeness = 20 * vectors(asked) @ vectors(list(labels)).T
        odds = np.exp(likeness - likeness.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    return predict


def judges_of(opened: OpenedSetting, setting: str, labels: Sequence[str], args: argparse.Namespace) -> dict[str, Any]:
    """The second models of a setting, by name."""
    _, name, test = setting.split("/")
    train = opened.data.clean_train if test == "clean" else opened.data.train
    if train is None:
        raise ValueError(f"{setting} has no training texts without the shortcut.")
    found: dict[str, Any] = {"same texts": bag_of_words(train.texts, train.labels)}
    found["forty labels"] = forty_labels(opened.data.dev, len(labels), opened.seed)
    found["names"] = names(labels)
    if name in REVIEWS:
        found["restaurants"] = restaurants(args.data_dir)
    if name == "Amazon":
        found["phrases"] = phrases(args.data_dir)
    if args.language_model:
        found["language model"] = language_model(name, args)
    return found


def language_model(name: str, args: argparse.Namespace) -> Path:
    """The TOML file of the language model for a data set."""
    lines = ['kind = "causal"', f"model = {json.dumps(args.language_model)}", f"prompts = [{json.dumps(PROMPT)}]"]
    for label, *texts in EXAMPLES[name]:
        lines += ["[[examples]]", f"label = {json.dumps(label)}"]
        lines += [f"{key} = {json.dumps(text)}" for key, text in zip(("text", "text_pair"), texts, strict=False)]
    file: Path = args.work / f"{name}.toml"
    write_file(file, "\n".join(lines) + "\n", overwrite=True)
    return file


COMBINATIONS = (
    ("language model", "restaurants"),
    ("restaurants", "phrases"),
    ("language model", "restaurants", "phrases"),
)

REPAIRED = (("language model", "restaurants"), ("restaurants",), ("language model",))
"""Whose decisions a guard is made of."""


def measure(setting: str, seed: int, examples: bool, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    experiment, name, test = setting.split("/")
    opened = open_setting(experiment, name, seed, data_dir=args.data_dir, cache=args.cache, changes={"n_test": None})
    trained = opened.train(opened.data.clean_train if test == "clean" else None)
    rows = opened.data.oracle_tests["reversed"] if test == "clean" else opened.data.tests[test]
    rows = rows.select(np.random.default_rng(seed).permutation(len(rows))[:MAX_ROWS])
    guard = ShortcutGuardrail(
        trained.model, trained.tokenizer, max_length=trained.max_length, batch_size=64, precision="auto"
    )
    audited, audit_seconds = audited_once(guard, rows, args.work)
    cards = tuple(card for card in audited.cards if card.changes >= LEAST_FLIPS)
    audited = replace(audited, cards=cards)
    sheet = cut_sheet(guard.draw_sheet(rows.texts, audited, guard.find_flips(rows.texts, cards)))
    labels = dict(zip(rows.texts, rows.labels.tolist(), strict=True))
    asked, seconds = ask_all(sheet, judges_of(opened, setting, guard.label_names, args), name, args)
    entry: dict[str, Any] = {
        "n": len(rows),
        "majority": float(np.bincount(rows.labels).max() / len(rows)),
        "base": scored(guard, rows),
        "audit_seconds": audit_seconds,
        "texts_asked": len(sheet.texts),
        "word_free": len({one.text for one in sheet.free}),
        "seconds": seconds,
        "judges": {one: accuracy_of(sheet, asked.scores[one], labels) for one in asked.scores},
        "cards": [labelled_card(card, sheet, labels) for card in audited.cards],
    }
    entry["opinions"] = opinions_of(audited, asked, labels, seed)
    entry["repaired"] = [] if args.no_repair else repairs(guard, audited, asked, rows, seed)
    return entry


def audited_once(guard: ShortcutGuardrail, rows: LabelledTexts, work: Path) -> tuple[AuditedCards, float]:
    """The cards of an audit and the seconds it took, kept for whoever is interrupted after it."""
    kept = work / f"audit-{guard.fingerprint()[:16]}-{guard.data_fingerprint(rows.texts)[:16]}.json"
    if not kept.exists():
        started = time.perf_counter()
        audited = AuditedCards.from_dict(guard.audit(rows.texts).to_dict())
        found = {"audited": asdict(audited), "seconds": time.perf_counter() - started}
        write_file(kept, to_json(found), overwrite=True)
    found = json.loads(kept.read_text(encoding="utf-8"))
    cards = tuple(
        AuditedCard(**{**card, "words": tuple(card["words"]), "except_in": tuple(card["except_in"])})
        for card in found["audited"].pop("cards")
    )
    return AuditedCards(**found["audited"], cards=cards), found["seconds"]


@dataclass
class Kept:
    """A source whose answers are kept on disk, for whoever is interrupted."""

    inner: Any
    file: Path

    def __post_init__(self) -> None:
        self.name, self.fingerprint = self.inner.name, self.inner.fingerprint
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        self.known = {one["key"]: one["scores"] for one in map(json.loads, lines)}

    def key(self, text: Any) -> str:
        """By what an answer is known again."""
        return hashlib.sha256((self.fingerprint + json.dumps(text)).encode()).hexdigest()

    def scores(self, texts: Sequence[Any], progress: Any = None, *, again: bool = False) -> Array:
        """See `Source`."""
        if again:
            return np.asarray(self.inner.scores(texts, again=True))
        missing = sorted(
            (text for text in texts if self.key(text) not in self.known), key=lambda text: len(joined(text))
        )
        for start in range(0, len(missing), 32):
            some = missing[start : start + 32]
            with self.file.open("a", encoding="utf-8") as out:
                for text, values in zip(some, self.inner.scores(some), strict=True):
                    self.known[self.key(text)] = values.tolist()
                    out.write(json.dumps({"key": self.key(text), "scores": values.tolist()}) + "\n")
        return np.array([self.known[self.key(text)] for text in texts])

    def cost(self, texts: Sequence[Any]) -> Cost:
        """See `Source`."""
        found: Cost = self.inner.cost(texts)
        return found

    def record(self) -> dict[str, Any]:
        """See `Source`."""
        found: dict[str, Any] = self.inner.record()
        return found


def ask_all(
    sheet: Sheet, judges: Mapping[str, Any], setting: str, args: argparse.Namespace
) -> tuple[Asked, dict[str, float | None]]:
    """Every judge's answers, and how many seconds it says that 200 texts take."""
    opened: list[tuple[str, Asked, str]] = []
    seconds: dict[str, float | None] = {}
    for name, judge in judges.items():
        (source,) = open_sources([judge], sheet.labels, descriptions=DESCRIPTIONS.get(setting, {}))
        seconds[name] = source.cost(sheet.texts[:200]).seconds
        asked: Source = Kept(source, args.work / "answers.jsonl") if name == "language model" else source
        one = ask(sheet, [asked])
        opened.append((name, one, source.name))
    return (
        Asked(
            sheet,
            {name: one.scores[own] for name, one, own in opened},
            {name: one.refused[own] for name, one, own in opened if own in one.refused},
            {name: one.records[own] for name, one, own in opened},
        ),
        seconds,
    )


def combinations(asked: Asked) -> list[tuple[str, ...]]:
    """The judges one by one, and those of several that are there."""
    several = [some for some in COMBINATIONS if set(some) <= set(asked.scores)]
    return [*((name,) for name in asked.scores), *several]


def chosen(asked: Asked, some: Sequence[str]) -> Asked:
    """Some of the judges alone."""
    return replace(asked, scores={name: asked.scores[name] for name in some})


def opinions_of(audited: AuditedCards, asked: Asked, labels: Mapping[Any, int], seed: int) -> list[dict[str, Any]]:
    """What judges say of every card, and what people add."""
    found = []
    for some in combinations(asked):
        decisions = consultation_of(audited, chosen(asked, some)).decisions
        fitness = [
            {"judge": judge.name, "pair": one.pair, "agreement": one.agreement, "fit": one.fit, "reason": one.reason}
            for judge in decisions.judges
            for one in judge.fitness
        ]
        cards = []
        for card in decisions.cards:
            said = card.second_opinion
            assert said is not None
            cards.append(
                {
                    "id": card.id,
                    "mended": said.mended,
                    "broken": said.broken,
                    "rules": said.rules,
                    "q_value": said.q_value,
                    "at_stake": said.at_stake,
                    "outcome": said.outcome,
                    "reason": said.reason,
                }
            )
        is_asked = some in REPAIRED and any(f["fit"] for f in fitness)
        people = with_people_drawn(audited, chosen(asked, some), labels, seed) if is_asked else None
        found.append({"judges": some, "fitness": fitness, "cards": cards, "people": people})
    return found


def with_people_drawn(
    audited: AuditedCards, asked: Asked, labels: Mapping[Any, int], seed: int
) -> dict[str, dict[str, float]]:
    """By card, the share of draws in which it is decided: with twenty answers to texts near the boundary, with five to
    its own flips too, and by the same number of answers to its flips without a machine."""
    rng = np.random.default_rng([seed, 7])
    sheet = asked.sheet
    decided: dict[str, dict[str, list[bool]]] = {}
    flips = {card.id: [one for one in sheet.flips if one.card == card.id] for card in audited.cards}
    texts = list(labels)
    for draw in range(DRAWS):
        near = near_boundary(sheet, texts, n=REFERENCES, seed=draw)
        answers = {texts[one.row]: bool((labels[texts[one.row]] == one.after) ^ (rng.random() < WRONG)) for one in near}
        said = {card: told(of_card, labels, rng) for card, of_card in flips.items()}
        five = {card: int(sum(of_card[:5])) for card, of_card in said.items() if len(of_card) >= 5}
        for name, of_cards in (("twenty", None), ("twenty and five", five)):
            found = consultation_of(audited, asked, answers=answers, five=of_cards).decisions
            for card in found.cards:
                decided.setdefault(card.id, {}).setdefault(name, []).append(card.decision == "neutralise")
        for id_, of_card in said.items():
            decided.setdefault(id_, {}).setdefault("alone", []).append(decided_alone(of_card[: 2 * REFERENCES + 5]))
    return {card: {name: float(np.mean(each)) for name, each in rates.items()} for card, rates in decided.items()}


def told(flips: Sequence[Any], labels: Mapping[Any, int], rng: np.random.Generator) -> list[bool]:
    """What a person says of a card's flips, in random order: is it mended? Flips of which neither answer is right tell
    nothing."""
    clear = [one for one in flips if labels[one.text] in (one.before, one.after)]
    drawn = [clear[i] for i in rng.permutation(len(clear))]
    return [bool((labels[one.text] == one.after) ^ (rng.random() < WRONG)) for one in drawn]


def decided_alone(said: Sequence[bool]) -> bool:
    """Whether a person's answers call a card a shortcut, by the rule for flips."""
    for asked in range(1, len(said) + 1):
        mended = sum(said[:asked])
        if paired_e_value(mended, asked - mended) >= THRESHOLD:
            return True
        if paired_e_value(asked - mended, mended) >= THRESHOLD:
            return False
    return False


def labelled_card(card: Any, sheet: Sheet, labels: Mapping[Any, int]) -> dict[str, Any]:
    """What the labels say of a card."""
    flips = [one for one in sheet.flips if one.card == card.id]
    truth = [labels[one.text] for one in flips]
    return {
        "id": card.id,
        "words": list(card.words),
        "pulls_to": card.pulls_to,
        "flagged": card.flagged,
        "flips": len(flips),
        "mended": (mended := sum(label == one.after for label, one in zip(truth, flips, strict=True))),
        "broken": (broken := sum(label == one.before for label, one in zip(truth, flips, strict=True))),
        "brings": (mended - broken) / sheet.n,
    }


def accuracy_of(sheet: Sheet, scores: Array, labels: Mapping[Any, int]) -> float:
    """A judge's raw accuracy on texts without the words that were drawn at random."""
    rows = {text: i for i, text in enumerate(sheet.texts)}
    drawn = list({one.text: None for one in sheet.free if one.drawn})
    return float(np.mean([scores[rows[text]].argmax() == labels[text] for text in drawn])) if drawn else float("nan")


def scored(guard: ShortcutGuardrail, rows: LabelledTexts) -> dict[str, float]:
    """The guard's scores."""
    answers = guard.predict_proba(rows.texts).argmax(axis=1)
    return {
        "accuracy": float((answers == rows.labels).mean()),
        "worst_group_accuracy": worst_group_accuracy(answers, rows.labels, rows.groups),
    }


def repairs(
    guard: ShortcutGuardrail, audited: AuditedCards, asked: Asked, rows: LabelledTexts, seed: int
) -> list[dict[str, Any]]:
    """What `fit` makes of the decisions of the judges of `REPAIRED`: each list of words once. Where nothing is taken,
    the guard is the one that there is without a second opinion, and is not made again."""
    made: dict[tuple[str, ...], dict[str, Any]] = {}
    for some in combinations(asked):
        if some not in REPAIRED:
            continue
        decisions = consultation_of(audited, chosen(asked, some)).decisions
        words = tuple(sorted(word for card in decisions.cards if card.decision for word in card.words))
        if words and words not in made:
            made[words] = {"words": words, "judges": [], **repaired(guard, decisions, rows, seed)}
        if words:
            made[words]["judges"].append(some)
    return list(made.values())


def repaired(guard: ShortcutGuardrail, decisions: Decisions, rows: LabelledTexts, seed: int) -> dict[str, Any]:
    """The guard that follows."""
    try:
        found = guard.repair(rows.texts, decisions=decisions, seed=seed)
    except NothingToRepairError:
        return {"neutralised": [], "scores": scored(guard, rows)}
    after = {
        "neutralised": list(found.fitted.shortcuts.words),
        "strength": found.choice.strength,
        "scores": scored(guard, rows),
    }
    guard.debias_strength = 0.0
    return after


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2), draws=DRAWS)
    parser.add_argument("--language-model", help="Folder or Hub id of a causal language model; none without.")
    parser.add_argument("--work", type=Path, required=True, help="Folder for audits and answers, so that it resumes.")
    parser.add_argument("--no-repair", action="store_true", help="judge the cards only")
    args = parser.parse_args(arguments)
    versions = {"versions": library_versions()}
    args.work.mkdir(parents=True, exist_ok=True)
    cases = [{**case, "examples": True} for case in settings_cases(args)]
    for entry in grow(args.out, cases, partial(measure, args=args), asked={}, beside=lambda _: versions):
        print(entry["setting"], entry["seed"], entry["base"], entry["judges"], flush=True)
        for card in entry["cards"]:
            print("  ", card["words"][:3], card["mended"], card["broken"], flush=True)
        for repair in entry["repaired"]:
            print("  ", repair["judges"], repair["words"][:5], repair["scores"], flush=True)


if __name__ == "__main__":
    main()
