"""How often a second opinion decides a card, and how often wrongly, where the truth is known.

    python bench/experiments/second_opinion_simulation/run.py --out results/second_opinion_simulation.json

A text has a true class, an ease, a margin of the deployed model and a score of the judge. Both are normal about the
text's ease on the side of the true class; how far, follows from the accuracies asked for. The judge is centred, found
fit and tested by the library's own functions, on texts without the words and on a card's flips, by three rules: the
agreement rule, the reference rule, and with twenty answers of a person, ten on each side (`answers`). `both` is the
latter with five answers to the card's own flips. `alone` is a person who is asked about as many flips of the card, 25,
and no judge.

Of the flips a share is mended by masking. At one half or less "shortcut" is a false decision. Circumstances:

- `lean`: towards the flips' masked answer, near the boundary only, where centring on random texts does not reach it.
- `ease`: "shared" where judge and model find the same texts hard; "flips" where flips are harder still.
- `habit`: the share of flips where the judge follows the word too; `counter` where it takes the word for the opposite.
- `copied`: the share of all texts where the judge answers what the model answers without the word, right or wrong.
- `prior`: the share of the masked answer's class among texts. `model`: "prior" where the model knows of it, "balanced"
  where it was trained on as many texts of either class.
- `errors`: how often the person's answers are wrong.

`power` is the share of cards decided where .85 of the flips are mended, `false` where .5 are, and `passes` how often
the judge is fit; unfit judges decide nothing. Finished cells are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from shortcut_bench.standalone import grow
from shortcut_guardrail.decisions.second_opinion import decides, is_fit
from shortcut_guardrail.stats import (
    THRESHOLD,
    agreement_bound,
    answers_bound,
    balanced_cut,
    p_of_bound,
    paired_e_value,
    reference_bound,
)

Array = np.ndarray[Any, Any]

USUAL = {
    "judge": 0.8,
    "model": 0.85,
    "n": 90,
    "lean": 0.0,
    "ease": "shared",
    "habit": 0.0,
    "counter": 0.0,
    "copied": 0.0,
    "prior": 0.5,
    "knows": "prior",
    "errors": 0.1,
}
"""The cell from which the others differ."""
CELLS: tuple[dict[str, Any], ...] = (
    *({"judge": judge, "n": n} for judge in (0.6, 0.7, 0.8, 0.9, 0.95) for n in (10, 30, 90, 150)),
    *({"judge": judge, "lean": lean} for judge in (0.7, 0.8, 0.9) for lean in (0.15, 0.3)),
    *({"lean": lean, "n": n} for lean in (0.15, 0.3) for n in (10, 30, 150)),
    *({"ease": ease, "judge": judge} for ease in ("none", "flips") for judge in (0.7, 0.8, 0.9)),
    *({"ease": "flips", "lean": lean, "n": n} for lean in (0.15, 0.3) for n in (30, 90, 150)),
    *({kind: share, "n": n} for kind in ("habit", "counter") for share in (0.25, 0.5) for n in (30, 90, 150)),
    *({"counter": 0.5, "lean": lean, "ease": "flips"} for lean in (0.15, 0.3)),
    *({"copied": share, "n": n} for share in (0.1, 0.2, 0.3, 0.5) for n in (30, 90, 150)),
    *(
        {"prior": prior, "knows": knows, "n": n}
        for prior in (0.2, 0.8)
        for knows in ("prior", "balanced")
        for n in (30, 90, 150)
    ),
    *({"prior": prior, "knows": knows, "lean": 0.15} for prior in (0.2, 0.8) for knows in ("prior", "balanced")),
    *({"model": model, "judge": judge} for model in (0.75, 0.95) for judge in (0.7, 0.8, 0.9)),
    *({"errors": errors, "judge": judge} for errors in (0.0, 0.2) for judge in (0.7, 0.9)),
)
SIDE, NEAR, ROWS, ANSWERS = 100, 150, 1500, 20
FIVE, ALONE = 5, 25
RULES = ("agreement", "reference", "answers", "both", "alone")


def eases(kind: str, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """How easy texts are for the model and for the judge."""
    own = np.exp(0.6 * rng.normal(size=(2, n)))
    return (own[0], own[1]) if kind == "none" else (own[0], own[0])


def distance(accuracy: float) -> float:
    """How far from the boundary a text of ease 1 lies, so that so many texts are answered rightly."""
    x, w = np.polynomial.hermite_e.hermegauss(41)
    return float(brentq(lambda d: w @ norm.cdf(d * np.exp(0.6 * x)) / w.sum() - accuracy, 0.0, 20.0))


def one(cell: dict[str, Any], share: float, rng: np.random.Generator, far: tuple[float, float]) -> dict[str, Any]:
    """One judge and one card: whether the judge is fit, and by rule whether the card is decided."""
    truth = rng.random(ROWS) < cell["prior"]
    sign = np.where(truth, 1.0, -1.0)
    for_model, for_judge = eases(cell["ease"], rng, ROWS)
    margins = sign * far[0] * for_model + rng.normal(size=ROWS)
    if cell["knows"] == "prior":
        margins += shift(cell["prior"], far[0])
    up = margins > 0
    near = np.zeros(ROWS, dtype=bool)
    for side in (up, ~up):
        of_side = np.flatnonzero(side)
        near[of_side[np.argsort(np.abs(margins[of_side]))][: min(NEAR, len(of_side) // 2)]] = True
    lean = leaning(cell["lean"], far[1], for_judge[near])
    scores = sign * far[1] * for_judge + rng.normal(size=ROWS)
    copied = rng.random(ROWS) < cell["copied"]
    scores = np.where(copied, np.where(up, 9.0, -9.0), scores) + np.where(near & ~copied, lean, 0.0)
    said = rng.random(min(ALONE, cell["n"])) < share
    said ^= rng.random(len(said)) < cell["errors"]
    alone = asked_alone(said)
    sides = [rng.permutation(np.flatnonzero(side))[:SIDE] for side in (up, ~up)]
    if min(len(side) for side in sides) < 25:
        return {"fit": False, "alone": alone}
    random = np.concatenate(sides)
    cut = balanced_cut(scores[random], up[random])
    if not is_fit(scores[random] > cut, up[random]):
        return {"fit": False, "alone": alone}
    mended = flips_mended(cell, share, rng, (sign[near], for_judge[near]), (far[1], lean - cut))
    says = scores > cut
    answers = np.full(ROWS, -1)
    asked = np.concatenate([rng.permutation(np.flatnonzero(near & side))[: ANSWERS // 2] for side in (up, ~up)])
    answers[asked] = truth[asked] ^ (rng.random(len(asked)) < cell["errors"])
    reference = near & up
    bounds = {
        "agreement": agreement_bound(says[near], up[near]),
        "reference": reference_bound(says[reference]),
        "answers": answers_bound(says[near], up[near], answers[near]),
    }
    p_values = {rule: p_of_bound(mended, cell["n"], bound) for rule, bound in bounds.items()}
    five = int(said[:FIVE].sum())
    found = {rule: decides(p_value) for rule, p_value in p_values.items()}
    return {"fit": True, **found, "both": decides(p_values["answers"], five), "alone": alone}


def asked_alone(said: Array) -> bool:
    """Whether a person decides a card as a shortcut, by the library's rule."""
    for asked in range(1, len(said) + 1):
        mended = int(said[:asked].sum())
        if paired_e_value(mended, asked - mended) >= THRESHOLD:
            return True
        if paired_e_value(asked - mended, mended) >= THRESHOLD:
            return False
    return False


