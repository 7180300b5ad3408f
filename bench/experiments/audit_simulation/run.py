r"""How often an audit is right where the truth is known: false alarms at the boundary, planted words found.

    python bench/experiments/audit_simulation/run.py --out results/audit/simulation.json

Makes texts whose words' effects are known, and needs no model. How often is anything flagged where the null hypothesis
holds, at its boundary and within it? How often is a planted shortcut found? Finished cases are kept.

    python bench/experiments/audit_simulation/run.py --rounds two --trials 500 \
        --worlds boundary fickle --out results/audit/simulation_two_rounds.json

simulates what is known of a classifier that only answers: it is asked about every word in ten texts, and about those
that changed an answer in all of their texts, or, with `--rounds capped`, in fifty.

    python bench/experiments/audit_simulation/run.py --rounds sampled --trials 200 \
        --worlds boundary fickle rare planted --out results/audit/simulation_sampled.json

simulates samples of a tenth of 20,000 texts, as `audit_sample` takes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_bench.standalone import grow
from shortcut_guardrail.audit import sampled
from shortcut_guardrail.audit.asking import FIRST
from shortcut_guardrail.audit.context import judge, tally
from shortcut_guardrail.audit.measurements import NOT_ASKED, Shard
from shortcut_guardrail.audit.sets import with_set
from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.stats.exact import exact_interval

Array = np.ndarray[Any, np.dtype[Any]]


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

    rates: Array
    targets: Array
    pulls: Array
    tilts: Array
    fickle: bool = False
    turns: int = 0


def simulated_shard(
    rng: np.random.Generator, words: Words, *, n_texts: int, priors: Array, unseen: tuple[int, float] = (0, 0.0)
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
        compared=np.ones(n_texts, dtype=bool),
        labels=np.full(n_texts, -1),
        probs=full,
        truncated=np.zeros(n_texts, dtype=bool),
        controls=np.zeros(n_texts, dtype=bool),
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


def in_rounds(rng: np.random.Generator, shard: Shard, most: int | None) -> Shard:
    """What is known once each word was cut out of ten texts, and those that changed an answer out of all, or `most`."""
    masked, changed = shard.masked.copy(), shard.masked_probs.argmax(axis=1) != shard.predictions[shard.texts]
    for key in range(len(shard.names)):
        mine = rng.permutation(np.flatnonzero(shard.keys == key))
        if not changed[mine[:FIRST]].any():
            masked[mine[FIRST:]] = -1
        elif most is not None:
            masked[mine[most:]] = NOT_ASKED
    return replace(shard, masked=masked)


def in_sample(rng: np.random.Generator, shard: Shard, config: AuditConfig) -> Shard:
    """What is known of a sample of `SAMPLED` texts: half of them random, half with words that are open there."""
    places, base = rng.random(len(shard)), sampled.BASE * SAMPLED / len(shard)
    random = places < base
    first = replace(shard, evidence=random)
    sums = tally(lambda: [first], config)
    verdicts = judge(lambda: [first], sums, config)
    told = zip(sums.present.tolist(), sums.flips.tolist(), verdicts.relative_effect.tolist(), strict=True)
    is_open = np.array([sampled.is_open(*one, config) for one in told], dtype=bool)
    is_open[list(verdicts.flagged)] = False
    if (sums.present[is_open] >= sampled.COMMON * sums.n_texts).any():
        random, is_open[:] = places < 2 * base, False
    of_open = np.isin(shard.keys, np.flatnonzero(is_open))  # the keys of one shard are the rows of its tally
    with_open = np.isin(np.arange(len(shard)), shard.texts[of_open])
    further = np.sort(places[with_open & ~random])
    n_more = max(0, SAMPLED - int(random.sum()))
    place = further[n_more] if len(further) > n_more else 1.0
    known = random[shard.texts] | (of_open & (places[shard.texts] < place))
    drawn = random | (with_open & (places < place))
    return replace(shard, evidence=drawn, compared=random, masked=np.where(known, shard.masked, NOT_ASKED))


def simulated_evidence(rng: np.random.Generator, classes: Array, priors: Array, unseen: tuple[int, float]) -> Array:
    """What the rest of each text says, as log-odds, shape (n, C): noise, and 4 for the class that it is taken for."""
    missed, share = unseen
    overlooked = (classes == missed) & (rng.random(len(classes)) < share)
    others = np.where(np.arange(len(priors)) == missed, 0, priors)
    taken_for = np.where(overlooked, rng.choice(len(priors), size=len(classes), p=others / others.sum()), classes)
    log_odds = rng.normal(size=(len(classes), len(priors)))
    log_odds[np.arange(len(classes)), taken_for] += 4
    log_odds[overlooked, missed] += 1.5
    return log_odds


def _answered(log_odds: Array, decided: Array) -> Array:
    """Class probabilities where a word, if any, adds 8 to the log-odds of its class."""
    from scipy.special import softmax

    raised = log_odds.copy()
    rows = np.flatnonzero(decided >= 0)
    raised[rows, decided[rows]] += 8
    probs: Array = softmax(raised, axis=1).astype(np.float32)
    return probs


WORLDS = (
    *("boundary", "similar", "fickle", "rare", "legitimate", "bystanders", "planted", "reversed", "synonyms"),
    *("beside", "exclusive", "rare, rests", "scarce"),
)
SIZES = dict.fromkeys(("rare", "rare, rests"), (2000, 2500, 3000)) | {"scarce": (1200, 1400, 1600)}
"""How many texts the corpora of a world have, where not 300, 1,000 and 5,000."""
CAP = 50
SAMPLED = 2000
"""Texts of a sample, a tenth of its corpus."""
PLANTED = {"planted": (1, 0.3), "reversed": (1, 0.8), "synonyms": (15, 0.12), "beside": (1, 0.5), "exclusive": (1, 0.5)}
"""How many planted words each world has, and how often each stands in a text of another class than its own."""


def simulated_trial(rng: np.random.Generator, world: str, n_texts: int, rounds: str = "none") -> Array:
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
    tilts = np.full(n_words, 1.0 if world in ("boundary", "similar", "fickle", *SIZES) else 3.0)
    if world == "similar":
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
    config = AuditConfig(unit="token", compare_with="rests" if world == "rare, rests" else "texts")
    if rounds == "sampled":
        shard = in_sample(rng, shard, config)
    elif rounds != "none":
        shard = in_rounds(rng, shard, CAP if rounds == "capped" else None)
    sums = tally(lambda: [shard], config)
    verdicts = with_set(lambda: [shard], sums, judge(lambda: [shard], sums, config), config)
    planted = {f"word{i}" for i in range(n_planted)}
    counts = []
    for found in (verdicts.flagged, np.flatnonzero(verdicts.alternative_wording), np.flatnonzero(verdicts.collective)):
        names = {sums.names[i] for i in found}
        counts.append((len(names - planted), len(names & planted)))
    return np.array(counts)


def cases(*, sampled: bool = False) -> list[dict[str, Any]]:
    """Every world, in its sizes."""
    if sampled:
        return [{"world": world, "n_texts": 10 * SAMPLED} for world in WORLDS]
    return [{"world": world, "n_texts": n} for world in WORLDS for n in SIZES.get(world, (300, 1000, 5000))]


def simulate(world: str, n_texts: int, *, trials: int, seed: int, rounds: str = "none") -> dict[str, Any]:
    """False alarms and planted words found over some corpora of one world and size."""
    rng = np.random.default_rng([seed, n_texts, *world.encode()])
    found = np.array([simulated_trial(rng, world, n_texts, rounds) for _ in range(trials)])
    flagged, either, any_of_three = found[:, 0], found[:, :2].sum(axis=1), found.sum(axis=1)
    alarms = int((flagged[:, 0] > 0).sum())
    # A group is a false alarm where nothing is planted, or no member of it.
    grouped = found[:, 2].sum(axis=1) > 0
    false_groups = int((grouped & (found[:, 2, 1] == 0)).sum())

    def planted_found(counts: Array) -> float | None:
        return float(counts[:, 1].mean()) / PLANTED[world][0] if world in PLANTED else None

    def rates(counts: Array) -> dict[str, float | None]:
        return {"false_discovery_rate": false_share(counts), "planted_found": planted_found(counts)}

    return {
        "corpora": trials,
        "corpora_with_a_false_alarm": alarms / trials,
        "interval": list(exact_interval(alarms, trials)),
        **rates(flagged),
        "with_those_that_take_turns": rates(either),
        "corpora_with_a_group": float(grouped.mean()),
        "corpora_with_a_false_group": false_groups / trials,
        "interval_of_false_groups": list(exact_interval(false_groups, trials)),
        "with_groups": rates(any_of_three),
    }


def false_share(found: Array) -> float:
    """Mean share of innocent words in what is found, none where nothing is; counts of shape (trials, 2)."""
    return float((found[:, 0] / np.maximum(1, found.sum(axis=1))).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and simulate what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not simulated again.")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", choices=("none", "two", "capped", "sampled"), default="none")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=WORLDS)
    args = parser.parse_args(arguments)
    head = {"alpha": AuditConfig().fdr, "seed": args.seed}
    head |= {} if args.rounds == "none" else {"rounds": args.rounds}
    measure = partial(simulate, trials=args.trials, seed=args.seed, rounds=args.rounds)
    asked = {**head, "trials": args.trials}
    chosen = [case for case in cases(sampled=args.rounds == "sampled") if case["world"] in args.worlds]
    for found in grow(args.out, chosen, measure, asked=asked, entries="worlds", beside=lambda _: head):
        shown = ("world", "n_texts", "corpora_with_a_false_alarm", "planted_found", "corpora_with_a_false_group")
        print({name: found[name] for name in shown}, flush=True)


if __name__ == "__main__":
    main()
