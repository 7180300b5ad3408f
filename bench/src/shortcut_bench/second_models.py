"""Second models that judge cards, for experiments, and what is asked of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.cards import Card
from shortcut_guardrail.classifiers import open_classifiers
from shortcut_guardrail.data import to_json, write_file
from shortcut_guardrail.decisions import Answers, AuditedCards, Questions
from shortcut_guardrail.metrics import worst_group_accuracy

from .classifiers import find_encoder
from .datasets import LabelledTexts
from .methods.last_resort import joined, vectorizer

Array = np.ndarray[Any, Any]
Predict = Callable[[Sequence[Any]], Array]
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
        some = [joined(one) for one in texts[start : start + 64]]
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
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(vectorizer(), LogisticRegression(C=4.0, max_iter=1000))
    model.fit([joined(text) for text in texts], labels)
    return lambda asked: np.asarray(model.predict_proba([joined(text) for text in asked]))


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


def language_model(
    name: str,
    model: str,
    work: Path,
    *,
    prompt: str | None = PROMPT,
    examples: Sequence[tuple[str, ...]] | None = None,
) -> Path:
    """The TOML file of a language model for a data set, by default with examples of ours; `None` is our prompts."""
    lines = ['kind = "causal"', f"model = {json.dumps(model)}"]
    lines += [] if prompt is None else [f"prompts = [{json.dumps(prompt)}]"]
    for label, *texts in EXAMPLES[name] if examples is None else examples:
        lines += ["[[examples]]", f"label = {json.dumps(label)}"]
        lines += [f"{key} = {json.dumps(text)}" for key, text in zip(("text", "text_pair"), texts, strict=False)]
    file = work / f"{name}.toml"
    write_file(file, "\n".join(lines) + "\n", overwrite=True)
    return file


def audited_once(guard: ShortcutGuardrail, rows: LabelledTexts, work: Path) -> tuple[AuditedCards, float]:
    """The cards of an audit and the seconds it took, kept for whoever is interrupted after it."""
    kept = work / f"audit-{guard.fingerprint()[:16]}-{guard.data_fingerprint(rows.texts)[:16]}.json"
    if not kept.exists():
        started = time.perf_counter()
        report = guard.audit(rows.texts, unit="word").to_dict()
        write_file(kept, to_json({"report": report, "seconds": time.perf_counter() - started}), overwrite=True)
    found = json.loads(kept.read_text(encoding="utf-8"))
    return AuditedCards.from_dict(found["report"]), found["seconds"]


def ask_all(questions: Questions, judges: Mapping[str, Any], work: Path) -> tuple[Answers, dict[str, float | None]]:
    """Every judge's answers, and how many seconds it says that 200 texts take."""
    asked, found = questions.for_judges, Answers(texts=questions.for_judges.texts)
    seconds: dict[str, float | None] = {}
    for name, judge in judges.items():
        (opened,) = open_classifiers([judge], asked.labels, cache=work / "answers")
        seconds[name] = opened.cost(asked.texts[:200]).seconds
        own = questions.answered_by(opened).judges[opened.name]
        found = replace(found, judges={**found.judges, name: own})
    return found, seconds


def chosen(answers: Answers, some: Sequence[str]) -> Answers:
    """Those of some of the judges alone."""
    return replace(answers, judges={name: answers.judges[name] for name in some})


def labelled_card(card: Card, questions: Questions, labels: Mapping[Any, str]) -> dict[str, Any]:
    """What the labels say of a card."""
    flips = [case.flip for case in questions.for_judges.cases if case.card == card.id]
    truth = [labels[flip.content] for flip in flips]
    return {
        "id": card.id,
        "words": list(card.words),
        "pushes_towards": card.pushes_towards,
        "flagged": card.flagged,
        "flips": len(flips),
        "fixed": (fixed := sum(label == flip.after for label, flip in zip(truth, flips, strict=True))),
        "broken": (broken := sum(label == flip.before for label, flip in zip(truth, flips, strict=True))),
        "brings": (fixed - broken) / questions.audited.n,
    }


def accuracy_of(questions: Questions, log_probs: Array, labels: Mapping[Any, str]) -> float:
    """A judge's raw accuracy on reference texts that were drawn at random."""
    asked = questions.for_judges
    rows = {text: i for i, text in enumerate(asked.texts)}
    drawn = list({one.text: None for one in asked.reference if one.drawn})
    right = [asked.labels[log_probs[rows[text]].argmax()] == labels[text] for text in drawn]
    return float(np.mean(right)) if drawn else float("nan")


def scored(guard: ShortcutGuardrail, rows: LabelledTexts) -> dict[str, float]:
    """The guard's scores."""
    answers = guard.predict_proba(rows.texts).argmax(axis=1)
    return {
        "accuracy": float((answers == rows.labels).mean()),
        "worst_group_accuracy": worst_group_accuracy(answers, rows.labels, rows.groups),
    }