def shift(prior: float, far: float) -> float:
    """What a model that knows the prior adds to its margin."""
    return float(np.log(prior / (1 - prior)) / (2 * far))


def leaning(lean: float, far: float, ease: Array) -> float:
    """By how much scores are moved, so that the mean share of "up" over both classes is 1/2 + lean."""
    if not lean:
        return 0.0

    def excess(by: float) -> float:
        return float((norm.cdf(by + far * ease) + norm.cdf(by - far * ease)).mean() / 2 - 0.5 - lean)

    return float(brentq(excess, 0.0, 30.0))


def flips_mended(
    cell: dict[str, Any], share: float, rng: np.random.Generator, near: tuple[Array, Array], judge: tuple[float, float]
) -> int:
    """How many of a card's flips the judge calls mended: it says so with the word and without."""
    n, (signs, ease), (far, moved) = cell["n"], near, judge
    right = rng.random(n) < share
    drawn = np.empty(n)
    for value in (True, False):
        pool = ease[(signs > 0) == value]
        drawn[right == value] = rng.choice(pool if len(pool) else ease, (right == value).sum())
    if cell["ease"] == "flips":
        drawn = 0.5 * drawn
    scores = np.where(right, 1.0, -1.0) * far * drawn + rng.normal(size=n) + moved
    scores = np.where(rng.random(n) < cell["copied"], 9.0, scores)
    followed, opposed = rng.random(n) < cell["habit"], rng.random(n) < cell["counter"]
    with_word = np.where(followed, scores - 9.0, np.where(opposed, scores + 9.0, scores))
    return int(((scores > 0) & (with_word > 0)).sum())


def measure(cell: dict[str, Any], *, draws: int, seed: int) -> dict[str, Any]:
    """One cell."""
    whole: dict[str, Any] = USUAL | cell
    rng = np.random.default_rng([seed, *repr(sorted(whole.items())).encode()])
    far = distance(whole["model"]), distance(whole["judge"])
    shown: dict[str, Any] = {}
    for name, share in (("false", 0.5), ("power", 0.85)):
        made = [one(whole, share, rng, far) for _ in range(draws)]
        shown["passes"] = float(np.mean([found["fit"] for found in made]))
        shown[name] = {rule: float(np.mean([found.get(rule, False) for found in made])) for rule in RULES}
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and simulate what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not simulated again.")
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    cases = [{"cell": cell} for cell in CELLS]
    work = partial(measure, draws=args.draws, seed=args.seed)
    for entry in grow(args.out, cases, work, asked={"draws": args.draws, "seed": args.seed}):
        print(entry["cell"], entry["passes"], entry["false"], entry["power"], flush=True)


if __name__ == "__main__":
    main()
