"""How often a card is decided, and how often wrongly, when reviewers err.

    python bench/experiments/reviewer_errors/run.py --out results/reviewer_errors.json

Of a card's flips a share is mended by masking, the others are broken. A reviewer calls a mended answer broken with one
probability, and a broken one mended with another. Up to 40 flips are asked about, and the library's rule decides: the
first of the two e-values to reach 20. At a share of one half or less "shortcut" is a false decision, which happens in
one card out of twenty at most if nobody errs; at one half or more so is "genuine". Finished cells are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.standalone import grow
from shortcut_guardrail.stats import THRESHOLD

SHARES = (0.35, 0.5, 0.65, 0.75, 0.85)
ERRORS = {
    "none": (0.0, 0.0),
    "10 % symmetric": (0.1, 0.1),
    "20 % symmetric": (0.2, 0.2),
    "10 % of broken called mended": (0.0, 0.1),
    "20 % of broken called mended": (0.0, 0.2),
    "10 % of mended called broken": (0.1, 0.0),
    "20 % of mended called broken": (0.2, 0.0),
}
"""By name, the probability that a mended answer is called broken, and that a broken one is called mended."""
QUESTIONS = 40


def measure(errors: str, share: float, *, draws: int, seed: int) -> dict[str, Any]:
    """One kind of errors and one true share of mended flips."""
    rng = np.random.default_rng([seed, list(ERRORS).index(errors), round(100 * share)])
    mended_as_broken, broken_as_mended = ERRORS[errors]
    said = share * (1 - mended_as_broken) + (1 - share) * broken_as_mended
    return rates(rng.random((draws, QUESTIONS)) < said)


def rates(mended: np.ndarray[Any, Any]) -> dict[str, Any]:
    """What is decided on answers, a row a card; the library's rule for all rows at once, which a test holds."""
    gain, loss = np.full(mended.shape, np.log(1.5)), np.full(mended.shape, np.log(0.5))
    up = np.where(mended, gain, loss).cumsum(axis=1) >= np.log(THRESHOLD) - 1e-12
    down = np.where(mended, loss, gain).cumsum(axis=1) >= np.log(THRESHOLD) - 1e-12
    first_up, first_down = _first(up), _first(down)
    shortcut, genuine = first_up < first_down, first_down < first_up
    asked = np.minimum(np.minimum(first_up, first_down) + 1, QUESTIONS)
    return {
        "shortcut": float(shortcut.mean()),
        "shortcut_within_25": float((shortcut & (first_up < 25)).mean()),
        "genuine": float(genuine.mean()),
        "asked": float(asked.mean()),
    }


def _first(crossed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """After how many answers it is crossed, from 0; more than there are questions where it never is."""
    found: np.ndarray[Any, Any] = np.where(crossed.any(axis=1), crossed.argmax(axis=1), QUESTIONS + 1)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and simulate what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not simulated again.")
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    cases = [{"errors": errors, "share": share} for errors in ERRORS for share in SHARES]
    work = partial(measure, draws=args.draws, seed=args.seed)
    for entry in grow(args.out, cases, work, asked={"draws": args.draws, "seed": args.seed}):
        print(entry["errors"], entry["share"], entry["shortcut"], entry["genuine"], flush=True)


if __name__ == "__main__":
    main()
