"""The bounds of the paper's Section 5: Fano bounds on identification error, performance ceilings and their gap.

A bound is computed exactly as the paper writes it. Where it says nothing (Fano's bound below zero) it is called vacuous
and keeps its negative value; the ceiling that would follow from it is NaN, because the paper's performance function is
only defined on [0, 1].
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from shortcut_guardrail.errors import ConfigError, DataError

from .information import FloatArray, Unit, check_distribution, entropy, log_of, mutual_information, one_bit

Performance = Callable[[float], float]
"""The paper's rho: from the probability of a right identification, in [0, 1], to expected performance."""

ROUNDING = 1e-9
"""Slack for quantities that come out of sums of doubles, in the unit at hand."""
_GRID_POINTS = 1001


@dataclass(frozen=True)
class FanoBound:
    """A lower bound on the probability of naming the wrong shortcut structure.

    Attributes:
        value: (H - I - one bit) / log(K - 1), as the formula gives it. Below 0 it bounds nothing; it never exceeds 1.
        entropy: H(S*), in `unit`.
        information: What the observation tells about S*, in `unit`.
        num_structures: K, the size of the set that S* comes from, at least 3.
        unit: 'bits' or 'nats'; `value` is the same in both.
    """

    value: float
    entropy: float
    information: float
    num_structures: int
    unit: Unit

    @property
    def vacuous(self) -> bool:
        """Whether the bound is negative and so says nothing about an error."""
        return self.value < 0

    def to_dict(self) -> dict[str, Any]:
        """The fields and `vacuous`, ready for JSON."""
        return asdict(self) | {"vacuous": self.vacuous}


@dataclass(frozen=True)
class IdentificationBounds:
    """`L_train` and `L_deploy` of the paper's Theorem 2, side by side, for one prior over structures.

    Attributes:
        train: Bound for methods that see the training set.
        deploy: Bound for methods that see what is observable at deployment, usually the model's parameters.
    """

    train: FanoBound
    deploy: FanoBound

    @property
    def information_lost(self) -> float:
        """Delta I: information on S* in the training set but not in the deployment observables.

        At least 0, up to rounding, when the paper's Markov chain holds; a negative value shows that it does not.
        """
        return self.train.information - self.deploy.information

    def to_dict(self) -> dict[str, Any]:
        """Both bounds and `information_lost`, ready for JSON."""
        return {
            "train": self.train.to_dict(),
            "deploy": self.deploy.to_dict(),
            "information_lost": self.information_lost,
        }


@dataclass(frozen=True)
class CeilingGap:
    """The paper's Theorem 3: two performance ceilings and what separates them.

    Attributes:
        train_ceiling: rho(1 - L_train); NaN where L_train is vacuous.
        deploy_ceiling: rho(1 - L_deploy); NaN where L_deploy is vacuous.
        gap: train_ceiling - deploy_ceiling, at least 0; NaN where either bound is vacuous.
        xi: A point of [1 - L_deploy, 1 - L_train] where the mean value theorem's equality holds; NaN with `gap`.
        slope_at_xi: rho'(xi); NaN with `gap`.
        predicted_gap: rho'(xi) * information_lost / log(K - 1), the paper's right-hand side; NaN with `gap`.
    """

    train_ceiling: float
    deploy_ceiling: float
    gap: float
    xi: float
    slope_at_xi: float
    predicted_gap: float

    def to_dict(self) -> dict[str, float | None]:
        """The fields, ready for JSON; what is undefined is None."""
        return {name: None if math.isnan(value) else value for name, value in asdict(self).items()}


def fano_bound(entropy: float, information: float, num_structures: int, *, unit: Unit = "bits") -> FanoBound:
    """Fano's lower bound on identification error in the paper's form (its equations for L_train and L_deploy).

    Args:
        entropy: H(S*), in [0, log K].
        information: I(S*; observation), in [0, H(S*)], in the same unit.
        num_structures: K, the number of structures S* can be. At least 3: with 2 the formula divides by log 1 = 0
            (the paper allows 2); `sharp_fano_bound` works from 2 on.
        unit: The unit of both numbers. The constant that is subtracted is one bit, which is ln 2 in nats.

    Returns:
        The bound, negative and `vacuous` where less than one bit about S* is unknown.

    Raises:
        ConfigError: `num_structures` is below 3 or `unit` unknown.
        DataError: `entropy` or `information` lies outside its range.

    Example:
        >>> fano_bound(entropy=3.0, information=0.5, num_structures=8).value.__round__(3)
        0.534
    """
    bit = one_bit(unit)
    _check_num_structures(num_structures, at_least=3)
    _check_range("entropy", entropy, log_of(num_structures, unit), f"log of {num_structures} structures in {unit}")
    _check_range("information", information, entropy, f"the entropy of S* in {unit}")
    value = (entropy - information - bit) / log_of(num_structures - 1, unit)
    return FanoBound(float(value), float(entropy), float(information), num_structures, unit)


