"""AdaFilter: against its definition, evaluated literally."""

import itertools

import numpy as np

from shortcut_guardrail.stats.fdr import levels_needed, q_values


def discoveries(first, second, alpha):
    """The definition of the paper, threshold by threshold."""
    smaller, larger = np.minimum(first, second), np.maximum(first, second)
    kept = [g for g in larger if g * (smaller <= g).sum() <= alpha * max(1, (larger <= g).sum())]
    return larger <= max(kept, default=-1)


def parts(rng, size, signals):
    first, second = rng.random((2, size))
    first[:signals], second[:signals] = rng.random((2, signals)) ** 6
    first[signals : 2 * signals] = 0.0  # one part alone
    return first, second


def test_q_values_are_the_rates_at_which_the_definition_finds_them():
    for seed in range(40):
        first, second = parts(np.random.default_rng(seed), 30, seed % 7)
        q = q_values(first, second)
        for alpha in (0.01, 0.05, 0.2, 0.5):
            np.testing.assert_array_equal(q <= alpha, discoveries(first, second, alpha))


def test_the_level_is_where_a_candidate_begins_to_be_a_discovery():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first, second = parts(rng, 14, seed % 4)
        tested = rng.random(14) < 0.8
        levels = levels_needed(first, second, tested, 0.1)
        q = np.ones(14)
        q[tested] = q_values(first[tested], second[tested])

        for i, factor in itertools.product(np.flatnonzero(q > 0.1), (0.999, 1.001)):
            tests, one, other = tested.copy(), first.copy(), second.copy()
            tests[i], one[i], other[i] = True, levels[i] * factor, levels[i] * factor
            assert (q_values(one[tests], other[tests])[tests[:i].sum()] <= 0.1) == (factor < 1)
    # Where nothing was tested, it is the rate.
    assert levels_needed(np.ones(2), np.ones(2), np.zeros(2, dtype=bool), 0.05).tolist() == [0.05, 0.05]
