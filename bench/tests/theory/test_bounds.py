"""Fano bounds, ceilings and the mean value theorem's xi, on numbers that can be worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortcut_bench import theory
from shortcut_guardrail.errors import ConfigError, DataError


def smooth_step(identified):
    return 0.3 + 0.6 * (3 * identified**2 - 2 * identified**3)


def bounds_of(train_information, deploy_information, num_structures=16):
    total = math.log2(num_structures)
    return theory.IdentificationBounds(
        theory.fano_bound(total, train_information, num_structures),
        theory.fano_bound(total, deploy_information, num_structures),
    )


def test_the_formula_by_hand():
    bound = theory.fano_bound(entropy=3.0, information=0.5, num_structures=8)
    assert bound.value == pytest.approx(1.5 / math.log2(7))
    assert not bound.vacuous
    in_nats = theory.fano_bound(3 * math.log(2), 0.5 * math.log(2), 8, unit="nats")
    assert in_nats.value == pytest.approx(bound.value)


def test_impossible_quantities_are_refused():
    for entropy, information, sentence in (
        (3.1, 0.0, r"entropy must lie between 0 and 3 \(log of 8 structures in bits\), but is 3.1"),
        (-0.1, 0.0, "entropy must lie between 0 and 3"),
        (math.nan, 0.0, "entropy must lie between 0 and 3"),
        (2.0, 2.5, r"information must lie between 0 and 2 \(the entropy of S\* in bits\), but is 2.5"),
    ):
        with pytest.raises(DataError, match=sentence):
            theory.fano_bound(entropy, information, 8)
    with pytest.raises(ConfigError, match=r"num_structures must be a whole number from 3 on, but is 2 .*log.*0 at 2"):
        theory.fano_bound(1.0, 0.0, 2)


def test_performance_is_not_evaluated_beyond_one():
    asked, bound = [], theory.fano_bound(3.0, 2.5, 8)
    assert (bound.value, bound.vacuous) == (pytest.approx(-0.5 / math.log2(7)), True)

    def rho(identified):
        asked.append(identified)
        return identified

    assert math.isnan(theory.performance_ceiling(bound, rho))
    assert theory.performance_ceiling(theory.fano_bound(3.0, 0.0, 8), rho) == pytest.approx(1 - 2 / math.log2(7))
    gap = theory.ceiling_gap(bounds_of(3.9, 0.5), rho)
    assert [math.isnan(value) for value in (gap.gap, gap.train_ceiling, gap.deploy_ceiling)] == [True, True, False]
    assert gap.to_dict()["gap"] is None
    assert all(0 <= x <= 1 for x in asked)


@given(num_structures=st.integers(3, 200), shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_bound_is_never_above_the_sharp_one_nor_above_one(num_structures, shares):
    entropy = shares[0] * math.log2(num_structures)
    information = shares[1] * entropy
    bound = theory.fano_bound(entropy, information, num_structures)
    sharp = theory.sharp_fano_bound(entropy - information, num_structures)
    assert bound.value <= sharp + 1e-9
    assert 0 <= sharp <= 1 - 1 / num_structures


@pytest.mark.parametrize("num_structures", [2, 3, 27])
@pytest.mark.parametrize("error", [0.0, 0.01, 0.2, 0.49])
def test_the_sharp_bound_inverts_fano(num_structures, error):
    binary = 0.0 if error == 0 else -(error * math.log2(error) + (1 - error) * math.log2(1 - error))
    left_open = binary + error * math.log2(num_structures - 1)
    assert theory.sharp_fano_bound(left_open, num_structures) == pytest.approx(error, abs=1e-9)


def test_joints_with_different_priors_are_refused():
    first, second = np.diag([0.2, 0.3, 0.5]), np.diag([0.3, 0.2, 0.5])
    with pytest.raises(DataError, match=r"same prior over S\* .*\[0.2, 0.3, 0.5\] and \[0.3, 0.2, 0.5\]"):
        theory.identification_bounds(first, second)


@given(
    informations=st.tuples(st.floats(0, 3), st.floats(0, 3)).map(sorted),
    curve=st.sampled_from([smooth_step, math.sqrt, math.exp, lambda a: a**5, lambda a: 0.7]),
)
def test_the_gap_is_what_the_theorem_says_for_any_smooth_performance(informations, curve):
    bounds = bounds_of(informations[1], informations[0])
    gap = theory.ceiling_gap(bounds, curve)
    assert gap.gap >= 0
    assert gap.predicted_gap == pytest.approx(gap.gap, abs=1e-4)
    low, high = 1 - bounds.deploy.value, 1 - bounds.train.value
    assert low <= gap.xi <= high


def test_a_falling_infinite_or_jumping_performance_is_refused():
    with pytest.raises(ConfigError, match="rho must be differentiable, but between"):
        theory.ceiling_gap(bounds_of(2.0, 0.5), lambda a: float(a > 0.4))
    with pytest.raises(ConfigError, match=r"rho must not decrease on .* but falls between 0 and 0.001"):
        theory.ceiling_gap(bounds_of(2.0, 0.5), lambda a: -a)
    with pytest.raises(ConfigError, match=r"rho must be finite on .* but is inf at 1"):
        theory.performance_ceiling(bounds_of(2.0, 0.5).train, lambda a: math.inf if a == 1 else a)