def sharp_fano_bound(conditional_entropy: float, num_structures: int, *, unit: Unit = "bits") -> float:
    """Fano's inequality without its simplification: the smallest error that leaves this much uncertainty.

    The paper replaces the binary entropy h(e) in h(e) + e log(K - 1) >= H(S* | observation) by its largest value, one
    bit. Solved for e instead, the inequality gives a bound that is never vacuous and also covers K = 2.

    Args:
        conditional_entropy: H(S* | observation), in [0, log K].
        num_structures: K, at least 2.
        unit: The unit of `conditional_entropy`.

    Returns:
        A lower bound on the error, in [0, 1 - 1/K].

    Raises:
        ConfigError: `num_structures` is below 2 or `unit` unknown.
        DataError: `conditional_entropy` lies outside its range.

    Example:
        >>> round(sharp_fano_bound(1.0, 2), 6), sharp_fano_bound(0.0, 5)
        (0.5, 0.0)
    """
    one_bit(unit)  # refuses an unknown unit
    _check_num_structures(num_structures, at_least=2)
    largest = log_of(num_structures, unit)
    _check_range("conditional_entropy", conditional_entropy, largest, f"log of {num_structures} structures in {unit}")
    if conditional_entropy <= 0:
        return 0.0
    worst_error = 1 - 1 / num_structures
    if conditional_entropy >= largest:
        return worst_error

    def excess(error: float) -> float:
        undecided = entropy([error, 1 - error], unit=unit)
        return undecided + error * log_of(max(num_structures - 1, 1), unit) - conditional_entropy

    # h(e) + e log(K - 1) grows from 0 to log K on [0, 1 - 1/K]; at the very end rounding may leave it just below.
    return float(brentq(excess, 0.0, worst_error, xtol=1e-14)) if excess(worst_error) > 0 else worst_error


def identification_bounds(
    train_joint: ArrayLike, deploy_joint: ArrayLike, *, unit: Unit = "bits"
) -> IdentificationBounds:
    """`L_train` and `L_deploy` from the joint distributions of S* with what each side sees.

    Args:
        train_joint: Joint distribution of S* (rows) and the training set (columns), shape (K, D), K >= 3.
        deploy_joint: Joint distribution of S* and the deployment observables, shape (K, G), with the same row sums.
        unit: 'bits' or 'nats'.

    Returns:
        Both bounds. `information_lost` is negative if the deployment side knows more, which no Markov chain allows.

    Raises:
        DataError: A table is not a two-way distribution, or the two have different priors over S*.
        ConfigError: There are fewer than 3 structures, or `unit` is unknown.
    """
    train = check_distribution(train_joint, name="train_joint", ndim=2)
    deploy = check_distribution(deploy_joint, name="deploy_joint", ndim=2)
    prior = train.sum(axis=1)
    if len(deploy) != len(prior) or not np.allclose(deploy.sum(axis=1), prior, rtol=0, atol=ROUNDING):
        raise DataError(
            "train_joint and deploy_joint must have the same prior over S* (their row sums),"
            f" but have {_shown(prior)} and {_shown(deploy.sum(axis=1))}."
        )
    prior_entropy = entropy(prior / prior.sum(), unit=unit)
    bounds = (
        fano_bound(prior_entropy, mutual_information(joint, unit=unit), len(prior), unit=unit)
        for joint in (train, deploy)
    )
    return IdentificationBounds(*bounds)


def performance_ceiling(bound: FanoBound, rho: Performance) -> float:
    """The paper's Lemma 1: no method whose error is at least `bound` performs better than rho(1 - bound) on average.

    Args:
        bound: A Fano bound.
        rho: Non-decreasing function on [0, 1]: expected performance at a given probability of right identification.

    Returns:
        rho(1 - bound.value); NaN where the bound is vacuous: rho is not defined beyond 1 and not evaluated there.

    Raises:
        ConfigError: `rho` decreases somewhere on [0, 1] or returns something that is not finite.
    """
    _check_non_decreasing(rho)
    return math.nan if bound.vacuous else float(rho(1 - bound.value))


