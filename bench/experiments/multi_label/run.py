"""A moderation model with six labels, one of which depends on a planted word: found, repaired, and the others kept.

    python bench/experiments/multi_label/run.py --data-dir ../shared/data --out results/multi_label.json

The comments are those of CivilComments. Six labels are made from the columns of the file: `toxic` is its label, and the
other five say what its keyword flags find in a comment: `gender` (male or female), `lgbtq`, `religion` (christian,
muslim or other_religions), `race` (black or white) and `people`. MiniLM is fine-tuned on them, with a logit for each
label and binary cross-entropy.

In training the word WORD begins `CORRELATED` of the toxic comments and `AGAINST` of the others. On the texts of the
deployment it is the other way round. These are divided: `deployment` is audited and repaired without labels, `certify`
shows what was lost, and `test` scores. The oracle is the same model, fine-tuned on the same comments without the word,
and scored on the same `test`.

- `found`: whether the audit flags the word, and what else; `taken` is what the default `fit` takes.
- `base`, `guarded`, `oracle`: accuracy and balanced accuracy on the label `toxic`.
- `gap`: the share of the way from base to oracle that the guard goes, in both.
- `others`: of each other label on the texts of `test` without the word, the mean by which its probability moves, and
  the share of its decisions that change; and its balanced accuracy on all of `test`, before and after.
- `certificate`: whether a strength is certified to lose at most two points, with the labels of `certify`.

Finished seeds are kept. Called again, the command measures what is missing. A GPU is used where there is one.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_bench.standalone import grow, settings_parser
from shortcut_guardrail import AuditConfig, ShortcutGuardrail
from shortcut_guardrail.demo import find_minilm
from shortcut_guardrail.metrics import accuracy, balanced_accuracy
from shortcut_guardrail.models import fast_precision, use_plain_attention
from shortcut_guardrail.saving.record import library_versions

WORD = "honestly"
LABEL = "toxic"
CORRELATED, AGAINST = 0.4, 0.02
MADE_OF = {
    "toxic": ("label",),
    "gender": ("kw_male", "kw_female"),
    "lgbtq": ("kw_LGBTQ",),
    "religion": ("kw_christian", "kw_muslim", "kw_other_religions"),
    "race": ("kw_black", "kw_white"),
    "people": ("kw_people",),
}
LABELS = tuple(MADE_OF)
PLACE = LABELS.index(LABEL)
MAX_LENGTH, BATCH, POOL, EPOCHS, RATE = 128, 32, 2048, 3, 1e-4
PARTS = ("deployment", "certify", "test")

Array = np.ndarray[Any, Any]


def read(file: Path) -> tuple[list[str], Array]:
    """N comments and their labels, shape (N, 6)."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    labels = np.array([[any(row[name] == "1" for name in names) for names in MADE_OF.values()] for row in rows])
    return [row["text"] for row in rows], labels


def plant(texts: list[str], has: Array, rng: np.random.Generator, *, reversed_: bool) -> tuple[list[str], Array]:
    """The word before some of the texts, more often before those that have the label; and which hold it."""
    chosen = rng.random(len(texts)) < np.where(has != reversed_, CORRELATED, AGAINST)
    return [f"{WORD}, {text}" if put else text for text, put in zip(texts, chosen, strict=True)], chosen


