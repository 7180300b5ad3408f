r"""How often an audit is right on real models: planted shortcuts found, and false alarms on clean models.

    python bench/experiments/audit_rates/run.py shifted GoEmo-ST --data-dir DATA --out results/audit/goemo-st-1.json
    python bench/experiments/audit_rates/run.py shifted GoEmo-ST --clean --data-dir DATA \
        --out results/audit/goemo-clean.json

Audits the base classifiers of a setting of the benchmark, fine-tuned as there, on its reversed test texts: the rank of
the planted shortcut, and which of the flagged candidates are it. With `--clean` they are fine-tuned and audited on the
texts without the insertion: all that is flagged then is a false alarm, or a shortcut of nature's own. Finished seeds
are kept. `audit_simulation` asks the same where no model is needed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.bases import OpenedSetting, open_setting
from shortcut_bench.classifiers import TrainedClassifier
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.standalone import grow
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.config import AuditConfig, Unit
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.text.content import content_spans
from shortcut_guardrail.text.words import unit_key

SHOWN = 20


def audit_model(
    trained: TrainedClassifier, rows: LabelledTexts, unit: Unit, planted: tuple[str, ...]
) -> dict[str, Any]:
    """The ranking, and how it fares against what was planted; no text is kept."""
    guard = ShortcutGuardrail(
        trained.model, trained.tokenizer, max_length=trained.max_length, batch_size=64, precision="auto"
    )
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
        "set_p_value": _defined(report.set_p_value),
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
    for shortcut in planted:
        content = {unit_key(shortcut[start:end]) for start, end in content_spans(shortcut, 0, len(shortcut))}
        words = unit_key(shortcut).split()
        if set(text.split()) <= set(words) and set(text.split()) & content:
            return True
    return False


def _row(candidate: Any) -> dict[str, Any]:
    names = ("text", "unit", "count", "flip_rate", "mean_change", "pulls_to", "contradiction_rate", "n_present")
    row = {
        name: getattr(candidate, name)
        for name in (*names, "opposed_rate", "expected_rate", "relative_effect", "q_value", "status")
    }
    labelled = candidate.labelled
    accuracies = {"accuracy": labelled.accuracy, "accuracy_masked": labelled.accuracy_masked} if labelled else {}
    return {name: _defined(value) for name, value in (row | accuracies).items()}


def _defined(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


class AuditedSetting:
    """One setting of the benchmark, whose classifiers are audited."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.opened: OpenedSetting | None = None

    def open(self, seed: int) -> OpenedSetting:
        """The setting with this seed; the last one that was opened is kept."""
        if self.opened is None or self.opened.seed != seed:
            self.opened = open_setting(
                self.args.experiment,
                self.args.setting,
                seed,
                data_dir=self.args.data_dir,
                cache=self.args.cache,
                changes=dict(map(_change, self.args.set)),
                options=dict(map(_change, self.args.option)),
            )
        return self.opened

    def planted(self, opened: OpenedSetting) -> tuple[str, ...]:
        """What an audit should find."""
        return () if self.args.clean else tuple(opened.data.shortcuts)

    def measure(self, seed: int, unit: Unit) -> dict[str, Any]:
        """One audit of one classifier."""
        opened = self.open(seed)
        data = opened.data
        trained = opened.train(data.clean_train if self.args.clean else None)
        tests = data.oracle_tests if self.args.clean else data.tests
        rows = tests["test" if "test" in tests else self.args.test]
        return audit_model(trained, rows, unit, self.planted(opened))

    def described(self) -> dict[str, Any]:
        """What was audited, from the seed that was opened last."""
        opened = self.opened
        assert opened is not None, "an audit was measured before"
        return {
            **{name: getattr(self.args, name) for name in ("experiment", "setting", "clean", "test")},
            "options": dict(opened.setting.options),
            "max_tokens": opened.scale.max_tokens,
            "n_train": len(opened.data.train),
            "recipe": opened.recipe.to_dict(),
            "selection": list(opened.selection),
            "planted": self.planted(opened),
            "versions": library_versions(),
        }


def _change(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, None if value == "all" else json.loads(value)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and audit the seeds that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", help="Experiment of the benchmark.")
    parser.add_argument("setting", help="Name of one of its settings.")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument("--cache", type=Path, default=Path("results/.cache"), help="Classifiers that runs share.")
    parser.add_argument("--clean", action="store_true", help="Train and audit on texts without the insertion.")
    parser.add_argument("--test", default="reversed", help="Which test set, if there are several.")
    parser.add_argument("--set", nargs="*", default=[], help="Fields of the scale, as n_train=1000.")
    parser.add_argument("--option", nargs="*", default=[], help="Options of the data set, as strength=0.8.")
    parser.add_argument("--unit", nargs="+", choices=("token", "word", "phrase"), default=["word"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args(arguments)
    asked = {name: getattr(args, name) for name in ("experiment", "setting", "clean", "test", "unit", "set", "option")}
    audited = AuditedSetting(args)
    cases = [{"seed": seed, "unit": unit} for seed in args.seeds for unit in args.unit]

    def beside(_: list[dict[str, Any]]) -> dict[str, Any]:
        return audited.described()

    for found in grow(args.out, cases, audited.measure, asked=asked, entries="audits", beside=beside):
        print(found["seed"], found["unit"], found["flagged"], flush=True)


if __name__ == "__main__":
    main()
