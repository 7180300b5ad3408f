"""The rule by which classifiers' answers decide a card.

A classifier that answers, the judge, need not be good. It has to be qualified: on texts without the cards' words it
agrees with the deployed model more often than chance makes it. Its scores are centred for each pair of classes, where
it agrees as often with both of the model's predictions. Of classes in an order, such as stars, each speaks for the
nearer of the two. A flip is mended where the judge gives the masked prediction to the text with the words and without
them; all others are broken. `stats.second_opinion` tests the share of mended flips. A judge may say "shortcut", and
never "genuine": one that learned half of the same habit would say so falsely in most cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..data import enumerated
from ..stats import (
    Bound,
    agreement_bound,
    agreement_share,
    answers_bound,
    balanced_cut,
    fdr_q_values,
    mixed_bound,
    net_mended,
    p_of_bound,
    reference_bound,
)
from ..typing import Array, Text
from .answers import Answers
from .drawing import ReferenceText, pair_of
from .ordered import is_ordered, sides_of
from .people import LEAST_FLIPS
from .questions import Case, ForJudges
from .record import Qualification, Rule, SecondOpinion

LEVEL = 0.05
"""The q-value that decides: of all cards that judges decide, at most so many are false."""
LEVEL_WITH_FIVE, LEVEL_OF_BOTH = 0.025, 0.15
"""Where five answers of people to flips of the card are known: the q-value that decides, and the one that does if at
least four of the five say mended. Under the null hypothesis that happens in 6 of 32 cards, so that both together are
wrong in .025 + .125 * 6/32 < .05."""
LEAST_AGREEMENT = 0.55
"""What the agreement of a qualified judge is at least, with 95 % confidence."""
LEAST_SIDE = 25
"""Reference texts on each side, with fewer of which nothing is known of a judge."""
LEAST_REFERENCES = 50
"""Texts that the reference rule rests on."""
LEAST_ANSWERS = 15
"""A person's answers to reference texts, from which on they bound the judge's share."""
MOST_OUTSIDE = 1 / 3
"""The share of flips that may be without an answer for one of the two classes."""
_FARTHEST = 20.0  # from the middle, in log-odds; beyond it a judge is certain
_INFINITE = 1e9
_Z = 1.645  # of a one-sided level of 5 %

Pair = tuple[str, str]
"""Two classes, in the order of the labels."""


def is_qualified(says: Array, up: Array) -> bool:
    """Whether a judge agrees with the model enough to judge.

    Args:
        says: Whether the judge gives one of two classes to texts drawn at random, shape (n,), bool.
        up: Whether the model does.
    """
    share, error = agreement_share(says, up)
    return share - _Z * error >= LEAST_AGREEMENT


@dataclass(frozen=True)
class _Scores:
    """Log-probabilities of one classifier, by text."""

    name: str
    labels: tuple[str, ...]
    rows: Mapping[Text, int]
    values: Array

    def _sides(self, pair: Pair) -> tuple[list[int], list[int]]:
        ids = self.labels.index(pair[0]), self.labels.index(pair[1])
        return sides_of(ids, len(self.labels), ordered=is_ordered(self.labels))

    def of(self, texts: Sequence[Text | None], pair: Pair) -> Array:
        """By how much what speaks for the second class of a pair is ahead, shape (n,); NaN without an answer."""
        first, second = self._sides(pair)
        found = np.full(len(texts), np.nan)
        for i, text in enumerate(texts):
            if text is not None:
                row = self.values[self.rows[text]]
                if np.isnan(row).any():
                    continue
                ahead = np.logaddexp.reduce(row[second]) - np.logaddexp.reduce(row[first])
                found[i] = 0.0 if np.isnan(ahead) else np.clip(ahead, -_INFINITE, _INFINITE)
        return found

    def elsewhere(self, text: Text, pair: Pair) -> bool:
        """Whether its answer is a class that speaks for neither."""
        row = self.values[self.rows[text]]
        first, second = self._sides(pair)
        return bool(not np.isnan(row).any() and row.argmax() not in {*first, *second})


class _Scale(NamedTuple):
    """How the scores of a classifier are made those of a judge: cut at 0, with a spread of 1."""

    middle: float
    cut: float
    spread: float

    @classmethod
    def of(cls, values: Array, up: Array) -> _Scale:
        """From its scores on texts drawn at random, shape (n,), and whether the model gives the second answer."""
        middle = float(np.median(values))
        near = np.clip(values, middle - _FARTHEST, middle + _FARTHEST)
        return cls(middle, balanced_cut(near, up), max(float(near.std()), 1e-12))

    def __call__(self, values: Array) -> Array:
        near: Array = np.clip(values, self.middle - _FARTHEST, self.middle + _FARTHEST)
        return (near - self.cut) / self.spread


@dataclass(frozen=True)
class JointJudge:
    """The qualified judges of one pair of classes as one, which gives the second class above 0."""

    pair: Pair
    members: tuple[_Scores, ...]
    scales: tuple[_Scale, ...]
    centre: float = 0.0

    def score(self, texts: Sequence[Text | None]) -> Array:
        """The mean of what the members say, shape (n,); NaN where none answered."""
        each = [scale(member.of(texts, self.pair)) for member, scale in zip(self.members, self.scales, strict=True)]
        answered = ~np.isnan(each)
        mean: Array = np.where(answered, each, 0.0).sum(axis=0) / np.maximum(answered.sum(axis=0), 1)
        return np.where(answered.any(axis=0), mean - self.centre, np.nan)

    def sign(self, after: str) -> int:
        """1 where a score above 0 speaks for a class, else -1."""
        return 1 if after == self.pair[1] else -1


def opinions_of(
    asked: ForJudges,
    answers: Answers,
    *,
    rule: Rule = "agreement",
    right: Mapping[Text, bool] | None = None,
    five: Mapping[str, int] | None = None,
) -> tuple[dict[str, SecondOpinion], dict[str, tuple[Qualification, ...]]]:
    """Judge every card that classifiers were asked about.

    Args:
        asked: What they were asked.
        answers: Theirs.
        rule: By which cards are decided; where a person answered enough texts of a direction, `answers` is taken there.
        right: What a person said of reference texts: whether the deployed model is right.
        five: By card, how many of the first five flips that people judged are mended; cards with fewer are left out.

    Returns:
        By card what is said of it, and by judge its qualification for each pair of classes.
    """
    judges, qualifications = qualified_judges(asked, answers)
    cards: dict[str, list[Case]] = {}
    for case in asked.cases:
        cards.setdefault(case.card, []).append(case)
    bench = _Bench(asked, judges, rule, right or {})
    return _with_outcomes({card: bench.judge(cases) for card, cases in cards.items()}, five or {}), qualifications


def qualified_judges(
    asked: ForJudges, answers: Answers
) -> tuple[dict[Pair, JointJudge], dict[str, tuple[Qualification, ...]]]:
    """Of each pair of classes the qualified judges as one, and the qualification of every judge.

    Arguments: see `opinions_of`.
    """
    rows = {text: i for i, text in enumerate(answers.texts)}
    scores = [_Scores(name, asked.labels, rows, one.log_probs) for name, one in answers.judges.items()]
    qualifications: dict[str, list[Qualification]] = {name: [] for name in answers.judges}
    judges: dict[Pair, JointJudge] = {}
    pairs = {pair_of(one.answer, one.other, asked.labels) for one in asked.reference}
    for pair in sorted(pairs, key=lambda pair: [asked.labels.index(name) for name in pair]):
        texts, up = _drawn(asked, pair)
        qualified = []
        for one in scores:
            found, scale = _qualification(one, texts, up, pair, answers.judges[one.name].refused)
            qualifications[one.name].append(found)
            if found.qualified and scale is not None:
                qualified.append((one, scale))
        if qualified:
            judges[pair] = _together(pair, qualified, texts, up)
    return judges, {name: tuple(of) for name, of in qualifications.items()}


def _with_outcomes(opinions: Mapping[str, SecondOpinion], five: Mapping[str, int]) -> dict[str, SecondOpinion]:
    """The outcome of every card that could be tested, when all of them are taken together."""
    tested = [card for card, one in opinions.items() if not one.reason]
    adjusted = fdr_q_values([opinions[card].p_value or 0.0 for card in tested])
    made = dict(opinions)
    for card, q_value in zip(tested, adjusted, strict=True):
        taken = decides(q_value, five.get(card))
        reason = "" if taken else _why_open(opinions[card])
        made[card] = replace(opinions[card], q_value=q_value, outcome="shortcut" if taken else "open", reason=reason)
    return made


def _why_open(opinion: SecondOpinion) -> str:
    n = opinion.mended + opinion.broken
    if opinion.mended * 2 < n:
        return (
            "The judges side with the model. A machine cannot call that genuine, since it may have learned the same "
            "habit."
        )
    return (
        f"{opinion.mended} of {n} mended is not clearly more than the {opinion.bound:.2f} that leaning alone may bring."
    )


def _drawn(asked: ForJudges, pair: Pair) -> tuple[list[Text], Array]:
    """The reference texts that were drawn at random, and whether the model gives the second class."""
    drawn = [one for one in asked.reference if one.drawn and {one.answer, one.other} == set(pair)]
    return [one.text for one in drawn], np.array([one.answer == pair[1] for one in drawn], dtype=bool)


def _qualification(
    scores: _Scores, texts: Sequence[Text], up: Array, pair: Pair, refused: str
) -> tuple[Qualification, _Scale | None]:
    """Whether a classifier may judge a pair of classes, and its scale."""
    values = scores.of(texts, pair)
    answered = ~np.isnan(values)
    values, up = values[answered], up[answered]
    least = int(min(up.sum(), (~up).sum())) if len(up) else 0
    reason = refused or _unusable(values, least, len(texts))
    if reason:
        return Qualification(pair, len(up), None, None, False, reason), None
    scale = _Scale.of(values, up)
    says = scale(values) > 0
    share, error = agreement_share(says, up)
    qualified = is_qualified(says, up)
    reason = "" if qualified else _unqualified(share, error, pair)
    return Qualification(pair, len(up), share, error, qualified, reason), scale


def _unusable(values: Array, least: int, asked: int) -> str:
    if len(values) == 0 and asked:
        return "It answered nothing."
    if least < LEAST_SIDE:
        return (
            f"It answered {least} texts without the words on one side, and {LEAST_SIDE} are needed to know whether it "
            "is qualified. Audit more texts."
        )
    return "It gives the same answer to every text." if float(values.std()) < 1e-9 else ""


def _unqualified(share: float, error: float, pair: Pair) -> str:
    chance = " That is what a coin does." if share - _Z * error < 0.5 else ""
    return (
        f"It agrees with the model on {share:.2f} of texts without the words, give or take {_Z * error:.2f}, and "
        f"{LEAST_AGREEMENT:.2f} has to be certain.{chance} Describe the labels {enumerated(list(pair))} to it, show "
        "it examples, take a larger model, or ask a person."
    )


def _together(pair: Pair, qualified: Sequence[tuple[_Scores, _Scale]], texts: Sequence[Text], up: Array) -> JointJudge:
    """One judge of several, centred once more."""
    judge = JointJudge(pair, tuple(one for one, _ in qualified), tuple(scale for _, scale in qualified))
    values = judge.score(texts)
    known = ~np.isnan(values)
    return replace(judge, centre=balanced_cut(values[known], up[known]))


@dataclass(frozen=True)
class _Bench:
    """The judges of all pairs, and the rule."""

    asked: ForJudges
    judges: Mapping[Pair, JointJudge]
    rule: Rule
    right: Mapping[Text, bool]

    def judge(self, cases: Sequence[Case]) -> SecondOpinion:
        """What is said of the card of some flips."""
        directions: dict[Pair, list[Case]] = {}
        for case in cases:
            directions.setdefault((case.flip.before, case.flip.after), []).append(case)
        n, mended, unanswered, elsewhere = len(cases), 0, 0, 0
        names: dict[str, None] = {}
        bounds: dict[str, list[_Tested]] = {}
        low = high = 0.0
        for (before, after), some in directions.items():
            judge = self.judges.get(pair_of(before, after, self.asked.labels))
            if judge is None:
                unanswered += len(some)
                low, high = low - len(some) / n, high + len(some) / n
                continue
            names |= dict.fromkeys(member.name for member in judge.members)
            votes = _votes(judge, some, after)
            near = self._near(judge, cases[0].card, after)
            mended, unanswered = mended + votes.after, unanswered + votes.none
            net = near.net_mended(votes, len(some))
            low, high = low + net[0] * len(some) / n, high + net[1] * len(some) / n
            elsewhere += sum(all(member.elsewhere(case.text, judge.pair) for member in judge.members) for case in some)
            for name, bound in self._bounds(near, after).items():
                bounds.setdefault(name, []).append(_Tested(bound, len(some), votes.after))
        most = n * (1 - MOST_OUTSIDE)
        rules = {name: _test(n, of) for name, of in bounds.items() if sum(one.n for one in of) >= most}
        rule: Rule = "answers" if "answers" in rules else self.rule
        found = rules.get(rule)
        return SecondOpinion(
            tuple(names),
            rule,
            mended,
            n - mended,
            unanswered,
            found["bound"] if found else None,
            found["p_value"] if found else None,
            "open",
            self._untested(n, unanswered, elsewhere, rule, found),
            rules,
            at_stake=(max(low, -1.0), min(high, 1.0)) if names else None,
        )

    def _near(self, judge: JointJudge, card: str, after: str) -> _Near:
        pair = set(judge.pair)
        near = [
            one
            for one in self.asked.reference
            if one.near and {one.answer, one.other} == pair and card not in one.holds
        ]
        scores = judge.score([one.text for one in near]) * judge.sign(after)
        near, scores = [one for one, s in zip(near, scores, strict=True) if not np.isnan(s)], scores[~np.isnan(scores)]
        return _Near(near, scores > 0, np.array([one.answer == after for one in near], dtype=bool))

    def _bounds(self, there: _Near, after: str) -> dict[str, Bound]:
        """By every rule that there are texts enough for."""
        near, says, up = there
        found: dict[str, Bound] = {}
        if there.enough:
            found["agreement"] = agreement_bound(says, up)
        if up.sum() >= LEAST_REFERENCES:
            found["reference"] = reference_bound(says[up])
        # The reference rule supposes nothing of the other side, and so uses no answer to its texts.
        used = up if self.rule == "reference" else np.ones(len(up), dtype=bool)
        answered = np.array([self._answer(one, after) for one in near], dtype=int)
        if (answered[used] >= 0).sum() >= LEAST_ANSWERS:
            found["answers"] = answers_bound(says[used], up[used], answered[used])
        return found

    def _answer(self, one: ReferenceText, after: str) -> int:
        """Whether people say that a class is right for a text: 1 or 0, -1 where nobody was asked."""
        said = self.right.get(one.text)
        return -1 if said is None else int(said == (one.answer == after))

    def _untested(self, n: int, unanswered: int, elsewhere: int, rule: Rule, found: Mapping[str, float] | None) -> str:
        """Why a card cannot be tested; empty where it can."""
        if not self.judges:
            return "No judge is qualified."
        if n < LEAST_FLIPS:
            return f"It has {n} flips, and fewer than {LEAST_FLIPS} cannot be decided: audit more texts."
        if unanswered > n * MOST_OUTSIDE:
            return f"No qualified judge answered {unanswered} of its {n} flips."
        if elsewhere > n * MOST_OUTSIDE:
            return f"To {elsewhere} of its {n} flips the judges answer another class than the two in question."
        if found is None:
            return f"There are too few texts without its words near the model's boundary for the {rule} rule."
        return ""


def decides(q_value: float, five: int | None = None) -> bool:
    """Whether judges decide a card, beside five answers of people if there are.

    Args:
        q_value: Its p-value, adjusted for all cards that were asked about.
        five: How many of five flips people call mended; `None` where nobody was asked.
    """
    if five is None:
        return q_value <= LEVEL
    return q_value <= LEVEL_WITH_FIVE or (five >= 4 and q_value <= LEVEL_OF_BOTH)


class _Votes(NamedTuple):
    """Flips to which a judge gives the masked answer, with the words and without; the model's own both times; none."""

    after: int
    before: int
    none: int


