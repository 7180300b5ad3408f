"""The targeted strategies beside the paper's, on the four sets with inserted shortcuts.

    python scripts/targeted_guard.py --data-dir ../shared/data --out results/targeted_guard

For each data set and seed, a classifier is fine-tuned on texts with the shortcut, as the benchmark's experiment
`shifted` does at scale `small` (kept under `--cache`, where that experiment finds it too). Guards are fitted on
unlabelled texts in which the correlation is reversed and scored there, in accuracy and balanced accuracy, as shares of
the gap to the oracle, which answers the texts without the inserted shortcut. 40 rows are set apart as support set and
never scored. Every guard is scored at several strengths: the one chosen without labels, the one chosen on the support
set, the former unless the latter speaks against it (`both`; not for the paper's strategy), and 1; and again, at the
same strengths, on in-distribution texts. `few-shot` learns from the support set and is
scored at two, since it chooses none without labels. Beside that:

- `teachers`: how much of the gap the base closes where it reads the texts with the targets masked, or cut out; and,
  without labels, how often its answer stays where a run of whole words with as many tokens elsewhere in the text is
  masked, or cut out. (Targets may lie in several runs, and texts without room for the run are left out.)
- `fitted_in_distribution`: `distill` fitted on in-distribution texts, scored there.
- `clean`: `distill` fitted on a classifier that was trained without the shortcut, and on texts without it.
- for the synonyms, `distill` and `mask` told the planted words: what is lacking there is not for want of finding them.
- `unseen` and `unseen, maskcl`: for the synonyms, `distill` and `mask`, and the paper's strategy, fitted on texts with
  one half of them and scored on texts with the other half. Synonyms that share a telling word are in one half.
- `certificates`: over random splits of at most 1,000 scored texts into labelled and unlabelled ones, how often a
  certified strength loses more than the margin on all of them, and how often one above 0 is certified; and the same on
  in-distribution texts, where a guard that pulls too hard harms.
- with `--ablations`, variants of `distill`: evidence, teacher, temperature, weight of keeping, insertion, unit of the
  audit, steps, how far weights move, number of texts, and share of texts with the shortcut.

Each data set and seed is one JSON file, written whenever a part of it is finished; finished parts are skipped, and a
file that was begun with other options is refused. `commits` says from which commit each part is (where it is absent,
from one before 22 November 2026, 15:00). Summary over the seeds of all files: `summary.json`; its shares of the gap
are those of the means, and its intervals resample the scored rows within seeds. Answers are kept as strings, one
character a row.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shortcut_bench.bases import OpenedSetting, open_setting
from shortcut_bench.classifiers import TrainedClassifier
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.datasets.presence import shortcut_present
from shortcut_bench.results import commit
from shortcut_bench.statistics import (
    Statistic,
    percentile_interval,
    resample,
    share_of_gap,
    weighted_accuracy,
    weighted_balanced_accuracy,
)
from shortcut_bench.systems import guard_options
from shortcut_guardrail import GuardrailConfig, GuardrailWarning, ShortcutGuardrail, preset
from shortcut_guardrail.config import CertifyConfig, DistillConfig
from shortcut_guardrail.data.files import to_json, write_file
from shortcut_guardrail.metrics import balanced_accuracy, worst_group_accuracy
from shortcut_guardrail.mitigation.distillation import counterfactual
from shortcut_guardrail.mitigation.strategies import uses_shortcuts
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.models.encoding import EncodedTexts
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.shortcuts.named import Target, Targets
from shortcut_guardrail.strength.certificate import certify_answers
from shortcut_guardrail.text.edits import masked_texts, shortened_texts
from shortcut_guardrail.text.finder import parts_of, spaced

DATASETS = ("goemo-st", "goemo-syn", "yelp-st", "yelp-syn")
N_SUPPORT = 40
N_CERTIFIED = 1000  # answers at eleven strengths of all 5,000 reviews would take longer than everything else
MARGIN, CONFIDENCE = 0.02, 0.95
_FINDS_TARGETS = "mask"
STRATEGIES: dict[str, GuardrailConfig] = {
    "mask": preset("mask"),
    "distill": preset("distill"),
    "maskcl": preset("default"),
    "distill, per input": dataclasses.replace(preset("distill"), per_input=True),
    "few-shot": preset("few-shot"),
}


def ablations() -> dict[str, GuardrailConfig]:
    """Variants of `distill`, each different in one thing."""
    base = preset("distill")

    def distill(**changes: Any) -> GuardrailConfig:
        return dataclasses.replace(base, distill=dataclasses.replace(base.distill, **changes))

    return {
        "teacher: mask": distill(teacher="mask"),
        "teacher: both": distill(teacher="both"),
        "temperature .25, nearly the teacher's class alone": distill(temperature=0.25),
        "temperature 1": distill(temperature=1.0),
        "temperature 4": distill(temperature=4.0),
        "nothing kept": distill(keep_weight=0.0),
        "nothing put in": distill(insert=False),
        "words, no phrases": base.with_targets(unit="word"),
        "40 steps": base.with_adapter(min_steps=40, max_steps=40),
        "160 steps": base.with_adapter(min_steps=160, max_steps=160),
        "weight change .08": base.with_adapter(target_change=0.08),
        "weight change .16": base.with_adapter(target_change=0.16),
    }


EVIDENCE: dict[str, tuple[str, ...]] = {
    "evidence: flagged by the audit alone": ("flagged",),
    "evidence: flagged, or taking turns": ("flagged", "alternate"),
    "evidence: flagged, or dominant": ("flagged", "dominant"),
}


OFTEN = "evidence: masking the word changes 2 % of all answers"


def often_decisive(guard: ShortcutGuardrail, texts: LabelledTexts) -> list[str]:
    """Words on which many answers hang, whether or not the rest of their texts speaks against them."""
    report = guard.audit(texts.texts, config=preset("distill").with_targets(unit="word").targets.audit())
    return [item.text for item in report.candidates if item.count * item.flip_rate >= 0.02 * len(texts)]


Words = Callable[[ShortcutGuardrail, LabelledTexts], Sequence[str]]
"""What gives the words to neutralise, from a guard that is not fitted yet and the texts that it is to be fitted on."""


def given(words: Sequence[str]) -> Targets:
    """Words and phrases that nobody has to look for."""
    return Targets(tuple(Target(word, "given") for word in words))


INFLUENTIAL = "evidence: influential words and phrases too"
LISTED = "evidence: what of the influential ones somebody named"


def influential(guard: ShortcutGuardrail, texts: LabelledTexts) -> list[str]:
    """What `fit --take-influential` takes."""
    return list(guard.find_targets(texts.texts, config=preset("distill").with_targets(take_influential=True)).words)


def named_of_the_list(shortcuts: Sequence[str], guard: ShortcutGuardrail, texts: LabelledTexts) -> list[str]:
    """What is taken, and of what `fit --dry-run` lists beside it what was planted or stands in what was.

    That is what a person would name who tells the list's genuine words from the others, and knows nothing else.
    """
    parts = {part for shortcut in shortcuts for part in (spaced(shortcut), *parts_of(spaced(shortcut)))}
    found = guard.find_targets(texts.texts, config="distill")
    return [item.text for item in found.items if item.neutralised or spaced(item.text) in parts]


class Paraphrases(NamedTuple):
    """Two halves of the synonyms: texts without the second, to fit on, and rows with it, as they are and cleaned."""

    seen: Sequence[str]
    held_out: Sequence[str]
    texts: list[str]
    test: LabelledTexts
    oracle: LabelledTexts


def drawn(rows: LabelledTexts, n: int, seed: int) -> LabelledTexts:
    """n rows drawn at random, or all in their order if there are no more: the released sets are sorted by class."""
    if len(rows) <= n:
        return rows
    return rows.select(np.random.default_rng(seed).permutation(len(rows))[:n])


class Run:
    """One data set and seed."""

    def __init__(self, opened: OpenedSetting, arguments: Any) -> None:
        self.opened, self.data, self.trained = opened, opened.data, opened.train()
        self.seed, self.arguments = opened.seed, arguments
        reversed_set = self.data.tests["reversed"]
        order = np.random.default_rng(self.seed).permutation(len(reversed_set))
        self.support = reversed_set.select(order[:N_SUPPORT])
        self.scored = reversed_set.select(order[N_SUPPORT:])
        self.oracle = self.data.oracle_tests["reversed"].select(order[N_SUPPORT:])

    def guard(self, trained: TrainedClassifier | None = None) -> ShortcutGuardrail:
        """A guard around the base classifier, to fit."""
        chosen = trained or self.trained
        return ShortcutGuardrail(
            chosen.model,
            chosen.tokenizer,
            max_length=chosen.max_length,
            batch_size=64,
            precision=self.arguments.precision,
        )

    def deployment(self, rows: LabelledTexts) -> LabelledTexts:
        """What guards are fitted on, the first of rows in random order."""
        return rows.select(np.arange(min(len(rows), self.arguments.n_deployment)))

    def parts(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """Everything that is measured, by name; each part is told what those before it found."""
        parts: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"bounds": lambda _: self.bounds()}
        for name, config in STRATEGIES.items():
            parts[name] = partial(self.strategy, config, certify=self.arguments.splits > 0)
        parts["distill, targets weighed by 40 labels"] = partial(self.strategy, preset("distill"), weigh=True)
        parts["teachers"] = self.teachers
        inside, clean = self.data.tests["in_distribution"], self.data.oracle_tests["reversed"]
        parts["fitted_in_distribution"] = lambda _: self.harmless(self.trained, inside)
        parts["clean"] = lambda _: self.harmless(self.clean_classifier(), clean)
        if len(self.data.shortcuts) > 1:
            parts["unseen"] = lambda _: self.unseen()
            parts["unseen, maskcl"] = lambda _: self.unseen_by_maskcl()
            for name in ("distill", "mask"):
                parts[f"{name}, told the words"] = partial(
                    self.strategy, preset(name), words=lambda *_: self.data.shortcuts
                )
        if self.arguments.ablations:
            parts |= {f"ablation, {name}": partial(self.strategy, config) for name, config in ablations().items()}
            for name, verdicts in EVIDENCE.items():
                parts[f"ablation, {name}"] = partial(self.strategy, preset("distill"), verdicts=verdicts)
            parts[f"ablation, {OFTEN}"] = partial(self.strategy, preset("distill"), words=often_decisive)
            parts[f"fitted_in_distribution, {OFTEN}"] = lambda _: self.harmless(
                self.trained, inside, words=often_decisive
            )
            parts[f"clean, {OFTEN}"] = lambda _: self.harmless(self.clean_classifier(), clean, words=often_decisive)
            parts |= self.of_the_influential()
            for name, texts in self.corpora().items():
                parts[f"ablation, {name}"] = partial(self.strategy, preset("distill"), texts=texts)
        return parts

    def of_the_influential(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """What it does to take words on which many answers hang, by name, with a word of the labels or of a person."""
        inside, clean = self.data.tests["in_distribution"], self.data.oracle_tests["reversed"]
        takes = preset("distill").with_targets(take_influential=True)
        named = partial(named_of_the_list, self.data.shortcuts)
        return {
            f"ablation, {INFLUENTIAL}": partial(self.strategy, preset("distill"), words=influential),
            f"ablation, {INFLUENTIAL}, weighed by 40 labels": partial(self.strategy, takes, weigh=True),
            f"ablation, {LISTED}": partial(self.strategy, preset("distill"), words=named),
            f"fitted_in_distribution, {INFLUENTIAL}": lambda _: self.harmless(self.trained, inside, words=influential),
            f"clean, {INFLUENTIAL}": lambda _: self.harmless(self.clean_classifier(), clean, words=influential),
        }

    def bounds(self) -> dict[str, Any]:
        """The base, and the oracle that reads the texts without the inserted shortcut."""
        inside, inside_oracle = self.data.tests["in_distribution"], self.data.oracle_tests["in_distribution"]
        return {
            "labels": as_string(self.scored.labels),
            "base": self.scores(self.guard(), self.scored, 0, keep=True),
            "oracle": self.scores(self.guard(), self.oracle, 0, keep=True),
            "base_in_distribution": self.scores(self.guard(), inside, 0),
            "oracle_in_distribution": self.scores(self.guard(), inside_oracle, 0),
        }

    def clean_classifier(self) -> TrainedClassifier:
        """The same encoder, trained without the shortcut."""
        return self.opened.train(self.data.clean_train)

    def scores(
        self, guard: ShortcutGuardrail, rows: LabelledTexts, strength: float | None, *, keep: bool = False
    ) -> dict[str, Any]:
        """Accuracies on some rows; with `keep` the answers too."""
        answers = guard.predict_proba(rows.texts, strength=strength).argmax(axis=1)
        return {
            **({"answers": as_string(answers)} if keep else {}),
            "n": len(rows),
            "accuracy": float((answers == rows.labels).mean()),
            "balanced_accuracy": balanced_accuracy(answers, rows.labels),
            "worst_group_accuracy": worst_group_accuracy(answers, rows.labels, rows.groups),
            "groups": {
                name: [int((answers == rows.labels)[rows.groups == group].sum()), count]
                for group, (name, count) in enumerate(rows.counts().items())
            },
        }

    def strategy(
        self,
        config: GuardrailConfig,
        done: dict[str, Any],
        *,
        texts: LabelledTexts | None = None,
        certify: bool = False,
        weigh: bool = False,
        words: Words | None = None,
        verdicts: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Fit on unlabelled texts and score at each choice of the strength.

        Args:
            config: The strategy.
            done: The parts measured before.
            texts: What to fit on, if not on the deployment texts.
            certify: Whether to count the errors of certificates too.
            weigh: Whether the support set has a say in what is neutralised.
            words: Gives what is neutralised, instead of looking for it.
            verdicts: Which evidence is enough; all if not given.
        """
        bounds = done["bounds"]
        targets = self.known_targets(config, done) if texts is None and not weigh and words is None else None
        texts = texts or self.deployment(self.scored)
        guard = self.guard()
        if words is not None:
            targets = given(words(guard, texts))
        if verdicts is not None:
            targets = targets or guard.find_targets(texts.texts, config=config)
            targets = Targets(tuple(item for item in targets.items if item.verdict in verdicts))
        learns = config.strategy == "few-shot"
        labelled = (self.support.texts, self.support.labels.tolist()) if weigh or learns else None
        started = time.perf_counter()
        report = guard.fit(texts.texts, config=config, seed=self.seed, targets=targets, support=labelled)
        seconds = time.perf_counter() - started
        chosen, dialled = ({"40 labels": guard.debias_strength}, 0.0) if learns else self.dials(guard, texts)
        chosen["1"] = 1.0
        # The search for targets is shared between the strategies; its time belongs to each of them.
        searched = 0.0 if targets is None or words is not None else done[_FINDS_TARGETS]["stages"]["target"]
        result: dict[str, Any] = {
            "seconds": seconds + searched,
            "seconds_of_the_choice_without_labels": dialled,
            "stages": report.seconds | ({"target": searched} if searched else {}),
            "n_deployment": len(texts),
            "targets": report.targets.to_dict(),
            "steps": report.training.n_steps,
            "relative_change": report.training.relative_change,
            "strengths": {},
        }
        inside = self.data.tests["in_distribution"]
        at = {strength: self.scores(guard, self.scored, strength, keep=True) for strength in set(chosen.values())}
        # Strength 1 is nobody's choice, so what it costs in distribution is not asked.
        asked = {strength for how, strength in chosen.items() if how != "1"}
        at_inside = {strength: self.scores(guard, inside, strength) for strength in asked}
        for how, strength in chosen.items():
            found = at[strength]
            result["strengths"][how] = {
                "strength": strength,
                "reversed": found,
                "gap_closed": share(found, bounds["base"], bounds["oracle"], "accuracy"),
                "gap_closed_balanced": share(found, bounds["base"], bounds["oracle"], "balanced_accuracy"),
                "in_distribution": at_inside.get(strength),
            }
        if certify:
            result["certificates"] = self.certificates(guard, self.scored)
            result["certificates_in_distribution"] = self.certificates(guard, inside)
        return result

    def teachers(self, done: dict[str, Any]) -> dict[str, Any]:
        """What a guard imitates where it imitates it wholly, and what masking and cutting do for themselves."""
        texts, best = self.deployment(self.scored), self.deployment(self.oracle)
        chosen = self.trained
        base = TextClassifier(
            chosen.model,
            chosen.tokenizer,
            max_length=chosen.max_length,
            batch_size=64,
            precision=self.arguments.precision,
        )
        targets = self.known_targets(preset("distill"), done) or self.guard().find_targets(
            texts.texts, config="distill"
        )
        finder = targets.finder
        encoded = base.encode(texts.texts)
        low, high = (self.scores(self.guard(), rows, 0) for rows in (texts, best))
        result: dict[str, Any] = {"n": len(texts), "gap_closed": {}, "gap_closed_balanced": {}}
        for teacher in ("mask", "remove", "both"):
            answers = counterfactual(base, encoded, finder, DistillConfig(teacher=teacher)).answers()
            found = {
                "accuracy": float((answers == texts.labels).mean()),
                "balanced_accuracy": balanced_accuracy(answers, texts.labels),
            }
            result["gap_closed"][teacher] = share(found, low, high, "accuracy")
            result["gap_closed_balanced"][teacher] = share(found, low, high, "balanced_accuracy")
        rng = np.random.default_rng(self.seed)
        drawn = [elsewhere(encoded, i, chosen, rng) for i, chosen in enumerate(finder.find(encoded))]
        rows = [i for i, chosen in enumerate(drawn) if len(chosen)]
        placebo, positions = encoded.select(rows), [drawn[i] for i in rows]
        result["elsewhere"] = {"n": len(rows)}
        if not rows:
            return result
        before = base.predict_proba(placebo)
        for name, neutralise in (("mask", masked_texts), ("remove", shortened_texts)):
            after = base.predict_proba(neutralise(placebo, positions, base.tokenizer.mask_token_id))
            result["elsewhere"][name] = {
                "answers_kept": int((after.argmax(axis=1) == before.argmax(axis=1)).sum()),
                "total_variation": float(np.abs(after - before).sum(axis=1).mean() / 2),
                "mean_change": (after - before).mean(axis=0).tolist(),
            }
        return result

    def dials(self, guard: ShortcutGuardrail, texts: LabelledTexts) -> tuple[dict[str, float], float]:
        """The strength by each choice that is made after fitting, and the seconds of that without labels."""
        started = time.perf_counter()
        dial = guard.calibrate_without_labels(texts.texts)
        seconds = time.perf_counter() - started
        labelled = (self.support.texts, self.support.labels.tolist())
        chosen = {"without labels": dial.strength, "40 labels": guard.calibrate(*labelled).strength}
        if guard.record().config["strategy"] != "maskcl":
            chosen["both"] = guard.calibrate(*labelled, without_labels=dial).strength
        return chosen, seconds

    def known_targets(self, config: GuardrailConfig, done: dict[str, Any]) -> Targets | None:
        """What the first strategy that looks for targets found, where this one looks for the same."""
        if not uses_shortcuts(config) or config.targets != preset("distill").targets or _FINDS_TARGETS not in done:
            return None
        return Targets.from_dict(done[_FINDS_TARGETS]["targets"])

    def harmless(
        self, trained: TrainedClassifier, rows: LabelledTexts, *, words: Words | None = None
    ) -> dict[str, Any]:
        """`distill` where there is nothing to repair: fitted on some of the texts it is scored on, or on all.

        Args:
            trained: The classifier.
            rows: The texts, with the labels they are scored by.
            words: Gives what is neutralised, instead of looking for it.
        """
        guard = self.guard(trained)
        before = self.scores(guard, rows, 0)
        deployed = drawn(rows, self.arguments.n_deployment, self.seed)
        targets = None if words is None else given(words(guard, deployed))
        guard.fit(deployed.texts, config="distill", seed=self.seed, targets=targets)
        strength = guard.calibrate_without_labels(deployed.texts).strength
        after = self.scores(guard, rows, strength)
        return {
            "base": before,
            "guarded": after,
            "strength": strength,
            "targets": guard.targets.to_dict(),
            "loss": before["accuracy"] - after["accuracy"],
        }

    def unseen(self) -> dict[str, Any]:
        """Fit on texts with every other synonym (and texts with none), score on texts with those it never saw."""
        split = self.paraphrases()
        guard = self.guard()
        base, best = self.scores(guard, split.test, 0), self.scores(guard, split.oracle, 0)
        targets = guard.find_targets(split.texts, config="distill")
        result: dict[str, Any] = {
            "seen": list(split.seen),
            "unseen": list(split.held_out),
            "targets": targets.to_dict(),
            "targets_in_unseen": [word for word in targets.words if shortcut_present(split.held_out, (word,)).any()],
            "base": base,
            "oracle": best,
        }
        for strategy in ("distill", "mask"):
            guard.fit(split.texts, config=strategy, seed=self.seed, targets=targets)
            strength = guard.calibrate_without_labels(split.texts).strength
            result[strategy] = self.on_unseen(guard, split, strength, base, best)
        return result

    def unseen_by_maskcl(self) -> dict[str, Any]:
        """The same with the paper's strategy, its strength chosen in either way."""
        split = self.paraphrases()
        guard = self.guard()
        base, best = self.scores(guard, split.test, 0), self.scores(guard, split.oracle, 0)
        guard.fit(split.texts, config=STRATEGIES["maskcl"], seed=self.seed)
        dial = guard.calibrate_without_labels(split.texts)
        # Those of the 40 that hold a synonym of the other half have to go, or the strength is chosen on them.
        known = self.support.select(np.flatnonzero(~shortcut_present(self.support.texts, split.held_out)))
        chosen = {
            "without labels": dial.strength,
            "labels": guard.calibrate(known.texts, known.labels.tolist()).strength,
        }
        found = {how: self.on_unseen(guard, split, strength, base, best) for how, strength in chosen.items()}
        return {"base": base, "oracle": best, "n_labels": len(known), **found}

    def paraphrases(self) -> Paraphrases:
        """The two halves of the synonyms, and what holds which."""
        seen, held_out = halves(self.data.shortcuts)
        with_held_out = shortcut_present(self.scored.texts, held_out)
        test, oracle = (s.select(np.flatnonzero(with_held_out)) for s in (self.scored, self.oracle))
        rows = self.scored.select(np.flatnonzero(~with_held_out))
        return Paraphrases(seen, held_out, list(self.deployment(rows).texts), test, oracle)

    def on_unseen(
        self, guard: ShortcutGuardrail, split: Paraphrases, strength: float, base: dict[str, Any], best: dict[str, Any]
    ) -> dict[str, Any]:
        """A guard at a strength on the texts with the other half."""
        found = self.scores(guard, split.test, strength)
        return {
            "strength": strength,
            "guarded": found,
            "gap_closed": share(found, base, best, "accuracy"),
            "gap_closed_balanced": share(found, base, best, "balanced_accuracy"),
        }

    def corpora(self) -> dict[str, LabelledTexts]:
        """Fewer or more texts to fit on, and texts of which fewer hold the shortcut."""
        bearing = shortcut_present(self.scored.texts, self.data.shortcuts)
        rows, rest = np.flatnonzero(bearing), np.flatnonzero(~bearing)
        # For small shares, in-distribution texts without the shortcut fill up.
        inside = self.data.tests["in_distribution"]
        filling = inside.select(np.flatnonzero(~shortcut_present(inside.texts, self.data.shortcuts)))
        filling = drawn(filling, self.arguments.n_deployment, self.seed)
        sizes = [n for n in (50, 100, 200, 400, 2000) if n < len(self.scored)]
        if len(self.scored) > self.arguments.n_deployment:
            sizes.append(len(self.scored))
        found = {f"{n} texts": self.scored.select(np.arange(n)) for n in sizes}
        total = min(self.arguments.n_deployment, len(rest) + len(filling))
        for percent in (50, 20, 5, 1):
            few = rows[: max(1, round(total * percent / 100))]
            others = [self.scored.select(rest), filling]
            found[f"{percent} % with the shortcut"] = join([self.scored.select(few), *others], total)
            # The same texts throughout: in those beyond the share what was put in is taken out.
            kept = np.isin(np.arange(len(self.scored)), rows[: max(1, round(len(self.scored) * percent / 100))])
            parts = [self.scored.select(np.flatnonzero(kept)), self.oracle.select(np.flatnonzero(~kept))]
            found[f"{percent} % with the shortcut, the others cleaned"] = join(parts, self.arguments.n_deployment)
        return found

    def certificates(self, guard: ShortcutGuardrail, scored: LabelledTexts) -> list[dict[str, Any]]:
        """Error and success of certificates over random splits of texts."""
        rows = drawn(scored, N_CERTIFIED, self.seed)
        grid, answers = guard.answers_by_strength(rows.texts)
        right = answers == rows.labels
        loss = right[0].mean() - right.mean(axis=1)
        rng = np.random.default_rng(self.seed)
        results = []
        for n_labels in (40, 100, 200):
            if n_labels > len(rows) // 2:
                continue
            wrong = some = 0
            for _ in range(self.arguments.splits):
                order = rng.permutation(len(rows))
                labelled, rest = order[:n_labels], order[n_labels:]
                found = certify_answers(
                    grid[1:],
                    CertifyConfig(margin=MARGIN, confidence=CONFIDENCE),
                    unlabelled_base=answers[0, rest],
                    unlabelled_guarded=answers[1:, rest],
                    labelled_base=answers[0, labelled],
                    labelled_guarded=answers[1:, labelled],
                    labels=rows.labels[labelled],
                )
                certified = [grid.index(s) for s in found.certified]
                wrong += bool((loss[certified] > MARGIN).any())
                some += len(certified) > 1
            n = self.arguments.splits
            results.append({"n_labels": n_labels, "splits": n, "error_rate": wrong / n, "any_strength": some / n})
        return results


