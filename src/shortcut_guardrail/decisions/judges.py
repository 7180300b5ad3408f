"""The rule by which classifiers' answers decide a card.

A classifier that answers, the judge, need not be good. It has to be qualified: on texts without the cards' words it
agrees with the deployed model more often than chance makes it. Its scores are centred for each pair of classes, where
it agrees as often with both of the model's predictions. Of classes in an order, such as stars, each speaks for the
nearer of the two. A flip is fixed where the judge gives the masked prediction to the text with the words and without
them; all others are broken. `stats.second_model` tests the share of fixed flips. A judge may say "shortcut", and
never "legitimate": one that learned half of the same habit would say so falsely in most cases.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..data import enumerated
from ..stats import (
    Bound,
    agreement_bound,
    agreement_share,
    balanced_cut,
    fdr_q_values,
    mixed_bound,
    net_fixed,
    p_of_bound,
    reference_bound,
)
from ..typing import Array, Text
from .answers import Answers
from .drawing import pair_of
from .questions import Case, ForJudges
from .record import Qualification, Rule, SecondModelResult

LEVEL = 0.05
"""The q-value that decides: of all cards that judges decide, at most so many are false."""
LEAST_AGREEMENT = 0.55
"""What the agreement of a qualified judge is at least, with 95 % confidence."""
LEAST_SIDE = 25
"""Reference texts on each side, with fewer of which nothing is known of a judge."""
LEAST_REFERENCES = 50
"""Texts that the reference rule rests on."""
MOST_OUTSIDE = 1 / 3
"""The share of flips that may be without an answer for one of the two classes."""
_FARTHEST = 20.0  # from the middle, in log-odds; beyond it a judge is certain
_Z = 1.645  # of a one-sided level of 5 %
_RANK = re.compile(r"(\d{1,4})[\s_-]{1,3}[^\W\d_]{1,40}")

Pair = tuple[str, str]
"""Two classes, in the order of the labels."""


def opinions_of(
    asked: ForJudges, answers: Answers, shares: Mapping[str, float], *, rule: Rule = "agreement"
) -> tuple[dict[str, SecondModelResult], dict[str, tuple[Qualification, ...]]]:
    """Judge every card that classifiers were asked about.

    Args:
        shares: By card, the share of the audited texts that its flips are; empty where that is not known.
    """
    rows = {text: i for i, text in enumerate(answers.texts)}
    judges: dict[Pair, _Judges] = {}
    qualifications: dict[str, tuple[Qualification, ...]] = dict.fromkeys(answers.judges, ())
    pairs = {pair_of(one.answer, one.other, asked.labels) for one in asked.reference}
    for pair in sorted(pairs, key=lambda pair: [asked.labels.index(name) for name in pair]):
        found, together = _qualified(pair, asked, answers, rows)
        qualifications = {name: (*before, found[name]) for name, before in qualifications.items()}
        if together is not None:
            judges[pair] = together
    cards: dict[str, list[Case]] = {}
    for case in asked.cases:
        cards.setdefault(case.card, []).append(case)
    bench = _Bench(asked, rows, judges, rule)
    opinions = {card: bench.judge(cases, shares.get(card)) for card, cases in cards.items()}
    return _with_outcomes(opinions), qualifications


def _with_outcomes(opinions: Mapping[str, SecondModelResult]) -> dict[str, SecondModelResult]:
    """The outcome of every card that could be tested, when all of them are taken together.

    Cards weigh as their flips do: nobody saw yet what a judge says when their number is known, and on few flips little
    can be found. Against other weights and a fixed order see `bench/experiments/second_model_levels`.
    """
    tested = {card: one for card, one in opinions.items() if not one.reason}
    p_values = [one.p_value or 0.0 for one in tested.values()]
    adjusted = fdr_q_values(p_values, [one.fixed + one.broken for one in tested.values()])
    made = dict(opinions)
    for (card, one), q_value in zip(tested.items(), adjusted, strict=True):
        found = replace(one, q_value=q_value, outcome="shortcut" if q_value <= LEVEL else "open")
        made[card] = replace(found, reason="" if q_value <= LEVEL else _why_open(found, len(tested)))
    return made


def _why_open(opinion: SecondModelResult, cards: int) -> str:
    """Why a card is open that was tested with others, also where something is at stake."""
    assert opinion.p_value is not None
    assert opinion.q_value is not None
    n, gain = opinion.fixed + opinion.broken, ""
    if opinion.at_stake is not None and opinion.at_stake[0] > 0:
        low, high = (100 * share for share in opinion.at_stake)
        gain = f"At stake is between {low:+.1f} and {high:+.1f} right predictions in 100, but "
    if opinion.p_value <= LEVEL:
        q_value = max(float(f"{opinion.q_value:.2g}"), LEVEL + 0.001)  # also where it would be rounded to the level
        return f"{gain}{cards} word groups are tested together, and for this one q = {q_value:g} is above {LEVEL}."
    if opinion.fixed * 2 >= n:
        return (
            f"{gain}{opinion.fixed} of {n} fixed is not clearly more than the {opinion.bound:.2f} that a biased "
            "second model may reach."
        )
    if gain:
        return (
            f"{gain}only {opinion.fixed} of {n} predictions are fixed whether the second model sees the words or not."
        )
    return (
        "The second models agree with your model. That does not show that the words are legitimate: they may have "
        "learned the same shortcut."
    )


# Which judges are qualified


@dataclass(frozen=True)
class _Judges:
    """The qualified judges of one pair of classes as one.

    Of each of the T texts they have the mean of their scores, above 0 for the second class and NaN where none answered,
    and whether all of them answer a class that speaks for neither.
    """

    pair: Pair
    names: tuple[str, ...]
    scores: Array
    elsewhere: Array

    def towards(self, name: str) -> Array:
        """The scores, above 0 for one of the two classes."""
        return self.scores if name == self.pair[1] else -self.scores


def _qualified(
    pair: Pair, asked: ForJudges, answers: Answers, rows: Mapping[Text, int]
) -> tuple[dict[str, Qualification], _Judges | None]:
    """The qualification of every judge for a pair of classes, by what it says of texts sampled at random."""
    drawn = [one for one in asked.reference if one.drawn and {one.answer, one.other} == set(pair)]
    at = np.array([rows[one.text] for one in drawn], dtype=int)
    up = np.array([one.answer == pair[1] for one in drawn], dtype=bool)
    ids = asked.labels.index(pair[0]), asked.labels.index(pair[1])
    first, second = sides_of(ids, len(asked.labels), ordered=is_ordered(asked.labels))
    found: dict[str, Qualification] = {}
    scores, elsewhere = [], []
    for name, judge in answers.judges.items():
        given = ~np.asarray(np.isnan(judge.log_probs).any(axis=1))
        logs = np.where(given[:, None], judge.log_probs, 0.0)
        ahead = np.logaddexp.reduce(logs[:, second], axis=1) - np.logaddexp.reduce(logs[:, first], axis=1)
        own = np.where(given, ahead, np.nan)
        found[name], scaled = _qualification(pair, own, at, up, judge.refused)
        if found[name].qualified:
            scores.append(scaled)
            elsewhere.append(given & ~np.isin(logs.argmax(axis=1), [*first, *second]))
    if not scores:
        return found, None
    answered: Array = ~np.isnan(scores)
    mean = np.where(answered, scores, 0.0).sum(axis=0) / np.maximum(answered.sum(axis=0), 1)
    known = np.asarray(answered.any(axis=0))
    centre = balanced_cut(mean[at][known[at]], up[known[at]])
    names = tuple(name for name, one in found.items() if one.qualified)
    return found, _Judges(pair, names, np.where(known, mean - centre, np.nan), np.all(elsewhere, axis=0))


def _qualification(pair: Pair, scores: Array, at: Array, up: Array, refused: str) -> tuple[Qualification, Array]:
    """Whether a judge may judge a pair of classes, and its scores cut where it does not lean, with a spread of 1.

    Scores (T,) say by how much what speaks for the second class is ahead. Texts `at` (n,) of these were drawn at
    random, and the model gives the second class to those that are `up` (n,).
    """
    answered = ~np.isnan(scores[at])
    values, up = scores[at][answered], up[answered]
    if reason := refused or _unusable(values, up, len(at)):
        return Qualification(pair, len(up), None, None, False, reason), scores
    middle = float(np.median(values))
    near = np.clip(scores, middle - _FARTHEST, middle + _FARTHEST)
    values = near[at][answered]
    scaled: Array = (near - balanced_cut(values, up)) / max(float(values.std()), 1e-12)
    share, error = agreement_share(scaled[at][answered] > 0, up)
    qualified = share - _Z * error >= LEAST_AGREEMENT
    reason = "" if qualified else _unqualified(share, error, pair)
    return Qualification(pair, len(up), share, error, qualified, reason), scaled


def _unusable(values: Array, up: Array, asked: int) -> str:
    if len(values) == 0 and asked:
        return "It answered nothing."
    if (least := int(min(up.sum(), (~up).sum()))) < LEAST_SIDE:
        return (
            f"It answered {least} texts without the words on one side, and {LEAST_SIDE} are needed to know whether it "
            "is qualified. Audit more texts."
        )
    return "It predicts the same class for every text." if float(values.std()) < 1e-9 else ""


def _unqualified(share: float, error: float, pair: Pair) -> str:
    chance = " That is what a coin does." if share - _Z * error < 0.5 else ""
    return (
        f"It agrees with the model on {share:.2f} of texts without the words, give or take {_Z * error:.2f}, and "
        f"{LEAST_AGREEMENT:.2f} has to be certain.{chance} Describe the labels {enumerated(list(pair))} to it, show "
        "it examples, take a larger model, or ask a person."
    )


# Classes in an order


def is_ordered(labels: Sequence[str]) -> bool:
    """Whether labels are in an order: three or more, each a number and a word, and the numbers ascend.

    Numbers alone do not count, since they may be the numbers of classes in no order.

    Example:
        >>> is_ordered(["1 star", "2 stars", "3 stars"]), is_ordered(["0", "1", "2"])
        (True, False)
    """
    found = [_RANK.fullmatch(label.strip()) for label in labels]
    ranks = [int(match[1]) for match in found if match]
    return 3 <= len(labels) == len(ranks) and all(a < b for a, b in pairwise(ranks))


def sides_of(pair: tuple[int, int], n_classes: int, *, ordered: bool) -> tuple[list[int], list[int]]:
    """The classes that speak for the one and the other of two: in an order the nearer ones, otherwise these two.

    A class as near to both speaks for neither.
    """
    if not ordered:
        return [pair[0]], [pair[1]]
    nearer = [abs(c - pair[0]) - abs(c - pair[1]) for c in range(n_classes)]
    return [c for c, d in enumerate(nearer) if d < 0], [c for c, d in enumerate(nearer) if d > 0]


# What they say of a card


@dataclass(frozen=True)
class _Bench:
    """The judges of all pairs, the rows of the texts that they answered, and the rule."""

    asked: ForJudges
    rows: Mapping[Text, int]
    judges: Mapping[Pair, _Judges]
    rule: Rule

    def judge(self, cases: Sequence[Case], share: float | None) -> SecondModelResult:
        """What is said of the card of some flips, which are a share of the audited texts."""
        directions: dict[Pair, list[Case]] = {}
        for case in cases:
            directions.setdefault((case.flip.before, case.flip.after), []).append(case)
        n, fixed, unanswered, elsewhere = len(cases), 0, 0, 0
        names: dict[str, None] = {}
        tested: dict[str, list[tuple[Bound, int, int]]] = {}
        low = high = 0.0
        for (before, after), some in directions.items():
            net = -1.0, 1.0  # anything is possible where nobody tells
            if judges := self.judges.get(pair_of(before, after, self.asked.labels)):
                names |= dict.fromkeys(judges.names)
                kept, left, none = self._votes(judges, some, after)
                fixed, unanswered = fixed + kept, unanswered + none
                elsewhere += sum(bool(judges.elsewhere[self.rows[case.text]]) for case in some)
                says, up = self._near(judges, cases[0].card, after)
                if _both_sides(up):
                    net = net_fixed(kept, left, len(some), says, up)
                for name, bound in _bounds(says, up).items():
                    tested.setdefault(name, []).append((bound, len(some), kept))
            else:
                unanswered += len(some)
            low, high = low + net[0] * len(some) / n, high + net[1] * len(some) / n
        most = n * (1 - MOST_OUTSIDE)
        rules = {name: _test(n, of) for name, of in tested.items() if sum(flips for _, flips, _ in of) >= most}
        found = rules.get(self.rule)
        return SecondModelResult(
            tuple(names),
            self.rule,
            fixed,
            n - fixed,
            unanswered,
            found["bound"] if found else None,
            found["p_value"] if found else None,
            "open",
            self._untested(n, unanswered, elsewhere, found),
            rules,
            at_stake=(max(low, -1.0) * share, min(high, 1.0) * share) if names and share is not None else None,
        )

    def _votes(self, judges: _Judges, cases: Sequence[Case], after: str) -> tuple[int, int, int]:
        """Flips to which judges give the masked answer, with the words and without; the model's own both times; none.

        Of a text with nothing but the words, nothing is left to ask about.
        """
        scores = judges.towards(after)
        sides = [(case.text, case.without) for case in cases]
        both = np.array([[np.nan if text is None else scores[self.rows[text]] for text in side] for side in sides])
        votes = (both > 0).all(axis=1), (both <= 0).all(axis=1), np.isnan(both).any(axis=1)
        return int(votes[0].sum()), int(votes[1].sum()), int(votes[2].sum())

    def _near(self, judges: _Judges, card: str, after: str) -> tuple[Array, Array]:
        """Whether the judges and the model say "after" of m reference texts near the boundary, (m,) each."""
        pair, scores = set(judges.pair), judges.towards(after)
        near = [
            one
            for one in self.asked.reference
            if one.near and {one.answer, one.other} == pair and card not in one.holds
            if not np.isnan(scores[self.rows[one.text]])
        ]
        says = np.array([scores[self.rows[one.text]] > 0 for one in near], dtype=bool)
        return says, np.array([one.answer == after for one in near], dtype=bool)

    def _untested(self, n: int, unanswered: int, elsewhere: int, found: Mapping[str, float] | None) -> str:
        """Why a card cannot be tested; empty where it can."""
        if not self.judges:
            return "No second model is qualified."
        if unanswered > n * MOST_OUTSIDE:
            return f"No qualified second model gave a prediction for {unanswered} of its {n} texts."
        if elsewhere > n * MOST_OUTSIDE:
            return f"To {elsewhere} of its {n} texts the second models predict another class than the two in question."
        if found is None:
            return f"There are too few texts without its words near the model's boundary for the {self.rule} rule."
        return ""


def _bounds(says: Array, up: Array) -> dict[str, Bound]:
    """By every rule that there are texts enough for."""
    found: dict[str, Bound] = {}
    if _both_sides(up):
        found["agreement"] = agreement_bound(says, up)
    if up.sum() >= LEAST_REFERENCES:
        found["reference"] = reference_bound(says[up])
    return found


def _both_sides(up: Array) -> bool:
    return bool(min(up.sum(), (~up).sum()) >= LEAST_SIDE)


def _test(n: int, directions: Sequence[tuple[Bound, int, int]]) -> dict[str, float]:
    """Bound and p-value, of directions that have a bound, each with its flips and fixed ones; others are broken."""
    bounds, flips, fixed = zip(*directions, strict=True)
    bound = mixed_bound(list(bounds), [one / sum(flips) for one in flips])
    return {"bound": bound.value, "p_value": p_of_bound(sum(fixed), n, bound)}