def _votes(judge: JointJudge, cases: Sequence[Case], after: str) -> _Votes:
    scores = judge.score([case.text for case in cases]), judge.score([case.without for case in cases])
    both = judge.sign(after) * np.array(scores)
    none = np.isnan(both).any(axis=0)
    counts = ((both > 0).all(axis=0), (both <= 0).all(axis=0), none)
    return _Votes(*(int(each.sum()) for each in counts))


class _Near(NamedTuple):
    """Reference texts near the boundary, of which the judge and the model may say "after", shape (m,) each."""

    texts: list[ReferenceText]
    says: Array
    up: Array

    @property
    def enough(self) -> bool:
        """Whether there are enough on both sides."""
        return bool(min(self.up.sum(), (~self.up).sum()) >= LEAST_SIDE)

    def net_mended(self, votes: _Votes, n: int) -> tuple[float, float]:
        """See `stats.net_mended`; anything is possible where there are too few texts."""
        return net_mended(votes.after, votes.before, n, self.says, self.up) if self.enough else (-1.0, 1.0)


class _Tested(NamedTuple):
    """The flips of one direction that has a bound."""

    bound: Bound
    n: int
    mended: int


def _test(n: int, directions: Sequence[_Tested]) -> dict[str, float]:
    """Bound and p-value; flips of directions without a bound count as broken."""
    total = sum(one.n for one in directions)
    bound = mixed_bound([one.bound for one in directions], [one.n / total for one in directions])
    return {"bound": bound.value, "p_value": p_of_bound(sum(one.mended for one in directions), n, bound)}
