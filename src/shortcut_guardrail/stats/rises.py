"""Has a share risen? Evidence from counts that come week after week, which may be looked at after each of them."""

import math
from collections.abc import Sequence

_JOINS = 0.05
"""The part of the money not yet at stake that is put at stake each week: rises begin at an unknown time."""


def rise_evidence(successes: Sequence[int], trials: Sequence[int], *, first: int = 1) -> list[float]:
    """An e-value after each week against "the share is the same in all weeks"; only rises count as evidence.

    How large the share was before is not known, and not needed. Of all texts so far, as many as were successes are
    spread over the weeks as a draw without replacement spreads them. That gives each week a p-value, by Fisher's exact
    test of the week against all before it. With ties broken at random such p-values are independent and uniform: they
    are those of a conformal test (Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, second edition
    2022, chapters 8 and 11). Ours are never smaller. Each is bet against by the mixture of p to the power k - 1 times
    k, over k from 0 to 1. So by Ville's inequality the e-value ever reaches 1/a with probability a at most.

    Args:
        successes: Texts that count, each week.
        trials: All texts, each week; the texts of all weeks are independent.
        first: The first week that is bet on, from 0. Those before it are what it is compared with. They may be why
            somebody looks at this share, as long as a higher count made that likelier: then the baseline is rather too
            high than too low, and alarms are rather too few (independent counts are associated).

    Returns:
        One e-value a week; 1 after the first, which has nothing before it.

    Example:
        >>> [round(e, 2) for e in rise_evidence([10, 11, 9, 40], [1000] * 4)]
        [1.0, 0.98, 0.95, 33495.1]
    """
    from scipy.stats import hypergeom

    at_stake, kept, found, before, all_before = 0.0, 1.0, [], 0, 0
    for week, (count, n) in enumerate(zip(successes, trials, strict=True)):
        if week >= first and all_before and n:
            p = float(hypergeom.sf(count - 1, all_before + n, before + count, n))
            at_stake, kept = min((at_stake + _JOINS * kept) * _gain(p), 1e300), (1 - _JOINS) * kept
        before, all_before = before + count, all_before + n
        found.append(at_stake + kept)
    return found


def _gain(p: float) -> float:
    """The integral of k p^(k - 1) over k from 0 to 1; falls in p, and is 1 on average for a uniform p."""
    p = max(p, 1e-290)
    if p > 1 - 1e-4:  # where the formula loses its digits
        return 0.5
    log = math.log(p)
    return (1 - p + p * log) / (p * log * log)
