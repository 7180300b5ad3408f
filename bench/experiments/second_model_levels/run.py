"""How many cards share one level of second models, and whether answers of a person may lower it.

    python bench/experiments/second_model_levels/run.py --out results/second_model_levels.json

A text has a true class, an ease, a margin of the deployed model and a score of the judge. Both are normal about the
text's ease on the side of the true class; how far, follows from the accuracies asked for. The judge is centred,
qualified and tested by the library's own functions, on texts without the words and on flips. The finished experiment
`second_model_simulation` has one card a draw and many more circumstances.

`question` is one of two:

- `cards`: cards of `sizes` flips are judged together, some of which are `shortcuts` (their places, from the first on):
  masking fixes .85 of their flips, and .5 of the others'. Their p-values are turned into decisions by Benjamini and
  Hochberg's procedure (`plain`), by the same weighted by the number of flips, which is the library's rule (`weighted`),
  and by testing cards from the largest on until one fails (`in order`). `any` is how often any card is called a
  shortcut that is none, `rate` the mean share of these among the cards taken, `found` the share of the shortcuts that
  are taken, and `one` how often a single card that is none has a p-value below the level.
- `five`, a rule that was dropped: one card of `n` flips, and a person who answers to five of them. "Shortcut" is said
  at p <= .025, or at p <= .15 where the person calls at least four of the five fixed. `same`: the five are flips that
  the judge votes on. `apart`: they are other flips. `held out`: they are among the card's, and the judge does not vote
  on them. `looked first`: they are asked only if the judge alone leaves the card open, which decides at p <= .05.
  `decide` is the judge alone. `false` is where .5 of the flips are fixed, `found` where .85 are.

Circumstances:

- `decide`, `model`: their accuracy on random texts.
- `lean` towards the masked answer, and harder flips (`ease`: "flips"), near the model's boundary alone.
- `prior`: the share of the masked answer's class, of which the model "knows", or it was trained on halves ("balanced"),
  so that it is right more often on one side.
- `errors` of the person, either way alike.
- `overlap`: the share of a card's flips that are flips of all larger cards too, where those are no shortcuts.
- `alike`: how far the judge's errors on flips of one place hang together over all cards; `clusters`: how far they do
  within five flips of one card.

Which procedure is the library's was chosen with other seeds and fewer draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from shortcut_bench.standalone import grow
from shortcut_guardrail.decisions.judges import LEAST_AGREEMENT, LEVEL
from shortcut_guardrail.stats import (
    Bound,
    agreement_bound,
    agreement_share,
    balanced_cut,
    fdr_q_values,
    p_of_bound,
    reference_bound,
)

Array = np.ndarray[Any, Any]
Cell = Mapping[str, Any]

USUAL: dict[str, Any] = {
    "judge": 0.8,
    "model": 0.85,
    "lean": 0.0,
    "ease": "shared",
    "prior": 0.5,
    "knows": "prior",
    "overlap": 0.0,
    "similar": 0.0,
    "clusters": 0.0,
    "errors": 0.1,
    "sizes": (60, 48, 40, 32, 26, 21, 17, 14, 11, 9, 8),
    "shortcuts": (),
}
"""What a cell has that does not say otherwise."""
DEPENDENT: tuple[dict[str, Any], ...] = (
    {},
    {"overlap": 0.5},
    {"overlap": 1.0},
    {"similar": 0.5},
    {"similar": 0.9},
    {"overlap": 1.0, "similar": 0.5},
    {"clusters": 0.3},
    {"overlap": 0.5, "lean": 0.3, "ease": "flips"},
)
EQUAL = (26,) * 11
CELLS: tuple[dict[str, Any], ...] = (
    *({"question": "cards", "cell": cell} for cell in DEPENDENT),
    *({"question": "cards", "cell": {"judge": judge, **cell}} for judge in (0.7, 0.95) for cell in DEPENDENT[:3]),
    *({"question": "cards", "cell": {"lean": 0.3, "ease": ease}} for ease in ("shared", "flips")),
    *(
        {"question": "cards", "cell": {"prior": prior, "knows": "balanced", "lean": lean}}
        for prior in (0.35, 0.65)
        for lean in (0.0, 0.3)
    ),
    *({"question": "cards", "cell": {"sizes": sizes}} for sizes in (EQUAL, (150, *(10,) * 10))),
    *(
        {"question": "cards", "cell": {"shortcuts": places, **cell}}
        for places in ((0,), (2,), (5,), (0, 3, 6), (1, 4))
        for cell in ({}, {"judge": 0.9}, {"overlap": 0.5}, {"similar": 0.5})
    ),
    *({"question": "cards", "cell": {"sizes": EQUAL, "shortcuts": (0,), "judge": judge}} for judge in (0.8, 0.9)),
    *(
        {"question": "five", "cell": {"n": n, "judge": judge, "errors": errors}}
        for n in (9, 30, 90)
        for judge in (0.8, 0.99)
        for errors in (0.0, 0.05, 0.1)
    ),
    *({"question": "five", "cell": {"n": n, "lean": 0.3, "ease": "flips"}} for n in (9, 30, 90)),
    *(
        {"question": "five", "cell": {"n": n, "prior": prior, "knows": "balanced", "lean": lean}}
        for prior in (0.35, 0.65)
        for lean in (0.0, 0.3)
        for n in (30, 90)
    ),
)
SIDE, NEAR, ROWS = 100, 150, 1500
MENDS, FIVE = 0.85, 5
ALONE, WITH_FIVE = 0.025, 0.15


@cache
def distance(accuracy: float) -> float:
    """How far from the boundary a text of ease 1 lies, so that so many texts are answered rightly."""
    x, w = np.polynomial.hermite_e.hermegauss(41)
    return float(brentq(lambda d: w @ norm.cdf(d * np.exp(0.6 * x)) / w.sum() - accuracy, 0.0, 20.0))


def leaning(lean: float, far: float, ease: Array) -> float:
    """By how much scores are moved, so that the mean share of "up" over both classes is 1/2 + lean."""

    def excess(by: float) -> float:
        return float((norm.cdf(by + far * ease) + norm.cdf(by - far * ease)).mean() / 2 - 0.5 - lean)

    return float(brentq(excess, 0.0, 30.0)) if lean else 0.0


class Judge(NamedTuple):
    """A qualified judge: its bounds by rule, and how it scores flips: eases by true class, how far, moved by what."""

    bounds: dict[str, Bound]
    eases: dict[bool, Array]
    far: float
    moved: float


def judge(cell: Cell, rng: np.random.Generator) -> Judge | None:
    """One judge, and what texts without the words tell of it; `None` if it is not qualified."""
    far = distance(cell["model"]), distance(cell["judge"])
    truth = rng.random(ROWS) < cell["prior"]
    sign, ease = np.where(truth, 1.0, -1.0), np.exp(0.6 * rng.normal(size=ROWS))
    margins = sign * far[0] * ease + rng.normal(size=ROWS)
    if cell["knows"] == "prior":
        margins += np.log(cell["prior"] / (1 - cell["prior"])) / (2 * far[0])
    up = margins > 0
    sides = [np.flatnonzero(side) for side in (up, ~up)]
    near = np.zeros(ROWS, dtype=bool)
    for side in sides:
        near[side[np.argsort(np.abs(margins[side]))][: min(NEAR, len(side) // 2)]] = True
    lean = leaning(cell["lean"], far[1], ease[near])
    scores = sign * far[1] * ease + rng.normal(size=ROWS) + np.where(near, lean, 0.0)
    drawn = np.concatenate([rng.permutation(side)[:SIDE] for side in sides])
    cut = balanced_cut(scores[drawn], up[drawn])
    share, error = agreement_share(scores[drawn] > cut, up[drawn])
    if share - 1.645 * error < LEAST_AGREEMENT:
        return None
    says = scores > cut
    bounds = {"agreement": agreement_bound(says[near], up[near]), "reference": reference_bound(says[near & up])}
    harder = 0.5 if cell["ease"] == "flips" else 1.0
    eases = {value: harder * ease[near & (truth == value)] for value in (True, False)}
    return Judge(bounds, eases, far[1], lean - cut)


def votes(of: Judge, right: Array, noise: Array, rng: np.random.Generator) -> Array:
    """Whether a judge calls flips fixed, of which some are in truth."""
    ease = np.empty(len(right))
    for value, pool in of.eases.items():
        ease[right == value] = rng.choice(pool, int((right == value).sum()))
    voted: Array = np.where(right, 1.0, -1.0) * of.far * ease + noise + of.moved > 0
    return voted


# Many cards


def fixed(cell: Cell, of: Judge, rng: np.random.Generator) -> list[int]:
    """Of every card, how many of its flips a judge calls fixed."""
    sizes, alike, clusters = cell["sizes"], cell["similar"], cell["clusters"]
    most = max(sizes)
    of_place = rng.normal(size=most)

    def drawn(n: int, share: float) -> Array:
        right = rng.random(n) < share
        of_cluster = np.repeat(rng.normal(size=n // 5 + 1), 5)[:n]
        own = np.sqrt(1 - alike - clusters) * rng.normal(size=n)
        return votes(of, right, np.sqrt(alike) * of_place[:n] + np.sqrt(clusters) * of_cluster + own, rng)

    common = drawn(most, 0.5)
    found = []
    for place, n in enumerate(sizes):
        shared = 0 if place in cell["shortcuts"] else round(cell["overlap"] * n)
        own = drawn(n, MENDS if place in cell["shortcuts"] else 0.5)
        found.append(int(common[:shared].sum() + own[shared:].sum()))
    return found


def in_order(p_values: Sequence[float], sizes: Sequence[int]) -> list[bool]:
    """Cards taken from the largest on, until the first that fails: no more than the level errs, however cards hang
    together."""
    taken, going_on = [False] * len(sizes), True
    for i in np.argsort([-n for n in sizes], kind="stable"):
        going_on = taken[i] = going_on and p_values[i] <= LEVEL
    return taken


def taken_by_rule(p_values: Sequence[float], sizes: Sequence[int]) -> dict[str, Array]:
    """The cards that each procedure takes."""
    plain, weighted = fdr_q_values(p_values), fdr_q_values(p_values, sizes)
    ordered = in_order(p_values, sizes)
    return {"plain": np.array(plain) <= LEVEL, "weighted": np.array(weighted) <= LEVEL, "in order": np.array(ordered)}


def cards(cell: Cell, rng: np.random.Generator, draws: int) -> dict[str, Any]:
    """How often cards are taken, and wrongly, by rule and procedure."""
    sizes = cell["sizes"]
    true = np.isin(np.arange(len(sizes)), cell["shortcuts"])
    made: dict[str, dict[str, list[Array]]] = {}
    single: dict[str, list[float]] = {}
    for _ in range(draws):
        of = judge(cell, rng)
        if of is None:
            continue
        counts = fixed(cell, of, rng)
        for rule, bound in of.bounds.items():
            p_values = [p_of_bound(count, n, bound) for count, n in zip(counts, sizes, strict=True)]
            single.setdefault(rule, []).append(float((np.array(p_values)[~true] <= LEVEL).mean()))
            for name, taken in taken_by_rule(p_values, sizes).items():
                made.setdefault(rule, {}).setdefault(name, []).append(taken)
    found: dict[str, Any] = {}
    for rule, by_name in made.items():
        found[rule] = {"one": sum(single[rule]) / draws}
        for name, each in by_name.items():
            taken = np.array(each)
            wrong, right = (taken & ~true).sum(axis=1), (taken & true).sum(axis=1)
            of_these = {"any": float((wrong > 0).sum() / draws)}
            if true.any():
                of_these["rate"] = float((wrong / np.maximum(wrong + right, 1)).sum() / draws)
                of_these["found"] = float(right.sum() / draws / true.sum())
            found[rule][name] = of_these
    return found


# Five answers of a person


def five(cell: Cell, rng: np.random.Generator, draws: int) -> dict[str, Any]:
    """How often one card is taken, by rule and by how the five flips lie to the judge's."""
    n: int = cell["n"]
    found: dict[str, Any] = {}
    for name, share in (("false", 0.5), ("found", MENDS)):
        taken: dict[str, dict[str, list[bool]]] = {}
        for _ in range(draws):
            of = judge(cell, rng)
            if of is None:
                continue
            right, others = rng.random(n) < share, rng.random(FIVE) < share
            voted = votes(of, right, rng.normal(size=n), rng)
            wrong = rng.random(FIVE) < cell["errors"]
            said = {"same": int((right[:FIVE] ^ wrong).sum()), "apart": int((others ^ wrong).sum())}
            for rule, bound in of.bounds.items():
                p_value = p_of_bound(int(voted.sum()), n, bound)
                rest = p_of_bound(int(voted[FIVE:].sum()), n - FIVE, bound)
                decided = {where: _with_five(p_value, count) for where, count in said.items()}
                decided |= {"held out": _with_five(rest, said["same"]), "judge": p_value <= LEVEL}
                decided["looked first"] = p_value <= LEVEL or decided["same"]
                for where, one in decided.items():
                    taken.setdefault(rule, {}).setdefault(where, []).append(one)
        shares = {rule: {where: sum(each) / draws for where, each in of.items()} for rule, of in taken.items()}
        found[name] = shares
    return found


def _with_five(p_value: float, said: int) -> bool:
    return p_value <= ALONE or (said >= 4 and p_value <= WITH_FIVE)


def measure(question: str, cell: Cell, *, draws: int, seed: int) -> dict[str, Any]:
    """One cell."""
    whole = {**USUAL, **cell}
    rng = np.random.default_rng([seed, *repr((question, sorted(whole.items()))).encode()])
    return (cards if question == "cards" else five)(whole, rng, draws)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and simulate what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not simulated again.")
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    work = partial(measure, draws=args.draws, seed=args.seed)
    for entry in grow(args.out, CELLS, work, asked={"draws": args.draws, "seed": args.seed}):
        print(entry, flush=True)


if __name__ == "__main__":
    main()
