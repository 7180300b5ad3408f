"""A statement that the repaired model is no worse than the original one, at a proved error rate for all strengths.

Let D be the share of texts whose predictions differ, and theta the share of lost ones among those lost or gained. Then

    loss <= D max(0, 2 theta - 1).

Unlabelled texts bound D and labelled ones theta (Clopper-Pearson, with the union bound). A strength passes if the
product of the bounds does not exceed the margin. The strengths are tested in two fixed orders, upward and downward.
Each has half of the error and stops at the first strength that fails. `CertifyConfig.looks` certificates share the
error. The gain is bounded from below in the same way, by a statement of its own that holds for all strengths.

docs/explanation/certificates.md has the argument and the assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Annotated, Any, Literal

import numpy as np

from ..config import CertifyConfig
from ..data import Count, NotEmpty, Share
from ..display import Shown, Summary, spread
from ..errors import ConfigError, DataError
from ..typing import Array

_OF_TEXTS = (
    "The certificate assumes that the unlabelled texts are an independent random sample of the texts that the "
    "model will see, and that none of them was used to fit the repair or to choose its words."
)
_OF_LABELS = (
    " The labelled texts are one too, or a random sample of the unlabelled texts on which the two models "
    "differ at some strength. Their number was not chosen by what their labels say."
)
_OF_LOOKS = (
    " Margin and confidence were fixed before, and so was the number of certificates. It says nothing of texts of "
    "another kind."
)

DERIVED = ("certified", "sentence", "assumptions")
"""What a certificate says beyond its fields."""

METHOD = "fixed-sequence tests of Clopper-Pearson bounds, from strength 0 upward and from the largest downward"

# The shares of a test's error that its bound of D and its bound of theta may spend. Unlabelled texts are plenty and
# labels are scarce, so the labels get more.
_ERROR_OF_DIFFERENCES = 0.1

_MOST_TEXTS = 1_000_000


@dataclass(frozen=True)
class CertifiedStrength:
    """What is known about one strength.

    Attributes:
        differing: Unlabelled texts whose prediction differs from the original model's.
        labelled: Labelled texts whose prediction differs.
        gained: Of those, texts that are right and were wrong.
        lost: Of those, texts that are wrong and were right.
        loss_bound: Upper bound of the loss, as a share of all texts; see `CertifyConfig.harm`.
        certified: Whether this strength is certified. A bound below the margin is not enough: every strength before it,
            in one of the two orders, has to have one as well.
        labels_needed: How many labelled texts with another prediction would bring the bound below the margin, if the
            shares of gained and lost ones stay as they are. Without any so far, all count as gained. 0 if the bound is
            below the margin; `None` if no number is enough.
        unlabelled_needed: How many unlabelled texts would do so without a label, if the share of differing ones stays
            as it is; 0 and `None` likewise.
        gain_bound: Lower bound of the accuracy gained, as a share of all texts, by a statement of its own with the same
            confidence, which holds for all strengths at once; `None` if no gain is shown.
    """

    strength: Share
    differing: Count
    labelled: Count
    gained: Count
    lost: Count
    loss_bound: Share
    certified: bool
    labels_needed: Count | None
    unlabelled_needed: Count | None
    gain_bound: Share | None = None


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """Which strengths are certified to be no worse than the original model by more than a margin; see `CertifyConfig`.

    Attributes:
        n_labels: Labelled texts, whether their predictions differ or not.
        points: The strengths above 0, ascending.
        n_fitted: How many of these texts the repair was fitted on. If any, nothing is shown for others.
        in_use: The strength in use before; `None` if that is not known.
        strength: The strength chosen among 0 and the certified ones; `None` if none was chosen yet.
    """

    margin: Share
    confidence: Share
    harm: Literal["net", "harmed"]
    method: str
    n_unlabelled: Count
    n_labels: Count
    looks: Count
    points: Annotated[tuple[CertifiedStrength, ...], NotEmpty()]
    n_fitted: Count = 0
    in_use: Share | None = None
    strength: Share | None = None

    @property
    def certified(self) -> tuple[float, ...]:
        """The certified strengths, ascending; 0, the original model, is always one."""
        return (0.0, *(point.strength for point in self.points if point.certified))

    @property
    def sentence(self) -> str:
        """The statement, for a model card or a report."""
        margin, confidence = _percent(self.margin), _percent(self.confidence)
        planned = f" (one of {self.looks} planned certificates, which share the error)" if self.looks > 1 else ""
        if len(self.certified) == 1:
            return (
                f"No strength above 0 could be certified: it was not shown with {confidence} confidence that "
                f"{_HARM[self.harm]} is at most {margin}{planned}. {self._what_would_do()}"
            )
        # Nothing of the strength in use, which may change while this holds on.
        shown = (
            f"With {confidence} confidence, {_HARM[self.harm]} at {self._ranges} is at most "
            f"{margin}, as shown by {self.n_unlabelled} unlabelled and {self.n_labels} labelled texts{planned}."
            f"{self._what_is_gained}"
        )
        if self.n_fitted:
            shown += f" But the repair was fitted on {self.n_fitted} of these texts, so nothing is shown for others."
        return shown

    @property
    def _what_is_gained(self) -> str:
        """At the strength chosen, or else at the one that surely gains most, after a space; nothing without labels."""
        if not self.n_labels:
            return ""
        if not (shown := {p.strength: p.gain_bound for p in self.points if p.gain_bound and p.certified}):
            return " No gain in accuracy is shown."
        at = self.strength if self.strength in shown else max(shown, key=lambda strength: shown[strength])
        return f" With the same confidence, the accuracy gained at strength {at:g} is at least {_percent(shown[at])}."

    @property
    def _ranges(self) -> str:
        """The certified strengths; of three and more that follow each other the first and the last."""
        runs = [[f"{p.strength:g}" for p in run] for ok, run in groupby(self.points, lambda p: p.certified) if ok]
        said = [one for run in runs for one in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else run)]
        listed = " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)
        return f"strength{'s' * (len(self.certified) > 2)} {listed}"

    @property
    def assumptions(self) -> str:
        """Its assumptions, in words."""
        return _OF_TEXTS + (_OF_LABELS if self.n_labels else "") + _OF_LOOKS

    def _summary(self) -> Summary:
        shown = spread(self.points, () if self.strength is None else (self.strength,), 5)
        marks, none = ("", "certified"), len(self.certified) == 1
        facts = {
            "certified": "no strength above 0" if none else self._ranges,
            "texts": f"{self.n_unlabelled:,} unlabelled, {self.n_labels:,} labelled",
        }
        if self.strength is not None:
            facts["chosen"] = f"{self.strength:g}"
        return Summary(
            f"Certificate: loss of at most {_percent(self.margin)} with {_percent(self.confidence)} confidence",
            facts,
            (">strength", ">differing", ">labelled", ">gained", ">lost", ">loss max", ">gain min", ""),
            [
                (
                    *(f"{p.strength:g}", p.differing, p.labelled, p.gained, p.lost, p.loss_bound, p.gain_bound),
                    marks[p.certified],
                )
                for p in shown
            ],
            more=len(self.points) - len(shown),
            notes=(self.sentence,),
        )

    def _what_would_do(self) -> str:
        """What to collect for the strength that was in use, or else the largest."""
        at = next((i for i, point in enumerate(self.points) if point.strength == self.in_use), len(self.points) - 1)
        goal, paths = self.points[at], (self.points[: at + 1], self.points[at:])
        labels = _cheapest(paths, goal, self._rows_needed)
        texts = _cheapest(paths, goal, lambda point: point.unlabelled_needed)
        ways = []
        if labels is not None and goal.differing:
            more = "" if labels[1] is goal else f" (so many for {labels[1].strength:g}, which is tested before it)"
            ways.append(self._asked_for(*labels) + more)
        if texts is not None:
            ways.append(f"about {texts[0]} unlabelled texts and no label, if the models differ on no more of them")
        said = f"For strength {goal.strength:g} it would take {', or '.join(ways)}." if ways else _MORE_OF_THE_SAME
        less = self._what_asks_for_less(at, math.inf if labels is None else labels[0])
        return " ".join((said, *less, *([_A_NEW_SAMPLE] if ways or less else [])))

    def _what_asks_for_less(self, at: int, labels: float) -> list[str]:
        """The strongest weaker strength that takes at most half of the labels, and the margin that was shown."""
        goal, ways = self.points[at], []
        for i in reversed(range(at)):
            found = _cheapest((self.points[: i + 1],), self.points[i], self._rows_needed)
            if found is not None and 0 < found[0] <= labels / 2:
                asked = self._asked_for(*found).removesuffix(f" sampled like the {self.n_labels} seen so far")
                ways.append(f"Strength {self.points[i].strength:g} would take {asked}.")
                break
        bound = min(max(point.loss_bound for point in path) for path in (self.points[: at + 1], self.points[at:]))
        if goal.labelled and bound < 1:
            margin = _percent(math.ceil(1000 * bound) / 1000)
            ways.append(f"With a margin of {margin}, strength {goal.strength:g} would have passed.")
        return ways

    def _asked_for(self, count: int, hardest: CertifiedStrength) -> str:
        """So many labelled texts, and of which kind: a strength without any so far is only known by its texts."""
        if hardest.labelled:
            return f"about {count} labelled texts sampled like the {self.n_labels} seen so far"
        at = f"whose prediction at strength {hardest.strength:g} differs"
        return f"about {count} labelled texts {at}, if all of those are fixed"

    def _rows_needed(self, point: CertifiedStrength) -> int | None:
        """How many texts to label, for as many of them to get another answer as the strength needs.

        Of those labelled so far only `labelled` do. Where none does, only those are counted that get another answer.
        """
        if not point.labels_needed or not point.labelled:
            return point.labels_needed
        return math.ceil(point.labels_needed * self.n_labels / point.labelled)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        said = {name: getattr(self, name) for name in DERIVED}
        return {**asdict(self), "points": [asdict(point) for point in self.points], **said}


_MORE_OF_THE_SAME = "More texts like those seen so far would not change that."
_A_NEW_SAMPLE = "Use a new sample: adding to this one until it passes is not valid, unless you planned that many looks."
_HARM = {
    "net": "the accuracy lost against the original model",
    "harmed": "the share of texts that only the original model predicts rightly",
}


def _cheapest(
    paths: Sequence[Sequence[CertifiedStrength]],
    goal: CertifiedStrength,
    needed: Callable[[CertifiedStrength], int | None],
) -> tuple[int, CertifiedStrength] | None:
    """What the less demanding path asks for, and its strength that asks for most, of equals the goal; `None` if neither
    can be gone."""
    steps = [[(needed(point), point) for point in path] for path in paths]
    hardest = [
        max(((count or 0, point) for count, point in path), key=lambda step: (step[0], step[1] is goal))
        for path in steps
        if all(count is not None for count, _ in path)
    ]
    return min(hardest, key=lambda step: step[0], default=None)


def _percent(share: float) -> str:
    """All digits that matter: a confidence of .999 is not 100%."""
    return f"{100 * share:.10g}%"


def certify_answers(
    strengths: Sequence[float],
    config: CertifyConfig,
    *,
    unlabelled_base: Array,
    unlabelled_guarded: Array,
    labelled_base: Array,
    labelled_guarded: Array,
    labels: Array,
) -> Certificate:
    """Certify strengths from predictions; see the head of this module for procedure and assumptions.

    Args:
        strengths: S strengths above 0, ascending, fixed before any text was seen.
        unlabelled_base: The original model's predictions for N unlabelled texts, shape (N,).
        unlabelled_guarded: The repaired model's predictions for them at each strength, shape (S, N).
        labelled_base: The original model's predictions for n labelled texts, shape (n,).
        labelled_guarded: The repaired model's predictions for them at each strength, shape (S, n).
    """
    if not len(strengths):
        raise ConfigError(
            "A certificate is for strengths above 0, but the grid of this repair has none. Add some to it."
        )
    if not len(unlabelled_base):
        raise DataError("A certificate needs unlabelled texts from the deployment, but there is none.")
    right, base_right = labelled_guarded == labels, labelled_base == labels
    return certify_counts(
        strengths,
        config,
        n_unlabelled=len(unlabelled_base),
        n_labels=len(labels),
        differing=(unlabelled_guarded != unlabelled_base).sum(axis=1),
        labelled=(labelled_guarded != labelled_base).sum(axis=1),
        gained=(right & ~base_right).sum(axis=1),
        lost=(~right & base_right).sum(axis=1),
    )


def certify_counts(
    strengths: Sequence[float],
    config: CertifyConfig,
    *,
    n_unlabelled: int,
    n_labels: int,
    differing: Array,
    labelled: Array,
    gained: Array,
    lost: Array,
) -> Certificate:
    """The same from counts at each of S strengths, all of shape (S,); the fields of `CertifiedStrength` say which."""
    level = (1.0 - config.confidence) / config.looks / 2  # for each of the two orders
    share = upper_bound(differing, n_unlabelled, _ERROR_OF_DIFFERENCES * level)
    bound = _loss_bound(share, labelled, gained, lost, (1 - _ERROR_OF_DIFFERENCES) * level, config.harm)
    gain = _gain_bound(differing, n_unlabelled, labelled, gained, lost, 2 * level / len(strengths))
    passes = bound <= config.margin
    upward, downward = np.cumprod(passes), np.cumprod(passes[::-1])[::-1]
    certified = (upward | downward).astype(bool)
    points = []
    for i, strength in enumerate(strengths):
        seen = int(labelled[i]), int(gained[i]), int(lost[i])
        points.append(
            CertifiedStrength(
                float(strength),
                int(differing[i]),
                *seen,
                float(bound[i]),
                bool(certified[i]),
                0 if passes[i] else _labels_needed(float(share[i]), *seen, config, level),
                0 if passes[i] else _unlabelled_needed(int(differing[i]), n_unlabelled, config, level),
                float(gain[i]) or None,
            )
        )
    return Certificate(
        margin=config.margin,
        confidence=config.confidence,
        harm=config.harm,
        method=METHOD,
        n_unlabelled=n_unlabelled,
        n_labels=n_labels,
        looks=config.looks,
        points=tuple(points),
    )


def certified_instead(certificate: Certificate) -> float:
    """What takes the place of a strength in use that is not certified: the certified one that fixes most labelled
    answers, of equals the smallest."""
    fixed = {0.0: 0} | {point.strength: point.gained - point.lost for point in certificate.points if point.certified}
    return max(fixed, key=lambda strength: (fixed[strength], -strength))


def upper_bound(successes: Array, n: Array | int, error: float) -> Array:
    """One-sided Clopper-Pearson bound: the share exceeds it with at most this probability; 1 where n is 0.

    Args:
        successes: Counts, shape (S,).
        n: Of how many, a number or shape (S,).
    """
    from scipy.special import betaincinv  # `scipy.stats` takes longer to import than this command otherwise takes

    successes, n = np.broadcast_arrays(successes, n)
    full = successes >= n
    bound = betaincinv(successes + 1, np.where(full, 1, n - successes), 1 - error)
    return np.where(full, 1.0, bound)


def _loss_bound(share: Array, labelled: Array, gained: Array, lost: Array, error: float, harm: str) -> Array:
    """Upper bound of the loss, given one of the share of differing texts."""
    theta = upper_bound(lost, labelled if harm == "harmed" else gained + lost, error)
    bound: Array = share * (theta if harm == "harmed" else np.maximum(0.0, 2 * theta - 1))
    return bound


def _gain_bound(
    differing: Array, n_unlabelled: int, labelled: Array, gained: Array, lost: Array, error: float
) -> Array:
    """Lower bound of the accuracy gained, D q (1 - 2 theta), where q is the share of lost and gained ones among the
    differing; 0 where none is shown."""
    scarce = (1 - _ERROR_OF_DIFFERENCES) * error / 2  # q and theta both need labels
    share = 1 - upper_bound(n_unlabelled - differing, n_unlabelled, _ERROR_OF_DIFFERENCES * error)
    decided = 1 - upper_bound(labelled - gained - lost, labelled, scarce)
    theta = upper_bound(lost, gained + lost, scarce)
    # Rounded down as it is shown, so that no place promises more than another.
    bound: Array = np.floor(1000 * share * decided * np.maximum(0.0, 1 - 2 * theta)) / 1000
    return bound


def _labels_needed(
    share: float, labelled: int, gained: int, lost: int, config: CertifyConfig, level: float
) -> int | None:
    """A number of labelled differing texts, in the proportions seen so far, whose bound is within the margin.

    Counts are rounded against the guard. Without any label the best case is taken: all are gained.
    """
    rates = np.array([gained, lost]) / labelled if labelled else np.array([1.0, 0.0])
    error = (1 - _ERROR_OF_DIFFERENCES) * level

    def would_do(n: int) -> bool:
        got, missed = np.floor(n * rates[:1]), np.ceil(n * rates[1:])
        return bool(_loss_bound(np.array([share]), np.array([n]), got, missed, error, config.harm)[0] <= config.margin)

    return _first_that_would_do(would_do, labelled)


def _unlabelled_needed(differing: int, n_unlabelled: int, config: CertifyConfig, level: float) -> int | None:
    """A number of unlabelled texts, with the share of differing ones seen so far, that needs no label."""

    def would_do(n: int) -> bool:
        expected = np.array([math.ceil(n * differing / n_unlabelled)])
        return bool(upper_bound(expected, n, _ERROR_OF_DIFFERENCES * level)[0] <= config.margin)

    return _first_that_would_do(would_do, n_unlabelled)


def _first_that_would_do(would_do: Callable[[int], bool], seen: int) -> int | None:
    """By doubling and bisection, from what there is; rounding makes small steps back, which it may miss."""
    few, enough = seen, max(1, seen)
    while not would_do(enough):
        few, enough = enough, 2 * enough
        if enough > _MOST_TEXTS:
            return None
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if would_do(middle) else (middle, enough)
    return enough


def texts_to_label(base: Array, guarded: Array, n: int, *, seed: int = 0) -> Array:
    """Unlabelled texts to label for a certificate: a random sample, in random order, of those whose predictions differ.

    The first rows alone are a random sample too, if you choose how many before you see a label.

    Args:
        base: The original model's predictions for N texts, shape (N,).
        guarded: The repaired model's predictions at each strength, shape (S, N).
    """
    differing = np.flatnonzero((guarded != base).any(axis=0))
    return np.random.default_rng(seed).permutation(differing)[:n]