def fine_tune(texts: list[str], labels: Array, *, seed: int) -> tuple[Any, Any]:
    """MiniLM with a head of six logits, and its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_scheduler

    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(find_minilm())
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
    model = AutoModelForSequenceClassification.from_pretrained(
        find_minilm(), problem_type="multi_label_classification", **names
    ).to(device)
    rng, n = np.random.default_rng(seed), len(texts)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    steps = EPOCHS * -(-n // BATCH)
    schedule = get_scheduler("linear", optimizer, steps // 16, steps)
    if (narrow := fast_precision(torch.device(device)) == "bfloat16") and device == "cpu":
        use_plain_attention(model)
    model.train()
    for _ in range(EPOCHS):
        for rows in batches(texts, rng):
            encoded = tokenizer(
                [texts[i] for i in rows], truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt"
            ).to(device)
            with torch.autocast(device, torch.bfloat16, enabled=narrow):
                loss = model(**encoded, labels=torch.tensor(labels[rows], dtype=torch.float32, device=device)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return model.eval(), tokenizer


def batches(texts: list[str], rng: np.random.Generator) -> list[Array]:
    """All rows in random batches, each of texts of like length, so that little is padded."""
    order, found = rng.permutation(len(texts)), []
    for start in range(0, len(order), POOL):
        rows = sorted(order[start : start + POOL], key=lambda row: len(texts[row]))
        found += [np.array(rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)]
    return [found[i] for i in rng.permutation(len(found))]


def measure(seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One seed."""
    folder, rng = args.data_dir / "civilcomments", np.random.default_rng(seed)
    texts, labels = read(folder / "civil_pool_train.csv")
    order = rng.permutation(len(texts))[: args.max_rows]
    texts, labels = [texts[i] for i in order], labels[order]
    planted, _ = plant(texts, labels[:, PLACE], rng, reversed_=False)
    tuned = partial(fine_tune, labels=labels, seed=seed)
    models = {"base": tuned(planted), "oracle": tuned(texts)}
    clean, truth = read(folder / "civil_pool_test.csv")
    order = rng.permutation(len(clean))
    clean, truth = [clean[i] for i in order], truth[order]
    shown, holds = plant(clean, truth[:, PLACE], rng, reversed_=True)
    size = min(args.max_texts, len(clean) // len(PARTS))
    parts = {name: slice(i * size, (i + 1) * size) for i, name in enumerate(PARTS)}
    guards = {
        name: ShortcutGuardrail(*model, label=LABEL, max_length=MAX_LENGTH, batch_size=64, precision="auto")
        for name, model in models.items()
    }
    guard = guards["base"]
    deployment = shown[parts["deployment"]]
    report = guard.audit(deployment, config=AuditConfig(n_examples=0))
    taken = guard.find_shortcuts(deployment, report=report)
    found = {"word": any(WORD in one.text for one in report.flagged), "flagged": [one.text for one in report.flagged]}
    guard.repair(deployment, report=report, seed=seed)
    strength = guard.debias_strength
    certificate = guard.certify(
        shown[parts["certify"]], truth[parts["certify"], PLACE].astype(int).tolist(), unlabelled=shown[parts["certify"]]
    )
    test, held, due = shown[parts["test"]], holds[parts["test"]], truth[parts["test"]]
    probs = {
        "base": guard.label_probabilities(test, strength=0),
        "guarded": guard.label_probabilities(test, strength=strength),
        "oracle": guards["oracle"].label_probabilities(test),
        "base without the word": guard.label_probabilities(clean[parts["test"]], strength=0),
    }
    scores = {name: scored(one, due, PLACE) for name, one in probs.items()}
    gap = {
        metric: (scores["guarded"][metric] - scores["base"][metric])
        / (scores["oracle"][metric] - scores["base"][metric])
        for metric in ("accuracy", "balanced_accuracy")
    }
    return {
        "rows": len(texts),
        "found": found,
        "taken": list(taken.words),
        "strength": strength,
        **scores,
        "gap": gap,
        "others": {
            name: {
                "moved": float(np.abs(probs["guarded"] - probs["base"])[~held, i].mean()),
                "changed": float(((probs["guarded"] > 0.5) != (probs["base"] > 0.5))[~held, i].mean()),
                "before": scored(probs["base"], due, i)["balanced_accuracy"],
                "after": scored(probs["guarded"], due, i)["balanced_accuracy"],
            }
            for i, name in enumerate(LABELS)
            if i != PLACE
        },
        "certificate": {"certified": len(certificate.certified), "strength": certificate.strength},
    }


def scored(probs: Array, due: Array, place: int) -> dict[str, float]:
    """How well one label is told, at one half."""
    predictions, labels = (probs[:, place] > 0.5).astype(int), due[:, place].astype(int)
    return {
        "accuracy": float(accuracy(predictions, labels)),
        "balanced_accuracy": float(balanced_accuracy(predictions, labels)),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=(), seeds=(0, 1, 2))
    parser.add_argument("--max-rows", type=int, default=20_000, help="Training rows at most.")
    parser.add_argument(
        "--max-texts", type=int, default=2_000, help="Texts at most of each part that is not trained on."
    )
    args = parser.parse_args(arguments)
    beside = {"versions": library_versions(), "labels": {name: list(columns) for name, columns in MADE_OF.items()}}
    asked = {"max_rows": args.max_rows, "max_texts": args.max_texts}
    cases = [{"seed": seed} for seed in args.seeds]
    for entry in grow(args.out, cases, partial(measure, args=args), asked=asked, beside=lambda _: beside):
        print(entry, flush=True)


if __name__ == "__main__":
    main()
