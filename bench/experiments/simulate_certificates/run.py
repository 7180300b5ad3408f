"""Does a certificate keep its promise? Simulated error rates of `certify` and of naive sweeps.

    python bench/experiments/simulate_certificates/run.py --out results/certificates.json

Each scenario states what every strength truly does: the shares of texts whose answer is lost, gained, or wrong both
times but another. A text's answers hang together over strengths, as those of a real guard do: each text has one random
number, and is changed by all strengths whose share exceeds it.
A sample of unlabelled and one of labelled texts is drawn, strengths are certified, and it is counted how often one is
certified that truly loses more than the margin (the error, promised to be at most 1 - confidence), how often any
strength above 0 is certified, and how often the best one is. Beside it the sweep that people use: to take the strength
with the best score if it shows no loss. Finished cases are kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shortcut_bench.standalone import grow
from shortcut_guardrail.config import CertifyConfig
from shortcut_guardrail.strength.certificate import Certificate, certify_answers, texts_to_label

STRENGTHS = np.arange(1, 11) / 10
CONFIG = CertifyConfig(margin=0.02, confidence=0.95)


@dataclass(frozen=True)
class Scenario:
    """The truth at each of ten strengths: shares of texts whose answer is lost, gained, or wrong both times."""

    name: str
    lost: np.ndarray
    gained: np.ndarray
    both_wrong: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        """The true loss of accuracy at each strength."""
        loss: np.ndarray = self.lost - self.gained
        return loss

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels, base answers and guarded answers (S, n) of n texts, as codes: 0 right, 1 and 2 wrong."""
        place = rng.random(n)
        # A text is lost, gained or otherwise changed by where its number falls; right before, unless gained or changed.
        gained = place < self.gained[:, None]
        changed = ~gained & (place < (self.gained + self.both_wrong)[:, None])
        lost = place >= 1 - self.lost[:, None]
        base = np.where(place < (self.gained + self.both_wrong).max(), 1, 0)
        guarded = np.broadcast_to(base, (len(STRENGTHS), n)).copy()
        guarded[gained], guarded[changed], guarded[lost] = 0, 2, 1
        return np.zeros(n, dtype=int), base, guarded


def scenarios() -> list[Scenario]:
    """From the worst cases for the procedure to what good guards do. The margin is .02."""
    ones, ramp = np.ones(10), STRENGTHS
    just_over = CONFIG.margin * 1.001
    return [
        Scenario(
            "just over the margin at every strength, answers differ in a third",
            0.16 * ones + just_over,
            0.16 * ones,
            0 * ones,
        ),
        Scenario(
            "just over the margin at every strength, all changes are losses", just_over * ones, 0 * ones, 0 * ones
        ),
        Scenario(
            "just over the margin at full strength only",
            np.where(ramp == 1, 0.1 + just_over, 0.1),
            0.1 * ones,
            0 * ones,
        ),
        Scenario(
            "just over the margin at the weakest only",
            np.where(ramp == 0.1, 0.05 + just_over, 0.05),
            0.05 * ones,
            0.02 * ones,
        ),
        Scenario("harm grows with the strength", 0.1 * ramp, 0.02 * ramp, 0.02 * ramp),
        Scenario(
            "helps up to .5, harms beyond", np.where(ramp <= 0.5, 0.02 * ramp, 0.3 * ramp), 0.15 * ramp, 0.02 * ramp
        ),
        Scenario(
            "harms in the middle, helps at full strength",
            np.where((ramp > 0.2) & (ramp < 0.8), 0.15, 0.01),
            np.where(ramp < 0.8, 0.05, 0.4),
            0.02 * ramp,
        ),
        Scenario("does nothing", 0 * ones, 0 * ones, 0 * ones),
        Scenario("helps a little", 0.01 * ramp, 0.05 * ramp, 0.02 * ramp),
        Scenario("helps a lot, as on reversed GoEmotions", 0.02 * ramp, 0.6 * ramp, 0.05 * ramp),
    ]


def best_score_without_loss(found: Certificate) -> list[float]:
    """The strength with the best labelled score, if it shows no loss."""
    best = max(found.points, key=lambda point: point.gained - point.lost)
    return [best.strength] if best.lost <= best.gained else []


PROCEDURES = {
    "certify": lambda found: list(found.certified[1:]),
    "best score without loss": best_score_without_loss,
}


