"""One data set and seed: its base classifier, and guards around it, fitted and scored."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from shortcut_bench.bases import OpenedSetting
from shortcut_bench.classifiers import TrainedClassifier
from shortcut_bench.datasets import LabelledTexts
from shortcut_guardrail import GuardrailConfig, ShortcutGuardrail, preset
from shortcut_guardrail.config import CertifyConfig
from shortcut_guardrail.metrics import balanced_accuracy, worst_group_accuracy
from shortcut_guardrail.mitigation import uses_shortcuts
from shortcut_guardrail.shortcuts.named import Shortcuts
from shortcut_guardrail.strength.certificate import certify_answers
from summary import apart, share
from variants import Words, given

N_CERTIFIED = 1000  # answers at eleven strengths of all 5,000 reviews would take longer than everything else
MARGIN, CONFIDENCE = 0.02, 0.95
_FINDS_TARGETS = "mask"

Found = dict[str, Any]
"""What a part of the measurements found, as JSON types."""


def drawn(rows: LabelledTexts, n: int, seed: int) -> LabelledTexts:
    """n rows drawn at random, or all in their order if there are no more: the released sets are sorted by class."""
    if len(rows) <= n:
        return rows
    return rows.select(np.random.default_rng(seed).permutation(len(rows))[:n])


def as_string(classes: np.ndarray[Any, Any]) -> str:
    """Class ids below ten, a character each."""
    return "".join(map(str, classes.tolist()))


class Measured:
    """The base classifier of one data set and seed, the rows that are set apart, and guards around it."""

    def __init__(self, opened: OpenedSetting, arguments: argparse.Namespace) -> None:
        self.opened, self.data, self.trained = opened, opened.data, opened.train()
        self.seed, self.arguments = opened.seed, arguments
        reversed_set = self.data.tests["reversed"]
        support, scored = apart(self.seed, len(reversed_set))
        self.support, self.scored = reversed_set.select(support), reversed_set.select(scored)
        self.oracle = self.data.oracle_tests["reversed"].select(scored)

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

    def clean_classifier(self) -> TrainedClassifier:
        """The same encoder, trained without the shortcut."""
        return self.opened.train(self.data.clean_train)

    def scores(
        self, guard: ShortcutGuardrail, rows: LabelledTexts, strength: float | None, *, keep: bool = False
    ) -> Found:
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

    def bounds(self) -> Found:
        """The base, and the oracle that reads the texts without the inserted shortcut."""
        inside, inside_oracle = self.data.tests["in_distribution"], self.data.oracle_tests["in_distribution"]
        return {
            "labels": as_string(self.scored.labels),
            "base": self.scores(self.guard(), self.scored, 0, keep=True),
            "oracle": self.scores(self.guard(), self.oracle, 0, keep=True),
            "base_in_distribution": self.scores(self.guard(), inside, 0),
            "oracle_in_distribution": self.scores(self.guard(), inside_oracle, 0),
        }

    def strategy(
        self,
        config: GuardrailConfig,
        done: Found,
        *,
        texts: LabelledTexts | None = None,
        certify: bool = False,
        weigh: bool = False,
        words: Words | None = None,
        reasons: Sequence[str] | None = None,
    ) -> Found:
        """Fit on unlabelled texts and score at each choice of the strength.

        Args:
            config: The strategy.
            done: The parts measured before.
            texts: What to fit on, if not on the deployment texts.
            certify: Whether to count the errors of certificates too.
            weigh: Whether the support set has a say in what is neutralised.
            words: Gives what is neutralised, instead of looking for it.
            reasons: Which evidence is enough; all if not given.
        """
        known = self.known_targets(config, done) if texts is None and not weigh and words is None else None
        # The search for targets is shared between the strategies; its time belongs to each of them.
        searched = 0.0 if known is None else done[_FINDS_TARGETS]["stages"]["target"]
        texts = texts or self.deployment(self.scored)
        guard = self.guard()
        targets = known if words is None else given(words(guard, texts))
        if reasons is not None:
            targets = targets or guard.find_shortcuts(texts.texts, config=config)
            targets = Shortcuts(tuple(item for item in targets.items if item.reason in reasons))
        learns = config.strategy == "few-shot"
        labelled = (self.support.texts, self.support.labels.tolist()) if weigh or learns else None
        started = time.perf_counter()
        report = guard.fit(texts.texts, config=config, seed=self.seed, shortcuts=targets, support=labelled)
        seconds = time.perf_counter() - started
        chosen, dialled = ({"40 labels": guard.debias_strength}, 0.0) if learns else self.dials(guard, texts)
        result: Found = {
            "seconds": seconds + searched,
            "seconds_of_the_choice_without_labels": dialled,
            "stages": report.seconds | ({"target": searched} if searched else {}),
            "n_deployment": len(texts),
            "shortcuts": report.shortcuts.to_dict(),
            "steps": report.training.n_steps,
            "relative_change": report.training.relative_change,
            "strengths": self.at_strengths(guard, chosen, done["bounds"]),
        }
        if certify:
            result["certificates"] = self.certificates(guard, self.scored)
            result["certificates_in_distribution"] = self.certificates(guard, self.data.tests["in_distribution"])
        return result

    def at_strengths(self, guard: ShortcutGuardrail, chosen: dict[str, float], bounds: Found) -> Found:
        """The scores of a guard at strength 1 and at those that were chosen, by how they were."""
        at = {s: self.scores(guard, self.scored, s, keep=True) for s in {*chosen.values(), 1.0}}
        # Strength 1 is nobody's choice, so what it costs in distribution is not asked.
        inside = self.data.tests["in_distribution"]
        at_inside = {strength: self.scores(guard, inside, strength) for strength in set(chosen.values())}
        return {
            how: {
                "strength": strength,
                "reversed": at[strength],
                "gap_closed": share(at[strength], bounds["base"], bounds["oracle"], "accuracy"),
                "gap_closed_balanced": share(at[strength], bounds["base"], bounds["oracle"], "balanced_accuracy"),
                "in_distribution": at_inside.get(strength),
            }
            for how, strength in {**chosen, "1": 1.0}.items()
        }

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

    def known_targets(self, config: GuardrailConfig, done: Found) -> Shortcuts | None:
        """What the first strategy that looks for targets found, where this one looks for the same."""
        if not uses_shortcuts(config) or config.shortcuts != preset("distill").shortcuts or _FINDS_TARGETS not in done:
            return None
        return Shortcuts.from_dict(done[_FINDS_TARGETS]["shortcuts"])

    def harmless(self, trained: TrainedClassifier, rows: LabelledTexts, *, words: Words | None = None) -> Found:
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
        guard.fit(deployed.texts, config="distill", seed=self.seed, shortcuts=targets)
        strength = guard.calibrate_without_labels(deployed.texts).strength
        after = self.scores(guard, rows, strength)
        return {
            "base": before,
            "guarded": after,
            "strength": strength,
            "shortcuts": guard.shortcuts.to_dict(),
            "loss": before["accuracy"] - after["accuracy"],
        }

    def certificates(self, guard: ShortcutGuardrail, scored: LabelledTexts) -> list[Found]:
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