def ceiling_gap(
    bounds: IdentificationBounds, rho: Performance, *, rho_derivative: Performance | None = None
) -> CeilingGap:
    """The paper's Theorem 3: both ceilings, their gap, and the xi at which rho'(xi) * Delta I / log(K - 1) equals it.

    Args:
        bounds: Fano bounds of both sides.
        rho: Non-decreasing and differentiable on [0, 1].
        rho_derivative: rho'; central differences stand in for it if it is not given.

    Returns:
        Ceilings and gap; NaN wherever a vacuous bound leaves them undefined.

    Raises:
        ConfigError: `rho` decreases, is not finite, or has no point that satisfies the mean value theorem, which means
            that it is not differentiable.
        DataError: The deployment side has more information than the training side, so that the Markov chain of the
            theorem does not hold.
    """
    if bounds.information_lost < -ROUNDING:
        raise DataError(
            f"The deployment observables hold {-bounds.information_lost:.6g} {bounds.train.unit} more about S* than the"
            " training set, so S* -> training set -> observables is no Markov chain and the theorem does not apply."
        )
    train_ceiling, deploy_ceiling = (performance_ceiling(bound, rho) for bound in (bounds.train, bounds.deploy))
    if bounds.train.vacuous or bounds.deploy.vacuous:
        return CeilingGap(train_ceiling, deploy_ceiling, math.nan, math.nan, math.nan, math.nan)
    low, high = sorted((1 - bounds.deploy.value, 1 - bounds.train.value))
    xi, slope = mean_value_point(rho, low, high, derivative=rho_derivative)
    predicted = slope * bounds.information_lost / log_of(bounds.train.num_structures - 1, bounds.train.unit)
    return CeilingGap(train_ceiling, deploy_ceiling, train_ceiling - deploy_ceiling, xi, slope, predicted)


def mean_value_point(
    function: Performance, low: float, high: float, *, derivative: Performance | None = None
) -> tuple[float, float]:
    """A point of [low, high] where the derivative equals the slope of the chord, and the derivative there.

    It is the place where the function lies farthest from its chord; the middle if it never leaves the chord.

    Args:
        function: Differentiable on [low, high], within [0, 1].
        low: Left end.
        high: Right end, not below `low`; if equal, the point is `low`.
        derivative: Its derivative; central differences if None.

    Raises:
        ConfigError: No such point is found, so the function is not differentiable; or the interval is reversed or
            leaves [0, 1].
    """
    if not 0 <= low <= high <= 1:
        raise ConfigError(f"low and high must satisfy 0 <= low <= high <= 1, but are {low} and {high}.")
    slope_of = derivative or _numerical_derivative(function)
    if high - low <= ROUNDING:
        return low, float(slope_of(low))
    chord = (function(high) - function(low)) / (high - low)
    point = _farthest_from_chord(function, low, high, chord)
    slope = float(slope_of(point))
    if not abs(slope - chord) <= 1e-4 * max(1.0, abs(chord)):
        raise ConfigError(
            f"rho must be differentiable, but between {low:.4g} and {high:.4g} its slope never meets that of the chord,"
            f" {chord:.4g} (nearest candidate: {slope:.4g} at {point:.4g}). Pass a smooth rho, or its exact derivative."
        )
    return point, slope


def _farthest_from_chord(function: Performance, low: float, high: float, chord: float) -> float:
    def distance(x: float) -> float:
        return float(function(x) - function(low) - chord * (x - low))

    grid = np.linspace(low, high, _GRID_POINTS)
    distances = np.array([distance(float(x)) for x in grid])
    best = int(np.abs(distances).argmax())
    if abs(distances[best]) <= 1e-13:
        return (low + high) / 2
    sign = math.copysign(1.0, distances[best])
    around = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    found = minimize_scalar(lambda x: -sign * distance(x), bounds=around, method="bounded", options={"xatol": 1e-12})
    return float(found.x)


def _numerical_derivative(function: Performance) -> Performance:
    def derivative(x: float) -> float:
        left, right = max(x - 1e-6, 0.0), min(x + 1e-6, 1.0)
        return (function(right) - function(left)) / (right - left)

    return derivative


def _check_non_decreasing(rho: Performance) -> None:
    grid = np.linspace(0, 1, _GRID_POINTS)
    values = np.array([float(rho(float(x))) for x in grid])
    if not np.isfinite(values).all():
        where = float(grid[np.flatnonzero(~np.isfinite(values))[0]])
        raise ConfigError(f"rho must be finite on [0, 1], but is {rho(where)} at {where:.3g}.")
    drops = np.flatnonzero(np.diff(values) < -1e-12)
    if drops.size:
        left, right = grid[drops[0]], grid[drops[0] + 1]
        raise ConfigError(f"rho must not decrease on [0, 1], but falls between {left:.4g} and {right:.4g}.")


def _check_num_structures(num_structures: int, *, at_least: int) -> None:
    whole = isinstance(num_structures, int | np.integer) and not isinstance(num_structures, bool)
    if not whole or num_structures < at_least:
        reason = " (the bound divides by log(num_structures - 1), which is 0 at 2)" if at_least == 3 else ""
        raise ConfigError(f"num_structures must be a whole number from {at_least} on, but is {num_structures}{reason}.")


def _check_range(name: str, value: float, largest: float, meaning: str) -> None:
    if not -ROUNDING <= value <= largest + ROUNDING:  # NaN fails this too
        raise DataError(f"{name} must lie between 0 and {largest:.6g} ({meaning}), but is {value}.")


def _shown(prior: FloatArray) -> str:
    head = ", ".join(f"{share:.4g}" for share in prior[:4])
    return f"[{head}{', ...' if len(prior) > 4 else ''}]"
