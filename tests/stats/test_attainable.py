"""What the test could have found at most: against the exact tests it is made of, and by brute force."""

import numpy as np
from scipy.stats import binom, hypergeom

from shortcut_guardrail.stats.attainable import LARGEST_FACTOR, p_all_opposed, p_of_pull, texts_needed
from shortcut_guardrail.stats.brunner_munzel import p_relative_effect


def test_the_smallest_p_value_is_that_of_texts_that_all_oppose():
    n, against, without = (np.array(x) for x in ((183, 5, 30, 8), (155, 90, 0, 10), (157, 100, 60, 10)))
    rests, others = np.zeros((4, 2)), np.zeros((4, 2))
    rests[:, 0], others[:, 1] = n, without
    answers = hypergeom.sf(n - 1, n + without, n + against, n)
    pairs = p_relative_effect(rests, others, 0.6)
    expected = np.minimum(1, 2 * np.minimum(answers, pairs))
    np.testing.assert_allclose(p_all_opposed(n, against, without, 0.6), expected, rtol=1e-9)
    assert answers[3] > pairs[3]  # where all others are opposed too, how strongly they are decides
    assert answers[2] < pairs[2]
    # Where no text is without the candidate, there is nothing to find.
    assert p_all_opposed(np.array([9]), np.array([0]), np.array([0]), 0.6).tolist() == [1.0]
    # The pull is that of the exact test.
    lost, n = np.array([0, 1, 3, 20]), np.array([10, 1, 10, 20])
    np.testing.assert_allclose(p_of_pull(lost, n, 0.05), binom.sf(lost - 1, n, 0.05), rtol=1e-9)


def needed(n, lost, against, without, level, *, min_count=10):
    columns = (np.array([x], dtype=float) for x in (n, lost, against, without, level))
    return float(texts_needed(*columns, min_count=min_count, min_pull=0.05, min_relative_effect=0.6)[0])


def test_so_many_texts_do_and_one_fewer_does_not():
    # 6 texts, all of which flip; half of 40 others are opposed.
    count = needed(6, 6, 20, 40, 1e-4)

    def smallest(n):
        factor = n / 6
        return p_all_opposed(np.array([n]), np.array([20 * factor]), np.array([40 * factor]), 0.6)[0]

    assert smallest(count) <= 1e-4 < smallest(count - 1)
    assert needed(6, 6, 20, 40, 0.9) == 10  # the fewest that are tested


def test_where_no_number_of_texts_would_do_or_too_many():
    assert np.isnan(needed(6, 0, 20, 40, 1e-3))  # nothing flips
    assert np.isnan(needed(40, 40, 0, 0, 1e-3))  # it is in every text
    assert np.isnan(needed(6, 6, 1, 2, 0.9, min_count=6 * LARGEST_FACTOR + 1))
    assert needed(1, 1, 1, 2, 0.9, min_count=LARGEST_FACTOR) == LARGEST_FACTOR
