"""How often an audit is right: planted shortcuts found, false alarms on clean models, the null hypothesis simulated.

    python scripts/audit_rates.py simulate --out results/audit/simulation.json
    python scripts/audit_rates.py model --model MODEL --texts TEST.csv --planted honestly --out results/audit/NAME.json
    python scripts/audit_rates.py clean --train original_train.csv --texts original_test.csv --seed 0 --out ...

`simulate` makes texts whose words' effects are known and needs no model: how often is anything flagged where the null
hypothesis holds, at its boundary and within it, and how often is a planted shortcut found? `model` audits a classifier
whose planted shortcut is known: its rank, and which of the flagged candidates are it. `clean` fine-tunes a classifier
on texts without a planted shortcut first: all that is flagged then is a false alarm, or a shortcut of nature's own.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.files import to_json, write_file
from shortcut_guardrail.metrics import exact_interval
from shortcut_guardrail.override import judge, tally
from shortcut_guardrail.record import library_versions
from shortcut_guardrail.shards import Shard

GOEMOTIONS = ("neutral", "amusement", "joy", "excitement")
MAX_LENGTH = 128
SHOWN = 20


# Simulated texts


def simulated_shard(
    rng: np.random.Generator,
    *,
    n_texts: int,
    priors: np.ndarray,
    rates: np.ndarray,
    targets: np.ndarray,
    pulls: np.ndarray,
    tilts: np.ndarray,
    fickle: bool = False,
) -> Shard:
    """Texts whose rest is given a class drawn from `priors`, and M words that override it.

    Word w stands in a text with probability `rates[w]`, times `tilts[w]` if the rest is of class `targets[w]`: a tilt
    of 1 strews it at random, which is the boundary of the null hypothesis; above 1 its context goes along with it;
    below 1 the rest speaks against it. Where it stands it makes the answer `targets[w]` with probability `pulls[w]`;
    the first such word in a random order decides, and with that one masked the second. Fickle words make it any class.
    """
    n_classes, n_words = len(priors), len(rates)
    rest = rng.choice(n_classes, size=n_texts, p=priors)
    chance = np.where(rest[:, None] == targets, np.minimum(1, rates * tilts), rates)
    holds = rng.random((n_texts, n_words)) < chance
    active = holds & (rng.random((n_texts, n_words)) < pulls)
    order = np.where(active, rng.random(n_words), np.inf)  # the active word that comes first decides
    first = np.where(active.any(axis=1), order.argmin(axis=1), -1)
    order[np.arange(n_texts), first] = np.inf
    second = np.where(active.sum(axis=1) > 1, order.argmin(axis=1), -1)
    drawn = (
        rng.choice(n_classes, size=(n_texts, n_words), p=priors) if fickle else np.broadcast_to(targets, holds.shape)
    )
    every = np.arange(n_texts)
    answers = np.where(first >= 0, drawn[every, first], rest)
    texts, keys = holds.nonzero()
    next_answers = np.where(second >= 0, drawn[every, second], rest)
    without = np.where(first[texts] == keys, next_answers[texts], answers[texts])
    size = len(texts)
    return Shard(
        rows=np.arange(n_texts),
        weights=np.ones(n_texts, dtype=np.int64),
        evidence=np.ones(n_texts, dtype=bool),
        labels=np.full(n_texts, -1),
        probs=_confident(answers, n_classes),
        truncated=np.zeros(n_texts, dtype=bool),
        sensitivity=np.zeros(n_texts),
        agreement=np.full(n_texts, np.nan),
        top_agrees=np.zeros(n_texts, dtype=bool),
        names=tuple(f"word{i}" for i in range(n_words)),
        n_words=np.ones(n_words, dtype=np.int16),
        texts=texts.astype(np.int32),
        keys=keys.astype(np.int32),
        ranks=np.zeros(size, dtype=np.int16),
        scores=np.ones(size, dtype=np.float32),
        spans=np.zeros((size, 3), dtype=np.int32),
        masked=np.arange(size, dtype=np.int32),
        masked_probs=_confident(without, n_classes),
        interaction=np.full(size, np.nan, dtype=np.float32),
        joint=np.full(size, np.nan, dtype=np.float32),
        phrases=(),
    )


def _confident(classes: np.ndarray, n_classes: int) -> np.ndarray:
    probs = np.full((len(classes), n_classes), 0.1 / (n_classes - 1), dtype=np.float32)
    probs[np.arange(len(classes)), classes] = 0.9
    return probs


def simulated_trial(rng: np.random.Generator, world: str, n_texts: int) -> tuple[int, bool]:
    """How many innocent words are flagged, and whether the planted one is, in one corpus of 60 words.

    A third of the words decide most texts that they stand in, as "lol" does, the others few.
    """
    n_words, priors = 60, np.array([0.5, 0.2, 0.2, 0.1])
    rates = rng.choice([0.01, 0.02, 0.05], size=n_words)
    targets = rng.integers(0, len(priors), size=n_words)
    pulls = np.where(rng.random(n_words) < 1 / 3, 0.9, 0.05)
    tilts = np.full(n_words, 1.0 if world in ("boundary", "fickle") else 3.0)
    if world == "planted":
        rates[0], targets[0], pulls[0], tilts[0] = 0.3, 3, 0.9, 0.0
    shard = simulated_shard(rng, n_texts=n_texts, priors=priors, rates=rates, targets=targets, pulls=pulls, tilts=tilts)
    config = AuditConfig()
    sums = tally(lambda: [shard], config)
    flagged = {sums.names[i] for i in judge(lambda: [shard], sums, config).flagged}
    planted = world == "planted" and "word0" in flagged
    return len(flagged) - planted, planted


def simulate(trials: int, seed: int) -> dict[str, Any]:
    """False alarms among words strewn at random, fickle ones, words that fit their context, beside a planted one."""
    rows = []
    for world in ("boundary", "fickle", "genuine", "planted"):
        for n_texts in (300, 1000, 5000):
            rng = np.random.default_rng([seed, n_texts, *world.encode()])
            found = [simulated_trial(rng, world, n_texts) for _ in range(trials)]
            alarms = sum(wrong > 0 for wrong, _ in found)
            shares = [wrong / max(1, wrong + planted) for wrong, planted in found]
            rows.append(
                {
                    "world": world,
                    "n_texts": n_texts,
                    "corpora": trials,
                    "corpora_with_a_false_alarm": alarms / trials,
                    "interval": list(exact_interval(alarms, trials)),
                    "false_discovery_rate": float(np.mean(shares)),
                    "planted_found": float(np.mean([hit for _, hit in found])) if world == "planted" else None,
                }
            )
    return {"alpha": AuditConfig().alpha, "seed": seed, "worlds": rows}


# Real models


def audit_model(model: Any, tokenizer: Any, texts: Path, unit: str, planted: list[str], sample: int) -> dict[str, Any]:
    from shortcut_guardrail import ShortcutGuardrail
    from shortcut_guardrail.data import read_data

    data = read_data(texts, require_labels=True)
    guard = ShortcutGuardrail(model, tokenizer, max_length=MAX_LENGTH, batch_size=64, precision="auto")
    started = time.perf_counter()
    labels = np.array([int(label) for label in data.labels or ()])
    labels -= labels.min()
    chosen = np.sort(np.random.default_rng(0).permutation(len(labels))[: sample or None])
    report = guard.audit([data.texts[i] for i in chosen], labels=labels[chosen].tolist(), config=AuditConfig(unit=unit))
    ranked = [candidate.text for candidate in report.candidates]
    flagged = [candidate.text for candidate in report.flagged]
    right = [text for text in flagged if is_planted(text, planted)]
    found = {word for word in planted if any(is_planted(text, [word]) for text in flagged)}
    return {
        "unit": unit,
        "n": report.n,
        "n_distinct": report.n_distinct,
        "mstps": report.mstps,
        "predicted": dict(zip(report.label_names, report.predicted, strict=True)),
        "n_candidates": report.n_candidates,
        "n_tested": report.n_tested,
        "agreement": {"mean": report.agreement.mean, "top_agrees": report.agreement.top_agrees},
        "planted": planted,
        "planted_rank": next((i for i, text in enumerate(ranked, start=1) if is_planted(text, planted)), None),
        "flagged": flagged,
        "precision": len(right) / len(flagged) if flagged else None,
        "recall": len(found) / len(planted) if planted else None,
        "false_alarms": [text for text in flagged if text not in right],
        "candidates": [_row(candidate) for candidate in report.candidates[:SHOWN]],
        "seconds": round(time.perf_counter() - started, 1),
        "versions": library_versions(),
    }


def is_planted(text: str, planted: list[str]) -> bool:
    """Whether a candidate is a planted word or phrase, or words of one that are not function words alone."""
    from shortcut_guardrail.groups import ShortcutMatcher, content_spans
    from shortcut_guardrail.units import unit_key

    for shortcut in planted:
        match = ShortcutMatcher.from_words([shortcut]).find(shortcut)[0]
        content = {unit_key(shortcut[start:end]) for start, end in content_spans(shortcut, match)}
        words = unit_key(shortcut).split()
        if set(text.split()) <= set(words) and set(text.split()) & content:
            return True
    return False


def _row(candidate: Any) -> dict[str, Any]:
    names = ("text", "unit", "count", "flip_rate", "mean_change", "pulls_to", "contradiction_rate", "n_present")
    row = {
        name: getattr(candidate, name)
        for name in (*names, "opposed_rate", "expected_rate", "opposition", "q_value", "status")
    }
    labelled = candidate.labelled
    accuracies = {"accuracy": labelled.accuracy, "accuracy_masked": labelled.accuracy_masked} if labelled else {}
    return {name: _defined(value) for name, value in (row | accuracies).items()}


def _defined(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def clean_model(train: Path, seed: int, rows: int, folder: Path | None) -> tuple[Any, Any]:
    """A classifier fine-tuned on texts as they are; kept in `folder`, and read from there the next time."""
    from shortcut_guardrail.data import read_data
    from shortcut_guardrail.demo.pretrained import find_minilm
    from shortcut_guardrail.encoder import load_model
    from shortcut_guardrail.finetune import FinetuneConfig, finetune_classifier

    if folder is not None and (folder / "config.json").exists():
        return load_model(folder)
    data = read_data(train, require_labels=True)
    labels = np.array([int(label) for label in data.labels or ()])
    labels -= labels.min()
    names = GOEMOTIONS if labels.max() == 3 else tuple(str(i) for i in range(int(labels.max()) + 1))
    chosen = np.random.default_rng(seed).permutation(len(data.texts))[: rows or None]
    result = finetune_classifier(
        [data.texts[i] for i in chosen],
        [int(labels[i]) for i in chosen],
        encoder=find_minilm(),
        label_names=names,
        config=FinetuneConfig(max_length=MAX_LENGTH, precision="auto"),
        seed=seed,
    )
    if folder is not None:
        result.model.save_pretrained(folder)
        result.tokenizer.save_pretrained(folder)
    return result.model, result.tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    simulation = commands.add_parser("simulate")
    simulation.add_argument("--trials", type=int, default=400)
    model = commands.add_parser("model")
    model.add_argument("--model", type=Path, required=True)
    clean = commands.add_parser("clean")
    clean.add_argument("--train", type=Path, required=True)
    clean.add_argument("--rows", type=int, default=0, help="training rows, 0 for all")
    clean.add_argument("--folder", type=Path, help="where the classifier is kept")
    for command in (model, clean):
        command.add_argument("--texts", type=Path, required=True)
        command.add_argument("--sample", type=int, default=0, help="texts drawn at random, 0 for all")
        command.add_argument("--planted", nargs="*", default=[])
        command.add_argument("--unit", nargs="+", choices=("token", "word", "phrase"), default=["word"])
    for command in (simulation, model, clean):
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.command == "simulate":
        write_file(args.out, to_json(simulate(args.trials, args.seed)), overwrite=True)
        return
    from shortcut_guardrail.encoder import load_model

    if args.command == "model":
        loaded, trained_on = load_model(args.model), None
    else:
        loaded, trained_on = clean_model(args.train, args.seed, args.rows, args.folder), "/".join(args.train.parts[-2:])
    audits = [audit_model(*loaded, args.texts, unit, args.planted, args.sample) for unit in args.unit]
    result = {"texts": "/".join(args.texts.parts[-2:]), "trained_on": trained_on, "seed": args.seed, "audits": audits}
    write_file(args.out, to_json(result), overwrite=True)


if __name__ == "__main__":
    main()