LABELLED = ("random texts", "differing texts", "differing ones of the unlabelled texts")
"""Which texts get the labels; the last is what `to_label` does."""


def cases() -> list[dict[str, Any]]:
    """What is simulated: each scenario with few and many texts, labelled in each way, and one kind of harm more."""
    sizes = [(40, 500), (200, 2000)]
    kinds = [(*size, labelled, "net") for size in sizes for labelled in LABELLED] + [(200, 2000, LABELLED[2], "harmed")]
    names = ("n_labels", "n_unlabelled", "labelled", "harm")
    return [{"scenario": s.name, **dict(zip(names, kind, strict=True))} for s in scenarios() for kind in kinds]


def simulate(
    scenario: str, n_labels: int, n_unlabelled: int, labelled: str, harm: Literal["net", "harmed"], *, repeats: int
) -> dict[str, Any]:
    """Error and success of each procedure over some repetitions of one case."""
    world = next(one for one in scenarios() if one.name == scenario)
    config = replace(CONFIG, harm=harm)
    rng = np.random.default_rng([n_labels, n_unlabelled, LABELLED.index(labelled)])
    truth = world.loss if harm == "net" else world.lost
    harmful = {round(float(s), 1) for s, loss in zip(STRENGTHS, truth, strict=True) if loss > config.margin}
    best = round(float(STRENGTHS[truth.argmin()]), 1)
    counts = {name: np.zeros(3) for name in PROCEDURES}
    for _ in range(repeats):
        unlabelled = world.draw(n_unlabelled, rng)
        sample = unlabelled
        if labelled != LABELLED[2]:
            # Where only differing texts are labelled, the same number of labels goes to them alone.
            sample = world.draw(n_labels * (1 if labelled == LABELLED[0] else 20), rng)
        chosen = np.arange(n_labels)
        if labelled != LABELLED[0]:
            chosen = texts_to_label(sample[1], sample[2], n_labels, seed=int(rng.integers(2**32)))
        found = certify_answers(
            STRENGTHS.tolist(),
            config,
            unlabelled_base=unlabelled[1],
            unlabelled_guarded=unlabelled[2],
            labelled_base=sample[1][chosen],
            labelled_guarded=sample[2][:, chosen],
            labels=sample[0][chosen],
        )
        for name, procedure in PROCEDURES.items():
            taken = {round(s, 1) for s in procedure(found)}
            counts[name] += [bool(taken & harmful), bool(taken), best in taken]
    return {
        "harmful_strengths": sorted(harmful),
        "repeats": repeats,
        "procedures": {
            name: dict(zip(("error_rate", "any_strength", "best_strength"), (c / repeats).tolist(), strict=True))
            for name, c in counts.items()
        },
    }


def highest_error_rates(runs: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By kind of harm, and by procedure.

    The sweep chooses by the net score, so what it does to right answers lost is nobody's promise.
    """
    return {
        harm: {
            name: max(
                (r["procedures"][name]["error_rate"] for r in runs if r["harmful_strengths"] and r["harm"] == harm),
                default=0.0,
            )
            for name in PROCEDURES
        }
        for harm in ("net", "harmed")
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and simulate what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not simulated again.")
    parser.add_argument("--repeats", type=int, default=400)
    args = parser.parse_args(arguments)
    head = {
        "command": f"python bench/experiments/simulate_certificates/run.py --repeats {args.repeats}",
        "margin": CONFIG.margin,
        "confidence": CONFIG.confidence,
    }

    def beside(runs: list[dict[str, Any]]) -> dict[str, Any]:
        return {**head, "highest_error_rate": highest_error_rates(runs)}

    asked = {"repeats": args.repeats, "margin": CONFIG.margin, "confidence": CONFIG.confidence}
    measure = partial(simulate, repeats=args.repeats)
    for r in grow(args.out, cases(), measure, asked=asked, entries="runs", beside=beside):
        rates = {name: [round(x, 3) for x in values.values()] for name, values in r["procedures"].items()}
        print(f"{r['scenario'][:48]:50s}{r['n_labels']:4d} {r['labelled']:39s}{r['harm']:7s}{rates}", flush=True)
    print(json.loads(args.out.read_text(encoding="utf-8"))["highest_error_rate"])


if __name__ == "__main__":
    main()
