"""E-values: evidence from answers that come one after the other, which may be looked at after each of them.

An e-value is a number that is at least 0 and at most 1 on average where the null hypothesis holds. A product of such
numbers stays one, so by Ville's inequality it reaches 1/p, at whatever moment one looks, with probability p at most.
"""

from collections.abc import Sequence

THRESHOLD = 20.0
"""The e-value that decides: under the null hypothesis it is reached with probability 1/20 at most."""

_FOR, _AGAINST = 1.5, 0.5


def paired_e_value(successes: int, failures: int) -> float:
    """Evidence against "a success is no more probable than a failure", from answers one after the other.

    1.5^successes * 0.5^failures: the gain of betting half of what one has on each answer.

    Example:
        >>> round(paired_e_value(8, 0), 2), round(paired_e_value(7, 0), 2)
        (25.63, 17.09)
    """
    return float(_FOR**successes * _AGAINST**failures)


def e_bh(e_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of G hypotheses are rejected with a false-discovery rate of at most `level`, however they depend.

    The e-BH procedure (Wang and Ramdas 2022): the k largest e-values, for the largest k of which the smallest is at
    least G / (level k).

    Example:
        >>> e_bh([50.0, 3.0, 45.0])
        [True, False, True]
    """
    order = sorted(range(len(e_values)), key=lambda i: -e_values[i])
    passed = [k for k, i in enumerate(order, start=1) if e_values[i] >= len(e_values) / (level * k)]
    rejected = set(order[: max(passed, default=0)])
    return [i in rejected for i in range(len(e_values))]
