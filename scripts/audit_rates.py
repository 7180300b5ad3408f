"""How often an audit is right: planted shortcuts found, false alarms on clean models, the null hypothesis simulated.

    python scripts/audit_rates.py simulate --out results/audit/simulation.json
    python scripts/audit_rates.py setting shifted GoEmo-ST --data-dir DATA --out results/audit/goemo-st.json
    python scripts/audit_rates.py setting shifted GoEmo-ST --clean --data-dir DATA --out results/audit/goemo-clean.json

`simulate` makes texts whose words' effects are known and needs no model: how often is anything flagged where the null
hypothesis holds, at its boundary and within it, and how often is a planted shortcut found? `setting` audits the base
classifiers of a setting of the benchmark, fine-tuned as there, on its reversed test texts: the rank of the planted
shortcut, and which of the flagged candidates are it. With `--clean` they are fine-tuned and audited on the texts
without the insertion: all that is flagged then is a false alarm, or a shortcut of nature's own. Finished seeds are
kept, so that a run that was cut short goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from resuming import ASKED, finished

from shortcut_guardrail.audit.context_test import judge, tally
from shortcut_guardrail.audit.measurements import Shard
from shortcut_guardrail.audit.sets import with_group
from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.data.files import to_json, write_file
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.stats.exact import exact_interval

if TYPE_CHECKING:
    from shortcut_bench.datasets import LabelledTexts

SHOWN = 20


# Simulated texts


@dataclass(frozen=True)
class Words:
    """M words that override the rest of their texts.

    Word w stands in a text with probability `rates[w]`, times `tilts[w]` if the text is of class `targets[w]`: a tilt
    of 1 strews it at random, which is the boundary of the null hypothesis; above 1 its context goes along with it;
    below 1 the rest speaks against it. Where it stands it makes the answer `targets[w]` with probability `pulls[w]`;
    the first such word in a random order decides, and with that one masked the second. Fickle words make it any class.
    The first few words may take turns: of several in a text one is kept.

    Attributes:
        rates: Shape (M,).
        targets: Shape (M,).
        pulls: Shape (M,).
        tilts: Shape (M,).
        fickle: See above.
        turns: How many words take turns.
    """

    rates: np.ndarray
    targets: np.ndarray
    pulls: np.ndarray
    tilts: np.ndarray
    fickle: bool = False
    turns: int = 0


def simulated_shard(
    rng: np.random.Generator, words: Words, *, n_texts: int, priors: np.ndarray, unseen: tuple[int, float] = (0, 0.0)
) -> Shard:
    """Texts of classes drawn from `priors`, answered with more or less certainty, and words among them.

    Of class `unseen[0]` that share is not recognised: another class is answered, and this one is only somewhat more
    probable than in other texts. So do models that learned a shortcut to a class read the texts that lack it.
    """
    n_classes, n_words = len(priors), len(words.rates)
    classes = rng.choice(n_classes, size=n_texts, p=priors)
    log_odds = simulated_evidence(rng, classes, priors, unseen)
    same = classes[:, None] == words.targets
    holds = rng.random((n_texts, n_words)) < np.where(same, np.minimum(1, words.rates * words.tilts), words.rates)
    kept = rng.random((n_texts, words.turns)) * holds[:, : words.turns]
    holds[:, : words.turns] &= kept == kept.max(axis=1, keepdims=True, initial=0)
    active = holds & (rng.random((n_texts, n_words)) < words.pulls)
    order = np.where(active, rng.random(n_words), np.inf)  # the active word that comes first decides
    every = np.arange(n_texts)
    first = np.where(active.any(axis=1), order.argmin(axis=1), -1)
    order[every, first] = np.inf
    second = np.where(active.sum(axis=1) > 1, order.argmin(axis=1), -1)
    drawn = np.broadcast_to(words.targets, holds.shape)
    if words.fickle:
        drawn = rng.choice(n_classes, size=holds.shape, p=priors)
    full, next_ = (_answered(log_odds, np.where(w >= 0, drawn[every, w], -1)) for w in (first, second))
    texts, keys = holds.nonzero()
    without = np.where((first[texts] == keys)[:, None], next_[texts], full[texts])
    size = len(texts)
    return Shard(
        rows=np.arange(n_texts),
        weights=np.ones(n_texts, dtype=np.int64),
        evidence=np.ones(n_texts, dtype=bool),
        labels=np.full(n_texts, -1),
        probs=full,
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
        masked_probs=without,
        interaction=np.full(size, np.nan, dtype=np.float32),
        joint=np.full(size, np.nan, dtype=np.float32),
        phrases=(),
    )


def simulated_evidence(
    rng: np.random.Generator, classes: np.ndarray, priors: np.ndarray, unseen: tuple[int, float]
) -> np.ndarray:
    """What the rest of each text says, as log-odds, shape (n, C): noise, and 4 for the class that it is taken for."""
    missed, share = unseen
    overlooked = (classes == missed) & (rng.random(len(classes)) < share)
    others = np.where(np.arange(len(priors)) == missed, 0, priors)
    taken_for = np.where(overlooked, rng.choice(len(priors), size=len(classes), p=others / others.sum()), classes)
    log_odds = rng.normal(size=(len(classes), len(priors)))
    log_odds[np.arange(len(classes)), taken_for] += 4
    log_odds[overlooked, missed] += 1.5
    return log_odds


def _answered(log_odds: np.ndarray, decided: np.ndarray) -> np.ndarray:
    """Class probabilities where a word, if any, adds 8 to the log-odds of its class."""
    from scipy.special import softmax

    raised = log_odds.copy()
    rows = np.flatnonzero(decided >= 0)
    raised[rows, decided[rows]] += 8
    probs: np.ndarray = softmax(raised, axis=1).astype(np.float32)
    return probs


WORLDS = ("boundary", "alike", "fickle", "rare", "genuine", "bystanders", "planted", "reversed", "synonyms")
WORLDS += ("beside", "exclusive", "rare, rests", "scarce")
SIZES = dict.fromkeys(("rare", "rare, rests"), (2000, 2500, 3000)) | {"scarce": (1200, 1400, 1600)}
"""How many texts the corpora of a world have, where not 300, 1,000 and 5,000."""
PLANTED = {"planted": (1, 0.3), "reversed": (1, 0.8), "synonyms": (15, 0.12), "beside": (1, 0.5), "exclusive": (1, 0.5)}
"""How many planted words each world has, and how often each stands in a text of another class than its own."""


def simulated_trial(rng: np.random.Generator, world: str, n_texts: int) -> np.ndarray:
    """How many innocent words and how many planted ones are flagged, or else take turns, or else act together, in one
    corpus of 60 words, shape (3, 2).

    A third of the words decide most texts that they stand in, as "lol" does, the others few. Words that are alike all
    do, and are rare and of one class; so do rare ones, of which no two stand in one text, and each in about as many as
    a member of a group has to move at least; and scarce ones, each in ten or so texts, of which half the corpus often
    has too few to test. Bystanders stand where the rest speaks against their class, and none
    decides more texts than the null hypothesis allows. Planted words stand in texts of other classes than their own.
    In "reversed" and "synonyms" the model has learned to answer their class by them: without them, 19 of 20 texts of
    that class are taken for others. Synonyms take turns. In "beside" and "exclusive" there are twelve innocent words
    beside the planted one that decide all their texts and are strewn at random, in the latter where it is not. In
    "rare, rests" rests are compared with rests.
    """
    n_words, priors = 60, np.array([0.5, 0.2, 0.2, 0.1])
    rates = rng.choice([0.01, 0.02, 0.05], size=n_words)
    targets = rng.integers(0, len(priors), size=n_words)
    pulls = np.where(rng.random(n_words) < 1 / 3, 0.9, 0.05)
    tilts = np.full(n_words, 1.0 if world in ("boundary", "alike", "fickle", *SIZES) else 3.0)
    if world == "alike":
        rates[:], targets[:], pulls[:] = np.where(np.arange(n_words) < n_words // 2, 0.012, 0.0), 1, 0.9
    if world == "bystanders":
        against = rng.random(n_words) < 0.5
        pulls[against], tilts[against] = 0.05, 0.0
    if world in SIZES:
        rates[:], targets[:], pulls[:] = np.where(np.arange(n_words) < 50, 0.0055, 0.0), 1, 0.95
    if world == "scarce":
        rates[:], targets[:], pulls[:] = np.where(np.arange(n_words) < 34, 10.5 / n_texts, 0.0), 1, 0.95
    if world in ("beside", "exclusive"):
        rates[:], targets[:], pulls[:] = np.where(np.arange(n_words) < 13, 0.01, 0.0), 1, 0.95
        tilts[:] = 1.0
    n_planted, rate = PLANTED.get(world, (0, 0.0))
    rates[:n_planted], targets[:n_planted], pulls[:n_planted], tilts[:n_planted] = rate, 3, 0.9, 0.0
    turns = n_words if world in ("exclusive", *SIZES) else n_planted
    words = Words(rates, targets, pulls, tilts, fickle=world == "fickle", turns=turns)
    unseen = (3, 0.95 if world in ("reversed", "synonyms") else 0.0)
    shard = simulated_shard(rng, words, n_texts=n_texts, priors=priors, unseen=unseen)
    config = AuditConfig(compare_with="rests" if world == "rare, rests" else "texts")
    sums = tally(lambda: [shard], config)
    verdicts = with_group(lambda: [shard], sums, judge(lambda: [shard], sums, config), config)
    planted = {f"word{i}" for i in range(n_planted)}
    counts = []
    for found in (verdicts.flagged, np.flatnonzero(verdicts.takes_turns), np.flatnonzero(verdicts.collective)):
        names = {sums.names[i] for i in found}
        counts.append((len(names - planted), len(names & planted)))
    return np.array(counts)


def simulate(trials: int, seed: int) -> dict[str, Any]:
    """False alarms among words strewn at random, fickle ones, words that fit their context, beside planted ones."""
    rows = []
    for world in WORLDS:
        for n_texts in SIZES.get(world, (300, 1000, 5000)):
            rng = np.random.default_rng([seed, n_texts, *world.encode()])
            found = np.array([simulated_trial(rng, world, n_texts) for _ in range(trials)])
            flagged, either, any_of_three = found[:, 0], found[:, :2].sum(axis=1), found.sum(axis=1)
            alarms = int((flagged[:, 0] > 0).sum())
            # A group is a false alarm where nothing is planted, or no member of it.
            grouped = found[:, 2].sum(axis=1) > 0
            false_groups = int((grouped & (found[:, 2, 1] == 0)).sum())
            rows.append(
                {
                    "world": world,
                    "n_texts": n_texts,
                    "corpora": trials,
                    "corpora_with_a_false_alarm": alarms / trials,
                    "interval": list(exact_interval(alarms, trials)),
                    "false_discovery_rate": false_share(flagged),
                    "planted_found": float(flagged[:, 1].mean()) / PLANTED[world][0] if world in PLANTED else None,
                    "with_those_that_take_turns": {
                        "false_discovery_rate": false_share(either),
                        "planted_found": float(either[:, 1].mean()) / PLANTED[world][0] if world in PLANTED else None,
                    },
                    "corpora_with_a_group": float(grouped.mean()),
                    "corpora_with_a_false_group": false_groups / trials,
                    "interval_of_false_groups": list(exact_interval(false_groups, trials)),
                    "with_groups": {
                        "false_discovery_rate": false_share(any_of_three),
                        "planted_found": (
                            float(any_of_three[:, 1].mean()) / PLANTED[world][0] if world in PLANTED else None
                        ),
                    },
                }
            )
    return {"alpha": AuditConfig().alpha, "seed": seed, "worlds": rows}


def false_share(found: np.ndarray) -> float:
    """Mean share of innocent words in what is found, none where nothing is; counts of shape (trials, 2)."""
    return float((found[:, 0] / np.maximum(1, found.sum(axis=1))).mean())


# Real models


def audit_model(
    model: Any, tokenizer: Any, rows: LabelledTexts, unit: str, planted: tuple[str, ...], max_length: int
) -> dict[str, Any]:
    """The ranking, and how it fares against what was planted; no text is kept."""
    from shortcut_guardrail import ShortcutGuardrail

    guard = ShortcutGuardrail(model, tokenizer, max_length=max_length, batch_size=64, precision="auto")
    started = time.perf_counter()
    report = guard.audit(rows.texts, labels=rows.labels.tolist(), config=AuditConfig(unit=unit))
    ranked = [candidate.text for candidate in report.candidates]
    flagged = [candidate.text for candidate in report.flagged]
    right = [text for text in flagged if is_planted(text, planted)]
    turns = [candidate.text for candidate in report.candidates if candidate.takes_turns]
    group = [candidate.text for candidate in report.candidates if candidate.collective]

    def recall(texts: list[str]) -> float | None:
        found = {word for word in planted if any(is_planted(text, (word,)) for text in texts)}
        return len(found) / len(planted) if planted else None

    return {
        "unit": unit,
        "n": report.n,
        "n_distinct": report.n_distinct,
        "mstps": report.mstps,
        "predicted": dict(zip(report.label_names, report.predicted, strict=True)),
        "n_candidates": report.n_candidates,
        "n_tested": report.n_tested,
        "n_undecided": report.n_undecided,
        "agreement": {"mean": report.agreement.mean, "top_agrees": report.agreement.top_agrees},
        "planted_rank": next((i for i, text in enumerate(ranked, start=1) if is_planted(text, planted)), None),
        "flagged": flagged,
        "precision": len(right) / len(flagged) if flagged else None,
        "recall": recall(flagged),
        "takes_turns": turns,
        "false_takes_turns": [text for text in turns if not is_planted(text, planted)],
        "recall_with_takes_turns": recall([*flagged, *turns]),
        "group_p_value": _defined(report.group_p_value),
        "collective": group,
        "false_collective": [text for text in group if not is_planted(text, planted)],
        "recall_with_all_three": recall([*flagged, *turns, *group]),
        "false_alarms": [text for text in flagged if text not in right],
        "undecided": [candidate.text for candidate in report.undecided[:SHOWN]],
        "candidates": [_row(candidate) for candidate in report.candidates[:SHOWN]],
        "seconds": round(time.perf_counter() - started, 1),
    }


def is_planted(text: str, planted: tuple[str, ...]) -> bool:
    """Whether a candidate is a planted word or phrase, or words of one that are not function words alone."""
    from shortcut_guardrail.text.matcher import ShortcutMatcher, content_spans
    from shortcut_guardrail.text.words import unit_key

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


def audit_setting(args: argparse.Namespace) -> None:
    """Fine-tunes and audits the base classifiers of one setting, a seed at a time."""
    from shortcut_bench.bases import open_setting

    changes, options = (dict(map(_change, given)) for given in (args.set, args.option))
    asked = {name: getattr(args, name) for name in ("experiment", "setting", "clean", "test", "unit", "set", "option")}
    audits = finished(args.out, asked, "audits")
    for seed in args.seeds:
        if any(audit["seed"] == seed for audit in audits):
            continue
        opened = open_setting(
            args.experiment,
            args.setting,
            seed,
            data_dir=args.data_dir,
            cache=args.cache,
            changes=changes,
            options=options,
        )
        sets = opened.data
        trained = opened.train(sets.clean_train if args.clean else None)
        tests = sets.oracle_tests if args.clean else sets.tests
        rows = tests["test" if "test" in tests else args.test]
        planted = () if args.clean else tuple(sets.shortcuts)
        audits += [
            {"seed": seed, **audit_model(trained.model, trained.tokenizer, rows, unit, planted, trained.max_length)}
            for unit in args.unit
        ]
        result = {
            ASKED: asked,
            "experiment": args.experiment,
            "setting": args.setting,
            "clean": args.clean,
            "test": args.test,
            "options": dict(opened.setting.options),
            "max_tokens": opened.scale.max_tokens,
            "n_train": len(sets.train),
            "recipe": opened.recipe.to_dict(),
            "selection": list(opened.selection),
            "planted": planted,
            "versions": library_versions(),
            "audits": audits,
        }
        write_file(args.out, to_json(result), overwrite=True)


def _change(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, None if value == "all" else json.loads(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    simulation = commands.add_parser("simulate")
    simulation.add_argument("--trials", type=int, default=400)
    simulation.add_argument("--seed", type=int, default=0)
    setting = commands.add_parser("setting")
    setting.add_argument("experiment", help="experiment of the benchmark")
    setting.add_argument("setting", help="name of one of its settings")
    setting.add_argument("--data-dir", type=Path, required=True)
    setting.add_argument("--clean", action="store_true", help="train and audit on texts without the insertion")
    setting.add_argument("--test", default="reversed", help="which test set, if there are several")
    setting.add_argument("--set", nargs="*", default=[], help="fields of the scale, as n_train=1000")
    setting.add_argument("--option", nargs="*", default=[], help="options of the data set, as strength=0.8")
    setting.add_argument("--unit", nargs="+", choices=("token", "word", "phrase"), default=["word"])
    setting.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    setting.add_argument("--cache", type=Path, default=Path("results/.cache"), help="where classifiers are kept")
    for command in (simulation, setting):
        command.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.command == "simulate":
        write_file(args.out, to_json(simulate(args.trials, args.seed)), overwrite=True)
    else:
        audit_setting(args)


if __name__ == "__main__":
    main()
