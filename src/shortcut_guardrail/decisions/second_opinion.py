"""Judging cards by a second model's answers to their flips.

The second model, the judge, need not be good. It has to be fit: on texts without the cards' words it agrees with the
deployed model more often than chance makes it. Its scores are centred for each pair of classes, where it agrees as
often with both of the model's answers. Of classes in an order, such as stars, each speaks for the nearer of the two. A
flip is mended where it gives the masked answer to the text with the words and without them; all others are broken.
`stats.second_opinion` tests the share of mended flips. A judge may say "shortcut", and never "genuine": one that
learned half of the same habit would say so falsely in most cases.
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
from ..typing import Array
from .judging import LEAST_FLIPS
from .opinion_record import Fitness, MachineOpinion, Rule
from .ordered import is_ordered, sides_of
from .sheet import AskedFlip, Sheet, Text, WordFree

LEVEL = 0.05
"""The q-value that decides: of all cards that a machine decides, at most so many are false."""
LEVEL_WITH_FIVE, LEVEL_OF_BOTH = 0.025, 0.15
"""Where five answers of people to flips of the card are known: the q-value that decides, and the one that does if at
least four of the five say mended. Under the null hypothesis that happens in 6 of 32 cards, so that both together are
wrong in .025 + .125 * 6/32 < .05."""
LEAST_AGREEMENT = 0.55
"""What the agreement of a fit judge is at least, with 95 % confidence."""
LEAST_SIDE = 25
"""Texts without the words on each side, with fewer of which nothing is known of a judge."""
LEAST_REFERENCES = 50
"""Texts that the reference rule rests on."""
LEAST_ANSWERS = 15
"""A person's answers to texts without the words, from which on they bound the judge's share."""
MOST_OUTSIDE = 1 / 3
"""The share of flips that may be without an answer for one of the two classes."""
_FARTHEST = 20.0  # from the middle, in log-odds; beyond it a judge is certain
_INFINITE = 1e9
_Z = 1.645  # of a one-sided level of 5 %

Pair = tuple[int, int]


def is_fit(says: Array, up: Array) -> bool:
    """Whether a judge agrees with the model enough to judge.

    Args:
        says: Whether the judge gives one of two answers to texts drawn at random, shape (n,), bool.
        up: Whether the model does.
    """
    share, error = agreement_share(says, up)
    return share - _Z * error >= LEAST_AGREEMENT


@dataclass(frozen=True)
class _Scores:
    """Log-probabilities of one source, by text."""

    name: str
    rows: Mapping[Text, int]
    values: Array
    ordered: bool = False

    def of(self, texts: Sequence[Text | None], pair: Pair) -> Array:
        """By how much what speaks for the second class of a pair is ahead, shape (n,); NaN without an answer."""
        first, second = sides_of(pair, self.values.shape[1], ordered=self.ordered)
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
        first, second = sides_of(pair, len(row), ordered=self.ordered)
        return bool(not np.isnan(row).any() and row.argmax() not in {*first, *second})


class _Scale(NamedTuple):
    """How the scores of a source are made those of a judge: cut at 0, with a spread of 1."""

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
class FitJudge:
    """The fit sources of one pair of classes as one judge, which gives the second answer above 0."""

    pair: Pair
    sources: tuple[_Scores, ...]
    scales: tuple[_Scale, ...]
    centre: float = 0.0

    def score(self, texts: Sequence[Text | None]) -> Array:
        """The mean of what the sources say, shape (n,); NaN where none answered."""
        each = [scale(source.of(texts, self.pair)) for source, scale in zip(self.sources, self.scales, strict=True)]
        answered = ~np.isnan(each)
        mean: Array = np.where(answered, each, 0.0).sum(axis=0) / np.maximum(answered.sum(axis=0), 1)
        return np.where(answered.any(axis=0), mean - self.centre, np.nan)


def judge_sheet(
    sheet: Sheet,
    scores: Mapping[str, Array],
    *,
    rule: Rule = "agreement",
    answers: Mapping[Text, bool] | None = None,
    five: Mapping[str, int] | None = None,
    refused: Mapping[str, str] | None = None,
) -> tuple[dict[str, MachineOpinion], dict[str, tuple[Fitness, ...]]]:
    """Judge every card of a sheet.

    Args:
        sheet: What was asked.
        scores: By source, log-probabilities of `sheet.texts`, shape (T, C); a row with NaN was not answered.
        rule: By which cards are decided; where a person answered enough texts of a direction, `answers` is taken there.
        answers: What a person said of texts near the boundary: whether the deployed model is right.
        five: By card, how many of the first five flips that people judged are mended; cards with fewer are left out.
        refused: Sources that may judge nothing, with the reason.

    Returns:
        By card what is said of it, and by source how fit it is for each pair of classes.
    """
    judges, fitness = fit_judges(sheet, scores, refused)
    cards: dict[str, list[AskedFlip]] = {}
    for flip in sheet.flips:
        cards.setdefault(flip.card, []).append(flip)
    bench = _Bench(sheet, judges, rule, answers or {})
    return _decided({card: bench.judge(flips) for card, flips in cards.items()}, five or {}), fitness


def fit_judges(
    sheet: Sheet, scores: Mapping[str, Array], refused: Mapping[str, str] | None = None
) -> tuple[dict[Pair, FitJudge], dict[str, tuple[Fitness, ...]]]:
    """Of each pair of classes the fit sources as one judge, and how fit every source is.

    Arguments: see `judge_sheet`.
    """
    rows = {text: i for i, text in enumerate(sheet.texts)}
    ordered = is_ordered(sheet.labels)
    sources = [_Scores(name, rows, np.asarray(values, dtype=np.float64), ordered) for name, values in scores.items()]
    fitness: dict[str, list[Fitness]] = {source.name: [] for source in sources}
    judges: dict[Pair, FitJudge] = {}
    for pair in sorted({one.pair for one in sheet.free}):
        found = [_fitness(source, sheet, pair, (refused or {}).get(source.name, "")) for source in sources]
        for source, (one, _) in zip(sources, found, strict=True):
            fitness[source.name].append(one)
        fit = [(source, scale) for source, (one, scale) in zip(sources, found, strict=True) if one.fit and scale]
        if fit:
            judges[pair] = _together(sheet, pair, fit)
    return judges, {name: tuple(of) for name, of in fitness.items()}


def _decided(opinions: Mapping[str, MachineOpinion], five: Mapping[str, int]) -> dict[str, MachineOpinion]:
    """The outcome of every card that could be tested, when all of them are taken together."""
    tested = [card for card, one in opinions.items() if not one.reason]
    adjusted = dict(zip(tested, fdr_q_values([opinions[card].p_value or 0.0 for card in tested]), strict=True))
    made = dict(opinions)
    for card, q_value in adjusted.items():
        taken = decides(q_value, five.get(card))
        reason = "" if taken else _side(opinions[card])
        made[card] = replace(opinions[card], q_value=q_value, outcome="shortcut" if taken else "open", reason=reason)
    return made


def _side(opinion: MachineOpinion) -> str:
    """Why a card that was tested is open."""
    n = opinion.mended + opinion.broken
    if opinion.mended * 2 < n:
        return (
            "The judges side with the model. A machine cannot call that genuine, since it may have learned the same "
            "habit."
        )
    return (
        f"{opinion.mended} of {n} mended is not clearly more than the {opinion.bound:.2f} that leaning alone may bring."
    )


def _drawn(sheet: Sheet, pair: Pair) -> tuple[list[Text], Array]:
    """The texts without the words that were drawn at random, and whether the model gives the second answer."""
    drawn = [one for one in sheet.free if one.drawn and one.pair == pair]
    return [one.text for one in drawn], np.array([one.answer == pair[1] for one in drawn], dtype=bool)


def _fitness(source: _Scores, sheet: Sheet, pair: Pair, refused: str) -> tuple[Fitness, _Scale | None]:
    """Whether a source may judge a pair of classes, and its scale."""
    names = (sheet.labels[pair[0]], sheet.labels[pair[1]])
    texts, up = _drawn(sheet, pair)
    values = source.of(texts, pair)
    answered = ~np.isnan(values)
    values, up = values[answered], up[answered]
    least = int(min(up.sum(), (~up).sum())) if len(up) else 0
    reason = refused or _unusable(values, least, len(texts))
    if reason:
        return Fitness(names, len(up), None, None, False, reason), None
    scale = _Scale.of(values, up)
    says = scale(values) > 0
    share, error = agreement_share(says, up)
    fit = is_fit(says, up)
    reason = "" if fit else _unfit_sentence(share, error, names)
    return Fitness(names, len(up), share, error, fit, reason), scale


def _unusable(values: Array, least: int, asked: int) -> str:
    if len(values) == 0 and asked:
        return "It answered nothing."
    if least < LEAST_SIDE:
        return (
            f"It answered {least} texts without the words on one side, and {LEAST_SIDE} are needed to know whether it "
            "is fit. Audit more texts."
        )
    return "It gives the same answer to every text." if float(values.std()) < 1e-9 else ""


def _unfit_sentence(share: float, error: float, names: tuple[str, str]) -> str:
    chance = " That is what a coin does." if share - _Z * error < 0.5 else ""
    return (
        f"It agrees with the model on {share:.2f} of texts without the words, give or take {_Z * error:.2f}, and "
        f"{LEAST_AGREEMENT:.2f} has to be certain.{chance} Describe the labels {enumerated(list(names))} to it, show "
        "it examples, take a larger model, or ask a person."
    )


def _together(sheet: Sheet, pair: Pair, fit: Sequence[tuple[_Scores, _Scale]]) -> FitJudge:
    """One judge of several, centred once more."""
    judge = FitJudge(pair, tuple(source for source, _ in fit), tuple(scale for _, scale in fit))
    texts, up = _drawn(sheet, pair)
    values = judge.score(texts)
    known = ~np.isnan(values)
    return replace(judge, centre=balanced_cut(values[known], up[known]))


@dataclass(frozen=True)
class _Bench:
    """The judges of all pairs, and the rule."""

    sheet: Sheet
    judges: Mapping[Pair, FitJudge]
    rule: Rule
    answers: Mapping[Text, bool]

    def judge(self, flips: Sequence[AskedFlip]) -> MachineOpinion:
        """What is said of the card of some flips."""
        directions: dict[Pair, list[AskedFlip]] = {}
        for flip in flips:
            directions.setdefault((flip.before, flip.after), []).append(flip)
        n, mended, unanswered, elsewhere = len(flips), 0, 0, 0
        names: dict[str, None] = {}
        bounds: dict[str, list[_Tested]] = {}
        low = high = 0.0
        for (before, after), some in directions.items():
            judge = self.judges.get((min(before, after), max(before, after)))
            if judge is None:
                unanswered += len(some)
                low, high = low - len(some) / n, high + len(some) / n
                continue
            names |= dict.fromkeys(source.name for source in judge.sources)
            votes = _votes(judge, some, after)
            near = self._near(judge, flips[0].card, after)
            mended, unanswered = mended + votes.after, unanswered + votes.none
            net = near.net_mended(votes, len(some))
            low, high = low + net[0] * len(some) / n, high + net[1] * len(some) / n
            elsewhere += sum(all(s.elsewhere(flip.text, judge.pair) for s in judge.sources) for flip in some)
            for name, bound in self._bounds(near, after).items():
                bounds.setdefault(name, []).append(_Tested(bound, len(some), votes.after))
        most = n * (1 - MOST_OUTSIDE)
        rules = {name: _test(n, of) for name, of in bounds.items() if sum(one.n for one in of) >= most}
        rule: Rule = "answers" if "answers" in rules else self.rule
        found = rules.get(rule)
        reason = self._untested(n, unanswered, elsewhere, rule, found)
        return MachineOpinion(
            tuple(names),
            rule,
            mended,
            n - mended,
            unanswered,
            found["bound"] if found else None,
            found["p_value"] if found else None,
            "open",
            reason,
            rules,
            at_stake=(max(low, -1.0), min(high, 1.0)) if names else None,
        )

    def _near(self, judge: FitJudge, card: str, after: int) -> _Near:
        near = [one for one in self.sheet.free if one.near and one.pair == judge.pair and card not in one.holds]
        scores = judge.score([one.text for one in near]) * (1 if after == judge.pair[1] else -1)
        near, scores = [one for one, s in zip(near, scores, strict=True) if not np.isnan(s)], scores[~np.isnan(scores)]
        return _Near(near, scores > 0, np.array([one.answer == after for one in near], dtype=bool))

    def _bounds(self, there: _Near, after: int) -> dict[str, Bound]:
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

    def _answer(self, one: WordFree, after: int) -> int:
        """Whether people say that a class is right for a text: 1 or 0, -1 where nobody was asked."""
        said = self.answers.get(one.text)
        return -1 if said is None else int(said == (one.answer == after))

    def _untested(self, n: int, unanswered: int, elsewhere: int, rule: Rule, found: Mapping[str, float] | None) -> str:
        """Why a card cannot be tested; empty where it can."""
        if not self.judges:
            return "No second opinion is fit to judge."
        if n < LEAST_FLIPS:
            return f"It has {n} flips, and fewer than {LEAST_FLIPS} cannot be decided: audit more texts."
        if unanswered > n * MOST_OUTSIDE:
            return f"No fit judge answered {unanswered} of its {n} flips."
        if elsewhere > n * MOST_OUTSIDE:
            return f"To {elsewhere} of its {n} flips the judges answer another class than the two in question."
        if found is None:
            return f"There are too few texts without its words near the model's boundary for the {rule} rule."
        return ""


def decides(q_value: float, five: int | None = None) -> bool:
    """Whether a second opinion decides a card, beside five answers of people if there are.

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


def _votes(judge: FitJudge, flips: Sequence[AskedFlip], after: int) -> _Votes:
    sign = 1 if after == judge.pair[1] else -1
    both = sign * np.array([judge.score([f.text for f in flips]), judge.score([f.without for f in flips])])
    none = np.isnan(both).any(axis=0)
    counts = ((both > 0).all(axis=0), (both <= 0).all(axis=0), none)
    return _Votes(*(int(each.sum()) for each in counts))


class _Near(NamedTuple):
    """Texts without the words near the boundary, of which the judge and the model may say "after", shape (m,) each."""

    texts: list[WordFree]
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
