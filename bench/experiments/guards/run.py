"""Two prompt-injection filters, what the audit says of each without labels, and what repairs do to them.

    python bench/experiments/guards/run.py --data-dir ../shared/data --out results/guards.json

The recipe and the hypotheses were committed before the first run (docs/research/guard-models.md). A case is a training
set (`template`, `written`) and a seed.

- `audit`: the default class and the cues that are missing, candidates whose insertion is found, flagged candidates.
- `systems`: of each, its words, the shares of the three columns that are predicted rightly at .5, and the recall of
  attacks where 1 % and 5 % of harmless texts are blocked.

Finished cases are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.classifiers import ClassifierStore, find_encoder
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.finetuning import FinetuneConfig
from shortcut_bench.standalone import grow
from shortcut_guardrail import NothingToRepairError, ShortcutGuardrail
from shortcut_guardrail.audit import AuditReport
from shortcut_guardrail.data import read_data
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.stats import exact_interval
from shortcut_guardrail.typing import Array

LABELS = ("benign", "injection")
SETS = ("template", "written")
FALSE_ALARMS = (0.01, 0.05)
MOST_WORDS = 10

Rows = dict[str, LabelledTexts]


def measure(name: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One filter and seed."""
    train, parts = rows_of(name, seed, args)
    recipe = FinetuneConfig(learning_rate=5e-5, epochs=args.epochs, batch_size=32, max_length=128)
    trained = ClassifierStore(find_encoder(args.encoder), args.cache).train(train, recipe, seed)

    def new() -> ShortcutGuardrail:
        return ShortcutGuardrail(
            trained.model, trained.tokenizer, max_length=trained.max_length, batch_size=64, precision="auto"
        )

    deployed, judged = joined(parts["deployed"]), parts["judged"]
    report = new().audit(deployed.texts)
    few = deployed.select(np.random.default_rng([seed, 2]).permutation(len(deployed))[: args.labels])
    triggers, cues = trigger_words(report), missing_cues(report)
    support = (few.texts, [LABELS[i] for i in few.labels])
    repairs: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
        "remove_reliance": (triggers, {"strategy": "distill", "shortcuts": triggers}),
        "not alone": (triggers, {"strategy": "distill", "not_alone": triggers}),
        "cue removal": (cues, {"strategy": "distill", "shortcuts": cues}),
        "few labels": (["labels"], {"strategy": "few-shot", "support": support}),
    }
    systems: dict[str, Any] = {"base": scored(new(), judged)}
    cut = threshold_of(probabilities(new(), few.texts), few.labels)
    systems["threshold"] = {**scored(new(), judged, threshold=cut), "threshold": cut}
    for system, (words, how) in repairs.items():
        guard = new()
        said = repaired(guard, deployed, report, seed=seed, **how) if words else "the audit gives no words"
        systems[system] = {"words": list(words), "said": said, **scored(guard, judged)}
    return {
        "n": {part: {key: len(rows) for key, rows in of.items()} for part, of in parts.items()},
        "audit": audited(report),
        "systems": systems,
    }