def elsewhere(
    encoded: EncodedTexts, index: int, chosen: np.ndarray[Any, Any], rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """A random run of whole words with as many tokens as the targets of a text have together, beside them; none where
    there is no room."""
    free = encoded.ordinary[index].copy()
    free[chosen] = False
    offsets = encoded.offsets[index]
    begins = np.append(np.diff(offsets[:, 0], prepend=-1) != 0, True)
    begins[1:-1] &= offsets[1:, 0] != offsets[:-1, 1]
    runs = (
        np.lib.stride_tricks.sliding_window_view(free, len(chosen)) if 0 < len(chosen) <= len(free) else free[:0, None]
    )
    starts = np.flatnonzero(runs.all(axis=1))
    starts = starts[begins[starts] & begins[starts + len(chosen)]] if len(starts) else starts
    return rng.choice(starts) + np.arange(len(chosen)) if len(starts) else np.array([], dtype=np.int64)


def halves(shortcuts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Shortcuts in two halves, in which no word of five letters or more is shared."""
    families: list[tuple[set[str], list[str]]] = []
    for shortcut in shortcuts:
        words = {word for word in shortcut.lower().split() if len(word) >= 5}
        kin = [family for family in families if family[0] & words]
        families = [family for family in families if not family[0] & words]
        families.append((words.union(*(k[0] for k in kin)), [*(s for k in kin for s in k[1]), shortcut]))
    sides: tuple[list[str], list[str]] = ([], [])
    for _, members in sorted(families, key=lambda family: -len(family[1])):
        min(sides, key=len).extend(members)
    return tuple(sides[0]), tuple(sides[1])


def share(found: dict[str, Any], base: dict[str, Any], oracle: dict[str, Any], key: str) -> float | None:
    """Share of the gap to the oracle that is closed; `None` where there is no gap."""
    closed = share_of_gap(found[key], base[key], oracle[key])
    return None if math.isnan(closed) else closed


def as_string(classes: np.ndarray[Any, Any]) -> str:
    """Class ids below ten, a character each."""
    return "".join(map(str, classes.tolist()))


def gap_interval(
    bounds: Sequence[dict[str, Any]], points: Sequence[dict[str, Any]], statistic: Callable[[str], Statistic]
) -> list[float] | None:
    """95 % interval of the share of gap, of means over seeds; `None` for results without answers."""
    seeds = []
    for bound, point in zip(bounds, points, strict=True):
        kept = {"base": bound["base"], "oracle": bound["oracle"], "guarded": point["reversed"]}
        if not all("answers" in scores for scores in kept.values()):
            return None
        labels = np.array(list(bound["labels"]))
        columns = {name: np.array(list(scores["answers"])) == labels for name, scores in kept.items()}
        seeds.append({**columns, "labels": labels.astype(int)})
    drawn = resample(seeds, {name: statistic(name) for name in ("base", "oracle", "guarded")})
    gap = drawn["oracle"] - drawn["base"]
    if (gap <= 0).any():
        return None
    return list(percentile_interval((drawn["guarded"] - drawn["base"]) / gap))


def join(parts: Sequence[LabelledTexts], n: int) -> LabelledTexts:
    """The first n texts of several sets; only the texts are used."""
    texts = [text for part in parts for text in part.texts][:n]
    first = parts[0]
    return dataclasses.replace(
        first,
        texts=texts,
        labels=np.zeros(len(texts), dtype=np.int64),
        groups=np.zeros(len(texts), dtype=np.int64),
        overlapping=None,
    )


def unlike(found: Any, wanted: Any, path: str = "") -> list[str]:
    """In which options two configurations differ, in words."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = sorted(found.keys() | wanted.keys())
        return [
            text for name in names for text in unlike(found.get(name), wanted.get(name), f"{path}.{name}".lstrip("."))
        ]
    return [] if found == wanted else [f"{path} {found} (now {wanted})"]


def run(name: str, seed: int, arguments: argparse.Namespace, file: Path) -> dict[str, Any]:
    """Data, classifier, and all measurements; what the file has is not measured again."""
    changes = {"n_test": arguments.n_test}
    opened = open_setting("shifted", name, seed, data_dir=arguments.data_dir, cache=arguments.cache, changes=changes)
    measured = Run(opened, arguments)
    result: dict[str, Any] = {
        "data": name,
        "seed": seed,
        "max_tokens": opened.scale.max_tokens,
        "n_train": len(opened.data.train),
        "classifier": measured.trained.to_dict(),
        "versions": library_versions(),
        "parts": {},
    }
    options = {name: getattr(arguments, name) for name in ("n_test", "n_deployment", "splits", "precision")}
    # What the library takes as it is, so that parts measured before a default was changed are not taken for new ones.
    options |= {"dial": "divergence", "strategies": {key: guard_options(config) for key, config in STRATEGIES.items()}}
    result["options"] = options = json.loads(to_json(options))
    if file.exists():
        result = json.loads(file.read_text(encoding="utf-8"))
        if result.get("options") != options:
            raise SystemExit(
                f"{file} was begun with other options than these: {', '.join(unlike(result.get('options'), options))}. "
                "Choose another --out, or delete the file."
            )
        if result["classifier"]["train_loss"] != list(measured.trained.train_loss):
            raise SystemExit(f"{file} is of another classifier, trained elsewhere. Choose another --out, or delete it.")
    for part, measure in measured.parts().items():
        if part not in result["parts"] and (arguments.parts is None or part in (*arguments.parts, "bounds")):
            result["parts"][part] = measure(result["parts"])
            result.setdefault("commits", {})[part] = commit()
            write_file(file, to_json(result), overwrite=True)
            print(name, seed, part, flush=True)
    return result


def gap_of_means(bounds: Sequence[dict[str, Any]], points: Sequence[dict[str, Any]], key: str) -> list[float] | None:
    """Share of the gap that the means over seeds close, as in the benchmark's tables, and the standard deviation of the
    seeds' own shares."""
    base, oracle = (float(np.mean([bound[end][key] for bound in bounds])) for end in ("base", "oracle"))
    found = float(np.mean([point["reversed"][key] for point in points]))
    own = spread(
        [
            share(point["reversed"], bound["base"], bound["oracle"], key)
            for bound, point in zip(bounds, points, strict=True)
        ]
    )
    return None if own is None else [share_of_gap(found, base, oracle), own[1]]


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds of the headline figures."""
    table: dict[str, Any] = {}
    for name in dict.fromkeys(r["data"] for r in results):
        runs = [r for r in results if r["data"] == name]
        rows: dict[str, Any] = {"seeds": [r["seed"] for r in runs]}
        getters: dict[str, Callable[[dict[str, Any]], float | None]] = {
            "strength": lambda p: p["strength"],
            "accuracy": lambda p: p["reversed"]["accuracy"],
            "balanced_accuracy": lambda p: p["reversed"]["balanced_accuracy"],
            "in_distribution": lambda p: (p["in_distribution"] or {}).get("accuracy"),
        }
        for part in dict.fromkeys(name for r in runs for name, found in r["parts"].items() if "strengths" in found):
            measured = [r["parts"] for r in runs if part in r["parts"]]
            for how in dict.fromkeys(how for parts in measured for how in parts[part]["strengths"]):
                having = [parts for parts in measured if how in parts[part]["strengths"]]
                bounds = [parts["bounds"] for parts in having]
                points = [parts[part]["strengths"][how] for parts in having]
                row: dict[str, Any] = {key: spread([get(p) for p in points]) for key, get in getters.items()}
                row["gap_closed"] = gap_of_means(bounds, points, "accuracy")
                row["gap_closed_balanced"] = gap_of_means(bounds, points, "balanced_accuracy")
                row["gap_closed_interval"] = gap_interval(bounds, points, weighted_accuracy)
                row["gap_closed_balanced_interval"] = gap_interval(bounds, points, weighted_balanced_accuracy)
                row["n_seeds"] = len(points)
                rows[f"{part}, {how}"] = row
        for key in ("base", "oracle", "base_in_distribution", "oracle_in_distribution"):
            rows[key] = {
                m: spread([r["parts"]["bounds"][key][m] for r in runs]) for m in ("accuracy", "balanced_accuracy")
            }
        for key in ("fitted_in_distribution", "clean"):
            rows[key] = {"loss": spread([r["parts"][key]["loss"] for r in runs if key in r["parts"]])}
        teachers = [r["parts"]["teachers"] for r in runs if "teachers" in r["parts"]]
        if teachers:
            rows["teachers"] = summary_of_teachers(teachers)
        table[name] = rows
    return table


def summary_of_teachers(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; `elsewhere` sums up the texts that could be tried."""
    tried = [one["elsewhere"] for one in found if one["elsewhere"]["n"]]
    return {
        "n_seeds": len(found),
        **{
            key: {way: spread([one[key][way] for one in found]) for way in ("mask", "remove", "both")}
            for key in ("gap_closed", "gap_closed_balanced")
        },
        "elsewhere": {
            "n": sum(one["n"] for one in tried),
            **{
                way: {
                    "answers_kept": sum(one[way]["answers_kept"] for one in tried),
                    "total_variation": spread([one[way]["total_variation"] for one in tried]),
                }
                for way in ("mask", "remove")
            },
        },
    }


def spread(values: Sequence[float | None]) -> list[float] | None:
    """Mean and standard deviation; `None` where one is undefined, or there is none."""
    if not values or any(value is None for value in values):
        return None
    numbers = np.array(values, dtype=float)
    return [float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="Folder for the results.")
    parser.add_argument("--cache", type=Path, default=Path("results/.cache"), help="Classifiers that runs share.")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--n-deployment", type=int, default=1000, help="Texts a guard is fitted on, at most.")
    parser.add_argument("--n-test", type=int, default=None, help="Test texts; all of them without it.")
    parser.add_argument("--splits", type=int, default=200, help="Random splits for the certificates; 0 counts none.")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--parts", nargs="+", help='Only these, such as mask or "ablation, teacher: mask".')
    parser.add_argument("--precision", default="auto", choices=("auto", "float32", "bfloat16"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", GuardrailWarning)
    for name in arguments.datasets.split(","):
        for seed in map(int, arguments.seeds.split(",")):
            run(name, seed, arguments, arguments.out / f"{name}-{seed}.json")
    # All that is there, not only what this run was asked for.
    files = sorted(arguments.out.glob("*-[0-9].json"), key=lambda file: (DATASETS.index(file.stem[:-2]), file.stem))
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    write_file(arguments.out / "summary.json", to_json(summary(results)), overwrite=True)


if __name__ == "__main__":
    main()