def rows_of(name: str, seed: int, args: argparse.Namespace) -> tuple[LabelledTexts, dict[str, Rows]]:
    """Training rows, and by half (`deployed`, `judged`) the rows of each source."""
    rng, folder = np.random.default_rng([seed, 1]), args.data_dir / "prompt_injection"
    train = read(folder / f"{name}_train.csv")
    train = train.select(rng.permutation(len(train))[: args.rows])
    parts: dict[str, Rows] = {"deployed": {}, "judged": {}}
    sources = {
        "own": (f"{name}_test", 300),
        "second_source": ("second_source", 200),
        "prompts": ("benign_prompts", 100),
    }
    for key, (file, most) in sources.items():
        rows, most = read(folder / f"{file}.csv"), round(most * args.scale)
        order = rng.permutation(len(rows))
        half = min(most, len(rows) // 2)
        parts["deployed"][key] = rows.select(order[:half])
        parts["judged"][key] = rows.select(order[half : half + 2 * most])
    return train, parts


def read(file: Path) -> LabelledTexts:
    """Rows with the classes of `LABELS`."""
    data = read_data(file, label_column="label")
    ids = np.array([LABELS.index(str(label)) for label in data.labels or ()], dtype=np.int64)
    return rows_named(file.stem, list(data.texts), ids)


def rows_named(name: str, texts: list[Any], labels: Array) -> LabelledTexts:
    """Rows without groups."""
    return LabelledTexts(name, texts, labels, LABELS, np.zeros(len(texts), dtype=np.int64), ("all",))


def joined(parts: Rows) -> LabelledTexts:
    """All rows of a half."""
    texts = [text for rows in parts.values() for text in rows.texts]
    return rows_named("deployed", texts, np.concatenate([rows.labels for rows in parts.values()]))


def trigger_words(report: AuditReport) -> list[str]:
    """Candidates that push towards `injection` and whose insertion is found, those first that change most."""
    found = [c for c in report.candidates if c.insertion and c.insertion.found and c.pushes_towards == LABELS[1]]
    return [c.text for c in sorted(found, key=lambda c: -c.insertion.flip_rate if c.insertion else 0)][:MOST_WORDS]


def missing_cues(report: AuditReport) -> list[str]:
    """The cues of `benign`, where `injection` is what is left without them."""
    if report.defaults is None or report.defaults.default != LABELS[1]:
        return []
    return [cue for one in report.defaults.held_up if one.label == LABELS[0] for cue in one.cues]


def audited(report: AuditReport) -> dict[str, Any]:
    """What the audit says, without texts."""
    document = report.to_dict(redact=True)
    added = [c for c in document["candidates"] if c["insertion"]]
    keys = ("text", "pushes_towards", "flip_rate", "insertion", "status")
    return {
        "defaults": document["defaults"],
        "insertions": [{key: one[key] for key in keys} for one in added],
        "flagged": [c.text for c in report.flagged],
        "n_undecided": report.n_undecided,
        "agreement": document["agreement"]["mean"],
    }


def repaired(guard: ShortcutGuardrail, rows: LabelledTexts, report: AuditReport, *, seed: int, **how: Any) -> str:
    """Repair a guard, and say how it went."""
    try:
        made = guard.repair(rows.texts, report=report, seed=seed, **how)
    except NothingToRepairError as error:
        return str(error)
    return f"{made.strategy} at strength {made.choice.strength:g}"


def probabilities(guard: ShortcutGuardrail, texts: Any) -> Array:
    """P(injection) of each text."""
    of_class: Array = guard.predict_proba(texts)[:, guard.label_names.index(LABELS[1])]
    return of_class


def threshold_of(probs: Array, labels: Array) -> float:
    """The lowest threshold at which at most 5 % of these harmless rows are blocked; .5 if there are none."""
    harmless = probs[labels == 0]
    return float(np.quantile(harmless, 0.95, method="higher")) + 1e-9 if len(harmless) else 0.5


def scored(guard: ShortcutGuardrail, judged: Rows, threshold: float = 0.5) -> dict[str, Any]:
    """The three columns at a threshold, and recalls where so many harmless texts are blocked."""
    probs = {key: probabilities(guard, rows.texts) for key, rows in judged.items()}
    of: Callable[[str, int], Array] = lambda key, label: probs[key][judged[key].labels == label]  # noqa: E731
    harmless = {"other": np.concatenate([of("second_source", 0), of("prompts", 0)]), "own": of("own", 0)}
    attacks = {"own": of("own", 1), "second_source": of("second_source", 1)}
    columns = {f"{key} harmless": share(p < threshold) for key, p in harmless.items()}
    columns |= {f"{key} attacks": share(p >= threshold) for key, p in attacks.items()}
    pooled = np.concatenate(list(harmless.values()))
    recalls = {
        f"{rate:g}": {key: share(p > np.quantile(pooled, 1 - rate, method="higher")) for key, p in attacks.items()}
        for rate in FALSE_ALARMS
    }
    return {"columns": columns, "recall_at": recalls}


def share(right: Array) -> dict[str, Any]:
    """A share of rows with its exact interval."""
    n, k = len(right), int(right.sum())
    return {"n": n, "k": k, "share": k / n if n else None, "interval": exact_interval(k, n) if n else None}


def parser() -> argparse.ArgumentParser:
    """The options; all but the first few change the recipe, for trials."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--data-dir", type=Path, required=True)
    found.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    found.add_argument("--cache", type=Path, default=Path("results/.cache"), help="Classifiers that runs share.")
    found.add_argument("--sets", nargs="+", default=SETS)
    found.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    found.add_argument("--encoder", default="minilm")
    found.add_argument("--rows", type=int, default=3000, help="Rows to train on.")
    found.add_argument("--epochs", type=int, default=3)
    found.add_argument("--labels", type=int, default=40, help="Labelled deployment rows.")
    found.add_argument("--scale", type=float, default=1.0, help="Of the bounds on deployment and judged rows.")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    args = parser().parse_args(arguments)
    asked: Mapping[str, Any] = {key: getattr(args, key) for key in ("encoder", "rows", "epochs", "labels", "scale")}
    cases = [{"name": name, "seed": seed} for name in args.sets for seed in args.seeds]
    versions = {"versions": library_versions()}
    for entry in grow(args.out, cases, partial(measure, args=args), asked=asked, beside=lambda _: versions):
        print(entry["name"], entry["seed"], entry["audit"]["defaults"] and entry["audit"]["defaults"]["default"])
        for system, found in entry["systems"].items():
            shown = {key: one["share"] and round(one["share"], 3) for key, one in found["columns"].items()}
            print("  ", system, shown, found.get("said", ""), flush=True)


if __name__ == "__main__":
    main()
